"""How surprising an observation is under the predictive distribution, and when to warn.

The warning level is a quantile of the surprise of held-out observations. Its false-alarm rate therefore
holds for new observations of the same kind, however wrong the model is (split conformal prediction).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import rankdata

from prbnn.model.truncation import Recorded
from prbnn.posterior.draws import Posterior


def surprise(posterior: Posterior, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Minus the log predictive density of each step (rows, steps), jointly over the outputs of a step.

    In nats, for outputs in the network's units. The density is the mean over draws of a normal around
    each draw's prediction with that draw's noise, divided by the probability of the window where the
    likelihood is truncated. Targets without steps count as one step.
    """
    wanted = posterior.scaling.outputs(targets)
    layout = posterior.columns.layout
    steps = 1 if layout is None or not layout.ahead else layout.ahead
    parts, start = [], 0
    for mean, noise, keep in posterior.blocks(rows):
        own = wanted[start : start + keep]
        spread = posterior.likelihood.deviation(mean[:, :keep], noise[:, :keep])
        residual = (own - mean[:, :keep]) / spread
        density = -0.5 * residual**2 - np.log(spread) - 0.5 * math.log(2 * math.pi)
        if isinstance(posterior.recorded, Recorded):
            chance = posterior.recorded.probability(mean[:, :keep], noise[:, :keep])
            density = density - np.log(np.maximum(chance, np.finfo(float).tiny))
        density = density.reshape(*density.shape[:2], steps, -1).sum(axis=-1)
        parts.append(math.log(len(mean)) - logsumexp(density, axis=0))
        start += keep
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Alarm:
    """A level of surprise above which an observation is called anomalous, from held-out observations.

    - `centre`, `spread`: median and interquartile range of each step's surprise; surprise is measured
      relative to them, so that steps which are hard to predict do not hide the others
    - `level`: the score above which `warns` is true
    - `false_alarms`: the rate that was asked for
    - `calibrated_on`: number of held-out observations
    """

    centre: np.ndarray
    spread: np.ndarray
    level: float
    false_alarms: float
    calibrated_on: int

    def steps(self, surprise: np.ndarray) -> np.ndarray:
        """Surprise of every step relative to its centre, in its spread: comparable between steps."""
        return (surprise - self.centre) / self.spread

    def score(self, surprise: np.ndarray) -> np.ndarray:
        """One number per observation: the relative surprise of its most surprising step."""
        return self.steps(surprise).max(axis=1)

    def warns(self, surprise: np.ndarray) -> np.ndarray:
        """Whether an observation's score is above the level; NaN counts as above."""
        return ~(self.score(surprise) <= self.level)


def calibrate_alarm(held_out: np.ndarray, false_alarms: float = 0.01) -> Alarm:
    """The alarm whose rate of false alarms is at most ``false_alarms``.

    ``held_out`` is the surprise (observations, steps) of observations that did not train the model.

    >>> alarm = calibrate_alarm(np.random.default_rng(0).normal(size=(999, 3)), 0.05)
    >>> float(alarm.warns(np.random.default_rng(1).normal(size=(999, 3))).mean()) < 0.08
    True
    """
    if not 0 < false_alarms < 1:
        raise ValueError(f"false_alarms must be between 0 and 1, got {false_alarms!r}")
    count = len(held_out)
    unknown = int(np.isnan(held_out).any(axis=1).sum())
    if unknown:
        raise ValueError(
            f"the surprise of {unknown} of {count} held-out observations is NaN; a warning level needs "
            "numbers: look for draws whose predictions overflow, or drop those observations"
        )
    # the k-th largest of count + 1 exchangeable scores is exceeded with probability k / (count + 1)
    exceeding = math.floor(false_alarms * (count + 1))
    if exceeding < 1:
        raise ValueError(
            f"{count} held-out observations cannot show a rate of {false_alarms:g}; at least "
            f"{math.ceil(1 / false_alarms) - 1} are needed"
        )
    low, centre, high = np.quantile(held_out, [0.25, 0.5, 0.75], axis=0)
    spread = np.maximum(high - low, 1e-9)
    scores = np.sort(((held_out - centre) / spread).max(axis=1))
    return Alarm(centre, spread, float(scores[-exceeding]), false_alarms, count)


def area_under_roc(ordinary: np.ndarray, anomalous: np.ndarray) -> float:
    """Probability that an anomalous observation scores above an ordinary one.

    >>> area_under_roc(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    1.0
    """
    ranks = rankdata(np.concatenate([ordinary, anomalous]))
    count = len(anomalous)
    above = ranks[len(ordinary) :].sum() - count * (count + 1) / 2
    return float(above / (count * len(ordinary)))
