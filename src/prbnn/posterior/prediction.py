"""Predicting with draws: values and densities, and inputs that cannot be predicted at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.errors import DataError
from prbnn.model.observation import log_observation
from prbnn.posterior.chunks import CHUNK_DRAWS, CHUNK_ROWS, DrawnModel, by_draw, padded

# inputs in network units: their squares, and sums of some with large weights, still fit into float32
LARGEST_INPUT = 1e18


@dataclass(frozen=True, eq=False)
class Prediction:
    """Moments of the prediction, one row per input and one column per output, in the user's units.

    `epistemic` is the standard deviation of the drawn functions, `aleatoric` that of the noise.
    """

    mean: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Standard deviation of a new observation."""
        return np.sqrt(self.epistemic**2 + self.aleatoric**2)


def values_of(
    model: DrawnModel, vectors: np.ndarray, inputs: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Mean and noise of every draw (network units) on padded blocks of rows, and how many rows count."""
    groups = list(padded(vectors, CHUNK_DRAWS))
    for block, rows in padded(inputs, CHUNK_ROWS):
        parts = [
            [np.asarray(part)[:keep] for part in _values(model, draws, block)]
            for draws, keep in groups
        ]
        mean, noise = (np.concatenate(piece) for piece in zip(*parts, strict=True))
        yield mean, noise, rows


@eqx.filter_jit
def _values(model: DrawnModel, draws: Array, x: Array) -> tuple[Array, Array]:
    def one(vector: Array) -> tuple[Array, Array]:
        network, own = model.parts(vector)
        return model.likelihood.split(own, jax.vmap(network)(x))

    return jax.vmap(one)(draws)


def log_densities(
    model: DrawnModel,
    vectors: np.ndarray,
    inputs: np.ndarray,
    targets: np.ndarray,
    upper: np.ndarray | None = None,
) -> np.ndarray:
    """log of the mean over draws of p(target | input, draw), one number per row, in network units.

    ``vectors`` has one row per draw: its weights and likelihood parameters. ``inputs``, ``targets`` and
    the ``upper`` ends of intervals have one row per returned number, in network units.
    """
    largest = float(np.finfo(np.float32).max)
    if upper is None:
        targets = np.clip(targets, -largest, largest)
    ends = targets if upper is None else np.hstack([targets, upper])
    parts = []
    for (block, rows), (wanted, _) in zip(
        padded(inputs, CHUNK_ROWS), padded(ends, CHUNK_ROWS), strict=True
    ):
        found = by_draw(
            lambda draws, x=block, y=wanted: _densities(model, draws, x, y, upper is not None),
            vectors,
        )
        density = found.astype(np.float64)
        # a target too far away for float32 has no density
        density = np.where(np.isnan(density), -np.inf, density)
        parts.append((logsumexp(density, axis=0) - np.log(len(density)))[:rows])
    return np.concatenate(parts)


@eqx.filter_jit
def _densities(model: DrawnModel, draws: Array, x: Array, ends: Array, cut: bool) -> Array:
    y, upper = jnp.split(ends, 2, axis=1) if cut else (ends, None)

    def one(vector: Array) -> Array:
        network, own = model.parts(vector)

        def density(x: Array, y: Array, upper: Array | None) -> Array:
            return log_observation(model.likelihood, own, network(x), y, upper, model.window)

        return jax.vmap(density)(x, y, upper)

    return jax.vmap(one)(draws)


def network_inputs(x: np.ndarray, columns: Columns, scaling: Scaling) -> np.ndarray:
    """Rows in network units; raises where float32, in which networks compute, cannot hold them."""
    with np.errstate(over="ignore"):
        inputs = scaling.inputs(x)
    beyond = ~(np.abs(inputs) <= LARGEST_INPUT)
    if np.any(beyond):
        row, place = np.argwhere(beyond)[0]
        raise DataError(
            f"row {row} (from 0) has {np.asarray(x)[row, place]:g} in column "
            f"{columns.inputs[place]!r}, and {_seen(columns, place)}; nothing can be computed "
            f"beyond {LARGEST_INPUT:g} times the scale of a column. Check its unit, or leave the "
            "row out"
        )
    return inputs


def overflow_error(row: np.ndarray, number: int, columns: Columns, scaling: Scaling) -> DataError:
    """The error that a prediction at ``row`` is not finite: names its column that is farthest out.

    ``number`` is the row's, from 0.
    """
    place = int(np.argmax(np.abs(scaling.inputs(np.asarray(row)))))
    return DataError(
        f"the prediction at row {number} (from 0) is not a finite number: column "
        f"{columns.inputs[place]!r} is {np.asarray(row)[place]:g}, and "
        f"{_seen(columns, place)}. Check its unit, or leave the row out"
    )


def _seen(columns: Columns, place: int) -> str:
    low, high = columns.span(columns.inputs[place])
    return f"the fit saw {low:g} to {high:g}"
