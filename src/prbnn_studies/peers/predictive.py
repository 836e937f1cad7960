"""Predictive distributions of every method in one form, and their scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from prbnn.assessment import metrics

# samples of a predictive distribution from which its CRPS is computed, at least
CRPS_SAMPLES = 2000
BAND = 0.9
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
    """The kernel density of ``residuals``, centred, around each prediction.

    Bandwidth 0.9 min(sd, IQR / 1.34) n^(-1/5) (Silverman): the same band everywhere.
    """
    centred = residuals - residuals.mean()
    sd = centred.std()
    quarters = np.subtract(*np.quantile(centred, [0.75, 0.25])) / 1.34
    narrow = min(sd, quarters) if quarters > 0 else sd
    # a perfect fit of the held-out rows has no bandwidth
    width = max(0.9 * narrow * len(centred) ** -0.2, 1e-6 * (np.ptp(prediction) or 1.0))
    return Predictive(prediction + centred[:, None], np.array([[width]]))
