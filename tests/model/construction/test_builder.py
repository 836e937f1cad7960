"""Networks that obey rules whatever their weights are: tried with weights nobody trained."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import (
    MLP,
    RBF,
    AtLeast,
    AtMost,
    Bernoulli,
    Between,
    Categorical,
    Compare,
    Concave,
    Convex,
    Decreasing,
    Equals,
    Gaussian,
    Increasing,
    KnowledgeError,
    Normal,
    Poisson,
)
from prbnn.fitting.prepare import prepare
from prbnn.fitting.task import Task
from prbnn.model.construction.built import built_in
from prbnn.model.construction.shaped import Shape, build_shaped
from prbnn.model.construction.squashing import squash
from prbnn.model.response import response
from prbnn.model.weights import flatten
from prbnn.rules.expressions import parse
from prbnn.rules.trends import trend

pytestmark = pytest.mark.light

COLUMNS = ["dose", "temp", "load"]
SCALES = (0.1, 1.0, 10.0, 100.0)
DRAWS = 8
GENERATOR = np.random.default_rng(0)
ROWS = np.column_stack(
    [GENERATOR.uniform(0, 5, 40), GENERATOR.uniform(-30, 40, 40), GENERATOR.integers(0, 2, 40)]
)
TARGETS = 7 + ROWS[:, 0] - 0.02 * ROWS[:, 1] + GENERATOR.normal(size=40)
# far beyond the data, too: the rules hold everywhere
POINTS = np.column_stack(
    [GENERATOR.uniform(-5, 15, 300), GENERATOR.uniform(-99, 99, 300), GENERATOR.uniform(-1, 2, 300)]
)


def task_of(rules: list, network: Any = None, **options: Any) -> Task:
    chosen: dict[str, Any] = {
        "inference": "bbb",
        "likelihood": Gaussian(),
        "prior": Normal(),
        "tempering": 1.0,
        "scaling": "minmax",
        "points": 8,
        "rejection": None,
        "sample_weight": None,
        "columns": COLUMNS,
        "outputs": None,
        "seed": 0,
        "enforce": "construction",
        **options,
    }
    y = chosen.pop("y", TARGETS)
    return prepare(network or MLP((9, 7)), ROWS, y, rules, **chosen)


def draws_of(task: Task) -> jax.Array:
    """Random weights of every size; some are 0."""
    size = flatten(task.problem.network).size
    weights = np.random.default_rng(1).normal(size=(len(SCALES) * DRAWS, size))
    weights[::5, ::3] = 0
    return jnp.asarray(weights * np.repeat(SCALES, DRAWS)[:, None], float)


@eqx.filter_jit
def _values(network: Any, likelihood: Any, own: jax.Array, draws: jax.Array, x: jax.Array) -> Any:
    def one(weights: jax.Array) -> jax.Array:
        return jax.vmap(response(network, likelihood, weights, own))(x)

    return jax.vmap(one)(draws)


@eqx.filter_jit
def _slopes(
    network: Any, likelihood: Any, own: jax.Array, draws: jax.Array, x: jax.Array, index: jax.Array
) -> jax.Array:
    """d outputs / d one input by jvp, as rules measure it."""
    direction = jnp.zeros(x.shape[1]).at[index].set(1)

    def one(weights: jax.Array) -> jax.Array:
        drawn = response(network, likelihood, weights, own)
        return jax.vmap(lambda at: jax.jvp(drawn, (at,), (direction,))[1])(x)

    return jax.vmap(one)(draws)


def _model(task: Task) -> tuple:
    problem = task.problem
    return problem.network, problem.likelihood, problem.likelihood_start, draws_of(task)


def values(task: Task) -> np.ndarray:
    """(draws, points, outputs) in the user's units, as predictions are made."""
    x = jnp.asarray(task.scaling.inputs(POINTS), float)
    return task.scaling.restore(np.asarray(_values(*_model(task), x)))


def slopes(task: Task, column: str, step: float = 0.0) -> np.ndarray:
    """(draws, points, outputs), with the points moved along the column by a step."""
    points, index = POINTS.copy(), COLUMNS.index(column)
    points[:, index] += step
    x = jnp.asarray(task.scaling.inputs(points), float)
    return np.asarray(_slopes(*_model(task), x, jnp.asarray(index)))


def assert_bends(task: Task, column: str, sign: int) -> None:
    """Slopes never fall (rise) along the column, but for rounding."""
    here = slopes(task, column)
    size = np.abs(here).max(axis=(1, 2), keepdims=True)
    for step in (0.1, 20.0):
        change = sign * (slopes(task, column, step) - here)
        assert np.all(change >= -1e-5 * size)


