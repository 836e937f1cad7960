"""Whether a score obeys: the one place that says so, for training, checks, reports and rows.

A score of 0 or above obeys, so infinity does. A score of NaN, such as the logarithm of a negative
output, is broken everywhere: the comparison `score < -tolerance` is false for NaN and would count it as
obeyed, and a minimum may lose it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

# a score this far below zero (in the rule's unit) counts as broken, and so does NaN
CHECK_TOLERANCE = 1e-4
# the same for a row as observed, which has no search behind it: rounding of float32 alone
ROW_TOLERANCE = 1e-5
# in training, a score without a finite value counts as this many units below 0
UNDEFINED = 1.0


def breaks(score: Any, tolerance: Any) -> Any:
    """Where a score is below -tolerance, or NaN; NumPy's arrays and JAX's alike.

    >>> breaks(np.array([0.5, -0.5, np.nan, np.inf, -np.inf]), 0.1).tolist()
    [False, True, True, False, True]
    """
    return ~(score >= -tolerance)


def lowest(score: Any, axis: int | None = None) -> Any:
    """The least score, -inf where one of them is NaN.

    >>> lowest(np.array([[1.0, np.nan], [1.0, 2.0]]), axis=1).tolist()
    [-inf, 1.0]
    """
    numerics = np if isinstance(score, np.ndarray) else jnp
    return numerics.min(known(score), axis=axis)


def known(score: Any) -> Any:
    """The same scores, -inf instead of NaN.

    >>> known(np.array([1.0, np.nan])).tolist()
    [1.0, -inf]
    """
    numerics = np if isinstance(score, np.ndarray) else jnp
    return numerics.where(numerics.isnan(score), -numerics.inf, score)


def trainable(score: Array) -> Array:
    """Scores as training counts them: finite, with no slope where they have no finite value.

    NaN and -inf count as `UNDEFINED` units below 0, infinity as `UNDEFINED` units above. A formula has no
    slope where it has no value, so pressure comes from points beside it, where it has one.

    >>> trainable(jnp.array([-3.0, jnp.nan, -jnp.inf])).tolist()
    [-3.0, -1.0, -1.0]
    """
    instead = jnp.where(score > 0, UNDEFINED, -UNDEFINED)
    return jnp.where(jnp.isfinite(score), score, instead.astype(score.dtype))


def shielded(values: Array) -> Array:
    """The same values; slopes that come back to them and are not finite come back as 0.

    A formula outside its domain multiplies a slope of 0 by NaN on the way back, which would reach every
    weight. It stands between a network and formulas that are not the library's own, and leaves slopes
    with respect to inputs, forward or backward, as they are.
    """

    def finite(_: Any, slope: Array) -> Array:
        return jnp.where(jnp.isfinite(slope), slope, 0.0)

    # the identity as a linear map: this is where JAX lets one say what its transpose is
    return jax.lax.custom_linear_solve(lambda v: v, values, lambda _, v: v, finite)
