"""prbnn's own methods, without and with rules: the regressor as it comes, and a rectified network."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from prbnn import MLP, BayesByBackprop, Normal, PRBNNRegressor
from prbnn.errors import CollapseWarning
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn_studies.peers.breaking import of_draws
from prbnn_studies.peers.data import Rows
from prbnn_studies.peers.fitted import Fitted
from prbnn_studies.peers.predictive import Predictive

RECTIFIED = {
    "network": MLP((100,), "relu"),
    "prior": Normal(),
    "scaling": "minmax",
    "inference": BayesByBackprop(),
}


def plain(rows: Rows, steps: int | None = None) -> Fitted:
    """`PRBNNRegressor` without rules; ``steps`` None is its default."""
    return _fit(rows, (), steps)


def with_rules(rows: Rows, steps: int | None = None) -> Fitted:
    """`PRBNNRegressor` with every rule hard."""
    return _fit(rows, [rule.hard() for rule in rows.table.rules], steps)


def rectified(rows: Rows, steps: int | None = None) -> Fitted:
    """One posterior of a rectified network with independent weights, without rules."""
    return _fit(rows, (), steps, **RECTIFIED)


def pressed(rows: Rows, steps: int | None = None) -> Fitted:
    """The same with every rule hard: pressure on the posterior until few draws break them."""
    return _fit(rows, [rule.hard() for rule in rows.table.rules], steps, **RECTIFIED)


def _fit(rows: Rows, rules: Sequence[Rule], steps: int | None, **options: Any) -> Fitted:
    model = PRBNNRegressor(
        knowledge=list(rules),
        steps=steps,
        categories=rows.table.categories,
        random_state=rows.seed,
        verbose=False,
        **options,
    )
    with warnings.catch_warnings():
        # the note says the same
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", CollapseWarning)
        model.fit(rows.frame, rows.y)
    status = model.result_.status
    return Fitted(
        mixture(model.posterior_, rows.test_x),
        partial(of_draws, model.posterior_, rows.table.rules),
        "" if status == "converged" else status,
    )


def mixture(posterior: Posterior, x: np.ndarray) -> Predictive:
    """One normal per draw: the drawn function and its noise."""
    parts = [
        (mean[:, :keep, 0], posterior.likelihood.deviation(mean, noise)[:, :keep, 0])
        for mean, noise, keep in posterior.blocks(x)
    ]
    means, deviations = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    scaling = posterior.scaling
    return Predictive(
        scaling.restore(means[:, :, None])[:, :, 0], deviations * float(scaling.output_scale[0])
    )
