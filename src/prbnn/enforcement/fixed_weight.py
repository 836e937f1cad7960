"""Soft rules and rules in the prior: pressure from a weight that the user states.

- soft: ``weight * power * (-mean f) ** (power - 1)``, the derivative of ``-weight * (-f) ** power``
- in the prior: ``tempering * weight``, since KL(q || p exp(weight f)) = KL(q || p) - weight E_q f
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.running import Running
from prbnn.enforcement.strength_table import FIXED, StrengthTable
from prbnn.rules.strengths import Kind


def with_fixed_weights(
    table: StrengthTable, running: Running, dual: Array
) -> Float[Array, " rules"]:
    """The pressure of every rule: of the stated weight where there is one, and else ``dual``."""
    violation = jnp.maximum(-running.f, 0.0)
    soft = (
        table.weight
        * table.power
        * jnp.where(table.power == 1, 1.0, violation ** jnp.maximum(table.power - 1, 1e-6))
    )
    found = jnp.where(table.of_kind(Kind.PRIOR), table.tempering * table.weight, dual)
    return jnp.where(table.of_kind(Kind.SOFT), soft, found)


def phased_in(table: StrengthTable, pressure: Array, warmed: Array | float) -> Array:
    """The same pressure with the stated weights scaled by ``warmed``, which goes from 0 to 1.

    Untrained functions violate rules strongly; full weights would inflate Adam's second-moment estimate,
    which decays slowly.
    """
    return jnp.where(table.of_kind(*FIXED), jnp.minimum(warmed, 1.0) * pressure, pressure)
