"""Ranks and coverage against distributions whose answers are known."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import norm, poisson

from prbnn import MLP, Gaussian, Poisson
from prbnn.assessment.calibration import Ranks, expected_range, ranks, reliability
from prbnn.assessment.metrics import coverage
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior

ROWS = 400


def constant(likelihood: object, own: float, targets: np.ndarray, scaled: bool) -> Posterior:
    """Three draws of a network that is 0 everywhere: the prediction is the likelihood's alone."""
    network = MLP((3,)).build(jax.random.key(0), 1, 1)
    size = len(flatten(network))
    x = np.linspace(0, 1, len(targets))[:, None]
    scaling = scaling_of(x, targets[:, None], "standard" if scaled else "none")
    return Posterior(
        network,
        np.zeros((3, size)),
        likelihood,  # ty: ignore[invalid-argument-type]
        np.array([own]),
        scaling,
        Columns(("x",), ("y",), x, targets[:, None]),
    )


def test_ranks_of_a_normal_prediction_are_its_distribution_function() -> None:
    targets = np.random.default_rng(0).normal(3.0, 2.0, ROWS)
    posterior = constant(Gaussian(), np.log(0.5), targets, scaled=True)
    found = ranks(posterior, posterior.columns.rows, targets[:, None])
    wanted = norm.cdf(targets, targets.mean(), 0.5 * targets.std())
    np.testing.assert_allclose(found.transform[:, 0], wanted, atol=1e-6)
    np.testing.assert_allclose(found.below, found.at_most, atol=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_of_counts_is_that_of_their_quantiles(level: float) -> None:
    targets = np.random.default_rng(1).poisson(4.0, ROWS).astype(float)
    posterior = constant(Poisson(), np.log(4.0), targets, scaled=False)
    found = ranks(posterior, posterior.columns.rows, targets[:, None])
    np.testing.assert_allclose(found.below[:, 0], poisson.cdf(targets - 1, 4.0), atol=1e-5)
    ends = ((1 - level) / 2, (1 + level) / 2)
    low, high = posterior.quantiles(posterior.columns.rows, ends)
    assert found.coverage(level)[0] == coverage(targets[:, None], low, high)


def test_coverage_counts_both_tails() -> None:
    below = np.array([[0.01], [0.5], [0.99], [0.06]])
    assert Ranks(below, below).coverage(0.9).tolist() == [0.5]


def test_reliability_leaves_empty_bins_out_and_keeps_certainty() -> None:
    found = reliability(np.array([0.05, 0.05, 1.0, 1.0]), np.array([0, 1, 1, 1]))
    assert found.count.tolist() == [2, 2]
    assert found.observed.tolist() == [0.5, 1.0]
    assert found.error == pytest.approx((2 * 0.45 + 2 * 0.0) / 4)


def test_what_chance_allows_narrows_with_rows() -> None:
    few, many = expected_range(0.9, 20), expected_range(0.9, 2000)
    assert few[0] < many[0] < 0.9 < many[1] < few[1]


def test_gaps_beyond_chance_are_less_probable_than_those_within() -> None:
    generator = np.random.default_rng(0)
    probability = generator.uniform(0, 1, 2000)
    happened = (generator.random(2000) < probability).astype(float)
    assert reliability(probability, happened).chance > 0.01
    assert reliability(probability**3, happened).chance < 1e-6
