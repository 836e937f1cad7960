"""Networks, declared as plain values: ``build(key, inputs, outputs)`` makes one to be fitted.

Any object with that method, or any callable with that signature, can be used instead of these: it must
return a callable pytree (such as an `equinox.Module`) from one input vector to one output vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.model.nonlinearities import ACTIVATIONS

# hidden biases start uniform in [-sqrt(3), sqrt(3)]: kinks are spread over standardised data
BIAS_REACH = math.sqrt(3)


def weight_reach(fan_in: int) -> float:
    """Half the width of a uniform distribution around 0 with variance 1 / fan_in."""
    return math.sqrt(3 / max(fan_in, 1))


def uniform_blocks(key: Array, shapes: Sequence[tuple[int, int]]) -> list[Array]:
    """Numbers uniform in [-1, 1], one array per shape.

    One call for all arrays: every call to the generator costs compilation time.
    """
    sizes = [math.prod(shape) for shape in shapes]
    numbers = jax.random.uniform(key, (sum(sizes),), minval=-1.0, maxval=1.0)
    blocks = jnp.split(numbers, np.cumsum(sizes)[:-1])
    return [block.reshape(shape) for block, shape in zip(blocks, shapes, strict=True)]


def whole_above_zero(kind: str, name: str, value: Any) -> int:
    """``value`` as an int; raises unless it is a whole number above 0, naming the class and the field."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{kind}: {name} must be a whole number above 0, got {value!r}")
    return int(value)


@runtime_checkable
class Network(Protocol):
    """A declaration of a network; ``build`` makes one with random initial weights."""

    def build(self, key: Array, inputs: int, outputs: int) -> Any:
        """A callable pytree from an array (inputs,) to an array (outputs,)."""
        ...


class Dense(eqx.Module):
    """weight @ x + bias.

    Where a layer widens, it is computed as one product of [weight, bias] and [x, 1]: the gradient of the
    biases, a sum over rows, then comes out of the matrix product that gives the gradient of the weights.
    On a CPU the sum by itself takes longer than the rest of a step. Copying a wide x would cost more.
    """

    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        if x.size < self.bias.size:
            return jnp.column_stack([self.weight, self.bias]) @ jnp.append(x, 1.0)
        return self.weight @ x + self.bias


class Layers(eqx.Module):
    """Dense layers with one activation between them."""

    layers: tuple[Dense, ...]
    activation: str = eqx.field(static=True)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x)


@dataclass(frozen=True)
class MLP:
    """A multilayer perceptron of any depth; ``hidden=()`` is linear regression.

    >>> MLP(hidden=(64, 32), activation="tanh")
    MLP(hidden=(64, 32), activation='tanh')
    """

    hidden: tuple[int, ...] = (100,)
    activation: str = "relu"

    def __post_init__(self) -> None:
        # NumPy integers are accepted too: widths often come from a parameter search
        widths = np.atleast_1d(np.asarray(self.hidden, object)).tolist()
        plain = (int(w) if isinstance(w, np.integer) else w for w in widths)
        object.__setattr__(self, "hidden", tuple(plain))
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"MLP: activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}"
            )
        if not all(isinstance(width, int) and width > 0 for width in self.hidden):
            raise ValueError(f"MLP: hidden holds whole numbers above 0, got {self.hidden!r}")

    def shapes(self, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the weights that `build` makes, by arithmetic alone.

        >>> MLP((8,)).shapes(2, 1)["layers.0.weight"]
        (8, 2)
        """
        found: dict[str, tuple[int, ...]] = {}
        for depth, (deep, wide) in enumerate(pairwise((inputs, *self.hidden, outputs))):
            found |= {f"layers.{depth}.weight": (wide, deep), f"layers.{depth}.bias": (wide,)}
        return found

    def build(self, key: Array, inputs: int, outputs: int) -> Layers:
        """Weights are uniform with variance 1 / fan-in; hidden biases spread the kinks over the data."""
        sizes = (inputs, *self.hidden, outputs)
        shapes = [(wide, deep + 1) for deep, wide in pairwise(sizes)]
        layers = []
        for depth, block in enumerate(uniform_blocks(key, shapes)):
            wide, deep = block.shape
            bias = block[:, -1] * BIAS_REACH if depth < len(self.hidden) else jnp.zeros(wide)
            layers.append(Dense(block[:, :-1] * weight_reach(deep - 1), bias))
        return Layers(tuple(layers), self.activation)


class Bumps(eqx.Module):
    """A weighted sum of Gaussian bumps exp(-|x - centre|^2 / (2 width^2)), plus a constant."""

    centres: Float[Array, "bumps inputs"]
    log_widths: Float[Array, " bumps"]
    output: Dense

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        distance = jnp.sum((x - self.centres) ** 2, axis=1)
        return self.output(jnp.exp(-0.5 * distance * jnp.exp(-2 * self.log_widths)))


@dataclass(frozen=True)
class RBF:
    """A radial basis function network: Gaussian bumps with learned centres and widths.

    >>> RBF(bumps=20)
    RBF(bumps=20)
    """

    bumps: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "bumps", whole_above_zero("RBF", "bumps", self.bumps))

    def shapes(self, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the weights that `build` makes, by arithmetic alone."""
        return {
            "centres": (self.bumps, inputs),
            "log_widths": (self.bumps,),
            "output.weight": (outputs, self.bumps),
            "output.bias": (outputs,),
        }

    def build(self, key: Array, inputs: int, outputs: int) -> Bumps:
        """Centres are uniform over the range of standardised data."""
        centre_key, weight_key = jax.random.split(key)
        reach = weight_reach(self.bumps)
        return Bumps(
            centres=jax.random.uniform(centre_key, (self.bumps, inputs), minval=-1.7, maxval=1.7),
            log_widths=jnp.zeros(self.bumps),
            output=Dense(
                jax.random.uniform(weight_key, (outputs, self.bumps), minval=-reach, maxval=reach),
                jnp.zeros(outputs),
            ),
        )


def build(network: Network | Callable, key: Array, inputs: int, outputs: int) -> Any:
    """Build a declared network, or call a user's factory of the same signature."""
    if isinstance(network, type):
        raise TypeError(f"network is the class {network.__name__}; write {network.__name__}(...)")
    if isinstance(network, Network):
        return network.build(key, inputs, outputs)
    if callable(network):
        return network(key, inputs, outputs)
    raise TypeError(
        "network must have build(key, inputs, outputs) or be a callable with that signature, "
        f"got {network!r}"
    )
