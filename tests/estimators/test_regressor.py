"""The scikit-learn layer of regression: conventions, tables, prediction, rules, compilation."""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    BayesByBackprop,
    DivergedError,
    Increasing,
    InfeasibleError,
    KnowledgeError,
    PRBNNClassifier,
    PRBNNRegressor,
    PRBNNSequenceRegressor,
    load,
)
from prbnn.errors import CollapseWarning
from prbnn.estimators.parameters import SECTIONS
from tests.compiling import compilations
from tests.estimators.problems import NAMES, ROWS, RULES, Table, small, table_of

# short fits say that their budget was spent, and are right
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def grid() -> np.ndarray:
    """More rows than one chunk of prediction holds."""
    return np.random.default_rng(9).uniform(-0.2, 1.2, size=(600, 2))


@pytest.fixture(scope="module")
def obedient(table: Table) -> PRBNNRegressor:
    return small(RULES, steps=1500).fit(*table.pandas)


# --- conventions -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the posterior has collapsed:UserWarning")
@pytest.mark.light
@parametrize_with_checks([small(network=MLP(()), steps=200)])
def test_scikit_learn_accepts_it(estimator, check) -> None:
    check(estimator)


def test_weights_are_repeated_rows_to_scikit_learn_whatever_chooses_the_tempering() -> None:
    model = small(tempering="auto", steps=100)
    check_sample_weight_equivalence_on_dense_data("PRBNNRegressor", model)


def test_a_clone_has_the_same_parameters_and_nothing_learned(obedient: PRBNNRegressor) -> None:
    copy = clone(obedient)
    assert copy.get_params() == obedient.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


def test_its_tags_tell_that_it_takes_several_targets() -> None:
    """The conformance suite tries several targets only where the tag says so."""
    assert get_tags(small()).target_tags.multi_output
    assert get_tags(small()).target_tags.required


def test_parameters_are_set_by_name() -> None:
    model = small().set_params(steps=7, knowledge=RULES, network=MLP((3, 3)))
    parameters = model.get_params()
    assert (parameters["steps"], parameters["network"]) == (7, MLP((3, 3)))
    assert parameters["knowledge"] is RULES
    with pytest.raises(ValueError, match="stepps"):
        model.set_params(stepps=7)


def test_it_prints_what_was_set() -> None:
    assert "MLP(hidden=(8,), activation='relu')" in repr(small())
    assert "AtLeast" in repr(small([AtLeast(0)]))


def test_a_pipeline_scales_first(table: Table) -> None:
    model = make_pipeline(StandardScaler(), small(steps=600)).fit(table.inputs, table.target)
    assert model.score(table.inputs, table.target) > 0.9


def test_a_pipeline_passes_column_names_to_the_rules_and_weights_to_the_fit(table: Table) -> None:
    scaler = StandardScaler().set_output(transform="pandas")
    model = make_pipeline(scaler, small(RULES))
    inputs, target = table.pandas
    weighed = model.fit(inputs, target, prbnnregressor__sample_weight=1 + np.arange(ROWS) % 3)
    predicted = weighed.predict(inputs)
    assert weighed[-1].feature_names_in_.tolist() == NAMES
    assert not np.array_equal(predicted, model.fit(inputs, target).predict(inputs))


# every time: of a classifier's steps in `test_classifier.py`
@pytest.mark.slow
def test_a_grid_search_tries_steps_and_networks(table: Table) -> None:
    choices = {"steps": [3, 300], "network": [MLP((8,)), MLP(())]}
    search = GridSearchCV(small(), choices, cv=4, error_score="raise")
    search.fit(table.inputs, table.target)
    assert search.best_params_["steps"] == 300
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(table.inputs).shape == (ROWS,)


def test_cross_validation_scores_every_fold(table: Table) -> None:
    model = small(steps=600)
    scores = cross_val_score(model, table.inputs, table.target, cv=3, error_score="raise")
    assert np.all(scores > 0.8)


