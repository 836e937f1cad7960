"""Quantities with their numbers in place: evaluated in the compiled loop, in checks and over enclosures.

For each quantity that a statement may be about (`prbnn.rules.statements`) this module says, once, how it
is computed of a drawn function, what its unit is, and at which other points it needs the function.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError
from prbnn.rules.scoring.drawn import Drawn, Frame, Point, frame_of
from prbnn.rules.scoring.places import Places
from prbnn.rules.scoring.subjects import AnyOutput, BoundSubject, Output, bind_subject
from prbnn.rules.scoring.units import change_unit, comparison_unit, curvature_unit, step_unit
from prbnn.rules.statements import (
    Change,
    Curvature,
    Custom,
    Difference,
    Quantity,
    Slope,
    Smooth,
    Step,
    Value,
)

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling

# arrays with one entry per point: limits, and other points at which the function is needed
Known = dict[str, Any]


class BoundQuantity(eqx.Module):
    """A quantity in multiples of its unit: ``level(function, x, known)`` at one point."""

    # whether the outputs at a point decide; slopes and comparisons need the function
    of_values: ClassVar[bool] = False

    @abstractmethod
    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        """One or several numbers at the network input ``x``; ``known`` is `places_of` there."""

    @property
    def components(self) -> int | None:
        """How many numbers there are at a point; None where only evaluating it tells."""
        return None

    def general(self) -> BoundQuantity:
        """The same with columns and outputs as numbers, so that it stacks with others."""
        return self


class _OfSubject(BoundQuantity):
    subject: BoundSubject

    @property
    def components(self) -> int | None:
        output = isinstance(self.subject, Output | AnyOutput)
        return int(np.size(self.subject.position)) if output else None

    def general(self) -> BoundQuantity:
        return eqx.tree_at(lambda quantity: quantity.subject, self, self.subject.general())


class BoundValue(_OfSubject):
    """The subject itself."""

    of_values: ClassVar[bool] = True

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        return self.subject.level(function, x)


class BoundSlope(_OfSubject):
    """d level / d x, with x in standard deviations of its column."""

    index: int = eqx.field(static=True)
    per_deviation: Float[Array, ""]

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        return self.subject.rate(function, x, self.index) * self.per_deviation

    def general(self) -> BoundQuantity:
        return AnySlope(self.subject.general(), jnp.asarray(self.index), self.per_deviation)


class AnySlope(_OfSubject):
    """The same along a column that is a number."""

    index: Int[Array, ""]
    per_deviation: Float[Array, ""]

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        return self.subject.rate(function, x, self.index) * self.per_deviation


class BoundDifference(_OfSubject):
    """level(first) - level(second): over a step, or between two situations.

    Where one of the two is not among the known arrays, it is the point itself. ``gain`` is the output's
    unit over that of the difference.
    """

    gain: Float[Array, ""]

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        first = self.subject.level(function, known.get("first", x))
        second = self.subject.level(function, known.get("second", x))
        return (first - second) * self.gain


class BoundCurvature(_OfSubject):
    """The second difference over a step, in the unit of the curvature."""

    per_square: Float[Array, ""]

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        middle = self.subject.level(function, x)
        ahead = self.subject.level(function, known["ahead"])
        behind = self.subject.level(function, known["behind"])
        return (ahead - 2 * middle + behind) * self.per_square


class BoundChange(BoundQuantity):
    """The change per step of a trajectory, taken over ``lag`` steps.

    With an ``index``, the last observed value ``x[index] * gain + shift`` comes before the first step.
    ``change`` is the output's unit over that of a change per step.
    """

    of_values: ClassVar[bool] = True

    subject: BoundSubject
    lag: int = eqx.field(static=True)
    index: int | None = eqx.field(static=True)
    gain: Float[Array, ""]
    shift: Float[Array, ""]
    change: Float[Array, ""]

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        level = self.subject.level(function, x)
        if self.index is not None:
            before = x[self.index] * self.gain + self.shift
            level = jnp.concatenate([before[None], level])
        return (level[self.lag :] - level[: -self.lag]) * (self.change / self.lag)


class BoundCustom(BoundQuantity):
    """A user's score, called with a point in the user's units."""

    unit: Float[Array, ""]
    frame: Frame
    call: Any = eqx.field(static=True)

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        return jnp.asarray(self.call(function, Point(x, self.frame))) / self.unit


class BoundSmooth(_OfSubject):
    """OC-BNN's score of avoiding intervals; it has no unit."""

    of_values: ClassVar[bool] = True

    per_unit: Float[Array, " sharpness"]

    def level(self, function: Drawn, x: Array, known: Known) -> Array:
        level = self.subject.level(function, x)[..., None]

        def below(z: Array) -> Array:
            return jnp.prod(1 - jnp.tanh(z[..., None] * self.per_unit), axis=-1) / 4

        return -jnp.sum(below(level - known["high"]) * below(known["low"] - level), axis=-1)


