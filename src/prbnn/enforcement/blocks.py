"""Newton's method for the duals of samplers, from the draws of a block of steps.

Chains draw from ``base density * exp(dual . f / tempering)``, so
``d mean f / d dual = Cov f / tempering``, and Newton's method finds the dual with ``E f = bound``:

- *far* from the bound, each rule takes the largest step that its own draws support. A mean moves by a
  few standard deviations per block, and by more where it has followed so far. Violations are about
  exponential, so a mean violation falls as dual^-2, and its step follows from that. A probability moves
  along its log odds, exactly.
- *near* it, all rules take one joint Newton step with covariances averaged over blocks, shortened as
  2 / (3 + blocks near it): the noise of single blocks averages out (Robbins and Monro, 1951).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# the fraction of a block at its start whose draws still belong to the dual before it
DISCARDED = 0.25
# the most that the first block moves a mean, in standard deviations; twice as much, up to FURTHEST, after
# each block whose mean moved by at least FOLLOWED of what was expected, and half as much otherwise
REACH = 3.0
FOLLOWED = 0.8
FURTHEST = 300.0
# a rule is near its bound when its own step tilts the density by less than one standard deviation, or
# changes a mean violation by less than this factor
NEAR_FACTOR = 2.5
# how fast covariances follow, and how much of each variance is added to keep the joint step finite
FOLLOWING = 0.25
RIDGE = 0.05
TINY = 1e-10


class Block(NamedTuple):
    """The draws of the block so far, and the record of earlier blocks.

    - `covariance`: the covariance of f between rules, averaged over blocks
    - `near`: how many blocks each rule has been near its bound
    - `reach`: by how many standard deviations the next block may move a mean
    - `mean`, `expected`: mean of f in the last block, and where it should be after this one
    """

    f: Float[Array, "steps chains rules"]
    covariance: Float[Array, "rules rules"]
    near: Float[Array, " rules"]
    reach: Float[Array, " rules"]
    mean: Float[Array, " rules"]
    expected: Float[Array, " rules"]


class Kinds(NamedTuple):
    """Which rules bound a mean, which a mean violation, and which a probability."""

    average: np.ndarray
    violation: np.ndarray
    probability: np.ndarray


def no_block(steps: int, chains: int, rules: int) -> Block:
    """Before the first draw."""
    zeros = jnp.zeros(rules)
    return Block(
        f=jnp.zeros((steps, chains, rules)),
        covariance=jnp.zeros((rules, rules)),
        near=zeros,
        reach=zeros + REACH,
        mean=zeros,
        expected=zeros,
    )


def newton(
    block: Block,
    dual: Float[Array, " rules"],
    bound: Float[Array, " rules"],
    tempering: Array,
    kinds: Kinds,
    active: Array,
    settles: Array,
) -> tuple[Float[Array, " rules"], Block]:
    """The change of each dual after a whole block, and the block's record carried on.

    Rules whose entry of ``active`` is 0 do not move. A rule for which ``settles`` is false counts as far
    from its bound: only its surrogate is measured.
    """
    late = block.f[int(DISCARDED * block.f.shape[0]) :].reshape(-1, dual.size)
    mean = jnp.mean(late, axis=0)
    gap = mean - bound
    spread = (late - mean).T @ (late - mean) / late.shape[0]
    reach = _reach(block, mean)
    alone, close = _alone(late, dual, bound, tempering, kinds, reach)
    near = jnp.where(settles & (close | (block.near > 0)), block.near + 1, 0.0)
    chosen = (kinds.average | kinds.violation | kinds.probability) & (active > 0)
    following = jnp.where(jnp.all((near > 1) | ~chosen), FOLLOWING, 1.0)
    covariance = block.covariance + following * (spread - block.covariance)
    moving = chosen & ((dual > 0) | (gap < 0))
    least = _least_variance(dual, bound, tempering, kinds)
    joint = _joint(gap, covariance, least, tempering, moving) * 2 / (3 + near)
    change = jnp.where(near > 0, joint, alone)
    change = jnp.where(moving, jnp.maximum(change, -0.5 * dual), 0.0)
    expected = mean + change * jnp.diag(spread) / tempering
    return change, Block(block.f, covariance, near, reach, mean, expected)


def _reach(block: Block, mean: Float[Array, " rules"]) -> Float[Array, " rules"]:
    """The next block's `reach`, by how well the means have followed the last change."""
    wanted = block.expected - block.mean
    followed = (mean - block.mean) * jnp.sign(wanted) >= FOLLOWED * jnp.abs(wanted)
    reach = jnp.clip(jnp.where(followed, 2.0, 0.5) * block.reach, REACH, FURTHEST)
    return jnp.where(wanted == 0, block.reach, reach)


