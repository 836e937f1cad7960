"""What the dense check of the final draws changes of how a fit ended, and what it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prbnn import AtLeast
from prbnn.assessment.knowledge_report import Gap
from prbnn.estimators import storing
from prbnn.fitting.outcome import FinalCheck
from prbnn.fitting.result import Result

pytestmark = pytest.mark.light
UNSETTLED = Result("budget spent", "the dual of 'high' has not settled; give more steps", ("high",))
CONVERGED = Result("converged")
MET, JUST, SHORT = Gap(-0.5, 0.01, 0.02, 0.3), Gap(0.01, 0.01, 0.02, 0.3), Gap(0.2, 0.01, 0.02, 0.3)


class Trained(SimpleNamespace):
    """A trained task that has converged, where the rule is known to be met, and its dual to be right."""

    endless = True

    def judged(self, diagnostics: Any, checked: FinalCheck) -> Result:
        assert checked.met == ("high",)
        return CONVERGED if checked.just else UNSETTLED


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the dense check says of a fit with one rule, by its result, its gap and its dual."""

    def of(result: Result, gap: Gap, dual: float = 0.0, endless: bool = True) -> Result | None:
        monkeypatch.setattr(storing, "gap", lambda *_: gap)
        monkeypatch.setattr(storing, "FittedTask", Trained)
        posterior = SimpleNamespace(bind=lambda *_: SimpleNamespace(units=np.ones(1)))
        solution: Any = SimpleNamespace(
            posterior=posterior,
            rules=[AtLeast(0, name="high").on_average(1)],
            result=result,
            fitted=Trained(endless=endless),
            diagnostics=None,
            duals={"high": dual},
            tempering=0.2,
        )
        check: Any = None
        return storing._missed_when_checked(solution, check)

    return of


def test_a_rule_that_is_not_met_is_named_with_its_gap_and_error(found: Any) -> None:
    result = found(CONVERGED, SHORT)
    assert (result.status, result.rules) == ("budget spent", ("high",))
    assert "off by 0.2 +- 0.01" in result.message
    assert "Likely causes, in order" in result.message


def test_a_rule_that_is_met_does_not_excuse_a_dual_that_has_not_settled(found: Any) -> None:
    assert found(UNSETTLED, MET) == UNSETTLED


def test_a_dual_that_is_right_at_the_end_is(found: Any) -> None:
    assert found(UNSETTLED, JUST) == CONVERGED


def test_a_dual_that_presses_a_rule_past_its_bound_is_not(found: Any) -> None:
    result = found(CONVERGED, MET, dual=3.0)
    assert (result.status, result.rules) == ("budget spent", ("high",))
    assert "met by 0.5 +- 0.01 more than asked" in result.message


@pytest.mark.parametrize(
    ("gap", "options"),
    [
        (MET, {"dual": 0.0}),
        (MET, {"dual": 0.01}),
        (JUST, {"dual": 3.0}),
        (MET, {"dual": 3.0, "endless": False}),
    ],
    ids=["no dual", "hardly a dual", "just met", "members"],
)
def test_all_else_stays(found: Any, gap: Gap, options: dict) -> None:
    assert found(CONVERGED, gap, **options) is None
