"""A rule bites, however short its step, or is refused with the least step that float32 resolves."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.lines import lines

from prbnn import (
    AtLeast,
    Between,
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
    Rises,
)
from prbnn.certify import certify
from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.data.scaling import sequence_scaling

pytestmark = pytest.mark.light

KINDS = ("none", "standard", "minmax")
# down, up, flat
DRAWS = ((-1.0, 0.3), (1.0, 0.3), (0.0, 1.7))
ROWS = np.linspace(0, 1, 41)[:, None]


def broken(rule, kind="none", draws=DRAWS, rows=ROWS, targets=None):
    posterior = lines(draws, rows, targets, kind)
    return posterior.check([rule], posterior.bind([rule], 512)).broken()[:, 0].tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("over", [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5])
def test_a_line_that_falls_breaks_a_rising_rule_over_any_step(kind, over):
    assert broken(Increasing("x", over=over), kind) == [True, False, False]
    assert broken(Decreasing("x", over=over), kind) == [False, True, False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_whatever_the_units_are(kind, scale):
    rows, targets = ROWS * scale, ROWS * 20
    draws = DRAWS
    if kind == "none":
        draws = tuple((20 * slope / scale, height) for slope, height in DRAWS)
    rule = Increasing("x", over=1e-4 * scale)
    assert broken(rule, kind, draws, rows, targets) == [True, False, False]


@pytest.mark.parametrize("kind", KINDS)
def test_normal_steps_keep_the_unit_of_the_output(kind):
    posterior = lines(DRAWS, ROWS, ROWS * 20, kind)
    unit = posterior.scaling.output_sd[0]
    sd = np.std(ROWS)
    rules = [
        Increasing("x", over=0.2 * sd),
        Compare({"x": 1}, above={"x": 0}),
        Compare({"x": f"x + {0.2 * sd}"}, above={}),
    ]
    assert np.allclose(posterior.bind(rules, 8).units, unit)
    step = 0.2 if kind == "none" else 0.2 * sd
    assert np.allclose(
        posterior.bind([Convex("x", step=step)], 8).units,
        unit / posterior.scaling.input_sd[0] ** 2,
    )


@pytest.mark.parametrize("step", [1e-4, 1e-3, 0.01, 0.3])
def test_two_situations_that_are_close_are_compared(step):
    rule = Compare({"x": f"x + {step}"}, above={})
    assert broken(rule, "standard") == [True, False, False]


@pytest.mark.parametrize("step", [0.003, 0.01, 0.1])
def test_curvature_over_short_steps(step):
    assert broken(Convex("x", step=step, of="y + x ** 2")) == [False] * 3
    assert broken(Convex("x", step=step, of="y - x ** 2")) == [True] * 3
    # straight lines are both, whatever rounding says
    assert broken(Convex("x", step=step)) == [False] * 3
    assert broken(Concave("x", step=step)) == [False] * 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("make", "tried"),
    [
        (lambda step: Increasing("x", over=step, name="r"), 1e-7),
        (lambda step: Decreasing("x", over=step, name="r"), 1e-6),
        (lambda step: Convex("x", step=step, name="r"), 1e-4),
        (lambda step: CurvatureBetween("x", upper=0, step=step, name="r"), 1e-5),
    ],
)
def test_a_step_that_float32_cannot_resolve_is_refused_and_the_least_one_told(kind, make, tried):
    posterior = lines(DRAWS, kind=kind)
    with pytest.raises(KnowledgeError, match="rule 'r': .*cannot be resolved.*float32") as error:
        posterior.bind([make(tried)], 8)
    least = float(
        re.search(r"(?:give \w+=|take a step of )([\d.e-]+) or more", str(error.value))[1]
    )
    posterior.bind([make(least)], 8)
    with pytest.raises(KnowledgeError, match="cannot be resolved"):
        posterior.bind([make(0.8 * least)], 8)


def test_situations_that_float32_cannot_tell_apart_are_refused():
    with pytest.raises(
        KnowledgeError, match="rule 'r': two situations .* apart cannot be resolved"
    ):
        lines(DRAWS).bind([Compare({"x": "x + 1e-7"}, above={}, name="r")], 8)


NARROW = [
    Equals(1.0, within=1e-6, name="r"),
    Outside([(0.5, 0.5)], name="r"),
    Between("x", "x + 1e-5", name="r"),
    OneOf([(0, 1e-5), (1, 1 + 1e-5)], name="r"),
    Outside([(0.5, 0.50001)], name="r"),
    Compare({"x": 1}, within={"x": 0}, by=1e-6, name="r"),
    CurvatureBetween("x", 0, 1e-6, step=0.2, name="r"),
]


@pytest.mark.parametrize("rule", NARROW, ids=lambda rule: rule.describe())
def test_limits_closer_than_the_check_are_refused_where_every_draw_counts(rule):
    posterior = lines(DRAWS)
    for strict in (rule, rule.probably(0.9)):
        with pytest.raises(KnowledgeError, match="rule 'r': its limits are .* apart at most"):
            posterior.bind([strict], 64)
    # a mean has no such tolerance
    for other in (rule.soft(1.0), rule.hard(0.1), rule.on_average(-1.0)):
        posterior.bind([other], 64)


def test_limits_that_meet_at_a_point_are_kept():
    lines(DRAWS).bind([Between(0, "x", where={"x": (0, 1)})], 64)
    # and those that meet everywhere: a value, as near as is checked
    lines(DRAWS).bind([Between("x", "x")], 64)


@pytest.mark.parametrize(
    ("rule", "rows", "targets"),
    [
        (AtLeast(0, name="r"), ROWS, 1e-5 * ROWS),
        (Increasing("x", name="r"), 1e6 * ROWS, ROWS),
        (Increasing("x", over=1e3, name="r"), 1e6 * ROWS, 1e-3 * ROWS),
        (Convex("x", name="r"), 1e3 * ROWS, ROWS),
    ],
)
def test_units_in_which_no_function_breaks_a_rule_are_told(rule, rows, targets):
    with pytest.raises(KnowledgeError, match="rule 'r': with scaling='none'.*scaling='standard'"):
        lines(DRAWS, rows, targets).bind([rule], 8)
    lines(DRAWS, rows, targets, "standard").bind([rule], 8)


def test_a_slow_trajectory_is_held_to_its_own_pace():
    # a variable with a spread of 100 between sequences that falls by .005 a step
    layout = Layout(("z",), 2, (), ("z",), 4)
    starts = np.linspace(-150, 150, 30)[:, None]
    rows = np.hstack([starts + 0.01, starts + 0.005, np.ones((30, 1))])
    targets = starts - 0.005 * np.arange(4)
    scaling = sequence_scaling(layout, rows, targets, "standard")
    columns = Columns(layout.inputs, layout.targets, rows, targets, layout)
    for rule in (Falls("z"), Rises("z", lag=2)):
        unit = float(rule.bind(columns, scaling, rows).unit)
        # checked to a hundredth of the change, where float32 has so many digits
        assert 1e-4 * unit <= max(0.011 * 0.005, 1.1e-6 * scaling.output_sd[0])
    quick = Columns(layout.inputs, layout.targets, rows, starts - 30.0 * np.arange(4), layout)
    assert float(Falls("z").bind(quick, scaling, rows).unit) == pytest.approx(
        scaling.output_sd[0], rel=1e-5
    )


def test_a_proof_reads_a_short_step_as_the_check_does():
    posterior = lines(DRAWS[:2], ROWS, ROWS * 20, "standard")
    rule = Increasing("x", over=1e-3, name="over")
    (found,) = certify(posterior, [rule], seconds=4.0).rules
    assert found.verdicts == "RP"
    assert found.tolerance == pytest.approx(1e-4 * posterior.bind([rule], 8).units[0], rel=1e-5)
    # as far below 0 as the line falls over the step
    fall = 1e-3 / posterior.scaling.input_sd[0] * posterior.scaling.output_sd[0]
    assert found.counterexamples[0].score == pytest.approx(-fall, rel=0.01)
