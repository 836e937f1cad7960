"""What a rule is about (`of=`): an output, text in outputs and columns, or a callable of (x, y)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.errors import KnowledgeError, nearest
from prbnn.knowledge.drawn import Drawn, Frame, Point, frame_of
from prbnn.knowledge.evaluation import Rows
from prbnn.knowledge.expressions import Expression, ExpressionError, parse
from prbnn.knowledge.regions import Columns

if TYPE_CHECKING:
    from prbnn.model.scaling import Scaling


class Quantity(eqx.Module):
    """A scalar of a drawn function at a point: ``level = (r - shift) / unit``."""

    @abstractmethod
    def level(self, function: Drawn, x: Array) -> Array:
        """The quantity at a network input."""

    @abstractmethod
    def rate(self, function: Drawn, x: Array, index: int) -> Array:
        """Its derivative along one network input."""


class Output(Quantity):
    """One output of the network as it is."""

    position: int = eqx.field(static=True)
    gain: Float[Array, ""]

    def level(self, function: Drawn, x: Array) -> Array:
        return function.values(x)[self.position] * self.gain

    def rate(self, function: Drawn, x: Array, index: int) -> Array:
        return function.rates(x, index)[self.position] * self.gain


class Transformed(Quantity):
    """r(x, y): the paper's transform, from text or a callable, in the user's units."""

    frame: Frame
    transform: Any = eqx.field(static=True)
    unit: Float[Array, ""]

    def level(self, function: Drawn, x: Array) -> Array:
        return self._of(x, function.values(x))

    def rate(self, function: Drawn, x: Array, index: int) -> Array:
        direction = jnp.zeros_like(x).at[index].set(1)
        rates = function.rates(x, index)
        _, slope = jax.jvp(self._of, (x, function.values(x)), (direction, rates))
        return slope

    def _of(self, x: Array, values: Array) -> Array:
        point = Point(x, self.frame)
        outputs = values[: len(self.frame.outputs)] * self.frame.output_scale
        named = dict(zip(self.frame.outputs, outputs + self.frame.output_shift, strict=True))
        if isinstance(self.transform, Expression):
            columns = {
                name: named[name] if name in named else point[name] for name in self.transform.names
            }
            return self.transform.evaluate(columns, jnp) / self.unit
        only = next(iter(named.values())) if len(named) == 1 else named
        return jnp.asarray(self.transform(point, only)).reshape(()) / self.unit


def quantity_of(
    of: str | Callable | None, columns: Columns, scaling: Scaling
) -> tuple[Quantity, float, float]:
    """The quantity, its unit (training standard deviation) and its shift, in the user's units."""
    frame = frame_of(columns, scaling)
    if of is None or (isinstance(of, str) and of in columns.outputs):
        position = frame.output(of)
        unit = float(scaling.output_sd[position])
        gain = float(scaling.output_scale[position]) / unit
        return (
            Output(position, jnp.asarray(gain, float)),
            unit,
            float(scaling.output_shift[position]),
        )
    transform: Any = of
    if isinstance(of, str):
        names = (*columns.outputs, *columns.inputs)
        try:
            transform = parse(of, names)
        except ExpressionError as error:
            hint = nearest(of, columns.outputs) if of.isidentifier() else ""
            raise KnowledgeError(f"of={of!r}: {error}{hint}") from None
        if not set(transform.names) & set(columns.outputs):
            raise KnowledgeError(
                f"of={of!r} names no output, so no network could change it; outputs: "
                f"{', '.join(columns.outputs)}"
            )
    elif not callable(of):
        raise KnowledgeError(f"of= is an output's name, text or a callable of (x, y), got {of!r}")
    unit = 1.0 if scaling.kind == "none" else _training_spread(transform, columns)
    return Transformed(frame, transform, jnp.asarray(unit, float)), unit, 0.0


def _training_spread(transform: Any, columns: Columns) -> float:
    """Standard deviation of r over the training rows; 1 where it cannot be told."""
    outputs = {name: columns.targets[:, k] for k, name in enumerate(columns.outputs)}
    try:
        if isinstance(transform, Expression):
            inputs = {name: columns.rows[:, k] for k, name in enumerate(columns.inputs)}
            values = transform.evaluate({**inputs, **outputs})
        else:
            only = next(iter(outputs.values())) if len(outputs) == 1 else outputs
            values = np.asarray(transform(Rows(columns.rows, columns.inputs), only))
        spread = float(np.std(values))
    except Exception:
        return 1.0
    return spread if np.isfinite(spread) and spread > 0 else 1.0
