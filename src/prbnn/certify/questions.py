"""What there is to prove of a rule: its score as a function of the point, and the boxes it holds on.

The score is the one that training uses (`prbnn.rules.scoring`), with bounds evaluated at a point that is
traced and so may represent a whole box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.enclosures.programs import Traced
from prbnn.data.columns import Columns
from prbnn.errors import NotEnclosedError
from prbnn.rules.base import Rule
from prbnn.rules.regions import Sampling, Sweep, Swept, swept
from prbnn.rules.scoring.bound import BoundRule, Stated, known_at
from prbnn.rules.scoring.drawn import Drawn
from prbnn.rules.scoring.places import TracedPlace
from prbnn.rules.scoring.quantities import BoundCurvature, BoundDifference, Known
from prbnn.rules.scoring.subjects import Output
from prbnn.rules.statements import Curvature, Quantity, Step

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling

Reading = Callable[[Array], Known]


@dataclass(frozen=True, eq=False)
class Question:
    """One rule: ``score(function, x)`` is >= 0 where it holds, x as the network sees it.

    Scores are in the rule's unit. Deployed, what the rule knows at a point is computed first, from the
    point in the user's units (`known`), and then scored in the network's precision (`bound`).

    - `by_derivatives`: the score of a rule on differences, written with means of derivatives; `second`
      says that these are second derivatives
    - `lower`, `upper`: the boxes, (boxes, inputs) in the user's units
    - `swept`: the columns in which some box has a width; `region` says the boxes in words
    - `rows`: at how many training rows the columns are held that the rule does not sweep, None where it
      sweeps them all
    """

    rule: Rule
    score: Callable[[Drawn, Array], Array]
    known: Reading
    bound: BoundRule
    by_derivatives: Callable[[Traced, Array, Known], Array] | None
    second: bool
    unit: float
    lower: np.ndarray
    upper: np.ndarray
    swept: tuple[int, ...]
    region: str
    rows: int | None


def question(rule: Rule, columns: Columns, scaling: Scaling, rows: int | None) -> Question:
    """Read a rule; `NotEnclosedError` says why one cannot be proved.

    ``rows`` is at how many training rows columns are held that the rule does not sweep, all if None.
    """
    if columns.layout is not None:
        raise NotEnclosedError("rules on sequences are not enclosed")
    lower, upper, region, held_at = boxes(rule.sampling(columns), columns, rows)
    middle = 0.5 * (lower[:1] + upper[:1])
    bound = rule.bind(columns, scaling, middle).without_margin()
    reading = known_at(rule, columns, scaling)
    shift, scale = jnp.asarray(scaling.input_shift), jnp.asarray(scaling.input_scale)

    def known(x: Array) -> Known:
        return reading(TracedPlace(columns, scaling, x))

    def score(function: Drawn, x: Array) -> Array:
        return jnp.ravel(bound.score(function, x, known(x * scale + shift)))

    moving = tuple(int(k) for k in np.flatnonzero(np.any(lower < upper, axis=0)))
    quantity = rule.statements(columns)[0].quantity
    derived = _by_derivatives(quantity, bound, columns, scaling)
    second = isinstance(bound, Stated) and isinstance(bound.quantity, BoundCurvature)
    unit = float(bound.unit)
    return Question(
        rule, score, known, bound, derived, second, unit, lower, upper, moving, region, held_at
    )


def _by_derivatives(
    quantity: Quantity, bound: BoundRule, columns: Columns, scaling: Scaling
) -> Callable[[Traced, Array, Known], Array] | None:
    """A difference over a step as a mean of derivatives: over a small box that says far more."""
    if not isinstance(bound, Stated) or not isinstance(quantity, Curvature | Step):
        return None
    found = bound.quantity
    if not isinstance(found, BoundCurvature | BoundDifference):
        return None
    if not isinstance(found.subject, Output):
        return None
    place, gain = np.array(found.subject.position), found.subject.gain
    index = columns.index(str(quantity.column))
    step = float(quantity.step / scaling.input_scale[index])
    if isinstance(found, BoundCurvature):
        factor = gain * found.per_square * step**2
        return lambda function, x, known: bound.judged(
            function.second(x, index, step)[place] * factor, known
        )
    gain = gain * found.gain * step
    return lambda function, x, known: bound.judged(
        function.rise(x, index, step)[place] * gain, known
    )


def boxes(
    sampling: Sampling, columns: Columns, rows: int | None
) -> tuple[np.ndarray, np.ndarray, str, int | None]:
    """The region as boxes in the user's units, in words, and at how many training rows it is held.

    Columns that are neither named nor swept are held at training rows, ``rows`` of them spread over the
    table (all if None); a category takes each of its values in every combination with other ones.
    """
    parts, words, counts = [], [], []
    for sweep in sampling.region or (Sweep(),):
        read = swept(sweep, sampling, columns)
        base, count, held_words = _spread(columns, read.held, rows)
        parts.append(_boxes_of(read, base, columns))
        words.append(read.words(held_words))
        counts += [count] if read.held else []
    lower, upper = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    return lower, upper, "; or ".join(words), min(counts) if counts else None


def _boxes_of(read: Swept, base: np.ndarray, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = base.astype(np.float64).copy(), base.astype(np.float64).copy()
    for name, (low, high) in read.starts.items():
        index = columns.index(name)
        if name in read.values:
            each = read.values[name]
            lower, upper = (np.repeat(end, len(each), axis=0) for end in (lower, upper))
            lower[:, index] = upper[:, index] = np.tile(each, len(lower) // len(each))
        else:
            lower[:, index], upper[:, index] = low, high
    return lower, upper


def _spread(
    columns: Columns, held: tuple[str, ...], rows: int | None
) -> tuple[np.ndarray, int, str]:
    """Distinct training rows, ``rows`` of them, evenly over the table; how many these are; and in words.

    Rows that agree in the columns held are one slice, so all are covered by as many as are distinct.
    """
    if not held:
        return np.zeros((1, len(columns.inputs))), 0, ""
    index = [columns.index(name) for name in held]
    _, first = np.unique(columns.rows[:, index], axis=0, return_index=True)
    first, total = np.sort(first), len(columns.rows)
    if rows is None or len(first) <= rows:
        return columns.rows[first], total, f"{total} training rows"
    first = first[np.linspace(0, len(first) - 1, rows).round().astype(int)]
    return columns.rows[first], rows, f"{rows} of {total} training rows"
