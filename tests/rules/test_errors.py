"""Rules that cannot be used as stated: the message names the rule, the fault and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prbnn import (
    AtLeast,
    AtMost,
    Between,
    Combined,
    Compare,
    Convex,
    CurvatureBetween,
    Decreasing,
    Equals,
    Increasing,
    KnowledgeError,
    OneOf,
    Outside,
    Score,
    SlopeBetween,
)
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.rules.base import Rule, named
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all

WHERE = {"x": (0.0, 1.0)}


def table(outputs: tuple[str, ...] = ("y",)) -> Columns:
    generator = np.random.default_rng(0)
    rows = np.column_stack([np.linspace(0, 1, 40), generator.uniform(1, 2, 40)])
    return Columns(("x", "irradiance"), outputs, rows, generator.normal(size=(40, len(outputs))))


def bind(rule: Rule, outputs: tuple[str, ...] = ("y",)) -> BoundKnowledge:
    columns = table(outputs)
    return bind_all([rule], columns, scaling_of(columns.rows, columns.targets), 64)


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(KnowledgeError) as caught:
        make()
    return str(caught.value)


def refusal_when_bound(rule: Rule, outputs: tuple[str, ...] = ("y",)) -> str:
    return refusal(lambda: bind(rule, outputs))


# --- bounds --------------------------------------------------------------------------------

CROSSING: list[Rule] = [
    Between("x", "0.5 - x", where=WHERE),
    Between(1, 0, where=WHERE),
    OneOf([(0, 1), ("x", 0.25)], where=WHERE),
    Outside([("x", 0.25), (2, 3)], where=WHERE),
    SlopeBetween("x", "x", "0.5 - x", where=WHERE),
    CurvatureBetween("x", "x", "0.5 - x", step=0.1, where=WHERE),
]


@pytest.mark.parametrize("rule", CROSSING, ids=lambda rule: type(rule).__name__)
def test_a_lower_bound_above_the_upper_names_the_rule_and_the_point(rule: Rule) -> None:
    message = refusal_when_bound(rule)
    assert message.startswith(f"rule {rule.label!r}: lower is above upper at ")
    assert " of 64 sampled points, first at x=" in message
    assert ", irradiance=" in message
    assert message.endswith("; swap or loosen the bounds")


def test_the_point_named_is_one_where_the_bounds_cross() -> None:
    message = refusal_when_bound(Between("x", "0.5 - x", where=WHERE, name="band"))
    place = float(message.split("first at x=")[1].split(",")[0])
    lower, upper = message.split(": ")[-1].split(";")[0].split(" > ")
    assert place > 0.25
    assert (float(lower), float(upper)) == pytest.approx((place, 0.5 - place), abs=1e-5)


def test_bounds_that_only_touch_are_accepted() -> None:
    bind(Between("x", "2 * x", where=WHERE))
    bind(Between("x", "x", where=WHERE))


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (AtLeast("log(-1 - x)", where=WHERE, name="mine"), "bound"),
        (AtMost("1/(x - x)", where=WHERE, name="mine"), "bound"),
        (AtLeast("sqrt(x - 0.5)", where=WHERE, name="mine"), "bound"),
        (Between("log(x - 1)", 9, where=WHERE, name="mine"), "lower"),
        (Equals(lambda rows: rows["x"] * np.nan, where=WHERE, name="mine"), "value"),
        (OneOf([(0, "log(x - 2)")], where=WHERE, name="mine"), "high end"),
        (SlopeBetween("x", upper="log(x - 2)", where=WHERE, name="mine"), "upper"),
        (Compare({"x": "log(x - 2)"}, below={}, where=WHERE, name="mine"), "value of x"),
        (AtLeast(lambda rows: None, name="mine"), "bound"),
    ],
)
def test_a_bound_that_is_not_finite_names_the_rule_the_bound_and_the_point(
    rule: Rule, what: str
) -> None:
    message = refusal_when_bound(rule)
    assert message.startswith(f"rule 'mine': {what} is not finite at ")
    assert "first at x=" in message
    assert "narrow `where` or fix the formula" in message


@pytest.mark.parametrize("bound", [None, [1, 2], float("nan"), float("inf"), {}])
@pytest.mark.parametrize(
    "make",
    [
        AtLeast,
        AtMost,
        lambda bound: Between(0, bound),
        Equals,
        lambda bound: OneOf([(0, bound)]),
        lambda bound: Outside([(bound, 1)]),
        lambda bound: Compare({"x": bound}, below={}),
    ],
)
def test_a_bound_that_is_no_number_text_or_callable_is_refused_where_it_is_written(
    make: Callable[[Any], Rule], bound: Any
) -> None:
    message = refusal(lambda: make(bound))
    assert "must be a finite number, text in the column names or a callable of x, got" in message


@pytest.mark.parametrize(
    "bound",
    [lambda rows: rows[:3, 0], lambda rows: np.asarray(rows), lambda rows: np.zeros((64, 2))],
)
def test_a_callable_of_the_wrong_shape_names_the_rule_and_both_shapes(bound: Any) -> None:
    message = refusal_when_bound(AtLeast(bound, name="mine"))
    assert message.startswith("rule 'mine': bound: expected one value per point (64), got shape (")


def test_a_callable_that_fails_says_how_and_what_it_gets() -> None:
    message = refusal_when_bound(AtLeast(lambda rows: rows.missing, name="mine"))
    assert message.startswith("rule 'mine': bound: the callable failed on rows of x, irradiance")
    assert "AttributeError" in message
    assert "x['name']" in message


def test_an_unknown_column_in_a_callable_is_named() -> None:
    message = refusal_when_bound(AtLeast(lambda rows: rows["irradiace"], name="mine"))
    assert message.startswith("rule 'mine': no column 'irradiace'")
    assert "irradiance" in message


@pytest.mark.parametrize("bound", ["2*irradiace", "log(irradianse + 1)", "Irradiance"])
def test_an_unknown_column_in_a_text_is_refused_with_the_nearest_name(bound: str) -> None:
    message = refusal_when_bound(AtLeast(bound, name="mine"))
    assert message.startswith(f"rule 'mine': bound {bound!r}: ")
    assert "did you mean 'irradiance'?" in message


def test_an_output_in_a_bound_is_refused_because_bounds_depend_on_x_alone() -> None:
    assert "is not a column" in refusal_when_bound(AtLeast("y - 1", name="mine"))


@pytest.mark.parametrize(
    "text", ["__import__('os')", "x.real", "x if x else 1", "lambda: 1", "x ^ 2"]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda text: AtLeast(text, name="mine"),
        lambda text: AtLeast(0, of=text, name="mine"),
        lambda text: Compare({"x": text}, below={}, name="mine"),
        lambda text: SlopeBetween("x", text, name="mine"),
    ],
    ids=["bound", "of", "compare", "slope"],
)
def test_text_that_is_no_formula_is_refused_with_the_name_of_the_rule(
    make: Callable[[str], Rule], text: str
) -> None:
    message = refusal_when_bound(make(text))
    assert message.startswith("rule 'mine': ")
    assert "Expression refused" in message


# --- what a rule is about ------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        AtLeast(0),
        OneOf([(0, 1)]),
        Increasing("x"),
        Decreasing("x", over=0.1),
        Convex("x"),
        Compare({"x": 1}, above={"x": 0}),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_with_several_outputs_a_rule_must_say_which(rule: Rule) -> None:
    message = refusal_when_bound(rule, ("power", "noise"))
    assert message == (
        f"rule {rule.label!r}: there are several outputs (power, noise); say which one with of="
    )


def test_an_unknown_output_is_refused_with_the_nearest_name() -> None:
    message = refusal_when_bound(AtLeast(0, of="powr", name="mine"), ("power", "noise"))
    assert message.startswith("rule 'mine': of='powr'")
    assert "did you mean 'power'?" in message


def test_what_a_rule_is_about_must_be_text_or_a_callable() -> None:
    message = refusal_when_bound(AtLeast(0, of=3, name="mine"))  # type: ignore[arg-type]
    assert message.startswith("rule 'mine': of= is an output's name, text or a callable of (x, y)")


# --- strengths -----------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0, -1, float("nan")])
def test_a_soft_weight_must_be_above_zero(weight: float) -> None:
    assert "soft weight must be above 0" in refusal(lambda: AtLeast(0).soft(weight))


def test_a_soft_power_must_be_at_least_one() -> None:
    assert "soft power must be at least 1, got 0.5" in refusal(lambda: AtLeast(0).soft(1, 0.5))


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, 95, float("nan")])
def test_a_probability_must_lie_between_zero_and_one(p: float) -> None:
    message = refusal(lambda: AtLeast(0).probably(p))
    assert "needs p between 0 and 1, both excluded" in message
    assert ".hard()" in message


def test_a_probability_is_of_functions_or_of_points() -> None:
    message = refusal(lambda: AtLeast(0).probably(0.9, of="draws"))  # type: ignore[arg-type]
    assert "is 'functions' or 'points', got 'draws'" in message


def test_a_tolerance_must_not_be_negative() -> None:
    assert "hard tolerance must be 0 or above" in refusal(lambda: AtLeast(0).hard(-0.1))


# --- the rest of a declaration -------------------------------------------------------------


@pytest.mark.parametrize("margin", [-0.1, "0.1", float("nan")])
def test_a_margin_must_not_be_negative(margin: Any) -> None:
    assert "mine: margin must be " in refusal(lambda: AtLeast(0, margin=margin, name="mine"))


@pytest.mark.parametrize("within", [0, -1])
def test_equals_needs_room(within: float) -> None:
    assert "within must be above 0" in refusal(lambda: Equals(0, within=within))


@pytest.mark.parametrize("intervals", [[], [(0,)], [(0, 1, 2)], [3]])
@pytest.mark.parametrize("rule", [OneOf, Outside])
def test_intervals_are_pairs(rule: Any, intervals: Any) -> None:
    message = refusal(lambda: rule(intervals))
    assert message.startswith(rule.__name__)
    assert "interval" in message


@pytest.mark.parametrize("column", [None, "", 3])
@pytest.mark.parametrize("rule", [Increasing, Decreasing, Convex])
def test_a_shape_needs_the_name_of_a_column(rule: Any, column: Any) -> None:
    assert refusal(lambda: rule(column)).startswith(f"{rule.__name__}: needs a column's name")


@pytest.mark.parametrize("step", [0, -1, float("inf"), float("nan")])
def test_a_step_must_be_above_zero(step: float) -> None:
    assert "over must be above 0" in refusal(lambda: Increasing("x", over=step))
    assert "step must be above 0" in refusal(lambda: Convex("x", step=step))


@pytest.mark.parametrize("rule", [SlopeBetween, CurvatureBetween])
def test_a_slope_or_a_bend_needs_at_least_one_end(rule: Any) -> None:
    assert refusal(lambda: rule("x")) == f"{rule.__name__}: give lower, upper or both"


def test_a_comparison_needs_a_relation() -> None:
    message = refusal(lambda: Compare({"x": 1}))
    assert message.startswith("Compare: give exactly one of below=, above=, within=")
    assert message.endswith("got none")


@pytest.mark.parametrize(
    "relations", [("below", "above"), ("above", "within"), ("below", "above", "within")]
)
def test_a_comparison_has_only_one_relation(relations: tuple[str, ...]) -> None:
    changes: dict[str, Any] = {relation: {"x": 0} for relation in relations}
    message = refusal(lambda: Compare({"x": 1}, by=1, **changes))
    assert message.endswith(f"got {list(relations)}")


def test_a_comparison_within_needs_by() -> None:
    assert "within= needs by=" in refusal(lambda: Compare({"x": 1}, within={"x": 0}))


def test_a_comparison_by_a_negative_amount_is_refused() -> None:
    for by in (-1, True):
        assert "by must be 0 or above" in refusal(lambda by=by: Compare({"x": 1}, below={}, by=by))
    assert "by must be a finite number" in refusal(lambda: Compare({"x": 1}, below={}, by=None))  # type: ignore[arg-type]


def test_a_comparison_by_a_text_that_falls_below_zero_is_told_with_its_place() -> None:
    message = refusal_when_bound(Compare({"x": 1}, below={"x": 0}, by="x - 0.5"))
    assert "by is below 0 at" in message
    assert "maximum(0, ...)" in message
    assert "is not a column" in refusal_when_bound(Compare({"x": 1}, below={"x": 0}, by="heat"))


def test_a_comparison_needs_mappings() -> None:
    for make in (
        lambda: Compare(3, below={}),  # type: ignore[arg-type]
        lambda: Compare({}, below="x"),  # type: ignore[arg-type]
    ):
        assert "changes are a mapping of columns" in refusal(make)


def test_an_unknown_column_in_a_comparison_is_refused_with_the_nearest_name() -> None:
    message = refusal_when_bound(Compare({"irradiace": 1}, below={}, name="mine"))
    assert message == "rule 'mine': no column 'irradiace'; did you mean 'irradiance'?"


def test_combined_rules_share_a_region() -> None:
    here, there = AtLeast(0, where=WHERE), AtMost(1, where={"x": (0, 2)})
    for make in (
        lambda: Combined([here, there]),
        lambda: Combined([here], where={"x": (0, 2)}),
    ):
        assert "the rules hold in different regions" in refusal(make)
    Combined([here, AtMost(1)])
    Combined([here, AtMost(1)], where=WHERE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Combined([]), "needs a list of rules"),
        (lambda: Combined([AtLeast(0), 3]), "needs a list of rules"),
        (lambda: Combined([AtLeast(0)], weights=[1, 2]), "1 rules but 2 weights"),
        (lambda: Combined([AtLeast(0)], weights=[0]), "every weight must be above 0"),
        (lambda: Combined([Combined([AtLeast(0)])]), "cannot be a part of another"),
    ],
)
def test_combined_needs_rules_and_a_weight_for_each(make: Any, message: str) -> None:
    assert message in refusal(make)


def test_a_score_needs_a_callable_and_a_unit_above_zero() -> None:
    assert "needs a callable of (function, x)" in refusal(lambda: Score(3))  # type: ignore
    assert "unit must be above 0" in refusal(lambda: Score(lambda function, x: 0, unit=0))


def test_knowledge_is_a_list_of_rules() -> None:
    assert "knowledge must be a list of rules" in refusal(lambda: named([3]))  # type: ignore


def test_rules_that_read_the_same_are_numbered() -> None:
    rules = named([AtLeast(0), AtLeast(0), AtLeast(0, name="floor")])
    assert [rule.name for rule in rules] == ["output >= 0", "output >= 0 (2)", "floor"]


@pytest.mark.parametrize("bound", [lambda rows: "text", lambda rows: [[1], [2, 3]]])
def test_a_callable_that_returns_no_numbers_names_the_rule(bound: Any) -> None:
    with pytest.raises(KnowledgeError, match="rule 'mine': bound"):
        bind(AtLeast(bound, name="mine"))


@pytest.mark.parametrize(
    ("score", "outputs"),
    [
        (lambda function, x: function(x), ("power", "noise")),
        (lambda function, x: x["irradiace"], ("y",)),
        (lambda function, x: function.slope(x, "irradiace"), ("y",)),
    ],
)
def test_a_fault_in_a_score_names_the_rule(score: Any, outputs: tuple[str, ...]) -> None:
    with pytest.raises(KnowledgeError, match="rule 'mine': "):
        bind(Score(score, name="mine"), outputs)


@pytest.mark.parametrize("of", [lambda x, y: y["powr"], lambda x, y: x["irradiace"]])
def test_a_fault_in_what_a_rule_is_about_names_the_rule(of: Any) -> None:
    with pytest.raises(KnowledgeError, match="rule 'mine': "):
        bind(AtLeast(0, of=of, name="mine"), ("power", "noise"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: AtLeast(0).soft("3"),  # type: ignore[arg-type]
        lambda: AtLeast(0).probably("0.9"),  # type: ignore[arg-type]
        lambda: AtLeast(0).hard("0.1"),  # type: ignore[arg-type]
        lambda: AtLeast(0, margin=None),  # type: ignore[arg-type]
        lambda: Equals(0, within="0.1*x"),  # type: ignore[arg-type]
        lambda: Increasing("x", over="1"),  # type: ignore[arg-type]
    ],
)
def test_text_in_place_of_a_number_is_a_clear_error(make: Callable[[], Any]) -> None:
    with pytest.raises(KnowledgeError):
        make()


def test_numbered_names_do_not_meet_given_ones() -> None:
    rules = named([AtLeast(0, name="a"), AtLeast(1, name="a (2)"), AtLeast(2, name="a")])
    assert len({rule.name for rule in rules}) == 3


def test_a_score_does_not_take_of() -> None:
    with pytest.raises(KnowledgeError, match="of="):
        Score(lambda function, x: function(x), of="y")
