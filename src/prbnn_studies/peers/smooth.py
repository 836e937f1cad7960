"""Peers without monotone columns: a Gaussian process, and an ensemble of networks."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

from prbnn_studies.peers import knowledge
from prbnn_studies.peers.boosting import folds
from prbnn_studies.peers.breaking import of_functions
from prbnn_studies.peers.data import Rows
from prbnn_studies.peers.fitted import Fitted
from prbnn_studies.peers.predictive import Predictive

# the kernel's parameters are chosen on this many rows at most; all rows are then conditioned on
KERNEL_ROWS = 500
MEMBERS = 5
WIDTH = 50
DECAYS = (1e-2, 1e-1, 1.0, 10.0)
# between members, no more than this fraction of the held-out variance is taken off the noise
MOST_SPREAD = 0.9


def gaussian_process(rows: Rows) -> Fitted:
    """scikit-learn's Gaussian process: one length scale per input and noise, by marginal likelihood."""
    columns, rules = rows.training, rows.table.rules
    low, high = knowledge.limits(rules, columns)
    scaler = StandardScaler().fit(rows.x)
    x = scaler.transform(rows.x)
    inputs = x.shape[1]
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.ones(inputs), (1e-2, 1e4)) + WhiteKernel(
        0.1, (1e-7, 1e1)
    )
    options: dict[str, Any] = {"normalize_y": True, "random_state": rows.seed}
    with warnings.catch_warnings():
        # inputs that say nothing end at the upper bound of their length scale
        warnings.simplefilter("ignore", ConvergenceWarning)
        chosen = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, **options)
        chosen.fit(x[:KERNEL_ROWS], rows.y[:KERNEL_ROWS])
        model = chosen
        if len(x) > KERNEL_ROWS:
            model = GaussianProcessRegressor(chosen.kernel_, optimizer=None, **options)
            model.fit(x, rows.y)
    means, deviations = model.predict(scaler.transform(rows.test_x), return_std=True)

    def predict(x: np.ndarray) -> np.ndarray:
        return np.clip(model.predict(scaler.transform(x)), low, high)

    return Fitted(
        Predictive(np.clip(means, low, high)[None], np.maximum(deviations, 1e-12)[None]),
        partial(of_functions, [predict], rules, columns),
    )


def ensemble(rows: Rows) -> Fitted:
    """Five networks from different starts, with noise from cross-fitted residuals.

    The weight decay is the one that is best for held-out rows of five folds. The noise's variance is
    the held-out squared error less the variance between members, which the mixture has already.
    """
    columns, rules = rows.training, rows.table.rules
    low, high = knowledge.limits(rules, columns)
    held_out = np.zeros((len(DECAYS), len(rows.y)))
    for train, held in folds(len(rows.y), rows.seed):
        for place, decay in enumerate(DECAYS):
            member = _network(rows.x[train], rows.y[train], decay, rows.seed)
            held_out[place, held] = np.clip(member(rows.x[held]), low, high)
    errors = np.mean((held_out - rows.y) ** 2, axis=1)
    best = int(np.argmin(errors))
    networks = [
        _network(rows.x, rows.y, DECAYS[best], MEMBERS * rows.seed + number)
        for number in range(MEMBERS)
    ]
    members = [lambda x, own=own: np.clip(own(x), low, high) for own in networks]
    means = np.stack([member(rows.test_x) for member in members])
    spread = float(np.mean(np.var(means, axis=0)))
    noise = np.sqrt(errors[best] - min(spread, MOST_SPREAD * errors[best]))
    return Fitted(
        Predictive(means, np.array([[max(noise, 1e-12)]])),
        partial(of_functions, members, rules, columns),
    )


def _network(x: np.ndarray, y: np.ndarray, decay: float, seed: int) -> Any:
    """A function of rows: one hidden layer of 50 units, fitted to standardised data."""
    scaler, centre, scale = StandardScaler().fit(x), y.mean(), y.std() or 1.0
    model = MLPRegressor(
        hidden_layer_sizes=(WIDTH,), solver="lbfgs", alpha=decay, max_iter=200, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.transform(x), (y - centre) / scale)
    return lambda rows: centre + scale * model.predict(scaler.transform(rows))
