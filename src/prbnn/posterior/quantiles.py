"""Quantiles of a new observation: of the mixture of the distributions that the draws predict.

The distribution function is computed at a few values per row, where quantiles are expected; each level is
then searched for between two of them (`inverting.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from prbnn.model.truncation import Recorded
from prbnn.posterior.inverting import continuous_values, whole_values
from prbnn.posterior.mixtures import AnyMixture, SymmetricMixture

# values per row at which the search begins, for few levels and for many
FEWEST_NODES, MOST_NODES = 4, 44
# observations by which these are placed, and the scores between which so many can place them
PLACING = 256
PLACED = 2.4
GOLDEN = (5**0.5 - 1) / 2
# network units below which a standard deviation counts as this; and relative to a mixture's
TINY, NARROWEST = 1e-300, 1e-30


def mixture_quantiles(
    likelihood: Any, mean: np.ndarray, scale: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Quantiles (levels, rows, outputs) of the mixture of all draws, by its distribution function.

    ``likelihood`` is one, or what is `recorded` of one; ``mean`` and ``scale`` are (draws, rows,
    outputs), in network units. Continuous ones are found to 1e-5 of the mixture's standard deviation,
    counts exactly.
    """
    if mean.shape[1] == 1:
        # as the row would be computed beside others, to the last bit
        mean, scale = (np.repeat(part, 2, axis=1) for part in (mean, scale))
        return mixture_quantiles(likelihood, mean, scale, levels)[:, :1]
    tail = likelihood.standard_tail() if hasattr(likelihood, "standard_tail") else None
    low, high = _bracket(likelihood, mean, scale, levels)
    spread = likelihood.deviation(mean, scale)
    if not likelihood.scales_targets:
        low, high = np.floor(low) - 1, np.ceil(high)
        nodes = np.round(_nodes(mean, spread, levels, low, high))
        return whole_values(AnyMixture(likelihood, mean, scale), levels, nodes)
    nodes = _nodes(mean, spread, levels, low, high)
    unit = np.sqrt(np.var(mean, axis=0) + np.mean(spread**2, axis=0)) + TINY
    if tail is None:
        found = continuous_values(AnyMixture(likelihood, mean, scale), levels, nodes, unit)
    else:
        # the middle of the draws is 0, since float32 is finest around it
        middle = np.median(mean, axis=0)
        mixture = SymmetricMixture(
            tail,
            _flat((mean - middle) / unit),
            _flat(np.maximum(scale / unit, NARROWEST)),
        )
        scaled = _flat((nodes - middle) / unit)
        found = continuous_values(mixture, levels, scaled, np.ones(scaled.shape[1]))
        found = middle + unit * found.reshape(len(levels), *unit.shape)
    order = np.argsort(levels)
    found[order] = np.maximum.accumulate(found[order], axis=0)
    return found


def _flat(table: np.ndarray) -> np.ndarray:
    """Rows and outputs as one axis: given the draw, outputs are independent."""
    return table.reshape(len(table), -1)


def _bracket(
    likelihood: Any, mean: np.ndarray, scale: np.ndarray, levels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values (rows, outputs) that enclose the quantiles of all ``levels``."""
    ends = levels.min(), levels.max()
    if isinstance(likelihood, Recorded):
        return likelihood.bracket(*ends, mean, scale)
    if hasattr(likelihood, "symmetric_quantile"):
        # a mixture's quantile lies between those of its parts
        low, high = (likelihood.symmetric_quantile(end, mean, scale) for end in ends)
        return low.min(axis=0), high.max(axis=0)
    # no distribution has more than 1/k^2 beyond k standard deviations (Chebyshev)
    reach = max(9.0, min(ends[0], 1 - ends[1]) ** -0.5) * likelihood.deviation(mean, scale)
    return np.min(mean - reach, axis=0), np.max(mean + reach, axis=0)


def _nodes(
    mean: np.ndarray, spread: np.ndarray, levels: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Values (nodes, rows, outputs) from ``low`` to ``high``, near the quantiles of the levels.

    They are quantiles of a few hundred observations, spread over the draws as evenly as can be; where
    they are wrong, the search takes longer.
    """
    number = np.arange(PLACING)
    draws = number * len(mean) // PLACING
    scores = ndtri((number * GOLDEN + 0.5) % 1)[:, None, None]
    observed = np.sort(mean[draws] + scores * spread[draws], axis=0)
    first, last = np.clip(ndtri([levels.min(), levels.max()]), -PLACED, PLACED)
    count = int(np.clip(len(levels), FEWEST_NODES, MOST_NODES))
    place = np.clip(ndtr(np.linspace(first, last, count)) * PLACING - 0.5, 0, PLACING - 1)
    left = np.minimum(place.astype(int), PLACING - 2)
    part = (place - left)[:, None, None]
    inner = np.clip((1 - part) * observed[left] + part * observed[left + 1], low, high)
    tails = (low + inner[0]) / 2, (high + inner[-1]) / 2
    return np.stack([low, tails[0], *inner, tails[1], high])
