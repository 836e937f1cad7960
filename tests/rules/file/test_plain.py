"""Rules as plain values and back, exactly; what cannot be told in plain values is refused by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.cases import CASES
from tests.rules.every_rule import by_kind

import prbnn
from prbnn import (
    AtLeast,
    Box,
    Combined,
    Compare,
    Increasing,
    KnowledgeError,
    OneOf,
    Score,
    SlopeBetween,
)
from prbnn.rules.base import Rule
from prbnn.rules.file.plain import from_plain, to_plain

quick = settings(max_examples=40, deadline=None)


def refusal(plain: Any) -> str:
    with pytest.raises(KnowledgeError) as caught:
        from_plain(plain)
    return str(caught.value)


# --- round trips ---------------------------------------------------------------------------


def test_every_rule_that_is_not_a_callable_has_examples() -> None:
    public = {getattr(prbnn, name) for name in prbnn.__all__}
    rules = {rule for rule in public if isinstance(rule, type) and issubclass(rule, Rule)}
    assert set(by_kind) == rules - {Rule, Score}


@pytest.mark.parametrize("kind", by_kind, ids=lambda kind: kind.__name__)
@quick
@given(data=st.data())
def test_a_rule_comes_back_equal_through_json(kind: type[Rule], data: Any) -> None:
    rule = data.draw(by_kind[kind])
    back = from_plain(json.loads(json.dumps(to_plain(rule), allow_nan=False)))
    assert type(back) is type(rule)
    assert back == rule


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_rule_of_the_contracts_comes_back_or_says_why_not(case: Any) -> None:
    if "<function" in repr(case.rule):
        with pytest.raises(KnowledgeError, match="callables live in Python only"):
            to_plain(case.rule)
    else:
        assert from_plain(to_plain(case.rule)) == case.rule


def test_numbers_of_numpy_become_plain_ones() -> None:
    rule = AtLeast(np.float64(0.5), where={"x": np.array([0.0, 1.0])}, margin=np.float32(0.25))  # type: ignore
    plain = to_plain(rule)
    assert plain == {"at_least": 0.5, "where": {"x": [0.0, 1.0]}, "margin": 0.25}
    assert all(type(number) is float for number in (plain["at_least"], plain["margin"]))
    assert from_plain(plain) == rule


def test_lists_and_tuples_say_the_same() -> None:
    assert OneOf([[0, 1]], where=[{"x": [0, 1]}]) == OneOf(((0, 1),), where=({"x": (0, 1)},))  # type: ignore
    assert AtLeast(0, at=[1, 2]) == AtLeast(0, at=(1, 2))


# --- the words -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "plain"),
    [
        (AtLeast(0), {"at_least": 0}),
        (AtLeast(0).hard(0), {"at_least": 0, "strength": {"hard": 0}}),
        (AtLeast(0).soft(3), {"at_least": 0, "strength": {"soft": 3}}),
        (AtLeast(0).soft(3, power=2), {"at_least": 0, "strength": {"soft": 3, "power": 2}}),
        (AtLeast(0).probably(0.9), {"at_least": 0, "strength": {"probably": 0.9}}),
        (
            AtLeast(0).probably(0.9, of="points"),
            {"at_least": 0, "strength": {"probably": 0.9, "of": "points"}},
        ),
        (AtLeast(0).on_average(), {"at_least": 0, "strength": {"on_average": 0.0}}),
        (AtLeast(0).in_prior(1e4), {"at_least": 0, "strength": {"in_prior": 1e4}}),
        (AtLeast(0, where=Box(x=(0, 1))), {"at_least": 0, "where": {"box": {"x": [0.0, 1.0]}}}),
        (
            SlopeBetween("x", 0, "z", of="y"),
            {"slope": {"along": "x", "between": [0, "z"]}, "of": "y"},
        ),
        (SlopeBetween("x", upper=2), {"slope": {"along": "x", "at_most": 2}}),
        (
            Compare({"derate": 1}, below={"derate": 0}, by=2),
            {"compare": {"set": {"derate": 1}, "is": "below", "against": {"derate": 0}, "by": 2}},
        ),
        (
            Combined([AtLeast(0), Increasing("x")], [1, 2]),
            {"combined": [{"at_least": 0}, {"increasing": "x"}], "weights": [1, 2]},
        ),
    ],
)
def test_the_words_of_a_rule(rule: Rule, plain: dict) -> None:
    assert to_plain(rule) == plain
    assert from_plain(plain) == rule


def test_hard_can_be_said_in_a_word() -> None:
    assert from_plain({"at_least": 0, "strength": "hard"}) == AtLeast(0)


def test_both_limits_can_be_said_one_by_one() -> None:
    plain = {"slope": {"along": "x", "at_least": 0, "at_most": 2}}
    assert from_plain(plain) == SlopeBetween("x", 0, 2)


def test_a_column_may_be_called_box() -> None:
    assert from_plain({"at_least": 0, "where": {"box": [0, 1]}}).where == {"box": (0, 1)}


def test_numbers_that_a_reader_left_as_text_count_where_only_numbers_can_stand() -> None:
    plain = {"at_least": 0, "where": {"x": [0, "1e4"]}, "strength": {"in_prior": "1e4"}}
    assert from_plain(plain) == AtLeast(0, where={"x": (0, 1e4)}).in_prior(1e4)


# --- what is refused -----------------------------------------------------------------------


def test_a_score_names_itself_and_says_that_callables_live_in_python() -> None:
    rule = Combined([AtLeast(0), Score(lambda function, x: function(x), name="mine")], name="both")
    with pytest.raises(KnowledgeError, match="rule 'mine': .*callables live in Python only"):
        to_plain(rule)


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ({"at_lest": 0}, "rule: does not say what should hold; did you mean 'at_least'?"),
        ({"name": "a"}, "rule 'a': does not say what should hold; needs one of at_least, "),
        ({"at_least": 0, "at_most": 1}, "rule: says at_least and at_most at once"),
        (3, "rule: needs a rule such as {at_least: 0}, got 3"),
        ({"at_least": 0, "wher": {}}, "rule: wher: is not a word of at_least; did you mean 'where'?"),
        ({"convex": "x", "over": 2}, "rule: over: is not a word of convex; it takes name, where,"),
        ({"falls": "x", "of": "y"}, "rule: of: is not a word of falls; "),
        ({"at_least": None}, "rule: at_least: needs a number or text in the column names, got nothing"),
        ({"at_least": True}, "rule: at_least: needs a number or text"),
        ({"at_least": float("nan")}, "rule: at_least: needs a number or text"),
        ({"at_least": "2 *"}, "rule: at_least: Expression refused: "),
        ({"between": 3}, "rule: between: needs a pair [low, high], got 3"),
        ({"between": [1, 2, 3]}, "rule: between: needs a pair [low, high], got [1, 2, 3]"),
        ({"one_of": [1, 2]}, "rule: one_of.0: needs a pair [low, high], got 1"),
        ({"increasing": 2020}, "rule: increasing: needs text, got 2020; write it in quotes"),
        ({"slope": {"along": "x"}}, "rule: slope: needs either between: [low, high], or at_least"),
        ({"slope": {"along": "x", "over": 1}}, "rule: slope.over: is not a word of slope; it takes"),
        ({"slope": "x"}, "rule: slope: needs a mapping, got 'x'"),
        ({"compare": {"set": {"x": 1}, "is": "below"}}, "rule: compare.against: is missing"),
        (
            {"compare": {"set": {}, "is": "under", "against": {}}},
            "rule: compare.is: is 'below', 'above' or 'within', got 'under'",
        ),
        ({"at_least": 0, "strength": "soft"}, "rule: strength: is hard, {hard: tolerance}, {soft:"),
        ({"at_least": 0, "strength": {"soft": 1, "hard": 2}}, "rule: strength: is hard, {hard: tol"),
        (
            {"at_least": 0, "strength": {"soft": 1, "powr": 2}},
            "rule: strength.powr: is not a word of soft; did you mean 'power'?",
        ),
        ({"at_least": 0, "strength": {"soft": "x"}}, "rule: strength.soft: needs a number, got the"),
        ({"at_least": 0, "strength": {"soft": -1}}, "rule: soft weight must be above 0, got -1"),
        ({"at_least": 0, "where": {"x": [1, 0]}}, "rule: where: where['x'] is empty: low 1 is above"),
        ({"at_least": 0, "where": {"x": "low"}}, "rule: where: the range of 'x' is a number or [low"),
        ({"at_least": 0, "where": 3}, "rule: where: names columns and their ranges"),
        ({"at_least": 0, "at": "third"}, "rule: at: is first, last, a step or a list of steps"),
        ({"falls": "x", "observed": "a"}, "rule: observed: is true or false, got 'a'"),
        ({"falls": "x", "lag": 1.5}, "rule: lag: needs a whole number, got 1.5"),
        ({"combined": [{"at_least": 0}, {"x": 1}]}, "rule: combined.1: does not say what should hold"),
        ({"combined": {"at_least": 0}}, "rule: combined: needs a list, got {'at_least': 0}"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_what_would_be_right(plain: Any, told: str) -> None:
    assert refusal(plain).startswith(told)
