"""Nearest neighbours before any fit: how noisy a target is, and which pairs of rows to compare."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree
from scipy.stats import norm

# up to this quantile differences of neighbours are taken as noise; those beyond may be bad rows
COUNTED = 0.9
# the noise is estimated from this many rows at most
MOST_ROWS = 5000
# rows agree in a column if they differ by at most this fraction of its standard deviation
NEAR = 0.1
PARTNERS = 8
# weight, in the distance of two rows, of the column that may differ: it only breaks ties
TIE = 1e-6


def noise_of(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Standard deviation of each target's noise, from the differences of nearest neighbours.

    A least squares fit is subtracted first. If noise is normal, the 90 % quantile of |difference| is
    ``1.645 * sqrt(2) * noise``; up to 10 % of the rows may be bad. Distant neighbours also differ for
    other reasons, so with few rows the noise is overestimated.

    >>> generator = np.random.default_rng(0)
    >>> x = generator.uniform(0, 1, (2000, 1))
    >>> float(noise_of(x, 5 * x + generator.normal(0, 0.1, x.shape))[0]).__round__(2)
    0.1
    """
    if len(rows) > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS])
        rows, targets = rows[chosen], targets[chosen]
    scaled = standardised(rows)
    design = np.column_stack([np.ones(len(rows)), scaled])
    rest = targets - design @ np.linalg.lstsq(design, targets, rcond=None)[0]
    _, near = KDTree(scaled).query(scaled, k=2)
    # a row's nearest may be another row at the same place, listed before the row itself
    other = np.where(near[:, 0] == np.arange(len(rows)), near[:, 1], near[:, 0])
    apart = np.quantile(np.abs(rest - rest[other]), COUNTED, axis=0)
    return apart / (norm.ppf((1 + COUNTED) / 2) * 2**0.5)


def standardised(rows: np.ndarray) -> np.ndarray:
    """Columns minus their means, over their standard deviations; constant columns become zeros."""
    spread = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def slopes_of(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Least squares slopes of a target along the standardised columns, one entry per column."""
    scaled = standardised(rows)
    design = np.column_stack([np.ones(len(rows)), scaled])
    return np.linalg.lstsq(design, target, rcond=None)[0][1:]


def near_pairs(
    others: np.ndarray, first: np.ndarray, second: np.ndarray, along: np.ndarray | None = None
) -> np.ndarray:
    """(pairs, 2): pairs of one row of ``first`` and one of ``second`` that agree in ``others``.

    - ``others``: standardised columns in which the rows must agree; without columns all rows do
    - ``first``, ``second``: positions of rows
    - ``along``: a column that decides between partners that agree equally well: the nearest are taken

    Every row, on both sides, is paired with its nearest few.
    """
    if not len(first) or not len(second):
        return np.zeros((0, 2), int)
    if others.shape[1] == 0:
        pairs = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)
    else:
        places = others if along is None else np.column_stack([others, TIE * along])
        forth, back = _nearest(places, first, second), _nearest(places, second, first)
        pairs = np.unique(np.concatenate([forth, back[:, ::-1]]), axis=0)
    return pairs[pairs[:, 0] != pairs[:, 1]]


def _nearest(places: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    count = min(PARTNERS + 1, len(second))
    apart, place = KDTree(places[second]).query(
        places[first], k=count, p=np.inf, distance_upper_bound=NEAR
    )
    apart, place = apart.reshape(len(first), count), place.reshape(len(first), count)
    near = np.isfinite(apart)
    return np.column_stack([np.repeat(first, near.sum(axis=1)), second[place[near]]])
