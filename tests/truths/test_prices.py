"""The two prices of a rule against refits: exact optima by quadrature, and fits on the same noise."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm
from scipy.stats import t as student_t

from prbnn import MLP, AtLeast, BayesByBackprop, Gaussian, Increasing, Normal, SlopeBetween, fit
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.fitting.result import Price, Solution, has_price, price_of
from prbnn.posterior.draws import Posterior
from prbnn.rules.own import Combined
from tests.truths.problems import DUAL, LINE_NOISE, LINE_X, LINE_Y, constant

# the hinge: p = N(-.5, 1), E min(0, w - bound) >= -tolerance
PRIOR = -0.5
TOLERANCE, LOOSENED, MOVED = 0.01, 0.001, 0.01
SEEDS = range(6)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
# standard errors that a difference may have, and must have to be seen: the 99 % interval where they are
# estimated from so few seeds
ERRORS = float(student_t.ppf(0.995, len(SEEDS) - 1))


def fit_hinge(rule: AtLeast, seed: int, draws: int = 4000) -> Solution:
    return fit(
        constant,
        knowledge=[rule],
        prior=Normal(PRIOR, 1.0),
        inference=BayesByBackprop(draws=256),
        steps=4000,
        early_stopping=False,
        draws=draws,
        seed=seed,
    )


def evidence(tolerance: float, bound: float = 0.0) -> float:
    """-KL(q || p) of the best Gaussian q with E min(0, w - bound) = -tolerance, by quadrature."""

    def lacking(q: np.ndarray) -> float:
        mean, sd = q[0], np.exp(q[1])
        w = bound - 8 * sd * (NODES + 1) / 2
        return 4 * sd * WEIGHTS @ ((w - bound) * norm.pdf(w, mean, sd)) + tolerance

    def divergence(q: np.ndarray) -> float:
        mean, sd = q[0], np.exp(q[1])
        return 0.5 * (sd**2 + (mean - PRIOR) ** 2 - 1) - q[1]

    found = minimize(
        divergence,
        [0.6, np.log(0.39)],
        constraints={"type": "eq", "fun": lambda q: 1e3 * lacking(q)},
        options={"ftol": 1e-14, "maxiter": 300},
    )
    assert found.success
    return -float(found.fun)


@pytest.fixture(scope="module")
def asked() -> list[Solution]:
    """The problem itself, once per seed."""
    rule = AtLeast(0, name="positive").hard(TOLERANCE)
    return [fit_hinge(rule, seed) for seed in SEEDS]


def refitted(rule: AtLeast, asked: list[Solution]) -> tuple[float, float]:
    """How much evidence another rule wins, and the standard error of that over seeds."""
    won = [fit_hinge(rule, seed, 2).elbo - asked[seed].elbo for seed in SEEDS]
    return float(np.mean(won)), float(np.std(won, ddof=1) / len(won) ** 0.5)


def agree(predicted: float, won: float, error: float, curved: float) -> None:
    """Within the errors and the term of second order, and so sharply that half and twice are not."""
    allowed = ERRORS * error + curved
    assert abs(predicted - won) < allowed, (predicted, won, allowed)
    for wrong in (predicted / 2, 2 * predicted):
        assert abs(wrong - won) > allowed, (wrong, won, allowed)


class TestHinge:
    @pytest.mark.slow
    def test_the_optimum_moves_as_the_prices_say(self, asked: list[Solution]) -> None:
        """Differences either side have no term of second order: only the dual's own 2 % is left.

        And for the bound, the standard error of a fraction of the draws.
        """
        prices = [solution.prices["positive"] for solution in asked]
        step = LOOSENED / 2
        won = evidence(TOLERANCE + step) - evidence(TOLERANCE - step)
        assert prices[0].tolerance * LOOSENED == pytest.approx(won, rel=DUAL)
        fraction = norm.cdf(-0.603211 / 0.387773)
        counted = len(SEEDS) * len(asked[0].posterior)
        error = ERRORS * ((1 - fraction) / (fraction * counted)) ** 0.5
        assert np.mean([price.violated for price in prices]) == pytest.approx(fraction, rel=error)
        step = MOVED / 2
        won = evidence(TOLERANCE, -step) - evidence(TOLERANCE, step)
        bound = np.mean([price.bound for price in prices])
        assert bound * MOVED == pytest.approx(won, rel=DUAL + error)

    def test_a_tolerance_that_is_loosened(self, asked: list[Solution]) -> None:
        predicted = LOOSENED * np.mean([s.prices["positive"].tolerance for s in asked])
        exact = evidence(TOLERANCE + LOOSENED) - evidence(TOLERANCE)
        # the price falls as the tolerance grows; this is by how much, once over the step
        curved = abs(predicted - exact)
        assert curved < 0.05 * predicted
        looser = AtLeast(0, name="positive").hard(TOLERANCE + LOOSENED)
        agree(predicted, *refitted(looser, asked), curved)

    def test_a_bound_that_is_moved(self, asked: list[Solution]) -> None:
        prices = [s.prices["positive"] for s in asked]
        predicted = MOVED * np.mean([price.bound for price in prices])
        curved = abs(predicted - (evidence(TOLERANCE, -MOVED) - evidence(TOLERANCE)))
        assert curved < 0.1 * predicted
        won, error = refitted(AtLeast(-MOVED, name="positive").hard(TOLERANCE), asked)
        agree(predicted, won, error, curved)
        # the dual alone is far off: most functions are not beyond the bound
        assert MOVED * prices[0].tolerance > 10 * won


class TestLine:
    """E[slope] >= 0 of a Bayesian line: evidence falls by s^2 a'Sigma a / 2."""

    SLOPE_VARIANCE, DUAL_AT_ZERO = 0.022317, 20.323810
    STEP = 0.02

    def fit(self, rule: Increasing | SlopeBetween, seed: int) -> Solution:
        return fit(
            MLP(hidden=()),
            LINE_X,
            LINE_Y,
            [rule],
            inference=BayesByBackprop(draws=64),
            likelihood=Gaussian(LINE_NOISE),
            steps=4000,
            early_stopping=False,
            draws=20_000,
            seed=seed,
        )

    def test_an_average_has_one_price_for_both(self) -> None:
        rising = Increasing("x", name="rising").on_average(0)
        fits = [self.fit(rising, seed) for seed in SEEDS]
        price = fits[0].prices["rising"]
        assert price.tolerance == price.bound == fits[0].duals["rising"]
        assert price.bound == pytest.approx(self.DUAL_AT_ZERO, rel=DUAL)
        predicted = self.STEP * float(np.mean([s.prices["rising"].bound for s in fits]))
        curved = self.STEP**2 / (2 * self.SLOPE_VARIANCE)
        for rule in (
            Increasing("x", name="rising").on_average(-self.STEP),
            SlopeBetween("x", lower=-self.STEP, name="rising").on_average(0),
        ):
            won = [self.fit(rule, seed).elbo - fits[seed].elbo for seed in SEEDS]
            error = float(np.std(won, ddof=1) / len(won) ** 0.5)
            agree(predicted, float(np.mean(won)), error, curved)


