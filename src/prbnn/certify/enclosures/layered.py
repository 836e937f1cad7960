"""One network over one box: its values, slopes and second derivatives, as deployed in floating point.

Reach for this module for rules on a posterior, whose scores ask for slopes and second derivatives of
many small networks: it needs one pass per network and box, and the results are `Form`s, which a rule's
own formula can be applied to. For linear properties of the outputs of one deep network,
`prbnn.certify.enclosures.linear` gives much tighter bounds at about 20 times the cost per box.

Forms go through the layers from the inputs on, and give the interval that enters each activation.
Values are enclosed a second time by `prbnn.certify.enclosures.crown`, in one pass back from the
outputs, where terms cancel that forms keep apart.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.certify.enclosures import crown, forms
from prbnn.certify.enclosures.activations import largest, line, range_of
from prbnn.certify.enclosures.chain import Chain
from prbnn.certify.enclosures.forms import Form
from prbnn.certify.enclosures.rounding import (
    LARGEST,
    OWN,
    TINY,
    UNIT,
    deployed_error,
    input_error,
    layer_error,
    unless_overflown,
)
from prbnn.errors import NotEnclosedError

# activations whose range is narrow whatever enters them
BOUNDED = ("tanh", "sigmoid", "rbf")
# derivatives of these activations multiply powers of z, which overflow long before z does
POWERS = ("gelu", "rbf")


class Layer(NamedTuple):
    """A layer before and after its activation."""

    before: Form
    after: Form


def entering(x: Form, precision: str) -> Form:
    """Inputs rounded to the network's own precision."""
    return forms.widen(x, input_error(x.size, precision))


def hidden(network: Chain, x: Form) -> list[Layer]:
    """Every hidden layer."""
    found: list[Layer] = []
    entered = x
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        before = affine(weight, bias, entered, network.precision)
        entered = activated(network, before, 0)
        found.append(Layer(before, entered))
    return found


def activated(network: Chain, before: Form, order: int) -> Form:
    """The activation or a derivative of it, as deployed."""
    ends = before.least, before.most
    slope, low, high = line(network.activation, order, *ends, network.rounding)
    least, most = range_of(network.activation, order, *ends, network.rounding)
    if order or network.activation in BOUNDED:
        # of what may be NaN it may be NaN, however narrow its range; what has no end the next sum tells
        lost = before.lost
        if order and network.activation in POWERS:
            lost = lost | (before.size >= LARGEST[network.precision] ** 0.25)
        give = jnp.where(lost, jnp.inf, 0.0)
        low, high, least, most = low - give, high + give, least - give, most + give
    return forms.along(before, slope, low, high, least, most)


def affine(weight: Array, bias: Array | None, inputs: Form, precision: str) -> Form:
    """W h + b as it is computed, rounding included."""
    terms = weight.shape[1] + 2
    size = jnp.abs(weight)
    middle, room = 0.5 * (inputs.low + inputs.high), 0.5 * (inputs.high - inputs.low)
    centre, radius = inputs.middle, 0.5 * (inputs.most - inputs.least)
    added = jnp.zeros(weight.shape[0]) if bias is None else bias
    through = size @ inputs.size + jnp.abs(added)
    deployed = deployed_error(weight, through, precision)
    own = terms * OWN * (size @ (inputs.terms + inputs.size) + jnp.abs(added)) + TINY
    height, wide = weight @ middle + added, size @ room + deployed + own
    plain, around = weight @ centre + added, size @ radius + deployed + own
    slope = weight @ inputs.slope
    return forms.form(slope, height - wide, height + wide, plain - around, plain + around)


def values(network: Chain, x: Form, layers: list[Layer] | None = None) -> Form:
    """Outputs of the network."""
    layers = hidden(network, x) if layers is None else layers
    last = layers[-1].after if layers else x
    forward = affine(network.weights[-1], network.biases[-1], last, network.precision)
    return backward(network, x, layers, forward) if layers else forward


def rates(network: Chain, x: Form, direction: Array, layers: list[Layer]) -> Form:
    """d outputs / d inputs along a direction, carried forward as a deployed derivative is."""
    return _derived(network, x, direction, layers, 1)[0]


def curvatures(network: Chain, x: Form, direction: Array, layers: list[Layer]) -> Form:
    """The second derivative along a direction."""
    if network.activation == "relu":
        raise NotEnclosedError("a relu has no second derivative; bound values or slopes")
    return _derived(network, x, direction, layers, 2)[1]


