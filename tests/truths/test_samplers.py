"""Samplers and particles against exact answers: tilted, constrained and conditioned."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    SVGD,
    AtLeast,
    AtMost,
    Gaussian,
    Increasing,
    Normal,
    SlopeBetween,
    fit,
)
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine
from prbnn.rules.base import Rule
from tests.marks import quick
from tests.truths.problems import LINE_NOISE, LINE_X, LINE_Y, close, constant

CHAINS = {
    "nuts": (NUTS(chains=8, keep=500), 3000),
    "sghmc": (SGHMC(chains=16, keep=250), 40_000),
}
# as stated with the answers: in Monte Carlo standard errors
ERRORS = 2.33


@cache
def constant_under(rule: Rule, name: str, steps: int | None = None) -> Solution:
    engine, budget = CHAINS[name]
    return fit(
        constant,
        knowledge=[rule],
        prior=Normal(-0.5, 1.0),
        inference=engine,
        steps=steps or budget,
    )


@cache
def line_under(rules: tuple[Rule, ...], name: str, seed: int = 0) -> Solution:
    engine, steps = CHAINS[name]
    return fit_line(list(rules), engine, steps, seed)


def fit_line(rules: list[Rule], engine: Engine, steps: int, seed: int = 0) -> Solution:
    return fit(
        MLP(hidden=()),
        LINE_X,
        LINE_Y,
        rules,
        inference=engine,
        likelihood=Gaussian(LINE_NOISE),
        steps=steps,
        seed=seed,
    )


def within_error(solution: Solution, values: np.ndarray, answer: float) -> None:
    """The mean is right to a few Monte Carlo standard errors, and those are small."""
    error = values.std() / np.sqrt(solution.effective_draws(values))
    assert error < 0.1 * values.std()
    assert abs(values.mean() - answer) < ERRORS * error, (values.mean(), answer, error)


@pytest.mark.parametrize("name", quick(CHAINS, "sghmc"))
class TestHinge:
    """p = N(-.5, 1), f = min(0, w)."""

    def test_a_price(self, name: str) -> None:
        solution = constant_under(AtLeast(0).soft(5), name)
        draws = solution.posterior.draws[:, 0]
        within_error(solution, draws, 0.476048)
        close(draws.std(), 0.579593, 0.02)

    # every time: `test_bbb.py`
    @pytest.mark.slow
    def test_knowledge_in_the_prior_is_the_same_price(self, name: str) -> None:
        soft = constant_under(AtLeast(0).soft(5), name)
        prior = constant_under(AtLeast(0).in_prior(5), name)
        assert np.array_equal(soft.posterior.draws, prior.posterior.draws)

    def test_a_tolerance(self, name: str) -> None:
        solution = constant_under(AtLeast(0, name="positive").hard(0.01), name)
        draws = solution.posterior.draws[:, 0]
        # the dual is found by Monte Carlo too: a tenth off moves the mean by .01
        close(draws.mean(), 0.565864, 0.03)
        close(solution.duals["positive"], 10.4778, 2.0)
        close(-np.minimum(draws, 0).mean(), 0.01, 0.003)

    def test_kept_draws_are_the_posterior_given_the_rule_whatever_the_pressure(
        self, name: str
    ) -> None:
        for rule in (AtLeast(0).soft(5), AtLeast(0)):
            solution = constant_under(rule, name)
            draws = solution.posterior.draws[:, 0]
            obeys = draws >= 0
            kept = draws[obeys]
            error = kept.std() / np.sqrt(solution.effective_draws(draws) * obeys.mean())
            assert abs(kept.mean() - 0.641078) < 3 * error
            close(kept.std(), 0.518151, 0.03)


class TestChance:
    @pytest.mark.slow
    def test_the_indicator_goes_through_the_accept_step(self) -> None:
        solution = constant_under(AtLeast(0, name="positive").probably(0.95), "nuts", 1500)
        draws = solution.posterior.draws[:, 0]
        close(np.mean(draws < 0), 0.05, 0.02)
        close(solution.duals["positive"], 3.751404, 0.4)
        # above and below 0, the tilted density is the prior's own
        above = draws[draws >= 0]
        close(above.mean(), 0.641078, 0.04)

    @pytest.mark.parametrize("engine", ["sghmc", "svgd"])
    def test_engines_that_need_a_slope_refuse_by_name(self, engine: str) -> None:
        with pytest.raises(ValueError, match=f"{engine}.*use .hard"):
            fit(constant, knowledge=[AtLeast(0).probably(0.95)], inference=engine)


@pytest.mark.parametrize("name", quick(CHAINS, "sghmc"))
class TestLine:
    def test_the_posterior(self, name: str) -> None:
        solution = line_under((), name)
        slope, intercept = solution.posterior.draws.T
        within_error(solution, intercept, 0.902019)
        within_error(solution, slope, -0.453560)
        close(intercept.std(), np.sqrt(0.128587), 0.02)
        close(slope.std(), np.sqrt(0.022317), 0.008)
        assert solution.diagnostics is not None
        assert solution.diagnostics.mixed
        assert solution.diagnostics.divergences == 0

    # every time: averages that chains meet in `tests/enforcement/test_blocks.py`
    @pytest.mark.slow
    def test_an_average(self, name: str) -> None:
        solution = line_under((Increasing("x", name="rising").on_average(0),), name)
        slope, intercept = solution.posterior.draws.T
        close(solution.duals["rising"], 20.32381, 1.5)
        close(slope.mean(), 0.0, 0.03)
        close(intercept.mean(), 0.038095, 0.06)

    def test_conditioned_on_a_slope_far_from_the_data(self, name: str) -> None:
        rules = (Increasing("x"),)
        solution = line_under(rules, name)
        slope, intercept = solution.posterior.condition(rules)[0].draws.T
        assert len(slope) > 500
        close(slope.mean(), 0.041914, 0.006)
        close(slope.std(), 0.039364, 0.006)
        close(intercept.mean(), -0.041740, 0.05)
        close(intercept.std(), 0.230740, 0.03)

    @pytest.mark.slow
    def test_conditioned_on_two_rules(self, name: str) -> None:
        rules = [SlopeBetween("x", lower=-0.45), AtMost(1, where={"x": 0})]
        engine, steps = CHAINS[name]
        solution = fit_line(rules, engine, steps)
        slope, intercept = solution.posterior.condition(rules)[0].draws.T
        close(intercept.mean(), 0.614249, 0.05)
        close(slope.mean(), -0.323773, 0.02)
        close(intercept.std(), 0.237611, 0.03)
        close(slope.std(), 0.090218, 0.012)


class TestParticles:
    """Two hundred particles and the exact row, to three per cent."""

    def test_a_price(self) -> None:
        solution = fit(
            constant,
            knowledge=[AtLeast(0).soft(5)],
            prior=Normal(-0.5, 1.0),
            inference=SVGD(particles=200),
        )
        draws = solution.posterior.draws[:, 0]
        assert len(draws) == 200
        close(draws.mean(), 0.476048, 0.03 * 0.476048)
        close(draws.std(), 0.579593, 0.03 * 0.579593)

    @pytest.mark.slow
    def test_the_posterior_of_a_line(self) -> None:
        solution = fit(
            MLP(hidden=()),
            LINE_X,
            LINE_Y,
            inference=SVGD(particles=200),
            likelihood=Gaussian(LINE_NOISE),
        )
        slope, intercept = solution.posterior.draws.T
        close(intercept.mean(), 0.902019)
        close(slope.mean(), -0.453560)
        close(intercept.std(), np.sqrt(0.128587), 0.03 * np.sqrt(0.128587))
