"""Rules on trajectories, scored by hand: rules along time, and rules on values at chosen steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.compiling import compilations
from tests.rules.flights import (
    FLIGHT,
    POINTS,
    SCALINGS,
    bound,
    close,
    fixed,
    flights,
    points,
    refusal,
    score,
)

from prbnn import (
    AtLeast,
    AtMost,
    Between,
    Combined,
    Compare,
    Continues,
    Equals,
    Falls,
    Increasing,
    OneOf,
    Outside,
    RateBetween,
    Rises,
    Score,
)
from prbnn.data.layout import OBSERVED, Layout
from prbnn.data.scaling import ScalingKind
from prbnn.enforcement.measure import measure
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge

# --- how a sequence lies in a row --------------------------------------------------------------


def test_a_row_holds_steps_one_after_another_then_what_is_fixed_then_the_share_observed() -> None:
    layout = Layout(("a", "b"), 3, ("s", "t"), ("b",), 2)
    assert layout.inputs == (
        *("a[-2]", "b[-2]", "a[-1]", "b[-1]", "a[0]", "b[0]"),
        *("s", "t", "share of steps observed"),
    )
    assert layout.targets == ("b[1]", "b[2]")
    assert layout.inputs[-1] == OBSERVED


def test_targets_are_step_by_step() -> None:
    assert FLIGHT.targets[:4] == ("speed[1]", "altitude[1]", "speed[2]", "altitude[2]")


def test_outputs_without_steps_keep_their_names() -> None:
    vector = Layout(("a",), 2, (), ("y", "z"), 0)
    assert vector.targets == ("y", "z")
    assert vector.positions("z") == (1,)


def test_observed_steps_are_where_their_names_are() -> None:
    for variable in FLIGHT.variables:
        places = FLIGHT.observed(variable)
        assert [FLIGHT.inputs[k] for k in places] == [f"{variable}[{k}]" for k in (-2, -1, 0)]


AT = {
    "every": (None, (1, 2, 3, 4)),
    "first": ("first", (1,)),
    "last": ("last", (4,)),
    "one": (2, (2,)),
    "several": ([1, 3], (1, 3)),
    "as a range": (range(2, 5), (2, 3, 4)),
}


@pytest.mark.parametrize(("at", "steps"), AT.values(), ids=AT)
def test_steps_ahead_are_where_their_names_are(at: Any, steps: tuple[int, ...]) -> None:
    assert FLIGHT.steps(at) == steps
    places = FLIGHT.positions("altitude", at)
    assert [FLIGHT.targets[k] for k in places] == [f"altitude[{step}]" for step in steps]


@pytest.mark.parametrize("at", ["frist", "", 0, 5, -1, [], [1, 5], [1, "2"]])
def test_steps_that_do_not_exist_are_refused(at: Any) -> None:
    message = refusal(lambda: FLIGHT.steps(at))
    assert message == f"at={at!r} must be 'first', 'last', or one or several steps from 1 to 4"


def test_a_layout_names_the_output_nearest_to_a_misspelt_one() -> None:
    assert refusal(lambda: FLIGHT.positions("sped")) == "no output 'sped'; did you mean 'speed'?"
    assert "several outputs (speed, altitude); say which" in refusal(lambda: FLIGHT.positions(None))
    assert refusal(lambda: FLIGHT.observed("wind")) == (
        "'wind' was not observed before; observed: altitude, heading, speed"
    )


# --- rules on values ---------------------------------------------------------------------------

CLIMB = [1000.0, 1010.0, 1030.0, 1060.0]


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize(("at", "steps"), AT.values(), ids=AT)
def test_a_bound_speaks_of_the_steps_it_names(at: Any, steps: tuple, kind: ScalingKind) -> None:
    found = score(AtMost(1025, of="altitude", at=at), kind, altitude=CLIMB)
    assert found.shape == (POINTS, len(steps))
    close(found, [1025 - CLIMB[step - 1] for step in steps])


@dataclass(frozen=True)
class Value:
    """A rule on the altitudes of a climb, and its score at each of the rule's steps."""

    rule: Rule
    expected: list[float]


