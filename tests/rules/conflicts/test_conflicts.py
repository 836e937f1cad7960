"""Rules that cannot hold together are named, with no bystander; rules that can are left in peace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prbnn import (
    AtLeast,
    AtMost,
    Between,
    Combined,
    Compare,
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Equals,
    Falls,
    Increasing,
    KnowledgeError,
    OneOf,
    Outside,
    RateBetween,
    Rises,
    Score,
    SlopeBetween,
)
from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.rules.base import Rule
from prbnn.rules.conflicts.finding import conflicts
from prbnn.rules.regions import Box

GENERATOR = np.random.default_rng(0)
ROWS = np.column_stack(
    [
        GENERATOR.uniform(0, 1, 40),
        GENERATOR.uniform(0, 10, 40),
        GENERATOR.permutation(np.arange(40) % 2),
    ]
)
TABLE = Columns(("x", "z", "flag"), ("y",), ROWS, GENERATOR.normal(size=(40, 1)) * 3)
# rules that clash with nothing below, to see that they are never named
BYSTANDERS = [
    AtLeast(-1e3, name="floor"),
    AtMost("1e3 + z", name="roof"),
    Increasing("z", name="z"),
]


def found(rules: Sequence[Rule], columns: Columns = TABLE) -> list[set[str]]:
    return [set(c.rules) for c in conflicts(rules, columns) if c.contradiction]


LOW, HIGH = {"x": (0.0, 0.2)}, {"x": (0.8, 1.0)}

CLASHES: dict[str, list[Rule]] = {
    "two bounds": [AtLeast(5), AtMost(4)],
    "a bound in text, at some points": [AtLeast("6*x"), AtMost("5 + 0*z")],
    "bounds where regions overlap": [AtLeast(5, where=LOW), AtMost(4, where={"x": (0.15, 1)})],
    "a box and a sweep": [AtLeast(5, where=Box(x=(0, 0.2))), AtMost(4, where={"flag": 1})],
    "one of two boxes": [AtLeast(5, where=[LOW, HIGH]), AtMost(4, where={"x": (0.9, 1)})],
    "a band and a value": [Between(0, 1), Equals(2, within=0.5)],
    "two values": [Equals(0), Equals(0.5)],
    "intervals and a band": [OneOf([(0, 1), (3, 4)]), Between(1.5, 2.5)],
    "a gap and a band": [Outside([(1, 3)]), Between(1.5, 2.5)],
    "intervals, a gap and a bound": [OneOf([(0, 1), (3, 4)]), Outside([(2.5, 5)]), AtLeast(2)],
    "a slope and a trend": [SlopeBetween("x", 1, 2), Decreasing("x")],
    "two slopes": [SlopeBetween("x", 1), SlopeBetween("x", upper="0.5 - x")],
    "two bends": [Convex("x"), CurvatureBetween("x", upper=-1)],
    "bends with steps of their own": [Concave("x", step=0.07), CurvatureBetween("x", 1, step=0.1)],
    "a trend between bounds": [AtLeast(5, where=LOW), AtMost(4, where=HIGH), Increasing("x")],
    "a trend over a step between bounds": [
        AtLeast(5, where=LOW),
        AtMost(4, where=HIGH),
        Increasing("x", over=0.07),
    ],
    "a fall between bounds": [AtMost(4, where=LOW), AtLeast(5, where=HIGH), Decreasing("x")],
    "a slope too small for bounds": [
        AtMost(1, where=LOW),
        AtLeast(4, where=HIGH),
        SlopeBetween("x", 0, 4),
    ],
    "a bend between bounds": [
        Between(0, 1, where={"x": 0.0}),
        Between(0, 1, where={"x": 1.0}),
        AtLeast(2, where={"x": 0.5}),
        Convex("x", where={"x": (0, 1)}),
    ],
    "comparisons": [
        Compare({"flag": 1}, below={"flag": 0}, by=1),
        Compare({"flag": 0}, below={"flag": 1}),
    ],
    "a comparison and a trend": [Compare({"flag": 1}, below={"flag": 0}, by=1), Increasing("flag")],
    "a comparison between bounds": [
        AtLeast(5, where={"flag": 1}),
        AtMost(4, where={"flag": 0}),
        Compare({"flag": 1}, below={"flag": 0}),
    ],
    "a comparison with the row itself": [
        Compare({"x": "x + 0.1"}, above={}, by=1, where={"x": (0, 0.9)}),
        SlopeBetween("x", upper=5),
    ],
    "a comparison within and one above": [
        Compare({"flag": 1}, within={"flag": 0}, by=1),
        Compare({"flag": 1}, above={"flag": 0}, by=2),
    ],
    "a combined rule with another": [Combined([AtLeast(5), Increasing("x")]), AtMost(4)],
    "a combined rule with itself": [Combined([AtLeast(5), AtMost(4)])],
    "regions that barely overlap": [
        AtLeast(5, where={"x": (0, 0.5)}),
        AtMost(4, where={"x": (0.4999, 1)}),
    ],
    "thin regions of different columns": [
        AtLeast(5, where={"x": (0.4999, 0.5)}),
        AtMost(4, where={"z": (4.999, 5)}),
    ],
    "bounds in thin regions and a trend": [
        AtLeast(5, where={**LOW, "z": (4.999, 5)}),
        AtMost(4, where={**HIGH, "flag": 0.5}),
        Increasing("x", where={"x": (0, 1)}),
    ],
    "three regions that barely overlap": [
        AtLeast(5, where={**LOW, "z": (0, 5)}),
        AtMost(4, where={**HIGH, "z": (4.999, 8)}),
        Increasing("x", where={"x": (0, 1), "z": (4.998, 9)}),
    ],
    "a bend and the only curve there is": [
        AtLeast("x**2", where={"x": (0, 1)}),
        AtMost("x**2", where={"x": (0, 1)}),
        CurvatureBetween("x", upper=1.9, where={"x": (0, 1)}),
    ],
    "the same text": [AtLeast(5, of="y - z"), AtMost(4, of="y - z")],
    "the output by name and without": [AtLeast(5, of="y"), AtMost(4)],
    "probable ones that must meet": [AtLeast(5).probably(0.9), AtMost(4).probably(0.8)],
}  # fmt: skip


@pytest.mark.parametrize("name", CLASHES)
def test_rules_that_clash_are_named_and_no_bystander(name: str) -> None:
    rules = CLASHES[name]
    (conflict,) = conflicts([BYSTANDERS[0], *rules, *BYSTANDERS[1:]], TABLE)
    assert conflict.contradiction
    assert len(conflict.rules) == len(rules)
    assert not set(conflict.rules) & {rule.name for rule in BYSTANDERS}
    for kept in range(len(rules)):
        assert conflicts([*rules[:kept], *rules[kept + 1 :], *BYSTANDERS], TABLE) == []


PEACE: dict[str, list[Rule]] = {
    "bounds that touch": [AtLeast(4), AtMost(4)],
    "bounds in text that touch": [AtLeast("0.1*3"), AtMost(0.3)],
    "bounds where regions do not overlap": [AtLeast(5, where=LOW), AtMost(4, where=HIGH)],
    "rising and falling": [Increasing("x"), Decreasing("x")],
    "convex and concave": [Convex("x"), Concave("x")],
    "bounds in the order of the trend": [AtLeast(5, where=HIGH), AtMost(4, where=LOW), Increasing("x")],
    "a trend elsewhere": [AtLeast(5, where=LOW), AtMost(4, where=HIGH), Increasing("x", where=LOW)],
    "a trend along another column": [AtLeast(5, where=LOW), AtMost(4, where=HIGH), Increasing("z")],
    "a trend over a step that forgives": [
        AtLeast(5, where={"x": (0.5, 0.52)}),
        AtMost(4, where={"x": (0.6, 0.62)}),
        Increasing("x", over=0.3),
    ],
    "a trend over a step and a half": [
        AtLeast(5, where={"x": (0.5, 0.52)}),
        AtMost(4, where={"x": (0.6, 0.62)}),
        Increasing("x", over=0.07),
    ],
    "a trend in two places, not between": [
        AtLeast(5, where=LOW),
        AtMost(4, where=HIGH),
        Increasing("x", where=[LOW, HIGH]),
    ],
    "a bend that is the curve's own": [
        AtLeast("x**2", where={"x": (0, 1)}),
        AtMost("x**2", where={"x": (0, 1)}),
        CurvatureBetween("x", 2, 2, where={"x": (0, 1)}),
    ],
    "a slope that is the curve's own": [
        AtLeast("x**2", where={"x": (0, 1)}),
        AtMost("x**2", where={"x": (0, 1)}),
        SlopeBetween("x", "2*x", "2*x", where={"x": (0, 1)}),
    ],
    "a bend over a long step": [
        Between(0, 0.1, where=[{"x": (0, 0.4)}, {"x": (0.6, 1)}]),
        AtLeast(0.2, where={"x": 0.5}),
        CurvatureBetween("x", -4, 4, step=0.4, where={"x": (0, 1)}),
    ],
    "a slope just large enough": [AtMost(1, where=LOW), AtLeast(4, where=HIGH), SlopeBetween("x", 0, 5)],
    "bounds of different subjects": [AtLeast(5, of="y - z"), AtMost(4, of="y + z")],
    "comparisons that allow a tie": [
        Compare({"flag": 1}, below={"flag": 0}),
        Compare({"flag": 0}, below={"flag": 1}),
    ],
    "intervals with a way out": [OneOf([(0, 1), (3, 4)]), Outside([(2.5, 5)])],
    "a score": [Score(lambda function, x: function(x)), AtLeast(0)],
    "an average": [AtLeast(5).on_average(), AtMost(4)],
    "values within reach of each other": [Equals(3, within=0.1), Equals(3.15, within=0.1)],
}  # fmt: skip


@pytest.mark.parametrize("name", PEACE)
def test_rules_that_can_hold_together_are_left_in_peace(name: str) -> None:
    assert conflicts(PEACE[name], TABLE) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (AtLeast(5).soft(10), AtMost(4)),
        (AtLeast(5).in_prior(10), AtMost(4)),
        (AtLeast(5).hard(0.5), AtMost(4)),
        (AtLeast(5).probably(0.6), AtMost(4).probably(0.3)),
        (AtLeast(5).probably(0.9, of="points"), AtMost(4)),
        (SlopeBetween("x", 1).soft(1), Decreasing("x")),
    ],
)
def test_a_strength_that_gives_way_makes_a_note_of_it(first: Rule, second: Rule) -> None:
    (conflict,) = conflicts([first, second, *BYSTANDERS], TABLE)
    assert not conflict.contradiction
    assert len(conflict.rules) == 2


def test_rules_that_are_all_soft_are_compared_too() -> None:
    assert conflicts([AtLeast(0).soft(1)], TABLE) == []
    (conflict,) = conflicts([AtLeast(5).soft(1), AtMost(4).soft(1)], TABLE)
    assert not conflict.contradiction


MEANS: dict[str, tuple[list[Rule], bool]] = {
    "averages": ([AtLeast(1).on_average(0), AtMost(0).on_average(0)], True),
    "averages that touch": ([AtLeast(1).on_average(0), AtMost(1).on_average(0)], False),
    "averages that leave room": ([AtLeast(1).on_average(-0.6), AtMost(0).on_average(-0.6)], False),
    "averages that ask for more": ([AtLeast(0).on_average(0.6), AtMost(1).on_average(0.6)], True),
    "bounds that cross, apart on average": ([AtLeast("z").on_average(), AtMost(4).on_average()], True),
    "bounds that cross": ([AtLeast("z").on_average(), AtMost(6).on_average()], False),
    "slopes": ([SlopeBetween("x", 1).on_average(), Decreasing("x").on_average()], True),
    "other regions": ([AtLeast(1, where=LOW).on_average(), AtMost(0, where=HIGH).on_average()], False),
    "overlapping regions": ([AtLeast(1, where=LOW).on_average(), AtMost(0).on_average()], False),
    "other subjects": ([AtLeast(1, of="y - z").on_average(), AtMost(0).on_average()], False),
    "tolerances": ([AtLeast(1).hard(0.4), AtMost(0).hard(0.4)], True),
    "tolerances that leave room": ([AtLeast(1).hard(0.6), AtMost(0).hard(0.6)], False),
    "a tolerance and an average": ([AtLeast(1).hard(0.4), AtMost(0).on_average()], True),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_means_over_the_same_points_are_compared(name: str) -> None:
    rules, clash = MEANS[name]
    same = [rule.on_average() for rule in BYSTANDERS]
    contradicting = [c for c in conflicts([same[0], *rules, *same[1:]], TABLE) if c.contradiction]
    assert len(contradicting) == clash
    for conflict in contradicting:
        assert len(conflict.rules) == 2
        assert not set(conflict.rules) & {rule.name for rule in BYSTANDERS}


def test_a_soft_rule_does_not_hide_a_contradiction() -> None:
    rules = [AtLeast(5, name="a"), AtMost(4, name="b"), AtMost(3, name="soft").soft(1)]
    assert found(rules) == [{"a", "b"}]


def test_a_soft_rule_does_not_hide_a_contradiction_along_a_line() -> None:
    rules = [
        AtLeast(5, where=LOW, name="a"),
        AtMost(4, where=HIGH, name="b"),
        AtMost(3, where=HIGH, name="soft").soft(1),
        Increasing("x", name="rise"),
    ]
    assert found(rules) == [{"a", "b", "rise"}]


def test_every_set_that_clashes_along_a_line_is_named() -> None:
    rules = [
        AtLeast(5, where=LOW, name="a"),
        AtMost(4, where=HIGH, name="b"),
        AtMost(3, where={"x": (0.9, 1)}, name="c"),
        Increasing("x", name="rise"),
        SlopeBetween("x", 0.5, name="steep"),
    ]
    named = [{"a", low, up} for up in ("rise", "steep") for low in ("b", "c")]
    assert sorted(found(rules), key=sorted) == sorted(named, key=sorted)


def test_every_pair_that_clashes_is_named() -> None:
    rules = [AtLeast(5, name="a"), AtMost(4, name="b"), AtMost(3, name="c")]
    assert found(rules) == [{"a", "b"}, {"a", "c"}]


def test_the_message_names_the_rules_the_place_and_what_each_asks() -> None:
    rules = [AtLeast("5 + z", name="high"), AtMost(4, name="low", where={"z": (9, 12)})]
    (conflict,) = conflicts(rules[::-1], TABLE)
    assert str(conflict).startswith("'low' and 'high' cannot hold together: at x=")
    assert "y: 'low' asks for at most 4, 'high' asks for at least 1" in str(conflict)
    assert conflict.place["z"] <= TABLE.span("z")[1]


def test_rules_along_time_and_at_steps() -> None:
    layout = Layout(("altitude",), 2, (), ("altitude",), 3)
    generator = np.random.default_rng(0)
    rows = np.column_stack([generator.normal(size=(20, 2)), np.ones(20)])
    flights = Columns(layout.inputs, layout.targets, rows, generator.normal(size=(20, 3)), layout)
    assert found(
        [Rises("altitude", name="a"), RateBetween("altitude", upper=-1, name="b")], flights
    )
    assert not found([Rises("altitude"), Falls("altitude")], flights)
    assert found([AtLeast(5, at="last"), AtMost(4)], flights)
    assert not found([AtLeast(5, at="last"), AtMost(4, at="first")], flights)


def test_a_column_that_is_not_there_names_the_rule() -> None:
    for rule in (
        AtLeast(0, where={"xx": 1}, name="mine"),
        AtLeast("2*xx", name="mine"),
        Increasing("xx", name="mine"),
        Compare({"xx": 1}, below={}, name="mine"),
    ):
        with pytest.raises(KnowledgeError, match="rule 'mine': .*xx"):
            conflicts([rule, AtMost(1)], TABLE)


# --- no false alarms -----------------------------------------------------------------------

weights = st.lists(st.floats(-3, 3).map(lambda w: round(w, 2)), min_size=5, max_size=5)
starts = st.floats(0, 0.8).map(lambda start: round(start, 2))


@st.composite
def obeyed(draw: Any) -> list[Rule]:
    """Rules that one surface y = w . (1, x, x^2, z, flag) obeys, some of them with no room to spare."""
    w = draw(weights)

    def value(x: float, z: float, flag: float) -> float:
        return w[0] + w[1] * x + w[2] * x**2 + w[3] * z + w[4] * flag

    text = f"{w[0]} + {w[1]}*x + {w[2]}*x**2 + {w[3]}*z + {w[4]}*flag"
    rules: list[Rule] = []
    for _ in range(draw(st.integers(2, 6))):
        low = draw(starts)
        high = round(low + draw(st.sampled_from([0.05, 0.1, 0.2])), 2)
        where = {"x": (low, high)}
        slopes = sorted([w[1] + 2 * w[2] * low, w[1] + 2 * w[2] * high])
        corners = [value(x, z, f) for x in (low, high) for z in (0, 10) for f in (0, 1)]
        turn = -w[1] / (2 * w[2]) if w[2] else low
        corners += [value(min(max(turn, low), high), z, f) for z in (0, 10) for f in (0, 1)]
        rules.append(
            draw(
                st.sampled_from(
                    [
                        AtLeast(text, where=where),
                        AtMost(text, where=where),
                        AtLeast(min(corners), where={**where, "z": (0, 10)}),
                        AtMost(max(corners), where={**where, "z": (0, 10)}),
                        SlopeBetween("x", slopes[0], slopes[1], where=where),
                        SlopeBetween("x", f"{w[1]} + {2 * w[2]}*x", where={"x": (0, 1)}),
                        Increasing("x", where=where) if slopes[0] >= 0 else Convex("z"),
                        Decreasing("x", where=where) if slopes[1] <= 0 else Concave("z"),
                        Convex("x") if w[2] >= 0 else Concave("x"),
                        CurvatureBetween("x", 2 * w[2], 2 * w[2], step=0.01, where=where),
                        SlopeBetween("z", w[3], w[3]),
                        Increasing("z", over=2) if w[3] >= 0 else Decreasing("z", over=3),
                        Compare({"flag": 1}, above={"flag": 0}, by=w[4])
                        if w[4] >= 0
                        else Compare({"flag": 1}, below={"flag": 0}, by=-w[4]),
                        OneOf([(text, text), (1e3, 2e3)], where=where),
                    ]
                )
            )
        )
    return rules


@settings(max_examples=30, deadline=None)
@given(obeyed())
def test_rules_that_some_function_obeys_never_conflict(rules: list[Rule]) -> None:
    assert conflicts(rules, TABLE) == []


def test_a_difference_in_text_accuses_nobody_wrongly() -> None:
    rules = [
        Compare({"x": 1}, below={"x": 0}, by="3 * x", name="falls"),
        Compare({"x": 1}, within={"x": 0}, by="x + 1", name="near"),
    ]
    table = Columns(("x",), ("y",), np.linspace(0, 1, 9)[:, None], np.linspace(0, 9, 9)[:, None])
    assert conflicts(rules, table) == []
    opposed = [rules[0], Compare({"x": 1}, above={"x": 0}, by=1, name="rises")]
    assert [set(found.rules) for found in conflicts(opposed, table)] == [{"falls", "rises"}]
    near = [Compare({"x": 1}, below={"x": 0}, by=1, name="falls"), rules[1]]
    assert conflicts(near, table) == []
