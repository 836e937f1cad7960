"""Quantiles of mixtures, against root finding and summation in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import bdtr, nbdtr
from tests.compiling import compilations

from prbnn import Bernoulli, Categorical, Gaussian, Poisson, StudentT
from prbnn.model.likelihoods import Likelihood
from prbnn.model.truncation import Recorded
from prbnn.posterior.quantiles import mixture_quantiles

LEVELS = np.array([0.001, 0.01, 0.25, 0.5, 0.7, 0.95, 0.999])
MANY = np.r_[0.001, np.arange(1, 100) / 100, 0.999]
# in standard deviations of the mixture; and of the probability, where the function is flat
CLOSE, FLAT = 1e-5, 2e-6
ROWS = 2

# --- continuous --------------------------------------------------------------------------------

GENERATOR = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return GENERATOR.normal(size=shape)


def scales(low: float, high: float, draws: int) -> np.ndarray:
    """From 10^low to 10^high, another one per draw and row."""
    return 10 ** GENERATOR.uniform(low, high, size=(draws, ROWS, 1))


MIXTURES = {
    "1 draw": (normal(1, ROWS, 1), np.full((1, ROWS, 1), 0.4)),
    "equal draws": (np.full((50, ROWS, 1), 5.0), np.full((50, ROWS, 1), 1e-6)),
    "several tiles of draws": (10 + normal(300, ROWS, 1), np.full((300, ROWS, 1), 0.3)),
    "two modes": (
        np.sign(normal(101, ROWS, 1)) + 0.01 * normal(101, ROWS, 1),
        np.full((101, ROWS, 1), 0.02),
    ),
    "two far modes": (
        np.array([-1.0, 1.0])[:, None, None] * np.ones((2, ROWS, 1)),
        np.full((2, ROWS, 1), 1e-3),
    ),
    "few wide draws": (3 * normal(9, ROWS, 1), scales(-2, 0, 9)),
    "tiny noise": (normal(200, ROWS, 1), np.full((200, ROWS, 1), 1e-6)),
    "noise of every size": (normal(60, ROWS, 1), scales(-6, 3, 60)),
    "one draw in doubt": (
        1e-3 * normal(200, ROWS, 1),
        np.where(np.arange(200) == 3, 1e3, 1e-3)[:, None, None] * np.ones((1, ROWS, 1)),
    ),
}
CONTINUOUS = {
    "Gaussian": Gaussian(),
    "StudentT": StudentT(freedom=4),
    "StudentT of 300": StudentT(freedom=300),
    "Gaussian above 0": Recorded(Gaussian(), np.array([[0.0], [np.inf]])),
    "StudentT between": Recorded(StudentT(), np.array([[-0.5], [0.7]])),
}


def excess(likelihood: Any, value: float, mean: np.ndarray, scale: np.ndarray, level: float):
    """Probability below ``value`` less the level, from the tail that is smaller."""
    if level > 0.5 and not isinstance(likelihood, Recorded):
        return (1 - level) - np.mean(likelihood.survival(value, mean, scale))
    return np.mean(likelihood.distribution(np.array([value]), mean, scale)) - level


def assert_quantiles(
    likelihood: Any, mean: np.ndarray, scale: np.ndarray, levels: np.ndarray, found: np.ndarray
) -> None:
    """Each is where brentq finds it, or the distribution function is at the level there as well."""
    spread = likelihood.deviation(mean, scale)
    unit = np.sqrt(mean.var(axis=0) + np.mean(spread**2, axis=0))
    ends = np.array([mean.min() - 100 * spread.max() - 1, mean.max() + 100 * spread.max() + 1])
    if isinstance(likelihood, Recorded):
        window = likelihood.window[:, 0]
        ends = np.where(np.isfinite(window), window, ends)
    for row in range(mean.shape[1]):
        parts = mean[:, row], scale[:, row]
        for level, value in zip(levels, found[:, row, 0], strict=True):
            wanted = brentq(
                lambda x, level=level, parts=parts: excess(likelihood, x, *parts, level),
                *ends,
                xtol=1e-13,
                rtol=1e-14,
            )
            near = abs(value - wanted) < CLOSE * unit[row, 0]
            at = abs(excess(likelihood, value, *parts, level)) < FLAT * min(level, 1 - level)
            assert near or at, (row, level, value, wanted)


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("likelihood", CONTINUOUS.values(), ids=CONTINUOUS)
def test_a_quantile_solves_the_distribution_of_the_mixture(likelihood, mixture) -> None:
    mean, scale = mixture
    found = mixture_quantiles(likelihood, mean, scale, LEVELS)
    assert_quantiles(likelihood, mean, scale, LEVELS, found)
    assert np.all(np.diff(found, axis=0) >= 0)


@pytest.mark.parametrize("name", ["Gaussian", "StudentT", "Gaussian above 0"])
@pytest.mark.parametrize("mixture", ["1 draw", "several tiles of draws", "tiny noise"])
def test_many_levels_rise_and_are_right(name: str, mixture: str) -> None:
    """101 levels are several tiles of values; of 200 draws some levels fall between two draws."""
    likelihood, (mean, scale) = CONTINUOUS[name], MIXTURES[mixture]
    found = mixture_quantiles(likelihood, mean, scale, MANY)
    assert np.all(np.diff(found, axis=0) >= 0)
    assert_quantiles(likelihood, mean, scale, MANY, found)


def test_single_draws_below_their_window_have_the_quantiles_of_its_inverse() -> None:
    """What a window leaves of a tail is no straight line in normal scores; here it has an inverse."""
    mean = np.linspace(-6, 3, 37)[None, :, None]
    scale = np.ones_like(mean)
    likelihood = Recorded(Gaussian(), np.array([[0.0], [np.inf]]))
    found = mixture_quantiles(likelihood, mean, scale, MANY)
    wanted = [likelihood.quantile(np.full((37, 1), p), mean[0], scale[0]) for p in MANY]
    assert found == pytest.approx(np.array(wanted), rel=0, abs=4e-6)


def test_levels_may_come_in_any_order() -> None:
    mean, scale = MIXTURES["few wide draws"]
    order = np.array([3, 0, 6, 1, 5, 2, 4])
    found = mixture_quantiles(Gaussian(), mean, scale, LEVELS[order])
    together = mixture_quantiles(Gaussian(), mean, scale, LEVELS)
    assert np.array_equal(found, together[order])


def test_rows_and_outputs_do_not_see_each_other() -> None:
    """One row, one output at a time gives the same bits as all at once; 300 rows are two tiles."""
    mean, scale = normal(20, 150, 2), np.exp(normal(20, 150, 2))
    for likelihood in (Gaussian(), StudentT(freedom=300)):
        whole = mixture_quantiles(likelihood, mean, scale, LEVELS)
        for row, output in ((0, 0), (70, 1), (149, 1)):
            one = np.s_[:, row : row + 1, output : output + 1]
            found = mixture_quantiles(likelihood, mean[one], scale[one], LEVELS)
            assert np.array_equal(found, whole[one])


def test_units_scale_quantiles() -> None:
    """A table in other units, far from 0, has the same quantiles in them."""
    mean, scale = MIXTURES["few wide draws"]
    found = mixture_quantiles(Gaussian(), mean, scale, LEVELS)
    moved = mixture_quantiles(Gaussian(), 1e6 + 1e-3 * mean, 1e-3 * scale, LEVELS)
    assert (moved - 1e6) * 1e3 == pytest.approx(found, abs=1e-5)


def test_other_numbers_of_draws_rows_and_levels_compile_nothing() -> None:
    mixture_quantiles(Gaussian(), *MIXTURES["few wide draws"], LEVELS)
    with compilations() as names:
        mixture_quantiles(Gaussian(0.3), *MIXTURES["tiny noise"], MANY)
    assert names == []


# --- counts and classes ------------------------------------------------------------------------


@dataclass(frozen=True)
class Trials(Poisson):
    """A likelihood of a user's own: successes among 12 trials, of mean ``response``."""

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.sqrt(response * (1 - response / 12))

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        inside = bdtr(np.clip(np.floor(value), 0, 12), 12, response / 12)
        return np.where(value < 0, 0.0, inside)


