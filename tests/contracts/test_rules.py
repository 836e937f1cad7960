"""Every rule through one suite: what it scores, under which transformations, and as a plain value."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import prbnn
from prbnn import MLP
from prbnn.data.scaling import ScalingKind
from prbnn.rules.along_time import Along
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all
from prbnn.rules.scoring.drawn import Drawn
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.rules.strengths import Hard, OnAverage, Probable, Soft
from tests.contracts.cases import CASES, ONE, Case
from tests.contracts.programs import (
    TRACES,
    bound,
    bound_at,
    compiled_scores,
    network_of,
    scores_and_gradients_of_draws,
    total_violation,
)
from tests.contracts.surfaces import (
    INPUTS,
    PLACES,
    POINTS,
    SCALINGS,
    Surface,
    Truth,
    close,
    scaled,
    surface,
    table,
)

pytestmark = pytest.mark.light

every_rule = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_scaling = pytest.mark.parametrize("kind", SCALINGS)


# --- what a rule scores --------------------------------------------------------------------


def concrete_rules(parent: type[Rule] = Rule) -> set[type[Rule]]:
    below = parent.__subclasses__()
    own = {rule for rule in below if rule.__module__.startswith("prbnn.")}
    return {rule for rule in own if not rule.__name__.startswith("_")}.union(
        *(concrete_rules(rule) for rule in below)
    )


def test_every_rule_class_is_in_the_suite_and_public() -> None:
    along_time = {rule for rule in concrete_rules() if issubclass(rule, Along)}
    # those need trajectories: tests/rules/test_along_time.py
    assert {type(case.rule) for case in CASES} == concrete_rules() - along_time
    assert all(hasattr(prbnn, rule.__name__) for rule in concrete_rules() - {Along})


@every_scaling
@every_rule
def test_the_score_is_not_negative_where_the_rule_holds_and_negative_where_not(
    case: Case, kind: ScalingKind
) -> None:
    knowledge = bound(case, kind)
    (obeying,) = compiled_scores(knowledge, network_of(case, case.obeys, kind))
    (breaking,) = compiled_scores(knowledge, network_of(case, case.breaks, kind))
    assert obeying.shape[0] == breaking.shape[0] == POINTS
    assert float(obeying.min()) >= 0
    assert float(breaking.min()) < -CHECK_TOLERANCE


@every_scaling
@every_rule
def test_the_score_times_its_unit_is_the_formula_in_the_users_units(
    case: Case, kind: ScalingKind
) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, kind)
    knowledge = bound_at(case.rule, columns, scaling, PLACES)
    for weights in (case.obeys, case.breaks, np.add(case.breaks, 0.37)):
        (score,) = compiled_scores(knowledge, surface(weights, scaling))
        expected = case.score(Truth(weights, columns, scaling, PLACES)).reshape(POINTS, -1)
        assert score.shape == expected.shape
        close(score * knowledge.units[0], expected)


@pytest.mark.parametrize("kind", ["standard", "minmax"])
@every_rule
def test_the_unit_is_the_spread_of_the_training_data(case: Case, kind: ScalingKind) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, kind)
    close(scaling.input_sd, columns.rows.std(axis=0))
    close(scaling.output_sd, columns.targets.std(axis=0))
    close(bound(case, kind).units, [case.unit(Truth(case.obeys, columns, scaling, PLACES))])


@every_rule
def test_one_point_in_plain_python_is_scored_as_in_the_compiled_pool(case: Case) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, "standard")
    knowledge = bound_at(case.rule, columns, scaling, PLACES)
    network = surface(case.breaks, scaling)
    (pool,) = compiled_scores(knowledge, network)
    rule, place = knowledge.rule(0), 13
    score = rule.score(
        Drawn(network, knowledge.frame),
        knowledge.groups[0].points[place],
        jax.tree.map(lambda array: array[place], rule.known),
    )
    close(jnp.atleast_1d(score), pool[place])


@every_rule
def test_the_margin_shifts_the_score_by_exactly_the_margin(case: Case) -> None:
    network = network_of(case, case.breaks)
    margin = case.rule.margin + 0.25
    (plain,) = compiled_scores(bound(case), network)
    (strict,) = compiled_scores(bound(case, margin=margin), network)
    close((plain - strict) * bound(case).units[0], np.full(plain.shape, 0.25))


@every_rule
def test_checking_leaves_the_margin_out(case: Case) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, "standard")
    network = surface(case.breaks, scaling)
    strict = replace(case.rule, margin=0.25)
    received, expected = (
        compiled_scores(bind_all([rule], columns, scaling, POINTS, margins=False), network)[0]
        for rule in (strict, case.rule)
    )
    close(received, expected)


# --- transformations -----------------------------------------------------------------------


@every_rule
def test_draws_can_be_scored_and_differentiated_side_by_side(case: Case) -> None:
    knowledge, network = bound(case), network_of(case, case.obeys)
    draws = jnp.stack([network.weights, network_of(case, case.breaks).weights])
    (scores,), gradients = scores_and_gradients_of_draws(knowledge, network, draws)
    for weights, score in zip((case.obeys, case.breaks), scores, strict=True):
        close(score, compiled_scores(knowledge, network_of(case, weights))[0])
    assert np.all(np.isfinite(gradients))
    assert float(jnp.abs(gradients[1]).max()) > 1e-3


@every_rule
def test_gradients_are_those_of_finite_differences(case: Case) -> None:
    knowledge, network = bound(case), network_of(case, case.breaks)
    direction = jax.random.normal(jax.random.key(1), network.weights.shape)
    _, gradients = scores_and_gradients_of_draws(
        knowledge, network, jnp.stack([network.weights, network.weights])
    )

    def violation(step: float) -> float:
        moved = eqx.tree_at(lambda n: n.weights, network, network.weights + step * direction)
        (score,) = compiled_scores(knowledge, moved)
        return float(np.mean(np.minimum(np.asarray(score, np.float64), 0)))

    difference = (violation(1e-2) - violation(-1e-2)) / 2e-2
    slope = float(jnp.sum(gradients[0] * direction))
    assert slope == pytest.approx(difference, rel=0.05, abs=2e-3)


def test_rules_of_every_class_together_have_finite_gradients_on_a_relu_network() -> None:
    columns = table(ONE)
    rules = {type(case.rule): case.rule for case in CASES if case.outputs == ONE}
    knowledge = bind_all(list(rules.values()), columns, scaled(columns, "standard"), 16)
    network = MLP((8,)).build(jax.random.key(0), len(INPUTS), 1)
    leaves = jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(total_violation))(network, knowledge))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
    assert all(np.any(np.asarray(leaf) != 0) for leaf in leaves)


def variations(case: Case) -> list[tuple[BoundKnowledge, Surface]]:
    """Other bounds, margins, data, points, weights and scalings of the same declaration."""
    here, elsewhere = table(case.outputs), table(case.outputs, seed=7, rows=56)
    stricter = replace(case.rule, margin=case.rule.margin + 0.1)
    return [
        (
            bind_all([rule], columns, scaled(columns, kind), POINTS, seed=seed),
            surface(weights, scaled(columns, kind)),
        )
        for rule, columns, kind, seed, weights in (
            (case.rule, here, "standard", 0, case.obeys),
            (case.other, here, "standard", 0, case.obeys),
            (stricter, here, "standard", 0, case.obeys),
            (case.rule, elsewhere, "standard", 0, case.obeys),
            (case.rule, here, "standard", 5, case.obeys),
            (case.rule, here, "minmax", 0, case.obeys),
            (case.other, elsewhere, "none", 9, case.breaks),
        )
    ]


@every_rule
def test_other_numbers_compile_nothing_anew(case: Case) -> None:
    first, *others = variations(case)
    compiled_scores(*first)
    traces = len(TRACES)
    for knowledge, network in others:
        compiled_scores(knowledge, network)
    assert len(TRACES) == traces


def test_another_number_of_points_is_noticed_by_the_counter_of_compilations() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    network = surface(CASES[0].obeys, scaling)
    traces = len(TRACES)
    compiled_scores(bind_all([CASES[0].rule], columns, scaling, 3), network)
    assert len(TRACES) == traces + 1


# --- a rule is a plain value ---------------------------------------------------------------


@every_rule
def test_declarations_pickle_copy_and_compare(case: Case) -> None:
    for rule in (case.rule, case.rule.soft(2.0), replace(case.rule, name="a", because="b")):
        assert pickle.loads(pickle.dumps(rule)) == rule
        assert copy.deepcopy(rule) == rule
        assert replace(rule) == rule
    assert case.rule != case.other
    assert case.rule != case.rule.soft(2.0)
    assert case.rule != replace(case.rule, margin=case.rule.margin + 0.1)


@every_rule
def test_declarations_print_what_they_hold(case: Case) -> None:
    text = repr(replace(case.rule, name="my rule", because="physics"))
    assert text.startswith(f"{type(case.rule).__name__}(name='my rule'")
    assert "because='physics'" in text
    assert replace(case.rule, name="my rule").label == "my rule"
    assert case.rule.label == case.rule.describe() != ""
    if "<function" not in text:
        names = {**vars(prbnn), "Hard": Hard}
        assert eval(repr(case.rule), names) == case.rule


STRENGTHS: list[tuple[Callable[[Rule], Rule], Any, str]] = [
    (lambda rule: rule.soft(3.0), Soft(3.0, 1.0), "soft"),
    (lambda rule: rule.soft(3.0, power=2), Soft(3.0, 2), "soft"),
    (lambda rule: rule.hard(), Hard(None), "hard"),
    (lambda rule: rule.hard(0.1), Hard(0.1), "hard with a tolerance"),
    (lambda rule: rule.probably(0.9), Probable(0.9, "functions"), "probable functions"),
    (lambda rule: rule.probably(0.9, of="points"), Probable(0.9, "points"), "probable points"),
    (lambda rule: rule.on_average(), OnAverage(0.0), "average"),
    (lambda rule: rule.on_average(0.2), OnAverage(0.2), "average"),
]


@every_rule
def test_a_strength_makes_a_new_rule_that_keeps_the_rest(case: Case) -> None:
    rule = replace(case.rule, name="kept", because="kept too")
    for strengthen, strength, kind in STRENGTHS:
        strengthened = strengthen(rule)
        assert strengthened.strength == strength
        assert strengthened.strength.kind == kind
        assert rule.strength == Hard()
        assert type(strengthened) is type(rule)
        assert replace(strengthened, strength=Hard()) == rule
