"""Rules along time as they are declared: what is refused, and what they print."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.rules.flights import FLIGHT, POINTS, bound, flights, refusal

from prbnn import AtLeast, AtMost, Between, Continues, Falls, Increasing, OneOf, RateBetween, Rises
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.rules.base import Rule, named
from prbnn.rules.scoring.binding import bind_all
from prbnn.rules.strengths import Probable, Soft

# --- refused -----------------------------------------------------------------------------------

TOO_LONG = {
    "falls": (Falls("altitude", lag=4), 4, 3),
    "rises": (Rises("altitude", lag=5, observed=True), 5, 4),
    "rate": (RateBetween("altitude", 0, 1, lag=7), 7, 3),
}


@pytest.mark.parametrize(("rule", "lag", "longest"), TOO_LONG.values(), ids=TOO_LONG)
def test_a_lag_that_leaves_no_pair_of_steps_is_refused(rule: Rule, lag: int, longest: int) -> None:
    message = refusal(lambda: bound(rule))
    assert message == (
        f"rule {rule.label!r}: lag={lag} is too long for 4 step(s) ahead; use lag <= {longest}"
    )


@pytest.mark.parametrize("lag", [0, -1, 1.5, "2", True, None])
@pytest.mark.parametrize("make", [Falls, Rises, partial(RateBetween, lower=0)])
def test_a_lag_is_a_whole_number_of_steps(make: Callable, lag: Any) -> None:
    message = refusal(lambda: make("altitude", lag=lag))
    assert message.endswith(f": lag is a whole number of steps above 0, got {lag!r}")


@pytest.mark.parametrize(
    "rule",
    [
        Falls("altitud"),
        Rises("altitud", observed=True),
        RateBetween("altitud", 0, 1),
        Continues("altitud", within=1),
        AtLeast(0, of="altitud", at="last"),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_a_misspelt_variable_names_the_rule_and_the_nearest(rule: Rule) -> None:
    message = refusal(lambda: bound(rule))
    assert message.startswith(f"rule {rule.label!r}: ")
    assert "did you mean 'altitude'?" in message


def test_what_is_not_predicted_cannot_be_ruled() -> None:
    assert "heading" in refusal(lambda: bound(Falls("heading")))
    assert "names no output" in refusal(lambda: bound(Falls("weight")))
    assert "no output 'altitude - speed'" in refusal(lambda: bound(Falls("altitude - speed")))


def test_what_was_not_observed_has_no_last_step() -> None:
    columns = flights(replace(FLIGHT, variables=("heading", "speed")))
    for rule in (Falls("altitude", observed=True), Continues("altitude", within=1)):
        message = refusal(lambda rule=rule: bound(rule, columns=columns))
        assert message == (
            f"rule {rule.label!r}: 'altitude' was not observed before; observed: heading, speed"
        )
    bound(Falls("altitude"), columns=columns)


@pytest.mark.parametrize("at", ["frist", 0, 5, [], [2, 9]])
@pytest.mark.parametrize("of", ["altitude", "altitude - speed"])
def test_a_rule_at_a_step_that_does_not_exist_is_refused_by_name(of: str, at: Any) -> None:
    rule = AtLeast(0, of=of, at=at, name="floor")
    message = refusal(lambda: bound(rule))
    assert message.startswith(f"rule 'floor': at={rule.at!r} must be 'first', 'last', or ")


def test_several_outputs_need_a_name() -> None:
    assert "(speed, altitude); say which one with of=" in refusal(lambda: bound(AtLeast(0)))


@pytest.mark.parametrize("at", ["last", 1, (1, 2)])
@pytest.mark.parametrize(
    "rule",
    [AtLeast(0), Between(0, 1, of="y"), Increasing("x"), OneOf([(0, 1)]), AtMost(0, of="2 * y")],
    ids=lambda rule: rule.describe(),
)
def test_steps_have_no_meaning_where_data_are_no_sequences(rule: Rule, at: Any) -> None:
    rows = np.linspace(0, 1, 9)[:, None]
    plain = Columns(("x",), ("y",), rows, rows)
    message = refusal(
        lambda: bind_all([replace(rule, at=at)], plain, scaling_of(rows, rows), POINTS)
    )
    assert (
        f"at={at!r} selects steps of a sequence, but the data are a table; leave at= out" in message
    )


@pytest.mark.parametrize("sequences", [True, False])
def test_rules_along_time_need_steps(sequences: bool) -> None:
    columns = flights(replace(FLIGHT, ahead=0))
    if not sequences:
        columns = replace(columns, layout=None)
    scaling = scaling_of(columns.rows, columns.targets)
    for rule in (Falls("altitude"), Continues("altitude", within=1)):
        message = refusal(lambda rule=rule: bind_all([rule], columns, scaling, POINTS))
        assert message == (
            f"rule {rule.label!r}: a rule along time needs a sequence model with steps ahead; use "
            "PRBNNSequenceRegressor with targets of several steps, or remove the rule"
        )


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(3, -3), (None, None), ("a", 1), (0, True), (None, "b"), (float("nan"), 1), (0, float("inf"))],
)
def test_the_ends_of_a_rate_are_numbers_in_order(lower: Any, upper: Any) -> None:
    message = refusal(lambda: RateBetween("altitude", lower, upper))
    assert message == (
        "RateBetween: give lower, upper or both as numbers, the lower one first; got "
        f"{lower!r} and {upper!r}"
    )


@pytest.mark.parametrize("within", [0, -1, None, "1", True, float("nan")])
def test_a_join_needs_some_room(within: Any) -> None:
    message = refusal(lambda: Continues("altitude", within))
    assert message == f"Continues: within must be above 0, got {within!r}"


MAKERS = (Falls, Rises, partial(RateBetween, lower=0), partial(Continues, within=1))


@pytest.mark.parametrize("variable", ["", None, 3])
def test_rules_along_time_need_a_name(variable: Any) -> None:
    for make in MAKERS:
        assert f"needs a variable's name, got {variable!r}" in refusal(
            lambda make=make: make(variable)
        )


@pytest.mark.parametrize("extra", [{"of": "altitude"}, {"at": "last"}])
def test_rules_along_time_refuse_what_has_no_meaning(extra: dict) -> None:
    for make in MAKERS:
        message = refusal(lambda make=make: make("altitude", **extra))
        assert "of= and at= have no meaning here; name the variable" in message


# --- declarations ------------------------------------------------------------------------------

LABELS = {
    Falls("altitude"): "altitude falls over 1 step",
    Falls("altitude", lag=3, observed=True): "altitude falls over 3 steps",
    Rises("distance", lag=2): "distance rises over 2 steps",
    RateBetween("speed", -3, 3): "-3 <= change of speed per step <= 3",
    RateBetween("speed", lower=-0.5): "-0.5 <= change of speed per step",
    RateBetween("speed", upper=2, lag=4): "change of speed per step <= 2",
    Continues("altitude", within=50): "altitude goes on from where it was, +- 50",
    Between(980, 1040, of="altitude", at="last"): "980 <= altitude <= 1040 at the last step",
    AtLeast(0, of="altitude", at="first"): "altitude >= 0 at the first step",
    AtLeast(0, at=3): "output >= 0 at step 3",
    AtLeast(0, of="speed", at=(1, 2)): "speed >= 0 at steps 1, 2",
    AtLeast(0, of="speed"): "speed >= 0",
    Falls("altitude", name="descent"): "descent",
    AtLeast(0, at="last", name="landed"): "landed",
}


@pytest.mark.parametrize(("rule", "label"), LABELS.items(), ids=LABELS.values())
def test_a_rule_says_what_it_says(rule: Rule, label: str) -> None:
    assert rule.label == label


def test_the_step_is_part_of_the_name_that_reports_use() -> None:
    rules = named([AtLeast(0, of="a", at=1), AtLeast(0, of="a", at=2), AtLeast(0, of="a", at=2)])
    assert [rule.label.partition(" at ")[2][:6] for rule in rules] == ["step 1", "step 2", "step 2"]
    assert len({rule.name for rule in rules}) == 3


DECLARED: dict[str, Callable[[], Rule]] = {
    "falls": lambda: Falls("altitude", lag=3, observed=True),
    "rises": lambda: Rises("altitude", lag=2, name="climb", because="it is cleared to climb"),
    "rate": lambda: RateBetween("speed", -3, 3, lag=2),
    "continues": lambda: Continues("altitude", within=50, margin=5),
    "at": lambda: Between(980, 1040, of="altitude", at=[1, 3]),
}
OTHERS: dict[str, dict] = {
    "falls": {"lag": 2},
    "rises": {"observed": True},
    "rate": {"upper": 4},
    "continues": {"within": 51},
    "at": {"at": (1, 4)},
}


@pytest.mark.parametrize("name", DECLARED)
def test_declarations_print_compare_and_pickle(name: str) -> None:
    rule = DECLARED[name]()
    assert rule == DECLARED[name]()
    assert replace(rule, **OTHERS[name]) != rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    for key, value in OTHERS[name].items():
        assert f"{key}={value!r}" in repr(replace(rule, **OTHERS[name]))


def test_rises_is_not_falls() -> None:
    assert Rises("altitude") != Falls("altitude")
    assert len({Rises("altitude"), Falls("altitude"), Falls("altitude")}) == 2


def test_strengths_leave_the_rest_as_it_was() -> None:
    rule = Falls("altitude", lag=3, observed=True)
    assert rule.soft(2.0) == replace(rule, strength=Soft(2.0))
    assert rule.probably(0.9) == replace(rule, strength=Probable(0.9))
