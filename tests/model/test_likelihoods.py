"""Likelihoods against scipy.stats, and fits that only the right one gets right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from scipy import stats

from prbnn import (
    MLP,
    BayesByBackprop,
    Bernoulli,
    Categorical,
    Gaussian,
    Increasing,
    Poisson,
    PRBNNRegressor,
    StudentT,
    fit,
)
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.model.likelihoods import Likelihood
from prbnn.posterior.draws import Posterior

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

UNIT = np.array([4.0])  # of the target, in user's units
MEAN_COUNT = 6.0
SAMPLES = 200_000
# five standard errors of the samples' mean and standard deviation
FIVE_ERRORS = 5 / SAMPLES**0.5


def softplus(value: float) -> float:
    return np.log1p(np.exp(value))


def by_input(raw: float) -> float:
    """0.3 at a network output of 0, never below a thousandth."""
    return 1e-3 + 0.3 * softplus(raw + np.log(np.e - 1))


@dataclass(frozen=True)
class Case:
    """A likelihood, the network's values, and the distribution scipy has for them."""

    likelihood: Likelihood
    values: tuple[float, ...]
    law: Any
    observed: tuple[float, ...]

    @property
    def own(self) -> jax.Array:
        targets = np.full((5, 1), MEAN_COUNT if isinstance(self.likelihood, Poisson) else 1.0)
        return jnp.asarray(self.likelihood.start(UNIT, targets), float)

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        parts = self.likelihood.split(self.own, jnp.asarray(self.values, float))
        response, scale = (np.asarray(part, np.float64) for part in parts)
        return response, scale


