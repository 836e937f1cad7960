"""Rules ready to score: their numbers at given points, as arrays, divided by the rule's unit.

``score(function, x, known)`` is for one drawn function and one point, and >= 0 where the rule
holds; ``known`` holds what depends on the point alone, computed beforehand in float64.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError
from prbnn.rules import along_time as sequence
from prbnn.rules import comparison, own, shape
from prbnn.rules import values as bounds
from prbnn.rules.base import Rule
from prbnn.rules.evaluation import at_points
from prbnn.rules.scoring.drawn import Drawn, Frame, Point, frame_of
from prbnn.rules.scoring.subjects import Output, Quantity, quantity_of
from prbnn.rules.scoring.units import bend_unit, change_unit, comparison_unit, trend_unit

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling


# arrays with one entry a point; a combined rule holds its parts' own, by position
Known = dict[str, Any]


class BoundRule(eqx.Module):
    """A rule with its numbers in place; scores come out in multiples of ``unit``."""

    unit: Float[Array, ""]
    margin: Float[Array, ""]
    known: Known

    @abstractmethod
    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        """One or several scores at one point, >= 0 where the rule holds."""

    @property
    def component_weights(self) -> Array | None:
        """Weights of the components of an array score; None is their mean."""
        return None

    @property
    def of_values(self) -> bool:
        """Whether the outputs at a point decide; slopes and comparisons need the function."""
        return isinstance(self, _Limits | _Union | _Smooth | _Along)

    def general(self) -> BoundRule:
        """The same rule with its columns and outputs as numbers, so that it stacks with others."""
        return self

    @property
    def in_units(self) -> bool:
        """Whether known limits are in the rule's unit; a smooth score has none."""
        return not isinstance(self, _Smooth)

    def without_margin(self) -> BoundRule:
        """The same rule, asked to hold exactly."""
        return eqx.tree_at(lambda rule: rule.margin, self, jnp.zeros_like(self.margin))


class _OfQuantity(BoundRule):
    """A rule about one quantity."""

    quantity: Quantity

    def general(self) -> BoundRule:
        return eqx.tree_at(lambda rule: rule.quantity, self, self.quantity.general())


class _Limits(_OfQuantity):
    """lower <= level <= upper, either end optional: score = min(level - lower, upper - level)."""

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        return _inside(self.quantity.level(function, x), known)


class _Union(_OfQuantity):
    """Inside one of several intervals, or outside all of them."""

    inside: bool = eqx.field(static=True)

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        level = self.quantity.level(function, x)[..., None]
        lower, upper = known["lower"], known["upper"]
        if self.inside:
            return jnp.max(jnp.minimum(level - lower, upper - level), axis=-1)
        return jnp.min(jnp.maximum(lower - level, level - upper), axis=-1)


class _Smooth(_OfQuantity):
    """Outside several intervals, as OC-BNN scores it; the score has no unit."""

    per_unit: Float[Array, " sharpness"]

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        level = self.quantity.level(function, x)[..., None]

        def below(z: Array) -> Array:
            return jnp.prod(1 - jnp.tanh(z[..., None] * self.per_unit), axis=-1) / 4

        return -jnp.sum(below(level - known["upper"]) * below(known["lower"] - level), axis=-1)


class _Slope(_OfQuantity):
    """Limits on d level / d x, with x in standard deviations of its column."""

    index: int = eqx.field(static=True)
    per_deviation: Float[Array, ""]

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        return _inside(self.quantity.rate(function, x, self.index) * self.per_deviation, known)

    def general(self) -> BoundRule:
        return _AnySlope(
            self.unit,
            self.margin,
            self.known,
            self.quantity.general(),
            jnp.asarray(self.index),
            self.per_deviation,
        )


class _AnySlope(_OfQuantity):
    """The same along a column that is a number."""

    index: Int[Array, ""]
    per_deviation: Float[Array, ""]

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        return _inside(self.quantity.rate(function, x, self.index) * self.per_deviation, known)


class _Step(_OfQuantity):
    """level(first) - level(second) within limits: trends over a step, and comparisons.

    Where one of the two is not among the known arrays, it is the point itself. ``gain`` is the output's
    unit over the rule's, which is that of a difference over its step.
    """

    gain: Float[Array, ""]

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        first = self.quantity.level(function, known.get("first", x))
        second = self.quantity.level(function, known.get("second", x))
        return _inside((first - second) * self.gain, known)


class _Bend(_OfQuantity):
    """Limits on the second difference over a step, in the rule's unit per squared step."""

    per_square: Float[Array, ""]

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        middle = self.quantity.level(function, x)
        ahead = self.quantity.level(function, known["ahead"])
        behind = self.quantity.level(function, known["behind"])
        return _inside((ahead - 2 * middle + behind) * self.per_square, known)


