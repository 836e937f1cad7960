"""Guaranteed bounds of a network, its slope and its bend over boxes of inputs.

Two enclosures, and the tighter of both:

- intervals, layer by layer;
- straight lines below and above every activation, carried back to the inputs (the CROWN family:
  Zhang et al., *Efficient neural network robustness certification with general activation functions*,
  2018), for the values; slopes and bends then multiply intervals.

Bounds hold for the network as deployed, in floating point. A deployed layer computes W h + b with an
error of at most gamma (|W| |h| + |b|), gamma = (n + 2) u for n terms and unit roundoff u; the error is a
disturbance like any other and is enclosed. The enclosure itself is computed in float64, and what that
rounds is added the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.activations import ROUNDING, lines, range_of
from prbnn.certify.chains import Chain, chain_of
from prbnn.errors import KnowledgeError, nearest
from prbnn.posterior.draws import Posterior

DOUBLE = 2.0**-53
UNIT = {"float32": 2.0**-24, "float64": DOUBLE}
# float64 rounds the enclosure's own sums; a few times its unit a term covers every one of them
OWN = 16 * DOUBLE

Interval = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Bounds:
    """(draws, boxes, outputs), in the user's units; draws first only where there are several."""

    lower: np.ndarray
    upper: np.ndarray


def bounds(
    function: Any,
    lower: Any,
    upper: Any,
    *,
    along: int | str | None = None,
    order: int | None = None,
) -> Bounds:
    """Bounds of every output over boxes [lower, upper], (boxes, inputs) in the user's units.

    ``function`` is a posterior (every draw of it) or a built `MLP`. With ``along``, a column, they are
    of the slope along it, and with ``order=2`` of the bend (the second derivative).

    >>> import jax
    >>> from prbnn import MLP
    >>> network = MLP((8,)).build(jax.random.key(0), 2, 1)
    >>> found = bounds(network, [[0.0, 0.0]], [[1.0, 1.0]])
    >>> value = network(jax.numpy.array([0.3, 0.9]))
    >>> bool(found.lower[0, 0] <= value[0] <= found.upper[0, 0])
    True
    """
    chain, scaling = chain_of(function)
    order = order if order is not None else int(along is not None)
    if order not in (0, 1, 2) or (order > 0) != (along is not None):
        raise ValueError(f"order is 1 or 2 with along=, and 0 without; got {order!r}, {along!r}")
    low, high = _boxes(lower, upper, chain.weights[0].shape[-1])
    column = _column(function, along)
    if scaling is not None:
        low, high = _scaled(scaling, low, high)
    if chain.precision == "float32" or scaling is not None:
        # an input is rounded to the network's precision on its way in
        give = 2 * UNIT[chain.precision] * np.maximum(np.abs(low), np.abs(high))
        low, high = low - give, high + give
    with jax.enable_x64(True):
        found = _all(_doubled(chain), jnp.asarray(low), jnp.asarray(high), column, order)
        least, greatest = (np.asarray(part) for part in found)
    if scaling is not None:
        scale = scaling.output_scale
        shift = scaling.output_shift if order == 0 else 0.0
        factor = scale / (scaling.input_scale[column] ** order if along is not None else 1.0)
        least, greatest = (_outward(part * factor + shift, side) for part, side in
                           ((least, -1), (greatest, 1)))
    if not isinstance(function, Posterior):
        least, greatest = least[0], greatest[0]
    return Bounds(least, greatest)