def _derived(
    network: Chain, x: Form, direction: Array, layers: list[Layer], order: int
) -> tuple[Form, Form]:
    unit = UNIT[network.precision]
    first = forms.constant(direction, x.directions)
    second = forms.constant(jnp.zeros_like(direction), x.directions)
    for weight, layer in zip(network.weights[:-1], layers, strict=True):
        first = affine(weight, None, first, network.precision)
        steep = activated(network, layer.before, 1)
        if order == 2:
            second = affine(weight, None, second, network.precision)
            bent = activated(network, layer.before, 2)
            second = forms.add(forms.times(bent, forms.square(first)), forms.times(steep, second))
            second = _rounded(second, 4 * unit, network.precision)
        first = forms.times(steep, first)
        first = _rounded(first, 2 * unit, network.precision)
    last = network.weights[-1]
    first = affine(last, None, first, network.precision)
    return first, affine(last, None, second, network.precision) if order == 2 else second


def _rounded(product: Form, share: float, precision: str) -> Form:
    size = product.size
    return forms.widen(product, unless_overflown(share * size, size, precision))


def error(network: Chain, x: Form, layers: list[Layer]) -> Float[Array, " outputs"]:
    """The most that deployed outputs are off from exact arithmetic on the same inputs."""
    steepest = 1.0 if network.activation == "relu" else largest(network.activation, 1)
    off = jnp.zeros_like(x.least)
    entered = x
    for place, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        size = jnp.abs(weight)
        through = size @ entered.size + jnp.abs(bias)
        off = size @ off + deployed_error(weight, through, network.precision)
        if place < len(layers):
            entered = layers[place].after
            off = steepest * off + network.rounding * (1 + entered.size)
    return off


def backward(network: Chain, x: Form, layers: list[Layer], forward: Form) -> Form:
    """Outputs enclosed by lines through all activations, carried back to the inputs.

    The bounds from below and above have slopes of their own there; the line that is returned has the
    mean of both slopes, and the interval is the tightest of all. ``forward`` is the enclosure by forms
    alone.
    """
    slopes, height = _carried(network, x, layers)
    height = crown.top(slopes, height, x.low, x.high, x.terms)
    # y <= top_slope t + top and -y <= bottom_slope t + bottom, for t in [-1, 1]^d
    top_slope, bottom_slope = jnp.split(slopes @ x.slope, 2)
    top, bottom = jnp.split(height, 2)
    reach_top = jnp.sum(jnp.abs(top_slope), -1)
    reach_bottom = jnp.sum(jnp.abs(bottom_slope), -1)
    slope = 0.5 * (top_slope - bottom_slope)
    room = jnp.sum(jnp.abs(0.5 * (top_slope + bottom_slope)), -1)
    give = OWN * (x.directions + 4) * (reach_top + reach_bottom + jnp.abs(top) + jnp.abs(bottom))
    # the lines do not see what overflows in between; the forward pass does
    give = jnp.where(forward.lost, jnp.inf, give)
    least = jnp.maximum(forward.least, -(bottom + reach_bottom) - give)
    most = jnp.minimum(forward.most, top + reach_top + give)
    lined = forms.form(slope, -bottom - room - give, top + room + give, least, most)
    keep = forward.high - forward.low < lined.high - lined.low
    return forms.form(
        jnp.where(keep[..., None], forward.slope, lined.slope),
        jnp.where(keep, forward.low, lined.low),
        jnp.where(keep, forward.high, lined.high),
        least,
        most,
    )


def _carried(network: Chain, x: Form, layers: list[Layer]) -> tuple[Array, Array]:
    """Slopes and heights in the inputs of upper bounds of the outputs, and then of their negatives."""
    depth, sizes = len(layers), [x.size, *(layer.after.size for layer in layers)]
    parts = list(zip(network.weights, network.biases, sizes, strict=True))
    errors = [
        layer_error(weight, jnp.abs(weight) @ size + jnp.abs(bias), network.precision, depth)
        for weight, bias, size in parts
    ]
    weight, bias, _ = parts[-1]
    slopes = jnp.concatenate([weight, -weight])
    height = jnp.concatenate([errors[-1] + bias, errors[-1] - bias])
    for place in reversed(range(depth)):
        before, (weight, bias, _) = layers[place].before, parts[place]
        ends = before.least, before.most
        lines = crown.relaxation(network.activation, network.precision, *ends, errors[place])
        slopes, height = crown.back(slopes, height, lines, weight, bias)
    return slopes, height
