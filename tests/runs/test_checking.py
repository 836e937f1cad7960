"""Proofs and fresh points side by side: the worse verdict wins, and what was examined is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.certify.made import network, posterior

from prbnn import AtMost
from prbnn.certify import RuleCertificate
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Hard
from prbnn.runs.checking import Checked, FreshPoints, check_run, verdict_of

# y = s - 2 relu(s - 1) with s = a + b is a roof: 0 where s is 0 or 2, and 1 where it is 1
BETWEEN = network([([[1.0, 1.0], [1.0, 1.0]], [0.0, -1.0]), ([[1.0, -2.0]], [0.0])])
FLAT = network([([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0]), ([[0.0, 0.0]], [-1.0])])
STEEP = network([([[1.0, 1.0], [0.0, 0.0]], [0.0, 0.0]), ([[1.0, 0.0]], [0.0])])
# rows at two corners: the middle of the segment between them is no row
CORNERS = np.repeat([[0.0, 0.0], [1.0, 1.0]], 15, axis=0)


def checked(found: Posterior, rule: Rule, **options: Any) -> tuple[Checked, Any]:
    model = SimpleNamespace(
        posterior_=found, raw_posterior_=found, solution_=SimpleNamespace(rules=[rule])
    )
    (one,), certificate = check_run(SimpleNamespace(model=model, folder=None), 20, **options)
    return one, certificate


@pytest.fixture(scope="module")
def roofs() -> tuple[Checked, Any]:
    """Two draws that break the rule between rows alone, one that never does, one that does at a row."""
    draws = posterior([BETWEEN, FLAT, BETWEEN, STEEP], CORNERS)
    return checked(draws, AtMost(0.5, name="low"))


def test_a_draw_that_breaks_a_rule_between_rows_is_not_proved(roofs) -> None:
    found, certificate = roofs
    assert (found.proved, found.refuted, found.undecided) == (1, 3, 0)
    assert found.broken == 3
    assert found.fails
    assert certificate.rules[0].verdicts == "RPRR"
    assert not certificate.holds


def test_the_certificate_says_where_draws_break_it(roofs) -> None:
    _, certificate = roofs
    rule = certificate.rules[0]
    assert [each.draw for each in rule.counterexamples] == [0, 2, 3]
    for each in rule.counterexamples[:2]:
        assert each.point["a"] == pytest.approx(each.point["b"])
        assert 0.25 < each.point["a"] < 0.75
        value = (
            each.point["a"] + each.point["b"] - 2 * max(0, each.point["a"] + each.point["b"] - 1)
        )
        assert each.score == pytest.approx(0.5 - value, abs=1e-5)


def test_the_verdict_says_what_was_examined(roofs) -> None:
    found, certificate = roofs
    assert found.verdict == (
        "75.0% of draws break it (2 only away from these rows), though it is for every draw"
    )
    assert found.rows == certificate.rules[0].rows == 30
    assert found.examined == "30 rows"
    assert found.region == "at 30 training rows"


def told(verdicts: str, rows: int | None, region: str, how: str = "boxes", away: int = 0) -> str:
    """The verdict on a hard rule, from a proof and 9 fresh points."""
    proof = RuleCertificate("low", region, verdicts, 0.0, (), 1e-4, how, 0.0, rows)
    fresh = FreshPoints(np.array([away]), np.array([away]), np.array([0.0]), 9)
    return verdict_of(Hard(), proof, fresh, 0, None)


def test_what_is_proved_at_rows_is_not_called_proved_everywhere() -> None:
    at_rows = "proved at 30 rows, obeyed at fresh points"
    assert told("PP", 30, "at 30 training rows") == at_rows
    assert told("PP", None, "a in [0, 1]") == "proved for every draw"
    assert told("PP", None, "everywhere", "by construction") == "proved by construction"
    assert told("PU", None, "a in [0, 1]") == (
        "no draw breaks it at fresh points; 1 draws not decided in time"
    )
    assert not told("PR", 30, "at 30 training rows", away=1).startswith("proved")


@pytest.mark.slow
def test_the_chance_of_a_rule_for_most_counts_draws_that_break_it_between_rows() -> None:
    rule = AtMost(0.5, name="low").probably(0.9)
    few, _ = checked(posterior([FLAT] * 30 + [BETWEEN] * 10, CORNERS), rule)
    assert few.chance == pytest.approx(0.389, abs=0.01)
    assert "at 30 training rows and fresh points" in few.verdict
