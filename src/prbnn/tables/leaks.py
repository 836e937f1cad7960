"""Inputs that give the target away: a copy of it, in other units perhaps, that no new row will have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# share of the target's variance that a straight line through one column leaves unexplained
COPY, NEARLY = 1e-6, 1e-3
FEWEST_ROWS = 8


def leaks(
    inputs: np.ndarray, names: Sequence[str], target: np.ndarray
) -> tuple[list[str], list[str]]:
    """Columns that are the target up to a factor and a shift; and those that nearly are.

    >>> power = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0])
    >>> leaks(np.column_stack([1000 * power, power**0.1]), ["watts", "sun"], power)
    (['watts'], [])
    """
    copies: list[str] = []
    near: list[str] = []
    if len(target) < FEWEST_ROWS or np.ptp(target) == 0:
        return copies, near
    for name, column in zip(names, inputs.T, strict=True):
        if len(np.unique(column)) <= 2:
            continue
        left = 1 - np.corrcoef(column, target)[0, 1] ** 2
        if left < COPY:
            copies.append(name)
        elif left < NEARLY:
            near.append(name)
    return copies, near
