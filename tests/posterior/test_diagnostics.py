"""Diagnostics of chains: they see chains that stay apart, and count what draws are worth."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prbnn import MLP, NUTS, Gaussian, fit
from prbnn.fitting.outcome import sampled_result
from prbnn.fitting.result import Solution
from prbnn.posterior.diagnostics import Diagnostics, by_chain, effective_draws

pytestmark = pytest.mark.light


@pytest.fixture(scope="module")
def line() -> Solution:
    x = np.linspace(0, 1, 12)[:, None]
    engine = NUTS(chains=4, keep=50)
    return fit(MLP(()), x, x[:, 0], inference=engine, likelihood=Gaussian(0.3), steps=400)


def test_independent_draws_are_worth_their_number() -> None:
    values = np.random.default_rng(0).normal(size=2000)
    assert effective_draws(values, 4) > 1200


def test_chains_that_stay_where_they_are_are_worth_their_number() -> None:
    generator = np.random.default_rng(0)
    values = np.repeat([0.0, 5.0, -3.0, 8.0], 500) + 0.1 * generator.normal(size=2000)
    assert effective_draws(values, 4) < 8


@pytest.mark.parametrize("seed", range(5))
def test_draws_are_worth_no_more_than_the_spread_of_chain_means_allows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(16, 125)) + 0.2 * generator.normal(size=(16, 1))
    allowed = 16 * values.var() / values.mean(axis=1).var(ddof=1)
    assert effective_draws(values.ravel(), 16) <= allowed * (1 + 1e-6)


def test_values_are_split_by_chain() -> None:
    assert by_chain(np.arange(6), 2).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.slow
def test_a_line_mixes_and_chains_pulled_apart_do_not(line: Solution) -> None:
    from prbnn.posterior.diagnostics import diagnose

    assert line.diagnostics is not None
    assert line.diagnostics.mixed
    assert line.diagnostics.chains == 4
    assert line.diagnostics.effective_draws > 50
    moved = line.posterior.draws + np.repeat(np.arange(4), 50)[:, None]
    apart = line.posterior.take(np.arange(200))
    apart = apart._of(moved.astype(np.float32), apart.likelihood_parameters)
    assert not diagnose(apart, 4, 0, 0.8).mixed


@pytest.mark.slow
def test_one_chain_that_never_moves_is_enough_for_an_infinite_r_hat(line: Solution) -> None:
    from prbnn.posterior.diagnostics import diagnose

    draws = line.posterior.draws.copy()
    draws[50:100] = draws[50]
    stuck = line.posterior._of(draws, line.posterior.likelihood_parameters)
    found = diagnose(stuck, 4, 0, 0.8)
    assert found.stuck
    assert not found.mixed
    assert found.effective_draws == 0


def test_chains_that_never_move_are_seen_where_predictions_are_the_same() -> None:
    """Predictions of a network that says 0 everywhere never change; its weights must."""
    from prbnn.posterior.diagnostics import diagnose

    generator = np.random.default_rng(0)
    weights = generator.normal(size=(40, 1)).astype(np.float32)
    same = np.repeat(weights[:4], 10, axis=0)

    class Constant(SimpleNamespace):
        columns = SimpleNamespace(distinct=np.zeros((1, 1)))

        def __len__(self) -> int:
            return 40

        def functions(self, rows: np.ndarray) -> np.ndarray:
            return np.zeros((40, len(rows), 1))

    moving: Any = Constant(draws=weights)
    still: Any = Constant(draws=same)
    assert diagnose(moving, 4, 0, 1.0).mixed
    found = diagnose(still, 4, 0, 1.0)
    assert found.stuck
    assert sampled_result(found, 10).status == "budget spent"


WELL = Diagnostics(4, 1.01, 400.0, 0, 0.8, 250)


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({}, "converged", ""),
        ({"kept": 100}, "converged", "kept 100 of 250 draws"),
        ({"kept": 100, "r_hat": 1.2}, "budget spent", "have not mixed"),
        ({"kept": 100, "effective_draws": 30.0}, "budget spent", "fewer than 40 independent"),
        ({"effective_draws": 39.0}, "budget spent", "fewer than 40 independent"),
        ({"r_hat": np.nan, "kept": 3}, "budget spent", "have not mixed"),
        ({"r_hat": np.inf, "effective_draws": 0.0}, "budget spent", "chains never moved"),
    ],
)
def test_what_is_said_of_chains(changed: dict, status: str, said: str) -> None:
    result = sampled_result(replace(WELL, **changed), 250)
    assert result.status == status
    assert said in result.message
    assert ("Likely causes, in order" in result.message) == (status != "converged")


def test_diagnostics_print_as_a_sentence() -> None:
    text = str(Diagnostics(4, 1.234, 56.7, 3, 0.81))
    assert text == "4 chains, R-hat 1.234, 57 effective draws, 3 divergences, acceptance 0.81"


def test_draws_for_arviz_are_by_chain(line: Solution) -> None:
    pytest.importorskip("arviz", reason="ArviZ is an extra")
    found = line.to_arviz()
    assert found.posterior["weights"].shape == (4, 50, 2)
    assert found.posterior["prediction"].shape == (4, 50, 12, 1)


def test_without_arviz_the_error_says_what_to_install(
    line: Solution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "arviz", None)
    with pytest.raises(ImportError, match=r"prbnn\[arviz\]"):
        line.to_arviz()
