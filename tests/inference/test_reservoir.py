"""Chains keep only what they drew, evenly spread over the steps after their warm-up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tests.marks import quick

from prbnn import MLP, NUTS, SGHMC, Gaussian, Normal, fit
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine, Pace
from prbnn.inference.reservoir import Reservoir, available, drawn, empty, put

pytestmark = pytest.mark.light

CHAINS = 2


def kept_of(keep: int, steps: int, warmup: int = 3) -> Reservoir:
    """A reservoir after ``steps`` steps at which the chains are at (step number, its negative)."""
    start = jnp.full((CHAINS, 1), 1e6)
    reservoir = empty(start, keep, 1)
    for step in range(warmup + steps):
        warmed = jnp.asarray(1.0 if step >= warmup else 0.5)
        pace = Pace(jnp.ones(()), warmed, jnp.asarray(steps, jnp.int32))
        place = float(step - warmup)
        chains = jnp.asarray([[place], [-place]])
        none = jnp.zeros(CHAINS, bool)
        reservoir = put(reservoir, chains, 2 * chains, pace, none, jnp.ones(CHAINS))
    return reservoir


@pytest.mark.parametrize(
    ("keep", "steps"), [(1, 5), (4, 8), (5, 8), (7, 8), (8, 8), (9, 8), (20, 8), (3, 20), (13, 31)]
)
def test_every_place_that_counts_was_drawn_and_the_draws_are_evenly_spread(
    keep: int, steps: int
) -> None:
    reservoir = kept_of(keep, steps)
    filled = min(keep, steps)
    assert int(reservoir.filled) == filled
    assert available(reservoir) == CHAINS * filled
    places = np.asarray(reservoir.vectors)[0, :filled, 0]
    # the last step of each of `filled` stretches, in whole numbers
    stretches = [-(-(k + 1) * steps // filled) - 1 for k in range(filled)]
    assert places.tolist() == stretches
    assert np.array_equal(reservoir.vectors[1, :filled], -reservoir.vectors[0, :filled])
    assert np.array_equal(reservoir.f, 2 * np.asarray(reservoir.vectors))


# a problem whose vectors are all weights
WHOLE: Any = SimpleNamespace(split=lambda vector: (vector, vector[:0]))


@pytest.mark.parametrize("count", [1, 3, 6, 10])
def test_some_of_the_draws_are_spread_over_all_chains(count: int) -> None:
    reservoir = kept_of(keep=9, steps=5)
    found = np.asarray(drawn(WHOLE, reservoir, jnp.zeros((CHAINS, 1)), count).weights)[:, 0]
    every = np.concatenate([np.arange(5.0), -np.arange(5.0)])
    assert found.tolist() == [every[k * 10 // count] for k in range(count)]


def test_before_a_draw_is_kept_each_chain_is_where_it_is() -> None:
    reservoir = empty(jnp.zeros((CHAINS, 1)), 4, 0)
    assert available(reservoir) == CHAINS
    found = drawn(WHOLE, reservoir, jnp.asarray([[3.0], [4.0]]), CHAINS).weights
    assert np.asarray(found).ravel().tolist() == [3.0, 4.0]


X = np.linspace(-1, 1, 20)[:, None]


def line(engine: Engine, steps: int | None, **options) -> Solution:
    return fit(
        MLP(hidden=()),
        X,
        3 * X[:, 0] + 10,
        inference=engine,
        likelihood=Gaussian(0.5),
        prior=Normal(0, 10.0),
        steps=steps,
        **options,
    )


SETTINGS = {
    "nuts, more than the default budget": (NUTS(keep=1000), None),
    "nuts, half the steps": (NUTS(keep=300), 600),
    "nuts, more than the steps": (NUTS(chains=2, keep=1000), 600),
    "nuts, few of many": (NUTS(chains=8, keep=50), 900),
    "sghmc, more than the steps": (SGHMC(chains=8, keep=8000), 10_000),
    "sghmc, half the steps": (SGHMC(chains=4, keep=4000), 8000),
    "sghmc, few of many": (SGHMC(chains=16, keep=20), 8000),
}


@pytest.mark.parametrize("name", quick(SETTINGS, "sghmc, more than the steps"))
def test_a_line_far_from_where_chains_start(name: str) -> None:
    """An intercept of 10 +- .11: one untrained network among the draws would show."""
    engine, steps = SETTINGS[name]
    assert isinstance(engine, NUTS | SGHMC)
    solution = line(engine, steps)
    each = min(engine.keep, (steps or engine.budget) // 2)
    assert len(solution.posterior) == engine.chains * each
    assert solution.diagnostics is not None
    assert solution.diagnostics.kept == each
    slope, intercept = solution.posterior.draws.T
    error = 0.1118 / np.sqrt(solution.effective_draws(intercept))
    assert abs(intercept.mean() - 9.9988) < 4 * error
    assert intercept.min() > 9
    assert abs(intercept.std() - 0.1118) < 0.02
    assert abs(slope.std() - 0.184) < 0.03
    assert ("of" in solution.result.message) == (each < engine.keep), solution.result


def test_fewer_draws_than_were_asked_for_are_said() -> None:
    solution = line(NUTS(chains=2, keep=1000), 600)
    assert solution.result.status == "converged"
    assert "kept 300 of 1000 draws" in solution.result.message
    assert "2000 steps" in solution.result.message


def test_chains_are_judged_also_where_few_draws_are_returned() -> None:
    solution = line(NUTS(chains=2, keep=1000), 600, draws=10)
    assert len(solution.posterior) == 10
    assert solution.diagnostics is not None
    assert solution.diagnostics.kept == 300
