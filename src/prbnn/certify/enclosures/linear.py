"""Linear properties of the outputs of one deep network over one box: their least values, as deployed.

Reach for this module to verify rows @ outputs + added >= 0 for a network of several hidden layers. Here
`prbnn.certify.enclosures.crown` carries bounds back from every hidden layer, not from the outputs
alone: a box costs about 20 times as much as in `prbnn.certify.enclosures.layered`, and bounds are so
much tighter that about 1/100 of the boxes are enough. It knows neither slopes nor second derivatives.

Hidden layers are stacked, filled up to as many units as the widest has, and loops run over them: a
program that wrote out every pair of layers would take ten times as long to compile.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.enclosures import crown
from prbnn.certify.enclosures.activations import ROUNDING, range_of
from prbnn.certify.enclosures.chain import Chain
from prbnn.certify.enclosures.crown import Relaxation
from prbnn.certify.enclosures.rounding import OWN, TINY, input_error, layer_error, magnitude


class Stacked(NamedTuple):
    """Weights of one network in float64; ``activation`` and ``precision`` are static."""

    first: Float[Array, "units inputs"]
    others: Float[Array, "later units units"]
    biases: Float[Array, "hidden units"]
    last: Float[Array, "outputs entering"]
    last_bias: Float[Array, " outputs"]
    activation: str
    precision: str

    @property
    def hidden(self) -> int:
        """The number of hidden layers."""
        return self.biases.shape[0]


class Enclosures(NamedTuple):
    """Of every hidden layer: lines around its activations, and more about its units.

    - ``size``: the largest magnitude that leaves each unit
    - ``moved``: how far each input can move each unit over the box, before its activation
    """

    lines: Relaxation
    size: Float[Array, "hidden units"]
    moved: Float[Array, "hidden units inputs"]


class Lowest(NamedTuple):
    """Guaranteed least values of linear properties over a box, one per row.

    - ``slope``: slopes in the inputs of the linear lower bounds that give them
    - ``blame``: how much each input adds to the gap between bounds: a box is best split along the largest
    """

    least: Float[Array, " rows"]
    slope: Float[Array, "rows inputs"]
    blame: Float[Array, "rows inputs"]


def stacked(network: Chain) -> Stacked:
    """One network with its hidden layers filled up by units that nothing enters and nothing leaves."""
    weights, biases = network.weights, network.biases
    wide = max((len(bias) for bias in biases[:-1]), default=0)
    hidden = len(biases) - 1
    first = np.zeros((wide, network.inputs))
    others, filled = np.zeros((max(0, hidden - 1), wide, wide)), np.zeros((hidden, wide))
    last = np.zeros((len(biases[-1]), wide if hidden else network.inputs))
    for place in range(hidden):
        part = first if place == 0 else others[place - 1]
        part[: weights[place].shape[0], : weights[place].shape[1]] = weights[place]
        filled[place, : len(biases[place])] = biases[place]
    last[:, : weights[-1].shape[1]] = weights[-1]
    parts = (jnp.asarray(part, float) for part in (first, others, filled, last, biases[-1]))
    return Stacked(*parts, network.activation, network.precision)


def lowest(
    network: Stacked,
    low: Float[Array, " inputs"],
    high: Float[Array, " inputs"],
    rows: Float[Array, "rows outputs"],
    added: Float[Array, " rows"],
) -> Lowest:
    """rows @ outputs + added over the box [low, high]: terms of several outputs cancel.

    Where the lines leave an activation room, that room is divided among the inputs by how far each
    moves the unit, for ``blame``.
    """
    # the deployed network rounds its inputs to its own precision
    give = input_error(magnitude(low, high), network.precision)
    box = low - give, high + give
    found = _hidden_layers(network, box)
    entered = found.size[-1] if network.hidden else magnitude(*box)
    through = jnp.abs(network.last) @ entered + jnp.abs(network.last_bias)
    terms = OWN * (rows.shape[1] + 2 * network.hidden + 4)
    error = layer_error(network.last, through, network.precision, network.hidden)
    lost = jnp.abs(rows) @ (error + terms * through) + terms * jnp.abs(added)
    height = lost - rows @ network.last_bias - added
    top, slope, blame = _carried(
        network, found, box, network.hidden, -(rows @ network.last), height, blamed=True
    )
    # NaN counts as unproved
    least = jnp.where(jnp.isnan(top), -jnp.inf, -top)
    return Lowest(least, -slope, blame + jnp.abs(slope) * 0.5 * (high - low))


def _hidden_layers(network: Stacked, box: tuple[Array, Array]) -> Enclosures:
    """Every hidden layer, each enclosed with the lines of those before it."""
    units, inputs = network.first.shape
    blank = jnp.zeros((network.hidden, units))
    start = Enclosures(Relaxation(*[blank] * 4), blank, jnp.zeros((network.hidden, units, inputs)))
    if not network.hidden:
        return start

    def layer(place: Array | int, known: Enclosures, weight: Array, entered: Array) -> Enclosures:
        bias = network.biases[place]
        through = jnp.abs(weight) @ entered + jnp.abs(bias)
        error = layer_error(weight, through, network.precision, network.hidden)
        both = jnp.concatenate([weight, -weight])
        height = jnp.concatenate([error + bias, error - bias])
        top, slope, _ = _carried(network, known, box, place, both, height, blamed=False)
        most, least = jnp.split(top, 2)
        above, below = jnp.split(jnp.abs(slope), 2)
        moved = 0.25 * (above + below) * (box[1] - box[0])
        # |W| |h| + |b| is a looser bound but for rare boxes, and finite where lines are not
        plain = through * (1 + OWN * (weight.shape[1] + 4)) + error
        ends = jnp.fmax(-least, -plain), jnp.fmin(most, plain)
        lines = crown.relaxation(network.activation, network.precision, *ends, error)
        rounding = ROUNDING[np.dtype(network.precision)]
        size = magnitude(*range_of(network.activation, 0, *ends, rounding))
        found = Enclosures(lines, size, moved)
        return jax.tree.map(lambda whole, part: whole.at[place].set(part), known, found)

    return jax.lax.fori_loop(
        1,
        network.hidden,
        lambda k, known: layer(k, known, network.others[k - 1], known.size[k - 1]),
        layer(0, start, network.first, magnitude(*box)),
    )


def _carried(
    network: Stacked,
    known: Enclosures,
    box: tuple[Array, Array],
    count: Array | int,
    slopes: Float[Array, "rows entering"],
    height: Float[Array, " rows"],
    blamed: bool,
) -> tuple[Float[Array, " rows"], Float[Array, "rows inputs"], Float[Array, "rows inputs"]]:
    """(top, slope, blame) of slopes @ h + height, where h leaves the first ``count`` hidden layers.

    ``top`` is its largest value over the box, ``slope`` that of the linear bound in the inputs;
    ``blame`` is 0 unless ``blamed``.
    """

    def through(place: Array | int, weight: Array, carry: tuple) -> tuple:
        slopes, height, blame = carry
        lines, moved = Relaxation(*(part[place] for part in known.lines)), known.moved[place]
        if blamed:
            fraction = moved / (jnp.sum(moved, -1, keepdims=True) + TINY)
            blame = blame + (jnp.abs(slopes) * (lines.high - lines.low)) @ fraction
        return *crown.back(slopes, height, lines, weight, network.biases[place]), blame

    def back(step: Array, carry: tuple) -> tuple:
        place = count - 1 - step
        return through(place, network.others[place - 1], carry)

    carry = slopes, height, jnp.zeros((slopes.shape[0], box[0].size))
    if network.hidden and not (isinstance(count, int) and count == 0):
        carry = jax.lax.fori_loop(0, count - 1, back, carry)
        carry = through(0, network.first, carry)
    slopes, height, blame = carry
    return crown.top(slopes, height, *box, magnitude(*box)), slopes, blame
