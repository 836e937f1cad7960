"""Over several inputs a block of points sees little: shares are calibrated, training stays inside."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from tests.enforcement.tasks import prepared

from prbnn import AtLeast, Increasing
from prbnn.enforcement.measure import Measured
from prbnn.enforcement.pressure import FASTEST_RISE, LEAST_REACH, Enforcement, State, enforcement_of
from prbnn.enforcement.worst import first_worst
from prbnn.inference.problem import INSIDE, Batch


def enforced(*rules) -> Enforcement:
    return enforcement_of(rules, np.ones(len(rules)), 10.0, rejection=0.2)


def seen(enforcement: Enforcement, share: float, steps: int = 300) -> State:
    """After so many steps in which a block of points saw that share of functions break each rule."""
    count = len(enforcement.kinds)
    state = enforcement.init()
    measured = Measured(*(jnp.full((4, count), value) for value in (-0.1, share, 0.1)))
    for _ in range(steps):
        state = enforcement.update(state, measured, 0.0)
    return state


def test_a_share_seen_whole_leaves_the_target_as_it_is() -> None:
    enforcement = enforced(AtLeast(0))
    state = enforcement.calibrate(seen(enforcement, 0.1), jnp.array([0.1]))
    assert float(state.reach[0]) == pytest.approx(1.0)


def test_a_share_seen_in_part_lowers_the_target_until_the_dual_rises() -> None:
    enforcement = enforced(AtLeast(0))
    before = seen(enforcement, 0.1)
    after = before
    for _ in range(10):
        after = enforcement.calibrate(after, jnp.array([0.5]))
    assert float(after.reach[0]) == pytest.approx(0.2, abs=0.01)
    measured = Measured(*(jnp.full((4, 1), value) for value in (-0.1, 0.1, 0.1)))
    # a tenth is under the target of a fifth, but five times as many break it elsewhere
    assert enforcement.update(before, measured, 0.0).dual[0] < before.dual[0]
    assert enforcement.update(after, measured, 0.0).dual[0] > after.dual[0]


def test_reach_has_a_floor_and_is_for_hard_rules_alone() -> None:
    enforcement = enforced(AtLeast(0), AtLeast(0).soft(1.0))
    state = seen(enforcement, 0.0)
    for _ in range(20):
        state = enforcement.calibrate(state, jnp.array([0.5, 0.5]))
    assert state.reach.tolist() == pytest.approx([LEAST_REACH, 1.0], abs=1e-3)


def test_a_rule_that_comes_loose_late_is_pressed_sooner_where_pools_are_searched() -> None:
    """Far above its target the dual rises as fast again twice; near it, and below, nothing changes."""
    rules, unit = [AtLeast(0)], np.ones(1)
    usual, searched = (
        enforcement_of(rules, unit, 10.0, rejection=0.2, searched=each) for each in (False, True)
    )
    for share, faster in ((1.0, FASTEST_RISE), (0.3, 1.0), (0.0, 1.0)):
        slow, fast = (
            float(jnp.log(seen(each, share).dual[0] / each.init().dual[0]))
            for each in (usual, searched)
        )
        assert fast == pytest.approx(faster * slow, rel=0.02)


RULES = [Increasing("x0"), AtLeast(0).soft(1.0)]


@pytest.mark.parametrize(("inputs", "inside"), [(1, 0.0), (3, INSIDE)])
def test_training_stays_inside_over_several_inputs(inputs: int, inside: float) -> None:
    problem = prepared(RULES, inputs).problem
    assert problem.inside == inside
    # a flat function touches the limit of a slope: obeyed, and only just
    flat = jnp.zeros_like(problem.start)
    batch = Batch(
        jnp.zeros((1, inputs)), jnp.zeros((1, 1)), jnp.ones(1), jnp.zeros((), int), jnp.ones(2)
    )
    measured = problem.measure(flat, batch)
    assert measured.broken[0] == 0
    assert float(measured.f[0]) == pytest.approx(-inside)
    assert float(measured.f[1]) == pytest.approx(0.0)


def test_functions_that_break_a_rule_are_counted_on_a_large_part_of_the_pool() -> None:
    problem = prepared(RULES, 3).problem
    obeys = jnp.zeros_like(problem.start)
    breaks = obeys.at[-1 - problem.likelihood_start.size].set(-1.0)
    none = first_worst(problem.knowledge, 8)
    share, worst = problem.search(jnp.stack([obeys, breaks]), none, jnp.asarray(512), 1024)
    assert share.tolist() == [0.0, 0.5]
    assert worst.shape == none.shape
