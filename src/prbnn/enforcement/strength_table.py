"""The strengths of a fit's rules as arrays: one entry per rule, numbers in the rule's own unit."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.rules.base import Rule
from prbnn.rules.strengths import Hard, InPrior, Kind, OnAverage, Probable, Soft

# rules whose dual bounds a mean, and rules whose dual bounds a probability
MEAN = (Kind.TOLERANT, Kind.AVERAGE)
PROBABILITY = (Kind.FUNCTIONS, Kind.POINTS)
# rules whose pressure is stated by the user, not found
FIXED = (Kind.SOFT, Kind.PRIOR)


class StrengthTable(eqx.Module):
    """Strengths of all rules, and the two numbers of the fit that give them their scale.

    - `active`: 1 per rule; a rule whose entry is 0 has no pressure, in the same compiled program
    - `bound`: the least value allowed of the mean of f (minus a tolerance, an average, or minus the
      probability of breaking the rule)
    - `weight`, `power`: of soft and in-prior rules
    - `target`: the fraction of drawn functions that may break a hard rule without a tolerance
    - `scale`: how many rows the data count as: duals are compared with it, in nats per row
    - `tempering`: the weight of the KL term
    """

    kinds: tuple[Kind, ...] = eqx.field(static=True)
    active: Float[Array, " rules"]
    bound: Float[Array, " rules"]
    weight: Float[Array, " rules"]
    power: Float[Array, " rules"]
    target: Float[Array, " rules"]
    scale: Float[Array, ""]
    tempering: Float[Array, ""]

    def of_kind(self, *kinds: Kind) -> np.ndarray:
        """Which rules are of one of these kinds; known when the program is traced."""
        return np.array([kind in kinds for kind in self.kinds], bool)


def strength_table(
    rules: Sequence[Rule], units: np.ndarray, rows: float, rejection: float, tempering: float
) -> StrengthTable:
    """Read the strengths of ``rules``, which users state in their own units.

    ``units`` has the user's unit of each rule's score, ``rows`` is the sum of the rows' weights, and
    ``rejection`` is the fraction of functions that all hard rules together may reject.
    """
    count = max(1, sum(rule.strength.kind == Kind.HARD for rule in rules))
    bound, weight, power = np.zeros(len(rules)), np.zeros(len(rules)), np.ones(len(rules))
    for place, (rule, unit) in enumerate(zip(rules, units, strict=True)):
        match rule.strength:
            case Soft(weight=stated, power=exponent):
                weight[place], power[place] = stated * unit**exponent, exponent
            case InPrior(weight=stated):
                weight[place] = stated * unit
            case Hard(tolerance=tolerance):
                bound[place] = -(tolerance or 0.0) / unit
            case OnAverage(bound=least):
                bound[place] = least / unit
            case Probable(p=p):
                bound[place] = -(1 - p)
    return StrengthTable(
        kinds=tuple(rule.strength.kind for rule in rules),
        active=jnp.ones(len(rules)),
        bound=jnp.asarray(bound, float),
        weight=jnp.asarray(weight, float),
        power=jnp.asarray(power, float),
        target=jnp.asarray(np.full(len(rules), rejection / count), float),
        scale=jnp.asarray(max(rows, 1.0), float),
        tempering=jnp.asarray(tempering, float),
    )
