"""Guaranteed bounds of a network, its slope and its bend over boxes of inputs.

Intervals and straight lines, layer by layer and back again, and the tightest of all; see
`prbnn.certify.enclosures.layered`. They hold for the network as deployed, in floating point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.enclosures import forms, layered
from prbnn.certify.enclosures.chain import Chain, chain_of
from prbnn.certify.enclosures.rounding import DOUBLE
from prbnn.errors import KnowledgeError, NotEnclosedError, nearest
from prbnn.posterior.draws import Posterior

# boxes enclosed at a time: memory stays bounded, and a count of boxes costs no program of its own
CHUNK_BOXES = 1024


@dataclass(frozen=True, eq=False)
class Bounds:
    """(draws, boxes, outputs), in the user's units; draws first only where there are several."""

    lower: np.ndarray
    upper: np.ndarray


def bounds(
    function: Any,
    lower: Any,
    upper: Any,
    *,
    along: int | str | None = None,
    order: int | None = None,
) -> Bounds:
    """Bounds of every output over boxes [lower, upper], (boxes, inputs) in the user's units.

    ``function`` is a posterior (every draw of it) or a built `MLP`. With ``along``, a column, they are
    of the slope along it, and with ``order=2`` of the bend (the second derivative).

    >>> import jax
    >>> from prbnn import MLP
    >>> network = MLP((8,)).build(jax.random.key(0), 2, 1)
    >>> found = bounds(network, [[0.0, 0.0]], [[1.0, 1.0]])
    >>> value = network(jax.numpy.array([0.3, 0.9]))
    >>> bool(found.lower[0, 0] <= value[0] <= found.upper[0, 0])
    True
    """
    chain, scaling = chain_of(function)
    if isinstance(function, Posterior) and not function.likelihood.scales_targets:
        raise NotEnclosedError(
            "bounds() of class probabilities are not offered; certify() rules on them"
        )
    order = order if order is not None else int(along is not None)
    if order not in (0, 1, 2) or (order > 0) != (along is not None):
        raise ValueError(f"order is 1 or 2 with along=, and 0 without; got {order!r}, {along!r}")
    low, high = boxes_of(lower, upper, chain.inputs)
    column = _column(function, along, chain.inputs)
    if scaling is not None:
        low, high = (_outward(scaling.inputs(end), side) for end, side in ((low, -1), (high, 1)))
    with jax.enable_x64(True):
        doubled = chain.doubled()
        parts = [
            _all(doubled, jnp.asarray(a), jnp.asarray(b), column, order)
            for a, b in _blocks(low, high)
        ]
        least, most = (
            np.concatenate([np.asarray(p) for p in ends], axis=1)[:, : len(low)]
            for ends in zip(*parts, strict=True)
        )
    if scaling is not None:
        scale = scaling.output_scale / (scaling.input_scale[column] ** order if order else 1.0)
        moved = scaling.output_shift if order == 0 else 0.0
        # sums that cancel are rounded as a share of their terms
        give = 8 * DOUBLE * (np.maximum(np.abs(least), np.abs(most)) * scale + np.abs(moved))
        least, most = least * scale + moved - give, most * scale + moved + give
    if not isinstance(function, Posterior):
        least, most = least[0], most[0]
    return Bounds(least, most)


def _blocks(low: np.ndarray, high: np.ndarray):
    """Boxes so many at a time; the last are repeated to fill a block, few boxes to a power of two."""
    size = min(CHUNK_BOXES, 1 << max(0, len(low) - 1).bit_length())
    for start in range(0, len(low), size):
        index = np.minimum(np.arange(start, start + size), len(low) - 1)
        yield low[index], high[index]


def boxes_of(lower: Any, upper: Any, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of boxes as (boxes, inputs), or an error."""
    low, high = (np.atleast_2d(np.asarray(end, np.float64)) for end in (lower, upper))
    if low.shape != high.shape or low.ndim != 2 or low.shape[1] != inputs or not len(low):
        raise ValueError(
            f"lower and upper must be (boxes, {inputs}), got {low.shape} and {high.shape}"
        )
    if not np.all(low <= high) or not np.all(np.isfinite(low) & np.isfinite(high)):
        raise ValueError("every box needs finite ends, lower <= upper")
    return low, high


def _column(function: Any, along: int | str | None, inputs: int) -> int:
    if along is None:
        return 0
    names = function.columns.inputs if isinstance(function, Posterior) else ()
    if isinstance(along, str):
        if along not in names:
            raise KnowledgeError(f"no column {along!r}{nearest(along, list(names))}")
        return names.index(along)
    if not 0 <= along < inputs:
        raise ValueError(f"along must be a column from 0 to {inputs - 1}, got {along!r}")
    return int(along)


def _outward(values: np.ndarray, side: int) -> np.ndarray:
    return np.nextafter(values + side * 8 * DOUBLE * np.abs(values), side * np.inf)


@eqx.filter_jit
def _all(chain: Chain, low: Array, high: Array, column: int, order: int) -> tuple[Array, Array]:
    """(draws, boxes, outputs): every draw on every box."""

    def box(network: Chain, low: Array, high: Array) -> tuple[Array, Array]:
        x = layered.entering(forms.box(low, high), chain.precision)
        layers = layered.hidden(network, x)
        if order == 0:
            found = layered.values(network, x, layers)
        else:
            direction = jnp.zeros(chain.inputs).at[column].set(1.0)
            derive = layered.rates if order == 1 else layered.curvatures
            found = derive(network, x, direction, layers)
        return found.least, found.most

    def draw(network: Chain) -> tuple[Array, Array]:
        return jax.vmap(lambda a, b: box(network, a, b))(low, high)

    return jax.lax.map(draw, chain)
