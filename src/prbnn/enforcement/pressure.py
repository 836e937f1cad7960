"""Enforcing: running means of what was measured become pressure, inside the compiled loop.

The objective is log likelihood - tempering * KL + sum of pressure * f. How pressure is found:

- soft: fixed, ``weight * power * (-mean f) ** (power - 1)``
- hard with a tolerance, on average, probable: the augmented Lagrangian's own derivative,
  ``max(0, dual - penalty * gap)`` with gap = mean f - bound, at a *running* mean (the square of a
  few draws' mean would bias the dual by penalty * Var f / draws). The penalty is
  tempering / (Var f + tolerance^2), which makes ``dual <- dual - penalty * gap`` about a Newton step,
  since a mean answers a dual at the rate Var f / tempering. It
  is spread over RESPONSE steps, so that the weights can follow, and takes the dual to no more
  than half as much again (plus 1) and no less than half. A penalty so measured grows by itself as
  a rule is being met, since Var f falls, and not otherwise; it falls slowly.
- hard without a tolerance: what a user means is that drawn functions obey, so the dual follows the
  strict share of functions that break the rule, ``dual <- dual * exp(rate * (share - target) /
  target)``, and settles where that share meets its target. Tightening further would only squeeze
  the posterior; the few functions left are rejected by conditioning.
- in the prior: fixed, ``tempering * weight``: KL(q || p exp(weight f)) = KL(q || p) - weight E_q f

Samplers hold their pressure within a block of steps, move duals between blocks (`enforcement/blocks.py`)
and freeze them before draws are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.enforcement.blocks import Block, Kinds, newton, no_block
from prbnn.enforcement.measure import Measured
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Hard, InPrior, Kind, OnAverage, Probable, Soft

# share of drawn functions that may break some hard rule before conditioning, all rules together
REJECTION = 0.12
SHARE_RATE = 0.003
# Where the worst points are tried, a share far above its target raises the dual so many times faster: a
# rule that other rules kept for it may come loose late, when its dual has long fallen
FASTEST_RISE = 3.0
# duals stop here, in nats per row and unit; a rule that is still broken then is infeasible
LARGEST_SHARE_DUAL = 1e4
LARGEST = 1e7
# running means remember so many steps; a Newton step of a dual is spread over RESPONSE steps
MEMORY = 50
LONG_MEMORY = 200
RESPONSE = 100
# a penalty follows 1 / Var f up at once and down no faster than this a step: a posterior that runs
# away would otherwise loosen the rein by its own growing spread
FORGETTING = 0.999
# A posterior that is pulled far from its data answers more slowly than its spread suggests: while a mean
# stays short of its bound, steps of its dual grow by this factor per step, up to 1 / tempering; once the
# bound is reached they shrink again
BOOST, EASE = 1.003, 0.97
# a rule under large pressure (nats per row and unit) stalls when it is no better, by a fifth, than so
# many looks ago
LOOK_EVERY = 25
STALLED_AFTER = 30
BETTER = 0.8
LARGE = 10.0
# A stall is infeasible once pressure has had its say. A mean answers a dual at the rate of its variance:
# by that account, so much of the violation should be gone. A share need not answer at all before the
# rule outweighs data and prices: the dual must be near its end.
ENOUGH = 0.5
NEAR_THE_END = 0.5
# for samplers: how fast a share's dual moves after a block, and when a stall is one
SHARE_STEP = 0.35
STALLED_BLOCKS = 12
# the least share of the functions that break a rule which a step's points are taken to see, and how fast
# the means that it is read off follow: few functions are tried at a time, and mostly none of them breaks
LEAST_REACH = 0.1
CALIBRATION_RATE = 0.2
# surrogate width of probable rules, in the rule's unit: where it starts and how sharp it becomes
SOFTNESS = (0.5, 0.01)
# when it is sharpest: so far into a fit, or into a sampler's warm-up
SHARP_WHEN_DONE = 0.6
SHARP_WHEN_WARMED = 0.5


class State(NamedTuple):
    """What the next step needs; one entry a rule."""

    dual: Float[Array, " rules"]
    mean_f: Float[Array, " rules"]
    variance_f: Float[Array, " rules"]
    share: Float[Array, " rules"]
    depth: Float[Array, " rules"]
    penalty: Float[Array, " rules"]
    boost: Float[Array, " rules"]
    smooth: Float[Array, " rules"]
    seen: Float[Array, " rules"]
    anywhere: Float[Array, " rules"]
    held: Float[Array, " rules"]
    reference: Float[Array, "signs rules"]
    pushed: Float[Array, " rules"]
    stalled: Float[Array, " rules"]
    step: Float[Array, ""]
    block: Block


class Enforcement(eqx.Module):
    """Strengths of all rules as arrays; numbers are in each rule's unit.

    A rule whose `active` is 0 is as good as absent, in the same program. `block` and `chains` are a
    sampler's: for how many steps pressure is held, and how many functions a step draws. `searched` says
    that pools are searched for their worst points.
    """

    kinds: tuple[Kind, ...] = eqx.field(static=True)
    active: Float[Array, " rules"]
    bound: Float[Array, " rules"]
    weight: Float[Array, " rules"]
    power: Float[Array, " rules"]
    target: Float[Array, " rules"]
    scale: Float[Array, ""]
    tempering: Float[Array, ""]
    block: int = eqx.field(static=True, default=1)
    chains: int = eqx.field(static=True, default=0)
    gradual: bool = eqx.field(static=True, default=False)
    searched: bool = eqx.field(static=True, default=False)

    def init(self) -> State:
        """Duals that follow a share start at one nat per row and unit; the others at nothing."""
        zeros = jnp.zeros(len(self.kinds))
        dual = jnp.where(self._is(Kind.HARD), self.scale, 0.0)
        state = State(
            dual=dual,
            mean_f=zeros,
            variance_f=zeros,
            share=zeros,
            depth=zeros,
            penalty=zeros,
            boost=zeros + 1,
            smooth=dual,
            seen=zeros + 1,
            anywhere=zeros + 1,
            held=zeros,
            reference=jnp.full((3, len(self.kinds)), jnp.inf, zeros.dtype),
            pushed=zeros,
            stalled=zeros,
            step=jnp.zeros(()),
            block=no_block(self.block, self.chains, len(self.kinds)),
        )
        return state._replace(held=self._pressure(state, dual))

    def _is(self, *kinds: Kind) -> np.ndarray:
        return np.array([kind in kinds for kind in self.kinds], bool)

    @property
    def _lagrangian(self) -> np.ndarray:
        return self._is(Kind.TOLERANT, Kind.AVERAGE, Kind.FUNCTIONS, Kind.POINTS)

    def pressure(self, state: State, warmed: Array | float = 1.0) -> Float[Array, " rules"]:
        """Nats per unit of f, for the next step.

        Where ``gradual``, fixed weights come in by and by, as ``warmed`` goes to 1: functions that have
        not met the data are far outside, and would teach Adam a scale that it forgets slowly.
        """
        if self.block > 1:
            return self.active * state.held
        newton = jnp.clip(self._newton(state), -state.dual, state.dual + 1.0)
        dual = state.dual + jnp.where(self._lagrangian, newton, 0.0)
        found = self.active * self._pressure(state, dual)
        if not self.gradual:
            return found
        return jnp.where(self._is(Kind.SOFT, Kind.PRIOR), jnp.minimum(warmed, 1.0) * found, found)

    def _pressure(self, state: State, dual: Array) -> Float[Array, " rules"]:
        slack = jnp.maximum(-state.mean_f, 0.0)
        soft = (
            self.weight
            * self.power
            * jnp.where(self.power == 1, 1.0, slack ** jnp.maximum(self.power - 1, 1e-6))
        )
        found = jnp.where(self._is(Kind.PRIOR), self.tempering * self.weight, dual)
        return jnp.where(self._is(Kind.SOFT), soft, found)

    def _newton(self, state: State) -> Float[Array, " rules"]:
        """The step of the dual that a Newton method would take."""
        return -self._gap(state) * state.penalty * state.boost

    def softness(
        self, state: State, step: Array, steps: Array | float, settle_start: Array | float
    ) -> Float[Array, " rules"]:
        """Width of the probable rules' surrogate: falling as the search goes on, and never so narrow
        that functions far outside would feel no slope. After half of its warm-up a sampler needs none:
        the width is 0, the indicator itself."""
        first, last = SOFTNESS
        sampler = self.block > 1
        done = step / (SHARP_WHEN_WARMED * settle_start if sampler else SHARP_WHEN_DONE * steps)
        width = first * (last / first) ** jnp.clip(done, 0.0, 1.0)
        width = jnp.maximum(width, 0.5 * state.depth)
        return jnp.where(done < 1, width, 0.0) if sampler else width

    def infeasible(self, state: State) -> Array:
        """Rules that stay broken although pressure has had its say; see `_look`."""
        return state.stalled >= self.patience

    def stalling(self, state: State) -> Array:
        """Rules on a share on the way there: time to ask whether they can hold together at all."""
        return (state.stalled >= self.patience * 2 / 3) & ~self._is(Kind.TOLERANT, Kind.AVERAGE)

    @property
    def patience(self) -> int:
        """How many looks in a row without progress make a stall."""
        return STALLED_AFTER if self.block == 1 else STALLED_BLOCKS

    def _gap(self, state: State) -> Float[Array, " rules"]:
        """How far the constrained mean is above its bound; for probable, the strict frequency's."""
        strict = self._is(Kind.FUNCTIONS, Kind.POINTS)
        return jnp.where(strict, -state.share, state.mean_f) - self.bound

    def update(
        self,
        state: State,
        measured: Measured,
        warmup: Array | float,
        searching: Array | bool = True,
        frozen: Array | bool = False,
        sharp: Array | bool = True,
    ) -> State:
        """Take in the measurements of a step's draws (leading axis) and move the duals.

        A rule can stall only while ``searching``: weights that hardly move improve nothing. ``sharp``
        says which probable rules are measured by their indicator, and not by a surrogate.
        """
        step = state.step + 1
        position = state.step % self.block
        memory, long_memory = (MEMORY, LONG_MEMORY) if self.block == 1 else (4 * self.block,) * 2
        quick, slow = jnp.maximum(1 / step, 1 / memory), jnp.maximum(1 / step, 1 / long_memory)
        variance = self._variance(state, measured)
        state = state._replace(
            step=step,
            mean_f=state.mean_f + quick * (jnp.mean(measured.f, axis=0) - state.mean_f),
            variance_f=state.variance_f + slow * (variance - state.variance_f),
            share=state.share + slow * (jnp.mean(measured.broken, axis=0) - state.share),
            depth=state.depth + quick * (jnp.mean(measured.depth, axis=0) - state.depth),
        )
        moves = (step > warmup) & ~jnp.asarray(frozen) & (position == self.block - 1)
        floor = jnp.where(self._is(Kind.TOLERANT), self.bound**2, 0.0) + 1e-10
        kept = self._is(Kind.TOLERANT, Kind.AVERAGE) & (step > warmup) & (self.block == 1)
        penalty = jnp.maximum(
            self.tempering / (state.variance_f + floor),
            jnp.where(kept, FORGETTING * state.penalty, 0.0),
        )
        short = self._gap(state) < -2 * jnp.sqrt(state.variance_f / (measured.f.shape[0] * memory))
        boost = jnp.where(short & (step > warmup), BOOST * state.boost, EASE * state.boost)
        boost = jnp.clip(boost, 1.0, jnp.maximum(1 / self.tempering, 1.0))
        state = state._replace(penalty=penalty, boost=boost)
        state = self._look(state, moves & jnp.asarray(searching), measured.f.shape[0])
        before = state.dual
        state = self._share_update(state, moves)
        if self.block == 1:
            state = self._lagrangian_update(state, moves)
        else:
            state = self._block_update(state, measured, position.astype(int), moves, sharp)
        growth = jnp.maximum(state.dual - before, 0.0)
        answered = growth * state.variance_f / self.tempering
        state = state._replace(pushed=state.pushed + answered)
        return state if self.block == 1 else self._hold(state, moves, jnp.asarray(frozen))

    def _hold(self, state: State, moves: Array, frozen: Array) -> State:
        """Between blocks take the new dual; once frozen, a share's is its average over the last ones."""
        blocks = state.step / self.block
        smooth = state.smooth + (state.dual - state.smooth) * jnp.minimum(1.0, 4 / blocks)
        smooth = jnp.where(moves & self._is(Kind.HARD), smooth, state.smooth)
        smooth = jnp.where(self._is(Kind.HARD), smooth, state.dual)
        held = jnp.where(moves, self._pressure(state, state.dual), state.held)
        soft = self._is(Kind.SOFT)
        kept = jnp.where(soft, held, self._pressure(state, smooth))
        return state._replace(smooth=smooth, held=jnp.where(frozen, kept, held))

    def _variance(self, state: State, measured: Measured) -> Float[Array, " rules"]:
        """Over draws, of what the dual's gap is made of: f, or the strict verdict."""
        strict = self._is(Kind.FUNCTIONS, Kind.POINTS)
        found = jnp.where(strict, measured.broken, measured.f)
        if self.block == 1:
            return jnp.var(found, axis=0)
        # few chains, many steps: spread around the running mean
        return jnp.mean((found - jnp.where(strict, state.share, state.mean_f)) ** 2, axis=0)

    def calibrate(self, state: State, anywhere: Float[Array, " rules"]) -> State:
        """Take in the share of functions that break a rule anywhere in its pool of points.

        A step's points see only some of the functions that break a rule; the share of them they see is
        `_reach`, and a share rule's target is lowered by it. It is a ratio of two running means: a ratio
        of one look's would be off wherever few functions break a rule, as each look finds none or many.
        """
        return state._replace(
            seen=state.seen + CALIBRATION_RATE * (state.share - state.seen),
            anywhere=state.anywhere + CALIBRATION_RATE * (anywhere - state.anywhere),
        )

    def _reach(self, state: State) -> Float[Array, " rules"]:
        return jnp.clip(state.seen / jnp.maximum(state.anywhere, 1e-6), LEAST_REACH, 1.0)

    def _share_update(self, state: State, moves: Array) -> State:
        target = self.target * self._reach(state)
        fastest = FASTEST_RISE if self.searched else 1.0
        excess = jnp.clip((state.share - target) / target, -1.0, fastest)
        largest = LARGEST_SHARE_DUAL * self.scale
        rate = SHARE_RATE if self.block == 1 else SHARE_STEP
        dual = jnp.minimum(state.dual * jnp.exp(rate * excess), largest)
        return state._replace(dual=jnp.where(self._is(Kind.HARD) & moves, dual, state.dual))

    def _lagrangian_update(self, state: State, moves: Array) -> State:
        if not self._lagrangian.any():
            return state
        # of several rules that want more, the one that lacks most gets most
        lack = self.active * jnp.where(self._lagrangian, jnp.maximum(0.0, -self._gap(state)), 0.0)
        most = (0.5 * state.dual + 1.0) * lack / (jnp.max(lack) + 1e-12)
        change = jnp.clip(self._newton(state), -0.5 * state.dual, most)
        # far more pressure than a probable rule needs leaves a share of 0, which says little of how
        # far to go back; so it falls as a share rule's does
        eased = 0.3 * state.dual * jnp.clip(self._gap(state) / self.bound, -1.0, 0.0)
        strict = self._is(Kind.FUNCTIONS, Kind.POINTS)
        change = jnp.where(strict & (eased < 0), jnp.minimum(change, eased), change)
        dual = jnp.clip(state.dual + change / RESPONSE, 0.0, LARGEST * self.scale)
        return state._replace(dual=jnp.where(self._lagrangian & moves, dual, state.dual))

    def _block_update(
        self,
        state: State,
        measured: Measured,
        position: Array,
        moves: Array,
        sharp: Array | bool,
    ) -> State:
        """Take a step's draws into the block; after its last one, move the duals by what it shows."""
        if not self._lagrangian.any():
            return state
        block = state.block._replace(f=state.block.f.at[position].set(measured.f))
        kinds = Kinds(
            self._is(Kind.AVERAGE),
            self._is(Kind.TOLERANT),
            self._is(Kind.FUNCTIONS, Kind.POINTS),
        )
        settles = jnp.asarray(sharp) | ~kinds.probability
        change, moved = newton(
            block, state.dual, self.bound, self.tempering, kinds, self.active, settles
        )
        dual = jnp.clip(state.dual + change, 0.0, LARGEST * self.scale)
        carried = (jnp.where(moves, new, old) for new, old in zip(moved, block, strict=True))
        return state._replace(dual=jnp.where(moves, dual, state.dual), block=Block(*carried))

    def _look(self, state: State, looking: Array, draws: int) -> State:
        """Now and then, see whether rules under pressure are better than some looks ago.

        Of a probable rule, functions on their way count: its violation is how many break it and how
        deeply. A share rule matters while far more functions break it than it allows, and is better
        if fewer break it, less deeply, or at fewer points. A stall before pressure has had its say is
        none: looking goes on, and what looked better for a while is no longer the measure.
        """
        strict, share = self._is(Kind.FUNCTIONS, Kind.POINTS), self._is(Kind.HARD)
        violation = jnp.maximum(0.0, -self._gap(state)) + jnp.where(strict, state.depth, 0.0)
        noise = 3 * jnp.sqrt(state.variance_f / (draws * MEMORY))
        matters = jnp.where(
            share,
            state.share > 3 * self.target,
            violation > 0.05 * jnp.abs(self.bound) + noise + 1e-6,
        )
        pressed = self.active * state.dual >= LARGE * self.scale
        others = (jnp.where(share, sign, violation) for sign in (state.share, state.depth))
        signs = jnp.stack([violation, *others])
        better = jnp.any(signs < BETTER * state.reference, axis=0)
        same = matters & pressed & ~better
        stalled = jnp.where(same, state.stalled + 1, 0.0)
        unfounded = (stalled >= self.patience) & ~self._pressed_enough(state, violation)
        every = LOOK_EVERY if self.block == 1 else self.block
        looks = looking & (state.step % every == 0) & ~self._is(Kind.SOFT, Kind.PRIOR)
        worst = jnp.where(unfounded, jnp.maximum(state.reference, signs), state.reference)
        return state._replace(
            reference=jnp.where(looks, jnp.where(same, worst, signs), state.reference),
            pushed=jnp.where(looks & ~same, 0.0, state.pushed),
            stalled=jnp.where(looks, jnp.where(unfounded, 0.0, stalled), state.stalled),
        )

    def _pressed_enough(self, state: State, violation: Array) -> Array:
        """Whether a rule that can be mended would have answered to so much pressure."""
        end = NEAR_THE_END * LARGEST_SHARE_DUAL * self.scale
        mean = self._is(Kind.TOLERANT, Kind.AVERAGE)
        return jnp.where(mean, state.pushed >= ENOUGH * violation, state.dual >= end)


