"""Small problems with answers known by quadrature, shared by the engines' tests."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# Bayesian linear regression: y = intercept + slope x, noise variance 1/4, prior N(0, I)
LINE_X = np.arange(5.0)[:, None]
LINE_Y = np.array([1.0, 0.5, 0.2, -0.4, -1.1])
LINE_NOISE = 0.5
LINE_LOG_EVIDENCE = -5.248156


class Constant(eqx.Module):
    """A function that is the same everywhere: its value is its only weight."""

    weight: jax.Array

    def __call__(self, x):
        return self.weight


def constant(key, inputs, outputs):
    return Constant(jnp.zeros(outputs))


# tolerances for variational engines, as stated with the answers
MEAN = 1e-2
DUAL = 0.02


def close(value, answer, tolerance=MEAN):
    assert np.all(np.abs(np.asarray(value) - np.asarray(answer)) < tolerance), (value, answer)


def close_dual(value, answer):
    assert abs(value - answer) < DUAL * abs(answer), (value, answer)