class _Along(BoundRule):
    """Limits on the change a step of a trajectory, taken over some steps.

    With an ``index``, the last observed value ``x[index] * gain + shift`` comes before the first step.
    ``change`` is the output's unit over the rule's, which is that of a change per step.
    """

    quantity: Quantity
    lag: int = eqx.field(static=True)
    index: int | None = eqx.field(static=True)
    gain: Float[Array, ""]
    shift: Float[Array, ""]
    change: Float[Array, ""]

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        level = self.quantity.level(function, x)
        if self.index is not None:
            before = x[self.index] * self.gain + self.shift
            level = jnp.concatenate([before[None], level])
        change = (level[self.lag :] - level[: -self.lag]) * (self.change / self.lag)
        return _inside(change, known)


class _Own(BoundRule):
    """A user's score, called with a point in the user's units."""

    frame: Frame
    call: Any = eqx.field(static=True)

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        return jnp.asarray(self.call(function, Point(x, self.frame))) / self.unit


class _Combined(BoundRule):
    """Several rules' scores side by side, each less its own margin."""

    parts: tuple[BoundRule, ...]
    weights: Float[Array, " parts"]
    sizes: tuple[int, ...] = eqx.field(static=True)

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        return jnp.concatenate(
            [
                jnp.ravel(part.score(function, x, known[str(place)]) - part.margin)
                for place, part in enumerate(self.parts)
            ]
        )

    @property
    def component_weights(self) -> Array | None:
        sizes = np.array(self.sizes)
        return jnp.repeat(self.weights / sizes, sizes, total_repeat_length=int(sizes.sum()))

    def without_margin(self) -> BoundRule:
        bare = eqx.tree_at(lambda rule: rule.margin, self, jnp.zeros_like(self.margin))
        parts = tuple(part.without_margin() for part in self.parts)
        return eqx.tree_at(lambda rule: rule.parts, bare, parts)


def _inside(level: Array, known: Known) -> Array:
    score = None
    if "lower" in known:
        score = level - known["lower"]
    if "upper" in known:
        above = known["upper"] - level
        score = above if score is None else jnp.minimum(score, above)
    assert score is not None
    return score


