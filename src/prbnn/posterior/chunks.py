"""Draws and rows in chunks of one size: one compiled program, and bounded memory for any number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.model.likelihoods import Likelihood
from prbnn.model.response import response
from prbnn.model.weights import unflatten
from prbnn.system.process import side_by_side

CHUNK_ROWS = 256
CHUNK_DRAWS = 64


class DrawnModel(NamedTuple):
    """What compiled code needs beside a draw's vector, whose first `size` entries are weights.

    `window` is where observations are recorded, if the likelihood is truncated.
    """

    network: Any
    likelihood: Likelihood
    size: int
    window: Array | None = None

    def parts(self, vector: Array) -> tuple[Callable[[Array], Array], Array]:
        """The network of a draw, and the likelihood's own parameters."""
        return unflatten(self.network, vector[: self.size]), vector[self.size :]

    def response(self, vector: Array) -> Callable[[Array], Array]:
        """What rules see of a draw: network inputs to outputs, without noise."""
        return response(self.network, self.likelihood, vector[: self.size], vector[self.size :])


def padded(table: np.ndarray, size: int) -> Iterator[tuple[Array, int]]:
    """Blocks of ``size`` rows, the last filled up with zeros, and how many of their rows count."""
    for start in range(0, len(table), size):
        block = table[start : start + size]
        filled = np.pad(block, ((0, size - len(block)), (0, 0)))
        yield jnp.asarray(filled, float), len(block)


def by_draw(compiled: Callable[[Array], Array], vectors: np.ndarray) -> np.ndarray:
    """What ``compiled`` gives for every draw, called with CHUNK_DRAWS vectors at a time.

    Its program runs on one core: there are as many calls at a time as cores.
    """

    def one(part: tuple[Array, int]) -> np.ndarray:
        draws, keep = part
        return np.asarray(compiled(draws))[:keep]

    return np.concatenate(side_by_side(one, list(padded(vectors, CHUNK_DRAWS))))
