"""Activations by name, and gelu with its derivatives written out.

Rules on slopes are trained through second derivatives. Those that automatic differentiation finds of gelu
compute its tanh again and again, which takes about half of a step; in closed form one tanh serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

# gelu(z) = z / 2 (1 + tanh(inner(z))), inner(z) = STRETCH (z + CUBIC z^3)
STRETCH = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def _inner(z: Array) -> tuple[Array, Array]:
    """tanh(inner(z)) and the derivative of inner."""
    square = z * z
    return jnp.tanh(STRETCH * z * (1 + CUBIC * square)), STRETCH * (1 + 3 * CUBIC * square)


@jax.custom_jvp
def gelu(z: Array) -> Array:
    """The Gaussian error linear unit, in its form with tanh.

    >>> bool(jnp.allclose(gelu(1.3), jax.nn.gelu(1.3)))
    True
    """
    return 0.5 * z * (1 + _inner(z)[0])


@jax.custom_jvp
def _slope(z: Array) -> Array:
    tanh, rate = _inner(z)
    return 0.5 * (1 + tanh) + 0.5 * z * (1 - tanh * tanh) * rate


def _curvature(z: Array) -> Array:
    tanh, rate = _inner(z)
    bump = 1 - tanh * tanh
    return bump * (rate + z * (3 * STRETCH * CUBIC * z - tanh * rate * rate))


@gelu.defjvp
def _(points: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return gelu(*points), _slope(*points) * tangents[0]


@_slope.defjvp
def _(points: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _slope(*points), _curvature(*points) * tangents[0]


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "gelu": gelu,
    "rbf": lambda z: jnp.exp(-(z**2)),
}
