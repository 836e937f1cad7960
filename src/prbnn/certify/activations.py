"""Ranges of activations and of their derivatives over intervals, and straight lines that enclose them.

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

from prbnn.model.networks import ACTIVATIONS

# beyond this every smooth activation is a straight line, or nothing, to the last digit of float64
REACH = 40.0
HIGHEST = 2
# pieces of an interval at which a smooth activation is compared with a straight line
PIECES = 12
# what rounding may cost a range, as a share of 1 or of its size: libm and XLA are a few units off
ROUNDING = {np.dtype("float32"): 2e-6, np.dtype("float64"): 1e-13}


def _softplus(z: Array) -> Array:
    return jnp.logaddexp(z, 0.0)


# jax.nn's functions guard derivatives by custom rules; these differentiate as they stand
SMOOTH: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "sigmoid": lambda z: 0.5 * (1 + jnp.tanh(0.5 * z)),
    "softplus": _softplus,
    "gelu": lambda z: 0.5 * z * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "rbf": lambda z: jnp.exp(-(z**2)),
}


def known(activation: str) -> bool:
    """Whether this module can enclose an activation."""
    return activation == "relu" or (activation in SMOOTH and activation in ACTIVATIONS)


def derivative(activation: str, order: int) -> Callable[[Array], Array]:
    """The derivative of an order, of one number."""
    function = SMOOTH[activation]
    for _ in range(order):
        function = jax.grad(function)
    return function


@cache
def turning_points(activation: str, order: int) -> tuple[float, ...]:
    """Where the derivative of an order has its extrema: zeros of the one after it."""
    # called while a program is traced, and yet its own numbers are needed at once
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        following = jax.jit(jax.vmap(derivative(activation, order + 1)))
        grid = np.linspace(-REACH / 4, REACH / 4, 20_001) + 1e-4 * np.sqrt(2)
        values = np.asarray(following(jnp.asarray(grid)))
        # tails that have all but vanished change sign by rounding alone
        alive = np.abs(values) > 1e-13
        changes = np.flatnonzero((values[:-1] * values[1:] < 0) & alive[:-1] & alive[1:])

        def at(z: float) -> float:
            return float(following(jnp.asarray([z]))[0])

        return tuple(brentq(at, grid[k], grid[k + 1], xtol=1e-15) for k in changes)


def range_of(
    activation: str, order: int, low: Array, high: Array, rounding: float
) -> tuple[Array, Array]:
    """The least and the greatest value of a derivative (0: the activation itself) over [low, high]."""
    if activation == "relu":
        return _relu_range(order, low, high)
    function = jnp.vectorize(derivative(activation, order))
    low_end, high_end = function(low), function(high)
    least, greatest = jnp.minimum(low_end, high_end), jnp.maximum(low_end, high_end)
    for place in turning_points(activation, order):
        value = function(jnp.asarray(place))
        inside = (low <= place + 1e-9) & (place - 1e-9 <= high)
        least = jnp.where(inside, jnp.minimum(least, value), least)
        greatest = jnp.where(inside, jnp.maximum(greatest, value), greatest)
    give = rounding * (1 + jnp.maximum(jnp.abs(least), jnp.abs(greatest)))
    return least - give, greatest + give


def _relu_range(order: int, low: Array, high: Array) -> tuple[Array, Array]:
    if order == 0:
        return jnp.maximum(low, 0.0), jnp.maximum(high, 0.0)
    if order == 1:
        # at a kink either slope may be the one that is taken
        return (low > 0).astype(low.dtype), (high >= 0).astype(low.dtype)
    zero = jnp.zeros_like(low)
    return zero, zero


def lines(
    activation: str, low: Array, high: Array, rounding: float
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """(slope, height at 0) of a line below and of one above an activation over [low, high]."""
    width = high - low
    if activation == "relu":
        chord = jnp.where(width > 0, high / jnp.where(width > 0, width, 1.0), 0.0)
        above = jnp.where(low >= 0, 1.0, jnp.where(high <= 0, 0.0, chord))
        # rounding of the chord must not take it below the kink or the ends
        give = 8 * jnp.finfo(low.dtype).eps * (jnp.abs(low) + jnp.abs(high))
        height = jnp.where((low < 0) & (high > 0), -chord * low + give, 0.0)
        below = jnp.where(low >= 0, 1.0, jnp.where(high <= 0, 0.0, (high > -low).astype(low.dtype)))
        return (below, jnp.zeros_like(low)), (above, height)
    function = jnp.vectorize(SMOOTH[activation])
    middle = jnp.vectorize(derivative(activation, 1))(0.5 * (low + high))
    steep = (function(high) - function(low)) / jnp.where(width > 0, width, 1.0)
    slope = jnp.where(width > 1e-6, steep, middle)
    # between neighbours a curve is no further from its chord than |f''| h^2 / 8
    places = low + width * jnp.linspace(0.0, 1.0, PIECES + 1).reshape(-1, *[1] * low.ndim)
    away = function(places) - slope * places
    bend_low, bend_high = range_of(activation, 2, low, high, rounding)
    bend = jnp.maximum(jnp.abs(bend_low), jnp.abs(bend_high))
    size = jnp.abs(slope) * jnp.maximum(jnp.abs(low), jnp.abs(high))
    give = bend * (width / PIECES) ** 2 / 8 + rounding * (1 + size + jnp.max(jnp.abs(away), axis=0))
    return (slope, jnp.min(away, axis=0) - give), (slope, jnp.max(away, axis=0) + give)
