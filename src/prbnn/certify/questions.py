"""What there is to prove of a rule: its score as a function of the point, and the boxes it holds on.

Training evaluates bounds at points, on the host. A proof needs them over whole boxes, so the same
formulas are traced here; a callable gets rows whose numbers are traced, with numpy's functions and
jax.numpy's alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.enclosures.programs import Traced
from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, NotEnclosedError
from prbnn.rules import comparison, own, shape
from prbnn.rules import values as bounds
from prbnn.rules.base import Rule
from prbnn.rules.expressions import parse
from prbnn.rules.regions import Sampling, Sweep, Swept, swept
from prbnn.rules.scoring.bound import BoundRule, _Bend, _Step
from prbnn.rules.scoring.drawn import Drawn
from prbnn.rules.scoring.subjects import Output, quantity_of
from prbnn.rules.scoring.units import bend_unit, comparison_unit

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling

Known = dict[str, Any]
Reading = Callable[[Array], Any]


@dataclass(frozen=True, eq=False)
class Question:
    """One rule: ``score(function, x)`` is >= 0 where it holds, x as the network sees it.

    Scores are in the rule's unit. Deployed, what the rule knows at a point is computed first, from the
    point in the user's units (`known`), and then scored in the network's precision (`bound`). `level`
    is what the rule limits by derivatives, for rules on differences; `bends` says by second ones.
    `lower` and `upper` are its boxes, (boxes, inputs) in the user's units; `swept` are the columns in
    which some box has a width; `region` says it in words. `rows` is at how many training rows the
    columns are held that the rule does not sweep, None where it sweeps them all.
    """

    rule: Rule
    score: Callable[[Drawn, Array], Array]
    known: Reading
    bound: BoundRule
    level: Callable[[Traced, Array], Array] | None
    bends: bool
    unit: float
    lower: np.ndarray
    upper: np.ndarray
    swept: tuple[int, ...]
    region: str
    rows: int | None


def question(rule: Rule, columns: Columns, scaling: Scaling, rows: int | None) -> Question:
    """Read a rule; `NotEnclosedError` says why one cannot be proved."""
    if columns.layout is not None:
        raise NotEnclosedError("rules on sequences are not enclosed")
    lower, upper, region, held_at = boxes(rule.sampling(columns), columns, rows)
    middle = 0.5 * (lower[:1] + upper[:1])
    bound = rule.bind(columns, scaling, middle).without_margin()
    known = _known(rule, columns, scaling)
    shift, scale = jnp.asarray(scaling.input_shift), jnp.asarray(scaling.input_scale)

    def score(function: Drawn, x: Array) -> Array:
        return jnp.ravel(bound.score(function, x, known(x * scale + shift)))

    moving = tuple(int(k) for k in np.flatnonzero(np.any(lower < upper, axis=0)))
    bends = isinstance(bound, _Bend)
    level = _by_derivatives(rule, bound, columns, scaling)
    unit = float(bound.unit)
    return Question(
        rule, score, known, bound, level, bends, unit, lower, upper, moving, region, held_at
    )


def _by_derivatives(
    rule: Any, bound: BoundRule, columns: Columns, scaling: Scaling
) -> Callable[[Traced, Array], Array] | None:
    """A difference over a step as a mean of derivatives: over a small box that says far more."""
    if not isinstance(bound, _Bend | _Step) or not isinstance(bound.quantity, Output):
        return None
    place, gain = np.array(bound.quantity.position), bound.quantity.gain
    if isinstance(bound, _Bend):
        index, step = columns.index(rule.column), shape.bend_step(rule, columns)
        step = float(step / scaling.input_scale[index])
        factor = gain * bound.per_square * step**2
        return lambda function, x: function.second(x, index, step)[place] * factor
    if not isinstance(rule, shape.Increasing | shape.Decreasing):
        return None
    index = columns.index(rule.column)
    step = float(rule.over / scaling.input_scale[index])
    # `_Step` scores first - second, and asks for it to be 0 or above
    gain = gain * bound.gain * step
    return lambda function, x: (
        function.rise(x, index, step)[place]
        * (gain if isinstance(rule, shape.Increasing) else -gain)
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
        base, count, told = _spread(columns, read.held, rows)
        parts.append(_boxes_of(read, base, columns))
        words.append(read.words(told))
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


class Rows(np.lib.mixins.NDArrayOperatorsMixin):
    """Traced rows for a user's callable: columns by name, numpy's functions traced."""

    def __init__(self, array: Array, names: tuple[str, ...] = ()):
        self.array, self.names = array, names

    def __jax_array__(self) -> Array:
        return self.array

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the numbers."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """How many axes they have."""
        return self.array.ndim

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Rows]:
        return (self[place] for place in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Refused: numpy would otherwise index its way to an end that traced rows do not have."""
        raise TypeError("rows that are traced have no numbers")

    def __getitem__(self, key: Any) -> Rows:
        if isinstance(key, str):
            if key not in self.names:
                raise KnowledgeError(f"no column {key!r}; known names: {', '.join(self.names)}")
            return Rows(self.array[:, self.names.index(key)])
        return Rows(self.array[key])

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options or not hasattr(jnp, function.__name__):
            return NotImplemented
        return Rows(getattr(jnp, function.__name__)(*(_plain(each) for each in inputs)))

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        if not hasattr(jnp, function.__name__):
            return NotImplemented
        plain = jax.tree.map(_plain, list(inputs), is_leaf=lambda each: isinstance(each, Rows))
        return Rows(getattr(jnp, function.__name__)(*plain, **options))


def _plain(value: Any) -> Any:
    return value.array if isinstance(value, Rows) else value


