"""Classification: conventions, labels, rules on probabilities, and the exact posterior where known."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    SVGD,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Bernoulli,
    Categorical,
    Compare,
    DataError,
    Dropout,
    Ensemble,
    Increasing,
    KnowledgeError,
    Laplace,
    PRBNNClassifier,
)
from prbnn.fitting.tempering import rows_to_hold_out
from tests.estimators.problems import settings
from tests.marks import quick

# short fits say that their budget was spent, and are right
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NAMES = ["dose", "group"]
ROWS = 80


def small(knowledge=(), **options) -> PRBNNClassifier:
    return PRBNNClassifier(knowledge=knowledge, **settings(**options))


@dataclass(frozen=True)
class Trial:
    """A dose over [0, 1] that cures more the higher it is, and a little more in group 1."""

    inputs: np.ndarray
    cured: np.ndarray

    @property
    def chance(self) -> np.ndarray:
        return expit(self.inputs @ [6.0, 1.0] - 3)

    @property
    def labels(self) -> np.ndarray:
        return np.where(self.cured, "yes", "no")

    @property
    def frame(self) -> pandas.DataFrame:
        return pandas.DataFrame(self.inputs, columns=NAMES)


def trial_of(seed: int = 0, rows: int = ROWS) -> Trial:
    generator = np.random.default_rng(seed)
    inputs = np.column_stack([generator.uniform(size=rows), generator.integers(0, 2, rows)])
    empty = Trial(inputs, np.zeros(rows, bool))
    return Trial(inputs, generator.random(rows) < empty.chance)


@pytest.fixture(scope="module")
def trial() -> Trial:
    return trial_of()


@pytest.fixture(scope="module")
def plain(trial: Trial) -> PRBNNClassifier:
    return small().fit(trial.inputs, trial.labels)


@pytest.fixture(scope="module")
def flowers() -> tuple[pandas.DataFrame, np.ndarray]:
    """Three classes side by side along one column, a second that says nothing."""
    generator = np.random.default_rng(1)
    inputs = pandas.DataFrame(generator.uniform(size=(ROWS, 2)), columns=["length", "width"])
    score = 3 * inputs["length"].to_numpy() + generator.normal(0, 0.2, ROWS)
    return inputs, np.array(["small", "middle", "tall"])[np.clip(score, 0, 2.99).astype(int)]


@pytest.fixture(scope="module")
def three(flowers) -> PRBNNClassifier:
    every = {"length": (0, 1)}
    rules = [
        Increasing("length", of="tall", where=every, name="longer is taller"),
        AtMost("1.05 - length", of="small", where=every, name="the long are not small"),
    ]
    return small(rules, steps=1500).fit(*flowers)


# --- conventions -------------------------------------------------------------------------------


@pytest.mark.light
@parametrize_with_checks([small(network=MLP(()), steps=200)])
def test_scikit_learn_accepts_it(estimator, check) -> None:
    check(estimator)


def test_it_is_a_classifier_whose_clone_has_nothing_learned(plain: PRBNNClassifier) -> None:
    assert is_classifier(plain)
    copy = clone(plain)
    assert copy.get_params() == plain.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


def test_a_pickle_predicts_the_same_bits(plain: PRBNNClassifier, trial: Trial) -> None:
    copy = pickle.loads(pickle.dumps(plain))
    assert np.array_equal(copy.predict_proba(trial.inputs), plain.predict_proba(trial.inputs))


def test_a_pipeline_scales_first_and_a_grid_search_tries_steps(trial: Trial) -> None:
    model = make_pipeline(StandardScaler(), small())
    choices = {"prbnnclassifier__steps": [2, 300]}
    search = GridSearchCV(model, choices, cv=3, scoring="neg_log_loss", error_score="raise")
    search.fit(trial.frame, trial.labels)
    assert search.best_params_ == {"prbnnclassifier__steps": 300}
    assert search.score(trial.frame, trial.labels) > -0.6


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_all", "sample_functions"])
def test_prediction_before_fitting_is_refused(method: str, trial: Trial) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(small(), method)(trial.inputs)


def test_a_fit_that_ran_out_of_steps_warns_where_it_was_called(trial: Trial) -> None:
    with pytest.warns(ConvergenceWarning, match="give more steps") as caught:
        model = small(steps=30).fit(trial.inputs, trial.labels)
    assert model.result_.status == "budget spent"
    assert all(warning.filename == __file__ for warning in caught)


def test_labels_that_are_chance_are_no_collapse(trial: Trial) -> None:
    """A probability near the base rate is an answer; variance explained is no measure of it."""
    coin = np.random.default_rng(3).integers(0, 2, ROWS)
    model = small(tempering=1.0, steps=3000).fit(trial.inputs, coin)
    assert model.result_.status == "converged"
    assert np.all(np.abs(model.predict_proba(trial.inputs) - 0.5) < 0.35)


# --- labels and tables -------------------------------------------------------------------------


def test_every_library_gives_the_same_probabilities(plain: PRBNNClassifier, trial: Trial) -> None:
    wanted = plain.predict_proba(trial.inputs)
    tables = [
        (trial.frame, pandas.Series(trial.labels, name="cured")),
        (trial.frame, pandas.Series(trial.labels, dtype="category")),
        (polars.DataFrame(trial.inputs, schema=NAMES), polars.Series("cured", trial.labels)),
        (trial.inputs.tolist(), trial.labels.tolist()),
    ]
    for inputs, labels in tables:
        model = small().fit(inputs, labels)
        assert model.classes_.tolist() == ["no", "yes"]
        assert np.array_equal(model.predict_proba(inputs), wanted)


LABELS: dict[str, Any] = {
    "text": ["no", "yes"],
    "whole numbers": [3, 7],
    "whole floats": [0.0, 1.0],
    "truth values": [False, True],
    "objects": np.array([3, 7], dtype=object),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_predictions_are_labels_as_they_came(
    plain: PRBNNClassifier, trial: Trial, labels: Any
) -> None:
    kinds = np.asarray(labels)
    model = small().fit(trial.inputs, kinds[trial.cured.astype(int)])
    predicted = model.predict(trial.inputs)
    assert model.classes_.tolist() == list(labels)
    assert set(predicted.tolist()) <= set(labels)
    assert model.output_names_ == (str(labels[1]),)
    assert np.array_equal(predicted == labels[1], plain.predict(trial.inputs) == "yes")


def test_a_column_of_labels_is_read_as_one_with_a_warning(
    plain: PRBNNClassifier, trial: Trial
) -> None:
    with pytest.warns(DataConversionWarning, match=r"y.ravel\(\)"):
        model = small().fit(trial.inputs, trial.labels[:, None])
    assert np.array_equal(model.predict(trial.inputs), plain.predict(trial.inputs))


# --- probabilities -----------------------------------------------------------------------------


def test_probabilities_come_near_the_truth() -> None:
    many = trial_of(rows=600)
    model = small(steps=1500).fit(many.inputs, many.labels)
    fresh = trial_of(seed=5, rows=400)
    found = model.predict_proba(fresh.inputs)[:, 1]
    assert np.sqrt(np.mean((found - fresh.chance) ** 2)) < 0.06
    assert log_loss(fresh.cured, found) < log_loss(fresh.cured, fresh.chance) + 0.03
    assert model.score(many.inputs, many.labels) > 0.7


def test_two_classes_have_one_output(plain: PRBNNClassifier, trial: Trial) -> None:
    assert plain.posterior_.likelihood == Bernoulli()
    assert plain.output_names_ == ("yes",)
    assert plain.predict_proba(trial.inputs).shape == (ROWS, 2)


def test_three_classes_have_one_output_each(three: PRBNNClassifier, flowers) -> None:
    inputs, labels = flowers
    assert three.posterior_.likelihood == Categorical()
    assert three.output_names_ == ("middle", "small", "tall")
    assert three.classes_.tolist() == ["middle", "small", "tall"]
    assert three.score(inputs, labels) > 0.8
    assert three.sample_functions(inputs).shape == (50, ROWS, 3)


@pytest.mark.parametrize("classes", ["two", "three"])
def test_probabilities_are_the_mean_of_stored_draws(
    request: pytest.FixtureRequest, classes: str
) -> None:
    model, inputs = (
        (request.getfixturevalue("plain"), request.getfixturevalue("trial").inputs)
        if classes == "two"
        else (request.getfixturevalue("three"), request.getfixturevalue("flowers")[0])
    )
    functions = model.sample_functions(inputs)
    parts = model.predict_all(inputs)
    probability = model.predict_proba(inputs)
    assert np.allclose(functions.sum(axis=2), 1, atol=1e-5)
    assert np.allclose(probability.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert np.allclose(probability, functions.mean(axis=0), atol=1e-6)
    assert np.allclose(parts.mean, probability, atol=1e-6)
    assert np.allclose(parts.epistemic, functions.std(axis=0), atol=1e-6)
    given = np.mean(functions * (1 - functions), axis=0)
    assert np.allclose(parts.aleatoric, np.sqrt(given), atol=1e-6)
    assert np.array_equal(model.predict(inputs), model.classes_[probability.argmax(axis=1)])


@pytest.mark.parametrize("classes", ["two", "three"])
def test_sampled_labels_come_as_often_as_their_probability(
    request: pytest.FixtureRequest, classes: str
) -> None:
    model = request.getfixturevalue("plain" if classes == "two" else "three")
    inputs = np.repeat([[0.45, 0.0]], 400, axis=0)
    labels = model.sample(inputs)
    assert labels.shape == (50, 400)
    share = [np.mean(labels == label) for label in model.classes_]
    assert np.allclose(share, model.predict_proba(inputs)[0], atol=0.015)
    assert not np.array_equal(labels, model.sample(inputs, random_state=1))


def test_the_same_seed_gives_the_same_bits_and_another_gives_others(
    plain: PRBNNClassifier, trial: Trial
) -> None:
    wanted = plain.predict_proba(trial.inputs)
    again, other = (
        small(random_state=seed).fit(trial.inputs, trial.labels).predict_proba(trial.inputs)
        for seed in (0, 1)
    )
    assert np.array_equal(again, wanted)
    assert not np.array_equal(other, wanted)


# --- weights -----------------------------------------------------------------------------------


def test_whole_weights_are_repeated_rows(trial: Trial) -> None:
    weight = np.random.default_rng(2).integers(1, 4, ROWS)
    weighed = small().fit(trial.inputs, trial.labels, sample_weight=weight)
    repeated = small().fit(np.repeat(trial.inputs, weight, axis=0), trial.labels.repeat(weight))
    found = (model.predict_proba(trial.inputs) for model in (weighed, repeated))
    assert np.array_equal(*found)


def test_folds_of_classes_are_made_of_rows_as_often_as_they_come() -> None:
    """Eight kinds of rows, hundreds of each: a fold must not hold out all of a kind."""
    generator = np.random.default_rng(0)
    inputs = generator.integers(0, 2, (200, 2)).astype(float)
    labels = np.where(generator.random(200) < 0.2 + 0.5 * inputs[:, 0], "yes", "no")
    model = small(network=MLP(()), steps=10)
    model.fit(inputs, labels)
    task = model.solution_.fitted.task
    assert int(task.data.count) == 8
    rows = rows_to_hold_out(task.problem, task.data)
    assert int(rows.count) == 200
    kinds, times = np.unique(np.c_[rows.x, rows.y][:200], axis=0, return_counts=True)
    assert len(kinds) == 8
    assert sorted(times) == sorted(np.asarray(task.data.weight)[:8])


def test_a_class_of_no_weight_is_no_class(plain: PRBNNClassifier, trial: Trial) -> None:
    inputs = np.concatenate([trial.inputs, trial.inputs[:9]])
    labels = np.concatenate([trial.labels, ["unknown"] * 9])
    weight = np.repeat([1.0, 0.0], [ROWS, 9])
    model = small().fit(inputs, labels, sample_weight=weight)
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(model.predict_proba(trial.inputs), plain.predict_proba(trial.inputs))


def test_heavier_rows_pull_the_probability(trial: Trial) -> None:
    weight = np.where(trial.cured, 20.0, 1.0)
    heavy = small().fit(trial.inputs, trial.labels, sample_weight=weight)
    assert heavy.predict_proba([[0.3, 0.0]])[0, 1] > 0.6


# --- rules on probabilities --------------------------------------------------------------------

BY = 0.02
EVERY_DOSE = {"dose": (0, 1)}
RULES = [
    Increasing("dose", where=EVERY_DOSE, name="more dose more cures"),
    AtMost("0.15 + dose", where=EVERY_DOSE, name="a little cures few"),
    Compare({"group": 1}, within={"group": 0}, by=BY, where=EVERY_DOSE, name="groups are alike"),
]
ENGINES: dict[str, tuple[Any, dict]] = {
    "bbb": (BayesByBackprop(learning_rate=0.02), {"steps": 600}),
    "dropout": (Dropout(), {"steps": 600}),
    "ensemble": (Ensemble(), {"steps": 600}),
    "svgd": (SVGD(), {"steps": 600}),
    "laplace": (Laplace(), {"steps": 600}),
    "sghmc": (SGHMC(keep=50), {"steps": 1000, "tempering": 1.0}),
    "nuts": (NUTS(chains=2, keep=60, doublings=5), {"steps": 200, "tempering": 1.0}),
}
# a function may break a rule by this much between the points where it was checked
BETWEEN_POINTS = 5e-4


def both_groups(dose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    one, zero = (np.column_stack([dose, np.full(len(dose), group)]) for group in (1.0, 0.0))
    return one, zero


@pytest.mark.parametrize("name", quick(ENGINES, "bbb"))
def test_no_stored_draw_of_any_engine_breaks_a_rule_on_fresh_points(
    name: str, trial: Trial
) -> None:
    engine, options = ENGINES[name]
    model = small(RULES, inference=engine, **options).fit(trial.frame, trial.labels)
    dose = np.linspace(0, 1, 300)
    one, zero = (model.sample_functions(rows)[:, :, 1] for rows in both_groups(dose))
    assert len(one) == len(model.posterior_) > 3
    assert model.acceptance_ > 0.02
    assert np.abs(one - zero).max() < BY + BETWEEN_POINTS
    assert np.diff(one, axis=1).min() > -BETWEEN_POINTS
    assert np.diff(zero, axis=1).min() > -BETWEEN_POINTS
    assert max((one - dose).max(), (zero - dose).max()) < 0.15 + BETWEEN_POINTS
    assert [line.stored_share for line in model.knowledge_report_] == [0, 0, 0]
    # the rules were kept by a model that still tells high doses from low ones
    mean = model.predict_proba(both_groups(np.array([0.1, 0.9]))[0])[:, 1]
    assert mean[1] > mean[0] + 0.3


def test_without_the_rule_flipping_the_column_does_change_the_probability(
    plain: PRBNNClassifier,
) -> None:
    """What the comparison above forbids is there to be learned."""
    one, zero = both_groups(np.linspace(0, 1, 50))
    change = plain.predict_proba(one)[:, 1] - plain.predict_proba(zero)[:, 1]
    assert np.abs(change).max() > 3 * BY


def test_rules_name_classes_by_their_labels(three: PRBNNClassifier) -> None:
    """Counted by hand over both columns: every stored draw, the class each rule names."""
    length, width = np.meshgrid(np.linspace(0, 1, 101), [0.1, 0.5, 0.9])
    functions = three.sample_functions(np.column_stack([length.ravel(), width.ravel()]))
    middle, small_ones, tall = np.moveaxis(functions.reshape(-1, 3, 101, 3), -1, 0)
    assert np.diff(tall, axis=2).min() > -BETWEEN_POINTS
    assert np.max(small_ones + length[0]) < 1.05 + BETWEEN_POINTS
    assert np.diff(middle, axis=2).min() < -BETWEEN_POINTS
    names = [line.name for line in three.knowledge_report_]
    assert names == ["longer is taller", "the long are not small"]


@pytest.mark.slow
def test_of_two_classes_the_second_may_be_named_or_not(
    plain: PRBNNClassifier, trial: Trial
) -> None:
    unnamed, by_label = (
        small([AtMost(0.6, of=of, name="ceiling")], steps=600).fit(trial.inputs, trial.labels)
        for of in (None, "yes")
    )
    found = [model.sample_functions(trial.inputs)[:, :, 1] for model in (unnamed, by_label)]
    assert np.array_equal(*found)
    assert found[0].max() < 0.6 + BETWEEN_POINTS
    assert plain.predict_proba(trial.inputs)[:, 1].max() > 0.8
    assert unnamed.knowledge_report_["ceiling"].dual > 0


# --- the exact posterior -----------------------------------------------------------------------

POINTS = np.array([-2.0, -0.5, 0.5, 2.0])


@dataclass(frozen=True)
class Logistic:
    """p(weight, bias | data) of logistic regression under N(0, 1) priors, on a fine grid."""

    weight: np.ndarray
    bias: np.ndarray
    density: np.ndarray

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray) -> Logistic:
        axis = np.linspace(-5, 5, 401)
        weight, bias = np.meshgrid(axis, axis, indexing="ij")
        logit = weight[..., None] * x + bias[..., None]
        log = np.sum(np.where(y, -np.logaddexp(0, -logit), -np.logaddexp(0, logit)), axis=-1)
        log = log - 0.5 * (weight**2 + bias**2)
        return Logistic(weight, bias, np.exp(log - log.max()))

    def chance(self, x: float) -> np.ndarray:
        return expit(self.weight * x + self.bias)

    def moments(self, values: np.ndarray, where: np.ndarray | bool = True) -> tuple[float, float]:
        share = self.density * where
        share = share / share.sum()
        mean = np.sum(share * values)
        return float(mean), float(np.sqrt(np.sum(share * (values - mean) ** 2)))


@pytest.fixture(scope="module")
def coins() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(8)
    x = generator.uniform(-2, 2, 12)
    return x, generator.random(12) < expit(0.7 * x + 0.3)


@pytest.mark.light
@pytest.mark.parametrize(
    ("ceiling", "share"),
    [pytest.param(1.0, (1.0, 1.0), marks=pytest.mark.slow), (0.75, (0.05, 0.6))],
)
def test_logistic_regression_is_the_exact_posterior_given_the_rule(
    coins, ceiling: float, share: tuple[float, float]
) -> None:
    """A ceiling on the probability cuts a region out of weights and biases; one of 1 cuts nothing.

    Mean and spread are compared with quadrature; a sampled mean errs by about sd / sqrt(200).
    """
    x, y = coins
    exact = Logistic.of(x, y)
    obeys = np.maximum(exact.chance(-2.0), exact.chance(2.0)) <= ceiling
    assert share[0] <= np.sum(exact.density * obeys) / np.sum(exact.density) <= share[1]
    rule = AtMost(ceiling, where={"x": (-2, 2)})
    options = {"network": MLP(()), "inference": NUTS(), "tempering": 1.0, "scaling": "none"}
    model = small([rule], steps=800, draws=1000, **options).fit(x[:, None], y)
    parts = model.predict_all(POINTS[:, None])
    for place, point in enumerate(POINTS):
        mean, sd = exact.moments(exact.chance(point), obeys)
        assert parts.mean[place, 1] == pytest.approx(mean, abs=3 * sd / 200**0.5)
        assert parts.epistemic[place, 1] == pytest.approx(sd, rel=0.15)


# --- mistakes, told before any training --------------------------------------------------------


TRIAL = trial_of()
BAD_LABELS: dict[str, tuple[Any, str]] = {
    "one class": (["yes"] * ROWS, "at least two classes.*'yes'.*right column"),
    "continuous": (TRIAL.chance, "continuous.*PRBNNRegressor.*digitize"),
    "infinite": (np.where(TRIAL.cured, np.inf, 0.0), "continuous.*inf"),
    "missing number": (np.where(TRIAL.cured, np.nan, 1.0), "missing label.*drop those rows"),
    "missing text": (np.where(TRIAL.cured, "yes", None), "missing label"),
    "missing in pandas": (pandas.Series(TRIAL.cured).astype("Int64").where(TRIAL.cured), "missing"),
    "missing in polars": (polars.Series(np.where(TRIAL.cured, "yes", None)), "missing label"),
    "mixed": ([1, "yes"] * (ROWS // 2), "mixes int and str"),
    "several columns": (
        np.column_stack([TRIAL.cured] * 2),
        "one label per row.*MultiOutputClassifier",
    ),
    "none": (None, "requires y"),
    "too few": (TRIAL.labels[:10], "80 rows.*10"),
}


@pytest.mark.parametrize(("labels", "words"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_bad_labels_are_refused_with_a_remedy(untrained: None, labels: Any, words: str) -> None:
    with pytest.raises(DataError, match=f"(?s){words}"):
        small().fit(TRIAL.frame, labels)


def test_one_class_left_by_the_weights_is_refused(untrained: None) -> None:
    with pytest.raises(DataError, match="1 class: every row with a weight is 'yes'"):
        small().fit(TRIAL.frame, TRIAL.labels, sample_weight=TRIAL.cured.astype(float))


@pytest.mark.parametrize("weight", [np.ones(3), np.full(ROWS, -1.0), np.zeros(ROWS)])
def test_bad_weights_are_refused(untrained: None, weight: np.ndarray) -> None:
    with pytest.raises(DataError, match="sample_weight"):
        small().fit(TRIAL.frame, TRIAL.labels, sample_weight=weight)


BAD_RULES = {
    "first of two": ("yes", AtMost(0.2, of="no", name="few"), "'few'.*'yes'.*1 - `yes`"),
    "first of two numbers": (1, AtMost(0.2, of="0", name="few"), "'few'.*'1' is the one output"),
    "a number that is no class": (1, AtMost(0.2, of="5", name="few"), "'few': no class '5'"),
    "misspelt": ("yes", AtMost(0.2, of="yess", name="few"), "did you mean 'yes'"),
    "misspelt column": ("yes", Increasing("doze"), "did you mean 'dose'"),
    "not a rule": ("yes", "p < 0.2", "list of rules"),
}


@pytest.mark.parametrize(("label", "rule", "words"), BAD_RULES.values(), ids=BAD_RULES)
def test_bad_rules_are_refused_by_name(untrained: None, label, rule, words: str) -> None:
    labels = TRIAL.labels if label == "yes" else TRIAL.cured.astype(int)
    with pytest.raises(KnowledgeError, match=f"(?s){words}"):
        small([rule]).fit(TRIAL.frame, labels)


def test_a_rule_among_three_classes_must_say_which(untrained: None, flowers) -> None:
    with pytest.raises(KnowledgeError, match=r"'floor'.*middle, small, tall.*of="):
        small([AtLeast(0, name="floor")]).fit(*flowers)
