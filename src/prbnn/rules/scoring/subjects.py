"""What a rule is about (`of=`): an output, text in outputs and columns, or a callable of (x, y)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.data.columns import Columns
from prbnn.data.layout import At
from prbnn.errors import KnowledgeError
from prbnn.rules.expressions import Expression
from prbnn.rules.scoring.drawn import Drawn, Frame, Point, frame_of, output_position
from prbnn.rules.scoring.obedience import shielded
from prbnn.rules.spread import formula_of, spread_of
from prbnn.rules.statements import Subject

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling


class BoundSubject(eqx.Module):
    """What a rule is about, of a drawn function at a point: ``level = (r - shift) / unit``."""

    @abstractmethod
    def level(self, function: Drawn, x: Array) -> Array:
        """The quantity at a network input."""

    @abstractmethod
    def rate(self, function: Drawn, x: Array, index: int | Array) -> Array:
        """Its derivative along one network input."""

    def general(self) -> BoundSubject:
        """The same with its outputs as numbers, so that it stacks with others."""
        return self


class Output(BoundSubject):
    """One output of the network as it is, or one variable at several steps."""

    position: int | tuple[int, ...] = eqx.field(static=True)
    gain: Float[Array, ""]

    def level(self, function: Drawn, x: Array) -> Array:
        return function.values(x)[np.array(self.position)] * self.gain

    def rate(self, function: Drawn, x: Array, index: int | Array) -> Array:
        return function.rates(x, index)[np.array(self.position)] * self.gain

    def general(self) -> BoundSubject:
        return AnyOutput(jnp.asarray(self.position), self.gain)


class AnyOutput(BoundSubject):
    """The same of outputs that are numbers."""

    position: Int[Array, ...]
    gain: Float[Array, ""]

    def level(self, function: Drawn, x: Array) -> Array:
        return function.values(x)[self.position] * self.gain

    def rate(self, function: Drawn, x: Array, index: int | Array) -> Array:
        return function.rates(x, index)[self.position] * self.gain


class Transformed(BoundSubject):
    """r(x, y): the paper's transform, from text or a callable, in the user's units."""

    frame: Frame
    transform: Any = eqx.field(static=True)
    unit: Float[Array, ""]
    at: At = eqx.field(static=True, default=None)

    def level(self, function: Drawn, x: Array) -> Array:
        return self._of(x, shielded(function.values(x)))

    def rate(self, function: Drawn, x: Array, index: int | Array) -> Array:
        direction = jnp.zeros_like(x).at[index].set(1)
        values, rates = function.values(x), function.rates(x, index)
        _, slope = jax.jvp(self._of, (x, shielded(values)), (direction, shielded(rates)))
        return slope

    def _of(self, x: Array, values: Array) -> Array:
        point = Point(x, self.frame)
        outputs = values[: len(self.frame.outputs)] * self.frame.output_scale
        named = self._named(outputs + self.frame.output_shift)
        if isinstance(self.transform, Expression):
            columns = {
                name: named[name] if name in named else point[name] for name in self.transform.names
            }
            return self.transform.evaluate(columns, jnp) / self.unit
        only = next(iter(named.values())) if len(named) == 1 else named
        level = jnp.asarray(self.transform(point, only)) / self.unit
        return level.reshape(()) if self.frame.layout is None else level

    def _named(self, outputs: Array) -> dict[str, Array]:
        """Outputs by name; variables of a trajectory at the steps that the rule is about."""
        layout = self.frame.layout
        if layout is None:
            return dict(zip(self.frame.outputs, outputs, strict=True))
        return {name: outputs[np.array(layout.positions(name, self.at))] for name in layout.outputs}


def bind_subject(
    of: Subject, columns: Columns, scaling: Scaling, at: At = None
) -> tuple[BoundSubject, float, float]:
    """The subject of a rule, its unit (training standard deviation) and its shift, in the user's units.

    ``of`` and ``at`` are those of the rule.
    """
    if at is not None and columns.layout is None:
        raise KnowledgeError(
            f"at={at!r} selects steps of a sequence, but the data are a table; leave at= out"
        )
    if of is None or (isinstance(of, str) and of in columns.subjects):
        position = (
            output_position(of, columns.outputs)
            if columns.layout is None
            else columns.layout.positions(of, at)
        )
        # all steps of a variable share their scaling
        first = position if isinstance(position, int) else position[0]
        unit = float(scaling.output_sd[first])
        gain = float(scaling.output_scale[first]) / unit
        return Output(position, jnp.asarray(gain, float)), unit, float(scaling.output_shift[first])
    transform = formula_of(of, columns)
    frame = frame_of(columns, scaling)
    if scaling.kind == "none":
        unit = 1.0
    elif columns.layout is not None and not isinstance(of, str):
        unit = _spread_along(Transformed(frame, transform, jnp.ones(()), at), columns, scaling)
    else:
        unit = spread_of(of, columns)
    return Transformed(frame, transform, jnp.asarray(unit, float), at), unit, 0.0


def _spread_along(subject: Transformed, columns: Columns, scaling: Scaling) -> float:
    """`spread_of` a callable on trajectories, called with one sequence at a time."""
    x, y = scaling.inputs(columns.rows), scaling.outputs(columns.targets)
    values = jax.vmap(subject._of)(jnp.asarray(x, float), jnp.asarray(y, float))
    spread = float(np.std(np.sort(np.asarray(values), axis=None)))
    if not np.isfinite(spread):
        raise KnowledgeError("of= is a callable without a finite value at some training sequences")
    return spread or 1.0