@dataclass(frozen=True)
class Dispersed(Poisson):
    """A negative binomial that counts up to the third failure, of mean ``response``."""

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.sqrt(response + response**2 / 3)

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.where(value < 0, 0.0, nbdtr(np.maximum(value, 0), 3, 3 / (3 + response)))


def by_summation(likelihood: Any, mean: np.ndarray, levels: np.ndarray, top: int) -> np.ndarray:
    """The smallest count whose distribution function reaches the level, among all up to ``top``."""
    found = np.array([likelihood.distribution(k, mean, mean).mean(axis=0) for k in range(top + 1)])
    assert np.all(found[-1] >= levels.max())
    return np.array([np.argmax(found >= level, axis=0) for level in levels], float)


HIGHEST = 1000
RATES = {
    "nearly 0": np.full((4, 3, 1), 1e-9),
    "1 draw": np.exp(normal(1, 3, 1)),
    "small": np.exp(2 * normal(30, 3, 1) - 4),
    "middle": np.exp(normal(40, 3, 1)),
    "two modes": np.where(normal(40, 3, 1) > 0, 120.0, 2.0),
    "large": 150 + 10 * normal(20, 3, 1),
}
COUNTS = {
    "Poisson": Poisson(),
    "Poisson from 1": Recorded(Poisson(), np.array([[1.0], [np.inf]])),
    "Poisson from 2 to 9": Recorded(Poisson(), np.array([[2.0], [9.0]])),
    "negative binomial": Dispersed(),
}


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES)
@pytest.mark.parametrize("likelihood", COUNTS.values(), ids=COUNTS)
def test_counts_are_exactly_those_of_summation(likelihood, rates) -> None:
    wanted = by_summation(likelihood, rates, MANY, HIGHEST)
    assert np.array_equal(mixture_quantiles(likelihood, rates, rates, MANY), wanted)
    for place in (0, 50, 100):
        alone = mixture_quantiles(likelihood, rates, rates, MANY[[place]])
        assert np.array_equal(alone, wanted[[place]])


