"""One network over one box: its values, slopes and bends, in floating point as deployed.

Forms go through the layers from the inputs on. Values are enclosed a second time by straight lines below
and above every activation, carried back from the outputs to the inputs, where terms cancel that forms
keep apart (the CROWN family: Zhang et al., *Efficient neural network robustness certification with
general activation functions*, 2018).

A deployed layer computes W h + b with an error of at most gamma (|W| |h| + |b|), gamma = (n + 2) u for n
terms and unit roundoff u; the error is a disturbance like any other and is enclosed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.enclosures import forms
from prbnn.certify.enclosures.activations import ROUNDING, largest, line, range_of, relu_below
from prbnn.certify.enclosures.forms import DOUBLE, OWN, TINY, Form
from prbnn.errors import NotEnclosedError

# unit roundoff of the deployed network, with a hundredth to spare for higher orders
UNIT = {"float32": 1.01 * 2.0**-24, "float64": 1.01 * DOUBLE}
# numbers of half this size and more may have overflowed
LARGEST = {"float32": 2.0**127, "float64": 2.0**1000}
# activations whose range is narrow whatever enters them
BOUNDED = ("tanh", "sigmoid", "rbf")
# slopes of these activations multiply powers of z, which overflow long before z does
POWERS = ("gelu", "rbf")
# float32 flushes smaller numbers to nothing, every product of a sum on its own
FLUSHED = {"float32": 2.0**-126, "float64": TINY}


class Network(NamedTuple):
    """Weights of one draw in float64; ``activation`` and ``precision`` are static."""

    weights: tuple[Float[Array, "wide deep"], ...]
    biases: tuple[Float[Array, " wide"], ...]
    activation: str
    precision: str

    @property
    def rounding(self) -> float:
        """What an activation may be off by."""
        return ROUNDING[np.dtype(self.precision)]


class Layer(NamedTuple):
    """A layer before and after its activation."""

    before: Form
    after: Form


def unless_overflown(give: Array, size: Array, precision: str) -> Array:
    """What is given for rounding; infinite where numbers of this size may overflow.

    A sum that overflows may be NaN, of which nothing is known.
    """
    return jnp.where(size < LARGEST[precision], give, jnp.inf)


def entering(x: Form, precision: str) -> Form:
    """Inputs rounded to the network's own precision."""
    give = UNIT[precision] * x.size + FLUSHED[precision]
    return forms.widen(x, unless_overflown(give, x.size, precision))


def hidden(network: Network, x: Form) -> list[Layer]:
    """Every hidden layer."""
    found: list[Layer] = []
    entered = x
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        before = affine(weight, bias, entered, network.precision)
        entered = activated(network, before, 0)
        found.append(Layer(before, entered))
    return found


def activated(network: Network, before: Form, order: int) -> Form:
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
    deployed = terms * (UNIT[precision] * through + FLUSHED[precision])
    deployed = unless_overflown(deployed, through, precision)
    own = terms * OWN * (size @ (inputs.terms + inputs.size) + jnp.abs(added)) + TINY
    height, wide = weight @ middle + added, size @ room + deployed + own
    plain, around = weight @ centre + added, size @ radius + deployed + own
    slope = weight @ inputs.slope
    return forms.form(slope, height - wide, height + wide, plain - around, plain + around)


def values(network: Network, x: Form, layers: list[Layer] | None = None) -> Form:
    """Outputs of the network."""
    layers = hidden(network, x) if layers is None else layers
    last = layers[-1].after if layers else x
    forward = affine(network.weights[-1], network.biases[-1], last, network.precision)
    return backward(network, x, layers, forward) if layers else forward


def rates(network: Network, x: Form, direction: Array, layers: list[Layer]) -> Form:
    """d outputs / d inputs along a direction, carried forward as a deployed derivative is."""
    return _derived(network, x, direction, layers, 1)[0]


def bends(network: Network, x: Form, direction: Array, layers: list[Layer]) -> Form:
    """The second derivative along a direction."""
    if network.activation == "relu":
        raise NotEnclosedError("a relu has no second derivative; bound values or slopes")
    return _derived(network, x, direction, layers, 2)[1]