@pytest.mark.parametrize(
    ("rules", "low", "high", "scaling"),
    [
        ([AtLeast(0.1)], 0.1, np.inf, "minmax"),
        ([AtMost("20 / 3")], -np.inf, 20 / 3, "standard"),
        ([Between(-0.1, 33.3)], -0.1, 33.3, "none"),
        ([AtLeast(1), AtLeast(2.2), AtMost(9), AtMost(8.7)], 2.2, 8.7, "minmax"),
        ([Between(7.0, 7.001)], 7.0, 7.001, "standard"),
    ],
)
def test_numbers_as_limits_hold_exactly(rules: list, low: float, high: float, scaling: str) -> None:
    task = task_of(rules, MLP((6,), "gelu"), scaling=scaling)
    assert built_in(task.problem.network) == {rule.label for rule in task.knowledge}
    assert not task.rules
    seen = values(task)
    assert seen.min() >= low
    assert seen.max() <= high
    # not by being constant
    assert np.ptp(seen) > min(1.0, 0.5 * (high - low))


@pytest.mark.parametrize(
    "network", [MLP((6,), "rbf"), RBF(5), lambda k, i, o: MLP(()).build(k, i, o)]
)
def test_limits_that_move_with_the_inputs_hold_for_any_network(network: Any) -> None:
    rules = [
        AtLeast("0.1*dose - 3"),
        AtMost(lambda x: jnp.exp(x["dose"] / 5) + 0.1 * x[:, 1] ** 2),
        AtMost(90.0),
    ]
    found = values(task_of(rules, network))[..., 0]
    assert np.all(found >= 0.1 * POINTS[:, 0] - 3 - 1e-4)
    high = np.minimum(np.exp(POINTS[:, 0] / 5) + 0.1 * POINTS[:, 1] ** 2, 90)
    assert np.all(found <= high + 1e-4)


def test_a_formula_stays_at_the_edge_of_its_region() -> None:
    rule = AtMost("log(dose + 0.01) + 9", where={"dose": (0, 5)})
    found = values(task_of([rule]))[..., 0]
    assert np.all(np.isfinite(found))
    assert np.all(found <= np.log(np.clip(POINTS[:, 0], 0, 5) + 0.01) + 9 + 1e-4)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "softplus"])
def test_trends_hold_for_every_weight(activation: str) -> None:
    task = task_of([Increasing("dose"), Decreasing("temp", over=2.0)], MLP((9, 7), activation))
    assert slopes(task, "dose").min() >= 0
    assert slopes(task, "temp").max() <= 0
    # the other column goes either way
    free = slopes(task, "load")
    assert free.min() < 0 < free.max()


@pytest.mark.parametrize(
    ("rule", "sign", "activation"), [(Convex("dose"), 1, "relu"), (Concave("dose"), -1, "softplus")]
)
def test_bends_hold_for_every_weight(rule: Any, sign: int, activation: str) -> None:
    rules = [rule, Increasing("dose"), Decreasing("temp")]
    task = task_of(rules, MLP((9, 7), activation))
    assert_bends(task, "dose", sign)
    assert slopes(task, "dose").min() >= 0
    assert slopes(task, "temp").max() <= 0
    only = task_of([rule], MLP((9, 7), activation))
    assert_bends(only, "dose", sign)
    free = slopes(only, "dose")
    assert free.min() < 0 < free.max()


def test_a_column_with_a_trend_beside_one_with_a_bend_need_not_bend() -> None:
    task = task_of([Convex("dose"), Increasing("temp")], MLP((9, 7)))
    change = slopes(task, "temp", 20) - slopes(task, "temp")
    assert change.min() < 0 < change.max()


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_limits_and_trends_together(activation: str) -> None:
    rules = [
        Increasing("dose"),
        Decreasing("temp"),
        AtLeast("dose/9 - exp(temp/60) - 1"),
        AtMost("maximum(20, 15 + sqrt(dose + 1)) + cos(load)", where={"dose": (0, 5)}),
    ]
    task = task_of(rules, MLP((9,), activation))
    assert slopes(task, "dose").min() >= 0
    assert slopes(task, "temp").max() <= 0
    low = POINTS[:, 0] / 9 - np.exp(POINTS[:, 1] / 60) - 1
    assert np.all(values(task)[..., 0] >= low - 1e-4)


