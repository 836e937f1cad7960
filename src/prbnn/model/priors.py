"""Priors over weights: independent normals, the same for all or scaled layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np


@runtime_checkable
class Prior(Protocol):
    """Mean and standard deviation of every weight."""

    def moments(self, network: Any) -> tuple[np.ndarray, np.ndarray]:
        """Two vectors in the order of `prbnn.model.weights.flatten`."""
        ...


def _leaves(network: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(network) if eqx.is_inexact_array(leaf)]


def _check_sd(prior: Any) -> None:
    if not prior.sd > 0:
        raise ValueError(f"{type(prior).__name__}: sd must be above 0, got {prior.sd!r}")


@dataclass(frozen=True)
class Normal:
    """N(mean, sd^2) on every weight.

    >>> Normal()
    Normal(mean=0.0, sd=1.0)
    """

    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self) -> None:
        _check_sd(self)

    def moments(self, network: Any) -> tuple[np.ndarray, np.ndarray]:
        count = sum(leaf.size for leaf in _leaves(network))
        return np.full(count, self.mean), np.full(count, self.sd)


@dataclass(frozen=True)
class LayerNormal:
    """N(0, sd^2 / fan-in) on matrices and N(0, sd^2) on the rest, so that depth and width keep scale.

    >>> LayerNormal(sd=2.0)
    LayerNormal(sd=2.0)
    """

    sd: float = 1.0

    def __post_init__(self) -> None:
        _check_sd(self)

    def moments(self, network: Any) -> tuple[np.ndarray, np.ndarray]:
        sds = [
            np.full(leaf.size, self.sd / math.sqrt(leaf.shape[-1]) if leaf.ndim > 1 else self.sd)
            for leaf in _leaves(network)
        ]
        sd = np.concatenate(sds) if sds else np.zeros(0)
        return np.zeros_like(sd), sd
