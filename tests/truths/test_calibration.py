"""Simulation-based calibration: samplers hold the truth as often as they say, other engines less often.

`docs/calibration.md` has the numbers of every engine.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from prbnn import NUTS, SGHMC, BayesByBackprop, Dropout, Ensemble, Laplace
from prbnn.inference.engine import Engine
from prbnn_studies.simulated import (
    BINS,
    DRAWS,
    LOG_LIKELIHOOD,
    MODELS,
    SIMULATIONS,
    UNIFORM,
    Simulations,
    inside,
    simulate,
    together,
    uniformity,
)

EXACT: dict[str, tuple[Engine, int]] = {
    "nuts": (NUTS(chains=1, keep=DRAWS), 1000),
    "sghmc": (SGHMC(chains=1, keep=DRAWS), 12_000),
}
# (model, engine, what is ranked): engines whose intervals hold the truth far too rarely
NARROW: dict[str, tuple[str, Engine, int, str]] = {
    "mean-field on a line": ("line", BayesByBackprop(), 4000, "f(0)"),
    "mean-field on a network": ("network", BayesByBackprop(), 4000, "f(3)"),
    "members on a line": ("line", Ensemble(members=DRAWS), 4000, "f(0)"),
    "the last layer of a network": ("network", Laplace(), 3000, "f(3)"),
    "dropout on a network": ("network", Dropout(), 4000, "f(3)"),
}


@cache
def simulations_of(model: str, name: str) -> Simulations:
    return simulate(MODELS[model], *EXACT[name])


def p_of(found: Simulations) -> float:
    return together([uniformity(ranks) for ranks in found.ranks.T])


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("line", "sghmc"),
        pytest.param("line", "nuts", marks=pytest.mark.slow),
        pytest.param("network", "nuts", marks=pytest.mark.slow),
        pytest.param("network", "sghmc", marks=pytest.mark.slow),
    ],
)
class TestSamplers:
    def test_ranks_of_the_truth_are_uniform(self, model: str, name: str) -> None:
        found = simulations_of(model, name)
        assert found.truths.shape == (SIMULATIONS, len(found.quantities))
        assert p_of(found) > UNIFORM
        for ranks in found.ranks.T:
            for level in (0.5, 0.9):
                fraction, error = inside(ranks, level)
                assert abs(fraction - level) < 3 * error

    @pytest.mark.parametrize("factor", [0.5, 2.0])
    def test_another_standard_deviation_fails_the_same_test(
        self, model: str, name: str, factor: float
    ) -> None:
        found = simulations_of(model, name)
        changed = found.narrowed(factor)
        for place, quantity in enumerate(found.quantities):
            if quantity != LOG_LIKELIHOOD:
                assert uniformity(changed.ranks[:, place]) < UNIFORM

    def test_a_mean_that_is_off_by_half_a_standard_deviation_fails_it(
        self, model: str, name: str
    ) -> None:
        found = simulations_of(model, name)
        draws = found.draws + 0.5 * found.draws.std(axis=1, keepdims=True)
        assert p_of(Simulations(found.quantities, found.truths, draws)) < UNIFORM


@pytest.mark.slow
@pytest.mark.parametrize("name", NARROW)
def test_engines_that_are_over_confident_are_found_to_be(name: str) -> None:
    model, engine, steps, quantity = NARROW[name]
    found = simulate(MODELS[model], engine, steps, 320)
    assert p_of(found) < UNIFORM
    fraction, error = inside(found.ranks[:, found.quantities.index(quantity)], 0.9)
    assert fraction < 0.9 - 4 * error


def test_ranks_of_independent_draws_are_uniform_and_half_of_them_are_in_the_middle() -> None:
    generator = np.random.default_rng(0)
    found = Simulations(
        ("value",), generator.normal(size=(6400, 1)), generator.normal(size=(6400, DRAWS, 1))
    )
    assert found.ranks.min() == 0
    assert found.ranks.max() == DRAWS
    ranks = found.ranks[:, 0]
    assert uniformity(ranks) > UNIFORM
    fraction, error = inside(ranks, 0.5)
    assert abs(fraction - 0.5) < 3 * error
    assert error == pytest.approx(0.5 / np.sqrt(6400), rel=0.01)
    # a bin too few, as of ranks that never reach the last draw
    assert uniformity(ranks * (BINS - 1) // BINS) < UNIFORM
