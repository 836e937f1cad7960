"""Linear claims on the outputs of one deep network over one box, from below.

Straight lines below and above every activation are carried back from a layer to the inputs, where terms
cancel (CROWN: Zhang et al., *Efficient neural network robustness certification with general activation
functions*, 2018). Here that is done for every hidden layer, not for the outputs alone: a box costs some
20 times as much as with forms, and is so much wider that a hundredth of the boxes will do.

Hidden layers are stacked, with as many units as the widest has, and loops run over them: a program that
wrote out every pair of layers would take ten times as long to compile.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.enclosures.activations import ROUNDING, line, range_of, relu_below
from prbnn.certify.enclosures.forms import OWN, TINY
from prbnn.certify.enclosures.layered import FLUSHED, UNIT, unless_overflown


class Stacked(NamedTuple):
    """Weights of one network in float64; ``activation`` and ``precision`` are static."""

    first: Float[Array, "wide inputs"]
    others: Float[Array, "later wide wide"]
    biases: Float[Array, "hidden wide"]
    last: Float[Array, "outputs entering"]
    last_bias: Float[Array, " outputs"]
    activation: str
    precision: str

    @property
    def hidden(self) -> int:
        """How many hidden layers there are."""
        return self.biases.shape[0]


class Lines(NamedTuple):
    """Of every hidden layer: below z + low <= activation(z) <= above z + high, rounding included.

    ``size`` is the greatest that leaves the layer, ``moved`` how far each input moves z over the box.
    """

    above: Float[Array, "hidden wide"]
    high: Float[Array, "hidden wide"]
    below: Float[Array, "hidden wide"]
    low: Float[Array, "hidden wide"]
    size: Float[Array, "hidden wide"]
    moved: Float[Array, "hidden wide inputs"]


class Claimed(NamedTuple):
    """Guaranteed least values, the slopes of the lines that give them, and which inputs are to blame."""

    least: Float[Array, " rows"]
    slope: Float[Array, "rows inputs"]
    blame: Float[Array, "rows inputs"]


def stacked(weights: list[np.ndarray], biases: list[np.ndarray], activation: str, precision: str):
    """A network with its hidden layers filled up by units that nothing enters and nothing leaves."""
    wide = max((len(bias) for bias in biases[:-1]), default=0)
    hidden = len(biases) - 1
    first = np.zeros((wide, weights[0].shape[1]))
    others, filled = np.zeros((max(0, hidden - 1), wide, wide)), np.zeros((hidden, wide))
    last = np.zeros((len(biases[-1]), wide if hidden else weights[-1].shape[1]))
    for place in range(hidden):
        part = first if place == 0 else others[place - 1]
        part[: weights[place].shape[0], : weights[place].shape[1]] = weights[place]
        filled[place, : len(biases[place])] = biases[place]
    last[:, : weights[-1].shape[1]] = weights[-1]
    parts = (jnp.asarray(part) for part in (first, others, filled, last, biases[-1]))
    return Stacked(*parts, activation, precision)


def claimed(network: Stacked, low: Array, high: Array, rows: Array, added: Array) -> Claimed:
    """rows @ outputs + added over a box, of outputs as deployed: terms of several outputs cancel.

    Where a line leaves an activation room, that room is shared out among the inputs by how far each
    moves the unit: a box is best split along the input with the greatest share.
    """
    # inputs are rounded to the network's own precision
    size = _size(low, high)
    give = (UNIT[network.precision] + OWN) * size + FLUSHED[network.precision]
    give = unless_overflown(give, size, network.precision)
    box = low - give, high + give
    lines = _hidden(network, box)
    entered = lines.size[-1] if network.hidden else _size(*box)
    through = jnp.abs(network.last) @ entered + jnp.abs(network.last_bias)
    terms = OWN * (rows.shape[1] + 2 * network.hidden + 4)
    lost = jnp.abs(rows) @ (_rounded(network, network.last.shape[1], through) + terms * through)
    lost = lost + terms * jnp.abs(added)
    height = lost - rows @ network.last_bias - added
    top, slope, blame = _carried(
        network, lines, box, network.hidden, -(rows @ network.last), height, True
    )
    # what is no number is no bound
    least = jnp.where(jnp.isnan(top), -jnp.inf, -top)
    return Claimed(least, -slope, blame + jnp.abs(slope) * 0.5 * (high - low))


def _size(low: Array, high: Array) -> Array:
    return jnp.maximum(jnp.abs(low), jnp.abs(high))


def _rounded(network: Stacked, terms: int, through: Array) -> Array:
    """What a layer rounds at most, deployed and in the sums here; ``through`` is |W| |h| + |b|."""
    deployed = UNIT[network.precision] * through + FLUSHED[network.precision]
    deployed = unless_overflown(deployed, through, network.precision)
    return (terms + 2) * deployed + OWN * (terms + 2 * network.hidden + 6) * through


def _hidden(network: Stacked, box: tuple[Array, Array]) -> Lines:
    """Layer by layer, each enclosed by the lines of those before it."""
    wide, inputs = network.first.shape
    blank = jnp.zeros((network.hidden, wide))
    lines = Lines(*[blank] * 5, jnp.zeros((network.hidden, wide, inputs)))
    if not network.hidden:
        return lines

    def layer(place: Array | int, lines: Lines, weight: Array, entered: Array) -> Lines:
        bias = network.biases[place]
        through = jnp.abs(weight) @ entered + jnp.abs(bias)
        lost = _rounded(network, weight.shape[1], through)
        both = jnp.concatenate([weight, -weight])
        height = jnp.concatenate([lost + bias, lost - bias])
        top, slope, _ = _carried(network, lines, box, place, both, height, False)
        most, least = jnp.split(top, 2)
        above, below = jnp.split(jnp.abs(slope), 2)
        moved = 0.25 * (above + below) * (box[1] - box[0])
        # what the terms alone allow is looser but for rare boxes, and a number where lines are none
        plain = through * (1 + OWN * (weight.shape[1] + 4)) + lost
        least, most = jnp.fmax(-least, -plain), jnp.fmin(most, plain)
        found = _lines(network, least, most, through, weight.shape[1], moved)
        return Lines(*(a.at[place].set(b) for a, b in zip(lines, found, strict=True)))

    lines = layer(0, lines, network.first, _size(*box))
    return jax.lax.fori_loop(
        1,
        network.hidden,
        lambda k, lines: layer(k, lines, network.others[k - 1], lines.size[k - 1]),
        lines,
    )


def _lines(network: Stacked, least, most, through, deep: int, moved) -> Lines:
    """One layer's lines. What the layer below rounds, and the products that carry them, widen them."""
    rounding = ROUNDING[np.dtype(network.precision)]
    above, low, high = line(network.activation, 0, least, most, rounding)
    below = above
    if network.activation == "relu":
        below, low = relu_below(least, most), jnp.zeros_like(low)
    wide = least.shape[0]
    steep = _size(above, below)
    give = steep * (_rounded(network, deep, through) + OWN * wide * through)
    give = give + OWN * (wide + 4) * (jnp.abs(high) + jnp.abs(low))
    size = _size(*range_of(network.activation, 0, least, most, rounding))
    return Lines(above, high + give, below, low - give, size, moved)


