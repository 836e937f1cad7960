"""Contradictions: said early, naming exactly the rules that clash, whatever stands beside them.

A dual update is a Newton step: spread over RESPONSE steps by engines that follow pressure at once, one a
block of a sampler.
"""

from __future__ import annotations

import numpy as np
import pytest

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Decreasing,
    Increasing,
    Normal,
    Score,
    SlopeBetween,
    fit,
    smallest_conflict,
)
from prbnn.enforcement.lagrangian import RESPONSE
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine
from prbnn.rules.base import Rule
from tests.marks import quick
from tests.truths.problems import close, constant

STRENGTHS = {
    "on average": lambda rule: rule.on_average(0),
    "hard": lambda rule: rule.hard(),
    "hard, tolerance": lambda rule: rule.hard(0.01),
    "probably": lambda rule: rule.probably(0.9),
}
MOST_UPDATES = 100
ENGINE = BayesByBackprop(draws=64)
# soft rules beside the others: they are broken, and never in the way
PRICES = [AtLeast(9, name="price").soft(0.01), AtMost(-9, name="belief").in_prior(0.01)]


def fit_constant(
    rules: list[Rule], engine: Engine = ENGINE, steps: int | None = 20_000
) -> Solution:
    """p = N(0, 1), and no data."""
    return fit(
        constant, knowledge=rules, prior=Normal(0.0, 1.0), inference=engine, steps=steps, draws=200
    )


def fit_rising(rules: list[Rule]) -> Solution:
    """Eighty rows of y = 1 + x with noise."""
    generator = np.random.default_rng(4)
    x = generator.uniform(0, 1, (80, 1))
    y = 1 + x[:, 0] + 0.2 * generator.normal(size=80)
    return fit(MLP((20,)), x, y, rules, scaling="minmax", tempering=0.2, columns=["x"], draws=200)


def updates(solution: Solution) -> float:
    """Dual updates from the first step on, those of the warm-up counted though none is made in it."""
    block = solution.fitted.task.engine.block
    return solution.steps / (RESPONSE if block == 1 else block)


def assert_infeasible(solution: Solution, *names: str) -> None:
    assert solution.result.status == "infeasible", solution.result
    assert set(solution.result.rules) == set(names)
    assert updates(solution) <= MOST_UPDATES


class TestOneNumber:
    """A number at least 1 and at most 0 settles at one half."""

    # tolerances are in the quick test after the next
    @pytest.mark.parametrize("strength", quick(STRENGTHS, "on average", "hard", "probably"))
    def test_both_are_named_and_no_bystander(self, strength: str) -> None:
        strict = STRENGTHS[strength]
        rules = [
            strict(AtMost(3, name="roof")),
            strict(AtLeast(1, name="above")),
            *PRICES,
            strict(AtMost(0, name="below")),
            strict(AtLeast(-9, name="floor")),
        ]
        solution = fit_constant(rules)
        assert_infeasible(solution, "above", "below")
        assert "contradict each other" in solution.result.message
        assert solution.steps <= 4000

    def test_by_the_dual_alone_where_nothing_can_be_read_off_the_rules(self) -> None:
        rules = [
            Score(lambda function, x: function(x) - 1, name="above").on_average(0),
            Score(lambda function, x: -function(x), name="below").on_average(0),
            Score(lambda function, x: 3 - function(x), name="roof").on_average(0),
        ]
        solution = fit_constant(rules)
        assert_infeasible(solution, "above", "below")
        close(solution.location, 0.5, 5e-2)

    @pytest.mark.parametrize(("tolerance", "status"), [(0.4, "infeasible"), (0.6, "converged")])
    def test_tolerances_that_do_not_and_do_bridge_the_gap(self, tolerance, status) -> None:
        rules = [
            AtLeast(1, name="above").hard(tolerance),
            AtMost(0, name="below").hard(tolerance),
            AtMost(5, name="roof").hard(0.01),
        ]
        solution = fit_constant(rules)
        assert solution.result.status == status
        assert set(solution.result.rules) == (
            {"above", "below"} if status == "infeasible" else set()
        )

    @pytest.mark.parametrize("strength", quick(["on average", "hard", "hard, tolerance"], "hard"))
    @pytest.mark.parametrize("name", quick(["sghmc", "nuts"], "sghmc"))
    def test_samplers_too(self, name: str, strength: str) -> None:
        engine = {"sghmc": SGHMC(), "nuts": NUTS()}[name]
        strict = STRENGTHS[strength]
        rules = [strict(AtLeast(1, name="above")), strict(AtMost(0, name="below"))]
        rules += [strict(AtMost(3, name="roof")), *PRICES]
        assert_infeasible(fit_constant(rules, engine, None), "above", "below")


