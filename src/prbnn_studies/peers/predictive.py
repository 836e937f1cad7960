"""Predictive distributions of every method in one form, and their scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from prbnn.assessment import metrics

# samples of a predictive distribution from which its CRPS is computed, at least
CRPS_SAMPLES = 2000
BAND = 0.9
# widths of kernels, in standard deviations of the residuals
BANDWIDTHS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
GOLDEN = 0.6180339887498949


class Predictive(NamedTuple):
    """A mixture of normals of equal weights per row: ``means`` (components, rows).

    ``deviations`` broadcast against the means. A network's draws with their noise, a single normal and
    a kernel density of residuals are all of this form.
    """

    means: np.ndarray
    deviations: np.ndarray

    def distribution(self, y: np.ndarray) -> np.ndarray:
        """P(Y <= y), one number per row."""
        return np.mean(ndtr((y - self.means) / self.deviations), axis=0)

    def samples(self) -> np.ndarray:
        """Samples (samples, rows), spread evenly instead of drawn.

        Components in turn, each at the next level of a golden-ratio sequence, so that both are covered.
        """
        components = len(self.means)
        count = components * max(1, -(-CRPS_SAMPLES // components))
        levels = np.modf(0.5 / count + np.arange(count) * GOLDEN)[0]
        own = np.tile(np.arange(components), count // components)
        deviations = np.broadcast_to(self.deviations, self.means.shape)
        inside = np.clip(levels, 1e-9, 1 - 1e-9)
        return self.means[own] + deviations[own] * ndtri(inside)[:, None]


class Scores(NamedTuple):
    """Scores on test rows, in the target's units and nats per row."""

    crps: float
    nll: float
    rmse: float
    coverage: float


def scores(predictive: Predictive, y: np.ndarray) -> Scores:
    """CRPS from samples; NLL, RMSE of the mean and coverage of the 90 % band in closed form."""
    level = predictive.distribution(y)
    tail = (1 - BAND) / 2
    return Scores(
        metrics.crps(y, predictive.samples()),
        metrics.nll(y, predictive.means, predictive.deviations),
        metrics.rmse(y, predictive.means.mean(axis=0)),
        float(np.mean((level >= tail) & (level <= 1 - tail))),
    )


def around(prediction: np.ndarray, residuals: np.ndarray) -> Predictive:
    """A kernel density of the centred ``residuals`` around each prediction: the same band everywhere.

    Residuals r are shrunk to sqrt(1 - b^2) r and smoothed by normals of b times their standard
    deviation, which keeps the variance; b = 1 is a normal. Of `BANDWIDTHS`, b is the one under which
    residuals are most probable, each under the density of the others.
    """
    centred = residuals - residuals.mean()
    # a perfect fit of the held-out rows still has a density
    sd = max(float(centred.std()), 1e-6 * float(np.ptp(prediction) or 1.0))
    best = max(BANDWIDTHS, key=lambda bandwidth: _left_out(centred / sd, bandwidth))
    shrunk = np.sqrt(1 - best**2) * centred
    return Predictive(prediction + shrunk[:, None], np.array([[best * sd]]))


def _left_out(scaled: np.ndarray, bandwidth: float) -> float:
    """Mean log density of each residual under the kernels of the others, less a constant."""
    apart = (scaled[:, None] - np.sqrt(1 - bandwidth**2) * scaled) / bandwidth
    logs = -0.5 * apart**2 - np.log(bandwidth)
    np.fill_diagonal(logs, -np.inf)
    return float(np.mean(logsumexp(logs, axis=1)))
