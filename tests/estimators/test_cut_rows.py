"""Censored and truncated rows through the estimator: bias removed, weights, rules, files, audit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import norm, t

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Bernoulli,
    Between,
    Gaussian,
    Increasing,
    Poisson,
    PRBNNRegressor,
    StudentT,
    audit,
    load,
)
from prbnn.assessment.anomalies import surprise
from prbnn.errors import DataError
from prbnn.fitting.batch import score_many, train_many
from prbnn.fitting.prepare import prepare
from prbnn.model.priors import Normal
from tests.marks import quick

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LIMIT = 1.0


def line(**options) -> PRBNNRegressor:
    settings = {
        "network": MLP(()),
        "inference": BayesByBackprop(learning_rate=0.02),
        "tempering": 0.2,
        "steps": 1500,
        "draws": 200,
        "random_state": 0,
        "verbose": False,
    }
    return PRBNNRegressor(**{**settings, **options})


@pytest.fixture(scope="module")
def rising() -> tuple[np.ndarray, np.ndarray]:
    """y = 2 x + noise."""
    generator = np.random.default_rng(3)
    x = generator.uniform(0, 1, (150, 1))
    return x, 2 * x[:, 0] + generator.normal(0, 0.3, 150)


def best_line(log_likelihood: Callable) -> np.ndarray:
    """Intercept, slope and log noise of the largest likelihood, in float64."""
    return minimize(lambda p: -log_likelihood(*p).sum(), [0.0, 1.0, -1.0]).x


def truncated_line(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The best line of the rows above 0.5, where the others are missing."""
    keep = y > 0.5

    def of(start: float, rise: float, log_noise: float) -> np.ndarray:
        mean, noise = start + rise * x[keep, 0], np.exp(log_noise)
        return norm.logpdf(y[keep], mean, noise) - norm.logsf((0.5 - mean) / noise)

    return best_line(of)


def slope(model: PRBNNRegressor) -> float:
    low, high = model.predict(np.array([[0.0], [1.0]]))
    return float(high - low)


@pytest.mark.parametrize("likelihood", quick([None, StudentT(freedom=30)], None))
def test_a_sensor_with_a_limit(rising, likelihood) -> None:
    """Values above 1 read 1: taken as exact they flatten the line."""
    x, y = rising
    read = np.minimum(y, LIMIT)
    words = np.where(y > LIMIT, "at least", "exact")
    told = line(likelihood=likelihood).fit(x, read, censored=words)
    law = norm if likelihood is None else t(30)

    def of(start: float, rise: float, log_noise: float) -> np.ndarray:
        z = (read - start - rise * x[:, 0]) / np.exp(log_noise)
        return np.where(y > LIMIT, law.logsf(z), law.logpdf(z) - log_noise)

    _, rise, log_noise = best_line(of)
    assert slope(told) == pytest.approx(rise, abs=0.06)
    assert told.noise_ == pytest.approx(np.exp(log_noise), rel=0.1)
    if likelihood is None:
        assert slope(line().fit(x, read)) < 0.7 * rise


def test_values_known_to_an_interval(rising) -> None:
    x, y = rising
    step = 0.8
    low = np.floor(y / step) * step
    model = line().fit(x, low, censored=["between"] * len(y), upper=low + step)

    def of(start: float, rise: float, log_noise: float) -> np.ndarray:
        z = (np.stack([low, low + step]) - start - rise * x[:, 0]) / np.exp(log_noise)
        return np.log(norm.cdf(z[1]) - norm.cdf(z[0]))

    start, rise, _ = best_line(of)
    assert slope(model) == pytest.approx(rise, abs=0.06)
    # the lower ends, taken as exact, are too low by half a step
    middle = np.array([[0.5]])
    assert model.predict(middle) == pytest.approx([start + rise / 2], abs=0.05)
    assert line(steps=600).fit(x, low).predict(middle) < 0.8 * (start + rise / 2)


@pytest.mark.slow
def test_counts_without_zeros_and_above_a_limit() -> None:
    generator = np.random.default_rng(5)
    x = generator.uniform(0, 1, (400, 1))
    counts = generator.poisson(np.exp(-0.5 + 2 * x[:, 0]))
    rates = np.exp(-0.5 + 2 * np.array([0.1, 0.9]))
    at = np.array([[0.1], [0.9]])
    some = counts > 0
    seen = np.minimum(counts, 4)
    words = np.where(counts > 4, "at least", "exact")
    seen[counts > 4] = 5
    model = line(likelihood=Poisson(truncated=(1, None)))
    told = model.fit(x[some], seen[some], censored=words[some]).predict(at)
    assert told == pytest.approx(rates, rel=0.2)
    ignored = line(likelihood=Poisson()).fit(x[some], counts[some]).predict(at)
    assert ignored[0] > 1.5 * rates[0]


