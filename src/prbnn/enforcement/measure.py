"""Measuring: one drawn function's scores become one number per rule, by the rule's strength."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from prbnn.enforcement.strength_table import PROBABILITY
from prbnn.rules.scoring.binding import BoundKnowledge
from prbnn.rules.scoring.families import each_rule
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks, lowest, trainable
from prbnn.rules.strengths import Kind


class Measured(NamedTuple):
    """What is measured of one drawn function and each rule, in the rule's unit.

    - `f`: what pressure multiplies; higher is better
    - `broken`: the strict verdict, 1 where the function breaks the rule at some point (the fraction of
      points where it does, for ``probably(of="points")``)
    - `depth`: how far outside the rule the function is there
    - `heat`: by how much it breaks the rule at each point, where the worst points are evaluated
    """

    f: Float[Array, " rules"]
    broken: Float[Array, " rules"]
    depth: Float[Array, " rules"]
    heat: Float[Array, "rules points"] | None = None


def measure(
    knowledge: BoundKnowledge,
    network: Callable[[Array], Array],
    start: Array | int = 0,
    width: int | None = None,
    softness: Array | float = 0.01,
    inside: float = 0.0,
    worst: Int[Array, "groups worst"] | None = None,
) -> Measured:
    """Score one drawn function, ``network``, on ``width`` of each rule's points from ``start`` on.

    Where the ``worst`` points are known, hard rules without a tolerance are evaluated there, too.

    - soft, hard: f = mean of min(0, score)
      (hard rules without a tolerance must stay by ``inside`` inside their limit)
    - on average: f = mean of score
    - probable: f = -mean of sigmoid(-score / softness), over the worst point of the function or
      over all points; an indicator has no gradient, so this surrogate moves the weights.
      ``softness`` is one number, or one per rule; 0 is the indicator itself, for engines that
      need no gradient
    """
    widths = jnp.broadcast_to(jnp.asarray(softness, float), knowledge.count)

    def one(kind: Kind, found: Array, weights: Array | None, softest: Array) -> Measured:
        score = trainable(found)
        short = score - inside if kind == Kind.HARD else score
        heat = None
        if worst is not None:
            heat = (
                jnp.maximum(-jnp.min(short, axis=1), 0) if kind == Kind.HARD else jnp.zeros(width)
            )
        if kind in PROBABILITY:
            axis = None if kind == Kind.FUNCTIONS else 1
            counted, strict = jnp.min(score, axis), breaks(lowest(found, axis), CHECK_TOLERANCE)
            broken = jnp.mean(strict.astype(score.dtype))
            sharp = softest == 0
            surrogate = jnp.mean(jax.nn.sigmoid(-counted / jnp.where(sharp, 1.0, softest)))
            value = -jnp.where(sharp, broken, surrogate)
            return Measured(value, broken, jnp.mean(jnp.maximum(-counted, 0)), heat)
        clipped = score if kind == Kind.AVERAGE else jnp.minimum(short, 0)
        at_points = jnp.mean(clipped, axis=1) if weights is None else clipped @ weights
        broken = breaks(lowest(found), CHECK_TOLERANCE).astype(score.dtype)
        return Measured(jnp.mean(at_points), broken, jnp.maximum(-jnp.min(score), 0), heat)

    return each_rule(knowledge.scored(network, start, width, worst), one, widths)
