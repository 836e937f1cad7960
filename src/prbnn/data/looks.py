"""Columns that look like categories: for plots and suggestions only, never for checks or proofs."""

from __future__ import annotations

import numpy as np

from prbnn.data.columns import Columns

FEW_VALUES = 12


def few_values(columns: Columns, index: int) -> np.ndarray | None:
    """The values of the input at ``index`` if it is a category or looks like one, else None.

    A number looks like a category if it has 2 values, or at most 12 values that are whole numbers.

    >>> rows = np.array([[0.0, 0.1], [1.0, 0.2], [0.0, 0.3], [1.0, 0.4]])
    >>> table = Columns(("flag", "x"), ("y",), rows, rows[:, :1])
    >>> few_values(table, 0), few_values(table, 1)
    (array([0., 1.]), None)
    """
    values = columns.values(index)
    if values is not None:
        return values
    found = np.unique(columns.rows[:, index])
    whole = np.all(found == np.round(found))
    few = len(found) <= 2 or (whole and len(found) <= min(FEW_VALUES, len(columns.rows) // 4))
    return found if few and len(found) < len(columns.rows) else None
