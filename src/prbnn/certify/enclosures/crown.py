"""CROWN: bounds of linear functions of a network's units, carried back from a layer to the inputs.

An activation lies between two straight lines over the interval that enters it (`Relaxation`). With
them, an upper bound slopes @ h + height in a layer's units h becomes one in the units of the layer
before (`back`), and at the inputs it is maximised over the box (`top`). Terms that cancel do so before
any interval is taken (Zhang et al., *Efficient neural network robustness certification with general
activation functions*, 2018).

`prbnn.certify.enclosures.layered` and `prbnn.certify.enclosures.linear` are built on these three
functions. They differ in where the intervals that enter the activations come from.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.enclosures.activations import ROUNDING, line, relu_below
from prbnn.certify.enclosures.rounding import OWN


class Relaxation(NamedTuple):
    """Lines around the activations of one layer: below z + low <= activation(z') <= above z + high.

    z is the layer's W h + b in exact arithmetic and z' is what the deployed network computes for it;
    what the deployed layer and the products in `back` round is part of ``low`` and ``high``.
    """

    above: Float[Array, "*layers units"]
    high: Float[Array, "*layers units"]
    below: Float[Array, "*layers units"]
    low: Float[Array, "*layers units"]


def relaxation(
    activation: str,
    precision: str,
    least: Float[Array, " units"],
    most: Float[Array, " units"],
    error: Float[Array, " units"],
) -> Relaxation:
    """Lines around one layer's activations.

    - ``least``, ``most``: the interval that enters each activation
    - ``error``: the most that z' is off from z, see `prbnn.certify.enclosures.rounding.layer_error`
    """
    above, low, high = line(activation, 0, least, most, ROUNDING[np.dtype(precision)])
    below = above
    if activation == "relu":
        below, low = relu_below(least, most), jnp.zeros_like(low)
    own = OWN * (least.shape[0] + 4) * (jnp.abs(high) + jnp.abs(low))
    high, low = high + jnp.abs(above) * error + own, low - jnp.abs(below) * error - own
    return Relaxation(above, high, below, low)


def back(
    slopes: Float[Array, "rows units"],
    height: Float[Array, " rows"],
    lines: Relaxation,
    weight: Float[Array, "units entering"],
    bias: Float[Array, " units"],
) -> tuple[Float[Array, "rows entering"], Float[Array, " rows"]]:
    """Slopes and height of an upper bound in the units that enter a layer.

    For h = activation(weight @ g + bias), slopes @ h + height is at most found_slopes @ g +
    found_height. A positive slope takes the line above the activation, a negative one the line below.
    """
    positive, negative = jnp.maximum(slopes, 0), jnp.minimum(slopes, 0)
    height = height + positive @ lines.high + negative @ lines.low
    slopes = positive * lines.above + negative * lines.below
    return slopes @ weight, height + slopes @ bias


def top(
    slopes: Float[Array, "rows inputs"],
    height: Float[Array, " rows"],
    low: Float[Array, " inputs"],
    high: Float[Array, " inputs"],
    size: Float[Array, " inputs"],
) -> Float[Array, " rows"]:
    """The largest value of slopes @ x + height for x in the box [low, high].

    ``size`` is the magnitude of the inputs' terms, which rounding is relative to.
    """
    ends = jnp.maximum(slopes, 0) @ high + jnp.minimum(slopes, 0) @ low
    own = OWN * (slopes.shape[1] + 4) * (jnp.abs(slopes) @ size + jnp.abs(height))
    return height + ends + own
