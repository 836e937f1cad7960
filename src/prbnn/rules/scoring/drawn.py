"""One drawn function as rules see it: values, slopes and curvatures at a point, computed once each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state
from jaxtyping import Array, Float

from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.errors import KnowledgeError, nearest
from prbnn.rules.scoring.obedience import shielded

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling


class Frame(eqx.Module):
    """Names and units of inputs and outputs: ``user value = network value * scale + shift``."""

    inputs: tuple[str, ...] = eqx.field(static=True)
    outputs: tuple[str, ...] = eqx.field(static=True)
    input_shift: Float[Array, " inputs"]
    input_scale: Float[Array, " inputs"]
    output_shift: Float[Array, " outputs"]
    output_scale: Float[Array, " outputs"]
    layout: Layout | None = eqx.field(static=True, default=None)

    def input(self, column: str) -> Any:
        """Position of an input, or an error with the nearest name; of a variable, all its steps."""
        if self.layout is not None and column in self.layout.variables:
            return np.array(self.layout.observed(column))
        if column not in self.inputs:
            raise KnowledgeError(f"no column {column!r}{nearest(column, self.inputs)}")
        return self.inputs.index(column)

    def output(self, name: str | None) -> Any:
        """Position of an output; None is allowed where there is only one. Of a variable, all steps."""
        if self.layout is not None:
            return np.array(self.layout.positions(name))
        return output_position(name, self.outputs)


def output_position(name: str | None, outputs: tuple[str, ...]) -> int:
    """Position of an output, or an error with the nearest name; None where there is only one."""
    if name is None:
        if len(outputs) > 1:
            raise KnowledgeError(
                f"there are several outputs ({', '.join(outputs)}); say which one with of="
            )
        return 0
    if name not in outputs:
        raise KnowledgeError(f"no output {name!r}{nearest(name, outputs)}")
    return outputs.index(name)


def frame_of(columns: Columns, scaling: Scaling) -> Frame:
    """Names and units of a table, as arrays."""
    return Frame(
        inputs=columns.inputs,
        outputs=columns.outputs,
        input_shift=jnp.asarray(scaling.input_shift, float),
        input_scale=jnp.asarray(scaling.input_scale, float),
        output_shift=jnp.asarray(scaling.output_shift, float),
        output_scale=jnp.asarray(scaling.output_scale, float),
        layout=columns.layout,
    )


class Point(eqx.Module):
    """One input, as a user's score sees it: ``x["column"]`` is in the user's units."""

    network: Float[Array, " inputs"]
    frame: Frame

    def __getitem__(self, column: str) -> Array:
        index = self.frame.input(column)
        scale, shift = self.frame.input_scale[index], self.frame.input_shift[index]
        return self.network[index] * scale + shift

    def replace(self, **values: Any) -> Point:
        """The same point with some columns set to other values."""
        network = self.network
        for column, value in values.items():
            index = self.frame.input(column)
            scale, shift = self.frame.input_scale[index], self.frame.input_shift[index]
            network = network.at[index].set((value - shift) / scale)
        return Point(network, self.frame)


class Drawn:
    """A function drawn from the posterior.

    Every value and slope computed at a point is cached, so that rules which share
    points share one forward pass and one linearisation. `network` maps network inputs to network
    outputs; calls with a `Point` answer in the user's units.
    """

    def __init__(self, network: Callable[[Array], Array], frame: Frame):
        self.network = network
        self.frame = frame
        self._known: dict[tuple, tuple] = {}
        self._home = get_opaque_trace_state()

    def values(self, x: Array) -> Array:
        """All outputs at ``x``, in network units."""
        return self._remember(("value", id(x)), x, lambda: self.network(x))

    def rates(self, x: Array, index: int | Array) -> Array:
        """d outputs / d x[index], in network units; an index that is a number is not remembered."""
        linear = self._remember(("linear", id(x)), x, lambda: jax.linearize(self.network, x))
        self._remember(("value", id(x)), x, lambda: linear[0])
        # of x, so that under a vmap the gradient of the first weights is a matrix product, not a sum
        direction = (0 * x).at[index].set(1)
        if not isinstance(index, int):
            return linear[1](direction)
        return self._remember(("rate", id(x), index), x, lambda: linear[1](direction))

    def _remember(self, key: tuple, x: Array, compute: Callable[[], Any]) -> Any:
        if key in self._known:
            return self._known[key][1]
        result = compute()
        # inside a user's own cond or jit, results must not outlive that trace
        if get_opaque_trace_state() == self._home:
            # the point is kept beside the result: while it is alive, its id is its own
            self._known[key] = (x, result)
        return result

    def __call__(self, x: Point, of: str | None = None) -> Array:
        """The named output (or the only one) at ``x``."""
        position = self.frame.output(of)
        scale, shift = self.frame.output_scale[position], self.frame.output_shift[position]
        return shielded(self.values(x.network)[position]) * scale + shift

    def slope(self, x: Point, column: str, of: str | None = None) -> Array:
        """The derivative of an output along a column."""
        index, position = self.frame.input(column), self.frame.output(of)
        scale = self.frame.output_scale[position] / self.frame.input_scale[index]
        return shielded(self.rates(x.network, index)[position]) * scale

    def bend(self, x: Point, column: str, step: float, of: str | None = None) -> Array:
        """The second difference over ``step``, divided by its square."""
        ahead = x.replace(**{column: x[column] + step})
        behind = x.replace(**{column: x[column] - step})
        return (self(ahead, of) - 2 * self(x, of) + self(behind, of)) / step**2