VALUES = {
    "at least": Value(AtLeast(1005, of="altitude"), [-5, 5, 25, 55]),
    "between": Value(Between(980, 1040, of="altitude"), [20, 30, 10, -20]),
    "equals": Value(Equals(1050, within=15, of="altitude", at="last"), [5]),
    "one of": Value(OneOf([(990, 1002), (1020, 1035)], of="altitude"), [2, -8, 5, -25]),
    "outside": Value(Outside([(990, 1002), (1020, 1035)], of="altitude"), [-2, 8, -5, 25]),
    "other output": Value(AtMost(72, of="speed", at=[2, 4]), [2, 2]),
    "difference": Value(AtLeast(935, of="altitude - speed"), [-5, 5, 25, 55]),
    "difference at the last": Value(AtLeast(935, of="altitude - speed", at="last"), [55]),
    "difference at some": Value(AtLeast(935, of="altitude - speed", at=[3, 1]), [25, -5]),
    "callable": Value(
        AtLeast(10, of=lambda x, y: y["altitude"] - 14 * y["speed"]), [10, 20, 40, 70]
    ),
    "callable at the first": Value(
        AtMost(80, of=lambda x, y: y["altitude"] - 14 * y["speed"], at="first"), [60]
    ),
}


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("case", VALUES.values(), ids=VALUES)
def test_a_rule_on_values_is_scored_step_by_step(case: Value, kind: ScalingKind) -> None:
    close(score(case.rule, kind, altitude=CLIMB), case.expected)


@pytest.mark.parametrize("kind", SCALINGS)
def test_bounds_and_quantities_may_name_what_was_observed(kind: ScalingKind) -> None:
    ceiling = AtMost("`altitude[0]` + weight", of="altitude")
    seen = points(ceiling)
    close(
        score(ceiling, kind, altitude=CLIMB),
        (seen["altitude[0]"] + seen["weight"])[:, None] - np.array(CLIMB),
    )
    gained = AtLeast(0, of="altitude - `altitude[-1]`", at=[1, 4])
    close(
        score(gained, kind, altitude=CLIMB),
        np.array([1000, 1060]) - seen["altitude[-1]"][:, None],
    )


def test_a_forbidden_interval_may_be_smooth() -> None:
    found = score(Outside([(1005, 1035)], smooth=(15.0, 2.0), of="altitude"), altitude=CLIMB)
    close(found, [0, -1, -1, 0])


def test_a_trend_over_what_does_not_change_speaks_of_every_step_or_of_one() -> None:
    columns, heavier = flights(), jnp.array([1.0, 2.0, 3.0, 4.0])
    place = FLIGHT.inputs.index("weight")
    for at, gains in ((None, [1, 2, 3, 4]), ("last", [4]), (2, [2])):
        knowledge, _ = bound(Increasing("weight", of="altitude", at=at), "none", columns)
        values = jnp.zeros(8).at[1::2]
        (found,) = knowledge.scores(lambda x, v=values: v.set(heavier * x[place]))
        close(np.asarray(found) * knowledge.units[0], gains)


def test_a_comparison_speaks_of_every_step() -> None:
    rule = Compare({"weight": 20}, below={"weight": 25}, of="speed", by=2)
    knowledge, _ = bound(rule, "none")
    place = FLIGHT.inputs.index("weight")
    slope = jnp.array([1.0, 0.5, 0.2, -1.0])
    (found,) = knowledge.scores(lambda x: jnp.zeros(8).at[0::2].set(slope * x[place]))
    close(np.asarray(found) * knowledge.units[0], [3, 0.5, -1, -7])


# --- rules along time --------------------------------------------------------------------------


@dataclass(frozen=True)
class Along:
    """A rule along time; altitudes that obey it and others that break it, each with its scores."""

    rule: Rule
    obeys: tuple[list[float], list[float]]
    breaks: tuple[list[float], list[float]]


