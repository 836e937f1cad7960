"""Over several inputs a block of points sees little: fractions are calibrated, training stays inside."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from tests.enforcement.tasks import prepared

from prbnn import AtLeast, Increasing
from prbnn.enforcement.fraction import FASTEST_RISE, LEAST_REACH
from prbnn.enforcement.measure import Measured
from prbnn.enforcement.pressure import Enforcement, EnforcementState, enforcement_of
from prbnn.enforcement.worst import first_worst
from prbnn.inference.problem import INSIDE, Batch


def enforced(*rules, rejection: float = 0.2) -> Enforcement:
    return enforcement_of(rules, np.ones(len(rules)), 10.0, rejection=rejection)


@eqx.filter_jit
def updated(
    enforcement: Enforcement, state: EnforcementState, measured: Measured
) -> EnforcementState:
    return enforcement.update(state, measured, 0.0)


def seen(enforcement: Enforcement, fraction: float, steps: int = 300) -> EnforcementState:
    """After ``steps`` steps at whose points ``fraction`` of the functions broke each rule."""
    count = len(enforcement.table.kinds)
    state = enforcement.init()
    measured = Measured(*(jnp.full((4, count), value) for value in (-0.1, fraction, 0.1)))
    for _ in range(steps):
        state = updated(enforcement, state, measured)
    return state


def direction(enforcement: Enforcement, state: EnforcementState, fraction: float) -> float:
    """The sign of the dual's change after one more step with this ``fraction``."""
    count = len(enforcement.table.kinds)
    measured = Measured(*(jnp.full((4, count), value) for value in (-0.1, fraction, 0.1)))
    return float(jnp.sign(updated(enforcement, state, measured).dual[0] - state.dual[0]))


def calibrated(
    enforcement: Enforcement, state: EnforcementState, anywhere: Sequence[float]
) -> EnforcementState:
    for fraction in anywhere:
        state = enforcement.calibrate(state, jnp.full(len(enforcement.table.kinds), fraction))
    return state


def test_a_fraction_seen_whole_leaves_the_target_as_it_is() -> None:
    """The target is 0.2: a little less lets the dual fall, a little more raises it."""
    enforcement = enforced(AtLeast(0))
    for fraction, expected in ((0.19, -1.0), (0.21, 1.0)):
        state = calibrated(enforcement, seen(enforcement, fraction, steps=1), [fraction] * 30)
        assert direction(enforcement, state, fraction) == expected


def test_a_fraction_seen_in_part_lowers_the_target_until_the_dual_rises() -> None:
    """0.1 is under the target of 0.2, but 5 times as many functions break the rule elsewhere."""
    enforcement = enforced(AtLeast(0))
    before = seen(enforcement, 0.1, steps=1)
    assert direction(enforcement, before, 0.1) < 0
    assert direction(enforcement, calibrated(enforcement, before, [0.5] * 30), 0.1) > 0


def test_a_fraction_seen_in_no_part_lowers_the_target_to_a_floor() -> None:
    enforcement = enforced(AtLeast(0))
    floor = LEAST_REACH * 0.2
    for fraction, expected in ((0.9 * floor, -1.0), (1.1 * floor, 1.0)):
        state = calibrated(enforcement, seen(enforcement, fraction, steps=1), [1.0] * 60)
        assert direction(enforcement, state, fraction) == expected


def test_few_functions_that_break_a_rule_are_not_taken_for_many() -> None:
    """16 functions are evaluated at a time and 1 in 30 breaks the rule: mostly none is found, and now and
    then 1 in 16. The target is 1 in 20, so the dual falls more often than it rises."""
    enforcement = enforced(AtLeast(0), rejection=1 / 20)
    state = seen(enforcement, 1 / 30, steps=1)
    ways = []
    for fraction in np.random.default_rng(0).binomial(16, 1 / 30, 100) / 16:
        state = calibrated(enforcement, state, [fraction])
        ways.append(direction(enforcement, state, 1 / 30))
    assert np.mean(np.array(ways[20:]) < 0) > 0.5


def test_a_rule_that_is_broken_late_is_pressed_sooner_where_pools_are_searched() -> None:
    """Far above its target the dual rises 3 times as fast; near it, and below, nothing changes."""
    rules, unit = [AtLeast(0)], np.ones(1)
    usual, searched = (
        enforcement_of(rules, unit, 10.0, rejection=0.2, searched=each) for each in (False, True)
    )
    for fraction, faster in ((1.0, FASTEST_RISE), (0.3, 1.0), (0.0, 1.0)):
        slow, fast = (
            float(jnp.log(seen(each, fraction).dual[0] / each.init().dual[0]))
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
    fraction, worst = problem.search(jnp.stack([obeys, breaks]), none, jnp.asarray(512), 1024)
    assert fraction.tolist() == [0.0, 0.5]
    assert worst.shape == none.shape
