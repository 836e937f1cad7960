"""A search finds where each draw breaks a rule, however small the part of the region is."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from prbnn import AtLeast, AtMost, Gaussian
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.posterior import searching
from prbnn.posterior.draws import Posterior
from prbnn.posterior.searching import Search
from prbnn.rules.regions import around

CUBE = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)}
WIDTH, DEPTH = 0.07, 1.25
DRAWS = 12


class Hole(eqx.Module):
    """1 nearly everywhere, and below 0 in a ball that is about 5e-6 of the cube."""

    centre: Array

    def __call__(self, x: Array) -> Array:
        away = jnp.sum((x - self.centre) ** 2) / WIDTH**2
        return jnp.atleast_1d(1 - DEPTH / (1 + away))


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    generator = np.random.default_rng(0)
    rows = generator.uniform(0, 1, (40, 3))
    rows[:2] = [[0, 0, 0], [1, 1, 1]]
    targets = generator.normal(size=(40, 1))
    scaling = scaling_of(rows, targets)
    # holes lie in the cube, in network units
    centres = np.asarray(scaling.inputs(generator.uniform(0.1, 0.9, (DRAWS, 3))), np.float32)
    likelihood = Gaussian(0.1)
    return Posterior(
        network=Hole(jnp.zeros(3)),
        draws=centres,
        likelihood=likelihood,
        likelihood_parameters=jnp.asarray(likelihood.start(scaling.output_scale, targets), float),
        scaling=scaling,
        columns=Columns(tuple(CUBE), ("y",), rows, targets),
    )


def rule_of(posterior: Posterior) -> AtLeast:
    """Not below 0 in network units."""
    return AtLeast(float(posterior.scaling.restore(np.zeros((1, 1)))[0, 0]), where=CUBE)


def test_a_hole_that_random_points_miss_is_found(posterior: Posterior) -> None:
    rule = rule_of(posterior)
    assert posterior.check([rule], posterior.bind([rule], 16_384)).obeys().mean() > 0.8
    search = Search(posterior, [rule], 1)
    looked = search.look(posterior.vectors, 4096)
    assert np.mean(looked.least[:, 0] < 0) > 0.8


def test_without_going_deeper_it_is_not(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "DEEPER", 0)
    search = Search(posterior, [rule_of(posterior)], 1)
    assert np.mean(search.look(posterior.vectors, 4096).least[:, 0] < 0) < 0.3


def test_what_is_reported_is_where_each_draw_scores_lowest(posterior: Posterior) -> None:
    rule = rule_of(posterior)
    looked = Search(posterior, [rule], 2).look(posterior.vectors, 1024)
    assert np.all(np.diff(looked.scores, axis=2) >= 0)
    np.testing.assert_array_equal(looked.scores[:, 0, 0], looked.least[:, 0])
    (region,) = looked.points
    for draw, points in enumerate(region):
        value = posterior.take([draw]).functions(points)[0, :, 0] - rule.bound
        unit = float(posterior.scaling.output_scale[0])
        np.testing.assert_allclose(value / unit, looked.scores[draw, 0], atol=1e-4)


def test_rules_of_many_regions_are_searched(posterior: Posterior) -> None:
    rules = [AtMost(1e3, where={**CUBE, "a": (0.0, 0.5 + k / 100)}) for k in range(40)]
    looked = Search(posterior, rules, 3).look(posterior.vectors, 4096)
    assert looked.least.shape == (DRAWS, 40) and len(looked.points) == 40
    assert np.all(looked.least > 0)


def test_new_points_stay_in_the_region_of_the_points_that_they_are_close_to() -> None:
    generator = np.random.default_rng(1)
    rows = np.column_stack([generator.uniform(0, 10, (50, 2)), generator.integers(0, 3, 50)])
    columns = Columns(("x", "z", "kind"), ("y",), rows, rows[:, :1], categories=("kind",))
    rule = AtLeast(0, where=[{"x": (0, 1)}, {"x": (6, 8)}])
    held = rows[((rows[:, 0] >= 0) & (rows[:, 0] <= 1)) | ((rows[:, 0] >= 6) & (rows[:, 0] <= 8))]
    near = around(rule.sampling(columns), columns, held, 20, 4).reshape(len(held), 20, 3)
    low = np.where(held[:, :1] <= 1, 0, 6)
    high = np.where(held[:, :1] <= 1, 1, 8)
    assert np.all((near[:, :, 0] >= low) & (near[:, :, 0] <= high))
    assert np.all(near[:, :, 2] == held[:, None, 2])
    away = np.abs(near - held[:, None])[:, :, :2]
    assert np.all(away[:, :, 0] <= 0.3 * (high - low)) and np.all(away[:, :, 1] <= 3)
    assert 0 < np.median(away[:, :, 0]) < 0.05 and np.mean(away[:, :, 1] > 0) > 0.3
