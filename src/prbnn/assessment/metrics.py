"""Single metrics of predictions: error, predictive density, CRPS, coverage, and those of classes.

In the user's units. The first axis of arrays of draws counts the draws: (draws, rows, outputs) or
(draws, rows).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp


def mse(truth: np.ndarray, mean: np.ndarray) -> float:
    """Mean squared error of a point prediction.

    >>> mse(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    0.5
    """
    return float(np.mean((_same(truth, mean) - mean) ** 2))


def rmse(truth: np.ndarray, mean: np.ndarray) -> float:
    """Root of the mean squared error of a point prediction."""
    return float(np.sqrt(mse(truth, mean)))


def nll(truth: np.ndarray, functions: np.ndarray, noise: np.ndarray | float) -> float:
    """Mean of -log (1/M) sum_m N(y; f_m(x), noise^2), the mixture of M draws, in nats per row.

    ``noise`` is a standard deviation, of a shape that broadcasts against ``functions``.
    """
    noise = np.broadcast_to(noise, functions.shape)
    residual = (_same(truth, functions[0]) - functions) / noise
    density = -0.5 * residual**2 - np.log(noise) - 0.5 * np.log(2 * np.pi)
    return float(-np.mean(logsumexp(density, axis=0) - np.log(len(functions))))


def epistemic_std(functions: np.ndarray) -> float:
    """Standard deviation over the draws, averaged over rows."""
    return float(np.mean(np.std(functions, axis=0)))


def crps(truth: np.ndarray, samples: np.ndarray) -> float:
    """Continuous ranked probability score, E|X - y| - E|X - X'| / 2, from draws in O(M log M).

    >>> round(crps(np.array([0.0]), np.array([[-1.0], [1.0]])), 3)
    0.5
    """
    truth = _same(truth, samples[0])
    ordered = np.sort(samples, axis=0)
    count = len(samples)
    rank = (2 * np.arange(1, count + 1) - count - 1).reshape(-1, *[1] * (samples.ndim - 1))
    spread = np.sum(rank * ordered, axis=0) / count**2
    return float(np.mean(np.mean(np.abs(samples - truth), axis=0) - spread))


def coverage(truth: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Fraction of rows whose truth lies in [lower, upper].

    >>> coverage(np.array([0.0, 5.0]), np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
    0.5
    """
    truth = _same(_same(truth, lower), upper)
    return float(np.mean((truth >= lower) & (truth <= upper)))


def accuracy(truth: np.ndarray, probability: np.ndarray) -> float:
    """Fraction of rows whose most probable class is the true one.

    ``truth`` (rows, classes) is 1 for the true class and 0 for the others.

    >>> accuracy(np.eye(2), np.array([[0.9, 0.1], [0.6, 0.4]]))
    0.5
    """
    truth = _same(truth, probability)
    return float(np.mean(np.argmax(truth, axis=1) == np.argmax(probability, axis=1)))


def log_loss(truth: np.ndarray, probability: np.ndarray) -> float:
    """Mean of minus the log of the true class's probability, in nats per row.

    ``truth`` (rows, classes) is 1 for the true class and 0 for the others.

    >>> round(log_loss(np.eye(2), np.full((2, 2), 0.5)), 3)
    0.693
    """
    chosen = np.sum(_same(truth, probability) * probability, axis=1)
    return float(-np.mean(np.log(np.maximum(chosen, np.finfo(float).tiny))))


def _same(truth: np.ndarray, like: np.ndarray) -> np.ndarray:
    """``truth`` as an array; raises where its shape would broadcast, as (n,) against (n, 1)."""
    truth = np.asarray(truth)
    if truth.shape != np.shape(like):
        raise ValueError(f"truth has shape {truth.shape}, the prediction {np.shape(like)}")
    return truth
