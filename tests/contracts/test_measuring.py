"""Scores become the f and the broken of each strength, as `measure` documents them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import AtLeast, Combined, Convex, Score
from prbnn.enforcement.measure import Measured, measure
from prbnn.rules.scoring.binding import bind_all
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.rules.strengths import Hard, OnAverage, Probable
from tests.contracts.cases import CASES, ONE, WHERE, case_called, level_slope_and_bend
from tests.contracts.programs import bound, compiled_measure, compiled_scores, network_of
from tests.contracts.surfaces import POINTS, SCALINGS, close, scaled, surface, table

pytestmark = pytest.mark.light


def measured_by_hand(
    score: np.ndarray, strength: Any, weights: np.ndarray | None, softness: float
) -> tuple[float, float]:
    """f and broken, as `measure` documents them, from scores of shape (points, components)."""
    if isinstance(strength, Probable):
        counted = score.min(axis=1) if strength.of == "points" else score.min().reshape(1)
        surrogate = 1 / (1 + np.exp(counted / softness))
        return -surrogate.mean(), np.mean(counted < 0)
    kept = score if isinstance(strength, OnAverage) else np.minimum(score, 0)
    at_points = kept.mean(axis=1) if weights is None else (kept * weights).sum(axis=1)
    return at_points.mean(), float(score.min() < -CHECK_TOLERANCE)


@pytest.mark.parametrize(
    "name",
    [
        "at least a number",
        "slope of the second output",
        "score with several components",
        "combined with a step and a score",
    ],
)
def test_measuring_follows_its_formula_for_every_strength(name: str) -> None:
    case = case_called(name)
    rule = case.rule
    rules = [
        rule.soft(2.0),
        rule.hard(),
        rule.hard(0.1),
        rule.probably(0.9),
        rule.probably(0.9, of="points"),
        rule.on_average(0.3),
    ]
    columns = table(case.outputs)
    knowledge = bind_all(rules, columns, scaled(columns, "standard"), POINTS)
    weights = np.array(rule.each_weight) if isinstance(rule, Combined) else None
    for surface_weights in (case.obeys, case.breaks):
        network = network_of(case, surface_weights)
        measured = compiled_measure(knowledge, network, 0.3)
        score = np.asarray(compiled_scores(bound(case), network)[0], np.float64)
        expected = [measured_by_hand(score, rule.strength, weights, 0.3) for rule in rules]
        close(measured.f, [f for f, _ in expected])
        close(measured.broken, [broken for _, broken in expected])


def test_a_block_of_points_is_measured_like_the_pool() -> None:
    case = case_called("combined with a step and a score")
    knowledge, network = bound(case), network_of(case, case.breaks)
    (pool,) = compiled_scores(knowledge, network)

    @eqx.filter_jit
    def of_block(start: jax.Array) -> tuple[list[jax.Array], Measured]:
        return knowledge.scores(network, start, 24), measure(knowledge, network, start, 24)

    for start in (0, 16, 40):
        (block,), measured = of_block(jnp.asarray(start))
        close(block, pool[start : start + 24])
        weights = np.array(case.rule.each_weight)
        f, broken = measured_by_hand(np.asarray(block), Hard(), weights, 0.02)
        close(measured.f, [f])
        close(measured.broken, [broken])


def test_rules_are_measured_in_the_order_the_user_gave() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    cases = [case for case in CASES if case.outputs == ONE][::-6]
    rules = [case.rule for case in cases]
    network = surface(cases[0].breaks, scaling)
    together = bind_all(rules, columns, scaling, POINTS)
    alone = [bind_all([rule], columns, scaling, POINTS) for rule in rules]
    close(together.units, [knowledge.units[0] for knowledge in alone])
    assert len({len(group.places) for group in together.groups}) > 1, "some should share points"
    for received, knowledge in zip(together.scores(network), alone, strict=True):
        close(received, compiled_scores(knowledge, network)[0])


def test_checking_leaves_the_margins_of_combined_parts_out() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    received, expected = (
        bind_all([Combined([AtLeast(0, margin=margin)])], columns, scaling, 4, margins=False)
        for margin in (5.0, 0.0)
    )
    network = surface([1, 0, 0, 0, 0], scaling)
    close(received.scores(network)[0], expected.scores(network)[0])


def test_the_default_step_of_a_combined_part_fits_the_region_of_the_whole() -> None:
    columns = table(ONE)
    narrow = {"x": (0.5, 0.6)}
    whole, part = Combined([Convex("x")], where=narrow), Convex("x", where=narrow)
    assert whole.sampling(columns) == part.sampling(columns)


def test_a_combined_part_counts_the_mean_of_its_components() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    rule = Score(level_slope_and_bend, where=WHERE)
    network = surface(case_called("score with several components").breaks, scaling)
    alone, whole = (
        measure(bind_all([rule], columns, scaling, POINTS), network).f
        for rule in (rule, Combined([rule], where=WHERE))
    )
    close(whole, alone)


def value_under_a_condition(function: Any, x: Any) -> Any:
    return jax.lax.cond(x["x"] > 1, lambda: function(x), lambda: 0.0)


def test_a_score_may_call_the_function_inside_a_jax_transformation() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    rules = [Score(value_under_a_condition), AtLeast(0)]
    network = surface([0, 1, 0, 0, 0], scaling)
    conditional, plain = bind_all(rules, columns, scaling, 8).scores(network)
    assert np.all(np.asarray(plain) > 0)
    assert np.any(np.asarray(conditional) == 0)
    assert np.any(np.asarray(conditional) > 0)


@pytest.mark.parametrize("of", ["functions", "points"])
def test_rounding_does_not_break_a_rule_of_any_strength(of: Any) -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    rules = [Convex("x"), Convex("x").probably(0.9, of=of)]
    line = surface([1, 0.3, 0, 0, 0], scaling)
    measured = measure(bind_all(rules, columns, scaling, POINTS), line)
    assert measured.broken.tolist() == [0, 0]


def test_an_output_and_a_text_that_equals_it_have_the_same_unit_under_every_scaling() -> None:
    columns = table(ONE)
    for kind in SCALINGS:
        units = bind_all(
            [AtLeast(0), AtLeast(0, of="y + 0")], columns, scaled(columns, kind), POINTS
        ).units
        close(units[0], units[1])
