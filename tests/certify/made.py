"""Posteriors of networks that were written down, not trained: what is true of them is known."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.scaling import ScalingKind, scaling_of
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import Dense, Layers
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior

Pairs = Sequence[tuple[Sequence, Sequence]]


def network(pairs: Pairs, activation: str = "relu") -> Layers:
    """Layers with these weights and biases."""
    return Layers(
        tuple(Dense(jnp.asarray(w, float), jnp.asarray(b, float)) for w, b in pairs), activation
    )


def posterior(
    networks: Sequence[Layers], rows: np.ndarray, scaling: ScalingKind = "none", targets=None
) -> Posterior:
    """Every network is a draw; columns are a, b, c ..., the output is y."""
    targets = np.zeros((len(rows), 1)) if targets is None else targets
    columns = Columns(tuple("abcdefgh"[: rows.shape[1]]), ("y",), rows, targets)
    vectors = np.stack([np.asarray(flatten(each)) for each in networks])
    scale = scaling_of(rows, targets, scaling)
    return Posterior(networks[0], vectors, Gaussian(), np.zeros((1, 1)), scale, columns)


def unit_rows(inputs: int, count: int = 40) -> np.ndarray:
    """Rows that fill the unit cube, both ends included."""
    rows = np.random.default_rng(0).random((count, inputs))
    rows[0], rows[1] = 0, 1
    return rows


def plane(slopes: Sequence[float], height: float) -> Layers:
    """slopes . x + height."""
    return network([([slopes], [height])])


def folded(inputs: int, share: float) -> Layers:
    """Slope 1 along the first input, and -1 in the corner of the unit cube with this share of it.

    y = x_1 - 2 relu(x_1 + ... + x_n - t); the corner beyond t has the volume (n - t)^n / n!.
    """
    reach = (share * float(np.prod(np.arange(1, inputs + 1)))) ** (1 / inputs)
    first = np.zeros(inputs)
    first[0] = 1.0
    weights = np.stack([np.ones(inputs), first])
    return network([(weights, [-(inputs - reach), 0.0]), ([[-2.0, 1.0]], [0.0])])