def _alone(
    f: Float[Array, "draws rules"],
    dual: Array,
    bound: Array,
    tempering: Array,
    kinds: Kinds,
    reach: Array,
) -> tuple[Array, Array]:
    """The step of each rule by itself, and whether it is close to where it should be."""
    mean = jnp.mean(f, axis=0)
    variance = jnp.var(f, axis=0) + TINY
    deviation = jnp.sqrt(variance)
    gap = mean - bound
    # a mean: Newton's step, no further than its reach
    straight = tempering * jnp.clip(-gap / variance, -reach / deviation, reach / deviation)
    # a mean violation: violations are about exponential, with this rate
    lack = -jnp.minimum(bound, -TINY)
    rate = 2 * jnp.maximum(-mean, 0) / (jnp.mean(f**2, axis=0) + TINY)
    rate = jnp.where(mean < 0, rate, dual / tempering)
    ratio = jnp.maximum(-mean, 0) / lack
    curved = tempering * rate * (jnp.sqrt(ratio) - 1)
    curved = jnp.where(gap < 0, jnp.maximum(curved, straight), curved)
    # a probability: the difference of log odds, as if half a draw more had been on either side
    count = f.shape[0]
    broken = (count * jnp.clip(-mean, 0, 1) + 0.5) / (count + 1)
    allowed = jnp.clip(-bound, 1e-6, 1 - 1e-6)
    odds = tempering * (jnp.log(broken / (1 - broken)) - jnp.log(allowed / (1 - allowed)))
    step = jnp.where(kinds.violation, curved, jnp.where(kinds.probability, odds, straight))
    close = jnp.where(
        kinds.violation,
        (ratio > 1 / NEAR_FACTOR) & (ratio < NEAR_FACTOR),
        jnp.abs(step) * jnp.where(kinds.probability, 1.0, deviation) < tempering,
    )
    return step, close


def _least_variance(
    dual: Array, bound: Array, tempering: Array, kinds: Kinds
) -> Float[Array, " rules"]:
    """The variance of f where its rule is just met, as far as it is known beforehand.

    Few draws, or none, break a rule that is nearly met, so the variance in a block is often smaller. A
    Newton step by that variance would be too long, and longest when no draw breaks the rule. A frequency
    of p has the variance p (1 - p); violations that are exponential with the rate dual / tempering have
    twice their mean over that rate.
    """
    chance = jnp.clip(-bound, 0.0, 1.0)
    violation = 2 * jnp.abs(bound) * tempering / jnp.maximum(dual, TINY)
    known = jnp.where(kinds.probability, chance * (1 - chance), 0.0)
    return jnp.where(kinds.violation & (dual > 0), violation, known)


def _joint(gap: Array, covariance: Array, least: Array, tempering: Array, moving: Array) -> Array:
    """-tempering * covariance^-1 gap over the rules that move, no further than REACH each."""
    found = jnp.diag(covariance)
    variance = jnp.maximum(found, least) + TINY
    both = moving[:, None] & moving[None, :]
    matrix = jnp.where(both, covariance, 0.0) + jnp.diag(
        jnp.where(moving, (1 + RIDGE) * variance - found, variance)
    )
    scale = 1 / jnp.sqrt(variance)
    step = -scale * jnp.linalg.solve(
        scale[:, None] * matrix * scale, jnp.where(moving, scale * gap, 0.0)
    )
    return tempering * jnp.clip(step, -REACH * scale, REACH * scale)
