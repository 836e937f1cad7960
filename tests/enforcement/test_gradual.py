"""Fixed weights that grow during the warm-up, where that was asked for."""

import jax.numpy as jnp
import numpy as np
import pytest

import prbnn
from prbnn import MLP, AtLeast, Falls, PRBNNSequenceRegressor
from prbnn.enforcement.pressure import enforcement_of

pytestmark = pytest.mark.light

RULES = (AtLeast(0).soft(8.0), AtLeast(0).in_prior(6.0), AtLeast(0))


@pytest.mark.parametrize(("warmed", "factor"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0), (7.0, 1.0)])
def test_soft_and_prior_weights_grow_and_duals_do_not(warmed, factor):
    gradual = enforcement_of(RULES, np.ones(3), 10.0, gradual=True)
    state = gradual.init()
    whole = gradual.pressure(state)
    found = gradual.pressure(state, jnp.asarray(warmed))
    np.testing.assert_allclose(found, whole * np.array([factor, factor, 1.0]), rtol=1e-6)


def test_elsewhere_they_are_whole_from_the_first_step():
    plain = enforcement_of(RULES, np.ones(3), 10.0)
    found = plain.pressure(plain.init(), jnp.asarray(0.1))
    np.testing.assert_allclose(found[:2], [8.0, 6.0])


def test_sequences_ask_for_it_and_rows_do_not():
    walks = np.random.default_rng(0).normal(size=(12, 5, 1)).cumsum(axis=1)
    model = PRBNNSequenceRegressor(
        MLP((2,)), [Falls("x0").soft(1.0)], steps=30, draws=5, random_state=0, verbose=False
    )
    with pytest.warns(UserWarning):
        model.fit(walks[:, :3], walks[:, 3:])
    assert model.solution_.fitted.task.enforcement.gradual
    rows = prbnn.fit(MLP((2,)), [[0.0], [1.0]], [0.0, 1.0], [AtLeast(0).soft(1.0)], steps=30)
    assert not rows.fitted.task.enforcement.gradual


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_a_handful_of_steps_is_no_division_by_zero(steps):
    found = prbnn.fit(MLP((2,)), [[0.0], [1.0]], [0.0, 1.0], [AtLeast(0).soft(1.0)], steps=steps)
    assert found.result.status != "diverged"
    walks = np.random.default_rng(0).normal(size=(12, 5, 1)).cumsum(axis=1)
    model = PRBNNSequenceRegressor(
        MLP((2,)), [Falls("x0").soft(1.0)], steps=steps, draws=5, random_state=0, verbose=False
    )
    with pytest.warns(UserWarning):
        model.fit(walks[:, :3], walks[:, 3:])
    assert np.all(np.isfinite(model.predict(walks[:, :3])))
