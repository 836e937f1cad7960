"""The estimators in scikit-learn's tools: pipelines, transformers, searches, routed metadata, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import joblib
import numpy as np
import pandas
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from prbnn import (
    MLP,
    RBF,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Compare,
    Increasing,
    KnowledgeError,
    Poisson,
    PRBNNClassifier,
    PRBNNRegressor,
    PRBNNSequenceRegressor,
)
from prbnn.inference import ENGINES
from tests.estimators.problems import settings
from tests.marks import quick

# short fits say that their budget was spent or that they explain little, and are right
pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::prbnn.errors.CollapseWarning"),
]
ROWS = 40
SHORT = {"network": MLP(()), "steps": 60, "draws": 10}


def model_of(knowledge: Any = (), **options: Any) -> PRBNNRegressor:
    return PRBNNRegressor(knowledge=knowledge, **settings(**{**SHORT, **options}))


@pytest.fixture(scope="module")
def houses() -> tuple[pandas.DataFrame, pandas.Series]:
    """Heat rises with the size of a house and is higher by 1 where the house is old."""
    generator = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "size": generator.uniform(50, 200, ROWS),
            "built": generator.choice(["before 1980", "after 1980"], ROWS),
            "roof": generator.choice(["flat", "hip", "gable"], ROWS),
        }
    )
    heat = 0.02 * frame["size"] + (frame["built"] == "before 1980")
    return frame, (heat + generator.normal(0, 0.1, ROWS)).rename("heat")


def encoded(**options: Any) -> ColumnTransformer:
    encoder = OneHotEncoder(sparse_output=False, drop="if_binary")
    parts = [("encoded", encoder, ["built", "roof"])]
    return ColumnTransformer(parts, remainder="passthrough", **options).set_output(
        transform="pandas"
    )


# --- in front of an estimator --------------------------------------------------------------------


@pytest.mark.slow
def test_rules_name_the_columns_that_a_transformer_makes(houses) -> None:
    frame, heat = houses
    old = "built_before 1980"
    rules = [Increasing("size"), Compare({old: 1}, above={old: 0}, by=0.5)]
    inner = model_of(rules, categories=[old, "roof_flat", "roof_gable", "roof_hip"], steps=300)
    pipeline = make_pipeline(encoded(verbose_feature_names_out=False), inner).fit(frame, heat)
    fitted = pipeline[-1]
    names = [old, "roof_flat", "roof_gable", "roof_hip", "size"]
    assert fitted.feature_names_in_.tolist() == names
    assert fitted.n_features_in_ == len(names)
    twins = pandas.concat([frame.assign(built=year) for year in ("after 1980", "before 1980")])
    after, before = np.split(pipeline.predict(twins), 2)
    assert np.all(before - after > 0.499)
    assert pipeline.score(frame, heat) > 0.8


def test_a_rule_about_a_column_before_the_transformer_is_told_the_names_after_it(houses) -> None:
    with pytest.raises(KnowledgeError, match="no column 'size'.*'remainder__size'"):
        make_pipeline(encoded(), model_of([Increasing("size")])).fit(*houses)


@pytest.mark.slow
def test_rules_are_about_the_transformed_target(houses) -> None:
    """At most log(6) of a logarithm is at most 6 of the target, whose name does not arrive."""
    frame, heat = houses[0][["size"]], houses[1]
    rule = AtMost(np.log(6.0), where={"size": (50, 300)})
    inner = model_of([rule], steps=600, enforce="projection")
    whole = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(frame, heat)
    grid = pandas.DataFrame({"size": np.linspace(50, 300, 50)})
    assert np.all(whole.predict(grid) <= 6.0 * (1 + 1e-3))
    assert whole.regressor_.output_names_ == ("y",)
    unbounded = TransformedTargetRegressor(model_of(steps=600), func=np.log, inverse_func=np.exp)
    assert unbounded.fit(frame, heat).predict(grid).max() > 6.3


# --- searches ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_search_tries_tempering_networks_rules_and_options_of_engines(houses) -> None:
    frame, heat = houses[0][["size"]], houses[1]
    grid = [
        {"tempering": [0.1, 1.0], "knowledge": [[], [Increasing("size")]]},
        {"network": [MLP((2,)), RBF(3)], "inference": ["dropout"]},
        {"inference__draws": [1, 3], "network__activation": ["tanh"]},
    ]
    search = GridSearchCV(model_of(network=MLP((2,))), grid, cv=2, error_score="raise")
    search.fit(frame, heat)
    assert len(search.cv_results_["params"]) == 4 + 2 + 2
    scores = search.cv_results_["mean_test_score"]
    assert np.all(np.isfinite(scores))
    assert scores[6] != scores[7]
    best = clone(model_of(network=MLP((2,)))).set_params(**search.best_params_).fit(frame, heat)
    assert np.array_equal(best.predict(frame), search.predict(frame))


# --- metadata ------------------------------------------------------------------------------------


def test_weights_and_words_are_routed_through_a_pipeline_and_folds(houses) -> None:
    frame, heat = houses[0][["size"]], houses[1]
    weight, words = 1.0 + np.arange(ROWS) % 3, np.where(np.arange(ROWS) % 4, "exact", "at least")
    with sklearn.config_context(enable_metadata_routing=True):
        asked = model_of().set_fit_request(sample_weight=True, censored=True)
        asked = asked.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler.set_output(transform="pandas"), asked)
        routed = pipeline.fit(frame, heat, sample_weight=weight, censored=words)
        found = cross_validate(
            pipeline,
            frame,
            heat,
            cv=2,
            params={"sample_weight": weight, "censored": words},
            return_estimator=True,
            error_score="raise",
        )
    scaled = routed[0].transform(frame)
    alone = model_of().fit(scaled, heat, weight, words)
    assert np.array_equal(alone.predict(scaled), routed.predict(frame))
    plain = model_of().fit(scaled, heat)
    assert not np.array_equal(plain.predict(scaled), routed.predict(frame))
    folds = [each[-1].posterior_.columns for each in found["estimator"]]
    # the second fold trains on the first rows
    assert folds[1].exact_rows.sum() == np.sum(words[: ROWS // 2] == "exact")


def test_what_is_not_requested_is_refused(houses) -> None:
    frame, heat = houses[0][["size"]], houses[1]
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match="sample_weight"),
    ):
        Pipeline([("model", model_of())]).fit(frame, heat, sample_weight=np.ones(ROWS))


@pytest.mark.parametrize("kind", [PRBNNRegressor, PRBNNClassifier])
def test_a_score_counts_rows_by_their_weight(houses, kind: Any) -> None:
    frame, heat = houses[0][["size"]], houses[1]
    target = heat if kind is PRBNNRegressor else heat > heat.median()
    model = kind(**settings(**SHORT)).fit(frame, target)
    twice = np.where(np.arange(ROWS) < 10, 2, 1)
    repeated = np.repeat(np.arange(ROWS), twice)
    wanted = model.score(frame.iloc[repeated], target.iloc[repeated])
    assert model.score(frame, target, sample_weight=twice) == pytest.approx(wanted, rel=1e-12)


# --- copies --------------------------------------------------------------------------------------


def predicted(model: Any, inputs: Any) -> np.ndarray:
    return (
        model.predict_proba(inputs)
        if isinstance(model, PRBNNClassifier)
        else np.stack(model.predict(inputs, return_std=True))
    )


@pytest.mark.parametrize(
    "way", quick(["copy", "deepcopy", "pickle", "joblib"], "deepcopy", "pickle")
)
def test_copies_of_a_fitted_model_predict_the_same_bits(houses, way: str, tmp_path) -> None:
    frame, heat = houses[0][["size"]], houses[1]
    rules = [Increasing("size"), AtLeast("size / 1000 - 1", name="least", because="of physics")]
    cases = (
        (model_of(rules), heat),
        (PRBNNClassifier(**settings(**SHORT)), heat > heat.median()),
    )
    for model, target in cases:
        model.fit(frame, target)
        if way == "pickle":
            found = pickle.loads(pickle.dumps(model))
        elif way == "joblib":
            joblib.dump(model, tmp_path / "model.joblib")
            found = joblib.load(tmp_path / "model.joblib")
        else:
            found = getattr(copy, way)(model)
        assert np.array_equal(predicted(found, frame), predicted(model, frame))
        assert str(found.knowledge_report_) == str(model.knowledge_report_)
        again = clone(found).fit(frame, target)
        assert np.array_equal(predicted(again, frame), predicted(model, frame))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_estimator_that_is_not_fitted_can_be_copied(engine: str) -> None:
    rules = [AtLeast("x / 2").soft(2.0), Increasing("x").probably(0.9)]
    kinds = (PRBNNRegressor, PRBNNClassifier, PRBNNSequenceRegressor)
    made = [kind(knowledge=rules, inference=ENGINES[engine]()) for kind in kinds]
    made += [PRBNNRegressor(RBF(4), likelihood=Poisson(), inference=engine)]
    for model in made:
        for found in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model)):
            assert found.get_params() == model.get_params()


def test_setting_an_option_of_a_copy_leaves_the_original() -> None:
    model = model_of(inference=BayesByBackprop(draws=3))
    shallow = copy.copy(model).set_params(inference__draws=4)
    assert (model.inference.draws, shallow.inference.draws) == (3, 4)
