"""Bayes by Backprop against closed forms: means, spreads, duals and what cannot be met."""

import dataclasses

import jax
import numpy as np
import pytest

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Gaussian,
    Increasing,
    Normal,
    SlopeBetween,
    fit,
)
from tests.truths.problems import (
    LINE_LOG_EVIDENCE,
    LINE_NOISE,
    LINE_X,
    LINE_Y,
    close,
    close_dual,
    constant,
)

ENGINE = BayesByBackprop(draws=64)


def fit_line(knowledge=(), **options):
    return fit(
        MLP(hidden=()),
        LINE_X,
        LINE_Y,
        list(knowledge),
        inference=ENGINE,
        likelihood=Gaussian(LINE_NOISE),
        draws=4000,
        **options,
    )


def fit_constant(rule, mean=-0.5, steps=6000, draws=64, **options):
    return fit(
        constant,
        knowledge=rule if isinstance(rule, list) else [rule],
        prior=Normal(mean, 1.0),
        inference=BayesByBackprop(draws=draws),
        steps=steps,
        draws=4000,
        **options,
    )


def moments(solution):
    return solution.location, solution.scale


def test_without_knowledge_it_finds_the_mean_field_optimum():
    solution = fit_line()
    mean, sd = moments(solution)
    close(mean, [-0.453560, 0.902019])
    close(sd, [0.090909, 0.218218])
    assert solution.result.status == "converged"


class TestOnAverage:
    def test_slope_at_least_zero(self):
        solution = fit_line([Increasing("x", name="rising").on_average(0)])
        mean, sd = moments(solution)
        close(mean, [0.0, 0.038095])
        close(sd, [0.090909, 0.218218])
        close_dual(solution.duals["rising"], 20.323810)
        close(LINE_LOG_EVIDENCE - solution.elbo, 5.105719, 5e-2)
        assert solution.result.status == "converged"

    def test_an_inactive_rule_has_no_price(self):
        rules = [
            Increasing("x", name="rising").on_average(0),
            AtLeast(-0.5, where={"x": 0}, name="intercept").on_average(0),
        ]
        duals = fit_line(rules).duals
        close_dual(duals["rising"], 20.323810)
        assert duals["intercept"] < 1e-3

    def test_two_active_rules_share_the_work(self):
        rules = [
            Increasing("x", name="rising").on_average(0),
            AtLeast(0.5, where={"x": 0}, name="intercept").on_average(0),
        ]
        duals = fit_line(rules).duals
        close_dual(duals["rising"], 38.8)
        close_dual(duals["intercept"], 9.7)

    def test_float32_agrees_with_float64(self):
        """The two precisions draw different noise, so the fitted means are compared, not draws."""
        rule = [Increasing("x", name="rising").on_average(0)]
        single = fit_line(rule, steps=12_000).location
        with jax.enable_x64(True):
            double = fit_line(rule, steps=12_000).location
            assert double.dtype == np.float64
        close(single, double, 1e-3)
        close(double, [0.0, 0.038095], 1e-3)


class TestHinge:
    def test_soft(self):
        solution = fit_constant(AtLeast(0).soft(5), steps=12_000)
        mean, sd = moments(solution)
        close(mean, 0.459820)
        close(sd, 0.528115)

    def test_hard_with_tolerance(self):
        solution = fit_constant(AtLeast(0, name="positive").hard(0.01), draws=256)
        mean, sd = moments(solution)
        close(mean, 0.603211)
        close(sd, 0.387773)
        close_dual(solution.duals["positive"], 18.4163)
        assert solution.result.status == "converged"

    def test_hard_with_a_small_tolerance(self):
        solution = fit_constant(
            AtLeast(0, name="positive").hard(0.001), draws=256, steps=20_000, early_stopping=False
        )
        mean, sd = moments(solution)
        close(mean, 0.677766)
        close(sd, 0.291819)
        close_dual(solution.duals["positive"], 116.593)

    def test_conditioning_gives_the_limit_that_no_dual_reaches(self):
        """Draws of p itself, kept where w >= 0: p(w | w >= 0)."""
        solution = fit_constant(AtLeast(0).soft(1e-6), steps=8000, early_stopping=False)
        kept, acceptance = solution.posterior.condition([AtLeast(0)], tolerance=0.0)
        draws = np.asarray(kept.draws)
        close(acceptance, 1 - 0.691462, 2e-2)
        close(draws.mean(), 0.641078, 2e-2)
        close(draws.std(), 0.518151, 2e-2)