def _carried(
    network: Stacked,
    lines: Lines,
    box: tuple[Array, Array],
    count: Array | int,
    slopes: Array,
    height: Array,
    blamed: bool,
) -> tuple[Array, Array, Array]:
    """(top, slope, blame): the most of slopes @ h + height, h leaving the first `count` hidden layers."""

    def through(place: Array | int, weight: Array, carry: tuple) -> tuple:
        slopes, height, blame = carry
        above, high, below, low, _, moved = (part[place] for part in lines)
        positive, negative = jnp.maximum(slopes, 0), jnp.minimum(slopes, 0)
        if blamed:
            share = moved / (jnp.sum(moved, -1, keepdims=True) + TINY)
            blame = blame + ((positive - negative) * (high - low)) @ share
        height = height + positive @ high + negative @ low
        slopes = positive * above + negative * below
        # one product for both, a third quicker
        found = slopes @ jnp.concatenate([weight, network.biases[place][:, None]], 1)
        return found[:, :-1], height + found[:, -1], blame

    def back(step: Array, carry: tuple) -> tuple:
        place = count - 1 - step
        return through(place, network.others[place - 1], carry)

    carry = slopes, height, jnp.zeros((slopes.shape[0], box[0].size))
    if network.hidden and not (isinstance(count, int) and count == 0):
        carry = jax.lax.fori_loop(0, count - 1, back, carry)
        carry = through(0, network.first, carry)
    slopes, height, blame = carry
    top = jnp.maximum(slopes, 0) @ box[1] + jnp.minimum(slopes, 0) @ box[0]
    own = OWN * (box[0].size + 4) * (jnp.abs(slopes) @ _size(*box) + jnp.abs(height))
    return height + top + own, slopes, blame
