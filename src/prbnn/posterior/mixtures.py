"""Distribution functions of the mixture of all draws, at several values per row at once.

`SymmetricMixture` is compiled, for likelihoods with a `standard_tail`; `AnyMixture` asks a likelihood for
its `distribution`, in float64. Both give the smaller tail, so that levels near 1 are as exact as near 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.model.standard_tails import StandardTail

# what one compiled call evaluates: draws, values per row, rows; one program for any number of each
TILE_DRAWS, TILE_VALUES, TILE_ROWS = 128, 16, 256
# draws per step of the compiled loop; with 8, XLA's code takes four times as long
UNROLLED = 16


@dataclass(frozen=True, eq=False)
class AnyMixture:
    """The mixture of any likelihood: ``mean`` and ``scale`` are (draws, rows, outputs)."""

    likelihood: Any
    mean: np.ndarray
    scale: np.ndarray

    # relative errors of probabilities and of values
    probability_error = 1e-13
    value_error = 1e-15

    @property
    def narrowest(self) -> np.ndarray:
        """The smallest standard deviation of a draw's noise, (rows, outputs)."""
        return np.min(self.likelihood.deviation(self.mean, self.scale), axis=0)

    def below(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """P(observation <= value) at ``values`` (values, rows, outputs) of the chosen ``rows``."""
        alone = len(rows) == 1
        if alone:
            # numpy adds the draws of a single row in another order
            rows, values = np.repeat(rows, 2), np.repeat(values, 2, axis=1)
        mean, scale = (np.take(part, rows, axis=1) for part in (self.mean, self.scale))
        found = [self.likelihood.distribution(value, mean, scale).mean(axis=0) for value in values]
        return np.stack(found)[:, :1] if alone else np.stack(found)

    def tails(
        self, values: np.ndarray, upper: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, None]:
        """P(observation <= value), or P(observation > value) where ``upper``; no density."""
        below = self.below(values, rows)
        return np.where(upper, 1 - below, below), None


@dataclass(frozen=True, eq=False)
class SymmetricMixture:
    """The mixture of draws whose noise is ``scale`` times one standard distribution.

    ``mean`` and ``scale`` are (draws, rows), in units in which the mixture's standard deviation is 1 and
    its middle is near 0: float32 resolves them there.
    """

    tail: StandardTail
    mean: np.ndarray
    scale: np.ndarray

    probability_error = 3e-7
    value_error = 1.2e-7

    @property
    def narrowest(self) -> np.ndarray:
        """The smallest scale of a draw's noise, (rows,)."""
        return np.min(self.scale, axis=0)

    def tails(
        self, values: np.ndarray, upper: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """P(observation <= value), or > where ``upper``, and the density: (values, rows) each."""
        found = np.empty((2, *values.shape))
        side = np.where(np.broadcast_to(upper, values.shape), -1.0, 1.0)
        for first in range(0, len(rows), TILE_ROWS):
            part = slice(first, first + TILE_ROWS)
            drawn = self._tiles(rows[part])
            for start in range(0, len(values), TILE_VALUES):
                block = slice(start, start + TILE_VALUES), part
                tile = _tile(values[block], TILE_VALUES), _tile(side[block], TILE_VALUES)
                sums = [_sums(self.tail, *tile, *draws) for draws in drawn]
                kept = np.sum([np.asarray(part) for part in sums], axis=0, dtype=float)
                height, width = values[block].shape
                found[:, *block] = kept[:, :height, :width]
        found /= len(self.mean)
        return found[0], found[1]

    def _tiles(self, rows: np.ndarray) -> list[tuple[Array, Array, Array]]:
        """Means, inverse scales and weights (0 of padding) of the draws of some rows."""
        tiles = []
        for start in range(0, len(self.mean), TILE_DRAWS):
            part = slice(start, start + TILE_DRAWS)
            mean, scale = self.mean[part][:, rows], self.scale[part][:, rows]
            weight = np.zeros(TILE_DRAWS, np.float32)
            weight[: len(mean)] = 1
            pair = _tile(mean, TILE_DRAWS), _tile(1 / scale, TILE_DRAWS)
            tiles.append((*pair, jnp.asarray(weight)))
        return tiles


def _tile(table: np.ndarray, height: int) -> Array:
    """``table`` filled up with zeros, in float32."""
    filled = np.zeros((height, TILE_ROWS), np.float32)
    filled[: table.shape[0], : table.shape[1]] = table
    return jnp.asarray(filled)


@jax.jit
def _sums(
    tail: StandardTail, values: Array, side: Array, mean: Array, inverse: Array, weight: Array
) -> Array:
    """Sums over draws of the tail towards ``side`` and of the density, (2, values, rows)."""

    def add(sums: tuple[Array, Array], draws: tuple[Array, ...]) -> tuple[Any, None]:
        below, density = 0.0, 0.0
        for middle, per_scale, counts in zip(*draws, strict=True):
            part, slope = tail.lower(side * (values - middle) * per_scale)
            below += counts * part
            density += per_scale * slope
        return (sums[0] + below, sums[1] + density), None

    draws = [part.reshape(-1, UNROLLED, *part.shape[1:]) for part in (mean, inverse, weight)]
    zero = jnp.zeros_like(values)
    return jnp.stack(jax.lax.scan(add, (zero, zero), tuple(draws))[0])
