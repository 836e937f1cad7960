"""A network whose form obeys rules, and its declaration, which `builder` derives from the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.model.construction.shaped import Shape, Shaped, build_shaped
from prbnn.model.construction.squashing import squash
from prbnn.model.networks import MLP, Network, build
from prbnn.rules.expressions import Expression
from prbnn.rules.trends import trend


def built_in(network: Any) -> frozenset[str]:
    """Names of the rules that a built network obeys for all weights.

    >>> import jax
    >>> sorted(built_in(MLP().build(jax.random.key(0), 1, 1)))
    []
    """
    return network.met if isinstance(network, Built) else frozenset()


@dataclass(frozen=True)
class Limit:
    """A limit of one output that depends on the inputs, by text or a callable.

    - ``rule``: the name of its rule
    - ``output``: the position of the output
    - ``upper``: whether it is an upper limit
    """

    rule: str
    output: int
    upper: bool
    formula: Expression | Callable[[Any], Any]

    def trend(self, column: str) -> int | None:
        """1 if the limit rises with the column, -1 if it falls, 0 if it ignores it, None if unknown."""
        return trend(self.formula, column) if isinstance(self.formula, Expression) else None


class Fixed(eqx.Module):
    """Numbers that are not weights, stored as integers with the same bits: floats would be trained."""

    bits: Int[Array, "*shape"]

    @property
    def value(self) -> Float[Array, "*shape"]:
        """The numbers."""
        kind = {4: jnp.float32, 8: jnp.float64}[self.bits.dtype.itemsize]
        return jax.lax.bitcast_convert_type(self.bits, kind)


def fixed(values: Any) -> Fixed:
    """``values`` as `Fixed` numbers, in the precision of the weights."""
    array = jnp.asarray(values, float)
    kind = {4: jnp.int32, 8: jnp.int64}[array.dtype.itemsize]
    return Fixed(jax.lax.bitcast_convert_type(array, kind))


class Numbers(eqx.Module):
    """Scaling of the columns, and the limits that are numbers, in network units (infinite where none).

    `reach` is the range (2, inputs) in which each formula is evaluated: inputs are clipped to it.
    """

    input_shift: Fixed
    input_scale: Fixed
    output_shift: Fixed
    output_scale: Fixed
    lower: Fixed
    upper: Fixed
    softness: Fixed
    reach: tuple[Fixed, ...]


class Row(NamedTuple):
    """One input as a callable bound sees it: an array with one row, and columns by name."""

    values: Array
    names: tuple[str, ...]

    def __getitem__(self, key: Any) -> Any:
        return self.values[:, self.names.index(key)] if isinstance(key, str) else self.values[key]


class Built(eqx.Module):
    """A network whose outputs are shaped and squashed; `met` names the rules that it obeys.

    ``free`` holds the network of the outputs without a shape, if there are any.
    """

    free: tuple[Any, ...]
    shaped: tuple[Shaped, ...]
    numbers: Numbers
    plan: Construction = eqx.field(static=True)

    @property
    def met(self) -> frozenset[str]:
        """Names of the rules that hold for every weight."""
        return frozenset(self.plan.met)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        values = self._shaped(x)
        count = len(self.plan.outputs)
        lower, upper = self.limits(x)
        softness = self.numbers.softness.value
        inside = squash(values[:count], lower, jnp.maximum(lower, upper), softness)
        # a likelihood's further outputs (the noise by input) have no limits
        return jnp.concatenate([inside, values[count:]])

    def _shaped(self, x: Array) -> Array:
        places = [k for k, shape in enumerate(self.plan.shapes) if shape is not None]
        if not places:
            return self.free[0](x)
        values = jnp.stack([network(x) for network in self.shaped])
        if not self.free:
            return values
        others = self.free[0](x)
        total = len(places) + others.shape[0]
        order = np.argsort([*places, *(k for k in range(total) if k not in places)])
        return jnp.concatenate([values, others])[order]

    def limits(self, x: Array) -> tuple[Array, Array]:
        """(lower, upper) of every output at an input, all in network units."""
        numbers = self.numbers
        lower, upper = numbers.lower.value, numbers.upper.value
        if not self.plan.limits:
            return lower, upper
        user = x * numbers.input_scale.value + numbers.input_shift.value
        shift, scale = numbers.output_shift.value, numbers.output_scale.value
        for limit, reach in zip(self.plan.limits, numbers.reach, strict=True):
            found = _value(limit.formula, jnp.clip(user, *reach.value), self.plan.inputs)
            place = limit.output
            found = (found - shift[place]) / scale[place]
            if limit.upper:
                upper = upper.at[place].min(found)
            else:
                lower = lower.at[place].max(found)
        return lower, upper

    def hidden_sources(self) -> list[np.ndarray] | None:
        """For each matrix, which sources are hidden units; None where no output is shaped."""
        if not self.shaped:
            return None
        free = [layer for network in self.free for layer in network.layers]
        found = [np.full(layer.weight.shape[1], depth > 0) for depth, layer in enumerate(free)]
        return found + [part for network in self.shaped for part in network.hidden_sources()]


def _value(formula: Expression | Callable, user: Array, names: tuple[str, ...]) -> Array:
    if isinstance(formula, Expression):
        columns = {name: user[names.index(name)] for name in formula.names}
        return formula.evaluate(columns, jnp)
    return jnp.asarray(formula(Row(user[None], names))).reshape(())


@dataclass(frozen=True)
class Construction:
    """A declaration: ``network`` with outputs that obey the rules named in ``met``.

    It holds no numbers of the data, so that one program serves all tables; `limits.with_numbers` adds
    them.
    """

    network: Network | Callable
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: tuple[Shape | None, ...]
    limits: tuple[Limit, ...]
    met: tuple[str, ...]

    def build(self, key: Array, inputs: int, outputs: int) -> Built:
        """Each output with a shape has a network of its own; the others share the declared one."""
        shapes = [shape for shape in self.shapes if shape is not None]
        free_key, *keys = jax.random.split(key, len(shapes) + 1) if shapes else (key,)
        others = outputs - len(shapes)
        count, declared = len(self.outputs), self.network
        shaped = ()
        if shapes:
            assert isinstance(declared, MLP)
            shaped = tuple(
                build_shaped(each, shape, declared.hidden, declared.activation)
                for each, shape in zip(keys, shapes, strict=True)
            )
        none = jnp.full(inputs, jnp.inf)
        numbers = Numbers(
            *(fixed(part) for part in (jnp.zeros(inputs), jnp.ones(inputs))),
            *(fixed(part) for part in (jnp.zeros(count), jnp.ones(count))),
            *(fixed(jnp.full(count, end)) for end in (-jnp.inf, jnp.inf)),
            fixed(jnp.ones(count)),
            tuple(fixed(jnp.stack([-none, none])) for _ in self.limits),
        )
        free = (build(declared, free_key, inputs, others),) if others else ()
        return Built(free, shaped, numbers, self)