class InPlace(NamedTuple):
    """A quantity bound to a table: limits are counted as ``(limit - shift) / unit``.

    ``value_unit`` and ``value_shift`` are those of what the quantity is of.
    """

    quantity: BoundQuantity
    unit: float
    shift: float
    value_unit: float = 1.0
    value_shift: float = 0.0


def bind_quantity(quantity: Quantity, columns: Columns, scaling: Scaling) -> InPlace:
    """Put a quantity's numbers in place."""
    match quantity:
        case Custom():
            unit = float(scaling.output_sd[0]) if quantity.unit is None else quantity.unit
            number = jnp.asarray(unit, float)
            frame = frame_of(columns, scaling)
            return InPlace(BoundCustom(number, frame, quantity.score), unit, 0.0)
        case Change():
            return _change(quantity, columns, scaling)
    subject, value_unit, shift = bind_subject(quantity.of, columns, scaling, quantity.at)

    def per(unit: float, times: float = 1.0) -> Array:
        return jnp.asarray(value_unit * times / unit, float)

    match quantity:
        case Value():
            return InPlace(BoundValue(subject), value_unit, shift)
        case Smooth():
            sharpness = jnp.asarray(np.array(quantity.sharpness) * value_unit, float)
            return InPlace(BoundSmooth(subject, sharpness), 1.0, 0.0, value_unit, shift)
        case Slope():
            index = columns.index(str(quantity.column))
            deviation = scaling.input_sd[index]
            scale = jnp.asarray(deviation / scaling.input_scale[index], float)
            return InPlace(BoundSlope(subject, index, scale), float(value_unit / deviation), 0.0)
        case Curvature():
            unit = curvature_unit(quantity, value_unit, columns, scaling)
            per_square = jnp.asarray(value_unit / quantity.step**2 / unit, float)
            return InPlace(BoundCurvature(subject, per_square), unit, 0.0)
        case Step():
            unit = step_unit(quantity, value_unit, columns, scaling)
            return InPlace(BoundDifference(subject, per(unit)), unit, 0.0)
        case Difference():
            unit = comparison_unit(quantity, value_unit, columns, scaling)
            return InPlace(BoundDifference(subject, per(unit)), unit, 0.0)
    raise KnowledgeError(f"{type(quantity).__name__} is not a quantity that can be scored")


def _change(quantity: Change, columns: Columns, scaling: Scaling) -> InPlace:
    layout = columns.layout
    if layout is None or not layout.ahead:
        raise KnowledgeError(
            "a rule along time needs a sequence model with steps ahead; use PRBNNSequenceRegressor with "
            "targets of several steps, or remove the rule"
        )
    subject, value_unit, _ = bind_subject(quantity.of, columns, scaling, quantity.at)
    name = None if quantity.of is None else str(quantity.of)
    index = layout.observed(str(name))[-1] if quantity.observed else None
    longest = layout.ahead - (index is None)
    if quantity.lag > longest:
        remedy = f"use lag <= {longest}" if longest else "remove the rule"
        raise KnowledgeError(
            f"lag={quantity.lag} is too long for {layout.ahead} step(s) ahead; {remedy}"
        )
    positions = layout.positions(name)
    jump = quantity.at == "first"
    unit = value_unit if jump else change_unit(value_unit, positions, quantity.lag, columns)
    shift = 0.0 if index is None else scaling.input_shift[index]
    bound = BoundChange(
        subject,
        quantity.lag,
        index,
        jnp.asarray(0.0 if index is None else scaling.input_scale[index] / value_unit, float),
        jnp.asarray((shift - scaling.output_shift[positions[0]]) / value_unit, float),
        jnp.asarray(value_unit / unit, float),
    )
    return InPlace(bound, unit, 0.0)


def places_of(quantity: Quantity, bound: InPlace, here: Places) -> Known:
    """What a quantity needs at points beside the points: others to compare with, ends of intervals."""
    match quantity:
        case Step():
            return {"first": here.moved(str(quantity.column), quantity.step)}
        case Difference():
            return {"first": here.changed(quantity.first), "second": here.changed(quantity.second)}
        case Curvature():
            column, step = str(quantity.column), quantity.step
            return {"ahead": here.moved(column, step), "behind": here.moved(column, -step)}
        case Smooth():
            pairs = [
                (here.value(low, "low end"), here.value(high, "high end"))
                for low, high in quantity.intervals
            ]
            for low, high in pairs:
                here.check_order(low, high)
            lows, highs = (
                here.stacked([(end - bound.value_shift) / bound.value_unit for end in ends])
                for ends in zip(*pairs, strict=True)
            )
            return {"low": lows, "high": highs}
    return {}
