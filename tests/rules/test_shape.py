"""Shape rules on a relu network, whose second derivative says nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import Concave, Convex, CurvatureBetween
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.enforcement.measure import measure
from prbnn.model.networks import Dense, Layers
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all


def bent_down() -> Layers:
    """y = -relu(x) - relu(x - 0.5): straight pieces that turn down at 0 and at 0.5."""
    hidden = Dense(jnp.array([[1.0], [1.0]]), jnp.array([0.0, -0.5]))
    return Layers((hidden, Dense(jnp.array([[-1.0, -1.0]]), jnp.zeros(1))), "relu")


def bound(rule: Rule) -> BoundKnowledge:
    inputs = np.linspace(-1, 1.5, 51)[:, None]
    outputs = -np.maximum(inputs, 0) - np.maximum(inputs - 0.5, 0)
    return bind_all(
        [rule], Columns(("x",), ("y",), inputs, outputs), scaling_of(inputs, outputs, "none"), 512
    )


def deepest(knowledge: BoundKnowledge) -> float:
    """The lowest score, in the user's units."""
    return float(knowledge.scores(bent_down())[0].min()) * knowledge.units[0]


def test_the_second_derivative_of_a_relu_network_is_zero_although_it_bends() -> None:
    places = jnp.linspace(-1, 1.5, 101)[:, None] + 1e-3
    curvature = jax.vmap(jax.hessian(lambda x: bent_down()(x)[0]))(places)
    assert np.all(np.asarray(curvature) == 0)


@pytest.mark.parametrize("step", [None, 0.1, 0.3])
def test_convex_is_broken_and_concave_holds_on_a_relu_network_that_bends_down(step) -> None:
    convex, concave = bound(Convex("x", step=step)), bound(Concave("x", step=step))
    assert measure(convex, bent_down()).broken.tolist() == [1]
    assert measure(concave, bent_down()).broken.tolist() == [0]
    assert deepest(convex) < -1


def test_the_bend_at_a_kink_is_its_turn_over_the_step() -> None:
    knowledge = bound(CurvatureBetween("x", lower=0, step=0.2))
    assert deepest(knowledge) == pytest.approx(-1 / 0.2, rel=0.02)


def test_the_gradient_of_a_broken_convex_rule_straightens_the_network() -> None:
    knowledge = bound(Convex("x", step=0.2))
    gradient = jax.grad(lambda network: measure(knowledge, network).f[0])(bent_down())
    turns = gradient.layers[1].weight[0]
    assert np.all(np.isfinite(turns))
    assert np.all(np.asarray(turns) > 0)
