"""Ranges of activations and of their derivatives over intervals, and straight lines around them.

A function has its extremes over an interval at an end or where its derivative is 0; those places are
found once per activation, to the precision of float64.

In all functions, ``order`` is the order of the derivative (0 is the activation itself), ``low`` and
``high`` are the ends of intervals, arrays of any one shape, and ``rounding`` is an entry of `ROUNDING`.
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
from prbnn.model.nonlinearities import ACTIVATIONS

# no derivative of a smooth activation has an extremum outside [-10, 10] that float64 could resolve
REACH = 10.0
# pieces of an interval at which an activation is compared with a straight line
PIECES = 8
# error of a deployed activation (libm, XLA), relative to 1 + its magnitude
ROUNDING = {np.dtype("float32"): 2e-6, np.dtype("float64"): 1e-13}
# derivatives of gelu multiply 1 - tanh^2, which cancels, by powers of z: rounding is this much larger
MAGNIFIED = {("gelu", 1): 12.0, ("gelu", 2): 120.0}


# jax.nn's functions have derivative rules of their own; these are differentiated as written
SMOOTH: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "sigmoid": lambda z: 0.5 * (1 + jnp.tanh(0.5 * z)),
    "softplus": lambda z: jnp.logaddexp(z, 0.0),
    "gelu": lambda z: 0.5 * z * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "rbf": lambda z: jnp.exp(-(z**2)),
}


# activations that this module can enclose
ENCLOSED = tuple(name for name in ("relu", *SMOOTH) if name in ACTIVATIONS)


def derivative(activation: str, order: int) -> Callable[[Array], Array]:
    """The derivative of an activation, as a function of one number."""
    if activation == "softplus" and order:
        # logaddexp's own derivative divides exponentials, which overflow for large z
        activation, order = "sigmoid", order - 1
    function = SMOOTH[activation]
    for _ in range(order):
        function = jax.grad(function)
    return function


@cache
def turning_points(activation: str, order: int) -> tuple[float, ...]:
    """Where a derivative has its extrema: the zeros of the next derivative."""
    following, grid, values = _sampled(activation, order + 1)
    # in the tails, values near 0 change sign by rounding alone
    alive = np.abs(values) > 1e-13
    changes = np.flatnonzero((values[:-1] * values[1:] < 0) & alive[:-1] & alive[1:])

    def at(z: float) -> float:
        # called while a program is traced, where numbers are needed at once
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            return float(following(jnp.asarray([z]))[0])

    return tuple(brentq(at, grid[k], grid[k + 1], xtol=1e-15) for k in changes)


@cache
def largest(activation: str, order: int) -> float:
    """An upper bound of a derivative's magnitude anywhere; far out, it must go to a constant."""
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
    """(least, greatest): bounds of a derivative's values over [low, high], rounding included."""
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
        # at the kink, either slope may be the one that is deployed
        return (low > 0).astype(low.dtype), (high >= 0).astype(low.dtype)
    zero = jnp.zeros_like(low)
    return zero, zero


def line(
    activation: str, order: int, low: Array, high: Array, rounding: float
) -> tuple[Array, Array, Array]:
    """(slope, a, b) with slope z + a <= f(z) <= slope z + b for every z in [low, high].

    f is the derivative of this order. The line is compared with f at PIECES + 1 places, a distance h
    apart; between two of them f is at most max |f''| h^2 / 8 away from its chord.
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
    between = largest(activation, order + 2) * (width / PIECES) ** 2 / 8
    give = between + rounding * (1 + size + jnp.max(jnp.abs(values), axis=0))
    # over a narrow interval the line has slope 0: add what f may rise between two places
    flat = jnp.where(width > 1e-6, 0.0, jnp.abs(values[-1] - values[0]))
    give = give + flat
    return slope, jnp.min(away, axis=0) - give, jnp.max(away, axis=0) + give


def relu_below(low: Array, high: Array) -> Array:
    """The slope (0 or 1) of the line through 0 below a relu that is closest to it over [low, high]."""
    across = (high > -low).astype(low.dtype)
    return jnp.where(low >= 0, 1.0, jnp.where(high <= 0, 0.0, across))
