"""Projection against answers known in closed form: each draw that breaks a rule goes to the nearest."""

from __future__ import annotations

import numpy as np
import pytest

from prbnn import MLP, AtLeast, Gaussian, Increasing, Normal, SlopeBetween, fit
from prbnn.fitting.obeying import obeying
from prbnn.posterior.projection import project
from tests.truths.problems import LINE_NOISE, LINE_X, LINE_Y, constant

DRAWS = 4000
# Monte Carlo standard errors that a mean may be off by
ERRORS = 3.0


def mean_is(values: np.ndarray, mean: float, sd: float, also: float = 0.0) -> None:
    assert abs(values.mean() - mean) < ERRORS * sd / len(values) ** 0.5 + also, values.mean()


def sd_is(values: np.ndarray, sd: float) -> None:
    assert abs(values.std() - sd) < ERRORS * sd / (2 * len(values)) ** 0.5, values.std()


class TestNormal:
    """p = N(-.5, 1) and w >= 0: 69 % of the draws go to 0, the others stay."""

    @pytest.fixture(scope="class")
    @classmethod
    def solution(cls):
        rules = [AtLeast(0)]
        return fit(
            constant, knowledge=rules, prior=Normal(-0.5, 1.0), draws=DRAWS, enforce="projection"
        )

    @pytest.fixture(scope="class")
    @classmethod
    def found(cls, solution):
        return obeying(solution, solution.posterior, solution.rules)

    def test_draws_below_go_to_the_bound(self, solution, found) -> None:
        raw = solution.posterior
        assert found.acceptance == 1.0
        before, after = raw.draws[:, 0], found.posterior.draws[:, 0]
        mean_is(after, 0.197797, 0.412936)
        sd_is(after, 0.412936)
        unit = float(raw.bind(solution.rules, 8).units[0])
        at_bound = np.abs(after) <= 1e-4 * unit
        mean_is(at_bound.astype(float), 0.691462, 0.4619)
        assert np.array_equal(at_bound, before < -1e-4 * unit)

    def test_draws_that_obey_come_back_bit_for_bit(self, solution, found) -> None:
        raw = solution.posterior
        after = found.posterior.draws
        stays = raw.draws[:, 0] >= 0
        assert stays.any()
        assert np.array_equal(after[stays], raw.draws[stays])

    def test_the_report_of_moves(self, solution, found) -> None:
        (moves,) = found.moves
        assert moves.fraction == pytest.approx(np.mean(solution.posterior.draws < 0), abs=1e-3)
        # the median of a normal with mean -.5 below 0, in units of the noise
        assert moves.change == pytest.approx(0.9003, abs=0.06)


class TestLine:
    """Bayesian linear regression: nearest in the posterior's own precision."""

    MEAN = np.array([-0.453560, 0.902019])
    COVARIANCE = np.array([[0.022317, -0.042508], [-0.042508, 0.128587]])

    @pytest.fixture(scope="class")
    @classmethod
    def posterior(cls):
        raw = fit(
            MLP(hidden=()), LINE_X, LINE_Y, likelihood=Gaussian(LINE_NOISE), draws=DRAWS, steps=100
        ).posterior
        generator = np.random.default_rng(0)
        exact = generator.multivariate_normal(cls.MEAN, cls.COVARIANCE, DRAWS)
        return raw.with_draws(exact.astype(raw.draws.dtype))

    def test_a_slope_above_0(self, posterior) -> None:
        rules = [Increasing("x")]
        found = project(posterior, rules, np.ones(2))
        assert found.obeys.all()
        slope, intercept = found.posterior.draws.T
        mean_is(slope, 5.02e-5, 0.0018, also=1e-4)
        mean_is(intercept, 0.038011, 0.2184)
        sd_is(intercept, 0.2184)
        mean_is((posterior.draws[:, 0] < 0).astype(float), 1 - 0.001198, 0.0346)

    def test_a_slope_above_less(self, posterior) -> None:
        found = project(posterior, [SlopeBetween("x", lower=-0.45)], np.ones(2))
        slope, intercept = found.posterior.draws.T
        mean_is(slope, -0.392166, 0.085998, also=1e-4)
        sd_is(slope, 0.085998)
        mean_is(intercept, 0.785079, 0.2728)
        sd_is(intercept, 0.2728)
        mean_is(found.broken[:, 0].astype(float), 0.509506, 0.5)

    def test_nearest_in_the_rows_alone_is_another_function(self, posterior) -> None:
        # the prior's precision is part of the distance: without it the intercept differs
        found = project(posterior, [Increasing("x")], np.full(2, 1e-4))
        mean_is(found.posterior.draws[:, 1], -0.005201, 0.2185)
