"""Periodic and unimodal rules from end to end: scores, conflicts, audit, fit, check, proof and report."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from tests.certify.made import network, posterior

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    Combined,
    Increasing,
    KnowledgeError,
    Periodic,
    PRBNNRegressor,
    SlopeBetween,
    Unimodal,
)
from prbnn.assessment.audit import audit
from prbnn.assessment.data_agreement import agreements
from prbnn.certify import certify
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.rules.conflicts.finding import conflicts
from prbnn.rules.regions import sample
from prbnn.rules.scoring.binding import bind_all

pytestmark = pytest.mark.light

X = np.linspace(0, 10, 81)[:, None]
TABLE = Columns(("x",), ("y",), X, np.sin(X))


def scores(rule, function) -> np.ndarray:
    """Scores of a function of x, in the user's units, at points of the rule's region."""
    scaling = scaling_of(X, TABLE.targets, "none")
    knowledge = bind_all([rule], TABLE, scaling, 256)
    (score,) = knowledge.scores(lambda x: function(x))
    return np.asarray(score)


class TestScores:
    def test_a_function_that_repeats_obeys_and_another_breaks(self) -> None:
        rule = Periodic("x", 2 * np.pi, within=0.01)
        assert np.all(scores(rule, jnp.sin) >= 0)
        assert np.min(scores(rule, lambda x: jnp.sin(1.1 * x))) < -0.1

    @pytest.mark.parametrize("peak", [4.0, (3.0, 5.0)])
    def test_a_function_with_its_peak_there_obeys_and_others_break(self, peak) -> None:
        rule = Unimodal("x", peak)
        assert np.all(scores(rule, lambda x: -((x - 4) ** 2)) >= 0)
        # a kink exactly there, of a function that is not smooth
        assert np.all(scores(rule, lambda x: -jnp.abs(x - 4)) >= 0)
        assert np.min(scores(rule, lambda x: -((x - 7) ** 2))) < -0.01
        assert np.min(scores(rule, lambda x: x)) < 0
        assert np.min(scores(rule, lambda x: -x)) < 0

    def test_steps_stay_on_one_side_of_the_peak(self) -> None:
        rule = Unimodal("x", 4.0, over=1.0)
        points = sample(rule.sampling(TABLE), TABLE, 500)[:, 0]
        assert not np.any((points > 3.0 + 1e-9) & (points < 4.0 - 1e-9))
        assert points.min() == 0 and points.max() == pytest.approx(9.0)

    def test_beyond_the_region_only_one_side_is_left(self) -> None:
        rising = Unimodal("x", 20.0)
        (only,) = rising.statements(TABLE)
        assert only.direction == 1
        with pytest.raises(KnowledgeError, match="fits in its region, on either side of the peak"):
            Unimodal("x", 5.0, over=9.0).statements(TABLE)

    def test_a_region_without_width_names_the_argument_that_helps(self) -> None:
        with pytest.raises(KnowledgeError, match="give over="):
            Unimodal("x", 5.0, where={"x": 3.0}).statements(TABLE)

    def test_a_period_longer_than_the_region_is_refused(self) -> None:
        with pytest.raises(KnowledgeError, match="'year'.*does not fit in its region"):
            bind_all([Periodic("x", 11, name="year")], TABLE, scaling_of(X, X, "none"), 64)


class TestConflicts:
    def test_high_before_a_low_peak_is_a_contradiction(self) -> None:
        high = AtLeast(5, where={"x": (0, 1)}, name="high")
        low = AtMost(3, where={"x": (3.9, 4.1)}, name="low")
        peak = Unimodal("x", 4.0, name="peak")
        (found,) = conflicts([high, low, peak, AtLeast(-9, name="floor")], TABLE)
        assert {*found.rules} == {"high", "low", "peak"} and found.contradiction
        # beyond the peak, low is what it should be
        assert not conflicts([high, AtMost(3, where={"x": (8, 9)}, name="low"), peak], TABLE)

    def test_what_repeats_is_the_same_a_few_periods_later(self) -> None:
        high = AtLeast(5, where={"x": (0, 1)}, name="high")
        low = AtMost(3, where={"x": (6, 7)}, name="low")
        (found,) = conflicts([high, low, Periodic("x", 3, within=0.5, name="wave")], TABLE)
        assert {*found.rules} == {"high", "low", "wave"}
        # each of two periods may give way by 1
        assert not conflicts([high, low, Periodic("x", 3, within=1.1, name="wave")], TABLE)

    def test_a_peak_and_a_trend_beyond_it(self) -> None:
        rules = [
            Unimodal("x", 4.0, name="peak"),
            Increasing("x", over=1.0, where={"x": (5, 9)}, name="up"),
            AtLeast(1, where={"x": (8.9, 9)}, name="high"),
            AtMost(0, where={"x": (5, 5.1)}, name="low"),
        ]
        assert [{*c.rules} for c in conflicts(rules, TABLE)] == [{"peak", "high", "low"}]


class TestData:
    def test_rows_against_a_peak_are_listed_by_side(self) -> None:
        y = -np.abs(X[:, 0] - 4)
        y[60] = 3.0
        found = audit(X, y, [Unimodal("x", 4.0, over=1.0, name="peak")], noise=0.1)["peak"]
        assert 60 in found.rows and "falls with x beyond 4" in found.words
        assert "rises with x up to 4: no violation" in found.words

    @pytest.mark.parametrize("within", [0.1, None])
    def test_rows_a_period_apart_are_laid_side_by_side(self, within: float | None) -> None:
        x = np.arange(0, 10, 0.25)[:, None]
        y = np.sin(np.pi * x[:, 0])
        y[30] += 5
        found = audit(x, y, [Periodic("x", 2.0, within=within, name="wave")], noise=0.1)["wave"]
        assert found.rows == (30,)

    def test_the_standing_says_both_sides(self) -> None:
        table = Columns(("x",), ("y",), X, -np.abs(X - 5))
        (found,), _ = agreements([Unimodal("x", 5.0)], table)
        assert found is not None
        assert found.words.count("with the rule") == 2


# |a - 4| turned over, as a relu network
FOLD = network([([[1.0], [-1.0]], [-4.0, 4.0]), ([[-1.0, -1.0]], [0.0])])


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (Unimodal("a", (3.0, 5.0)), "P"),
        (Unimodal("a", 7.0, over=0.5), "R"),
        (Periodic("a", 6.0, within=1.0), "R"),
        # differences over a step take 10 s to compile where they have to be proved
        pytest.param(Unimodal("a", 4.0, over=0.5), "P", marks=pytest.mark.slow),
        pytest.param(Periodic("a", 8.0, within=8.1), "P", marks=pytest.mark.slow),
    ],
)
def test_a_fold_is_proved_to_have_its_peak_where_it_is(rule, verdict: str) -> None:
    (found,) = certify(posterior([FOLD], X), [rule], seconds=10.0).rules
    assert found.verdicts == verdict
    assert all(example.score < 0 for example in found.counterexamples)


def test_a_fit_obeys_and_the_report_says_so() -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 10, (60, 1))
    y = -((x[:, 0] - 4) ** 2) / 10 + generator.normal(size=60) * 0.2
    rule = Unimodal("x", (3.5, 4.5), name="peak")
    model = PRBNNRegressor(
        MLP((16,)), [rule], tempering=0.2, steps=1500, draws=40, random_state=0
    ).fit(x, y)
    assert model.knowledge_report_["peak"].verdict.startswith("obeyed")
    grid = np.linspace(0.1, 9.9, 400)[:, None]
    curves = model.sample_functions(grid)
    rising, falling = grid[:-1, 0] < 3.4, grid[:-1, 0] > 4.6
    steps = np.diff(curves, axis=1)
    assert np.all(steps[:, rising] >= -1e-4) and np.all(steps[:, falling] <= 1e-4)


def test_the_order_of_parts_does_not_change_what_is_scored() -> None:
    peak, floor = Unimodal("x", 5.0), AtLeast(-1000)

    def least(*parts) -> float:
        rule = Combined(parts, where={"x": (0, 10)})
        return float(np.min(scores(rule, lambda x: jnp.where(x < 5, x, 55 - 10 * x))))

    assert least(peak, floor) >= 0 and least(floor, peak) >= 0


def test_a_rule_without_a_region_claims_nothing_beyond_the_data() -> None:
    z = np.linspace(0, 1, len(X))[:, None]
    table = Columns(("x", "z"), ("y",), np.hstack([X, z]), X)
    far = SlopeBetween("x", lower=1, where={"z": (100, 200), "x": (6, 10)})
    assert not conflicts([Unimodal("x", 5.0), far], table)


def test_one_statement_keeps_the_name_of_its_rule() -> None:
    found = audit(X, -X[:, 0], [Unimodal("x", 0.0, name="mine")], noise=0.1)
    assert found["mine"].rule == "mine"
