"""Evidence that a rule cannot be met: made-up courses of a fit, and whether they are infeasible."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from prbnn import AtLeast
from prbnn.enforcement.fraction import LARGEST_DUAL
from prbnn.enforcement.measure import Measured
from prbnn.enforcement.pressure import Enforcement, EnforcementState, enforcement_of
from prbnn.enforcement.stall import NEAR_THE_CAP
from prbnn.rules.base import Rule

STEPS, FUNCTIONS = 5000, 40
NOW = np.arange(STEPS)


def enforced(rule: Rule, rows: float = 100.0) -> Enforcement:
    # so small a fraction is allowed that the rule matters to the end
    return enforcement_of([rule], np.ones(1), rows, rejection=0.01)


def found_at(
    enforcement: Enforcement,
    violation: float | np.ndarray,
    fraction: float | np.ndarray = 1.0,
    depth: float | np.ndarray = 0.5,
    spread: float = 0.1,
) -> tuple[int | None, float]:
    """The step at which a course is called infeasible, and the pressure there (nats per row).

    A course is, step by step, the mean violation (``spread`` is its standard deviation over functions),
    the fraction of functions that break the rule, and how deeply.
    """
    course = np.stack(np.broadcast_arrays(violation, fraction, depth, NOW), axis=1)[:, :3]
    infeasible, pressure = run(enforcement, jnp.asarray(course, float), jnp.asarray(spread))
    at = int(np.argmax(infeasible)) if np.any(infeasible) else None
    return at, float(pressure[-1 if at is None else at])


@eqx.filter_jit
def run(enforcement: Enforcement, course: Array, spread: Array) -> tuple[Array, Array]:
    places = np.linspace(-1.0, 1.0, FUNCTIONS)
    functions = jnp.asarray(places / places.std(), float)[:, None]
    rank = (jnp.arange(FUNCTIONS) + 0.5)[:, None] / FUNCTIONS

    def step(state: EnforcementState, now: Array) -> tuple[EnforcementState, tuple[Array, Array]]:
        broken = (rank < now[1]).astype(float)
        measured = Measured(spread * functions - now[0], broken, now[2] * broken)
        state = enforcement.update(state, measured, 100.0)
        return state, (enforcement.infeasible(state)[0], state.dual[0] / enforcement.table.scale)

    return jax.lax.scan(step, enforcement.init(), course)[1]


class TestHard:
    def test_a_fraction_that_never_falls_is_infeasible_when_the_dual_is_near_its_cap(self) -> None:
        step, pressure = found_at(enforced(AtLeast(0)), 0.5)
        assert step is not None
        assert pressure >= NEAR_THE_CAP * LARGEST_DUAL

    def test_a_plateau_on_the_way_is_none(self) -> None:
        """As of flights that must descend: pressure tenfold in vain, and then it works."""
        broken = 1 - np.clip((NOW - 2200) / 1000, 0, 1)
        found = found_at(enforced(AtLeast(0)), 5e-4 * broken, 0.55 * broken, 5e-3 * broken, 2e-4)
        assert found[0] is None

    @pytest.mark.parametrize("sign", ["fraction", "depth", "violation"])
    def test_one_sign_of_progress_is_enough(self, sign: str) -> None:
        course = {"violation": 1.0, "fraction": 1.0, "depth": 1.0, sign: np.exp(-NOW / 2000)}
        assert found_at(enforced(AtLeast(0)), **course)[0] is None

    def test_a_rule_that_held_before_others_were_pressed_is_judged_by_what_came_after(self) -> None:
        """As of power that rises with the sun: met at first, then broken by other rules' pressure, and
        fixed while its violation, counted from inside the limit, stays far above where it began."""
        early, left = NOW < 1000, np.exp(-np.maximum(NOW - 1000, 0) / 900)
        fraction = np.where(early, np.where(NOW > 500, 0.4, 0.0), 0.05 + 0.9 * left)
        depth = np.where(early, 1e-4, 0.08 * left)
        violation = np.where(early, 6e-5, 1.3e-3)
        assert found_at(enforced(AtLeast(0)), violation, fraction, depth, 1e-4)[0] is None


class TestTolerance:
    def test_a_mean_that_should_have_answered_is_infeasible(self) -> None:
        assert found_at(enforced(AtLeast(0).hard(0.01), 1.0), 0.5, spread=0.2)[0] is not None

    def test_a_mean_that_data_hold_tight_is_given_time(self) -> None:
        """Its variance says how little it can answer: by a thousandth of its violation in all."""
        step, pressure = found_at(enforced(AtLeast(0).hard(0.3), 1.0), 0.5, spread=1e-3)
        assert step is None
        assert pressure > 50


def test_a_rule_that_is_not_active_has_no_pressure_and_is_never_infeasible() -> None:
    enforcement = enforced(AtLeast(0))
    resting = eqx.tree_at(lambda part: part.table.active, enforcement, jnp.zeros(1))
    assert found_at(resting, 0.5)[0] is None
    assert float(enforcement.pressure(enforcement.init())[0]) > 0
    assert float(resting.pressure(resting.init())[0]) == 0
