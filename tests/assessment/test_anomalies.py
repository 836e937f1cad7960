"""Surprise by hand, and a level whose false alarms are what it says."""

import numpy as np
import pytest
from scipy.stats import norm

from prbnn import MLP
from prbnn.assessment import anomalies as anomaly
from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.data.scaling import sequence_scaling
from prbnn.model.likelihoods import Gaussian
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior


def posterior_of(biases, noise):
    """Functions that are constant: linear networks whose matrix is 0."""
    import jax

    layout = Layout(("a",), 2, (), ("a",), 2)
    rows = np.array([[0.0, 1.0, 1.0], [1.0, 3.0, 1.0]])
    targets = np.array([[0.0, 2.0], [4.0, 1.0]])
    network = MLP(hidden=()).build(jax.random.key(0), 3, 2)
    draws = np.zeros((len(biases), flatten(network).size))
    draws[:, -2:] = biases
    return Posterior(
        network,
        draws,
        Gaussian(),
        np.log(np.full((1, 2), noise)),
        sequence_scaling(layout, rows, targets, "none"),
        Columns(layout.inputs, layout.targets, rows, targets, layout),
    ), rows


def test_surprise_is_minus_the_log_of_the_mean_density_of_a_step():
    posterior, rows = posterior_of([[0.0, 1.0], [1.0, 1.0]], 0.5)
    targets = np.array([[0.5, 1.0], [3.0, 2.0]])
    found = anomaly.surprise(posterior, rows, targets)
    for row in range(2):
        for step, means in enumerate(([0.0, 1.0], [1.0, 1.0])):
            density = np.mean(norm.pdf(targets[row, step], means, 0.5))
            np.testing.assert_allclose(found[row, step], -np.log(density), rtol=1e-5)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_false_alarms_are_what_was_stated(rate):
    generator = np.random.default_rng(1)
    rates = []
    for _ in range(200):
        held, new = generator.gamma(2.0, size=(2, 400, 4))
        rates.append(anomaly.calibrate_alarm(held, rate).warns(new).mean())
    expected = np.floor(rate * 401) / 401
    assert abs(np.mean(rates) - expected) < 4 * np.std(rates) / np.sqrt(len(rates))


def test_a_step_that_is_always_hard_does_not_drown_the_others():
    generator = np.random.default_rng(0)
    held = generator.normal(size=(500, 2)) * [1.0, 50.0]
    alarm = anomaly.calibrate_alarm(held, 0.01)
    strange = np.array([[12.0, 0.0], [0.0, 12.0]])
    assert alarm.warns(strange).tolist() == [True, False]


def test_too_few_held_out_observations_are_refused():
    with pytest.raises(ValueError, match="at least 99 are needed"):
        anomaly.calibrate_alarm(np.zeros((50, 3)), 0.01)
    with pytest.raises(ValueError, match="between 0 and 1"):
        anomaly.calibrate_alarm(np.zeros((50, 3)), 1.0)


def test_area_under_roc_counts_ties_as_half():
    assert anomaly.area_under_roc(np.array([0.0, 1.0]), np.array([1.0])) == 0.75
    assert anomaly.area_under_roc(np.array([1.0, 2.0]), np.array([0.0])) == 0.0
