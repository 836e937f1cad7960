"""The same exact answers at other budgets, chains and temperings; and no false "converged"."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    SVGD,
    AtLeast,
    BayesByBackprop,
    Gaussian,
    NoisePrior,
    Normal,
    fit,
)
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine
from tests.marks import quick
from tests.truths.problems import LINE_NOISE, LINE_X, LINE_Y, constant

HEIGHT, PLACE = 2.2, 2.0


def tempered_line(tempering: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of (intercept, slope), and the dual that lifts the line to HEIGHT at PLACE."""
    design = np.column_stack([np.ones(5), LINE_X])
    precision = LINE_NOISE**2 * tempering
    covariance = np.linalg.inv(design.T @ design / precision + np.eye(2))
    mean = covariance @ (design.T @ LINE_Y / precision)
    across = np.array([1.0, PLACE])
    spread = across @ covariance @ across
    return mean, covariance, (HEIGHT - across @ mean) * tempering / spread


def lifted(engine: Engine, tempering: float, steps: int | None = None, seed: int = 0) -> Solution:
    rule = AtLeast(HEIGHT, where={"x": (PLACE, PLACE)}, name="high").on_average(0)
    return fit(
        MLP(hidden=()),
        LINE_X,
        LINE_Y,
        [rule],
        inference=engine,
        likelihood=Gaussian(LINE_NOISE),
        tempering=tempering,
        steps=steps,
        seed=seed,
    )


@pytest.mark.parametrize("tempering", quick([1.0, 0.1, 0.01, 0.001], 0.01))
@pytest.mark.parametrize(
    "engine",
    # particles and a price: `test_samplers.py`, every time
    [BayesByBackprop(draws=16), pytest.param(SVGD(particles=50), marks=pytest.mark.slow)],
    ids=["bbb", "svgd"],
)
def test_a_dual_at_any_tempering(engine: Engine, tempering: float) -> None:
    *_, answer = tempered_line(tempering)
    solution = lifted(engine, tempering)
    assert solution.result.status == "converged"
    assert abs(solution.duals["high"] - answer) < 0.02 * answer


SAMPLERS: dict[str, tuple[Engine, int | None, float]] = {
    "nuts, defaults": (NUTS(), None, 1.0),
    "nuts, cold": (NUTS(), None, 0.01),
    "nuts, colder": (NUTS(chains=8), None, 0.001),
    "nuts, short": (NUTS(chains=8, keep=500), 600, 0.1),
    "nuts, long": (NUTS(chains=2, keep=1000), 4000, 1.0),
    "sghmc, defaults": (SGHMC(), None, 1.0),
    "sghmc, cold": (SGHMC(chains=8), None, 0.01),
    "sghmc, short": (SGHMC(chains=16, keep=100), 8000, 0.1),
}


# every time: `test_samplers.py` of chains, `test_blocks.py` of their duals at every tempering
@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampled_dual_at_any_setting(name: str) -> None:
    engine, steps, tempering = SAMPLERS[name]
    mean, covariance, answer = tempered_line(tempering)
    solution = lifted(engine, tempering, steps)
    slope, intercept = solution.posterior.draws.T
    height = intercept + PLACE * slope
    error = height.std() / np.sqrt(solution.effective_draws(height))
    assert solution.result.status == "converged", solution.result
    assert abs(height.mean() - HEIGHT) < 5 * error
    across = np.array([1.0, PLACE])
    answers = across @ covariance @ across / tempering
    assert abs(solution.duals["high"] - answer) < 5 * error / answers + 0.02 * answer
    lift = covariance @ across * answer / tempering
    spread = np.sqrt(np.diag(covariance))
    assert np.all(np.abs([intercept.mean(), slope.mean()] - mean - lift) < 0.25 * spread)
    assert np.all(np.abs([intercept.std(), slope.std()] - spread) < 0.15 * spread)


FAR: dict[str, tuple[float, float, int]] = {
    f"{mean} {least} {seed}": (mean, least, seed)
    for mean in (-0.5, -1.5, -2.5)
    for least in (0.9, 0.6)
    for seed in range(3)
}


