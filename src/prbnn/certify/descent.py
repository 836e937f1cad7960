"""Points with low scores, found by following the sign of the slope: counterexamples before any proof."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def descend(
    score: Callable[[Float[Array, " inputs"]], Float[Array, ""]],
    low: Float[Array, " inputs"],
    high: Float[Array, " inputs"],
    begin: Float[Array, " inputs"],
    *,
    steps: int,
    shrink: float,
) -> Float[Array, " inputs"]:
    """The point with the lowest score on a path inside the box [low, high] that starts at ``begin``.

    Each of the ``steps`` moves every input against the sign of its slope, at first by half the width of
    the box, each time by ``shrink`` times as much. A score or slope that is NaN is passed over.
    """

    def step(carry: tuple, k: Array) -> tuple:
        x, best, best_score = carry
        value, slope = jax.value_and_grad(score)(x)
        better = value < best_score
        best = jnp.where(better, x, best)
        best_score = jnp.where(better, value, best_score)
        reach = 0.5 * (high - low) * shrink**k
        moved = x - reach * jnp.nan_to_num(jnp.sign(slope))
        return (jnp.clip(moved, low, high), best, best_score), None

    first = begin, begin, jnp.full((), jnp.inf, begin.dtype)
    (_, best, _), _ = jax.lax.scan(step, first, jnp.arange(steps))
    return best