def test_one_limit_keeps_a_bend() -> None:
    floor = task_of([Convex("dose"), AtLeast("cos(temp)")], MLP((5,)))
    assert_bends(floor, "dose", 1)
    assert np.all(values(floor)[..., 0] >= np.cos(POINTS[:, 1]) - 1e-4)
    ceiling = task_of([Concave("dose"), AtMost(9.5), Increasing("temp")], MLP((5,)))
    assert_bends(ceiling, "dose", -1)
    assert slopes(ceiling, "temp").min() >= 0
    assert values(ceiling).max() <= 9.5


def test_each_output_has_its_own_rules() -> None:
    y = np.column_stack([TARGETS, -TARGETS, TARGETS**2])
    rules = [
        Decreasing("dose", of="c"),
        AtMost(3, of="b"),
        Increasing("dose", of="a"),
        AtLeast(0, of="a"),
    ]
    task = task_of(rules, MLP((5,)), y=y, outputs=["a", "b", "c"], likelihood=Gaussian("by input"))
    assert task.problem.network(jnp.zeros(3)).shape == (6,)
    found = values(task)
    assert found[..., 0].min() >= 0
    assert found[..., 1].max() <= 3
    rising, free, falling = np.moveaxis(slopes(task, "dose"), -1, 0)
    assert rising.min() >= 0
    assert falling.max() <= 0
    assert free.min() < 0 < free.max()


@pytest.mark.parametrize("likelihood", [Poisson(), Bernoulli()])
def test_trends_of_rates_and_probabilities(likelihood: Any) -> None:
    y = (TARGETS > 9).astype(float)
    task = task_of([Increasing("dose")], likelihood=likelihood, y=y)
    assert slopes(task, "dose").min() >= 0


def test_a_linear_network_and_one_unit_will_do() -> None:
    for hidden in ((), (2,)):
        task = task_of([Increasing("dose"), Convex("temp"), AtLeast(0)], MLP(hidden))
        assert slopes(task, "dose").min() >= 0
        assert_bends(task, "temp", 1)


def test_squashing_never_rounds_beyond_a_limit() -> None:
    """Least of all where the limits are closer than the softness can tell."""
    numbers = np.random.default_rng(0).normal(size=(2, 20_000))
    lower, z = (jnp.asarray(part, float) for part in numbers)
    for gap in (1e-7, 1e-3, 1.0):
        upper = lower + gap
        for softness in (0.01, 1.0):
            found = squash(3 * z, lower, upper, softness)
            assert jnp.all((found >= lower) & (found <= upper))


def test_squashing_is_nearly_the_identity_in_between() -> None:
    z = jnp.linspace(-2, 2, 9)
    assert jnp.allclose(squash(z, -9.0, 9.0, 0.25), z, atol=1e-6)
    assert jnp.all(squash(z, -jnp.inf, jnp.inf, 0.25) == z)
    assert jnp.allclose(squash(z, 0.0, jnp.inf, 0.5), 0.5 * jax.nn.softplus(z / 0.5))
    by_rule = jax.vmap(jax.grad(squash, argnums=(0, 1, 2)), in_axes=(0, None, None, None))
    step = 1e-2
    for place, gradient in enumerate(by_rule(z, -0.3, 0.4, 0.25)):
        ends = [
            squash(
                *(part + sign * step * (k == place) for k, part in enumerate((z, -0.3, 0.4))), 0.25
            )
            for sign in (1, -1)
        ]
        assert jnp.allclose(gradient, (ends[0] - ends[1]) / (2 * step), atol=2e-3)


@pytest.mark.parametrize(("inputs", "depth"), [(1, 1), (4, 3)])
def test_first_functions_spread_like_those_of_an_mlp(inputs: int, depth: int) -> None:
    hidden = (100,) * depth
    x = jnp.asarray(np.random.default_rng(0).normal(size=(200, inputs)), float)
    keys = jax.random.split(jax.random.key(0), 20)

    def spread(start: Any) -> float:
        found = jax.jit(jax.vmap(lambda key: jnp.std(jax.vmap(start(key))(x))))(keys)
        return float(jnp.mean(found))

    usual = spread(lambda key: MLP(hidden).build(key, inputs, 1))
    one = (True, *(False,) * (inputs - 1))
    for shape in (Shape((1,) * inputs, (False,) * inputs), Shape((0,) * inputs, one, 1)):
        ratio = spread(lambda key, shape=shape: build_shaped(key, shape, hidden, "relu")) / usual
        assert 0.2 < ratio < 3


