"""Every engine keeps every rule at every strength it says it honours, and refuses the others."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    SVGD,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Between,
    Combined,
    Compare,
    Concave,
    Conjugate,
    Convex,
    CurvatureBetween,
    Decreasing,
    Dropout,
    Ensemble,
    Equals,
    Gaussian,
    Increasing,
    KnowledgeError,
    Laplace,
    OneOf,
    Outside,
    Score,
    SlopeBetween,
    fit,
)
from prbnn.fitting.loop import advance, start
from prbnn.fitting.result import Solution
from prbnn.fitting.train import budget_of
from prbnn.inference import ENGINES
from prbnn.inference.engine import ALL_KINDS, Engine
from prbnn.rules.base import Rule
from tests.marks import quick

QUICK: dict[str, tuple[Engine, int]] = {
    "bbb": (BayesByBackprop(draws=3), 60),
    "conjugate": (Conjugate(draws=3), 60),
    "dropout": (Dropout(draws=3), 60),
    "svgd": (SVGD(particles=5), 60),
    "ensemble": (Ensemble(members=3), 60),
    "laplace": (Laplace(), 60),
    "sghmc": (SGHMC(chains=2, keep=10), 200),
    "nuts": (NUTS(chains=2, keep=10, doublings=3), 60),
}
RULES: list[Rule] = [
    AtLeast(-5),
    AtMost("6 + x"),
    Between(-5, 6),
    Equals(lambda rows: 0.5 * rows["x"], within=4),
    OneOf([(-5, 0.4), (0.3, 6)]),
    Outside([(20, 30)]),
    Outside([(20, 30)], smooth=(15.0, 2.0)),
    Increasing("x", over=0.5),
    Decreasing("x", over=0.5),
    Convex("x", step=0.5),
    Concave("x", step=0.5),
    SlopeBetween("x", -9, 9),
    CurvatureBetween("x", -90, 90, step=0.5),
    Compare({"z": 1}, within={"z": 0}, by=9),
    Combined([AtLeast(-5), Increasing("x")], weights=[1, 2]),
    Score(lambda function, x: 9 - jnp.abs(function.slope(x, "x") + function(x))),
]
# without those computed as another one is, with the sign turned; nor a second Outside
DISTINCT = [
    rule
    for rule in RULES
    if not isinstance(rule, AtMost | Decreasing | Concave) and getattr(rule, "smooth", None) is None
]
STRENGTHS = {
    "soft": lambda rule: rule.soft(3.0),
    "prior": lambda rule: rule.in_prior(3.0),
    "hard": lambda rule: rule.hard(),
    "hard with a tolerance": lambda rule: rule.hard(0.5),
    "probable functions": lambda rule: rule.probably(0.6),
    "probable points": lambda rule: rule.probably(0.6, of="points"),
    "average": lambda rule: rule.on_average(-50),
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = np.column_stack([generator.uniform(-1, 1, 24), generator.integers(0, 2, 24)])
    return x, 0.5 * x[:, 0] + 0.1 * generator.normal(size=24)


def fitted(name: str, rows: tuple, rules: list[Rule], **options) -> Solution:
    engine, steps = QUICK[name]
    return fit(
        MLP((4,), "tanh"),
        *rows,
        rules,
        inference=options.pop("inference", engine),
        likelihood=Gaussian(0.3),
        columns=["x", "z"],
        steps=options.pop("steps", steps),
        points=8,
        early_stopping=False,
        **options,
    )


def test_every_engine_is_here_and_keeps_the_contract() -> None:
    assert set(QUICK) == set(ENGINES)
    assert set(STRENGTHS) == set(ALL_KINDS)
    for engine, _ in QUICK.values():
        assert isinstance(engine, Engine)
        assert set(engine.honours) <= set(ALL_KINDS)
        assert engine.instead or set(engine.honours) == set(ALL_KINDS)


def keeps_them_all(name: str, rules: list[Rule], rows: tuple) -> None:
    solution = fitted(name, rows, rules)
    assert solution.result.status in ("converged", "budget spent")
    posterior = solution.posterior
    assert np.all(np.isfinite(posterior.draws))
    assert np.all(np.isfinite(solution.history.elbo))
    assert np.all(np.isfinite(solution.history.violation))
    assert all(np.isfinite(dual) and dual >= 0 for dual in solution.duals.values())
    assert len(solution.duals) == len(rules)
    check = posterior.check(solution.rules)
    assert check.worst.shape == (len(posterior), len(rules))
    assert np.all(np.isfinite(check.worst))


@pytest.mark.slow
@pytest.mark.parametrize("kind", STRENGTHS)
@pytest.mark.parametrize("name", QUICK)
def test_every_rule_at_every_strength(name: str, kind: str, rows: tuple) -> None:
    if kind in QUICK[name][0].honours:
        keeps_them_all(name, [STRENGTHS[kind](rule) for rule in RULES], rows)


# the other engines share their loss with one of these; all are in the slow grid above
@pytest.mark.light
@pytest.mark.parametrize("name", quick(QUICK, "bbb"))
def test_every_rule_at_some_strength(name: str, rows: tuple) -> None:
    kinds, shift = QUICK[name][0].honours, list(QUICK).index(name)
    rules = [
        STRENGTHS[kinds[(place + shift) % len(kinds)]](rule) for place, rule in enumerate(DISTINCT)
    ]
    keeps_them_all(name, rules, rows)


@pytest.mark.parametrize("kind", STRENGTHS)
@pytest.mark.parametrize("name", QUICK)
def test_a_strength_it_cannot_keep_is_refused_by_name(name: str, kind: str, rows: tuple) -> None:
    if kind in QUICK[name][0].honours:
        return
    for rule in RULES:
        with pytest.raises(KnowledgeError, match="use ") as told:
            fitted(name, rows, [STRENGTHS[kind](rule)])
        assert repr(name) in str(told.value)


@pytest.mark.light
@pytest.mark.parametrize("name", quick(QUICK, "bbb", "svgd", "dropout"))
def test_a_price_pulls_the_posterior_to_where_the_rule_holds(name: str, rows: tuple) -> None:
    high = AtLeast(1.5, name="high")
    steps = {"nuts": 150, "sghmc": 2000}.get(name, 1500)
    plain, priced = (
        fitted(name, rows, [high.soft(weight)], steps=steps).posterior.functions(rows[0]).mean()
        for weight in (1e-6, 3000.0)
    )
    assert priced > plain + 0.5


@pytest.mark.light
@pytest.mark.parametrize("name", QUICK)
def test_same_seed_same_draws_and_another_seed_others(name: str, rows: tuple) -> None:
    rule = [AtLeast(-0.4).soft(1.0)]
    first, again, other = (fitted(name, rows, rule, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.posterior.draws, again.posterior.draws)
    assert not np.array_equal(first.posterior.draws, other.posterior.draws)


@pytest.mark.light
@pytest.mark.parametrize("name", QUICK)
def test_how_many_draws_there_are(name: str, rows: tuple) -> None:
    engine, _ = QUICK[name]
    # with the rule of the tests before and after, whose programs serve here
    solution = fitted(name, rows, [AtLeast(-0.4).soft(1.0)], draws=7)
    fixed = {"svgd": 5, "ensemble": 3}
    assert len(solution.posterior) == fixed.get(name, 7)
    more = solution.more(4, 1)
    if engine.endless:
        assert len(more) == 4
        # four units have few masks, so dropout may draw one twice
        seen = np.isin(more.draws, solution.posterior.draws).all(axis=1)
        assert name == "dropout" or not np.any(seen)
    else:
        assert np.all(np.isin(more.draws, solution.more(10**6, 0).draws))


@pytest.mark.parametrize("name", QUICK)
def test_nothing_is_compiled_again_for_other_numbers(name: str, rows: tuple) -> None:
    x, y = rows
    fitted(name, rows, [AtLeast(-0.4).soft(1.0)], seed=1)
    before = advance._cached._cache_size()
    fitted(name, (x + 1, 2 * y), [AtLeast(-0.7).soft(2.0)], seed=2)
    assert advance._cached._cache_size() == before


@pytest.mark.light
@pytest.mark.parametrize("name", quick(QUICK, "bbb", "sghmc"))
def test_one_program_trains_from_the_first_chunk_to_the_last(name: str, rows: tuple) -> None:
    """What a chunk hands on is of the very types that the first one was given."""
    task = fitted(name, rows, [AtLeast(-0.4), AtMost(3).soft(1.0)]).fitted.task
    first = start(task.engine, task.problem, task.enforcement, jax.random.key(0))
    parts = (task.engine, task.problem, task.enforcement, task.data)
    schedule = budget_of(task, 10).schedule
    last, _ = advance(*parts, schedule, first, jnp.asarray(1, jnp.int32), None)
    types = [[each.aval for each in jax.tree.leaves(carry)] for carry in (first, last)]
    assert types[0] == types[1]


def test_an_options_mistake_is_told_by_engine_and_name() -> None:
    for build, message in (
        (lambda: NUTS(chains=0), "NUTS: chains"),
        (lambda: NUTS(target=1.5), "NUTS: target"),
        (lambda: Dropout(rate=1.0), "Dropout: rate"),
        (lambda: SVGD(particles=-1), "SVGD: particles"),
        (lambda: Ensemble(learning_rate=0), "Ensemble: learning_rate"),
        (lambda: SGHMC(step_size=0), "SGHMC: step_size"),
    ):
        with pytest.raises(ValueError, match=message):
            build()


@pytest.mark.light
class TestWhatEachEngineIs:
    def test_a_dropped_unit_is_off_at_every_input(self, rows: tuple) -> None:
        solution = fitted("dropout", rows, [], inference=Dropout(rate=0.5), draws=50)
        posterior = solution.posterior
        last = posterior.draws[:, -5:-1]
        assert np.any(last == 0)
        assert np.all((last == 0) | (np.abs(last) > 0))
        first = posterior.draws[:, :12]
        assert np.all(first == first[0])

    def test_members_of_an_ensemble_start_apart(self, rows: tuple) -> None:
        draws = fitted("ensemble", rows, [], steps=1).posterior.draws
        assert np.min(np.abs(draws[0] - draws[1]).max()) > 0.05

    def test_anchored_members_of_a_line_spread_as_their_anchors_do(self) -> None:
        from tests.truths.problems import LINE_NOISE, LINE_X, LINE_Y

        engine = Ensemble(members=200, anchored=True)
        solution = fit(
            MLP(hidden=()), LINE_X, LINE_Y, inference=engine, likelihood=Gaussian(LINE_NOISE)
        )
        slope, intercept = solution.posterior.draws.T
        assert intercept.mean() == pytest.approx(0.902019, abs=0.03)
        # the exact spread of an anchored line: covariance * prior precision * covariance
        assert intercept.std() == pytest.approx(0.1354, abs=0.02)
        assert slope.mean() == pytest.approx(-0.453560, abs=0.015)

    def test_laplace_of_a_line_is_its_posterior(self) -> None:
        from tests.truths.problems import LINE_NOISE, LINE_X, LINE_Y

        solution = fit(
            MLP(hidden=()),
            LINE_X,
            LINE_Y,
            inference="laplace",
            likelihood=Gaussian(LINE_NOISE),
            draws=20_000,
        )
        found = np.cov(solution.posterior.draws.T)
        exact = np.array([[0.022317, -0.042508], [-0.042508, 0.128587]])
        assert np.allclose(found, exact, atol=0.004)
        assert np.allclose(solution.posterior.draws.mean(0), [-0.453560, 0.902019], atol=0.01)

    def test_laplace_draws_differ_in_the_last_layer_alone(self, rows: tuple) -> None:
        draws = fitted("laplace", rows, [], draws=20).posterior.draws
        # 2 inputs and 4 hidden units: 12 weights before the last layer, and 5 in it
        assert (np.ptp(draws, axis=0) > 0).tolist() == 12 * [False] + 5 * [True]

    def test_stein_particles_of_one_are_a_climb(self) -> None:
        from prbnn.inference.svgd import stein_forces

        gradient = jnp.array([[1.0, -2.0]])
        attraction, repulsion = stein_forces(jnp.zeros((1, 2)), gradient)
        assert np.allclose(attraction, gradient)
        assert np.allclose(repulsion, 0)

    def test_stein_particles_repel(self) -> None:
        from prbnn.inference.svgd import stein_forces

        particles = jnp.array([[0.0], [1.0]])
        _, push = stein_forces(particles, jnp.zeros((2, 1)))
        assert push[0, 0] < 0 < push[1, 0]

    def test_names_and_objects_mean_the_same(self, rows: tuple) -> None:
        named = fitted("bbb", rows, [], inference="bbb", steps=5).posterior.draws
        assert np.array_equal(
            named, fitted("bbb", rows, [], inference=BayesByBackprop(), steps=5).posterior.draws
        )
        with pytest.raises(ValueError, match="inference must be one of bbb"):
            fitted("bbb", rows, [], inference="hmc")


def test_engines_are_plain_values() -> None:
    for engine, _ in QUICK.values():
        assert engine == replace(engine)
        assert hash(engine) == hash(replace(engine))