def _boxes(lower: Any, upper: Any, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = (np.atleast_2d(np.asarray(end, np.float64)) for end in (lower, upper))
    if low.shape != high.shape or low.shape[1] != inputs:
        raise ValueError(
            f"lower and upper must be (boxes, {inputs}), got {low.shape} and {high.shape}"
        )
    if not np.all(low <= high) or not np.all(np.isfinite(low) & np.isfinite(high)):
        raise ValueError("every box needs finite ends, lower <= upper")
    return low, high


def _column(function: Any, along: int | str | None) -> int:
    if along is None:
        return 0
    if isinstance(along, str):
        names = function.columns.inputs if isinstance(function, Posterior) else ()
        if along not in names:
            raise KnowledgeError(f"no column {along!r}{nearest(along, list(names))}")
        return names.index(along)
    return int(along)


def _scaled(scaling: Any, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes as the network sees them, rounded outward; scales are above 0."""
    return _outward(scaling.inputs(low), -1), _outward(scaling.inputs(high), 1)


def _outward(values: np.ndarray, side: int) -> np.ndarray:
    give = 8 * DOUBLE * np.abs(values)
    return np.nextafter(values + side * give, side * np.inf)


def _doubled(chain: Chain) -> Chain:
    return Chain(
        tuple(jnp.asarray(w, float) for w in chain.weights),
        tuple(jnp.asarray(b, float) for b in chain.biases),
        chain.activation,
        chain.precision,
    )


@eqx.filter_jit
def _all(chain: Chain, low: Array, high: Array, column: int, order: int) -> Interval:
    """(draws, boxes, outputs): every draw on every box."""

    def draw(weights: tuple, biases: tuple) -> Interval:
        enclosed = partial(enclose, weights, biases, chain.activation, chain.precision)
        return jax.vmap(lambda a, b: enclosed(a, b, column, order))(low, high)

    return jax.lax.map(lambda parts: draw(*parts), (chain.weights, chain.biases))


def enclose(
    weights: tuple[Array, ...],
    biases: tuple[Array, ...],
    activation: str,
    precision: str,
    low: Float[Array, " inputs"],
    high: Float[Array, " inputs"],
    column: int,
    order: int,
) -> Interval:
    """One network on one box: values, slopes along a column, or bends."""
    rounding = ROUNDING[np.dtype(precision)]
    layers = _values(weights, biases, activation, precision, low, high)
    if order == 0:
        return layers[-1]
    unit = UNIT[precision]
    direction = jnp.zeros_like(low).at[column].set(1.0)
    first: Interval = (direction, direction)
    second: Interval = (jnp.zeros_like(low), jnp.zeros_like(low))
    for place, weight in enumerate(weights):
        first = _linear(weight, first, unit)
        second = _linear(weight, second, unit)
        if place == len(weights) - 1:
            break
        steep = range_of(activation, 1, *layers[place], rounding)
        if order == 2:
            if activation == "relu":
                raise KnowledgeError("certify: relu has no bend to bound; use chords (order=1)")
            bent = range_of(activation, 2, *layers[place], rounding)
            second = _sum(_times(bent, _square(first)), _times(steep, second))
        first = _times(steep, first)
    return first if order == 1 else second


def _values(
    weights: tuple[Array, ...],
    biases: tuple[Array, ...],
    activation: str,
    precision: str,
    low: Array,
    high: Array,
) -> list[Interval]:
    """Bounds of every layer before its activation: intervals and lines, the tighter of both."""
    unit, rounding = UNIT[precision], ROUNDING[np.dtype(precision)]
    found: list[Interval] = []
    held: list[Interval] = [(low, high)]
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        plain = _affine(weight, bias, held[-1], unit)
        if place:
            lined = _backward(weights, biases, activation, rounding, unit, found, held, place)
            # both hold, so their ends may be mixed
            plain = jnp.maximum(plain[0], lined[0]), jnp.minimum(plain[1], lined[1])
        found.append(plain)
        if place < len(weights) - 1:
            held.append(range_of(activation, 0, *plain, rounding))
    return found


def _affine(weight: Array, bias: Array, inputs: Interval, unit: float) -> Interval:
    """W [h] + b as it is computed, rounding included."""
    low, high = inputs
    positive, negative = jnp.maximum(weight, 0), jnp.minimum(weight, 0)
    size = jnp.abs(weight) @ jnp.maximum(jnp.abs(low), jnp.abs(high)) + jnp.abs(bias)
    give = ((weight.shape[1] + 2) * (1.01 * unit + OWN)) * size
    return (
        positive @ low + negative @ high + bias - give,
        positive @ high + negative @ low + bias + give,
    )


def _linear(weight: Array, inputs: Interval, unit: float) -> Interval:
    return _affine(weight, jnp.zeros(weight.shape[0]), inputs, unit)


def _backward(
    weights: tuple[Array, ...],
    biases: tuple[Array, ...],
    activation: str,
    rounding: float,
    unit: float,
    found: list[Interval],
    held: list[Interval],
    place: int,
) -> Interval:
    """Bounds of layer ``place`` from lines through all activations before it, at the inputs."""

    def end(sign: float) -> Array:
        """The upper bound of sign * layer."""
        slopes = sign * weights[place]
        height = sign * biases[place]
        lost = _lost(slopes, height, held[place], weights[place].shape[1], unit)
        for k in range(place - 1, -1, -1):
            (low_slope, low_height), (high_slope, high_height) = lines(
                activation, *found[k], rounding
            )
            positive, negative = jnp.maximum(slopes, 0), jnp.minimum(slopes, 0)
            height = height + positive @ high_height + negative @ low_height
            size = jnp.abs(high_height) + jnp.abs(low_height)
            lost = lost + OWN * (slopes.shape[1] + 2) * (jnp.abs(slopes) @ size)
            slopes = positive * high_slope + negative * low_slope
            deep = weights[k].shape[1]
            own = jnp.abs(slopes) @ jnp.abs(biases[k])
            through = jnp.abs(slopes) @ (jnp.abs(weights[k]) @ _size(held[k]))
            # what layer k rounds, and what the products here round
            terms = (deep + 2) * 1.01 * unit + (slopes.shape[1] + deep + 4) * OWN
            lost = lost + terms * (own + through)
            height = height + slopes @ biases[k]
            slopes = slopes @ weights[k]
        low, high = held[0]
        top = jnp.maximum(slopes, 0) @ high + jnp.minimum(slopes, 0) @ low
        size = jnp.abs(slopes) @ _size(held[0]) + jnp.abs(height)
        return top + height + lost + OWN * (slopes.shape[1] + 4) * size

    return -end(-1.0), end(1.0)


def _lost(slopes: Array, height: Array, inputs: Interval, deep: int, unit: float) -> Array:
    size = jnp.abs(slopes) @ _size(inputs) + jnp.abs(height)
    return ((deep + 2) * (1.01 * unit + OWN)) * size


def _size(interval: Interval) -> Array:
    return jnp.maximum(jnp.abs(interval[0]), jnp.abs(interval[1]))


def _outside(low: Array, high: Array) -> Interval:
    """One rounding to the deployed precision, and a few of float64."""
    give = 2.0**-22 * jnp.maximum(jnp.abs(low), jnp.abs(high))
    return low - give, high + give


def _times(one: Interval, other: Interval) -> Interval:
    products = jnp.stack([a * b for a in one for b in other])
    return _outside(jnp.min(products, axis=0), jnp.max(products, axis=0))


def _square(one: Interval) -> Interval:
    low, high = jnp.abs(one[0]), jnp.abs(one[1])
    least = jnp.where((one[0] <= 0) & (one[1] >= 0), 0.0, jnp.minimum(low, high) ** 2)
    return _outside(least, jnp.maximum(low, high) ** 2)


def _sum(one: Interval, other: Interval) -> Interval:
    return _outside(one[0] + other[0], one[1] + other[1])
