"""Whether predictive distributions are calibrated: ranks, coverage, reliability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, chi2

from prbnn.posterior.draws import Posterior

LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where observations fall in their predictive distributions, (rows, outputs).

    For an observation y, `below` is P(new < y) and `at_most` is P(new <= y); they differ only for
    counts.

    >>> ranks = Ranks(np.array([[0.5], [0.97]]), np.array([[0.5], [0.97]]))
    >>> ranks.coverage(0.9)
    array([0.5])
    """

    below: np.ndarray
    at_most: np.ndarray

    def inside(self, level: float) -> np.ndarray:
        """(rows, outputs): whether the central interval of a ``level`` holds the observation."""
        return (self.at_most >= (1 - level) / 2) & (self.below <= (1 + level) / 2)

    def coverage(self, level: float) -> np.ndarray:
        """Fraction of rows inside the central interval, for each output."""
        return np.mean(self.inside(level), axis=0)

    @property
    def transform(self) -> np.ndarray:
        """The probability integral transform: uniform on [0, 1] where predictions are calibrated."""
        return (self.below + self.at_most) / 2


def ranks(posterior: Posterior, rows: np.ndarray, targets: np.ndarray) -> Ranks:
    """Ranks of observed ``targets`` (rows, outputs) in the mixture of all draws' predictions."""
    wanted = posterior.scaling.outputs(targets)
    parts, start = [], 0
    for mean, noise, keep in posterior.blocks(rows):
        value = wanted[start : start + keep]
        parts.append(
            [
                posterior.recorded.distribution(each, mean[:, :keep], noise[:, :keep]).mean(0)
                for each in (np.nextafter(value, -np.inf), value)
            ]
        )
        start += keep
    below, at_most = np.concatenate(parts, axis=1)
    return Ranks(below, at_most)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predicted probabilities and observed frequencies, one entry per bin that is not empty."""

    predicted: np.ndarray
    observed: np.ndarray
    count: np.ndarray

    @property
    def error(self) -> float:
        """Expected calibration error: the mean gap, weighted by the number of rows in a bin."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.count))

    @property
    def chance(self) -> float:
        """Probability of gaps this large if the predictions are right (chi-square)."""
        variance = np.maximum(self.predicted * (1 - self.predicted), 1e-6) / self.count
        return float(
            chi2.sf(np.sum((self.observed - self.predicted) ** 2 / variance), len(self.count))
        )


def reliability(probability: np.ndarray, happened: np.ndarray, bins: int = 10) -> Reliability:
    """Compare ``probability`` (rows,) with whether each event ``happened``, in bins of equal width.

    >>> found = reliability(np.array([0.1, 0.1, 0.9]), np.array([0, 1, 1]))
    >>> found.observed.tolist(), found.count.tolist()
    ([0.5, 1.0], [2, 1])
    """
    place = np.minimum((probability * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    kept = count > 0
    predicted, observed = (
        np.bincount(place, weights=values, minlength=bins)[kept] / count[kept]
        for values in (probability, happened)
    )
    return Reliability(predicted, observed, count[kept])


def expected_range(probability: float, rows: int, confidence: float = 0.95) -> tuple[float, float]:
    """Ends of the range in which the observed fraction of an event lies by chance alone.

    The event has the given ``probability`` in each of ``rows`` independent rows; the range is central and
    has probability ``confidence`` at least.

    >>> expected_range(0.9, 100)
    (0.84, 0.95)
    """
    low, high = binom.interval(confidence, rows, probability)
    return float(low) / rows, float(high) / rows
