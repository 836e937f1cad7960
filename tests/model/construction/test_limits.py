"""What is built holds at every float64 input: beside a jump, on a steep slope, far from the data."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from tests.marks import quick

from prbnn import MLP, AtLeast, AtMost, Between, Increasing, fit, load
from prbnn.certify import certify
from prbnn.rules.evaluation import at_points

pytestmark = pytest.mark.light

X = np.linspace(0, 1, 25)[:, None]
Y = 1.2 + X[:, 0]
GENERATOR = np.random.default_rng(0)
JUMPS = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 1.0])


def beside(places: np.ndarray) -> np.ndarray:
    """Float64 numbers on either side of some, as near as there are, and random ones."""
    near = [places, np.nextafter(places, -np.inf), np.nextafter(places, np.inf)]
    near += [places + sign * 10.0**-power for power in range(6, 16) for sign in (1, -1)]
    return np.concatenate([*near, GENERATOR.uniform(-3, 4, 200), [1e6, -1e6]])[:, None]


def stairs(x):
    """A callable that jumps, with jax.numpy."""
    return jnp.where(x["x"] < 0.3, 1.0, 2.0) + jnp.floor(10 * x["x"]) / 10


BOUNDS = {
    "where": "where(x < 0.5, 1, 2)",
    "floor": "1 + floor(10 * x) / 10",
    "sign": "1.5 + 0.2 * sign(x - 0.3)",
    "comparison": "1 + (x >= 0.7) * 0.5",
    "steep": "1 + clip(1e9 * (x - 0.5), 0, 1)",
    "pole": "1.5 + arctan(1 / (x - 0.3))",
    "callable": stairs,
}


def drawn(rules, scaling="standard", y=Y, x=X):
    """A built posterior with weights of every size, none of them trained."""
    solution = fit(
        MLP((4,)), x, y, rules, enforce="construction", scaling=scaling, steps=1, draws=12
    )
    raw = solution.posterior
    weights = np.random.default_rng(1).normal(size=raw.draws.shape) * np.repeat([1, 30], 6)[:, None]
    return replace(raw, draws=weights.astype(np.float32))


LIMITS = [*((name, True) for name in BOUNDS), ("where", False), ("steep", False)]
# the callable has stairs and a comparison, too
EVERY_TIME = [
    ("where", True),
    ("where", False),
    ("steep", True),
    ("pole", True),
    ("callable", True),
]


@pytest.mark.parametrize(
    "limit", quick(LIMITS, *EVERY_TIME), ids=lambda limit: "-".join(map(str, limit))
)
def test_a_limit_holds_exactly_at_every_input_of_float64(limit):
    name, upper = limit
    bound = BOUNDS[name]
    rule = AtMost(bound, name="r") if upper else AtLeast(bound, name="r")
    posterior = drawn([rule])
    points = beside(JUMPS)
    limit = at_points(bound, posterior.columns, points, "bound")
    values = posterior.functions(points)[..., 0]
    assert np.all(values <= limit) if upper else np.all(values >= limit)
    mean = posterior.predict(points).mean[:, 0]
    slack = 1e-15 * np.abs(limit)
    assert np.all(mean <= limit + slack) if upper else np.all(mean >= limit - slack)
    # what is drawn still has room: it is no limit everywhere
    assert np.any(np.abs(values - limit) > 0.01)


@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_whatever_the_scaling_and_the_units(scaling):
    y = 1e6 + 1e-3 * Y
    rules = [Between("1e6 + where(x < 0.5, 0, 0.0015)", "1e6 + 0.003 + 0 * x", name="r")]
    posterior = drawn(rules, scaling, y)
    points = beside(JUMPS)
    values = posterior.functions(points)[..., 0]
    assert np.all(values >= 1e6 + np.where(points[:, 0] < 0.5, 0, 0.0015))
    assert np.all(values <= 1e6 + 0.003)


def test_a_limit_is_read_as_it_is_up_to_the_edge_of_its_region():
    rule = AtMost("1 + 1e8 * (x - 0.3)", where={"x": (0.3, 1.1)}, name="r")
    x = np.linspace(0.3, 1.1, 25)[:, None]
    posterior = drawn([rule], y=np.linspace(-1, 1, 25), x=x)
    points = np.array([[0.3], [np.nextafter(0.3, 1)], [0.3 + 1e-9], [1.1]])
    limit = 1 + 1e8 * (points[:, 0] - 0.3)
    assert np.all(posterior.functions(points)[..., 0] <= limit)


def test_a_trend_survives_a_limit_with_stairs():
    rules = [AtMost("1 + floor(10 * x) / 10", name="cap"), Increasing("x", name="up")]
    posterior = drawn(rules)
    points = np.sort(beside(JUMPS), axis=0)
    values = posterior.functions(points)[..., 0]
    size = np.abs(values).max()
    assert np.all(np.diff(values, axis=1) >= -1e-6 * size)
    assert np.all(values <= at_points("1 + floor(10 * x) / 10", posterior.columns, points, "b"))


def test_checks_reports_and_proofs_read_the_same_values():
    rules = [AtMost(BOUNDS["steep"], name="steep"), AtLeast(-50, name="number")]
    posterior = drawn(rules)
    found = posterior.check(rules)
    assert not found.broken().any() and np.all(found.worst >= 0)
    assert posterior.breaks_of_mean(rules).tolist() == [0, 0]
    assert certify(posterior, rules).holds


def test_a_callable_of_jax_is_read_in_float64_where_rules_are_checked():
    posterior = drawn([AtMost(9.0)])
    points = np.array([[0.29999999999], [0.3]])
    assert at_points(stairs, posterior.columns, points, "b").tolist() == [1.2, 2.3]


def test_a_saved_model_is_held_to_the_same_limits(tmp_path):
    from prbnn import PRBNNRegressor

    model = PRBNNRegressor(
        MLP((4,)),
        [AtMost(BOUNDS["where"], name="r")],
        enforce="construction",
        tempering=0.2,
        steps=60,
        draws=20,
        random_state=0,
    )
    with pytest.warns(UserWarning):
        model.fit(X, Y)
    model.save(tmp_path / "m.prbnn")
    again = load(tmp_path / "m.prbnn")
    points = beside(np.array([0.5]))
    for each in (model, again):
        values = each.posterior_.functions(points)[..., 0]
        assert np.all(values <= np.where(points[:, 0] < 0.5, 1, 2))
    assert model.knowledge_report_["r"].verdict == "met by construction"