@pytest.mark.slow
def test_a_window_of_one_output_leaves_the_other_alone(rising) -> None:
    x, y = rising
    keep = y > 0.5
    both = pd.DataFrame({"cut": y, "free": -y})[keep]
    model = line(likelihood=Gaussian(truncated=[(0.5, None), None])).fit(x[keep], both)
    low, high = model.predict(np.array([[0.0], [1.0]]))
    _, rise, _ = truncated_line(x, y)
    assert high[0] - low[0] == pytest.approx(rise, abs=0.1)
    least_squares = np.polyfit(x[keep, 0], -y[keep], 1)[0]
    assert high[1] - low[1] == pytest.approx(least_squares, abs=0.06)


def test_rows_merge_only_if_they_are_censored_alike() -> None:
    """Twice the same row is one row of weight 2; "at least" beside "exact" stays two rows."""
    x = np.array([[0.0], [0.0], [0.0], [1.0]])
    y = np.array([1.0, 1.0, 1.0, 2.0])
    options = {
        "knowledge": (),
        "inference": "bbb",
        "likelihood": Gaussian(),
        "prior": Normal(),
        "tempering": 1.0,
        "scaling": "none",
        "points": 64,
        "rejection": None,
        "columns": None,
        "outputs": None,
        "seed": 0,
    }
    task = prepare(
        MLP(()),
        x,
        y,
        sample_weight=None,
        censored=["exact", "at least", "exact", "exact"],
        **options,
    )
    assert int(task.data.count) == 3
    assert sorted(np.asarray(task.data.weight)[:3]) == [1, 1, 2]
    upper = np.asarray(task.data.upper)[:3, 0]
    assert np.sort(upper).tolist() == [1, 2, np.inf]
    weighed = prepare(
        MLP(()),
        x[:2],
        np.array([1.0, 2.0]),
        sample_weight=[1.0, 3.0],
        censored=["exact", "at most"],
        **options,
    )
    assert np.asarray(weighed.data.weight)[:2].sum() == 4


def test_weights_are_repeated_censored_rows(rising) -> None:
    x, y = rising[0][:40], rising[1][:40]
    words = np.where(y > LIMIT, "at least", "exact")
    read, weight = np.minimum(y, LIMIT), np.where(y > LIMIT, 3, 1)
    model = line(steps=200)
    weighed = model.fit(x, read, weight, censored=words).predict(x)
    places = np.repeat(np.arange(40), weight)
    repeated = model.fit(x[places], read[places], censored=words[places]).predict(x)
    assert np.allclose(weighed, repeated, atol=1e-4)


@pytest.mark.slow
def test_tasks_with_and_without_censored_rows_train_together(rising) -> None:
    x, y = rising
    options = {
        "knowledge": (),
        "inference": BayesByBackprop(learning_rate=0.02),
        "likelihood": Gaussian(truncated=(-3, 4)),
        "prior": Normal(),
        "tempering": 0.2,
        "scaling": "minmax",
        "points": 64,
        "rejection": None,
        "columns": None,
        "outputs": None,
        "seed": 0,
        "sample_weight": None,
    }
    words = np.where(y > LIMIT, "at least", "exact")
    tasks = [
        prepare(MLP(()), x, np.minimum(y, LIMIT), censored=words, **options),
        prepare(MLP(()), x[:60], y[:60], **options),
    ]
    together = train_many(tasks, 800, task_seeds=[0, 0], draws=50)
    alone = line(steps=800, likelihood=options["likelihood"], draws=50)
    ends = np.array([[0.0], [1.0]])
    for solution, (rows, values, cut) in zip(
        together, [(x, np.minimum(y, LIMIT), words), (x[:60], y[:60], None)], strict=True
    ):
        wanted = alone.fit(rows, values, censored=cut).predict(ends)
        assert solution.posterior.predict(ends).mean[:, 0] == pytest.approx(wanted, abs=0.05)
    posteriors = [solution.posterior for solution in together]
    scored = score_many(posteriors, [x, x], [y, y])
    for found, posterior in zip(scored, posteriors, strict=True):
        assert found.log_density == pytest.approx(posterior.log_density(x, y), abs=2e-3)


@pytest.mark.slow
def test_the_race_compares_temperings_on_what_was_observed(rising) -> None:
    """Of a censored row that is its interval: a wrong slope there must cost."""
    x, y = rising
    words = np.where(y > LIMIT, "at least", "exact")
    model = line(tempering="auto", steps=300).fit(x, np.minimum(y, LIMIT), censored=words)
    scores = model.tempering_choice_.scores
    assert len(scores) == 5
    assert all(np.isfinite(score) for score in scores.values())
    # exact rows have a density, censored ones a probability: about the noise's entropy and less
    assert -1 < max(scores.values()) < 1