class TestCurves:
    """Rules on parts of a range, beside rules that hold and rules that bind but can be met."""

    @pytest.mark.parametrize("strength", quick(["hard", "hard, tolerance"], "hard"))
    def test_bounds_where_regions_overlap(self, strength: str) -> None:
        strict = STRENGTHS[strength]
        rules = [
            strict(Increasing("x", where={"x": (0.9, 1)}, name="holds")),
            strict(AtLeast(1.9, where={"x": (0.2, 0.7)}, name="above")),
            strict(AtLeast(1.05, where={"x": (0, 0.1)}, name="binds")),
            strict(AtMost(1.2, where={"x": (0.4, 0.9)}, name="below")),
            strict(AtMost(30, name="roof")),
            *PRICES,
        ]
        assert_infeasible(fit_rising(rules), "above", "below")

    @pytest.mark.parametrize("strength", quick(["on average", "hard", "hard, tolerance"], "hard"))
    def test_slopes(self, strength: str) -> None:
        """Rising and falling can be flat together; falling and steep cannot."""
        strict = STRENGTHS[strength]
        rules = [
            strict(Increasing("x", name="rises")),
            strict(Decreasing("x", name="falls")),
            strict(SlopeBetween("x", lower=0.8, name="steep")),
            strict(AtLeast(0.5, name="floor")),
        ]
        assert_infeasible(fit_rising(rules), "falls", "steep")

    @pytest.mark.parametrize("strength", quick(["hard", "hard, tolerance"], "hard"))
    def test_three_rules_of_which_any_two_can_hold(self, strength: str) -> None:
        strict = STRENGTHS[strength]
        rules = [
            strict(Increasing("x", name="rises")),
            strict(AtLeast(0.5, name="floor")),
            strict(AtLeast(1.8, where={"x": (0, 0.2)}, name="left")),
            strict(AtMost(1.85, where={"x": (0, 0.2)}, name="binds")),
            strict(AtMost(1.2, where={"x": (0.8, 1)}, name="right")),
        ]
        assert_infeasible(fit_rising(rules), "rises", "left", "right")


@pytest.fixture(scope="module")
def stuck() -> Solution:
    """A constant has room above one slope or below another, not between the two."""
    rules = [
        AtLeast("x", where={"x": (0, 1)}, name="above"),
        AtMost(5, name="roof"),
        AtMost("x + 0.3", where={"x": (0, 1)}, name="below"),
        *PRICES,
    ]
    rows = np.linspace(0, 1, 8)[:, None]
    return fit(constant, rows, 0.4 + 0.2 * rows[:, 0], rules, columns=["x"], draws=200)


class TestWhatANetworkCannotDo:
    def test_it_is_infeasible_once_the_dual_has_reached_its_cap(self, stuck: Solution) -> None:
        assert_infeasible(stuck, "above", "below")
        assert "what the network can do" in stuck.result.message
        assert "smallest_conflict" in stuck.result.message

    def test_the_fewest_rules_are_found_by_leaving_out(self, stuck: Solution) -> None:
        assert smallest_conflict(stuck) == ("above", "below")
