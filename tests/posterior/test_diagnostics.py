"""Diagnostics of chains: they see chains that stay apart, and count what draws are worth."""

from __future__ import annotations

import numpy as np
import pytest

from prbnn import MLP, NUTS, Gaussian, fit
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
