"""Enforcing: what steps measure of the rules becomes pressure, inside the compiled loop.

The objective is log likelihood - tempering * KL + sum of pressure * f. Which law finds the pressure of a
rule depends on its strength:

- soft, in the prior: a fixed weight (`prbnn.enforcement.fixed_weight`)
- hard with a tolerance, on average, probable: the augmented Lagrangian (`prbnn.enforcement.lagrangian`)
- hard without a tolerance: the fraction of functions that break it (`prbnn.enforcement.fraction`)

All rules share running means, one dual each, and stall detection (`prbnn.enforcement.stall`). Samplers
hold their pressure within blocks of steps (`prbnn.enforcement.holding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.enforcement import fraction, holding, lagrangian, stall
from prbnn.enforcement.fixed_weight import phased_in, with_fixed_weights
from prbnn.enforcement.measure import Measured
from prbnn.enforcement.running import Running, follow, no_steps
from prbnn.enforcement.strength_table import StrengthTable, strength_table
from prbnn.enforcement.surrogate import surrogate_width
from prbnn.rules.base import Rule


class EnforcementState(NamedTuple):
    """What the next step needs: the dual of each rule, running means, and a small state per law.

    `held` is a sampler's, and None of engines that follow pressure at once.
    """

    dual: Float[Array, " rules"]
    running: Running
    lagrangian: lagrangian.LagrangianState
    fraction: fraction.FractionState
    stall: stall.StallState
    held: holding.Held | None


class Enforcement(eqx.Module):
    """The laws that move the pressure of each rule, by its strength.

    - `table`: the strengths as arrays
    - `block`, `chains`: of a sampler, for how many steps pressure is held, and how many functions a step
      draws; 1 and 0 of other engines
    - `members`: how many posteriors are trained side by side and mixed
    - `gradual`: whether stated weights come in during the warm-up
    - `searched`: whether pools are searched for their worst points
    """

    table: StrengthTable
    block: int = eqx.field(static=True, default=1)
    chains: int = eqx.field(static=True, default=0)
    members: int = eqx.field(static=True, default=1)
    gradual: bool = eqx.field(static=True, default=False)
    searched: bool = eqx.field(static=True, default=False)

    def init(self) -> EnforcementState:
        """Before the first step."""
        table, rules = self.table, len(self.table.kinds)
        dual, running = fraction.first_dual(table), no_steps(rules)
        sampler = self.block > 1
        return EnforcementState(
            dual=dual,
            running=running,
            lagrangian=lagrangian.first_penalty(rules),
            fraction=fraction.uncalibrated(rules),
            stall=stall.no_stall(rules),
            held=(
                holding.first_block(table, running, dual, self.block, self.chains)
                if sampler
                else None
            ),
        )

    def pressure(
        self, state: EnforcementState, warmed: Array | float = 1.0
    ) -> Float[Array, " rules"]:
        """Nats per unit of f, for the next step; ``warmed`` is the part of the warm-up that is done."""
        table = self.table
        if state.held is not None:
            return table.active * state.held.pressure
        dual = lagrangian.effective_dual(table, state.lagrangian, state.running, state.dual)
        found = table.active * with_fixed_weights(table, state.running, dual)
        return phased_in(table, found, warmed) if self.gradual else found

    def softness(
        self,
        state: EnforcementState,
        step: Array,
        steps: Array | float,
        settle_start: Array | float,
    ) -> Float[Array, " rules"]:
        """Width of the probable rules' surrogate; see `surrogate_width`."""
        return surrogate_width(
            state.running.depth, step, steps, settle_start, sampler=self.block > 1
        )

    def infeasible(self, state: EnforcementState) -> Array:
        """Rules that stay broken under pressure that should have fixed them."""
        return stall.infeasible(state.stall, self.block)

    def stalling(self, state: EnforcementState) -> Array:
        """Rules that may be on the way there; see `prbnn.enforcement.stall.stalling`."""
        return stall.stalling(self.table, state.stall, self.block)

    def update(
        self,
        state: EnforcementState,
        measured: Measured,
        warmup: Array | float,
        searching: Array | bool = True,
        frozen: Array | bool = False,
        sharp: Array | bool = True,
    ) -> EnforcementState:
        """Take in the measurements of a step's draws (leading axis) and move the duals.

        Duals move after ``warmup`` steps and until they are ``frozen``. A rule can stall only while
        ``searching``: weights that hardly move improve nothing. ``sharp`` says which probable rules are
        measured by their indicator, not by a surrogate.
        """
        table, block, functions = self.table, self.block, measured.f.shape[0]
        position = state.running.step % block
        running = follow(table, state.running, measured, block, self.members)
        moves = (running.step > warmup) & ~jnp.asarray(frozen) & (position == block - 1)
        penalty = lagrangian.adapt(table, state.lagrangian, running, functions, warmup, block)
        looking = moves & jnp.asarray(searching)
        stalls = stall.look(table, state.stall, running, state.dual, looking, functions, block)
        dual = fraction.moved_dual(
            table,
            state.fraction,
            running,
            state.dual,
            moves,
            searched=self.searched,
            block=block,
        )
        held = state.held
        if held is None:
            dual = lagrangian.moved_dual(table, penalty, running, dual, moves)
        else:
            dual, held = holding.moved_dual(
                table, held, measured, dual, position.astype(int), moves, sharp
            )
            held = holding.hold(table, held, running, dual, moves, jnp.asarray(frozen))
        return EnforcementState(
            dual=dual,
            running=running,
            lagrangian=penalty,
            fraction=state.fraction,
            stall=stall.push(table, stalls, running, state.dual, dual),
            held=held,
        )

    def calibrate(
        self, state: EnforcementState, anywhere: Float[Array, " rules"]
    ) -> EnforcementState:
        """Take in the fraction of functions that break a rule anywhere in its pool of points."""
        return state._replace(fraction=fraction.calibrate(state.fraction, state.running, anywhere))


def enforcement_of(
    rules: Sequence[Rule],
    units: np.ndarray,
    rows: float,
    rejection: float = fraction.REJECTION,
    tempering: float = 1.0,
    block: int = 1,
    *,
    chains: int = 0,
    members: int = 1,
    gradual: bool = False,
    searched: bool = False,
) -> Enforcement:
    """The laws for ``rules``; see `strength_table` for the first arguments and `Enforcement`."""
    return Enforcement(
        table=strength_table(rules, units, rows, rejection, tempering),
        block=block,
        chains=chains,
        members=members,
        gradual=gradual,
        searched=searched,
    )
