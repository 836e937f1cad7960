"""Enforcing: running means of what was measured become pressure, inside the compiled loop.

The objective is log likelihood - tempering * KL + sum of pressure * f. How pressure is found:

- soft: fixed, ``weight * power * (-mean f) ** (power - 1)``
- hard with a tolerance, on average, probable: the augmented Lagrangian's own derivative,
  ``max(0, dual - penalty * (mean f - bound))``, at a *running* mean (the square of a few draws'
  mean would bias the dual by penalty * Var f / draws); every few steps
  ``dual <- max(0, dual - penalty * (mean f - bound))``, and the penalty grows only while the
  violation does not shrink. It starts at 1 / Var f, which makes the first updates Newton steps.
- hard without a tolerance: what a user means is that drawn functions obey, so the dual follows the
  strict share of functions that break the rule, ``dual <- dual * exp(rate * (share - target) /
  target)``, and settles where that share meets its target. Tightening further would only squeeze
  the posterior; the few functions left are rejected by conditioning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.enforcement.measure import Measured
from prbnn.knowledge.rules import Rule
from prbnn.knowledge.strengths import Hard, Kind, OnAverage, Probable, Soft

# share of drawn functions that may break some hard rule before conditioning, all rules together
BROKEN_SHARE = 0.12
UPDATE_EVERY = 25
SHARE_RATE = 0.003
LARGEST = 1e7
STALLED_AFTER = 40


class State(NamedTuple):
    """What the next step needs; one entry a rule."""

    dual: Float[Array, " rules"]
    penalty: Float[Array, " rules"]
    mean_f: Float[Array, " rules"]
    variance_f: Float[Array, " rules"]
    share: Float[Array, " rules"]
    violation: Float[Array, " rules"]
    stalled: Float[Array, " rules"]
    step: Float[Array, ""]


class Enforcement(eqx.Module):
    """Strengths of all rules as arrays; numbers are in each rule's unit."""

    kinds: tuple[Kind, ...] = eqx.field(static=True)
    bound: Float[Array, " rules"]
    weight: Float[Array, " rules"]
    power: Float[Array, " rules"]
    target: Float[Array, " rules"]
    scale: Float[Array, ""]

    def init(self) -> State:
        """Duals that follow a share start at one nat per row and unit; the others at nothing."""
        zeros = jnp.zeros(len(self.kinds))
        return State(
            dual=jnp.where(self._is("share"), self.scale, 0.0),
            penalty=zeros,
            mean_f=zeros,
            variance_f=zeros,
            share=zeros,
            violation=zeros + jnp.inf,
            stalled=zeros,
            step=jnp.zeros(()),
        )

    def _is(self, *kinds: Kind) -> np.ndarray:
        return np.array([kind in kinds for kind in self.kinds], bool)

    @property
    def _lagrangian(self) -> np.ndarray:
        return self._is("hard", "average", "probable functions", "probable points")

    def pressure(self, state: State) -> Float[Array, " rules"]:
        """Nats per unit of f, for the next step."""
        slack = jnp.maximum(-state.mean_f, 0.0)
        soft = (
            self.weight
            * self.power
            * jnp.where(self.power == 1, 1.0, slack ** jnp.maximum(self.power - 1, 1e-6))
        )
        augmented = jnp.maximum(0.0, state.dual - state.penalty * self._gap(state))
        choices = jnp.where(self._lagrangian, augmented, state.dual)
        return jnp.where(self._is("soft"), soft, choices)

    def _gap(self, state: State) -> Float[Array, " rules"]:
        """How far the constrained mean is above its bound; for probable, the strict frequency's."""
        strict = self._is("probable functions", "probable points")
        return jnp.where(strict, -state.share, state.mean_f) - self.bound

    def update(self, state: State, measured: Measured, warmup: Array | float) -> State:
        """Take in the measurements of a step's draws (leading axis) and move the duals."""
        step = state.step + 1
        quick = jnp.maximum(1 / step, 1 / 50)
        slow = jnp.maximum(1 / step, 1 / 200)
        state = state._replace(
            step=step,
            mean_f=state.mean_f + quick * (jnp.mean(measured.f, axis=0) - state.mean_f),
            variance_f=state.variance_f + slow * (jnp.var(measured.f, axis=0) - state.variance_f),
            share=state.share + slow * (jnp.mean(measured.broken, axis=0) - state.share),
        )
        started = step > warmup
        return self._lagrangian_update(self._share_update(state, started), started)

    def _share_update(self, state: State, started: Array) -> State:
        share = self._is("share")
        if not share.any():
            return state
        excess = jnp.clip((state.share - self.target) / self.target, -1.0, 3.0)
        dual = jnp.clip(state.dual * jnp.exp(SHARE_RATE * excess), 0.0, LARGEST * self.scale)
        stuck = (dual >= LARGEST * self.scale) & (state.share > 3 * self.target)
        moves = share & started
        return state._replace(
            dual=jnp.where(moves, dual, state.dual),
            stalled=jnp.where(share, jnp.where(stuck, state.stalled + 0.1, 0.0), state.stalled),
        )

    def _lagrangian_update(self, state: State, started: Array) -> State:
        if not self._lagrangian.any():
            return state
        due = self._lagrangian & started & (state.step % UPDATE_EVERY == 0)
        penalty = jnp.where(state.penalty == 0, 1 / (state.variance_f + 1e-8), state.penalty)
        gap = self._gap(state)
        violation = jnp.maximum(0.0, -gap)
        shrinks = violation < 0.9 * state.violation
        matters = violation > 0.05 * jnp.abs(self.bound) + 1e-5
        grown = jnp.minimum(penalty * 1.3, 1e4 / (state.variance_f + 1e-8))
        dual = jnp.maximum(0.0, state.dual - penalty * gap)
        return state._replace(
            dual=jnp.where(due, dual, state.dual),
            penalty=jnp.where(due, jnp.where(matters & ~shrinks, grown, penalty), state.penalty),
            violation=jnp.where(due, violation, state.violation),
            stalled=jnp.where(
                due, jnp.where(matters & ~shrinks, state.stalled + 1, 0.0), state.stalled
            ),
        )


def enforcement_of(rules: Sequence[Rule], units: np.ndarray, rows: float) -> Enforcement:
    """Read the strengths off the rules; users state them in their own units."""
    count = max(1, sum(rule.strength.kind == "share" for rule in rules))
    bound, weight, power = np.zeros(len(rules)), np.zeros(len(rules)), np.ones(len(rules))
    for place, (rule, unit) in enumerate(zip(rules, units, strict=True)):
        match rule.strength:
            case Soft(weight=price, power=exponent):
                weight[place], power[place] = price * unit**exponent, exponent
            case Hard(tolerance=tolerance):
                bound[place] = -(tolerance or 0.0) / unit
            case OnAverage(bound=least):
                bound[place] = least / unit
            case Probable(p=p):
                bound[place] = -(1 - p)
    return Enforcement(
        kinds=tuple(rule.strength.kind for rule in rules),
        bound=jnp.asarray(bound, float),
        weight=jnp.asarray(weight, float),
        power=jnp.asarray(power, float),
        target=jnp.asarray(np.full(len(rules), BROKEN_SHARE / count), float),
        scale=jnp.asarray(max(rows, 1.0), float),
    )
