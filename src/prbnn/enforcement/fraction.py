"""Hard rules without a tolerance: the dual follows the fraction of functions that break the rule.

What a user means by such a rule is that drawn functions obey it. The dual moves as
``dual <- dual * exp(rate * (fraction - target) / target)``, so it settles where the fraction is at its
target. More pressure would only squeeze the posterior, and conditioning rejects the few functions left.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.running import Running
from prbnn.enforcement.strength_table import StrengthTable
from prbnn.rules.strengths import Kind

# fraction of drawn functions that may break some hard rule before conditioning, all rules together
REJECTION = 0.12
# how fast a dual moves: per step, and of samplers per block
RATE = 0.003
BLOCK_RATE = 0.35
# where the worst points are evaluated, a fraction far above its target raises the dual this many times
# faster: a rule that other rules met on its behalf may be broken late, when its own dual has fallen
FASTEST_RISE = 3.0
# duals stop here, in nats per row and unit
LARGEST_DUAL = 1e4
# A step's points see only some of the functions that break a rule. LEAST_REACH is the least fraction of
# them that they are taken to see; CALIBRATION_RATE is how fast the two means behind it follow, since few
# functions are evaluated at a time and mostly none of them breaks a rule
LEAST_REACH = 0.1
CALIBRATION_RATE = 0.2


class FractionState(NamedTuple):
    """Of the functions that break a rule: the fraction a step's points see, and that the pool sees."""

    seen: Float[Array, " rules"]
    anywhere: Float[Array, " rules"]


def uncalibrated(rules: int) -> FractionState:
    """Before the first calibration a step's points are taken to see everything."""
    ones = jnp.zeros(rules) + 1
    return FractionState(ones, ones)


def first_dual(table: StrengthTable) -> Float[Array, " rules"]:
    """One nat per row and unit for rules of this law, and 0 for the others."""
    return jnp.where(table.of_kind(Kind.HARD), table.scale, 0.0)


def calibrate(
    state: FractionState, running: Running, anywhere: Float[Array, " rules"]
) -> FractionState:
    """Take in the fraction of functions that break a rule anywhere in its pool of points.

    The ratio of the two running means lowers the target. A ratio of single measurements would be biased
    wherever few functions break a rule, since each of them finds none or many.
    """
    return FractionState(
        seen=state.seen + CALIBRATION_RATE * (running.broken - state.seen),
        anywhere=state.anywhere + CALIBRATION_RATE * (anywhere - state.anywhere),
    )


def moved_dual(
    table: StrengthTable,
    state: FractionState,
    running: Running,
    dual: Array,
    moves: Array,
    *,
    searched: bool,
    block: int,
) -> Float[Array, " rules"]:
    """The duals after a step, where a rule is of this law and ``moves``.

    ``searched`` says that pools are searched for their worst points; ``block`` is for how many steps a
    sampler holds its pressure, or 1.
    """
    reach = jnp.clip(state.seen / jnp.maximum(state.anywhere, 1e-6), LEAST_REACH, 1.0)
    target = table.target * reach
    fastest = FASTEST_RISE if searched else 1.0
    excess = jnp.clip((running.broken - target) / target, -1.0, fastest)
    rate = RATE if block == 1 else BLOCK_RATE
    moved = jnp.minimum(dual * jnp.exp(rate * excess), LARGEST_DUAL * table.scale)
    return jnp.where(table.of_kind(Kind.HARD) & moves, moved, dual)