def _at(bound: Any, columns: Columns, x: Array) -> Array:
    """A bound at one point in the user's units."""
    if isinstance(bound, str):
        expression = parse(bound, columns.inputs)
        named = {name: x[columns.index(name)] for name in expression.names}
        return jnp.asarray(expression.evaluate(named, jnp), float).reshape(())
    if callable(bound):
        try:
            found = bound(Rows(x[None], columns.inputs))
            return jnp.asarray(_plain(found), float).reshape(())
        except Exception as error:
            name = getattr(bound, "__name__", "a callable")
            raise NotEnclosedError(
                f"{name} could not be traced ({type(error).__name__}: {error}); write it with "
                "jax.numpy, or as text"
            ) from None
    return jnp.asarray(float(bound))


@singledispatch
def _known(rule: Rule, columns: Columns, scaling: Scaling) -> Reading:
    """What the rule knows at a point, as `prbnn.rules.scoring.bound` computes it beforehand."""
    raise NotEnclosedError(f"{type(rule).__name__} is not a rule that can be enclosed")


def _limits(columns: Columns, shift: float, unit: float, **ends: Any) -> Reading:
    given = {name: end for name, end in ends.items() if end is not None}
    return lambda x: {name: (_at(end, columns, x) - shift) / unit for name, end in given.items()}


@_known.register(bounds.AtLeast)
@_known.register(bounds.AtMost)
@_known.register(bounds.Between)
@_known.register(bounds.Equals)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    _, unit, shift = quantity_of(rule.of, columns, scaling, rule.at)
    match rule:
        case bounds.AtLeast():
            return _limits(columns, shift, unit, lower=rule.bound)
        case bounds.AtMost():
            return _limits(columns, shift, unit, upper=rule.bound)
        case bounds.Between():
            return _limits(columns, shift, unit, lower=rule.lower, upper=rule.upper)
    within = unit / 100 if rule.within is None else rule.within

    def equals(x: Array) -> Known:
        value = _at(rule.value, columns, x)
        return {"lower": (value - within - shift) / unit, "upper": (value + within - shift) / unit}

    return equals


@_known.register(bounds.OneOf)
@_known.register(bounds.Outside)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    _, unit, shift = quantity_of(rule.of, columns, scaling, rule.at)
    return lambda x: {
        name: jnp.stack([(_at(pair[k], columns, x) - shift) / unit for pair in rule.intervals])
        for k, name in enumerate(("lower", "upper"))
    }


def _into(scaling: Scaling, changes: Mapping[int, Reading]) -> Callable[[Array], Array]:
    """A point in the user's units with some columns changed, as the network sees it."""
    shift, scale = jnp.asarray(scaling.input_shift), jnp.asarray(scaling.input_scale)

    def changed(x: Array) -> Array:
        moved = x
        for index, value in changes.items():
            moved = moved.at[index].set(value(x))
        return (moved - shift) / scale

    return changed


def _ahead(columns: Columns, scaling: Scaling, column: str, step: float) -> Callable:
    index = columns.index(column)
    return _into(scaling, {index: lambda x: x[index] + step})


@_known.register(shape.Increasing)
@_known.register(shape.Decreasing)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    rises, zero = isinstance(rule, shape.Increasing), jnp.zeros(())
    if rule.over is None:
        return lambda x: {"lower" if rises else "upper": zero}
    moved = _ahead(columns, scaling, rule.column, rule.over)
    return lambda x: {"lower": zero, "first" if rises else "second": moved(x)}


@_known.register(shape.SlopeBetween)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    _, unit, _ = quantity_of(rule.of, columns, scaling, rule.at)
    unit = unit / scaling.input_sd[columns.index(rule.column)]
    return _limits(columns, 0.0, unit, lower=rule.lower, upper=rule.upper)


@_known.register(shape.Convex)
@_known.register(shape.Concave)
@_known.register(shape.CurvatureBetween)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    _, unit, _ = quantity_of(rule.of, columns, scaling, rule.at)
    step = shape.bend_step(rule, columns)
    unit = bend_unit(rule, step, unit, columns, scaling)
    match rule:
        case shape.Convex():
            limits = _limits(columns, 0.0, unit, lower=0.0)
        case shape.Concave():
            limits = _limits(columns, 0.0, unit, upper=0.0)
        case _:
            limits = _limits(columns, 0.0, unit, lower=rule.lower, upper=rule.upper)
    ahead, behind = (_ahead(columns, scaling, rule.column, by) for by in (step, -step))
    return lambda x: {**limits(x), "ahead": ahead(x), "behind": behind(x)}


@_known.register(comparison.Compare)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    _, unit, _ = quantity_of(rule.of, columns, scaling, rule.at)
    unit = comparison_unit(rule, unit, columns, scaling)

    def side(changes: Mapping[str, Any]) -> Callable[[Array], Array]:
        read = {columns.index(c): partial(_at, value, columns) for c, value in changes.items()}
        return _into(scaling, read)

    first, second = side(rule.set), side(rule.against)

    def reading(x: Array) -> Known:
        by = _at(rule.by, columns, x) / unit
        limits = {
            "below": {"upper": -by},
            "above": {"lower": by},
            "within": {"lower": -by, "upper": by},
        }[rule.relation]
        return {**limits, "first": first(x), "second": second(x)}

    return reading


@_known.register(own.Score)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    return lambda x: {}


@_known.register(own.Combined)
def _(rule: Any, columns: Columns, scaling: Scaling) -> Reading:
    parts = [_known(part, columns, scaling) for part in rule.parts]
    return lambda x: {str(place): part(x) for place, part in enumerate(parts)}