# every time: a probability that chains meet, in `test_samplers.py`, and particles that are too few, below
@pytest.mark.slow
@pytest.mark.parametrize("name", FAR)
def test_converged_is_not_said_of_a_probability_that_is_missed(name: str) -> None:
    """Far from the limit chains hardly cross it, and what they show of a probability is worth little."""
    mean, least, seed = FAR[name]
    solution = fit(
        constant,
        knowledge=[AtLeast(0, name="high").probably(least)],
        prior=Normal(mean, 1.0),
        inference=NUTS(),
        seed=seed,
    )
    obeys = norm.cdf(mean)
    answer = np.log(least / (1 - least)) - np.log(obeys / (1 - obeys))
    if solution.result.status == "converged":
        found = (solution.posterior.draws[:, 0] >= 0).astype(float)
        error = np.sqrt(least * (1 - least) / solution.effective_draws(found))
        assert abs(found.mean() - least) < 0.02 + 4 * error
        assert abs(solution.duals["high"] - answer) < 4 * error / (least * (1 - least)) + 0.2


@pytest.mark.parametrize("particles", [10, 40])
def test_particles_that_are_too_few_for_a_dual_are_said_to_be(particles: int) -> None:
    solution = fit(
        constant,
        knowledge=[AtLeast(0, name="high").hard(0.01)],
        prior=Normal(-0.5, 1.0),
        inference=SVGD(particles=particles),
        steps=2000,
    )
    assert solution.result.status == "budget spent"
    assert "more particles" in solution.result.message
    assert solution.result.rules == ("high",)


@pytest.mark.parametrize("prior_sd", quick([0.1, 1.0, 100.0], 100.0))
def test_particles_travel_in_units_of_their_prior(prior_sd: float) -> None:
    """The posterior of a line under a prior far wider than it, and particles that start at 0."""
    x = np.linspace(-1, 1, 20)[:, None]
    y = prior_sd * (0.3 * x[:, 0] + 1.0)
    solution = fit(
        MLP(hidden=()),
        x,
        y,
        inference=SVGD(particles=60),
        likelihood=Gaussian(0.5 * prior_sd),
        prior=Normal(0, prior_sd),
    )
    assert solution.result.status == "converged"
    precision = np.array([np.sum(x**2), 20.0]) / 0.25 + 1
    scaled = solution.posterior.draws / prior_sd
    assert np.allclose(scaled.mean(0), [0.3, 1.0] * (1 - 1 / precision), atol=0.02)
    assert np.allclose(scaled.std(0), precision**-0.5, rtol=0.06)


class TestNoisePrior:
    """y = 2 x + noise of sd .4, its noise learned by chains."""

    def noise(self, unit: float, **options) -> np.ndarray:
        generator = np.random.default_rng(5)
        x = generator.uniform(-1, 1, (8, 1))
        y = unit * (2 * x[:, 0] + 0.4 * generator.normal(size=8))
        solution = fit(
            MLP(hidden=()),
            x,
            y,
            inference=NUTS(keep=500),
            likelihood=Gaussian(**options),
            prior=Normal(0, 2 * unit),
        )
        assert solution.result.status == "converged"
        return np.exp(solution.posterior.likelihood_parameters[:, 0]) / unit

    @pytest.mark.slow
    def test_the_unit_of_the_target_is_nothing_to_it(self) -> None:
        thousands, ones = self.noise(1e-3), self.noise(1.0)
        error = np.hypot(thousands.std(), ones.std()) / np.sqrt(500)
        assert abs(thousands.mean() - ones.mean()) < 4 * error

    @pytest.mark.slow
    def test_another_prior_moves_it(self) -> None:
        usual = self.noise(1.0).mean()
        assert self.noise(1.0, noise_prior=NoisePrior(3.0, 0.1)).mean() > 1.5 * usual

    def test_it_is_relative_to_the_target_s_spread(self) -> None:
        mean, sd = Gaussian(noise_prior=NoisePrior(0.2, 0.5)).parameters_prior(np.array([3.0]))
        assert np.allclose(np.exp(mean), 0.6)
        assert sd.tolist() == [0.5]

    @pytest.mark.parametrize("bad", [{"median": 0.0}, {"spread": -1.0}, {"median": np.inf}])
    def test_bad_numbers_are_refused(self, bad: dict) -> None:
        with pytest.raises(ValueError, match="NoisePrior: (median|spread) must be above 0"):
            NoisePrior(**bad)

    def test_a_noise_that_is_given_needs_none(self) -> None:
        with pytest.raises(ValueError, match="noise_prior needs noise='learned'"):
            Gaussian(0.5, noise_prior=NoisePrior(0.1))
        with pytest.raises(ValueError, match="noise_prior must be NoisePrior"):
            Gaussian(noise_prior=0.3)  # ty: ignore
