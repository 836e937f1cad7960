"""Posteriors of straight lines, whose every score can be written down."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from prbnn import MLP, Gaussian
from prbnn.data.columns import Columns
from prbnn.data.scaling import ScalingKind, scaling_of
from prbnn.posterior.draws import Posterior


def lines(
    draws: Sequence[tuple[float, float]],
    rows: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    kind: ScalingKind = "none",
    dtype: type = np.float32,
) -> Posterior:
    """y = slope x + intercept in network units, one draw for each (slope, intercept)."""
    rows = np.linspace(0, 1, 21)[:, None] if rows is None else rows
    targets = rows if targets is None else targets
    scaling = scaling_of(rows, targets, kind)
    network = MLP(hidden=()).build(jax.random.key(0), 1, 1)
    return Posterior(
        network=network,
        draws=np.array(draws, dtype),
        likelihood=Gaussian(0.1),
        likelihood_parameters=np.full((1, 1), np.log(0.1), np.float32),
        scaling=scaling,
        columns=Columns(("x",), ("y",), rows, targets),
    )
