"""All scores of one fitted model on held-out rows: error, density, spread and calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prbnn.assessment import metrics
from prbnn.assessment.calibration import Ranks, Reliability, ranks, reliability
from prbnn.posterior.draws import Posterior


@dataclass(frozen=True, eq=False)
class RegressionScores:
    """Scores of a regression model; arrays have one entry per output.

    - `rmse`, `crps`: error of the mean, and of the whole predictive distribution
    - `log_density`: mean log predictive density per row, in nats
    - `deviation`, `epistemic`: mean standard deviation of a new observation, and of the functions
    - `ranks`: where the observations fall in their predictive distributions
    """

    rmse: np.ndarray
    crps: np.ndarray
    log_density: float
    deviation: np.ndarray
    epistemic: np.ndarray
    ranks: Ranks


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Scores of a classifier.

    `reliability` is that of the one probability of two classes, or of the most probable of several.
    """

    accuracy: float
    log_loss: float
    reliability: Reliability


def regression_scores(
    posterior: Posterior, rows: np.ndarray, truth: np.ndarray
) -> RegressionScores:
    """Score the predictions at ``rows`` (rows, columns) by the observed ``truth`` (rows, outputs)."""
    prediction = posterior.predict(rows)
    samples = posterior.samples(rows)
    outputs = range(truth.shape[1])
    return RegressionScores(
        rmse=np.array([metrics.rmse(truth[:, k], prediction.mean[:, k]) for k in outputs]),
        crps=np.array([metrics.crps(truth[:, k], samples[:, :, k]) for k in outputs]),
        log_density=float(np.mean(posterior.log_density(rows, truth))),
        deviation=prediction.total.mean(axis=0),
        epistemic=prediction.epistemic.mean(axis=0),
        ranks=ranks(posterior, rows, truth),
    )


def class_scores(probability: np.ndarray, truth: np.ndarray) -> ClassScores:
    """Score probabilities (rows, classes) by ``truth``, 0 or 1 of the same shape.

    One column is the probability of the second of two classes.

    >>> class_scores(np.array([[0.9], [0.2], [0.6]]), np.array([[1], [0], [0]])).accuracy
    0.6666666666666666
    """
    if truth.shape[1] == 1:
        found = reliability(probability[:, 0], truth[:, 0])
        probability, truth = (np.hstack([1 - part, part]) for part in (probability, truth))
    else:
        probability = probability / probability.sum(axis=1, keepdims=True)
        top = np.argmax(probability, axis=1)
        rows = np.arange(len(top))
        found = reliability(probability[rows, top], truth[rows, top])
    return ClassScores(
        metrics.accuracy(truth, probability), metrics.log_loss(truth, probability), found
    )