def test_a_truncated_fit_scores_recorded_rows(rising) -> None:
    x, y = rising
    keep = y > 0.5
    model = line(likelihood=Gaussian(truncated=(0.5, None))).fit(x[keep], y[keep])
    assert slope(model) == pytest.approx(truncated_line(x, y)[1], abs=0.1)
    low, high = model.predict_quantiles(x[keep], (0.05, 0.95))
    assert low.min() > 0.5
    assert np.mean((y[keep] >= low) & (y[keep] <= high)) == pytest.approx(0.9, abs=0.07)
    assert model.sample(x).min() > 0.5
    outside = model.posterior_.log_density(np.array([[0.5]]), np.array([[0.4]]))
    assert outside == -np.inf
    posterior = model.posterior_
    exact = -posterior.log_density(x[keep], y[keep, None]) - np.log(posterior.scaling.output_scale)
    assert surprise(posterior, x[keep], y[keep, None])[:, 0] == pytest.approx(exact, abs=1e-3)


def test_a_saved_model_knows_what_was_cut(rising, tmp_path) -> None:
    x, y = rising
    words = np.where(y > LIMIT, "at least", "exact")
    cut = {"likelihood": Gaussian(truncated=(-9, None)), "knowledge": [AtMost(1.5, name="cap")]}
    model = line(steps=300, **cut).fit(x, np.minimum(y, LIMIT), censored=words)
    model.save(tmp_path / "model.prbnn")
    again = load(tmp_path / "model.prbnn")
    assert np.array_equal(again.predict(x), model.predict(x))
    assert np.array_equal(again.sample(x), model.sample(x))
    assert again.likelihood == model.likelihood == Gaussian(truncated=(-9, None))
    kept = again.posterior_.columns.intervals
    assert np.array_equal(kept.high, model.posterior_.columns.intervals.high)
    assert str(again.audit_) == str(model.audit_)
    model.save(tmp_path / "bare.prbnn", data=False)
    assert np.array_equal(load(tmp_path / "bare.prbnn").predict(x), model.predict(x))


# --- rules on rows that are only an interval ------------------------------------------------------

X = np.linspace(0, 1, 40)[:, None]


@pytest.mark.parametrize(
    ("rule", "value", "word", "broken"),
    [
        (AtLeast(3, name="rule"), 1.0, "at least", False),
        (AtLeast(3, name="rule"), 1.0, "at most", True),
        (AtMost(5, name="rule"), 9.0, "at least", True),
        (AtMost(5, name="rule"), 9.0, "at most", False),
        (Between(3, 4, name="rule"), 0.0, "at least", False),
        (Between(3, 4, name="rule"), 9.0, "at least", True),
        (Between(3, 4, name="rule"), 0.0, "between", False),
        (AtLeast(3, name="rule"), 0.0, "between", False),
        (AtLeast(9, name="rule"), 0.0, "between", True),
    ],
)
def test_a_censored_row_breaks_a_rule_if_its_whole_interval_does(rule, value, word, broken) -> None:
    y = np.full(40, 3.5)
    y[::2] += 0.01
    words = np.full(40, "exact", object)
    y[7], words[7] = value, word
    others = AtLeast(9, name="rule") == rule
    found = audit(X, y, [rule], noise=0.05, censored=words, upper=np.full(40, 8.0))
    assert (7 in found.rows) is broken
    assert len(found.rows) == (40 if others else int(broken))


def test_trends_are_read_from_exact_rows() -> None:
    y = X[:, 0].copy()
    words = np.full(40, "exact", object)
    y[30], words[30] = 0.2, "at least"
    rule = Increasing("x", name="rising")
    assert audit(X, y, [rule], noise=0.01).rows
    assert not audit(X, y, [rule], noise=0.01, censored=words).rows


# --- what is refused ------------------------------------------------------------------------------


def test_targets_must_be_numbers_even_where_they_are_censored() -> None:
    with pytest.raises(DataError, match="must be finite, but column 'y': 1 NaN"):
        line().fit(X, np.r_[np.nan, X[1:, 0]], censored=["at most"] + ["exact"] * 39)


def test_likelihoods_without_intervals_refuse() -> None:
    y = (X[:, 0] > 0.5).astype(float)
    with pytest.raises(ValueError, match="censored= needs a likelihood with a method log_interval"):
        line(likelihood=Bernoulli()).fit(X, y, censored=["exact"] * 40)


def test_half_counts_are_no_ends() -> None:
    y = np.arange(40.0)
    with pytest.raises(DataError, match=r"row 3 \(from 0\) of 'y' ends at 4.5; counts are whole"):
        words = ["exact"] * 3 + ["between"] + ["exact"] * 36
        line(likelihood=Poisson()).fit(X, y, censored=words, upper=np.full(40, 4.5))


def test_an_interval_beside_the_window() -> None:
    y = np.arange(40.0)
    words = ["at most"] + ["exact"] * 39
    with pytest.raises(DataError, match=r"row 0 .* is from -inf to 0, outside \(0.0, inf\)"):
        line(likelihood=Gaussian(truncated=(0, None))).fit(X, y, censored=words)