def test_chance_constraint_holds_with_its_price():
    solution = fit_constant(
        AtLeast(0, name="positive").probably(0.95), draws=256, steps=10_000, early_stopping=False
    )
    mean, sd = moments(solution)
    close(mean, 0.691224)
    close(sd, 0.420234)
    close_dual(solution.duals["positive"], 4.853739)
    close(np.mean(np.asarray(solution.posterior.draws) < 0), 0.05, 5e-3)


@pytest.fixture(scope="module")
def exact():
    posterior = fit_line(steps=10).posterior
    generator = np.random.default_rng(0)
    covariance = np.array([[0.022317, -0.042508], [-0.042508, 0.128587]])
    draws = generator.multivariate_normal([-0.453560, 0.902019], covariance, size=150_000)
    own = posterior.likelihood_parameters[0]
    return dataclasses.replace(posterior, draws=draws, likelihood_parameters=own)


class TestConditionedLine:
    """The posterior's own draws (exact, by linear algebra) kept where the knowledge holds."""

    def test_slope_at_least_zero(self, exact):
        kept, acceptance = exact.condition([Increasing("x")], tolerance=0.0)
        draws = np.asarray(kept.draws)
        close(acceptance, 0.001198, 2e-4)
        close(draws.mean(axis=0), [0.041914, -0.041740], 3e-2)
        close(draws.std(axis=0), [0.039364, 0.230740], 3e-2)

    @pytest.mark.slow
    def test_two_rules_together(self, exact):
        rules = [SlopeBetween("x", lower=-0.45), AtMost(1, where={"x": 0})]
        kept, acceptance = exact.condition(rules, tolerance=0.0)
        draws = np.asarray(kept.draws)
        close(acceptance, 0.435731, 3e-3)
        close(draws.mean(axis=0), [-0.323773, 0.614249], 3e-3)
        close(draws.std(axis=0), [0.090218, 0.237611], 3e-3)


class TestContradiction:
    def test_it_ends_early_and_names_both_rules_and_no_bystander(self):
        rules = [
            AtLeast(1, name="above one").on_average(0),
            AtMost(3, name="below three").on_average(0),
            AtMost(0, name="below zero").on_average(0),
        ]
        solution = fit_constant(rules, mean=0.0, steps=20_000)
        assert solution.result.status == "infeasible"
        assert set(solution.result.rules) == {"above one", "below zero"}
        assert solution.steps < 5000
        close(moments(solution)[0], 0.5, 5e-2)

    def test_hard_rules_without_a_tolerance_too(self):
        rules = [AtLeast(1, name="above one"), AtMost(0, name="below zero")]
        solution = fit_constant(rules, mean=0.0, steps=20_000)
        assert solution.result.status == "infeasible"
        assert set(solution.result.rules) == {"above one", "below zero"}

    def test_zero_tolerance_is_said_to_be_out_of_reach(self):
        solution = fit_constant(AtLeast(0, name="positive").hard(0))
        assert solution.result.status == "infeasible"
        assert solution.result.rules == ("positive",)
        assert "tolerance of 0" in solution.result.message


class TestKnowledgeInThePrior:
    """KL(q || p exp(c f)) = KL(q || p) - c E f + log Z: a price of tempering * c."""

    @pytest.mark.parametrize("tempering", [1.0, 0.25])
    def test_it_is_a_price(self, tempering):
        prior = fit_constant(AtLeast(0).in_prior(8.0), steps=500, draws=8, tempering=tempering)
        soft = fit_constant(
            AtLeast(0).soft(8.0 * tempering), steps=500, draws=8, tempering=tempering
        )
        assert np.array_equal(prior.posterior.draws, soft.posterior.draws)
