"""Rules on trajectories, scored by hand: rules along time, and rules on values at chosen steps.

A flight is observed for three steps and predicted for four. Its outputs come in another order than
its observed variables, one variable is observed only, and some rows saw fewer steps: what is read
from the wrong place is a number of another size.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.compiling import compilations

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
    KnowledgeError,
    OneOf,
    Outside,
    RateBetween,
    Rises,
    Score,
)
from prbnn.data.columns import Columns
from prbnn.data.layout import OBSERVED, Layout
from prbnn.data.scaling import Scaling, ScalingKind, scaling_of, sequence_scaling
from prbnn.enforcement.measure import measure
from prbnn.rules.base import Rule, named
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all
from prbnn.rules.strengths import Probable, Soft

FLIGHT = Layout(("altitude", "heading", "speed"), 3, ("weight",), ("speed", "altitude"), 4)
SCALINGS: tuple[ScalingKind, ...] = ("standard", "minmax", "none")
POINTS = 16


def flights(layout: Layout = FLIGHT, seed: int = 0, rows: int = 20) -> Columns:
    """Altitudes about 1000, headings about 5, speeds about 70."""
    generator = np.random.default_rng(seed)
    size = {"altitude": (1000, 80), "heading": (5, 1), "speed": (70, 6), "weight": (30, 4)}
    bare = [name.partition("[")[0] for name in (*layout.inputs[:-1], *layout.targets)]
    values = np.stack([generator.normal(*size[name], rows) for name in bare], axis=1)
    wide = len(layout.inputs) - 1
    seen = generator.integers(1, layout.history + 1, rows) / layout.history
    inputs = np.column_stack([values[:, :wide], seen])
    return Columns(layout.inputs, layout.targets, inputs, values[:, wide:], layout)


def bound(
    rule: Rule, kind: ScalingKind = "minmax", columns: Columns | None = None
) -> tuple[BoundKnowledge, Scaling]:
    columns = columns or flights()
    assert columns.layout is not None
    scaling = sequence_scaling(columns.layout, columns.rows, columns.targets, kind)
    return bind_all([rule], columns, scaling, POINTS), scaling


def fixed(trajectory: dict[str, Any], scaling: Scaling) -> Callable:
    """A function that predicts the same trajectory wherever it is asked."""
    steps = [[trajectory[name][step] for name in FLIGHT.outputs] for step in range(4)]
    values = jnp.asarray(scaling.outputs(np.ravel(steps)), float)
    return lambda x: values + 0 * jnp.sum(x)


def score(rule: Rule, kind: ScalingKind = "minmax", **trajectory: list[float]) -> np.ndarray:
    """Scores (points, components) of a trajectory, in the user's units."""
    knowledge, scaling = bound(rule, kind)
    whole = {"altitude": [1000.0] * 4, "speed": [70.0] * 4, **trajectory}
    (found,) = knowledge.scores(fixed(whole, scaling))
    return np.asarray(found, np.float64) * knowledge.units[0]


def points(rule: Rule) -> dict[str, np.ndarray]:
    """Where a rule is tried, by column, in the user's units."""
    knowledge, scaling = bound(rule, "none")
    table = np.asarray(knowledge.groups[0].points, np.float64)
    assert np.array_equal(scaling.input_scale, np.ones(len(FLIGHT.inputs)))
    return dict(zip(FLIGHT.inputs, table.T, strict=True))


def close(received: Any, expected: Any) -> None:
    """Equal up to float32 rounding of numbers of about 1000."""
    expected = np.broadcast_to(np.asarray(expected, float), np.shape(received))
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=2e-3)


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(KnowledgeError) as caught:
        make()
    return str(caught.value)


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