ALONG = {
    "falls": Along(
        Falls("altitude"),
        ([1000, 990, 985, 985], [10, 5, 0]),
        ([1000, 990, 995, 970], [10, -5, 25]),
    ),
    # the change a step, taken over two of them: a bump between is allowed
    "falls over two": Along(
        Falls("altitude", lag=2),
        ([1000, 1004, 990, 994], [5, 5]),
        ([1000, 996, 1008, 970], [-4, 13]),
    ),
    "rises": Along(
        Rises("altitude"),
        ([1000, 1003, 1003, 1010], [3, 0, 7]),
        ([1000, 1003, 1001, 1010], [3, -2, 9]),
    ),
    "rises over three": Along(
        Rises("altitude", lag=3),
        ([1000, 1100, 900, 1006], [2]),
        ([1000, 1100, 900, 997], [-1]),
    ),
    "rate": Along(
        RateBetween("altitude", -3, 6),
        ([1000, 998, 1001, 1005], [1, 3, 2]),
        ([1000, 995, 1001, 1011], [-2, 0, -4]),
    ),
    "rate over two": Along(
        RateBetween("altitude", -3, 6, lag=2),
        ([1000, 1100, 1004, 1100], [4, 3]),
        ([1000, 1100, 990, 1120], [-2, -4]),
    ),
    "rate from below": Along(
        RateBetween("altitude", lower=-3),
        ([1000, 998, 1100, 1100], [1, 105, 3]),
        ([1000, 996, 1100, 1000], [-1, 107, -97]),
    ),
    "rate from above": Along(
        RateBetween("altitude", upper=6),
        ([1000, 900, 904, 900], [106, 2, 10]),
        ([1000, 900, 907, 900], [106, -1, 13]),
    ),
}


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("case", ALONG.values(), ids=ALONG)
def test_a_rule_along_time_is_scored_by_hand(case: Along, kind: ScalingKind) -> None:
    for trajectory, expected in (case.obeys, case.breaks):
        close(score(case.rule, kind, altitude=trajectory), expected)
    assert np.min(case.obeys[1]) >= 0 > np.min(case.breaks[1])


OBSERVED_FIRST: dict[str, tuple[Rule, Callable[[np.ndarray], np.ndarray]]] = {
    "falls": (Falls("altitude", observed=True), lambda y: y[:, :-1] - y[:, 1:]),
    "rises over two": (
        Rises("altitude", lag=2, observed=True),
        lambda y: (y[:, 2:] - y[:, :-2]) / 2,
    ),
    "rises over all": (
        Rises("altitude", lag=4, observed=True),
        lambda y: (y[:, 4:] - y[:, :1]) / 4,
    ),
    "rate": (
        RateBetween("altitude", -40, 50, observed=True),
        lambda y: np.minimum(np.diff(y) + 40, 50 - np.diff(y)),
    ),
    "continues": (
        Continues("altitude", within=50),
        lambda y: 50 - np.abs(y[:, 1:2] - y[:, :1]),
    ),
}


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("name", OBSERVED_FIRST)
def test_the_last_observed_step_comes_before_the_first_one_ahead(
    name: str, kind: ScalingKind
) -> None:
    rule, expected = OBSERVED_FIRST[name]
    last = points(rule)["altitude[0]"]
    trajectory = np.column_stack([last, np.tile(CLIMB, (POINTS, 1))])
    wanted = expected(trajectory)
    assert wanted.min() < 0 < wanted.max()
    close(score(rule, kind, altitude=CLIMB), wanted)


@pytest.mark.parametrize("kind", SCALINGS)
def test_an_observed_variable_is_read_in_its_own_place(kind: ScalingKind) -> None:
    rule = Continues("speed", within=3)
    last = points(rule)["speed[0]"]
    close(score(rule, kind, speed=[71.0, 0, 0, 0]), 3 - np.abs(71 - last)[:, None])


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_score_of_your_own_sees_the_whole_trajectory(kind: ScalingKind) -> None:
    def above_what_was_seen(function: Any, x: Any) -> Any:
        assert x["altitude"].shape == (3,)
        assert x["weight"].shape == ()
        assert function(x, "altitude").shape == (4,)
        return function(x, "altitude") - jnp.max(x["altitude"]) + x["weight"]

    rule = Score(above_what_was_seen)
    seen = points(rule)
    highest = np.max([seen[f"altitude[{step}]"] for step in (-2, -1, 0)], axis=0)
    close(score(rule, kind, altitude=CLIMB), np.array(CLIMB) - (highest - seen["weight"])[:, None])


@pytest.mark.parametrize("kind", SCALINGS)
def test_observed_steps_reach_a_score_oldest_first(kind: ScalingKind) -> None:
    rule = Score(lambda function, x: x["speed"] + 0 * jnp.sum(function(x, "speed")))
    seen = points(rule)
    close(score(rule, kind), np.stack([seen[f"speed[{k}]"] for k in (-2, -1, 0)], axis=1))