RATE = MEAN_COUNT * np.exp(0.4)
CASES = {
    "Gaussian learned": Case(Gaussian(), (0.7,), stats.norm(0.7, 0.3), (-1.0, 0.5, 0.7, 2.0)),
    "Gaussian stated": Case(Gaussian(2.0), (0.7,), stats.norm(0.7, 0.5), (-1.0, 0.5, 2.0)),
    "Gaussian by input": Case(
        Gaussian("by input"), (0.7, -1.5), stats.norm(0.7, by_input(-1.5)), (0.5, 0.7, 0.9)
    ),
    "StudentT learned": Case(
        StudentT(freedom=5), (0.7,), stats.t(5, 0.7, 0.3), (-9.0, 0.5, 0.7, 2.0)
    ),
    "StudentT stated": Case(
        StudentT(2.0, freedom=4.5), (0.7,), stats.t(4.5, 0.7, 0.5), (-9.0, 0.7, 2.0)
    ),
    "StudentT by input": Case(
        StudentT("by input", 6), (0.7, 1.0), stats.t(6, 0.7, by_input(1.0)), (-1.0, 0.9)
    ),
    "Poisson": Case(Poisson(), (0.4,), stats.poisson(RATE), (0.0, 1.0, 7.0, 30.0)),
    "Bernoulli": Case(Bernoulli(), (0.4,), stats.bernoulli(1 / (1 + np.exp(-0.4))), (0.0, 1.0)),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_the_density_is_that_of_scipy(case: Case) -> None:
    density = case.law.logpdf if hasattr(case.law.dist, "logpdf") else case.law.logpmf
    density = case.law.logpmf if isinstance(case.law.dist, stats.rv_discrete) else density
    for value in case.observed:
        found = case.likelihood.log_density(
            case.own, jnp.asarray(case.values, float), jnp.asarray([value], float)
        )
        assert float(found) == pytest.approx(density(value), rel=1e-5, abs=1e-5)


def test_the_distribution_is_that_of_scipy(case: Case) -> None:
    response, scale = case.split()
    for value in (*case.observed, -0.5, 0.3, 3.5):
        found = case.likelihood.distribution(np.array([value]), response, scale)
        assert found == pytest.approx(case.law.cdf(value), rel=1e-5, abs=1e-6)


def test_the_response_and_the_deviation_are_moments(case: Case) -> None:
    response, scale = case.split()
    assert response == pytest.approx(case.law.mean(), rel=1e-5)
    assert case.likelihood.deviation(response, scale) == pytest.approx(case.law.std(), rel=1e-5)


def test_samples_have_the_moments_of_their_distribution(case: Case) -> None:
    response, scale = (np.broadcast_to(part, (SAMPLES, 1)) for part in case.split())
    drawn = case.likelihood.sample(np.random.default_rng(0), response, scale)
    assert drawn.shape == (SAMPLES, 1)
    assert drawn.mean() == pytest.approx(case.law.mean(), abs=FIVE_ERRORS * case.law.std())
    assert np.quantile(drawn, 0.9) == pytest.approx(case.law.ppf(0.9), abs=0.02)
    assert set(np.unique(drawn % 1)) == {0} or case.likelihood.scales_targets


# --- several classes ---------------------------------------------------------------------------

LOGITS = np.array([0.2, -1.0, 1.3])
CHANCES = np.exp(LOGITS) / np.exp(LOGITS).sum()


def test_one_of_several_classes_is_a_multinomial_of_one() -> None:
    law = stats.multinomial(1, CHANCES)
    for target in np.eye(3):
        found = Categorical().log_density(jnp.zeros(0), jnp.asarray(LOGITS), jnp.asarray(target))
        assert float(found) == pytest.approx(law.logpmf(target), rel=1e-5)
    response, _ = Categorical().split(jnp.zeros(0), jnp.asarray(LOGITS))
    assert np.asarray(response) == pytest.approx(CHANCES, rel=1e-5)
    spread = Categorical().deviation(CHANCES, CHANCES)
    assert spread == pytest.approx(np.sqrt(np.diag(law.cov())), rel=1e-6)


def test_sampled_classes_are_one_each_and_as_frequent_as_they_are_probable() -> None:
    chances = np.broadcast_to(CHANCES, (SAMPLES, 3))
    drawn = Categorical().sample(np.random.default_rng(0), chances, chances)
    assert np.array_equal(drawn.sum(axis=1), np.ones(SAMPLES))
    assert drawn.mean(axis=0) == pytest.approx(CHANCES, abs=0.5 * FIVE_ERRORS)


# --- what is refused ---------------------------------------------------------------------------

BAD_DECLARATIONS: dict[str, tuple[Callable, str]] = {
    "noise of 0": (lambda: StudentT(0.0), "StudentT: noise must be above 0"),
    "noise misspelt": (lambda: Gaussian("lerned"), "Gaussian.*'learned'.*'lerned'"),
    "no variance": (lambda: StudentT(freedom=2), "freedom must be above 2.*got 2"),
}


@pytest.mark.parametrize(("declare", "words"), BAD_DECLARATIONS.values(), ids=BAD_DECLARATIONS)
def test_bad_declarations_are_refused(declare: Callable, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        declare()


BAD_TARGETS = {
    "half a count": (Poisson(), [0.5, 1, 2], "Poisson: targets must be whole numbers"),
    "a count below 0": (Poisson(), [-1, 1, 2], "Poisson: targets must be whole numbers"),
    "half a class": (Bernoulli(), [0, 0.5, 1], "Bernoulli: targets must be 0 or 1"),
    "a third class": (Categorical(), [0, 1, 2], "Categorical: targets must be 0 or 1"),
}


@pytest.mark.parametrize(("likelihood", "targets", "words"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_targets_that_cannot_be_observed_are_refused(likelihood, targets, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fit(MLP(()), [[0.0], [1.0], [2.0]], targets, likelihood=likelihood, steps=10)


# --- quantiles ---------------------------------------------------------------------------------


def posterior_of(likelihood: Likelihood, own: float) -> Posterior:
    """One drawn function, 0 everywhere: what is predicted is the likelihood's alone."""
    rows = np.zeros((2, 1))
    network = MLP(()).build(jax.random.key(0), 1, 1)
    columns = Columns(("x",), ("y",), rows, rows)
    draws = np.zeros((1, 2), np.float32)
    return Posterior(
        network, draws, likelihood, np.array([own]), scaling_of(rows, rows, "none"), columns
    )


RARE = (1e-5, 0.001, 0.5, 0.9995, 0.99999)
QUANTILES = {
    "Gaussian": (Gaussian(), stats.norm(0, 0.2), np.log(0.2)),
    "StudentT": (StudentT(freedom=2.5), stats.t(2.5, 0, 0.2), np.log(0.2)),
    "Poisson of few": (Poisson(), stats.poisson(1e-3), np.log(1e-3)),
    "Poisson": (Poisson(), stats.poisson(7.3), np.log(7.3)),
    "Poisson of many": (Poisson(), stats.poisson(2e4), np.log(2e4)),
}


@pytest.mark.parametrize(("likelihood", "law", "own"), QUANTILES.values(), ids=QUANTILES)
def test_rare_quantiles_are_those_of_scipy(likelihood: Likelihood, law, own: float) -> None:
    found = posterior_of(likelihood, own).quantiles(np.zeros((1, 1)), RARE)[:, 0, 0]
    wanted = law.ppf(RARE)
    # the rate itself is held in float32
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5 * law.std())


# --- fits --------------------------------------------------------------------------------------


def small(**options) -> PRBNNRegressor:
    settings = {
        "network": MLP((8,)),
        "inference": BayesByBackprop(learning_rate=0.02),
        "tempering": 0.2,
        "steps": 2000,
        "draws": 100,
        "random_state": 0,
        "verbose": False,
    }
    return PRBNNRegressor(**{**settings, **options})


@pytest.mark.slow
def test_outliers_pull_little_where_tails_are_heavy() -> None:
    """One row in eight is 20 noises off, all to the same side."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (120, 1))
    truth = np.sin(2 * x[:, 0])
    y = truth + generator.normal(0, 0.1, 120)
    y[::8] += 2.0
    errors = {}
    for likelihood in (None, StudentT()):
        model = small(likelihood=likelihood).fit(x, y)
        errors[likelihood] = np.sqrt(np.mean((model.predict(x) - truth) ** 2))
    assert errors[StudentT()] < 0.06
    assert errors[None] > 3 * errors[StudentT()]
    assert 0.05 < model.noise_ < 0.2


@pytest.fixture(scope="module")
def visits() -> tuple[pandas.DataFrame, np.ndarray, np.ndarray]:
    """Counts whose rate rises twentyfold with the hour."""
    generator = np.random.default_rng(2)
    inputs = pandas.DataFrame({"hour": generator.uniform(0, 12, 300)})
    rate = np.exp(0.25 * inputs["hour"].to_numpy())
    return inputs, generator.poisson(rate), rate


@pytest.fixture(scope="module")
def counting(visits) -> PRBNNRegressor:
    inputs, counts, _ = visits
    rule = Increasing("hour", name="more by the hour")
    return small(likelihood=Poisson(), knowledge=[rule]).fit(inputs, counts)


def test_counts_have_the_rates_they_came_from(counting: PRBNNRegressor, visits) -> None:
    inputs, _, rate = visits
    found, deviation = counting.predict(inputs, return_std=True)
    assert np.median(np.abs(found / rate - 1)) < 0.1
    assert np.max(np.abs(found / rate - 1)) < 0.5
    assert np.all(deviation >= np.sqrt(found) * 0.999)
    assert np.isnan(counting.noise_)


def test_rules_act_on_rates(counting: PRBNNRegressor) -> None:
    hours = pandas.DataFrame({"hour": np.linspace(0.1, 11.9, 200)})
    rates = counting.sample_functions(hours)
    assert np.all(rates > 0)
    assert np.diff(rates, axis=1).min() > -1e-3
    assert counting.knowledge_report_["more by the hour"].stored_share == 0


def test_quantiles_of_counts_are_counts(counting: PRBNNRegressor, visits) -> None:
    """And those of the mixture of Poissons that the draws are, counted by hand."""
    inputs, counts, _ = visits
    levels = (0.05, 0.5, 0.95)
    found = counting.predict_quantiles(inputs, levels)
    assert np.array_equal(found, np.round(found))
    rates = counting.sample_functions(inputs)
    for level, quantile in zip(levels, found, strict=True):
        assert np.all(stats.poisson.cdf(quantile, rates).mean(axis=0) >= level - 1e-6)
        assert np.all(stats.poisson.cdf(quantile - 1, rates).mean(axis=0) < level + 1e-6)
    assert 0.87 < np.mean((counts >= found[0]) & (counts <= found[2])) <= 1
    assert set(np.unique(counting.sample(inputs) % 1)) == {0}


def test_whole_weights_are_repeated_counts(visits) -> None:
    inputs, counts, _ = visits
    weight = np.where(counts > 3, 3, 1)
    model = small(likelihood=Poisson(), steps=300)
    weighed = model.fit(inputs, counts, sample_weight=weight).predict(inputs)
    index = np.repeat(np.arange(300), weight)
    repeated = model.fit(inputs.iloc[index], counts[index]).predict(inputs)
    assert np.allclose(weighed, repeated, rtol=1e-3)


# one with parameters of its own, and one without
@pytest.mark.parametrize(
    "likelihood",
    [StudentT(), pytest.param(Poisson(), marks=pytest.mark.slow)],
    ids=["StudentT", "Poisson"],
)
def test_one_network_has_several_outputs(likelihood: Likelihood) -> None:
    generator = np.random.default_rng(4)
    x = generator.uniform(0, 1, (200, 1))
    rates = np.column_stack([np.exp(1 + 2 * x[:, 0]), np.exp(3 - x[:, 0])])
    model = small(likelihood=likelihood, output_names=["up", "down"])
    model.fit(x, generator.poisson(rates))
    assert np.median(np.abs(model.predict(x) / rates - 1)) < 0.12
    assert model.predict_quantiles(x).shape == (3, 200, 2)
    assert model.sample(x).shape == (100, 200, 2)
    assert np.all(np.isnan(model.noise_)) == isinstance(likelihood, Poisson)


def test_outputs_are_independent_given_the_function() -> None:
    """The density of a row is the product over its outputs."""
    values, targets = np.array([0.4, -0.2]), np.array([3.0, 1.0])
    for likelihood in (Gaussian(), StudentT(), Poisson(), Bernoulli()):
        counts = np.full((5, 2), 1.0)
        observed = np.minimum(targets, 1.0) if isinstance(likelihood, Bernoulli) else targets
        own = jnp.asarray(likelihood.start(np.ones(2), counts), float)
        both = likelihood.log_density(own, jnp.asarray(values), jnp.asarray(observed))
        each = [
            likelihood.log_density(
                own[k : k + 1], jnp.asarray(values[k : k + 1]), jnp.asarray(observed[k : k + 1])
            )
            for k in range(2)
        ]
        assert float(both) == pytest.approx(float(sum(each)), rel=1e-5)