def _derived(
    network: Network, x: Form, direction: Array, layers: list[Layer], order: int
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


def error(network: Network, x: Form, layers: list[Layer]) -> Array:
    """How far deployed outputs are at most from those of exact arithmetic on the same inputs.

    Where none overflows, which `values` tells.
    """
    unit, floor = UNIT[network.precision], FLUSHED[network.precision]
    steepest = 1.0 if network.activation == "relu" else _steepest(network.activation)
    off = jnp.zeros_like(x.least)
    entered = x
    for place, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        size = jnp.abs(weight)
        terms = weight.shape[1] + 2
        off = size @ off + terms * (unit * (size @ entered.size + jnp.abs(bias)) + floor)
        if place < len(layers):
            entered = layers[place].after
            off = steepest * off + network.rounding * (1 + entered.size)
    return off


def _steepest(activation: str) -> float:
    return largest(activation, 1)


def backward(network: Network, x: Form, layers: list[Layer], forward: Form) -> Form:
    """Outputs enclosed by lines through all activations, at the inputs.

    Below and above have slopes of their own there; the line kept is the one of the middle, and the
    interval is the tightest of all.
    """
    top_slope, top = _end(network, x, layers, 1.0)
    bottom_slope, bottom = _end(network, x, layers, -1.0)
    reach_top = jnp.sum(jnp.abs(top_slope), -1)
    reach_bottom = jnp.sum(jnp.abs(bottom_slope), -1)
    # y <= top_slope t + top and -y <= bottom_slope t + bottom
    slope = 0.5 * (top_slope - bottom_slope)
    room = jnp.sum(jnp.abs(0.5 * (top_slope + bottom_slope)), -1)
    give = OWN * (x.directions + 4) * (reach_top + reach_bottom + jnp.abs(top) + jnp.abs(bottom))
    # lines are those of exact arithmetic and rounding; forwards it is told what may overflow
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


def _end(network: Network, x: Form, layers: list[Layer], sign: float) -> tuple[Array, Array]:
    """(slope, height): sign * outputs <= slope . t + height."""
    unit, floor = UNIT[network.precision], FLUSHED[network.precision]
    slopes, height = network.weights[-1], network.biases[-1]
    terms = slopes.shape[1] + 2
    size = jnp.abs(slopes) @ layers[-1].after.size + jnp.abs(height)
    lost = terms * ((unit + OWN) * size + floor)
    slopes, height = sign * slopes, sign * height
    for place in range(len(layers) - 1, -1, -1):
        before = layers[place].before
        above, low, high = line(network.activation, 0, before.least, before.most, network.rounding)
        below = above
        if network.activation == "relu":
            below, low = relu_below(before.least, before.most), jnp.zeros_like(low)
        positive, negative = jnp.maximum(slopes, 0), jnp.minimum(slopes, 0)
        height = height + positive @ high + negative @ low
        wide = slopes.shape[1] + 2
        lost = lost + OWN * wide * (jnp.abs(slopes) @ (jnp.abs(high) + jnp.abs(low)))
        slopes = positive * above + negative * below
        weight, bias = network.weights[place], network.biases[place]
        entered = layers[place - 1].after.size if place else x.size
        through = jnp.abs(weight) @ entered + jnp.abs(bias)
        # what the layer rounds, and what the products here round
        deep = weight.shape[1]
        lost = lost + jnp.abs(slopes) @ (
            ((deep + 2) * unit + (wide + deep + 4) * OWN) * through + (deep + 2) * floor
        )
        height = height + slopes @ bias
        slopes = slopes @ weight
    positive, negative = jnp.maximum(slopes, 0), jnp.minimum(slopes, 0)
    carried = slopes @ x.slope
    ends = positive @ x.high + negative @ x.low
    own = OWN * (slopes.shape[1] + 4) * (jnp.abs(slopes) @ x.terms + jnp.abs(height))
    return carried, height + ends + lost + own
