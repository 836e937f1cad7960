"""Every kind of rule: what is proved is the score that the library computes, and none is lower."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    Between,
    Combined,
    Compare,
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Equals,
    Increasing,
    OneOf,
    Outside,
    Periodic,
    Score,
    SlopeBetween,
    Unimodal,
)
from prbnn.certify.questions import boxes, question
from prbnn.certify.rule_property import RuleProperty
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.model.likelihoods import Gaussian
from prbnn.model.response import response
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.regions import sample
from prbnn.rules.scoring.binding import bind_at
from prbnn.rules.scoring.drawn import Drawn, frame_of

pytestmark = pytest.mark.light

RULES: dict[str, Rule] = {
    "at least": AtLeast(0.5, of="y"),
    "at most text": AtMost("log(25*x + 1)/3 + z", of="y", where={"x": (0.1, 1)}),
    "between callables": Between(
        lambda rows: np.minimum(rows["x"], 0.3) - 9,
        lambda rows: jnp.exp(jnp.asarray(rows["x"])) + rows[:, 1] ** 2,
        of="y",
    ),
    "numpy where": AtLeast(lambda rows: np.where(rows["x"] > 1, rows["x"], 0.0), of="y"),
    "equals": Equals("x", of="y"),
    "equals within": Equals(3.0, within=0.2, of="y", where={"flag": (0, 1), "x": (0, 2)}),
    "one of": OneOf([(0, 1), (3, "4 + x")], of="y"),
    "outside": Outside([(1, 3), ("5*x", "5*x + 1")], of="y"),
    "outside smooth": Outside([(1, 3)], smooth=(15, 2), of="w"),
    "increasing": Increasing("x", of="y"),
    "increasing over": Increasing("x", over=0.25, of="y", where={"z": (0, 1)}),
    "decreasing": Decreasing("z", of="w"),
    "decreasing over": Decreasing("x", over=0.1, of="y"),
    "slope": SlopeBetween("x", "-x", 2, of="y"),
    "curvature": CurvatureBetween("x", -1, "3 + x", step=0.2, of="y"),
    "periodic": Periodic("x", 0.7, within=0.3, of="y"),
    "unimodal": Unimodal("x", 1.1, over=0.2, of="y"),
    "unimodal between": Unimodal("x", (0.9, 1.2), of="y"),
    "convex": Convex("x", of="y"),
    "concave": Concave("z", step=0.3, of="w"),
    "below": Compare({"flag": 1}, below={"flag": 0}, of="y", by="0.1 * abs(x)"),
    "above": Compare({"x": "x + 0.1"}, above={}, of="y"),
    "within": Compare({"x": "minimum(x, 1)"}, within={"x": 1}, by=2.0, of="y"),
    "score": Score(lambda f, x: 1.0 - jnp.abs(f.slope(x, "x", "y") + f(x, "w") * x["z"])),
    "score of a bend": Score(lambda f, x: f.bend(x, "x", 0.2, "y") + 3.0, unit=2.0),
    "several scores": Score(lambda f, x: jnp.stack([f(x, "y"), 1 - f(x.replace(x=0.5), "w")])),
    "combined": Combined([AtLeast(0, of="y"), Increasing("x", of="y")], weights=[1, 2]),
    "of text": AtLeast(0.0, of="y * x - tanh(w) / (2 + abs(z))"),
    "of a branch": AtLeast(0.0, of="where(x >= 1.1, y, y - 10)"),
    "of a callable": AtMost(4.0, of=lambda x, y: y["y"] ** 2 + x["x"] * y["w"]),
    "slope of text": SlopeBetween("x", -3, 5, of="maximum(y, w) * x"),
    "huge": AtLeast("3 * (far - 1000000)", of="y"),
    "huge text": AtLeast(0.0, of="y - 3 * (far - 1000000)"),
    "huge slope": Increasing("far", of="y"),
}
QUICK = ("below", "huge text")


def posterior(activation: str = "relu", kind: str = "standard") -> Posterior:
    generator = np.random.default_rng(8)
    rows = np.column_stack(
        [
            generator.uniform(0, 2, 40),
            generator.uniform(-1, 3, 40),
            np.arange(40) % 2,
            1e6 + generator.uniform(-1, 1, 40),
        ]
    )
    targets = generator.normal(size=(40, 2)) * [3, 0.4] + [10, 0]
    network = MLP((6,), activation=activation)
    built = [network.build(jax.random.key(k), 4, 2) for k in range(2)]
    return Posterior(
        built[0],
        np.stack([np.asarray(flatten(each)) for each in built]),
        Gaussian(),
        np.zeros((2, 2), np.float32),
        scaling_of(rows, targets, kind),
        Columns(("x", "z", "flag", "far"), ("y", "w"), rows, targets),
    )


def agreement(rule: Rule, found: Posterior) -> None:
    columns, scaling = found.columns, found.scaling
    points = sample(rule.sampling(columns), columns, 64)
    group = bind_at([rule], columns, scaling, points).groups[0]
    frame = frame_of(columns, scaling)
    drawn = response(found.network, found.likelihood, jnp.asarray(found.draws[1]), jnp.zeros(2))

    @jax.jit
    def both(x: Any, known: Any, plain: Any) -> tuple:
        bound = group.rules[0]
        here = bound.score(Drawn(drawn, frame), x, known)
        return jnp.ravel(here), jnp.ravel(bound.score(Drawn(drawn, frame), x, plain))

    with jax.enable_x64(True):
        exact = question(rule, columns, scaling, 4)
        read = jax.vmap(exact.known)(jnp.asarray(points))
        read = jax.tree.map(lambda a: np.asarray(a, np.float32), read)
        wide = frame_of(columns, scaling)
        double = response(
            jax.tree.map(lambda a: jnp.asarray(np.asarray(a), float), found.network),
            found.likelihood,
            jnp.asarray(found.draws[1], float),
            jnp.zeros(2),
        )
        x = jnp.asarray(scaling.inputs(points))
        alone = np.asarray(jax.vmap(lambda x: exact.score(Drawn(double, wide), x))(x))
    expected, traced = jax.vmap(both)(group.points, group.rules[0].known, read)
    np.testing.assert_allclose(traced, expected, rtol=2e-4, atol=2e-4)
    # the user's units far from 0, in which text is evaluated in float32, are too coarse to compare
    if "far" not in rule.label:
        np.testing.assert_allclose(alone, expected, rtol=2e-3, atol=2e-3)


def shortfall(rule: Rule, found: Posterior, *, rounds: int = 24, eager: bool = True) -> float:
    """By how much a deployed score is below what was promised for its box, at worst."""
    task = RuleProperty(found, rule, 4, 1e-4)
    generator, lanes, networks = np.random.default_rng(0), 8, np.arange(len(found))
    pick = generator.integers(len(task.question.lower), size=(len(found), lanes))
    start, end = task.question.lower[pick], task.question.upper[pick]
    width = np.array([0, 1e-7, 1e-3, 0.02, 0.1, 0.3, 1, 0])[:, None] * (end - start)
    centre = start + (end - start) * generator.random(start.shape)
    low, high = np.clip(centre - width / 2, start, end), np.clip(centre + width / 2, start, end)
    with jax.disable_jit(eager):
        least = task.enclose(networks, low, high)[0]
    assert not np.isnan(least).any()
    assert np.isfinite(least).mean() > 0.5
    worst = -np.inf
    for number in range(rounds):
        share = generator.random(low.shape)
        share = np.round(share) if number % 3 == 0 else share
        points = np.clip(low + (high - low) * share, low, high)
        worst = max(worst, float(np.max(least - task.deployed(networks, points))))
    return worst


@pytest.mark.parametrize("name", RULES)
def test_the_score_that_is_proved_is_the_librarys(name: str) -> None:
    agreement(RULES[name], posterior())


@pytest.mark.parametrize("name", QUICK)
def test_no_deployed_score_is_below_what_is_promised(name: str) -> None:
    assert shortfall(RULES[name], posterior()) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["standard", "minmax", "none"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", RULES)
def test_no_deployed_score_of_any_rule_is_below(name: str, activation: str, kind: str) -> None:
    found = posterior(activation, kind)
    assert shortfall(RULES[name], found, rounds=400, eager=False) <= 0


def test_a_column_of_two_values_is_swept_between_them_where_only_one_is_named() -> None:
    """The library tries every number from 0 to 0.5, so all of them are to be proved."""
    columns = posterior().columns
    rule = AtLeast(0.0, of="y", where={"flag": (0, 0.5)})
    lower, upper, *_ = boxes(rule.sampling(columns), columns, 4)
    flags = sample(rule.sampling(columns), columns, 64)[:, 2]
    assert lower[:, 2].min() <= flags.min() and flags.max() <= upper[:, 2].max()


@pytest.mark.slow
def test_a_bound_that_begins_where_its_root_does_is_enclosed() -> None:
    rule = AtMost("3 + sqrt(x)", of="y", where={"x": (0, 1)})
    assert shortfall(rule, posterior()) <= 0
    task = RuleProperty(posterior(), rule, 1, 1e-4)
    with jax.disable_jit():
        ends = np.zeros((1, 1, 4)), np.array([[[0.5, 0, 0, 0]]])
        assert np.isfinite(task.enclose(np.array([0]), *ends)[0]).all()
