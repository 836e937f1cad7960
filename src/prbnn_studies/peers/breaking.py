"""How often functions break rules at fresh points, which no method has seen in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from prbnn.data.columns import Columns
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.regions import Sweep, sample, swept
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks
from prbnn_studies.peers.knowledge import statement_of

# drawn functions that are evaluated, spread over those stored
CHECKED_DRAWS = 200
# points at a time: what hidden layers at more points take does not fit into a cache
BLOCK = 12_500
# a seed that neither training nor checks use
FRESH_SEED = 1000
# steps along a column, as fractions of its range
SHORTEST_STEP = 0.01

Function = Callable[[np.ndarray], np.ndarray]


class Breaking(NamedTuple):
    """Fractions over all rules.

    - `functions`: of functions that break some rule at some point
    - `points`: of points where a function breaks a rule, mean over functions and rules
    - `worst`: the largest violation in the rule's unit, 0 where there is none
    """

    functions: float
    points: float
    worst: float


def of_draws(posterior: Posterior, rules: Sequence[Rule], points: int) -> Breaking:
    """Stored draws, by the library's own scores (slopes, not differences), in blocks of points."""
    few = min(len(posterior), CHECKED_DRAWS)
    some = posterior.take(np.arange(few) * len(posterior) // few)
    blocks = -(-points // BLOCK)
    broken, fraction, worst = np.zeros(few, bool), 0.0, 0.0
    for number in range(blocks):
        fresh = some.bind(rules, -(-points // blocks), seed=FRESH_SEED + number)
        check = some.check(rules, fresh)
        broken |= ~check.obeys()
        fraction += float(np.mean(check.points)) / blocks
        worst = max(worst, -float(np.min(check.worst)))
    return Breaking(float(np.mean(broken)), fraction, worst)


def of_functions(
    functions: Sequence[Function], rules: Sequence[Rule], columns: Columns, points: int
) -> Breaking:
    """Functions of rows: values against limits, and pairs of values a step apart along a column.

    Scores are in standard deviations of the target. Trees are flat between their steps, so slopes would
    miss where they fall: steps are between 1/100 of the column's range and all of it.
    """
    unit = float(np.std(columns.targets)) or 1.0
    broken, fractions, worst = np.zeros(len(functions), bool), [], 0.0
    for rule in rules:
        stated = statement_of(rule, columns)
        at = sample(rule.sampling(columns), columns, points, FRESH_SEED)
        ends = (at,) if stated.quantity.column is None else _pairs(rule, columns, at)
        for place, function in enumerate(functions):
            values = [in_blocks(function, rows) for rows in ends]
            if len(values) == 2:
                score = stated.direction * (values[1] - values[0]) / unit
            else:
                low, high = stated.limits
                above = np.inf if low is None else values[0] - low
                below = np.inf if high is None else high - values[0]
                score = np.minimum(above, below) / unit
            found = breaks(score, CHECK_TOLERANCE)
            broken[place] |= bool(np.any(found))
            fractions.append(float(np.mean(found)))
            worst = max(worst, -float(np.min(score)))
    return Breaking(float(np.mean(broken)), float(np.mean(fractions)), worst)


def _pairs(rule: Rule, columns: Columns, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of rows that differ in the rule's column alone, in which the second are higher."""
    sampling = rule.sampling(columns)
    (box,) = sampling.region or (Sweep(),)
    column = str(sampling.column)
    low, high = swept(box, sampling, columns).ranges[column]
    place = columns.index(column)
    levels = np.random.default_rng(FRESH_SEED).random(len(at))
    step = (high - low) * SHORTEST_STEP**levels
    here = at[:, place]
    there = np.where(here + step <= high, here + step, np.maximum(here - step, low))
    lower, upper = at.copy(), at.copy()
    lower[:, place], upper[:, place] = np.minimum(here, there), np.maximum(here, there)
    return lower, upper


def in_blocks(function: Function, rows: np.ndarray) -> np.ndarray:
    """The values of a function, computed for a bounded number of rows at a time."""
    return np.concatenate(
        [function(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
    )