def test_a_price_is_in_the_users_units() -> None:
    """The same line in thousandths: a unit of its slope is worth a thousandth."""

    def price(size: float):
        rule = AtLeast(0, where={"x": 0}, name="floor").hard(0.01 * size)
        return fit(
            MLP(hidden=()),
            LINE_X,
            size * (LINE_Y - 1.2),
            [rule],
            inference=BayesByBackprop(draws=64),
            likelihood=Gaussian(size * LINE_NOISE),
            scaling="standard",
            draws=4000,
        ).prices["floor"]

    small, large = price(1.0), price(1000.0)
    assert small.bound > 0
    assert large.tolerance * 1000 == pytest.approx(small.tolerance, rel=0.01)
    assert large.bound * 1000 == pytest.approx(small.bound, rel=0.01)
    assert large.violated == pytest.approx(small.violated, abs=0.01)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """Lines around one line."""
    found = fit(MLP(hidden=()), LINE_X, LINE_Y, steps=10, draws=500).posterior
    generator = np.random.default_rng(0)
    draws = generator.normal([-0.4, 0.9], 0.2, (500, 2)).astype(np.float32)
    own = found.likelihood_parameters[0]
    return dataclasses.replace(found, draws=draws, likelihood_parameters=own)


class TestViolated:
    """P(score < 0) counted by hand, as rules are trained."""

    def values(self, posterior: Posterior) -> np.ndarray:
        return posterior.functions(np.linspace(0, 4, 2001)[:, None])[..., 0]

    def test_over_functions_and_points(self, posterior: Posterior) -> None:
        (found,) = posterior.violated([AtLeast(0, where={"x": (0, 4)}).hard(0.01)])
        assert found == pytest.approx(np.mean(self.values(posterior) < 0), abs=2e-3)

    def test_rounding_is_no_violation(self, posterior: Posterior) -> None:
        """A flat function's slope, off by what float32 cannot say, breaks nothing."""
        flat = dataclasses.replace(posterior, draws=posterior.draws * [0.0, 1.0] - [1e-7, 0.0])
        (found,) = flat.violated([Increasing("x", where={"x": (0, 4)}).hard(0.01)])
        assert found == 0

    def test_less_the_margin(self, posterior: Posterior) -> None:
        rule = AtLeast(0, where={"x": (0, 4)}, margin=0.2).hard(0.01)
        (found,) = posterior.violated([rule])
        assert found == pytest.approx(np.mean(self.values(posterior) < 0.2), abs=2e-3)

    def test_parts_by_their_weights(self, posterior: Posterior) -> None:
        parts = [AtLeast(0, where={"x": (0, 4)}), AtLeast(-9, where={"x": (0, 4)})]
        rule = Combined(parts, weights=[3, 1]).hard(0.01)
        (found,) = posterior.violated([rule])
        expected = 3 * np.mean(self.values(posterior) < 0)
        assert found == pytest.approx(expected, abs=5e-3)

    def test_over_several_inputs_as_far_inside_as_hard_rules_are_trained(
        self, posterior: Posterior
    ) -> None:
        """A hard rule without a tolerance asks for a fiftieth of a unit more there; others do not."""
        rows = np.column_stack([LINE_X, LINE_X**2])
        several = dataclasses.replace(
            posterior,
            network=fit(MLP(hidden=()), rows, LINE_Y, steps=10, draws=2).posterior.network,
            draws=np.column_stack(
                [posterior.draws[:, :1], np.zeros((500, 1)), posterior.draws[:, 1:]]
            ),
            scaling=scaling_of(rows, LINE_Y[:, None], "none"),
            columns=Columns(("x", "z"), ("y",), rows, LINE_Y[:, None]),
        )
        at = {"x": (2, 2)}
        hard, tolerant = several.violated([AtLeast(0, where=at), AtLeast(0, where=at).hard(0.01)])
        value = several.functions(np.array([[2.0, 0.0]]))[:, 0, 0]
        assert tolerant == pytest.approx(np.mean(value < 0))
        assert hard == pytest.approx(np.mean(value < 0.02))
        assert hard > tolerant


def test_prices_by_strength() -> None:
    rule = AtLeast(0)
    assert price_of(rule.hard(0.1), 8.0, 0.25) == Price(8.0, 0.25, 2.0)
    assert price_of(rule.soft(8), 8.0, 0.25).bound == 2.0
    assert price_of(rule.on_average(), 8.0, 0.25).bound == 8.0
    assert price_of(rule.probably(0.9), 8.0, 0.25) == Price(8.0, 0.25, None)
    assert price_of(rule.in_prior(8), 8.0, 0.25) == Price(8.0, 0.25, None)


def test_a_hard_rule_without_a_tolerance_has_no_price() -> None:
    """Its dual follows the fraction of draws that may be rejected; `Solution.duals` still has it."""
    assert price_of(AtLeast(0).hard(), 8.0, 0.25) == Price(None, 0.25, None)
    assert not has_price(AtLeast(0))
    strengths = [AtLeast(0).hard(0), AtLeast(0).soft(1), AtLeast(0).probably(0.9)]
    assert all(has_price(rule) for rule in strengths)
