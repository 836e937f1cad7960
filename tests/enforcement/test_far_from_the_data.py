"""Rules that the data contradict: they are met where a posterior exists, and only there."""

from __future__ import annotations

import numpy as np
import pytest
from tests.marks import quick

from prbnn import MLP, AtLeast, AtMost, PRBNNRegressor
from prbnn.errors import InfeasibleError
from prbnn.rules.base import Rule

# rules far from the data leave the network little to explain, and it says so
pytestmark = pytest.mark.filterwarnings("ignore:the posterior has collapsed")


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Eighty rows of a curve between 14.5 and 17.5."""
    generator = np.random.default_rng(4)
    x = generator.uniform(0, 1, (80, 1))
    return x, 16 + 1.2 * np.sin(5 * x[:, 0]) + 0.2 * generator.normal(size=80)


def fitted(
    rows: tuple[np.ndarray, np.ndarray], *rules: Rule, steps: int | None = None
) -> PRBNNRegressor:
    options = dict(tempering=0.2, steps=steps, draws=500, random_state=1)
    return PRBNNRegressor(MLP((30,)), list(rules), **options).fit(*rows)


def test_a_probable_rule_that_no_function_meets_at_first_is_reached(rows: tuple) -> None:
    model = fitted(rows, AtMost(14).probably(0.9), steps=12_000)
    line = model.knowledge_report_[0]
    assert line.verdict == "met"
    # met, and not by far more than was asked for
    assert line.raw_share > 0.02
    assert np.mean(model.predict(rows[0])) > 11


# of a mean only the bound plus what is asked counts: one of the two is enough every time
@pytest.mark.parametrize(
    "rule", quick([AtLeast(0).on_average(18), AtLeast(18).on_average(0)], AtLeast(18).on_average(0))
)
def test_an_average_far_from_the_data_is_reached_and_held(rows: tuple, rule: Rule) -> None:
    model = fitted(rows, rule)
    assert model.result_.status == "converged"
    assert model.knowledge_report_[0].verdict == "met"
    assert np.mean(model.predict(np.linspace(0, 1, 500)[:, None])) == pytest.approx(18, abs=0.2)


# by every law without data: `tests/truths/test_contradictions.py`, every time
@pytest.mark.parametrize("strength", quick(["hard", "probably"], "hard"))
def test_a_contradiction_raises_within_half_the_budget(rows: tuple, strength: str) -> None:
    rules: list[Rule] = [AtLeast(18, name="high"), AtMost(15, name="low")]
    if strength == "probably":
        rules = [rule.probably(0.9) for rule in rules]
    with pytest.raises(InfeasibleError) as raised:
        fitted(rows, *rules)
    assert raised.value.rules
    assert set(raised.value.rules) <= {"high", "low"}
    assert raised.value.solution.steps <= 3500
