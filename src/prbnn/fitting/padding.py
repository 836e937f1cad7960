"""Training rows as arrays of a size that many tables share, so that they share a compiled program."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Data(NamedTuple):
    """Padded rows in network units; ``weight`` is 0 for padding, ``count`` is without it.

    Where rows are censored, targets lie from ``y`` to ``upper``, and are exact where these are equal.
    """

    x: Float[Array, "rows inputs"]
    y: Float[Array, "rows outputs"]
    weight: Float[Array, " rows"]
    count: Float[Array, ""]
    upper: Float[Array, "rows outputs"] | None = None

    def take(self, rows: np.ndarray) -> Data:
        """Some of the rows, by position, without padding."""
        upper = None if self.upper is None else self.upper[rows]
        count = jnp.asarray(len(rows), float)
        return Data(self.x[rows], self.y[rows], self.weight[rows], count, upper)

    def at(self, rows: Array, real: Array) -> Data:
        """Some of the rows, by position, in compiled code; ``real`` is 1, and 0 for padding."""
        upper = None if self.upper is None else self.upper[rows]
        weight = self.weight[rows] * real
        return Data(self.x[rows], self.y[rows], weight, jnp.sum(real), upper)

    def padded(self, rows: int) -> Data:
        """The same rows, padded to ``rows``."""
        extra = rows - self.x.shape[0]
        x, y = (jnp.pad(part, ((0, extra), (0, 0))) for part in (self.x, self.y))
        upper = None if self.upper is None else jnp.pad(self.upper, ((0, extra), (0, 0)))
        return Data(x, y, jnp.pad(self.weight, (0, extra)), self.count, upper)


def bucket(rows: int) -> int:
    """The padded size of a table of ``rows`` rows, at least 8.

    Sizes are 1 or 1.5 times a power of two up to 256, and from there on 1/8 of it apart: padding takes
    time.

    >>> bucket(87), bucket(100), bucket(400), bucket(3)
    (96, 128, 416, 8)
    """
    if rows <= 8:
        return 8
    below = 2 ** ((rows - 1).bit_length() - 1)
    step = below // (8 if below >= 256 else 2)
    return below + -(-(rows - below) // step) * step


def pad(x: np.ndarray, y: np.ndarray, weight: np.ndarray, upper: np.ndarray | None = None) -> Data:
    """Rows in network units, padded to a bucket with weight 0."""
    extra = bucket(len(x)) - len(x)
    return Data(
        jnp.asarray(np.pad(x, ((0, extra), (0, 0))), float),
        jnp.asarray(np.pad(y, ((0, extra), (0, 0))), float),
        jnp.asarray(np.pad(weight, (0, extra)), float),
        jnp.asarray(len(x), float),
        None if upper is None else jnp.asarray(np.pad(upper, ((0, extra), (0, 0))), float),
    )


def number(value: float) -> Array:
    """A strongly typed scalar: a weakly typed one would compile a second program."""
    return jnp.asarray(np.asarray(value, jnp.zeros(()).dtype))
