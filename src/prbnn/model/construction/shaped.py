"""Networks that rise, fall or are convex or concave along some columns for all weights.

Three streams of hidden units. *Free* units read the columns nothing is known about, by weights of any
sign. *Rising* units read the columns with a direction (falling ones turned around) by weights >= 0, and
free units by any weights: sums and rising activations of rising functions rise, and what free units add
does not change with those columns. *Bent* units read the columns along which the output is convex, bent
and rising units by weights >= 0, and free units by any weights: convex rising activations of sums of
convex functions are convex (input-convex networks: Amos, Xu and Kolter, 2017). A concave output is the
negative of a convex one.

A weight that may not be negative is |raw|: the prior is on the raw number, and a raw 0 switches a
connection off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.model.networks import BIAS_REACH, uniform_blocks, weight_reach
from prbnn.model.nonlinearities import ACTIVATIONS

# gelu and rbf fall somewhere; tanh and sigmoid are neither convex nor concave
RISING_ACTIVATIONS = ("relu", "tanh", "sigmoid", "softplus")
CONVEX_ACTIVATIONS = ("relu", "softplus")
# the mean of |raw| at the start, times this, is 1 / fan-in
GAIN = 2 / math.sqrt(3)


@dataclass(frozen=True)
class Shape:
    """The shape of one output.

    - ``directions``: along each input, 1 if it rises, -1 if it falls, 0 if neither is known
    - ``bent``: along each input, whether it is convex or concave
    - ``bend``: 1 for convex, -1 for concave, 0 where no input is ``bent``

    >>> Shape((1, 0), (False, False)).free
    (1,)
    """

    directions: tuple[int, ...]
    bent: tuple[bool, ...]
    bend: int = 0

    @property
    def turn(self) -> int:
        """-1 where the output is the negative of a convex network."""
        return self.bend or 1

    @property
    def bends(self) -> tuple[int, ...]:
        """Positions of the columns along which the output is convex or concave."""
        return tuple(k for k, bent in enumerate(self.bent) if bent)

    @property
    def trends(self) -> tuple[int, ...]:
        """Positions of the other columns with a direction."""
        found = enumerate(zip(self.directions, self.bent, strict=True))
        return tuple(k for k, (way, bent) in found if way and not bent)

    @property
    def free(self) -> tuple[int, ...]:
        """Positions of the columns without either."""
        found = enumerate(zip(self.directions, self.bent, strict=True))
        return tuple(k for k, (way, bent) in found if not way and not bent)


class Signed(eqx.Module):
    """weight @ x + bias, where weights of some sources have a fixed sign: 1, -1, or 0 for any sign.

    A weight with a sign is sign * |raw| * GAIN / sqrt(sources with a sign): positive terms add up where
    those of both signs cancel, and this keeps the sum at the size it has there.
    """

    weight: Float[Array, "outputs sources"]
    bias: Float[Array, " outputs"]
    signs: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, " sources"]) -> Float[Array, " outputs"]:
        signs = np.array(self.signs)
        gain = GAIN / math.sqrt(max(1, np.count_nonzero(signs)))
        weight = jnp.where(signs == 0, self.weight, signs * gain * jnp.abs(self.weight))
        return weight @ x + self.bias


def rising(z: Array, activation: str) -> Array:
    """A mixture of rising activations: with weights >= 0, relu alone could only be convex.

    1/3 of the units saturate, 1/3 have the activation a(z), 1/3 its point reflection -a(-z).
    """
    if activation in ("tanh", "sigmoid"):
        return ACTIVATIONS[activation](z)
    function = ACTIVATIONS[activation]
    widths = [len(part) for part in np.array_split(np.arange(z.shape[0]), 3)]
    flat, up, down = jnp.split(z, np.cumsum(widths)[:2])
    level = jnp.clip(flat, -1, 1) if activation == "relu" else jnp.tanh(flat)
    return jnp.concatenate([level, function(up), -function(-down)])


class Shaped(eqx.Module):
    """One output with a `Shape`; layers of the three streams, where there are such columns."""

    free: tuple[Signed, ...]
    rising: tuple[Signed, ...]
    bent: tuple[Signed, ...]
    output: Signed
    shape: Shape = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, ""]:
        shape, function = self.shape, ACTIVATIONS[self.activation]
        ways = np.array([shape.turn * shape.directions[k] for k in shape.trends], int)
        free, trend = x[np.array(shape.free, int)], x[np.array(shape.trends, int)] * ways
        column, bent = x[np.array(shape.bends, int)], x[:0]
        for depth in range(max(map(len, (self.free, self.rising, self.bent)))):
            sources = jnp.concatenate([bent, column, trend, free])
            below = jnp.concatenate([trend, free])
            bent = function(self.bent[depth](sources)) if self.bent else bent
            trend = rising(self.rising[depth](below), self.activation) if self.rising else trend
            free = function(self.free[depth](free)) if self.free else free
        (found,) = self.output(jnp.concatenate([bent, column, trend, free]))
        return shape.turn * found

    def hidden_sources(self) -> list[np.ndarray]:
        """For each weight matrix, which of its sources are hidden units rather than inputs."""
        inputs = len(self.shape.bends)
        found = []
        for stream in (self.free, self.rising, self.bent):
            for depth, layer in enumerate(stream):
                hidden = np.full(len(layer.signs), depth > 0)
                if stream is self.bent:
                    units = 0 if depth == 0 else stream[depth - 1].weight.shape[0]
                    hidden[units : units + inputs] = False
                found.append(hidden)
        units = self.bent[-1].weight.shape[0] if self.bent else 0
        hidden = np.full(len(self.output.signs), bool(self.free or self.rising or self.bent))
        hidden[units : units + inputs] = False
        return [*found, hidden]


def build_shaped(key: Array, shape: Shape, hidden: tuple[int, ...], activation: str) -> Shaped:
    """A network of this shape, with raw weights uniform of variance 1 / fan-in, as in an `MLP`."""
    ways = tuple(shape.turn * shape.directions[k] for k in shape.bends)
    bent, trend, free = 0, len(shape.trends), len(shape.free)
    streams: dict[str, list[tuple[int, tuple[int, ...]]]] = {"free": [], "rising": [], "bent": []}
    for width in hidden:
        below = (1,) * trend + (0,) * free
        if shape.bends:
            streams["bent"].append((width, (1,) * bent + ways + below))
        if shape.trends:
            streams["rising"].append((width, below))
        if shape.free:
            streams["free"].append((width, (0,) * free))
        bent, trend, free = (width * bool(part) for part in (ways, shape.trends, shape.free))
    last = (1, (1,) * bent + ways + (1,) * trend + (0,) * free)
    plan = [*streams["free"], *streams["rising"], *streams["bent"], last]
    blocks = uniform_blocks(key, [(width, len(signs) + 1) for width, signs in plan])
    layers = []
    for (_, signs), block in zip(plan, blocks, strict=True):
        weight = block[:, :-1] * weight_reach(len(signs))
        layers.append(Signed(weight, block[:, -1] * BIAS_REACH, signs))
    layers[-1] = eqx.tree_at(lambda layer: layer.bias, layers[-1], jnp.zeros(1))
    ends = np.cumsum([len(streams[name]) for name in streams])
    parts = (tuple(layers[start:end]) for start, end in zip((0, *ends), ends, strict=False))
    free_layers, rising_layers, bent_layers = parts
    return Shaped(free_layers, rising_layers, bent_layers, layers[-1], shape, activation)