def test_a_pickle_predicts_the_same_bits(obedient: PRBNNRegressor, grid: np.ndarray) -> None:
    copy = pickle.loads(pickle.dumps(obedient))
    assert np.array_equal(copy.predict(grid), obedient.predict(grid))
    assert str(copy.knowledge_report_) == str(obedient.knowledge_report_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_the_target_may_have_one_column(plain: PRBNNRegressor, table: Table) -> None:
    with pytest.warns(DataConversionWarning, match=r"y.ravel\(\)"):
        flat = small().fit(table.inputs, table.target[:, None])
    assert np.array_equal(flat.predict(table.inputs), plain.predict(table.inputs))


# --- tables ------------------------------------------------------------------------------------


def test_every_library_gives_the_same_predictions(plain: PRBNNRegressor, table: Table) -> None:
    wanted = plain.predict(table.inputs)
    for inputs, target in (table.pandas, table.polars, (table.inputs.tolist(), table.target)):
        model = small().fit(inputs, target)
        assert np.array_equal(model.predict(inputs), wanted)
        assert np.array_equal(model.predict(table.inputs), wanted)


def test_rules_by_column_name_are_the_same_in_every_library(
    obedient: PRBNNRegressor, table: Table
) -> None:
    model = small(RULES, steps=1500).fit(*table.polars)
    for learned in (model, obedient):
        assert learned.feature_names_in_.tolist() == NAMES
        assert learned.output_names_ == ("power",)
    assert np.array_equal(model.predict(table.polars[0]), obedient.predict(table.pandas[0]))


def test_bare_columns_are_called_by_number_in_rules(untrained: None, table: Table) -> None:
    rules = [AtMost("x1 + 2 * x0 + 1"), Increasing("x0")]
    with pytest.raises(pytest.fail.Exception, match="training began"):
        small(rules).fit(table.inputs, table.target)
    with pytest.raises(KnowledgeError, match="'dose'.*x0"):
        small([Increasing("dose")]).fit(table.inputs, table.target)


def test_bare_columns_have_no_names_to_remember(plain: PRBNNRegressor, table: Table) -> None:
    assert not hasattr(plain, "feature_names_in_")
    assert plain.n_features_in_ == 2
    again = small().fit(*table.pandas).fit(table.inputs, table.target)
    assert not hasattr(again, "feature_names_in_")


# --- prediction --------------------------------------------------------------------------------


def test_prediction_is_the_mean_of_stored_functions(plain: PRBNNRegressor, table: Table) -> None:
    functions = plain.sample_functions(table.inputs)
    assert functions.shape == (50, ROWS)
    assert np.allclose(plain.predict(table.inputs), functions.mean(axis=0), atol=1e-5)


def test_the_standard_deviation_is_that_of_a_new_observation(
    plain: PRBNNRegressor, table: Table
) -> None:
    mean, std = plain.predict(table.inputs, return_std=True)
    parts = plain.predict_all(table.inputs)
    assert mean.shape == std.shape == (ROWS,)
    assert np.array_equal(mean, plain.predict(table.inputs))
    total = np.hypot(parts.epistemic[:, 0], parts.aleatoric[:, 0])
    assert np.allclose(std, total, rtol=1e-6)
    spread = plain.sample_functions(table.inputs).std(axis=0)
    assert np.allclose(parts.epistemic[:, 0], spread, atol=1e-5)
    assert np.allclose(parts.aleatoric, plain.noise_, rtol=1e-6)


def test_quantiles_stand_around_the_mean(plain: PRBNNRegressor, table: Table) -> None:
    low, middle, high = plain.predict_quantiles(table.inputs)
    assert np.all((low < middle) & (middle < high))
    inner = plain.predict_quantiles(table.inputs, (0.05, 0.5, 0.95), noise=False)
    assert np.all((low < inner[0]) & (inner[2] < high))
    assert plain.sample(table.inputs).shape == (50, ROWS)


def test_rows_have_the_same_bits_however_they_are_split(
    plain: PRBNNRegressor, grid: np.ndarray
) -> None:
    mean, std = plain.predict(grid, return_std=True)
    for cuts in ([1], [256], [100, 300], list(range(7, 600, 83))):
        parts = [plain.predict(part, return_std=True) for part in np.split(grid, cuts)]
        assert np.array_equal(np.concatenate([part[0] for part in parts]), mean)
        assert np.array_equal(np.concatenate([part[1] for part in parts]), std)


def test_the_same_seed_gives_the_same_bits_and_another_gives_others(
    plain: PRBNNRegressor, table: Table
) -> None:
    wanted = plain.predict(table.inputs)
    for seed in (0, np.int64(0)):
        again = small(random_state=seed).fit(table.inputs, table.target)
        assert np.array_equal(again.predict(table.inputs), wanted)
    other = small(random_state=1).fit(table.inputs, table.target)
    assert not np.array_equal(other.predict(table.inputs), wanted)


def test_a_random_state_object_moves_on_from_fit_to_fit(table: Table) -> None:
    first, second = np.random.RandomState(3), np.random.RandomState(3)

    def fitted(state: np.random.RandomState) -> np.ndarray:
        return small(random_state=state).fit(table.inputs, table.target).predict(table.inputs)

    once = fitted(first)
    assert np.array_equal(once, fitted(second))
    assert not np.array_equal(once, fitted(first))


# --- rules -------------------------------------------------------------------------------------


def test_no_stored_draw_breaks_a_hard_rule(obedient: PRBNNRegressor, table: Table) -> None:
    """Counted by hand on the training rows and on a dense sweep of the dose between them."""
    inputs, _ = table.pandas
    wind = np.quantile(inputs["wind speed"], [0.1, 0.5, 0.9])
    dose = np.linspace(inputs["dose"].min(), inputs["dose"].max(), 200)
    sweep = np.array([[d, w] for w in wind for d in dose])
    allowed = 1e-3 * table.target.std()
    at_rows = obedient.sample_functions(inputs)
    assert len(at_rows) == 50
    assert at_rows.min() > 0.1 - allowed
    assert np.all(at_rows < table.inputs @ [2.0, 1.0] + 1 + allowed)
    rises = np.diff(obedient.sample_functions(sweep).reshape(50, 3, 200), axis=2)
    assert rises.min() > -allowed
    assert [line.stored_share for line in obedient.knowledge_report_] == [0, 0, 0]
    assert [line.points_broken_by_mean for line in obedient.knowledge_report_] == [0, 0, 0]


def test_acceptance_is_the_share_of_raw_draws_that_obey(
    obedient: PRBNNRegressor, table: Table
) -> None:
    raw, rules = obedient.raw_posterior_, obedient.solution_.rules
    assert len(raw) == 1000
    assert obedient.acceptance_ == pytest.approx(raw.condition(rules)[1])
    assert obedient.acceptance_ <= raw.check(rules).obeys().mean()
    assert 0.02 < obedient.acceptance_ <= 1
    assert f"{obedient.acceptance_:.1%} of draws obey" in str(obedient.knowledge_report_)
    assert set(obedient.solution_.duals) == {rule.name for rule in RULES}


def test_knowledge_bends_the_fit(obedient: PRBNNRegressor, table: Table) -> None:
    """A floor above the data lifts the prediction to it."""
    inputs, target = table.pandas
    model = small([AtLeast(0.6, name="floor")], steps=3000).fit(inputs, target)
    assert obedient.predict(inputs).min() < 0.4
    assert model.predict(inputs).min() > 0.55


@pytest.fixture(scope="module")
def hopeless(table: Table) -> PRBNNRegressor:
    with pytest.warns(ConvergenceWarning, match="acceptance too low"):
        return small([AtLeast(50.0, name="far above")], steps=100).fit(*table.pandas)


def test_too_low_an_acceptance_is_a_result_of_its_own(hopeless: PRBNNRegressor) -> None:
    assert hopeless.result_.status == "acceptance too low"
    assert "far above" in hopeless.result_.rules
    assert hopeless.acceptance_ < 0.02
    line = hopeless.knowledge_report_["far above"]
    assert line.verdict in ("broken", "not met")


def test_the_report_tells_the_same_result_as_the_model(hopeless: PRBNNRegressor) -> None:
    assert "acceptance too low" in str(hopeless.knowledge_report_)


def test_rules_that_allow_some_violation_reject_no_draw(table: Table) -> None:
    """A tolerance bounds the mean violation, and a price is paid: neither rules a draw out."""
    rules = [
        AtLeast(0.2, name="floor").hard(tolerance=0.1),
        AtLeast(5.0, name="far above").soft(0.01),
    ]
    model = small(rules, steps=600).fit(table.inputs, table.target)
    floor, far = model.knowledge_report_
    assert 0 < floor.violation < 0.1
    assert floor.verdict == "within tolerance"
    assert far.raw_share == 1
    assert model.acceptance_ == 1
    assert model.result_.status != "acceptance too low"


# every time: `test_projection.py`, and `tests/enforcement/test_far_from_the_data.py` while training
@pytest.mark.slow
def test_rules_that_contradict_each_other_raise_and_are_named(table: Table) -> None:
    rules = [AtLeast(1.0, name="high"), AtMost(0.0, name="low")]
    with pytest.raises(InfeasibleError, match=r"'high' and 'low'") as caught:
        small(rules, steps=6000).fit(table.inputs, table.target)
    assert caught.value.rules == ("high", "low")


def test_numbers_that_stop_being_finite_raise_with_the_last_finite_state(table: Table) -> None:
    wild = small(inference=BayesByBackprop(learning_rate=1e30))
    with pytest.raises(DivergedError, match=r"learning rate too high") as caught:
        wild.fit(table.inputs, table.target)
    assert np.all(np.isfinite(caught.value.solution.posterior.predict(table.inputs).mean))


def test_a_collapse_onto_the_prior_is_told_and_kept_in_the_result(
    table: Table, tmp_path: Path
) -> None:
    noise = np.random.default_rng(4).normal(size=ROWS)
    message = r"collapsed onto its prior.*variance of 'y'.*try 0\.5$"
    with pytest.warns(CollapseWarning, match=message) as caught:
        model = small(tempering=5.0, steps=8000).fit(table.inputs, noise)
    assert caught[0].filename == __file__
    assert model.result_.warnings == (str(caught[0].message),)
    model.save(tmp_path / "model.prbnn")
    assert load(tmp_path / "model.prbnn").result_ == model.result_


@pytest.mark.parametrize("kind", [PRBNNRegressor, PRBNNClassifier, PRBNNSequenceRegressor])
def test_docstrings_name_every_parameter_once(kind: type) -> None:
    """They are composed of shared texts and the estimator's own, in the order of the signature."""
    text = str(kind.__doc__)
    assert SECTIONS not in text
    parameters, attributes = text.split("Attributes\n----------\n")
    named = re.findall(r"^(\w+) : ", parameters, flags=re.MULTILINE)
    assert named == list(inspect.signature(kind).parameters)
    assert sorted(named) == sorted(kind().get_params(deep=False))
    assert "knowledge_report_ : " in attributes


def test_a_fit_that_ran_out_of_steps_warns_where_it_was_called(table: Table) -> None:
    with pytest.warns(ConvergenceWarning, match="give more steps") as caught:
        model = small(steps=30).fit(table.inputs, table.target)
    assert model.result_.status == "budget spent"
    assert all(warning.filename == __file__ for warning in caught)


def test_a_warning_made_an_error_leaves_a_model_that_predicts(table: Table) -> None:
    model = small(steps=30)
    with warnings.catch_warnings(), pytest.raises(ConvergenceWarning):
        warnings.simplefilter("error")
        model.fit(table.inputs, table.target)
    assert model.predict(table.inputs).shape == (ROWS,)


# --- compilation and progress ------------------------------------------------------------------


def test_compilations_are_seen() -> None:
    """The counter behind the next tests counts."""
    with compilations() as names:
        jax.jit(lambda x: x * 3 + 1)(jnp.arange(17))
    assert names


@pytest.mark.parametrize(
    ("seed", "rows", "options"),
    [
        (0, ROWS, {}),
        (1, ROWS, {}),
        (0, ROWS, {"random_state": 5}),
        (0, ROWS, {"tempering": 0.5}),
        (0, ROWS, {"steps": 400}),
        (0, ROWS + 4, {}),
        (3, ROWS - 4, {}),
    ],
    ids=["again", "data", "seed", "tempering", "steps", "more rows", "fewer rows"],
)
def test_a_second_fit_of_the_same_shapes_compiles_nothing(
    plain: PRBNNRegressor, seed: int, rows: int, options: dict
) -> None:
    other = table_of(seed, rows)
    plain.predict(other.inputs[:3])
    with compilations() as names:
        model = small(**options).fit(other.inputs, other.target)
        model.predict(other.inputs, return_std=True)
    assert names == []


@pytest.mark.parametrize(
    ("floor", "slope", "seed", "rows", "state"),
    [
        (0.1, 2, 0, ROWS, 0),
        (0.05, 2, 0, ROWS, 0),
        (0.1, 2.5, 0, ROWS, 0),
        (0.1, 2, 1, ROWS, 1),
        (0.1, 2, 2, ROWS + 4, 2),
    ],
    ids=["again", "bound", "formula", "data and seed", "rows"],
)
def test_a_second_fit_with_other_bounds_compiles_nothing(
    obedient: PRBNNRegressor, floor: float, slope: float, seed: int, rows: int, state: int
) -> None:
    """Whatever share of the draws is rejected; enough are left in each of these."""
    inputs, target = table_of(seed, rows).pandas
    rules = [
        AtLeast(floor, name="floor"),
        AtMost(f"`wind speed` + {slope} * dose + 1", name="ceiling"),
        Increasing("dose", name="more dose more power"),
    ]
    obedient.predict(inputs)
    with compilations() as names:
        model = small(rules, steps=1500, random_state=state).fit(inputs, target)
        model.predict(inputs)
    assert len(model.posterior_) == 50
    assert names == []


def test_a_fit_without_rules_under_other_column_names_compiles_nothing(
    plain: PRBNNRegressor, table: Table
) -> None:
    inputs, target = table.pandas
    plain.predict(inputs.to_numpy())
    with compilations() as names:
        small().fit(inputs.rename(columns={"dose": "load"}), target).predict(table.inputs)
    assert names == []


def test_folds_of_a_cross_validation_share_one_program(table: Table) -> None:
    model = small()
    cross_val_score(model, table.inputs, table.target, cv=4, error_score="raise")
    with compilations() as names:
        cross_val_score(model, table.inputs, table.target, cv=5, error_score="raise")
    assert names == []


def test_progress_is_shown_where_asked_for(
    plain: PRBNNRegressor, table: Table, capsys: pytest.CaptureFixture
) -> None:
    small(verbose=True).fit(table.inputs, table.target)
    shown = capsys.readouterr()
    assert shown.out == ""
    for word in ("training", "loss", "violation"):
        assert word in shown.err


@pytest.mark.parametrize("verbose", [False, None])
def test_progress_is_silent_otherwise_where_nobody_watches(
    table: Table, capsys: pytest.CaptureFixture, verbose: bool | None
) -> None:
    small(verbose=verbose).fit(table.inputs, table.target)
    shown = capsys.readouterr()
    assert shown.out == shown.err == ""
