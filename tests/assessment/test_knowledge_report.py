"""The knowledge report: what it prints, and that its numbers are those of the draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import MLP, AtLeast, AtMost, Gaussian, Increasing, fit
from prbnn.assessment.knowledge_report import (
    HEADINGS,
    NO_PRICE,
    PRICES,
    KnowledgeReport,
    RuleReport,
    knowledge_report,
)
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.fitting.result import Result, Solution
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule, named

FLOOR = RuleReport(
    name="<script>alert('power')</script> & floor",
    strength="hard",
    violation=0.125,
    points_broken_by_mean=3,
    points=1024,
    raw_share=0.25,
    stored_share=0.0,
    dual=18.4,
    verdict="obeyed by every stored draw",
    because="meters <cannot> read below",
)
CONVERGED = Result("converged")
RISING = replace(FLOOR, name="more sun more power", strength="soft 10", verdict="broken by 25%")


def report(*rules: RuleReport, tempering: float = 1.0, result: str = "converged"):
    return KnowledgeReport(rules, acceptance=0.75, tempering=tempering, result=result)


class Text(HTMLParser):
    """Tags and text of a page, as a browser would read them."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_the_table_has_one_line_per_rule_under_its_headings() -> None:
    lines = str(report(FLOOR, RISING)).splitlines()
    assert [heading in lines[0] for heading in HEADINGS] == [True] * len(HEADINGS)
    assert lines[2].startswith(FLOOR.name)
    assert lines[3].startswith(RISING.name)
    for word in ("hard", "0.12", "3 of 1024", "25.0%", "0.0%", FLOOR.verdict):
        assert word in lines[2]
    assert repr(report(FLOOR)) == str(report(FLOOR))


def test_columns_of_the_table_stand_under_each_other() -> None:
    lines = str(report(FLOOR, RISING)).splitlines()
    assert lines[2].index("3 of 1024") == lines[3].index("3 of 1024") == lines[0].index("mean")


def test_the_last_line_says_how_the_fit_ended() -> None:
    last = str(report(FLOOR, result="budget spent: more steps")).splitlines()[-1]
    assert "budget spent: more steps" in last
    assert "75.0% of draws obey every hard rule" in last
    assert "tempering" not in last


def test_prices_of_a_tempered_fit_are_said_to_be_tempered() -> None:
    assert "tempering 0.2" in str(report(FLOOR, tempering=0.2))
    assert "tempering 0.2" in report(FLOOR, tempering=0.2)._repr_html_()


def test_without_rules_the_report_says_so() -> None:
    assert str(report()) == "No knowledge was given."
    assert len(report()) == 0


def test_the_page_has_every_heading_and_rule() -> None:
    page = Text(report(FLOOR, RISING)._repr_html_())
    for word in (*HEADINGS, FLOOR.name, RISING.name, FLOOR.strength, FLOOR.verdict, "3 of 1024"):
        assert word in page.cells
    assert page.tags.count("tr") == 3


def test_the_page_escapes_what_users_wrote() -> None:
    page = report(FLOOR, result="infeasible: <b>'floor'</b>")._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    assert set(Text(page).tags) <= {"table", "thead", "tbody", "tr", "th", "td", "p"}


def test_rules_are_found_by_number_and_by_name() -> None:
    table = report(FLOOR, RISING)
    assert table[0] is FLOOR
    assert table[-1] is RISING
    assert table["more sun more power"] is RISING
    assert list(table) == [FLOOR, RISING]
    assert len(table) == 2


def test_a_misspelt_rule_is_a_key_error_with_the_nearest_name() -> None:
    with pytest.raises(KeyError, match="more sun more power"):
        report(FLOOR, RISING)["more sun mor power"]


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """Draws around one linear function of one column, in units far from standard."""
    generator = np.random.default_rng(0)
    rows = generator.uniform(0, 1000, (40, 1))
    targets = 3 * rows + generator.normal(0, 100, rows.shape)
    scaling = scaling_of(rows, targets)
    network = MLP(()).build(jax.random.key(0), 1, 1)
    draws = np.array([1.0, 0.0]) + 0.2 * generator.normal(size=(200, flatten(network).size))
    return Posterior(
        network,
        draws.astype(np.float32),
        Gaussian(),
        jnp.zeros(1),
        scaling,
        Columns(("sun",), ("power",), rows, targets),
    )


@pytest.fixture(scope="module")
def solution() -> Solution:
    """Any solution: each test replaces what it is about."""
    return fit(MLP(()), [[0.0], [1.0]], [0.0, 1.0], steps=2, draws=2)


@pytest.fixture
def report_of(solution: Solution, posterior: Posterior) -> Callable[..., KnowledgeReport]:
    """The report of some rules on the posterior's draws, with duals of 10, 11 and so on."""

    def report_of(
        *rules: Rule, stored: Posterior = posterior, result: Result = CONVERGED
    ) -> KnowledgeReport:
        rules = named(rules)
        duals = {rule.label: 10.0 + place for place, rule in enumerate(rules)}
        ended = replace(
            solution,
            posterior=posterior,
            result=result,
            duals=duals,
            rules=rules,
            tempering=0.2,
        )
        check, stored_check = posterior.check(rules), stored.check(rules)
        return knowledge_report(rules, ended, check, stored, stored_check, 0.5, result)

    return report_of