def enforcement_of(
    rules: Sequence[Rule],
    units: np.ndarray,
    rows: float,
    rejection: float = REJECTION,
    tempering: float = 1.0,
    block: int = 1,
    *,
    chains: int = 0,
    gradual: bool = False,
    searched: bool = False,
) -> Enforcement:
    """Read the strengths off the rules; users state them in their own units."""
    count = max(1, sum(rule.strength.kind == Kind.HARD for rule in rules))
    bound, weight, power = np.zeros(len(rules)), np.zeros(len(rules)), np.ones(len(rules))
    for place, (rule, unit) in enumerate(zip(rules, units, strict=True)):
        match rule.strength:
            case Soft(weight=price, power=exponent):
                weight[place], power[place] = price * unit**exponent, exponent
            case InPrior(weight=price):
                weight[place] = price * unit
            case Hard(tolerance=tolerance):
                bound[place] = -(tolerance or 0.0) / unit
            case OnAverage(bound=least):
                bound[place] = least / unit
            case Probable(p=p):
                bound[place] = -(1 - p)
    return Enforcement(
        kinds=tuple(rule.strength.kind for rule in rules),
        active=jnp.ones(len(rules)),
        bound=jnp.asarray(bound, float),
        weight=jnp.asarray(weight, float),
        power=jnp.asarray(power, float),
        target=jnp.asarray(np.full(len(rules), rejection / count), float),
        scale=jnp.asarray(max(rows, 1.0), float),
        tempering=jnp.asarray(tempering, float),
        block=block,
        chains=chains,
        gradual=gradual,
        searched=searched,
    )
