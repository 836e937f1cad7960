"""Every score against the definition written out, and against a library that others trust."""

from __future__ import annotations

import numpy as np
import pytest
import scoringrules
from scipy.stats import norm

from prbnn.assessment.metrics import coverage, crps, epistemic_std, mse, nll, rmse

DRAWS, ROWS, OUTPUTS = 37, 11, 2
EXACT = 1e-10


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(params=[(ROWS,), (ROWS, OUTPUTS)], ids=["one output", "two outputs"])
def truth(request: pytest.FixtureRequest, generator: np.random.Generator) -> np.ndarray:
    return generator.normal(size=request.param)


@pytest.fixture
def draws(truth: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return generator.normal(0.3, 1.5, size=(DRAWS, *truth.shape))


def crps_from_all_pairs(truth: float, draws: np.ndarray) -> float:
    """E|X - y| - E|X - X'| / 2 over all M^2 pairs."""
    return np.mean(np.abs(draws - truth)) - np.mean(np.abs(draws[:, None] - draws[None])) / 2


def test_mse_and_rmse_are_the_mean_and_its_root(truth: np.ndarray, draws: np.ndarray) -> None:
    errors = [(t - m) ** 2 for t, m in zip(truth.ravel(), draws[0].ravel(), strict=True)]
    assert mse(truth, draws[0]) == pytest.approx(sum(errors) / len(errors), rel=EXACT)
    assert rmse(truth, draws[0]) == pytest.approx(np.sqrt(sum(errors) / len(errors)), rel=EXACT)


def test_crps_equals_the_sum_over_all_pairs(truth: np.ndarray, draws: np.ndarray) -> None:
    columns = draws.reshape(DRAWS, -1).T
    each = [crps_from_all_pairs(t, m) for t, m in zip(truth.ravel(), columns, strict=True)]
    assert crps(truth, draws) == pytest.approx(np.mean(each), rel=EXACT)


def test_crps_equals_that_of_scoringrules(truth: np.ndarray, draws: np.ndarray) -> None:
    theirs = scoringrules.crps_ensemble(truth, draws, m_axis=0, estimator="nrg")
    assert crps(truth, draws) == pytest.approx(float(np.mean(theirs)), rel=EXACT)


def test_crps_does_not_depend_on_the_order_of_draws(truth: np.ndarray, draws: np.ndarray) -> None:
    assert crps(truth, draws[::-1]) == pytest.approx(crps(truth, draws), rel=EXACT)


def test_crps_of_one_draw_is_the_absolute_error() -> None:
    assert crps(np.array([2.0]), np.array([[-1.0]])) == pytest.approx(3.0)


def test_crps_of_many_normal_draws_is_the_closed_form(generator: np.random.Generator) -> None:
    """sigma (z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)), within four standard errors."""
    mean, sd, truth = 0.4, 1.3, 1.1
    z = (truth - mean) / sd
    exact = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    estimates = [crps(np.array([truth]), generator.normal(mean, sd, (4000, 1))) for _ in range(40)]
    error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    # all M^2 pairs hold M zeros: the estimate is low by E|X - X'| / (2 M) = sd / (M sqrt(pi))
    bias = sd / np.sqrt(np.pi) / 4000
    assert abs(np.mean(estimates) - bias - exact) < 4 * error


def test_nll_is_that_of_the_mixture(truth: np.ndarray, draws: np.ndarray) -> None:
    noise = 0.7
    density = np.mean(norm.pdf(truth, draws, noise), axis=0)
    assert nll(truth, draws, noise) == pytest.approx(-np.mean(np.log(density)), rel=EXACT)


def test_nll_takes_a_noise_for_every_draw_and_row(
    truth: np.ndarray, draws: np.ndarray, generator: np.random.Generator
) -> None:
    noise = generator.uniform(0.2, 2.0, size=draws.shape)
    density = np.mean(norm.pdf(truth, draws, noise), axis=0)
    assert nll(truth, draws, noise) == pytest.approx(-np.mean(np.log(density)), rel=EXACT)


def test_nll_takes_a_noise_for_every_output(generator: np.random.Generator) -> None:
    truth, draws = np.zeros((ROWS, 2)), generator.normal(size=(DRAWS, ROWS, 2))
    noise = np.array([0.5, 2.0])
    density = np.mean(norm.pdf(truth, draws, noise), axis=0)
    assert nll(truth, draws, noise) == pytest.approx(-np.mean(np.log(density)), rel=EXACT)


def test_nll_is_finite_far_from_every_draw() -> None:
    """Densities underflow there; their logarithms do not."""
    assert nll(np.array([1000.0]), np.zeros((3, 1)), 0.1) == pytest.approx(
        0.5 * 1e8 + np.log(0.1) + 0.5 * np.log(2 * np.pi)
    )


def test_epistemic_std_is_the_spread_over_draws_alone(draws: np.ndarray) -> None:
    columns = draws.reshape(DRAWS, -1)
    assert epistemic_std(draws) == pytest.approx(columns.std(axis=0).mean(), rel=EXACT)
    assert epistemic_std(np.broadcast_to(draws[0], draws.shape)) == pytest.approx(0, abs=EXACT)


def test_coverage_counts_rows_inside_ends_included() -> None:
    truth = np.array([0.0, 1.0, 1.5, -0.1])
    assert coverage(truth, np.zeros(4), np.ones(4)) == 0.5


def test_coverage_of_normal_quantiles_is_their_level(generator: np.random.Generator) -> None:
    rows = 20_000
    half = norm.ppf(0.95)
    found = coverage(generator.normal(size=rows), np.full(rows, -half), np.full(rows, half))
    assert abs(found - 0.9) < 4 * np.sqrt(0.9 * 0.1 / rows)


@pytest.mark.parametrize(
    "call",
    [
        lambda column, row: mse(column, row),
        lambda column, row: rmse(column, row),
        lambda column, row: crps(column, row[None]),
        lambda column, row: nll(column, row[None], 1.0),
        lambda column, row: coverage(column, row, row),
        lambda column, row: coverage(row, row, column),
    ],
    ids=["mse", "rmse", "crps", "nll", "coverage", "coverage, upper end"],
)
def test_shapes_that_would_broadcast_silently_are_refused(call) -> None:
    """(n, 1) against (n,) would make an n by n table and a wrong number."""
    with pytest.raises(ValueError, match=r"\(5, 1\).*\(5,\)|\(5,\).*\(5, 1\)"):
        call(np.zeros((5, 1)), np.zeros(5))