def test_counts_of_rate_0_are_0() -> None:
    assert not mixture_quantiles(Poisson(), np.zeros((4, 3, 1)), np.zeros((4, 3, 1)), MANY).any()


def test_counts_of_a_window_per_output() -> None:
    rates = np.exp(normal(30, 4, 2))
    likelihood = Recorded(Poisson(), np.array([[0.0, 2.0], [3.0, np.inf]]))
    found = mixture_quantiles(likelihood, rates, rates, MANY)
    assert np.array_equal(found, by_summation(likelihood, rates, MANY, 200))


def test_numbers_of_successes_are_those_of_summation() -> None:
    means = 12 * GENERATOR.uniform(size=(25, 5, 1))
    means[:, 0] = 12.0
    found = mixture_quantiles(Trials(), means, means, MANY)
    assert np.array_equal(found, by_summation(Trials(), means, MANY, 12))


@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical()], ids=["one", "several"])
def test_classes_are_0_up_to_their_chance(likelihood: Likelihood) -> None:
    chances = np.array([0.0, 0.3, 0.5, 0.999, 1.0])[None, :, None] * np.ones((4, 1, 2))
    levels = np.array([0.001, 0.3, 0.5, 0.7, 0.999])
    found = mixture_quantiles(likelihood, chances, chances, levels)
    assert np.array_equal(found, np.where(levels[:, None, None] > 1 - chances[:1], 1.0, 0.0))
