"""Stall detection: rules that stay broken although the pressure on them should have fixed them.

Every LOOK_EVERY steps, a rule under large pressure is compared with what it was at an earlier look. A row
of looks without progress is a stall, and a stalled rule is infeasible once the pressure was large enough:

- bounded mean: d mean / d dual = Var f / tempering; infeasible once the predicted reduction exceeds
  ENOUGH of the violation
- fraction or probability, which may not change before the rule outweighs the data: infeasible once the
  dual is near its cap
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.fraction import LARGEST_DUAL
from prbnn.enforcement.running import MEMORY, Running, gap
from prbnn.enforcement.strength_table import FIXED, MEAN, PROBABILITY, StrengthTable
from prbnn.rules.strengths import Kind

# steps between two looks; samplers look after every block
LOOK_EVERY = 25
# looks in a row without progress that make a stall; of samplers, blocks
STALLED_AFTER = 30
STALLED_BLOCKS = 12
# a rule has progressed when what is broken of it fell below this factor of what it was
BETTER = 0.8
# pressure that counts as large, in nats per row and unit
LARGE = 10.0
ENOUGH = 0.5
NEAR_THE_CAP = 0.5


class StallState(NamedTuple):
    """What a rule is compared with, and how long it has not progressed.

    - `reference`: violation, fraction broken and depth at the look that the next ones are compared with
    - `pushed`: by how much the mean should have moved since, by its dual's growth and its variance
    - `stalled`: looks in a row without progress
    """

    reference: Float[Array, "signs rules"]
    pushed: Float[Array, " rules"]
    stalled: Float[Array, " rules"]


def no_stall(rules: int) -> StallState:
    """Before the first look."""
    zeros = jnp.zeros(rules)
    return StallState(jnp.full((3, rules), jnp.inf, zeros.dtype), zeros, zeros)


def patience(block: int) -> int:
    """How many looks in a row without progress make a stall."""
    return STALLED_AFTER if block == 1 else STALLED_BLOCKS


def infeasible(state: StallState, block: int) -> Array:
    """Rules that stay broken under pressure that should have fixed them."""
    return state.stalled >= patience(block)


def stalling(table: StrengthTable, state: StallState, block: int) -> Array:
    """Rules on a fraction or a probability that have stalled for 2/3 of the patience.

    The caller then checks whether the rules contradict each other.
    """
    return (state.stalled >= patience(block) * 2 / 3) & ~table.of_kind(*MEAN)


def look(
    table: StrengthTable,
    state: StallState,
    running: Running,
    dual: Array,
    looking: Array,
    functions: int,
    block: int,
) -> StallState:
    """Compare the rules with the last look, where ``looking`` and a look is due.

    ``functions`` is how many functions a step draws. The violation of a probable rule counts how many
    functions break it and how deeply, so functions that come closer are progress. A hard rule without a
    tolerance matters while the fraction that breaks it is above 3 times its target, and it has progressed
    if fewer functions break it, or less deeply, or at fewer points. A stall under too little
    pressure is not counted: the count restarts, compared with the worse of the reference and this look.
    """
    strict, hard = table.of_kind(*PROBABILITY), table.of_kind(Kind.HARD)
    violation = jnp.maximum(0.0, -gap(table, running)) + jnp.where(strict, running.depth, 0.0)
    noise = 3 * jnp.sqrt(running.variance / (functions * MEMORY))
    matters = jnp.where(
        hard,
        running.broken > 3 * table.target,
        violation > 0.05 * jnp.abs(table.bound) + noise + 1e-6,
    )
    pressed = table.active * dual >= LARGE * table.scale
    others = (jnp.where(hard, sign, violation) for sign in (running.broken, running.depth))
    signs = jnp.stack([violation, *others])
    better = jnp.any(signs < BETTER * state.reference, axis=0)
    same = matters & pressed & ~better
    stalled = jnp.where(same, state.stalled + 1, 0.0)
    unfounded = (stalled >= patience(block)) & ~_pressed_enough(table, state, dual, violation)
    every = LOOK_EVERY if block == 1 else block
    looks = looking & (running.step % every == 0) & ~table.of_kind(*FIXED)
    worst = jnp.where(unfounded, jnp.maximum(state.reference, signs), state.reference)
    return StallState(
        reference=jnp.where(looks, jnp.where(same, worst, signs), state.reference),
        pushed=jnp.where(looks & ~same, 0.0, state.pushed),
        stalled=jnp.where(looks, jnp.where(unfounded, 0.0, stalled), state.stalled),
    )


def _pressed_enough(
    table: StrengthTable, state: StallState, dual: Array, violation: Array
) -> Array:
    """Whether the pressure so far would have reduced the violation of a feasible rule."""
    cap = NEAR_THE_CAP * LARGEST_DUAL * table.scale
    return jnp.where(table.of_kind(*MEAN), state.pushed >= ENOUGH * violation, dual >= cap)


def push(
    table: StrengthTable, state: StallState, running: Running, before: Array, dual: Array
) -> StallState:
    """Take in that the duals moved from ``before`` to ``dual``."""
    growth = jnp.maximum(dual - before, 0.0)
    answered = growth * running.variance / table.tempering
    return state._replace(pushed=state.pushed + answered)
