"""Tails of the standard normal and Student-t distributions, cheap enough to be evaluated 10^8 times.

A tail is the density times the Mills ratio M(z) = P(Z > z) / density(z). M is smooth in t = 1 / (1 + z/k)
from z = 0 to infinity, and is fitted there by a polynomial: to 1e-7 of the tail, however far out.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

# degrees and k = 4 or 2 reach 1e-7; beyond 100 degrees of freedom the second polynomial does not
NORMAL_DEGREE, STUDENT_DEGREE = 9, 16
NORMAL_UNIT, STUDENT_UNIT = 4.0, 2.0
LARGEST_FREEDOM = 100.0
# a Student's tail at this z is still a float64
FARTHEST = 1e3


class StandardTail(NamedTuple):
    """The polynomial of a distribution's Mills ratio; `freedom` is None of the normal.

    `coefficients` are those of M / t of the normal and of M * t of Student's t, in powers of 2 t - 1.
    """

    coefficients: np.ndarray
    freedom: np.ndarray | None = None
    log_constant: np.ndarray | None = None

    def lower(self, z: Array) -> tuple[Array, Array]:
        """P(Z <= z) and the density at z, in compiled code."""
        far = jnp.abs(z)
        unit = NORMAL_UNIT if self.freedom is None else STUDENT_UNIT
        t = 1 / (1 + far * (1 / unit))
        place = 2 * t - 1
        mills = self.coefficients[-1] * jnp.ones_like(place)
        for coefficient in self.coefficients[-2::-1]:
            mills = mills * place + coefficient
        if self.freedom is None:
            density = jnp.exp(-0.5 * far**2) * (1 / math.sqrt(2 * math.pi))
            tail = density * t * mills
        else:
            power = 0.5 * (self.freedom + 1) * jnp.log1p(far**2 / self.freedom)
            density = jnp.exp(self.log_constant - power)
            tail = density * mills / t
        return jnp.where(z < 0, tail, 1 - tail), density


@lru_cache
def normal_tail() -> StandardTail:
    """The tail of N(0, 1)."""
    from scipy.special import erfcx

    t = _nodes(NORMAL_DEGREE)
    z = NORMAL_UNIT * (1 / t - 1)
    mills = math.sqrt(math.pi / 2) * erfcx(z / math.sqrt(2))
    return StandardTail(_fitted(t, mills / t, NORMAL_DEGREE))


@lru_cache
def student_tail(freedom: float) -> StandardTail | None:
    """The tail of Student's t; None above 100 degrees of freedom."""
    from scipy.special import stdtr

    if freedom > LARGEST_FREEDOM:
        return None
    t = _nodes(STUDENT_DEGREE)
    t = t[STUDENT_UNIT * (1 / t - 1) < FARTHEST]
    z = STUDENT_UNIT * (1 / t - 1)
    nu = freedom
    constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
    log_density = constant - 0.5 * (nu + 1) * np.log1p(z**2 / nu)
    mills = np.exp(np.log(stdtr(nu, -z)) - log_density)
    return StandardTail(
        _fitted(t, mills * t, STUDENT_DEGREE),
        np.array(nu, np.float32),
        np.array(constant, np.float32),
    )


def _nodes(degree: int) -> np.ndarray:
    """Chebyshev's points between 0 and 1."""
    count = 8 * degree
    return (np.cos(np.pi * (np.arange(count) + 0.5) / count) + 1) / 2


def _fitted(t: np.ndarray, values: np.ndarray, degree: int) -> np.ndarray:
    """Coefficients of the polynomial in 2 t - 1 that is nearest, relative to ``values``."""
    return np.polynomial.polynomial.polyfit(2 * t - 1, values, degree, w=1 / values).astype(
        np.float32
    )
