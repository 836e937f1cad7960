"""How much floating-point arithmetic rounds: the deployed network's, and that of the bounds themselves.

Two kinds of rounding are enclosed. A *deployed* network computes in float32 or float64, and its bounds
must hold for the numbers it really returns. The bounds are themselves computed in float64, so every sum
and product here is off by a few units in the last place, which is added to the bounds as well (`OWN`
per term).
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

# unit roundoff of float64
DOUBLE = 2.0**-53
# relative error allowed per float64 operation of the bounds: 16 times what one operation rounds
OWN = 16 * DOUBLE
# a product smaller than this may have been flushed to 0
TINY = 1e-300

# unit roundoff of the deployed network, plus 1 % for products of errors
UNIT = {"float32": 1.01 * 2.0**-24, "float64": 1.01 * DOUBLE}
# numbers of at least half this size may have overflowed
LARGEST = {"float32": 2.0**127, "float64": 2.0**1000}
# smaller numbers are flushed to 0 when deployed, each product of a sum separately
FLUSHED = {"float32": 2.0**-126, "float64": TINY}


def magnitude(low: Array, high: Array) -> Array:
    """The largest absolute value in the intervals [low, high], elementwise."""
    return jnp.maximum(jnp.abs(low), jnp.abs(high))


def unless_overflown(error: Array, size: Array, precision: str) -> Array:
    """``error``, or infinity where numbers of magnitude ``size`` may overflow in ``precision``.

    A sum that overflows may be NaN, of which nothing is known.
    """
    return jnp.where(size < LARGEST[precision], error, jnp.inf)


def input_error(size: Array, precision: str) -> Array:
    """The most that inputs of magnitude ``size`` change when they are rounded to ``precision``."""
    return unless_overflown(UNIT[precision] * size + FLUSHED[precision], size, precision)


def deployed_error(
    weight: Float[Array, "units entering"], through: Float[Array, " units"], precision: str
) -> Float[Array, " units"]:
    """The most that a deployed layer weight @ h + bias is off from exact arithmetic.

    A sum of n products and a bias is off by at most gamma (|W| |h| + |b|), gamma = (n + 2) u with unit
    roundoff u (Higham, *Accuracy and stability of numerical algorithms*, section 3.1), and each product
    may be flushed to 0. ``through`` is |W| |h| + |b|.
    """
    error = (weight.shape[1] + 2) * (UNIT[precision] * through + FLUSHED[precision])
    return unless_overflown(error, through, precision)


def layer_error(
    weight: Float[Array, "units entering"],
    through: Float[Array, " units"],
    precision: str,
    depth: int,
) -> Float[Array, " units"]:
    """`deployed_error`, and what float64 rounds where bounds are carried back through the layer.

    Slopes are multiplied by the weights and added up over the units of the layer, and heights are added
    up over the network's ``depth`` hidden layers.
    """
    units, entering = weight.shape
    own = OWN * (units + entering + 2 * depth + 6) * through
    return deployed_error(weight, through, precision) + own
