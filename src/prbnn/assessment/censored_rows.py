"""Rules and censored rows: a row breaks a rule only if every value in its interval does."""

from __future__ import annotations

import numpy as np

from prbnn.data.censoring import Intervals
from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import lowest

# values of an interval that are evaluated, and how often the search goes on between the best and its
# neighbours
VALUES = 17
ROUNDS = 8
# an open interval is searched this many standard deviations of the target beyond its end
FAR = 1e4


def most_obedient(
    rule: Rule,
    columns: Columns,
    scaling: Scaling,
    points: np.ndarray,
    targets: np.ndarray,
    cut: Intervals | None,
) -> np.ndarray:
    """``targets`` with each censored one at the value of its interval where the rule's score is highest.

    ``points`` (rows, inputs), ``targets`` and ``cut`` are of the same rows, in the user's units. Outputs
    are searched one after the other.
    """
    if cut is None or cut.exact.all():
        return targets
    found = targets.copy()
    size = np.where(np.ptp(columns.targets, axis=0) > 0, np.std(columns.targets, axis=0), 1.0)
    for output in range(targets.shape[1]):
        rows = np.flatnonzero(~cut.exact[:, output])
        if not len(rows):
            continue
        low, high = _finite(cut.low[rows, output], cut.high[rows, output], FAR * size[output])
        for _ in range(ROUNDS):
            grid = np.linspace(low, high, VALUES)
            tried = np.tile(found[rows], (VALUES, 1, 1))
            tried[:, :, output] = grid
            score = _scores(rule, columns, scaling, points[rows], tried)
            if score is None:
                return targets
            best = np.argmax(score, axis=0)
            picked = np.arange(len(rows))
            found[rows, output] = grid[best, picked]
            low = grid[np.maximum(best - 1, 0), picked]
            high = grid[np.minimum(best + 1, VALUES - 1), picked]
    return found


def _finite(low: np.ndarray, high: np.ndarray, far: float) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.where(np.isneginf(low), high - far, low),
        np.where(np.isposinf(high), low + far, high),
    )


def _scores(
    rule: Rule, columns: Columns, scaling: Scaling, points: np.ndarray, tried: np.ndarray
) -> np.ndarray | None:
    """Least score (values, rows) of each row at each value; None where the rule is not about values."""
    many = np.tile(points, (len(tried), 1))
    (score,) = scores_of_values([rule], columns, scaling, many, tried.reshape(len(many), -1))
    if score is None:
        return None
    return np.nan_to_num(lowest(score, axis=1), nan=-np.inf).reshape(len(tried), -1)
