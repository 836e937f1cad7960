"""Ranges of activations and of their derivatives over intervals, and straight lines along them.

A range is attained at an end or where the next derivative vanishes; those places are found once, to
the last digit that float64 has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.optimize import brentq

from prbnn.certify.enclosures.rounding import magnitude
from prbnn.model.networks import ACTIVATIONS

# beyond this no derivative of a smooth activation has an extremum that float64 could see
REACH = 10.0
# pieces of an interval at which an activation is compared with a straight line
PIECES = 8
# what a deployed activation may be off by, as a share of 1 or of its size: libm and XLA round
ROUNDING = {np.dtype("float32"): 2e-6, np.dtype("float64"): 1e-13}
# derivatives of gelu multiply 1 - tanh^2, of which rounding leaves little, by powers of z
MAGNIFIED = {("gelu", 1): 6.0, ("gelu", 2): 48.0}


# jax.nn's functions guard derivatives by rules of their own; these differentiate as they stand
SMOOTH: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "sigmoid": lambda z: 0.5 * (1 + jnp.tanh(0.5 * z)),
    "softplus": lambda z: jnp.logaddexp(z, 0.0),
    "gelu": lambda z: 0.5 * z * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "rbf": lambda z: jnp.exp(-(z**2)),
}


def known(activation: str) -> bool:
    """Whether this module can enclose an activation."""
    return activation == "relu" or (activation in SMOOTH and activation in ACTIVATIONS)


def derivative(activation: str, order: int) -> Callable[[Array], Array]:
    """The derivative of an order, of one number."""
    if activation == "softplus" and order:
        # logaddexp's own rule divides exponentials, which overflow far out
        activation, order = "sigmoid", order - 1
    function = SMOOTH[activation]
    for _ in range(order):
        function = jax.grad(function)
    return function


@cache
def turning_points(activation: str, order: int) -> tuple[float, ...]:
    """Where the derivative of an order has its extrema: zeros of the one after it."""
    following, grid, values = _sampled(activation, order + 1)
    # tails that have all but vanished change sign by rounding alone
    alive = np.abs(values) > 1e-13
    changes = np.flatnonzero((values[:-1] * values[1:] < 0) & alive[:-1] & alive[1:])

    def at(z: float) -> float:
        # called while a program is traced, and yet its own numbers are needed at once
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            return float(following(jnp.asarray([z]))[0])

    return tuple(brentq(at, grid[k], grid[k + 1], xtol=1e-15) for k in changes)


@cache
def largest(activation: str, order: int) -> float:
    """The greatest size a derivative has anywhere (of order 2 and above: they vanish far out)."""
    step = 2 * REACH / 20_000
    found = float(np.max(np.abs(_sampled(activation, order)[2])))
    steepest = float(np.max(np.abs(_sampled(activation, order + 1)[2])))
    return found + 2 * step * steepest


@cache
def _sampled(activation: str, order: int) -> tuple[Callable, np.ndarray, np.ndarray]:
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        function = jax.jit(jax.vmap(derivative(activation, order)))
        grid = np.linspace(-REACH, REACH, 20_001) + 1e-4 * np.sqrt(2)
        return function, grid, np.asarray(function(jnp.asarray(grid)))


def range_of(
    activation: str, order: int, low: Array, high: Array, rounding: float
) -> tuple[Array, Array]:
    """The least and the greatest value of a derivative (0: the activation itself) over [low, high]."""
    if activation == "relu":
        return _relu_range(order, low, high)
    rounding = rounding * MAGNIFIED.get((activation, order), 1.0)
    function = jnp.vectorize(derivative(activation, order))
    low_end, high_end = function(low), function(high)
    least, greatest = jnp.minimum(low_end, high_end), jnp.maximum(low_end, high_end)
    for place in turning_points(activation, order):
        value = function(jnp.asarray(place))
        inside = (low <= place + 1e-9) & (place - 1e-9 <= high)
        least = jnp.where(inside, jnp.minimum(least, value), least)
        greatest = jnp.where(inside, jnp.maximum(greatest, value), greatest)
    give = rounding * (1 + magnitude(least, greatest))
    return least - give, greatest + give


def _relu_range(order: int, low: Array, high: Array) -> tuple[Array, Array]:
    if order == 0:
        return jnp.maximum(low, 0.0), jnp.maximum(high, 0.0)
    if order == 1:
        # at a kink either slope may be the one that is taken
        return (low > 0).astype(low.dtype), (high >= 0).astype(low.dtype)
    zero = jnp.zeros_like(low)
    return zero, zero


def line(
    activation: str, order: int, low: Array, high: Array, rounding: float
) -> tuple[Array, Array, Array]:
    """A slope and how far below and above that straight line a derivative runs over [low, high].

    (slope, a, b) with slope z + a <= f(z) <= slope z + b. Between neighbours of a fine grid a curve is
    no further from its chord than max |f''| h^2 / 8.
    """
    width = high - low
    if activation == "relu":
        if order:
            ends = range_of(activation, order, low, high, rounding)
            return (jnp.zeros_like(low), *ends)
        chord = jnp.where(width > 0, high / jnp.where(width > 0, width, 1.0), 0.0)
        slope = jnp.where(low >= 0, 1.0, jnp.where(high <= 0, 0.0, chord))
        give = 8 * jnp.finfo(low.dtype).eps * (jnp.abs(low) + jnp.abs(high))
        across = (low < 0) & (high > 0)
        return slope, jnp.where(across, -give, 0.0), jnp.where(across, give - chord * low, 0.0)
    rounding = rounding * MAGNIFIED.get((activation, order), 1.0)
    function = jnp.vectorize(derivative(activation, order))
    steps = jnp.linspace(0.0, 1.0, PIECES + 1).reshape(-1, *[1] * low.ndim)
    places = low + width * steps
    values = function(places)
    steep = (values[-1] - values[0]) / jnp.where(width > 0, width, 1.0)
    slope = jnp.where(width > 1e-6, steep, 0.0)
    away = values - slope * places
    size = jnp.abs(slope) * magnitude(low, high)
    bend = largest(activation, order + 2) * (width / PIECES) ** 2 / 8
    give = bend + rounding * (1 + size + jnp.max(jnp.abs(values), axis=0))
    # a slope of 0 over a narrow interval: what the curve may rise between two neighbours
    flat = jnp.where(width > 1e-6, 0.0, jnp.abs(values[-1] - values[0]))
    give = give + flat
    return slope, jnp.min(away, axis=0) - give, jnp.max(away, axis=0) + give


def relu_below(low: Array, high: Array) -> Array:
    """The slope of the line through 0 below a relu that leaves the least room over [low, high]."""
    across = (high > -low).astype(low.dtype)
    return jnp.where(low >= 0, 1.0, jnp.where(high <= 0, 0.0, across))
