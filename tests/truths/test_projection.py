"""Projection against answers known in closed form: each draw that breaks a rule goes to the nearest."""

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
    Dropout,
    Ensemble,
    Gaussian,
    Increasing,
    Laplace,
    Normal,
    SlopeBetween,
    fit,
)
from prbnn.fitting.obeying import Obeying, obeying
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine
from prbnn.posterior.projection import project
from tests.marks import quick
from tests.truths.problems import LINE_NOISE, LINE_X, LINE_Y, constant

DRAWS = 4000
# Monte Carlo standard errors that a mean may be off by
ERRORS = 3.0


def mean_is(values: np.ndarray, mean: float, sd: float, also: float = 0.0) -> None:
    assert abs(values.mean() - mean) < ERRORS * sd / len(values) ** 0.5 + also, values.mean()


def sd_is(values: np.ndarray, sd: float) -> None:
    assert abs(values.std() - sd) < ERRORS * sd / (2 * len(values)) ** 0.5, values.std()


# engines whose raw draws are those of a normal posterior, and by what part of its standard deviation the
# mean of what is made of these may be off beyond Monte Carlo error: particles are 3 % too narrow
SOUND: dict[str, tuple[Engine, int, int | None, float]] = {
    "nuts": (NUTS(chains=8, keep=500), 3000, None, 0.0),
    "sghmc": (SGHMC(chains=16, keep=250), 40_000, None, 0.0),
    "svgd": (SVGD(particles=200), 4000, None, 0.03),
    "laplace": (Laplace(), 2000, DRAWS, 0.0),
}


def within_error(
    solution: Solution, raw: np.ndarray, after: np.ndarray, answer: float, also: float = 0.0
):
    """The mean of draws that were moved, with as many independent ones as there are raw ones.

    A mean of particles is closer than that: within ``also`` of the raw standard deviation. A fraction of
    them is not, since it counts those on one side of a limit.
    """
    if also:
        assert abs(after.mean() - answer) < also * raw.std()
        return
    error = after.std() / solution.effective_draws(raw) ** 0.5
    assert error < 0.1 * after.std()
    assert abs(after.mean() - answer) < ERRORS * error, (after.mean(), answer, error)


def fit_normal(engine: Engine, steps: int, draws: int | None = None) -> tuple[Solution, Obeying]:
    """p = N(-.5, 1) and w >= 0, projected."""
    solution = fit(
        constant,
        knowledge=[AtLeast(0)],
        prior=Normal(-0.5, 1.0),
        inference=engine,
        steps=steps,
        draws=draws,
        enforce="projection",
    )
    return solution, obeying(solution, solution.posterior, solution.rules)


class TestNormalByEngine:
    """The same answers from the raw draws of every engine that has them, and what the others have."""

    @pytest.mark.parametrize("name", quick(SOUND, "laplace"))
    def test_engines_that_draw_from_it(self, name: str) -> None:
        *options, also = SOUND[name]
        solution, found = fit_normal(*options)
        before, after = solution.posterior.draws[:, 0], found.posterior.draws[:, 0]
        within_error(solution, before, after, 0.197797, also)
        at_bound = (np.abs(after) <= 1e-3).astype(float)
        within_error(solution, before, at_bound, 0.691462)
        assert after.std() == pytest.approx(0.412936, rel=0.06)

    @pytest.mark.slow
    def test_members_with_anchors_draw_from_it_too(self) -> None:
        """Without data each member ends at its anchor, a draw of the prior."""
        _, found = fit_normal(Ensemble(members=1000, anchored=True), 3000)
        after = found.posterior.draws[:, 0]
        mean_is(after, 0.197797, 0.412936)
        sd_is(after, 0.412936)

    @pytest.mark.parametrize("engine", [Dropout(), Ensemble()], ids=["dropout", "ensemble"])
    def test_engines_of_one_point_have_one_function_to_move(self, engine: Engine) -> None:
        """Their raw draws are all at -.5, the most probable value: a spread of 0 instead of 1.

        Dropout has no hidden unit here to switch off, and members end at the same place. So all draws
        go to the bound: a mean of 0 instead of .198, and a fraction moved of 1 instead of .69.
        """
        solution, found = fit_normal(engine, 2000)
        assert np.allclose(solution.posterior.draws, -0.5, atol=2e-3)
        (moves,) = found.moves
        assert moves.fraction == 1.0
        assert np.allclose(found.posterior.draws, 0.0, atol=1e-3)


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

    @pytest.mark.slow
    @pytest.mark.parametrize("name", SOUND)
    def test_draws_of_an_engine(self, name: str) -> None:
        *options, also = SOUND[name]
        solution = line_of(*options)
        raw = solution.posterior
        found = project(raw, [SlopeBetween("x", lower=-0.45)], np.ones(2))
        slope, intercept = found.posterior.draws.T
        within_error(solution, raw.draws[:, 0], slope, -0.392166, also)
        within_error(solution, raw.draws[:, 1], intercept, 0.785079, also)
        broken = found.broken[:, 0].astype(float)
        within_error(solution, raw.draws[:, 0], broken, 0.509506)
        assert slope.std() == pytest.approx(0.085998, rel=0.08)

    @pytest.mark.slow
    def test_draws_of_an_independent_normal(self) -> None:
        """Mean-field q is narrower than the posterior, and so is what projection makes of it.

        Its slopes have the standard deviation .0909 instead of .1494: the mean of the moved ones is
        -.415, where that of the posterior's is -.392. Nearest is by the posterior's own precision, which
        does not see q.
        """
        raw = line_of(BayesByBackprop(draws=64), 6000, DRAWS).posterior
        slope = project(raw, [SlopeBetween("x", lower=-0.45)], np.ones(2)).posterior.draws[:, 0]
        sd, above = 0.090909, -0.453560 + 0.45
        answer = -0.45 + sd * norm.pdf(above / sd) + above * norm.cdf(above / sd)
        assert answer == pytest.approx(-0.4155, abs=1e-3)
        mean_is(slope, answer, sd, also=0.01)
        assert abs(slope.mean() + 0.392166) > 0.01

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["dropout", "ensemble"])
    def test_draws_of_engines_of_one_point(self, name: str) -> None:
        """Members end at the most probable line, the posterior's mean, which breaks the rule a little.

        All are moved, to a slope of -.45 instead of a mean of -.392 with a standard deviation of .086.
        Dropout switches the only input off in 5 % of its draws: the others have one slope.
        """
        engine = {"dropout": Dropout(), "ensemble": Ensemble()}[name]
        raw = line_of(engine, 4000, 1000 if name == "dropout" else None).posterior
        found = project(raw, [SlopeBetween("x", lower=-0.45)], np.ones(2))
        slope = found.posterior.draws[:, 0]
        on = raw.draws[:, 0] != 0
        assert np.all(slope[~on] == 0)
        assert np.ptp(raw.draws[on, 0]) < 1e-2
        if name == "ensemble":
            assert on.all()
            assert np.allclose(raw.draws, self.MEAN, atol=5e-3)
            assert np.allclose(slope, -0.45, atol=2e-3)
        else:
            assert 1 - on.mean() == pytest.approx(0.05, abs=0.03)


def line_of(engine: Engine, steps: int, draws: int | None = None) -> Solution:
    """A fit of the line without its rules."""
    return fit(
        MLP(hidden=()),
        LINE_X,
        LINE_Y,
        inference=engine,
        likelihood=Gaussian(LINE_NOISE),
        steps=steps,
        draws=draws,
    )
