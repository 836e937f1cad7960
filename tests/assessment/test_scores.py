"""Scores of a whole model against the single metrics, on draws whose answers are known."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import norm

from prbnn import MLP, Gaussian
from prbnn.assessment import metrics
from prbnn.assessment.scores import class_scores, regression_scores
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior

LEVELS = np.array([[1.0, 10.0], [3.0, 14.0]])
NOISE = np.array([0.5, 2.0])


@pytest.fixture
def posterior() -> Posterior:
    """Two draws of constant functions with two outputs, levels and noise as stated above."""
    rows = np.linspace(0, 1, 5)[:, None]
    targets = np.zeros((5, 2))
    network = MLP(hidden=()).build(jax.random.key(0), 1, 2)
    draws = np.zeros((2, flatten(network).size), np.float32)
    draws[:, -2:] = LEVELS
    scaling = scaling_of(rows, targets, "none")
    columns = Columns(("x",), ("first", "second"), rows, targets)
    return Posterior(network, draws, Gaussian(), np.log(NOISE), scaling, columns)


def test_regression_scores_have_one_entry_per_output(posterior: Posterior) -> None:
    rows = posterior.columns.rows
    truth = np.column_stack([np.full(5, 2.5), np.full(5, 9.0)])
    found = regression_scores(posterior, rows, truth)
    assert found.rmse == pytest.approx([0.5, 3.0])
    assert found.epistemic == pytest.approx([1.0, 2.0])
    assert found.deviation == pytest.approx(np.sqrt(np.array([1.0, 2.0]) ** 2 + NOISE**2))
    density = np.mean(np.prod(norm.pdf(truth[0], LEVELS, NOISE), axis=1))
    assert found.log_density == pytest.approx(np.log(density), rel=1e-5)
    samples = posterior.samples(rows)
    assert found.crps[1] == metrics.crps(truth[:, 1], samples[:, :, 1])
    below = norm.cdf(truth[0], LEVELS, NOISE).mean(axis=0)
    assert found.ranks.transform[0] == pytest.approx(below, abs=1e-5)


def test_one_column_of_probabilities_is_scored_as_two_classes() -> None:
    chance, truth = np.array([[0.9], [0.2], [0.6]]), np.array([[1.0], [0.0], [0.0]])
    one = class_scores(chance, truth)
    two = class_scores(np.hstack([1 - chance, chance]), np.hstack([1 - truth, truth]))
    assert one.accuracy == two.accuracy == pytest.approx(2 / 3)
    assert one.log_loss == pytest.approx(-np.mean(np.log([0.9, 0.8, 0.4])))
    assert two.log_loss == pytest.approx(one.log_loss)


def test_reliability_of_several_classes_is_that_of_the_most_probable() -> None:
    chance = np.array([[0.7, 0.2, 0.1], [0.1, 0.75, 0.15]])
    found = class_scores(chance, np.array([[1.0, 0, 0], [0, 0, 1.0]])).reliability
    assert found.predicted.tolist() == pytest.approx([0.725])
    assert found.observed.tolist() == [0.5]
    assert found.count.tolist() == [2]
