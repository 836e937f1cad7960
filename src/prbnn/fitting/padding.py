"""Training rows as arrays of a size that many tables share, so that they share a compiled program."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Data(NamedTuple):
    """Padded rows in network units; ``weight`` is 0 for padding, ``count`` is without it."""

    x: Float[Array, "rows inputs"]
    y: Float[Array, "rows outputs"]
    weight: Float[Array, " rows"]
    count: Float[Array, ""]


def bucket(rows: int) -> int:
    """The padded size of a table of ``rows`` rows: 1 or 1.5 times a power of two, at least 8.

    >>> bucket(87), bucket(100), bucket(3)
    (96, 128, 8)
    """
    size = 8
    while size < rows:
        size = (
            size * 3 // 2
            if size & (size - 1) == 0 and size * 3 // 2 >= rows
            else (size * 2 if size & (size - 1) == 0 else size * 4 // 3)
        )
    return size


def pad(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Data:
    """Rows in network units, padded to a bucket with weight 0."""
    extra = bucket(len(x)) - len(x)
    return Data(
        jnp.asarray(np.pad(x, ((0, extra), (0, 0))), float),
        jnp.asarray(np.pad(y, ((0, extra), (0, 0))), float),
        jnp.asarray(np.pad(weight, (0, extra)), float),
        jnp.asarray(len(x), float),
    )


def number(value: float) -> Array:
    """A strongly typed scalar: a weakly typed one would compile a second program."""
    return jnp.asarray(np.asarray(value, jnp.zeros(()).dtype))
