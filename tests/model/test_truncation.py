"""What is recorded of a truncated likelihood, against scipy; and windows that are refused."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from prbnn import MLP, Gaussian, Poisson, StudentT, fit
from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.errors import DataError
from prbnn.model.likelihoods import Likelihood
from prbnn.model.truncation import Recorded, window_of
from prbnn.posterior.draws import Posterior

SHIFT, UNIT = 3.0, 2.0


def posterior_of(likelihood: Likelihood, means: list[float], own: float) -> Posterior:
    """Constant functions, at ``means`` in the user's units, of a target that was shifted and scaled."""
    one = np.ones(1)
    shift, unit = (SHIFT, UNIT) if likelihood.scales_targets else (0.0, 1.0)
    scaling = Scaling(0 * one, one, shift * one, unit * one, one, one)
    network = MLP(()).build(jax.random.key(0), 1, 1)
    columns = Columns(("x",), ("y",), np.zeros((2, 1)), np.zeros((2, 1)))
    height = (np.array(means) - shift) / unit if likelihood.scales_targets else np.zeros(len(means))
    flat = np.column_stack([np.zeros(len(means)), height]).astype(np.float32)
    found = Posterior(network, flat, likelihood, np.array([own]), scaling, columns)
    assert np.allclose(found.functions(np.zeros((1, 1)))[:, 0, 0], means, atol=1e-4)
    return found


LEVELS = (0.01, 0.3, 0.5, 0.95)
NOISE = 1.5
LAWS = {
    "near": (1.0, (0, None)),
    "far below": (-20.0, (0, None)),
    "far above": (30.0, (None, 2)),
    "both ends": (0.4, (-0.5, 0.8)),
}


@pytest.mark.parametrize(("mean", "window"), LAWS.values(), ids=LAWS)
def test_a_new_observation_is_a_recorded_one(mean: float, window: tuple) -> None:
    likelihood = Gaussian(NOISE, truncated=window)
    posterior = posterior_of(likelihood, [mean], np.log(NOISE / UNIT))
    low, high = window_of(likelihood, 1)[:, 0]
    law = stats.truncnorm((low - mean) / NOISE, (high - mean) / NOISE, mean, NOISE)
    x = np.zeros((1, 1))
    assert posterior.quantiles(x, LEVELS)[:, 0, 0] == pytest.approx(
        law.ppf(LEVELS), abs=1e-4 * law.std()
    )
    many = posterior.take(np.zeros(4000, int))
    drawn = many.samples(x)[:, 0, 0]
    assert low <= drawn.min() and drawn.max() <= high
    assert drawn.mean() == pytest.approx(law.mean(), abs=5 * law.std() / len(drawn) ** 0.5)
    assert drawn.std() == pytest.approx(law.std(), rel=0.08)
    inside = law.ppf([0.2, 0.7])[:, None]
    found = posterior.log_density(np.zeros((2, 1)), inside)
    assert found == pytest.approx(law.logpdf(inside[:, 0]), rel=1e-3)
    # the function itself is the mean before anything was left out
    assert posterior.predict(x).mean == pytest.approx(mean, abs=1e-4)


def test_the_density_is_one_over_the_window_and_nothing_outside() -> None:
    posterior = posterior_of(Gaussian(NOISE, truncated=(0, 2)), [-1.0, 3.0], np.log(NOISE / UNIT))

    def density(y: float) -> float:
        return float(np.exp(posterior.log_density(np.zeros((1, 1)), np.array([[y]])))[0])

    assert quad(density, 0, 2, epsabs=1e-5)[0] == pytest.approx(1, abs=1e-4)
    assert density(-0.01) == density(2.01) == 0


def test_an_interval_has_its_probability() -> None:
    posterior = posterior_of(Gaussian(NOISE, truncated=(0, 5)), [1.0], np.log(NOISE / UNIT))
    law = stats.truncnorm(-1 / NOISE, 4 / NOISE, 1.0, NOISE)
    low = np.array([[1.0], [-np.inf], [3.0], [2.0]])
    high = np.array([[2.0], [0.5], [np.inf], [2.0]])
    found = posterior.log_density(np.zeros((4, 1)), low, high)
    wanted = [*np.log(law.cdf(high[:3, 0]) - law.cdf(low[:3, 0])), law.logpdf(2.0)]
    assert found == pytest.approx(wanted, rel=1e-4)


def test_counts_are_recorded_with_both_ends() -> None:
    rate = 1.3
    posterior = posterior_of(Poisson(truncated=(1, 4)), [rate], np.log(rate))
    counts = np.arange(1, 5)
    chances = stats.poisson.pmf(counts, rate)
    chances /= chances.sum()
    found = posterior.log_density(np.zeros((4, 1)), counts[:, None])
    assert found == pytest.approx(np.log(chances), abs=1e-5)
    drawn = posterior.take(np.zeros(4000, int)).samples(np.zeros((1, 1)))[:, 0, 0]
    assert np.bincount(drawn.astype(int), minlength=6)[1:5] / 4000 == pytest.approx(
        chances, abs=0.04
    )
    edges = np.cumsum(chances)
    levels = [edges[0] - 0.01, edges[0] + 0.01, edges[1] + 0.01, 0.999]
    assert posterior.quantiles(np.zeros((1, 1)), levels)[:, 0, 0].tolist() == [1, 2, 3, 4]


def test_heavy_tails_far_from_their_window() -> None:
    law = stats.t(3)
    found = Recorded(StudentT(1.0, 3), np.array([[1e3], [np.inf]]))
    beyond = law.isf(law.sf(1e3) * np.array([0.9, 0.5, 0.01]))
    zero, one = np.zeros((3, 1)), np.ones((3, 1))
    wanted = np.array([[0.1], [0.5], [0.99]])
    assert found.quantile(wanted, zero, one)[:, 0] == pytest.approx(beyond, rel=1e-3)


BAD = {
    "words": ("above 0", "truncated is .low, high."),
    "empty": ((None, None), "leaves nothing out"),
    "turned": ((2, 1), "lower end .* below the upper"),
    "nan": ((float("nan"), 1), "truncated is .low, high."),
}


@pytest.mark.parametrize(("window", "words"), BAD.values(), ids=BAD)
def test_windows_that_are_none_are_refused(window, words: str) -> None:
    for kind in (Gaussian, StudentT, Poisson):
        with pytest.raises(ValueError, match=words):
            kind(truncated=window)


def test_windows_by_output() -> None:
    stated = Gaussian(truncated=[(0, None), None, (None, 5)])
    assert stated == Gaussian(truncated=((0.0, None), None, (None, 5.0)))
    assert hash(stated)
    inf = np.inf
    assert np.array_equal(window_of(stated, 3), [[0, -inf, -inf], [inf, inf, 5]])
    with pytest.raises(ValueError, match="3 windows and there are 2 outputs"):
        window_of(stated, 2)
    with pytest.raises(ValueError, match="whole numbers"):
        Poisson(truncated=(0.5, None))


def test_rows_outside_the_window_are_named() -> None:
    with pytest.raises(DataError, match=r"row 2 \(from 0\) of 'y' is -1, outside \(0.0, inf\)"):
        fit(MLP(()), [[0.0], [1.0], [2.0]], [1, 2, -1], likelihood=Gaussian(truncated=(0, None)))