def test_other_numbers_need_no_other_program() -> None:
    def network(shift: float) -> Any:
        rules = [Increasing("dose"), AtLeast(shift), AtMost("dose + 20", name="cap")]
        return task_of([rules[0], rules[2]], y=TARGETS + shift).problem.network

    first, second = network(0.0), network(3.0)
    assert eqx.tree_equal(
        *(jax.tree.map(jnp.shape, eqx.filter(part, eqx.is_array)) for part in (first, second))
    )
    static = [eqx.filter(part, eqx.is_array, inverse=True) for part in (first, second)]
    assert jax.tree.structure(static[0]) == jax.tree.structure(static[1])


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("3", 0),
        ("b + 2", 0),
        ("log(25*a + 1)/3 + 0.05", 1),
        ("-a/2 - exp(3*a)", -1),
        ("2 - sigmoid(a) + b**2", -1),
        ("maximum(a, b, sqrt(a))", 1),
        ("clip(tanh(a), 0, 1) * -3", -1),
        ("a * 0", 0),
        ("softplus(-a)", -1),
        ("a * b", None),
        ("a - sqrt(a)", None),
        ("1 / a", None),
        ("a**2", None),
        ("abs(a)", None),
        ("where(a > 0, 1, 0)", None),
        ("sin(a)", None),
    ],
)
def test_trends_of_formulas(text: str, way: int | None) -> None:
    assert trend(parse(text, ["a", "b"]), "a") == way


REFUSED = {
    "nor a trend (Increasing, Decreasing)": [Compare({"load": 1}, above={"load": 0})],
    "neither limits of an output": [Equals(0)],
    "is not an output's name": [AtLeast(0, of="y**2")],
    "leave margin out": [AtLeast(0, margin=0.1)],
    "of 40 rows lie outside its region": [Increasing("dose", where={"load": 1})],
    "constant along dose everywhere": [Increasing("dose"), Decreasing("dose")],
    "a straight line along dose everywhere": [Convex("dose"), Concave("dose")],
    "asks for the opposite curvature": [Convex("dose"), Concave("temp")],
    "an upper limit would break": [Convex("dose"), AtMost(9)],
    "a lower limit would break": [Concave("dose"), Between(0, 9)],
    "its limit moves with dose": [Convex("dose"), AtLeast("dose")],
    "its limit does not rise with dose": [Increasing("dose"), AtMost("9 - dose")],
    "its limit may not fall with temp": [Decreasing("temp"), AtLeast("temp**2 - 9999")],
    "its limit may not rise with dose": [Increasing("dose"), AtMost(lambda x: x["dose"] + 9)],
    "cannot be met by construction: its callable": [AtMost(lambda x: np.exp(x["dose"]))],
    "the lower one is 3 and the upper one 1": [AtLeast(3), AtMost(1)],
    "did you mean 'temp'?": [AtMost("tmp + 1")],
    "no column 'dos'; did you mean 'dose'": [Increasing("dos")],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_built_is_refused_by_name(words: str) -> None:
    with pytest.raises(KnowledgeError) as told:
        task_of(REFUSED[words])
    assert words in str(told.value)
    assert any(repr(rule.label) in str(told.value) for rule in REFUSED[words]) or "'y'" in str(
        told.value
    )


def test_networks_that_cannot_have_the_shape_are_refused() -> None:
    for network, rule, words in (
        (RBF(3), Increasing("dose"), "shapes need network=MLP"),
        (MLP((4,), "gelu"), Increasing("dose"), "use relu or tanh or sigmoid or softplus"),
        (MLP((4,), "tanh"), Convex("dose"), "use relu or softplus"),
    ):
        with pytest.raises(KnowledgeError, match=words):
            task_of([rule], network)
    with pytest.raises(KnowledgeError, match="only trends can be built"):
        task_of([AtMost(0.5)], likelihood=Poisson(), y=np.round(TARGETS))
    classes = np.eye(3)[GENERATOR.integers(0, 3, 40)]
    with pytest.raises(KnowledgeError, match="share their probabilities"):
        task_of(
            [Increasing("dose", of="a")], likelihood=Categorical(), y=classes, outputs=list("abc")
        )
    with pytest.raises(ValueError, match="'construction', got 'hope'"):
        task_of([], enforce="hope")


def test_soft_rules_are_left_to_training() -> None:
    rules = [Increasing("dose"), Equals(3, name="near").soft(2), AtMost(99).probably(0.9)]
    task = task_of(rules)
    assert [rule.label for rule in task.rules] == ["near", "output <= 99"]
    assert built_in(task.problem.network) == {"output rises with dose"}
    assert len(task.knowledge) == 3
    assert built_in(task_of(rules[1:], enforce="pressure").problem.network) == frozenset()