def bind(rule: Rule, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    """Evaluate everything in ``rule`` that depends on the points alone; errors name the rule."""
    try:
        bound = _bind(rule, columns, scaling, points)
        _components(bound, columns, scaling)
        return bound
    except KnowledgeError as error:
        raise error.named(rule.label) from None
    except jax.errors.TracerBoolConversionError as error:
        raise KnowledgeError(
            f"rule {rule.label!r}: a score may not use Python's if, and, or on values; use "
            "jax.numpy.where instead"
        ) from error
    except Exception as error:
        raise KnowledgeError(f"rule {rule.label!r}: {type(error).__name__}: {error}") from error


def _components(bound: BoundRule, columns: Columns, scaling: Scaling) -> int:
    """How many scores a rule has at a point; tracing it also finds mistakes in users' functions.

    Rules about outputs as they are call no such function, and tracing hundreds of them takes seconds.
    """
    if isinstance(bound, _OfQuantity) and isinstance(bound.quantity, Output):
        return int(np.size(bound.quantity.position))
    zeros = jnp.zeros(len(columns.outputs))

    def score(x: Array, known: Known) -> Array:
        function = Drawn(lambda x: zeros + jnp.sum(x), frame_of(columns, scaling))
        return bound.score(function, x, known)

    known = jax.tree.map(lambda array: array[0], bound.known)
    return int(np.prod(jax.eval_shape(score, jnp.zeros(len(columns.inputs)), known).shape))


@singledispatch
def _bind(rule: Rule, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    raise KnowledgeError(f"{type(rule).__name__} is not a rule that can be scored")


def _common(rule: Rule, unit: float) -> dict[str, Any]:
    return {"unit": jnp.asarray(unit, float), "margin": jnp.asarray(rule.margin / unit, float)}


def _known(**arrays: np.ndarray | None) -> Known:
    return {name: jnp.asarray(a, float) for name, a in arrays.items() if a is not None}


@_bind.register(bounds.AtLeast)
@_bind.register(bounds.AtMost)
@_bind.register(bounds.Between)
@_bind.register(bounds.Equals)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    quantity, unit, shift = quantity_of(rule.of, columns, scaling, rule.at)
    lower, upper = _value_limits(rule, columns, points, unit)
    if lower is not None and upper is not None:
        _check_order(columns, points, lower, upper)
    return _Limits(
        **_common(rule, unit),
        known=_known(lower=_level(lower, shift, unit), upper=_level(upper, shift, unit)),
        quantity=quantity,
    )


def _value_limits(rule: Any, columns: Columns, points: np.ndarray, unit: float):
    match rule:
        case bounds.AtLeast():
            return at_points(rule.bound, columns, points, "bound"), None
        case bounds.AtMost():
            return None, at_points(rule.bound, columns, points, "bound")
        case bounds.Between():
            return (
                at_points(rule.lower, columns, points, "lower"),
                at_points(rule.upper, columns, points, "upper"),
            )
        case _:
            value = at_points(rule.value, columns, points, "value")
            within = unit / 100 if rule.within is None else rule.within
            return value - within, value + within


def _level(limit: np.ndarray | None, shift: float, unit: float) -> np.ndarray | None:
    return None if limit is None else (limit - shift) / unit


def _check_order(columns: Columns, points: np.ndarray, lower: np.ndarray, upper: np.ndarray):
    wrong = np.flatnonzero(lower > upper)
    if len(wrong):
        at = wrong[0]
        place = ", ".join(f"{n}={v:g}" for n, v in zip(columns.inputs, points[at], strict=True))
        raise KnowledgeError(
            f"lower is above upper at {len(wrong)} of {len(points)} sampled points, first at "
            f"{place}: {np.ravel(lower)[at]:g} > {np.ravel(upper)[at]:g}; swap or loosen the bounds"
        )


@_bind.register(bounds.OneOf)
@_bind.register(bounds.Outside)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    quantity, unit, shift = quantity_of(rule.of, columns, scaling, rule.at)
    lower = np.stack([at_points(a, columns, points, "low end") for a, _ in rule.intervals], axis=1)
    upper = np.stack([at_points(b, columns, points, "high end") for _, b in rule.intervals], axis=1)
    for k in range(lower.shape[1]):
        _check_order(columns, points, lower[:, k], upper[:, k])
    known = _known(lower=_level(lower, shift, unit), upper=_level(upper, shift, unit))
    smooth = getattr(rule, "smooth", None)
    if smooth is not None:
        sharpness = jnp.asarray(np.array(smooth) * unit, float)
        return _Smooth(**_common(rule, 1.0), known=known, quantity=quantity, per_unit=sharpness)
    return _Union(
        **_common(rule, unit),
        known=known,
        quantity=quantity,
        inside=isinstance(rule, bounds.OneOf),
    )


@_bind.register(shape.Increasing)
@_bind.register(shape.Decreasing)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    rises = isinstance(rule, shape.Increasing)
    zeros = np.zeros(len(points))
    if rule.over is None:
        return _slope(rule, columns, scaling, zeros if rises else None, None if rises else zeros)
    quantity, value_unit, _ = quantity_of(rule.of, columns, scaling, rule.at)
    unit = trend_unit(rule, value_unit, columns, scaling)
    ahead = scaling.inputs(_moved(points, columns.index(rule.column), rule.over))
    return _Step(
        **_common(rule, unit),
        known=_known(lower=zeros, **{"first" if rises else "second": ahead}),
        quantity=quantity,
        gain=jnp.asarray(value_unit / unit, float),
    )


@_bind.register(shape.SlopeBetween)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    lower, upper = _optional_limits(rule, columns, points)
    return _slope(rule, columns, scaling, lower, upper)


def _optional_limits(rule: Any, columns: Columns, points: np.ndarray):
    lower = None if rule.lower is None else at_points(rule.lower, columns, points, "lower")
    upper = None if rule.upper is None else at_points(rule.upper, columns, points, "upper")
    if lower is not None and upper is not None:
        _check_order(columns, points, lower, upper)
    return lower, upper


def _slope(rule: Any, columns: Columns, scaling: Scaling, lower, upper) -> BoundRule:
    quantity, value_unit, _ = quantity_of(rule.of, columns, scaling, rule.at)
    index = columns.index(rule.column)
    unit = value_unit / scaling.input_sd[index]
    return _Slope(
        **_common(rule, unit),
        known=_known(lower=_level(lower, 0.0, unit), upper=_level(upper, 0.0, unit)),
        quantity=quantity,
        index=index,
        per_deviation=jnp.asarray(scaling.input_sd[index] / scaling.input_scale[index], float),
    )


@_bind.register(shape.Convex)
@_bind.register(shape.Concave)
@_bind.register(shape.CurvatureBetween)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    quantity, value_unit, _ = quantity_of(rule.of, columns, scaling, rule.at)
    index, step = columns.index(rule.column), shape.bend_step(rule, columns)
    unit = bend_unit(rule, step, value_unit, columns, scaling)
    zeros = np.zeros(len(points))
    match rule:
        case shape.Convex():
            lower, upper = zeros, None
        case shape.Concave():
            lower, upper = None, zeros
        case _:
            lower, upper = _optional_limits(rule, columns, points)
    return _Bend(
        **_common(rule, unit),
        known=_known(
            lower=_level(lower, 0.0, unit),
            upper=_level(upper, 0.0, unit),
            ahead=scaling.inputs(_moved(points, index, step)),
            behind=scaling.inputs(_moved(points, index, -step)),
        ),
        quantity=quantity,
        per_square=jnp.asarray(value_unit / step**2 / unit, float),
    )


def _moved(points: np.ndarray, index: int, step: float) -> np.ndarray:
    moved = points.copy()
    moved[:, index] += step
    return moved


@_bind.register(comparison.Compare)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    quantity, value_unit, _ = quantity_of(rule.of, columns, scaling, rule.at)
    unit = comparison_unit(rule, value_unit, columns, scaling)
    by = at_points(rule.by, columns, points, "by") / unit
    _check_by(columns, points, by * unit)
    limits = {
        "below": {"upper": -by},
        "above": {"lower": by},
        "within": {"lower": -by, "upper": by},
    }[rule.relation]
    return _Step(
        **_common(rule, unit),
        known=_known(
            first=scaling.inputs(_changed(rule.set, columns, points)),
            second=scaling.inputs(_changed(rule.against, columns, points)),
            **limits,
        ),
        quantity=quantity,
        gain=jnp.asarray(value_unit / unit, float),
    )


def _check_by(columns: Columns, points: np.ndarray, by: np.ndarray) -> None:
    wrong = np.flatnonzero(by < 0)
    if len(wrong):
        place = points[wrong[0]]
        at = ", ".join(f"{n}={v:g}" for n, v in zip(columns.inputs, place, strict=True))
        raise KnowledgeError(
            f"by is below 0 at {len(wrong)} of {len(points)} points of the region, first at {at}: "
            f"{by[wrong[0]]:g}; narrow `where`, or write maximum(0, ...)"
        )


def _changed(changes: Any, columns: Columns, points: np.ndarray) -> np.ndarray:
    changed = points.copy()
    for column, value in changes.items():
        changed[:, columns.index(column)] = at_points(value, columns, points, f"value of {column}")
    return changed


@_bind.register(sequence.Along)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    layout = columns.layout
    if layout is None or not layout.ahead:
        raise KnowledgeError(
            f"{type(rule).__name__} speaks of time, and these outputs have no steps"
        )
    joins = isinstance(rule, sequence.Continues)
    at = "first" if joins else None
    quantity, value_unit, _ = quantity_of(rule.variable, columns, scaling, at)
    lag = 1 if joins else rule.lag
    index = layout.observed(rule.variable)[-1] if joins or rule.observed else None
    if lag > layout.ahead - (index is None):
        raise KnowledgeError(f"lag={lag} is too long for {layout.ahead} step(s) ahead")
    lower, upper = {
        sequence.Falls: (None, 0.0),
        sequence.Rises: (0.0, None),
        sequence.RateBetween: (getattr(rule, "lower", None), getattr(rule, "upper", None)),
        sequence.Continues: (-getattr(rule, "within", 0.0), getattr(rule, "within", 0.0)),
    }[type(rule)]
    positions = layout.positions(rule.variable)
    unit = value_unit if joins else change_unit(value_unit, positions, lag, columns)
    every = np.ones(len(points)) / unit
    shift = 0.0 if index is None else scaling.input_shift[index]
    place = positions[0]
    return _Along(
        **_common(rule, unit),
        known=_known(
            lower=None if lower is None else lower * every,
            upper=None if upper is None else upper * every,
        ),
        quantity=quantity,
        lag=lag,
        index=index,
        gain=jnp.asarray(0.0 if index is None else scaling.input_scale[index] / value_unit, float),
        shift=jnp.asarray((shift - scaling.output_shift[place]) / value_unit, float),
        change=jnp.asarray(value_unit / unit, float),
    )


@_bind.register(own.Score)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    unit = float(scaling.output_sd[0]) if rule.unit is None else rule.unit
    return _Own(**_common(rule, unit), known={}, frame=frame_of(columns, scaling), call=rule.score)


@_bind.register(own.Combined)
def _(rule: Any, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    parts = [bind(part, columns, scaling, points) for part in rule.parts]
    known = {str(place): part.known for place, part in enumerate(parts)}
    bare = tuple(eqx.tree_at(lambda p: p.known, part, {}) for part in parts)
    return _Combined(
        **_common(rule, 1.0),
        known=known,
        parts=bare,
        sizes=tuple(_components(part, columns, scaling) for part in parts),
        weights=jnp.asarray(np.array(rule.each_weight), float),
    )
