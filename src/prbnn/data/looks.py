"""Columns that look like categories: for pictures and proposals only, never for what is examined."""

from __future__ import annotations

import numpy as np

from prbnn.data.columns import Columns

FEW_VALUES = 12


def few_values(columns: Columns, index: int) -> np.ndarray | None:
    """The values of a category, or of a number with two values or few whole ones; None for others.

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
