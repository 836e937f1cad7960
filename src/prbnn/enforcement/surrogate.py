"""The width of the surrogate of probable rules: an indicator has no gradient, a sigmoid has one."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

# in the rule's unit: where the width starts, and the least it becomes
WIDEST, SHARPEST = 0.5, 0.01
# when it is sharpest: this far into a fit, or into a sampler's warm-up
SHARP_WHEN_DONE = 0.6
SHARP_WHEN_WARMED = 0.5


def surrogate_width(
    depth: Float[Array, " rules"],
    step: Array,
    steps: Array | float,
    settle_start: Array | float,
    *,
    sampler: bool,
) -> Float[Array, " rules"]:
    """Width of each rule's surrogate at ``step`` of ``steps``.

    It falls as the search goes on, and stays at least half of the functions' ``depth`` outside the rule:
    functions far outside a narrow sigmoid would have a vanishing gradient. A sampler needs no surrogate
    after half of its warm-up, which ends at ``settle_start``: the width is then 0, the indicator itself.
    """
    done = step / (SHARP_WHEN_WARMED * settle_start if sampler else SHARP_WHEN_DONE * steps)
    width = WIDEST * (SHARPEST / WIDEST) ** jnp.clip(done, 0.0, 1.0)
    width = jnp.maximum(width, 0.5 * depth)
    return jnp.where(done < 1, width, 0.0) if sampler else width
