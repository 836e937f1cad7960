"""log P(low <= Y <= high) of normal, Student-t and Poisson variables, far into their tails in float32.

Ends may be infinite. A small interval is integrated; a large one is a difference of two tails, taken on
the side where both are small, in logarithms. No value that is computed and not used is infinite, so
gradients are finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammainc, gammaincc, log_ndtr, logsumexp
from jaxtyping import Array, Float

# Gauss-Legendre nodes and weights on [-1, 1]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
# an interval is small where the log density changes by about this much over it
SMALL = 1.0
# probabilities below this are computed by their expansion: float32 ends at 1e-38
DEEP = 1e-30
TERMS = 30
LOG_TWO_PI = math.log(2 * math.pi)


def normal_log_mass(low: Array, high: Array, mean: Array, scale: Array) -> Array:
    """log P(low <= Y <= high) of Y ~ N(mean, scale^2), for each pair of ends.

    >>> above = jnp.array(30.0), jnp.array(jnp.inf)
    >>> float(normal_log_mass(*above, jnp.array(0.0), jnp.array(1.0))).__round__(2)
    -454.32
    """

    def log_density(z: Array) -> Array:
        return -0.5 * z**2 - 0.5 * LOG_TWO_PI

    return _symmetric(low, high, mean, scale, log_ndtr, log_density)


def student_log_mass(freedom: float, low: Array, high: Array, mean: Array, scale: Array) -> Array:
    """log P(low <= Y <= high) of Y = mean + scale * t with ``freedom`` degrees of freedom."""

    def log_cdf(z: Array) -> Array:
        return _student_log_cdf(freedom, z)

    def log_density(z: Array) -> Array:
        return _student_log_density(freedom, z)

    return _symmetric(low, high, mean, scale, log_cdf, log_density)


def _symmetric(
    low: Array, high: Array, mean: Array, scale: Array, log_cdf: Callable, log_density: Callable
) -> Array:
    """log P(low <= Y <= high), where Z = (Y - mean) / scale is symmetric around 0."""
    below, above = jnp.isneginf(low), jnp.isposinf(high)
    # an infinite end would make the gradient of the quotient NaN, even where it is not used
    start = (jnp.where(below, 0.0, low) - mean) / scale
    end = (jnp.where(above, 0.0, high) - mean) / scale
    both = ~below & ~above & (low < high)
    # mirrored to the left of 0, where the distribution function is small
    right = start + end > 0
    first = jnp.where(both, jnp.where(right, -end, start), -1.0)
    last = jnp.where(both, jnp.where(right, -start, end), 1.0)
    small = (last - first) * jnp.maximum(1.0, -first) < SMALL
    integral = _integral(jnp.where(small, first, -0.1), jnp.where(small, last, 0.1), log_density)
    # the width is taken from the ends themselves, which may differ by less than z resolves
    width = jnp.where(both, high - low, 1.0) / scale
    far = jnp.where(small, -1.0, first), jnp.where(small, 1.0, last)
    tail, lower, upper = log_cdf(jnp.stack([jnp.where(below, end, -start), *far]))
    inside = jnp.where(small, integral + jnp.log(width), log_difference(upper, lower))
    return jnp.where(both, inside, jnp.where(below & above, 0.0, tail))


def _integral(first: Array, last: Array, log_density: Callable) -> Array:
    """log of the mean density between two ends."""
    middle, half = (first + last) / 2, (last - first) / 2
    nodes = middle[..., None] + half[..., None] * NODES.astype(middle.dtype)
    return logsumexp(log_density(nodes), axis=-1, b=WEIGHTS / 2)


def log_difference(larger: Array, smaller: Array) -> Array:
    """log(exp(larger) - exp(smaller))."""
    return larger + jnp.log(-jnp.expm1(smaller - larger))


def _student_log_density(freedom: float, z: Array) -> Array:
    nu = freedom
    constant = -0.5 * math.log(nu) - _log_beta(nu / 2)
    return constant - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)


def _log_beta(a: float) -> float:
    """log of the beta function of (a, 1/2)."""
    return math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _student_log_cdf(freedom: float, z: Array) -> Array:
    """log P(T <= z): the regularised incomplete beta function, and its continued fraction far out."""
    nu = freedom
    x = nu / (nu + z**2)
    one_tail = 0.5 * betainc(nu / 2, 0.5, x)
    deep = one_tail < DEEP
    far = _student_log_tail(nu, jnp.where(deep, x, 0.5))
    left = jnp.where(deep, far, jnp.log(jnp.where(deep, 1.0, one_tail)))
    return jnp.where(z < 0, left, jnp.log1p(-one_tail))


def _student_log_tail(nu: float, x: Array) -> Array:
    """log of half the incomplete beta function of (nu/2, 1/2) at ``x``, by its continued fraction."""
    a, b = nu / 2, 0.5
    n = np.arange(TERMS, 0, -1)
    m = n // 2
    odd = -(a + m) * (a + b + m) / ((a + 2 * m) * (a + 2 * m + 1))
    even = m * (b - m) / ((a + 2 * m - 1) * (a + 2 * m))
    steps = jnp.asarray(np.where(n % 2, odd, even), x.dtype)
    fraction = jax.lax.fori_loop(
        0, TERMS, lambda k, rest: 1 + steps[k] * x / rest, jnp.ones_like(x)
    )
    front = a * jnp.log(x) + b * jnp.log1p(-x) - math.log(2 * a) - _log_beta(a)
    return front - jnp.log(fraction)


@_student_log_cdf.defjvp
def _student_slope(freedom: float, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (z,), (change,) = primals, tangents
    value = _student_log_cdf(freedom, z)
    return value, jnp.exp(_student_log_density(freedom, z) - value) * change


def poisson_log_mass(log_rate: Array, low: Array, high: Array) -> Array:
    """log P(low <= Y <= high) of a count Y, both ends included; ends are whole numbers or infinite.

    >>> zero = poisson_log_mass(jnp.array(-5.0), jnp.array(1.0), jnp.array(jnp.inf))
    >>> float(zero).__round__(4)
    -5.0034
    """
    below, above = low <= 0, jnp.isposinf(high)
    first, last = jnp.where(below, 1.0, low), jnp.where(above, 1.0, high)
    both = ~below & ~above
    # a difference of the smaller tails
    right = both & (first > jnp.exp(log_rate))
    further = jnp.where(right, last + 1, first + 1), jnp.where(both & ~right, first - 1, last - 1)
    rates = jnp.stack([log_rate, log_rate])
    from_first, beyond = poisson_log_at_least(rates, _alike(rates, first, further[0]))
    up_to_last, before = poisson_log_at_most(rates, _alike(rates, last, further[1]))
    # where a difference is not used, it is that of two constants
    upper = jnp.where(right, from_first, jnp.where(both, up_to_last, 0.0))
    lower = jnp.where(right, beyond, jnp.where(both, before, -1.0))
    one_sided = jnp.where(below, jnp.where(above, 0.0, up_to_last), from_first)
    return jnp.where(both, log_difference(upper, jnp.minimum(lower, upper - 1e-6)), one_sided)


def _alike(rates: Array, *counts: Array) -> Array:
    return jnp.stack([jnp.broadcast_to(count, rates.shape[1:]) for count in counts])


def _log_pmf(log_rate: Array, count: Array) -> Array:
    return count * log_rate - jnp.exp(log_rate) - jax.lax.lgamma(count + 1.0)


@jax.custom_jvp
def poisson_log_at_least(log_rate: Float[Array, ...], count: Float[Array, ...]) -> Array:
    """log P(Y >= count), for counts of 1 and above."""
    rate = jnp.exp(log_rate)
    chance, rest = gammainc(count, rate), gammaincc(count, rate)
    deep = chance < DEEP
    # pmf(k) * (1 + r/(k+1) (1 + r/(k+2) (...))), closed by a geometric series
    ratio = jnp.where(deep, rate / (count + TERMS), 0.0)
    series = 1 / (1 - jnp.minimum(ratio, 0.99))
    series = jax.lax.fori_loop(
        0, TERMS - 1, lambda k, rest: 1 + rate / (count + TERMS - 1 - k) * rest, series
    )
    return _chosen(chance, rest, deep, _log_pmf(log_rate, count) + jnp.log(series))


@jax.custom_jvp
def poisson_log_at_most(log_rate: Float[Array, ...], count: Float[Array, ...]) -> Array:
    """log P(Y <= count); of a count below 0 it is that of 0."""
    count = jnp.maximum(count, 0.0)
    rate = jnp.exp(log_rate)
    chance, rest = gammaincc(count + 1, rate), gammainc(count + 1, rate)
    deep = chance < DEEP
    # pmf(k) * (1 + k/r (1 + (k-1)/r (...)))
    ratio = jnp.where(deep, jnp.maximum(count - TERMS + 1, 0.0) / rate, 0.0)
    series = 1 / (1 - jnp.minimum(ratio, 0.99))
    series = jax.lax.fori_loop(
        0,
        TERMS - 1,
        lambda k, rest: 1 + jnp.maximum(count - (TERMS - 2 - k), 0.0) / rate * rest,
        series,
    )
    return _chosen(chance, rest, deep, _log_pmf(log_rate, count) + jnp.log(series))


def _chosen(chance: Array, rest: Array, deep: Array, far: Array) -> Array:
    """log of ``chance``, or of 1 - ``rest`` where that is more precise, or the expansion."""
    near = jnp.where(chance > 0.5, jnp.log1p(-rest), jnp.log(jnp.where(deep, 1.0, chance)))
    return jnp.where(deep, far, near)


@poisson_log_at_least.defjvp
def _at_least_slope(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    (log_rate, count), (change, _) = primals, tangents
    value = poisson_log_at_least(log_rate, count)
    return value, count * jnp.exp(_log_pmf(log_rate, count) - value) * change


@poisson_log_at_most.defjvp
def _at_most_slope(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    (log_rate, count), (change, _) = primals, tangents
    value = poisson_log_at_most(log_rate, count)
    following = jnp.maximum(count, 0.0) + 1
    return value, -following * jnp.exp(_log_pmf(log_rate, following) - value) * change
