"""What a rule is about (`of=`): an output, text in outputs and columns, or a callable of (x, y)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.data.columns import Columns
from prbnn.data.layout import At
from prbnn.errors import KnowledgeError, nearest
from prbnn.rules.evaluation import Rows
from prbnn.rules.expressions import Expression, ExpressionError, parse
from prbnn.rules.scoring.drawn import Drawn, Frame, Point, frame_of, output_position
from prbnn.rules.scoring.obedience import shielded

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling


class Quantity(eqx.Module):
    """A scalar of a drawn function at a point: ``level = (r - shift) / unit``."""

    @abstractmethod
    def level(self, function: Drawn, x: Array) -> Array:
        """The quantity at a network input."""

    @abstractmethod
    def rate(self, function: Drawn, x: Array, index: int | Array) -> Array:
        """Its derivative along one network input."""

    def general(self) -> Quantity:
        """The same with its outputs as numbers, so that it stacks with others."""
        return self


class Output(Quantity):
    """One output of the network as it is, or one variable at several steps."""

    position: int | tuple[int, ...] = eqx.field(static=True)
    gain: Float[Array, ""]

    def level(self, function: Drawn, x: Array) -> Array:
        return function.values(x)[np.array(self.position)] * self.gain

    def rate(self, function: Drawn, x: Array, index: int | Array) -> Array:
        return function.rates(x, index)[np.array(self.position)] * self.gain

    def general(self) -> Quantity:
        return AnyOutput(jnp.asarray(self.position), self.gain)


class AnyOutput(Quantity):
    """The same of outputs that are numbers."""

    position: Int[Array, ...]
    gain: Float[Array, ""]

    def level(self, function: Drawn, x: Array) -> Array:
        return function.values(x)[self.position] * self.gain

    def rate(self, function: Drawn, x: Array, index: int | Array) -> Array:
        return function.rates(x, index)[self.position] * self.gain


class Transformed(Quantity):
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
        """Outputs by name; variables of a trajectory at the steps the rule speaks of."""
        layout = self.frame.layout
        if layout is None:
            return dict(zip(self.frame.outputs, outputs, strict=True))
        return {name: outputs[np.array(layout.positions(name, self.at))] for name in layout.outputs}


def quantity_of(
    of: str | Callable | None, columns: Columns, scaling: Scaling, at: At = None
) -> tuple[Quantity, float, float]:
    """The quantity, its unit (training standard deviation) and its shift, in the user's units."""
    if at is not None and columns.layout is None:
        raise KnowledgeError(f"at={at!r} speaks of steps ahead, and these data are no sequences")
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
    transform: Any = of
    if isinstance(of, str):
        names = (*columns.subjects, *columns.inputs)
        try:
            transform = parse(of, names)
        except ExpressionError as error:
            hint = nearest(of, columns.subjects) if of.isidentifier() else ""
            if columns.layout is not None:
                # a list of every observed step would bury the message
                raise KnowledgeError(
                    f"of={of!r} must be text in {', '.join((*columns.subjects, *columns.layout.static))}"
                    f" or observed steps such as `{columns.inputs[0]}`{hint}"
                ) from None
            raise KnowledgeError(f"of={of!r}: {error}{hint}") from None
        if not set(transform.names) & set(columns.subjects):
            raise KnowledgeError(
                f"of={of!r} names no output, so no network could change it; outputs: "
                f"{', '.join(columns.subjects)}"
            )
    elif not callable(of):
        raise KnowledgeError(f"of= is an output's name, text or a callable of (x, y), got {of!r}")
    frame = frame_of(columns, scaling)
    unit = 1.0 if scaling.kind == "none" else _training_spread(transform, columns)
    if scaling.kind != "none" and columns.layout is not None and not isinstance(of, str):
        unit = _spread_along(Transformed(frame, transform, jnp.ones(()), at), columns, scaling)
    return Transformed(frame, transform, jnp.asarray(unit, float), at), unit, 0.0


def _training_spread(transform: Any, columns: Columns) -> float:
    """Standard deviation of r over the training rows; 1 where it cannot be told."""
    layout = columns.layout
    outputs = {
        name: columns.targets[:, k if layout is None else np.array(layout.positions(name))]
        for k, name in enumerate(columns.subjects)
    }
    try:
        if isinstance(transform, Expression):
            wide = slice(None) if layout is None else np.newaxis
            inputs = {name: columns.rows[:, k][..., wide] for k, name in enumerate(columns.inputs)}
            values = transform.evaluate({**inputs, **outputs})
        else:
            only = next(iter(outputs.values())) if len(outputs) == 1 else outputs
            values = np.asarray(transform(Rows(columns.rows, columns.inputs), only))
        # sorted: a sum's rounding must not depend on the order of the rows
        spread = float(np.std(np.sort(values, axis=None)))
    except Exception:
        return 1.0
    return spread if np.isfinite(spread) and spread > 0 else 1.0


def _spread_along(quantity: Transformed, columns: Columns, scaling: Scaling) -> float:
    """The same of a callable on trajectories, called with one sequence at a time."""
    x, y = scaling.inputs(columns.rows), scaling.outputs(columns.targets)
    values = jax.vmap(quantity._of)(jnp.asarray(x, float), jnp.asarray(y, float))
    spread = float(np.std(np.sort(np.asarray(values), axis=None)))
    return spread if np.isfinite(spread) and spread > 0 else 1.0
