"""Target leakage: inputs that are copies of the target, possibly in other units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

# fraction of the target's variance that a linear fit to one column leaves unexplained
COPY, NEARLY = 1e-6, 1e-3
FEWEST_ROWS = 8


def leaks(
    inputs: np.ndarray, names: Sequence[str], target: np.ndarray
) -> tuple[list[str], list[str], list[str]]:
    """Three lists of columns: copies of the target up to scale and shift; near copies; a sum.

    Near copies are almost linear in the target, or have the same ranks. The third are columns of which
    a weighted sum is the target. ``names`` are those of the columns of ``inputs``.

    >>> power = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0])
    >>> leaks(np.column_stack([1000 * power, power % 3]), ["watts", "sun"], power)
    (['watts'], [], [])
    """
    copies: list[str] = []
    near: list[str] = []
    if len(target) < FEWEST_ROWS or np.ptp(target) == 0:
        return copies, near, []
    for name, column in zip(names, inputs.T, strict=True):
        if len(np.unique(column)) <= 2:
            continue
        left = 1 - np.corrcoef(column, target)[0, 1] ** 2
        ranked = 1 - np.corrcoef(rankdata(column), rankdata(target))[0, 1] ** 2
        if left < COPY:
            copies.append(name)
        elif left < NEARLY or ranked < COPY:
            near.append(name)
    return copies, near, [] if copies or near else _together(inputs, names, target)


def _together(inputs: np.ndarray, names: Sequence[str], target: np.ndarray) -> list[str]:
    """Columns of which a weighted sum is the target; empty if there are none."""
    moving = np.ptp(inputs, axis=0) > 0
    scaled = (inputs[:, moving] - inputs[:, moving].mean(axis=0)) / inputs[:, moving].std(axis=0)
    centred = target - target.mean()
    if len(target) < 3 * scaled.shape[1] + FEWEST_ROWS:
        return []
    weights, *_ = np.linalg.lstsq(scaled, centred, rcond=None)
    if np.mean((centred - scaled @ weights) ** 2) > COPY * np.mean(centred**2):
        return []
    large = np.abs(weights) > 0.05 * np.abs(weights).max()
    return [name for name, chosen in zip(np.array(names)[moving], large, strict=True) if chosen]
