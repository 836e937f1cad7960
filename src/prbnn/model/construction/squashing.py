"""A smooth squashing between limits: nearly the network's output far from them, the limit beyond them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array


@jax.custom_jvp
def squash(z: Array, lower: Array, upper: Array, softness: Array) -> Array:
    """y = lower + t softplus((z - lower) / t) - t softplus((z - upper) / t), with t the softness.

    y is inside [lower, upper] for every z. Without an upper limit (infinity) it is the softplus above
    the lower one, without either it is z itself. In the middle of limits that are many t apart it is
    nearly z, so that weights mean what they mean without limits. It never falls as z, lower or upper
    grow, and with one limit it is a smooth maximum (minimum) of z and that limit, which keeps a convex
    (concave) z convex (concave).

    >>> squash(jnp.array([-9.0, 0.5, 9.0]), 0.0, 1.0, 0.1).tolist()
    [0.0, 0.5, 1.0]
    """
    below, above = (z - lower) / softness, (z - upper) / softness
    # softplus(u) = max(u, 0) + log1p(exp(-|u|)): in this form no large numbers cancel
    small = jnp.log1p(jnp.exp(-jnp.abs(below))) - jnp.log1p(jnp.exp(-jnp.abs(above)))
    return jnp.clip(jnp.clip(z, lower, upper) + softness * small, lower, upper)


@squash.defjvp
def _(values: tuple, tangents: tuple) -> tuple[Array, Any]:
    """The derivative as products of numbers >= 0, which rounding cannot make negative.

    dy = s(u) s(-v) (1 - exp(v - u)) dz + s(-u) dlower + s(v) dupper, with u = (z - lower) / t,
    v = (z - upper) / t and s the sigmoid; the softness is a constant.
    """
    z, lower, upper, softness = values
    dz, dlower, dupper, _ = tangents
    below, above = (z - lower) / softness, (z - upper) / softness
    room = -jnp.expm1(-(upper - lower) / softness)
    slope = jax.nn.sigmoid(below) * jax.nn.sigmoid(-above) * room
    change = slope * dz + jax.nn.sigmoid(-below) * dlower + jax.nn.sigmoid(above) * dupper
    return squash(z, lower, upper, softness), change
