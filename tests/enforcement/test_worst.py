"""A step evaluates hard rules at the worst points known: which these are, and what they are for."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.enforcement.tasks import prepared

from prbnn import AtLeast, AtMost, Gaussian, Increasing, PRBNNRegressor, fit
from prbnn.enforcement.measure import measure
from prbnn.enforcement.worst import first_worst, kept_worst, worst_width
from prbnn.fitting.fitted import FittedTask
from prbnn.fitting.loop import start
from prbnn.model.networks import MLP
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import DENSE, BoundKnowledge

WIDTH = 8
# two rules of values share a pool, one of them hard; the slope has its own
RULES: list[Rule] = [AtLeast(0), AtLeast(0.0, name="soft").soft(1.0), Increasing("x0")]


@pytest.fixture(scope="module")
def knowledge() -> BoundKnowledge:
    found = prepared(RULES).problem.knowledge
    assert found is not None
    assert [group.places for group in found.groups] == [(0, 1), (2,)]
    return found


@pytest.mark.parametrize(
    ("rules", "inputs", "inference", "half"),
    [
        ([AtLeast(0)], 2, "bbb", True),
        ([AtLeast(0).soft(1.0)], 2, "bbb", False),
        ([AtLeast(0).hard(0.1)], 2, "bbb", False),
        ([AtLeast(0)], 1, "bbb", False),
        ([AtLeast(0)], 2, "nuts", False),
        ([], 2, "bbb", False),
    ],
)
def test_half_the_points_are_the_worst_where_a_hard_rule_has_a_wide_pool(
    rules: list[Rule], inputs: int, inference: str, half: bool
) -> None:
    made = prepared(rules, inputs, inference)
    carry = start(made.engine, made.problem, made.enforcement, jax.random.key(0))
    assert carry.worst.shape == (len(rules), made.problem.points_width // 2 * half)


def test_the_worst_points_of_a_pool_are_found(knowledge: BoundKnowledge) -> None:
    """All points as one block, of which some are hot."""
    size = knowledge.groups[0].points.shape[0]
    heat = np.zeros((3, size + 3))
    heat[0, [5, 900, 77]] = [1.0, 2.0, 3.0]
    heat[1, 1:9] = 9.0  # of a soft rule, whose mean must stay what it is
    heat[2, size - 3 : size] = 1.0
    worst = kept_worst(knowledge, first_worst(knowledge, 3), jnp.asarray(0), jnp.asarray(heat))
    assert worst[0].tolist() == [77, 900, 5]
    assert sorted(worst[1].tolist()) == [size - 3, size - 2, size - 1]


def test_a_worse_point_of_the_block_takes_the_place_of_a_better_one(
    knowledge: BoundKnowledge,
) -> None:
    worst = jnp.array([[50, 7], [1, 2]])
    # the block is points 4 to 7, and 7 is known already
    heat = jnp.array(
        [
            [0.1, 0.6, 0.0, 0.9, 0.5, 0.9],
            [9.0] * 6,
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    found = kept_worst(knowledge, worst, jnp.asarray(4), heat)
    assert sorted(found[0].tolist()) == [5, 7]
    assert found[1].tolist() == [1, 2]


def test_rules_that_share_a_pool_have_their_own_worst_points() -> None:
    both = prepared([AtLeast(0), AtMost(1)]).problem.knowledge
    assert both is not None
    heat = np.zeros((2, both.groups[0].points.shape[0] + 4))
    heat[0, 10:20], heat[1, 100:102] = 100.0, 1.0
    found = kept_worst(both, first_worst(both, 4), jnp.asarray(0), jnp.asarray(heat))
    assert sorted(found[0].tolist()) == [10, 11, 100, 101]


def test_only_hard_rules_without_a_tolerance_are_evaluated_there(knowledge: BoundKnowledge) -> None:
    """The pool's lowest x0 is where x0 - 0.5 breaks a floor of 0 most; a mean over it would be biased."""
    x0 = np.asarray(knowledge.groups[0].points)[:, 0]
    lowest = np.argsort(x0)[: WIDTH // 2]
    worst = first_worst(knowledge, WIDTH // 2).at[0].set(lowest)

    def network(x):
        return x[:1] - 0.5

    with_them = measure(knowledge, network, 16, WIDTH, worst=worst)
    without = measure(knowledge, network, 16, WIDTH // 2)
    assert with_them.f[1] == pytest.approx(float(without.f[1]))
    points = np.concatenate([x0[16 : 16 + WIDTH // 2], x0[lowest]])
    assert with_them.f[0] == pytest.approx(np.minimum(points - 0.5, 0).mean(), rel=1e-5)
    assert with_them.heat is not None and with_them.heat.shape == (3, WIDTH)
    np.testing.assert_allclose(with_them.heat[0], np.maximum(0.5 - points, 0), atol=1e-6)
    assert without.heat is None


def test_small_pools_have_none(knowledge: BoundKnowledge) -> None:
    size = knowledge.groups[0].points.shape[0]
    assert worst_width(knowledge, size // 16) == 0
    assert worst_width(knowledge, size // 32) == size // 64
    assert worst_width(None, 8) == 0


def test_training_knows_the_worst_points_at_its_end() -> None:
    """The floor is broken most where the data are lowest, in a corner of four inputs."""
    generator = np.random.default_rng(1)
    x = generator.uniform(size=(200, 4))
    y = x.sum(axis=1) + 0.05 * generator.normal(size=200)
    solution = fit(MLP((16,)), x, y, [AtLeast(1.0)], steps=500, draws=20, likelihood=Gaussian(0.05))
    fitted = solution.fitted
    assert isinstance(fitted, FittedTask)
    assert fitted.task.problem.knowledge is not None
    points = np.asarray(fitted.task.problem.knowledge.groups[0].points)
    worst = points[np.asarray(fitted.carry.worst[0])]
    assert worst.sum(axis=1).mean() < np.quantile(points.sum(axis=1), 0.05)


def test_functions_over_five_inputs_obey_as_asked() -> None:
    """Breaks are rare: without the worst points hardly any drawn function would obey."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(400, 5))
    y = 0.3 * x[:, 0] * x[:, 1] + np.sin(4 * x[:, 2]) * x[:, 3] + 0.02 * generator.normal(size=400)
    model = PRBNNRegressor(
        MLP((32,)), [Increasing("x0")], tempering=0.2, steps=1500, draws=50, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    assert model.acceptance_ > 0.6
    assert model.noise_ < 0.07


def test_counterexamples_come_as_often_in_a_large_pool_as_in_a_small_one() -> None:
    made = prepared([AtLeast(0)])
    joined = made.also_at({0: np.full((4, 2), 9.0)}).problem.knowledge
    assert joined is not None
    points = np.asarray(joined.groups[0].points)
    count = int(np.sum(np.all(points == 9.0, axis=1)))
    assert count == 4 * len(points) // DENSE
