"""Pressure of samplers: held within a block of steps, moved between blocks, frozen at the end.

Chains need a density that stays the same for some steps. After a block of them the duals move by what its
draws show (`prbnn.enforcement.blocks`, and the law of fractions); before draws are kept they freeze.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.blocks import Block, Kinds, newton, no_block
from prbnn.enforcement.fixed_weight import with_fixed_weights
from prbnn.enforcement.lagrangian import LARGEST
from prbnn.enforcement.measure import Measured
from prbnn.enforcement.running import Running
from prbnn.enforcement.strength_table import MEAN, PROBABILITY, StrengthTable
from prbnn.rules.strengths import Kind

# the dual of a hard rule is averaged over about this fraction of the blocks so far
AVERAGED_PART = 1 / 4


class Held(NamedTuple):
    """What a sampler carries from step to step.

    - `pressure`: the pressure on each rule during the present block
    - `smooth`: the duals, those of hard rules averaged over the last blocks
    - `block`: the draws of the block so far
    """

    pressure: Float[Array, " rules"]
    smooth: Float[Array, " rules"]
    block: Block


def first_block(
    table: StrengthTable, running: Running, dual: Array, steps: int, chains: int
) -> Held:
    """Before the first draw of ``chains`` chains, which hold their pressure for ``steps`` steps."""
    pressure = with_fixed_weights(table, running, dual)
    return Held(pressure, dual, no_block(steps, chains, len(table.kinds)))


def moved_dual(
    table: StrengthTable,
    held: Held,
    measured: Measured,
    dual: Array,
    position: Array,
    moves: Array,
    sharp: Array | bool,
) -> tuple[Float[Array, " rules"], Held]:
    """Take a step's draws into the block at ``position``; where it ``moves``, move the duals.

    ``sharp`` says which probable rules are measured by their indicator, not by a surrogate: only these
    can be near their bound.
    """
    if not table.of_kind(*MEAN, *PROBABILITY).any():
        return dual, held
    block = held.block._replace(f=held.block.f.at[position].set(measured.f))
    kinds = Kinds(
        average=table.of_kind(Kind.AVERAGE),
        violation=table.of_kind(Kind.TOLERANT),
        probability=table.of_kind(*PROBABILITY),
    )
    settles = jnp.asarray(sharp) | ~kinds.probability
    change, after = newton(block, dual, table.bound, table.tempering, kinds, table.active, settles)
    moved = jnp.clip(dual + change, 0.0, LARGEST * table.scale)
    carried = (jnp.where(moves, new, old) for new, old in zip(after, block, strict=True))
    return jnp.where(moves, moved, dual), held._replace(block=Block(*carried))


def hold(
    table: StrengthTable,
    held: Held,
    running: Running,
    dual: Array,
    moves: Array,
    frozen: Array,
) -> Held:
    """Take the new duals between blocks.

    Once ``frozen``, duals of hard rules are replaced by their running averages.
    """
    blocks = running.step / held.block.f.shape[0]
    smooth = held.smooth + (dual - held.smooth) * jnp.minimum(1.0, 1 / AVERAGED_PART / blocks)
    hard = table.of_kind(Kind.HARD)
    smooth = jnp.where(moves & hard, smooth, held.smooth)
    smooth = jnp.where(hard, smooth, dual)
    pressure = jnp.where(moves, with_fixed_weights(table, running, dual), held.pressure)
    soft = table.of_kind(Kind.SOFT)
    kept = jnp.where(soft, pressure, with_fixed_weights(table, running, smooth))
    return held._replace(smooth=smooth, pressure=jnp.where(frozen, kept, pressure))
