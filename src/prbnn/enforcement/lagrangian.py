"""The augmented Lagrangian: rules with a tolerance, on average and probable.

Pressure is the Lagrangian's own derivative ``max(0, dual - penalty * gap)``, where gap = mean f - bound
at a *running* mean: the square of a few draws' mean would bias the dual by penalty * Var f / draws.

The penalty is tempering / (Var f + tolerance^2). d mean f / d dual = Var f / tempering, so
``dual <- dual - penalty * gap`` is about a Newton step. It is spread over RESPONSE steps, so that the
weights can follow, and takes the dual to no more than 1.5 times itself (plus 1) and no less than half.
A penalty so measured grows by itself while a rule is being met, since Var f falls, and not otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.running import Running, gap, memory_of
from prbnn.enforcement.strength_table import MEAN, PROBABILITY, StrengthTable
from prbnn.rules.strengths import Kind

# duals stop here, in nats per row and unit
LARGEST = 1e7
# a Newton step of a dual is spread over this many steps
RESPONSE = 100
# a penalty follows 1 / Var f up at once and down by no more than this factor per step: otherwise a
# posterior that moves away would loosen its own constraint by its growing spread
FORGETTING = 0.999
# A posterior that is pulled far from its data answers more slowly than its spread suggests. While a mean
# stays short of its bound, steps of its dual grow by the factor BOOST per step, up to 1 / tempering; once
# the bound is reached they shrink by EASE
BOOST, EASE = 1.003, 0.97
# how much of the dual of a probable rule that is more than met is taken back per Newton step
GIVEN_BACK = 0.3


class LagrangianState(NamedTuple):
    """The penalty of each rule, and by how much its Newton step is lengthened."""

    penalty: Float[Array, " rules"]
    boost: Float[Array, " rules"]


def first_penalty(rules: int) -> LagrangianState:
    """Before the first step."""
    zeros = jnp.zeros(rules)
    return LagrangianState(zeros, zeros + 1)


def adapt(
    table: StrengthTable,
    state: LagrangianState,
    running: Running,
    functions: int,
    warmup: Array | float,
    block: int,
) -> LagrangianState:
    """The penalty and the boost after a step of ``functions`` functions has been taken in."""
    warm = running.step > warmup
    floor = jnp.where(table.of_kind(Kind.TOLERANT), table.bound**2, 0.0) + 1e-10
    kept = table.of_kind(*MEAN) & warm & (block == 1)
    penalty = jnp.maximum(
        table.tempering / (running.variance + floor),
        jnp.where(kept, FORGETTING * state.penalty, 0.0),
    )
    memory, _ = memory_of(block)
    short = gap(table, running) < -2 * jnp.sqrt(running.variance / (functions * memory))
    boost = jnp.where(short & warm, BOOST * state.boost, EASE * state.boost)
    boost = jnp.clip(boost, 1.0, jnp.maximum(1 / table.tempering, 1.0))
    return LagrangianState(penalty, boost)


def newton_step(
    table: StrengthTable, state: LagrangianState, running: Running
) -> Float[Array, " rules"]:
    """The change of each dual that a Newton method would make at once."""
    return -gap(table, running) * state.penalty * state.boost


def effective_dual(
    table: StrengthTable, state: LagrangianState, running: Running, dual: Array
) -> Float[Array, " rules"]:
    """``dual - penalty * gap``, within twice the dual plus 1, where a rule is of this law."""
    change = jnp.clip(newton_step(table, state, running), -dual, dual + 1.0)
    return dual + jnp.where(table.of_kind(*MEAN, *PROBABILITY), change, 0.0)


def moved_dual(
    table: StrengthTable, state: LagrangianState, running: Running, dual: Array, moves: Array
) -> Float[Array, " rules"]:
    """The duals after 1 / RESPONSE of a Newton step, where a rule is of this law and ``moves``."""
    chosen = table.of_kind(*MEAN, *PROBABILITY)
    if not chosen.any():
        return dual
    short = gap(table, running)
    # the largest step of each rule is scaled by its shortfall
    lack = table.active * jnp.where(chosen, jnp.maximum(0.0, -short), 0.0)
    most = (0.5 * dual + 1.0) * lack / (jnp.max(lack) + 1e-12)
    change = jnp.clip(newton_step(table, state, running), -0.5 * dual, most)
    # with a dual far too large, the empirical frequency is 0 and so is its variance, which gives no
    # Newton step: the dual falls by at least a fraction of itself
    eased = GIVEN_BACK * dual * jnp.clip(short / table.bound, -1.0, 0.0)
    strict = table.of_kind(*PROBABILITY)
    change = jnp.where(strict & (eased < 0), jnp.minimum(change, eased), change)
    moved = jnp.clip(dual + change / RESPONSE, 0.0, LARGEST * table.scale)
    return jnp.where(chosen & moves, moved, dual)