def test_a_score_may_ask_what_another_past_would_have_changed() -> None:
    rule = Score(lambda function, x: function(x.replace(altitude=jnp.arange(3.0)), "altitude"))
    knowledge, _ = bound(rule, "none")
    places = np.array([FLIGHT.inputs.index(f"altitude[{step}]") for step in (-2, -1, 0)])
    weights = jnp.array([100.0, 10.0, 1.0])
    (found,) = knowledge.scores(lambda x: jnp.zeros(8) + weights @ x[places])
    close(np.asarray(found) * knowledge.units[0], 12)


def test_rules_combine_step_by_step() -> None:
    rule = Combined([Falls("altitude"), AtLeast(60, of="speed", at="last")], weights=[2, 1])
    knowledge, scaling = bound(rule)
    trajectory = {"altitude": [1000, 990, 995, 970], "speed": [0, 0, 0, 70]}
    (found,) = knowledge.scores(fixed(trajectory, scaling))
    speed, altitude = scaling.output_sd[0], scaling.output_sd[1]
    close(found, [10 / altitude, -5 / altitude, 25 / altitude, 10 / speed])


def test_a_margin_is_in_the_users_units() -> None:
    close(score(Falls("altitude", margin=4), altitude=[1000, 990, 985, 985]), [6, 1, -4])


def test_the_unit_is_the_spread_of_the_variable_over_all_its_steps() -> None:
    knowledge, _ = bound(Falls("altitude"))
    columns = flights()
    shares = columns.rows[:, -1]
    seen = [
        columns.rows[shares > (-step) / 3 + 0.01, FLIGHT.inputs.index(f"altitude[{step}]")]
        for step in (-2, -1, 0)
    ]
    everything = np.concatenate([*seen, columns.targets[:, 1::2].ravel()])
    assert knowledge.units[0] == pytest.approx(np.std(everything), rel=1e-5)


def test_the_unit_of_an_expression_is_its_spread_over_all_steps_ahead() -> None:
    columns = flights()
    speed, altitude = columns.targets[:, 0::2], columns.targets[:, 1::2]
    weight = columns.rows[:, [FLIGHT.inputs.index("weight")]]
    for at in (None, "last"):
        knowledge, _ = bound(AtLeast(0, of="altitude - weight * speed", at=at))
        wanted = np.std(altitude - weight * speed)
        assert knowledge.units[0] == pytest.approx(wanted, rel=1e-5)


def test_the_gradient_of_a_broken_rule_bends_the_trajectory_back() -> None:
    knowledge, _ = bound(Falls("altitude", lag=2))

    def violation(altitude: jax.Array) -> jax.Array:
        values = jnp.zeros(8).at[1::2].set(altitude)
        return measure(knowledge, lambda x: values).f[0]

    # step 3 is above step 1, step 4 is below step 2
    gradient = np.asarray(jax.jit(jax.grad(violation))(jnp.array([0.0, 0.0, 0.5, -0.5])))
    assert gradient[0] > 0 > gradient[2]
    assert gradient[1] == gradient[3] == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            RateBetween("altitude", -3, 6, observed=True),
            RateBetween("altitude", -9, 2, observed=True),
        ),
        (Continues("altitude", within=50), Continues("altitude", within=5)),
        (Falls("altitude"), Falls("altitude", margin=3)),
        (AtMost(9, of="altitude", at=[1, 3]), AtMost(99, of="altitude", at=[1, 3])),
    ],
    ids=["rate", "continues", "margin", "at"],
)
def test_other_numbers_and_other_data_compile_nothing_anew(first: Rule, second: Rule) -> None:
    @eqx.filter_jit
    def scores(knowledge: BoundKnowledge, values: jax.Array) -> list[jax.Array]:
        return knowledge.scores(lambda x: values)

    values = jnp.arange(8.0)
    (other, _), (one, _) = bound(second, columns=flights(seed=1)), bound(first)
    before = scores(one, values)
    with compilations() as names:
        after = scores(other, values)
    assert names == []
    assert not np.array_equal(before[0], after[0])