def test_numbers_are_those_of_the_draws_in_the_users_units(
    posterior: Posterior, report_of: Callable
) -> None:
    rule = AtLeast(400, name="floor", where={"sun": (0, 1000)}, because="a meter's range")
    stored, _ = posterior.condition([AtLeast(100, where={"sun": (0, 1000)})])
    line = report_of(rule, stored=stored)["floor"]
    grid = np.linspace(0, 1000, 2001)[:, None]
    short = np.minimum(posterior.functions(grid)[..., 0] - 400, 0)
    unit = posterior.scaling.output_sd[0]
    assert line.violation == pytest.approx(-short.mean(), rel=0.01)
    assert line.raw_share == pytest.approx(np.mean(short.min(axis=1) < -1e-4 * unit))
    broken = (stored.functions(grid)[..., 0] - 400).min(axis=1) < -1e-4 * unit
    assert line.stored_share == pytest.approx(broken.mean())
    mean = stored.predict(grid).mean[:, 0]
    assert line.points_broken_by_mean / line.points == pytest.approx(np.mean(mean < 400), abs=0.005)
    assert line.dual == 10.0
    assert line.because == "a meter's range"
    assert line.violated == pytest.approx(np.mean(short < 0), abs=0.005)
    assert line.price is line.bound_price is None


@pytest.mark.parametrize("strength", ["hard", "tolerant", "soft"])
def test_prices_are_the_dual_except_for_hard_rules_without_a_tolerance(
    report_of: Callable, strength: str
) -> None:
    rule = AtLeast(400, name="floor", where={"sun": (0, 1000)})
    rule = {"hard": rule.hard(), "tolerant": rule.hard(1.0), "soft": rule.soft(10)}[strength]
    found = report_of(rule)
    line = found["floor"]
    shown = str(found).splitlines()[2].removesuffix(line.verdict).split()[-2:]
    assert line.dual == 10.0
    assert (NO_PRICE in str(found)) == (strength == "hard")
    if strength == "hard":
        assert line.price is line.bound_price is None
        assert shown == ["-", "-"]
    else:
        assert (line.price, line.bound_price) == (10.0, 10.0 * line.violated)
        assert shown == ["10", f"{line.bound_price:.3g}"]


def test_both_prices_are_in_the_table_with_a_line_that_explains_them() -> None:
    priced = replace(FLOOR, violated=0.05, price=18.4, bound_price=0.92)
    lines = str(report(priced, RISING)).splitlines()
    assert lines[2].split(priced.verdict)[0].split()[-2:] == ["18.4", "0.92"]
    assert lines[3].split(RISING.verdict)[0].split()[-1] == "-"
    assert PRICES in lines[-1]
    assert PRICES in report(priced)._repr_html_()


def test_no_violation_is_zero_not_minus_zero(report_of: Callable) -> None:
    line = report_of(AtLeast(-1e6))[0]
    assert str(line.violation) == "0.0"


def test_two_rules_that_read_the_same_have_two_lines(report_of: Callable) -> None:
    names = [line.name for line in report_of(AtLeast(0), AtLeast(0))]
    assert names == ["output >= 0", "output >= 0 (2)"]


FLAT = {"sun": (0, 1000)}


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (Increasing("sun"), "obeyed by every stored draw"),
        (AtLeast(400, where=FLAT), "broken"),
        (AtLeast(400, where=FLAT).hard(tolerance=1e3), "within tolerance"),
        (AtLeast(400, where=FLAT).hard(tolerance=1e-3), "broken"),
        (AtLeast(400, where=FLAT).probably(0.99), "not met"),
        (AtLeast(-1e6).probably(0.99), "met"),
        (AtMost(1e6).soft(10), "obeyed by all draws"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else value.describe(),
)
def test_the_verdict_follows_from_strength_and_draws(
    report_of: Callable, rule: Rule, verdict: str
) -> None:
    assert report_of(rule)[0].verdict == verdict


def test_a_broken_soft_rule_says_how_often_it_is_broken(report_of: Callable) -> None:
    line = report_of(AtLeast(400, where=FLAT).soft(1))[0]
    assert line.raw_share > 0
    assert line.verdict == f"broken by {line.raw_share:.0%} of draws"


def test_a_hard_rule_that_the_result_names_has_its_own_verdict(report_of: Callable) -> None:
    result = Result("budget spent", "'floor' not met yet", ("floor",))
    lines = report_of(AtLeast(-1e6, name="floor"), AtMost(1e6, name="ceiling"), result=result)
    assert lines["floor"].verdict == "obeyed by every stored draw; pressure still rising"
    assert lines["ceiling"].verdict == "obeyed by every stored draw"
    assert "'floor' not met yet" in str(lines)


@pytest.mark.parametrize("shift", [0.0, 150.0, -40.0])
@pytest.mark.parametrize(("beyond", "verdict"), [(1e4, "not met"), (-1e4, "met")])
def test_one_average_said_in_many_ways_has_one_verdict(
    report_of: Callable, posterior: Posterior, shift: float, beyond: float, verdict: str
) -> None:
    rule = [AtLeast(0, where=FLAT)]
    mean = float(posterior.check(rule).score.mean() * posterior.bind(rule, 8).units[0])
    line = report_of(AtLeast(shift, where=FLAT).on_average(mean + beyond - shift))[0]
    assert line.verdict == verdict
    assert line.violation == pytest.approx(max(0.0, beyond), abs=0.1)


def test_a_report_of_no_stored_draws_does_not_claim_obedience(
    posterior: Posterior, report_of: Callable
) -> None:
    line = report_of(AtLeast(-1e6), stored=posterior.take(np.arange(0)))[0]
    assert line.stored_share == 1
    assert line.points_broken_by_mean == line.points
    assert line.verdict == "broken"
