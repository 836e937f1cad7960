"""The scikit-learn layer: conventions, tables, rules, and errors told before any training."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)
from tests.compiling import compilations
from tests.marks import quick

from prbnn import (
    MLP,
    NUTS,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Between,
    Compare,
    DataError,
    DivergedError,
    Gaussian,
    Increasing,
    InfeasibleError,
    KnowledgeError,
    LayerNormal,
    OneOf,
    PRBNNClassifier,
    PRBNNRegressor,
    PRBNNSequenceRegressor,
    Score,
    SlopeBetween,
    StudentT,
    load,
)
from prbnn.errors import CollapseWarning
from prbnn.estimators.parameters import SECTIONS

# short fits say that their budget was spent, and are right
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NAMES = ["dose", "wind speed"]
ROWS = 40


def small(knowledge=(), **options) -> PRBNNRegressor:
    """A regressor that fits in a tenth of a second once compiled.

    It learns fast, so that few steps are enough whatever the engine's default.
    """
    settings = {
        "network": MLP((8,)),
        "inference": BayesByBackprop(learning_rate=0.02),
        "tempering": 0.2,
        "steps": 300,
        "draws": 50,
        "random_state": 0,
        "verbose": False,
    }
    return PRBNNRegressor(knowledge=knowledge, **{**settings, **options})


@dataclass(frozen=True)
class Table:
    """power = dose + wind speed / 2 + noise of 0.05, over the unit square."""

    inputs: np.ndarray
    target: np.ndarray

    @property
    def pandas(self) -> tuple[pandas.DataFrame, pandas.Series]:
        return (
            pandas.DataFrame(self.inputs, columns=NAMES),
            pandas.Series(self.target, name="power"),
        )

    @property
    def polars(self) -> tuple[polars.DataFrame, polars.Series]:
        return polars.DataFrame(self.inputs, schema=NAMES), polars.Series("power", self.target)


def table_of(seed: int = 0, rows: int = ROWS) -> Table:
    generator = np.random.default_rng(seed)
    inputs = generator.uniform(size=(rows, 2))
    return Table(inputs, inputs @ [1.0, 0.5] + generator.normal(0, 0.05, rows))


@pytest.fixture(scope="module")
def table() -> Table:
    return table_of()


@pytest.fixture(scope="module")
def grid() -> np.ndarray:
    """More rows than one chunk of prediction holds."""
    return np.random.default_rng(9).uniform(-0.2, 1.2, size=(600, 2))


@pytest.fixture(scope="module")
def plain(table: Table) -> PRBNNRegressor:
    return small().fit(table.inputs, table.target)


RULES = [
    AtLeast(0.1, name="floor"),
    AtMost("`wind speed` + 2 * dose + 1", name="ceiling"),
    Increasing("dose", name="more dose more power"),
]


@pytest.fixture(scope="module")
def obedient(table: Table) -> PRBNNRegressor:
    return small(RULES, steps=1500).fit(*table.pandas)


# --- conventions -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the posterior has collapsed:UserWarning")
@parametrize_with_checks([small(steps=200)])
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


# --- outputs, noise, weights, networks ---------------------------------------------------------


@pytest.fixture(scope="module")
def several(table: Table) -> PRBNNRegressor:
    """power and a loss that falls as it rises, with a rule on one and on their sum."""
    targets = pandas.DataFrame({"power": table.target, "loss": 3 - 2 * table.target})
    rules = [
        Increasing("dose", of="power"),
        AtMost(10, of="power + loss"),
    ]
    return small(rules, steps=600).fit(table.pandas[0], targets)


def test_several_outputs_keep_their_columns(several: PRBNNRegressor, table: Table) -> None:
    inputs, target = table.pandas
    targets = np.column_stack([target, 3 - 2 * target])
    mean, std = several.predict(inputs, return_std=True)
    assert mean.shape == std.shape == (ROWS, 2)
    assert np.sqrt(np.mean((mean - targets) ** 2, axis=0)) == pytest.approx([0.0, 0.0], abs=0.3)
    assert several.score(inputs, targets) > 0.8
    assert several.output_names_ == ("power", "loss")
    assert several.noise_.shape == (2,)
    assert several.predict_quantiles(inputs).shape == (3, ROWS, 2)
    assert several.sample_functions(inputs).shape == (50, ROWS, 2)


def test_rules_on_several_outputs_hold_for_every_stored_draw(several: PRBNNRegressor) -> None:
    labels = [line.name for line in several.knowledge_report_]
    assert labels == ["power rises with dose", "power + loss <= 10"]
    assert [line.stored_share for line in several.knowledge_report_] == [0, 0]


def test_output_names_may_be_given(several: PRBNNRegressor, table: Table) -> None:
    targets = np.column_stack([table.target, 3 - 2 * table.target])
    model = clone(several).set_params(output_names=["power", "loss"])
    model.fit(table.pandas[0], targets)
    assert model.output_names_ == ("power", "loss")
    assert np.array_equal(model.predict(table.inputs), several.predict(table.inputs))


def test_a_stated_noise_is_kept(table: Table) -> None:
    model = small(noise=0.07).fit(table.inputs, table.target)
    assert model.noise_ == pytest.approx(0.07, rel=1e-5)
    assert np.allclose(model.predict_all(table.inputs).aleatoric, 0.07, rtol=1e-5)


def test_a_likelihood_may_be_given_in_place_of_a_noise(plain: PRBNNRegressor, table: Table) -> None:
    model = small(likelihood=Gaussian()).fit(table.inputs, table.target)
    assert np.array_equal(model.predict(table.inputs), plain.predict(table.inputs))
    assert clone(model).likelihood == Gaussian()


def test_a_collapse_is_told_only_where_variance_tells(table: Table) -> None:
    """Tails so heavy that the fit leaves most of the variance to outliers, and is right."""
    target = table.target + np.where(np.arange(ROWS) % 10 == 0, 30.0, 0.0)
    model = small(likelihood=StudentT(freedom=2.5), scaling="standard", steps=6000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.inputs, target)
    assert model.score(table.inputs, target) < 0.05


def test_a_learned_noise_comes_near_the_truth() -> None:
    quiet = table_of(rows=ROWS)
    loud = Table(quiet.inputs, quiet.target + np.random.default_rng(5).normal(0, 0.4, ROWS))
    found = [small(steps=1500).fit(t.inputs, t.target).noise_ for t in (quiet, loud)]
    assert 0.03 < found[0] < 0.1
    assert 0.25 < found[1] < 0.6


def test_noise_by_input_rises_where_it_should() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.uniform(-1, 1, size=(200, 1))
    truth = np.where(inputs[:, 0] > 0, 0.5, 0.05)
    target = inputs[:, 0] + generator.normal(0, truth)
    model = small(noise="by input", steps=3000).fit(inputs, target)
    left, right = model.predict_all([[-0.7], [0.7]]).aleatoric.ravel()
    assert left < 0.15
    assert 0.3 < right < 0.8
    assert np.isnan(model.noise_)


def test_a_row_of_no_weight_is_no_row(table: Table) -> None:
    weight = np.ones(ROWS)
    weight[::5] = 0
    with_zeros = small().fit(table.inputs, table.target, sample_weight=weight)
    kept = weight > 0
    without = small().fit(table.inputs[kept], table.target[kept])
    assert np.array_equal(with_zeros.predict(table.inputs), without.predict(table.inputs))


@pytest.mark.parametrize("scaling", ["standard", "minmax", "none"])
def test_whole_weights_are_repeated_rows(table: Table, scaling: str) -> None:
    """To the last bit, and whatever the order: they are the same problem."""
    generator = np.random.default_rng(2)
    weight = generator.integers(1, 4, ROWS)
    model = small(scaling=scaling, steps=100, knowledge=[Increasing("x0").soft(0.1)])
    weighed = model.fit(table.inputs, table.target, sample_weight=weight).predict(table.inputs)
    order = generator.permutation(np.repeat(np.arange(ROWS), weight))
    repeated = model.fit(table.inputs[order], table.target[order]).predict(table.inputs)
    assert np.array_equal(weighed, repeated)


@pytest.mark.parametrize("rows", [ROWS, 20])
def test_the_tempering_is_chosen_alike_for_weights_and_repeated_rows(
    table: Table, rows: int, monkeypatch
) -> None:
    """Folds are made of rows that differ: copies are held out together."""
    tempering = importlib.import_module("prbnn.fitting.tempering")
    monkeypatch.setattr(tempering, "STEPS", 20)
    inputs, target = table.inputs[:rows], table.target[:rows]
    weight = np.full(rows, 2)
    model = small(tempering="auto", steps=20)
    weighed = model.fit(inputs, target, sample_weight=weight).tempering_choice_
    assert (
        model.fit(np.repeat(inputs, 2, axis=0), np.repeat(target, 2)).tempering_choice_ == weighed
    )
    assert bool(weighed.scores) == (rows >= tempering.FEWEST_ROWS)


@pytest.mark.parametrize("inference", quick(["bbb", NUTS(chains=2, keep=20, doublings=3)], "bbb"))
def test_the_order_of_rows_changes_nothing(table: Table, inference) -> None:
    order = np.random.default_rng(3).permutation(ROWS)
    rules = [Increasing("x0", of="y + x1").soft(0.1)]
    model = small(knowledge=rules, inference=inference, steps=40, draws=20)
    weight = np.linspace(0.5, 1.5, ROWS)
    first = model.fit(table.inputs, table.target, sample_weight=weight).predict(table.inputs)
    again = model.fit(table.inputs[order], table.target[order], sample_weight=weight[order])
    assert np.array_equal(again.predict(table.inputs), first)


def test_heavier_rows_pull_the_fit(table: Table) -> None:
    """Two lines over the same rows: the one that weighs a hundred times more wins."""
    inputs = np.concatenate([table.inputs[:20], table.inputs[:20]])
    target = np.concatenate([table.inputs[:20, 0], -table.inputs[:20, 0]])
    weight = np.repeat([1.0, 0.01], 20)
    for sign, heavy in ((1, weight), (-1, weight[::-1])):
        model = small(steps=3000).fit(inputs, target, sample_weight=heavy)
        assert sign * model.predict([[0.9, 0.5]])[0] > 0.5


class Wave(eqx.Module):
    """A user's network: a line in the sines of the inputs."""

    weight: jax.Array
    bias: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.weight @ jnp.sin(x) + self.bias


def wave(key: jax.Array, inputs: int, outputs: int) -> Wave:
    return Wave(jax.random.normal(key, (outputs, inputs)), jnp.zeros(outputs))


def test_a_network_may_be_a_factory_of_the_users(table: Table) -> None:
    model = small(network=wave, steps=600).fit(table.inputs, table.target)
    assert isinstance(model.posterior_.network, Wave)
    assert model.score(table.inputs, table.target) > 0.8


@pytest.mark.parametrize("scaling", ["standard", "minmax"])
@pytest.mark.parametrize("rows", [41, 47])
def test_a_constant_column_may_move_a_little_afterwards(rows: int, scaling: str) -> None:
    """The standard deviation of 41 times 0.1 is 3e-17, not 0: dividing by it would explode."""
    table = table_of(rows=rows)
    table.inputs[:, 1] = 0.1
    model = small(scaling=scaling).fit(table.inputs, table.target)
    before, after = model.predict([[0.5, 0.1], [0.5, 0.101]])
    assert abs(after - before) < 0.05


@pytest.mark.parametrize("scaling", ["standard", "minmax", "none"])
def test_every_scaling_answers_in_the_users_units(table: Table, scaling: str) -> None:
    model = small(scaling=scaling, steps=600).fit(table.inputs, table.target)
    assert model.score(table.inputs, table.target) > 0.9


def test_units_of_the_columns_make_no_difference(plain: PRBNNRegressor, table: Table) -> None:
    """Scaled inside: kilometres or millimetres, the same function."""
    model = small().fit(table.inputs * 1e6 + 5e6, table.target * 1e-3 - 7)
    found = (model.predict(table.inputs * 1e6 + 5e6) + 7) * 1e3
    assert np.allclose(found, plain.predict(table.inputs), atol=1e-3)


def test_minibatches_prior_and_engine_options_are_used(table: Table) -> None:
    model = small(batch_size=16, prior=LayerNormal(2.0), inference=BayesByBackprop(3, 0.02))
    assert model.fit(table.inputs, table.target).score(table.inputs, table.target) > 0.5


def test_tempering_is_chosen_by_held_out_score_where_rows_suffice(table: Table) -> None:
    few = small(tempering="auto").fit(table.inputs[:28], table.target[:28])
    assert few.tempering_ == 0.2
    assert few.tempering_choice_.scores == {}
    model = small(tempering="auto").fit(table.inputs, table.target)
    scores = model.tempering_choice_.scores
    assert model.tempering_ == model.tempering_choice_.value
    assert model.tempering_ in scores
    assert scores[model.tempering_] > max(scores.values()) - 0.5


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


# --- mistakes, told before any training --------------------------------------------------------


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step of training fails the test."""

    def train(*_, **__):
        pytest.fail("training began before the mistake was told")

    for name in ("train.advance", "tempering.run_race"):
        monkeypatch.setattr(f"prbnn.fitting.{name}", train)


def test_the_guard_against_training_guards(untrained: None, table: Table) -> None:
    for tempering in (0.2, "auto"):
        with pytest.raises(pytest.fail.Exception, match="training began"):
            small(tempering=tempering).fit(table.inputs, table.target)


def with_value(value: float | str, column: str = "dose") -> pandas.DataFrame:
    inputs, _ = table_of().pandas
    if isinstance(value, str):
        return inputs.assign(**{column: value})
    inputs.loc[3, column] = value
    return inputs


def target_with(value: float) -> pandas.Series:
    _, target = table_of().pandas
    target[3] = value
    return target


INPUTS, TARGET = table_of().pandas

BAD_DATA = {
    "NaN in X": (with_value(np.nan), TARGET, "'dose'.*NaN"),
    "inf in X": (with_value(np.inf, "wind speed"), TARGET, "'wind speed'.*inf"),
    "NaN in bare X": (with_value(np.nan).to_numpy(), TARGET, "'x0'.*NaN"),
    "NaN in y": (INPUTS, target_with(np.nan), "'power'.*NaN"),
    "inf in y": (INPUTS, target_with(-np.inf), "'power'.*inf"),
    "text in X": (with_value("calm"), TARGET, "'dose' holds .*not numbers"),
    "text in y": (INPUTS, ["calm"] * ROWS, "y must hold numbers"),
    "lengths": (INPUTS, TARGET[:10], "40 rows.*10"),
    "no rows": (INPUTS[:0], TARGET[:0], "0 rows"),
    "no columns": (INPUTS[[]], TARGET, "0 columns"),
    "one row": (INPUTS[:1], TARGET[:1], "at least 2 rows"),
    "constant target": (INPUTS, TARGET * 0 + 3, "'power' has no variance.*3"),
    "one dimension": (TARGET, TARGET, "reshape"),
    "no target": (INPUTS, None, "requires y"),
    "no inputs": (None, TARGET, "both x and y"),
}


@pytest.mark.parametrize(("inputs", "target", "words"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_are_refused_by_column(untrained: None, inputs, target, words: str) -> None:
    with pytest.raises(DataError, match=f"(?s){words}"):
        small().fit(inputs, target)


BAD_WEIGHTS = {
    "too few": np.ones(3),
    "negative": np.full(ROWS, -1.0),
    "not finite": np.full(ROWS, np.nan),
    "all zero": np.zeros(ROWS),
}


@pytest.mark.parametrize("weight", BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_bad_weights_are_refused(untrained: None, weight: np.ndarray) -> None:
    with pytest.raises(DataError, match="sample_weight"):
        small().fit(INPUTS, TARGET, sample_weight=weight)


def test_a_target_that_the_weights_make_constant_is_refused(untrained: None) -> None:
    target = np.r_[np.ones(20), np.arange(20)]
    with pytest.raises(DataError, match="'y' has no variance"):
        small().fit(INPUTS, target, sample_weight=np.r_[np.ones(20), np.zeros(20)])


BAD_RULES = {
    "unknown column": ([Increasing("doze")], "'output rises with doze'.*did you mean 'dose'"),
    "unknown column in where": (
        [AtLeast(0, name="floor", where={"doze": (0, 1)})],
        "rule 'floor'.*did you mean 'dose'",
    ),
    "unknown column in text": (
        [AtLeast("2 * doze", name="floor")],
        "rule 'floor'.*did you mean 'dose'",
    ),
    "unknown column in back-quotes": (
        [AtLeast("2 * `wind sped`", name="floor")],
        "rule 'floor'.*did you mean 'wind speed'",
    ),
    "unknown column in a comparison": (
        [Compare({"doze": 1}, below={"doze": 0}, name="less")],
        "rule 'less'.*did you mean 'dose'",
    ),
    "unknown column in a callable": (
        [AtLeast(lambda x: x["doze"], name="floor")],
        "rule 'floor'.*'doze'.*dose",
    ),
    "unknown output": ([AtLeast(0, of="powr")], "powr.*did you mean 'power'"),
    "lower above upper": ([Between(1, 0, name="band")], "rule 'band'.*lower is above upper"),
    "lower above upper somewhere": (
        [Between("dose", 0.5, name="band")],
        "rule 'band'.*lower is above upper.*dose=",
    ),
    "slopes the wrong way round": (
        [SlopeBetween("dose", 2, 1, name="slope")],
        "rule 'slope'.*lower is above upper",
    ),
    "interval the wrong way round": (
        [OneOf([(0, 1), (3, 2)], name="bands")],
        "rule 'bands'.*lower is above upper",
    ),
    "a call": ([AtLeast("__import__('os')", name="floor")], "rule 'floor'.*not allowed"),
    "an attribute": ([AtLeast("dose.real", name="floor")], "rule 'floor'.*not allowed"),
    "half a formula": ([AtLeast("2 *", name="floor")], "rule 'floor'.*formula"),
    "not finite": ([AtLeast("log(dose - 5)", name="floor")], "rule 'floor'.*not finite.*dose="),
    "a step too long": ([Increasing("dose", over=5.0, name="rise")], "rule 'rise'.*step of 5"),
    "not a rule": (["power > 0"], "list of rules.*'power > 0'"),
    "one rule, not a list": (AtLeast(0, name="floor"), "list of rules.*floor"),
    "a score of one's own": (
        [Score(lambda function, x: function(x) - x["doze"], name="own")],
        "rule 'own'.*did you mean 'dose'",
    ),
    "a score with an if": (
        [Score(lambda function, x: 1.0 if function(x) > 0 else 0.0, name="own")],
        "rule 'own'.*if",
    ),
}


@pytest.mark.parametrize(("rules", "words"), BAD_RULES.values(), ids=BAD_RULES)
def test_bad_rules_are_refused_by_name(untrained: None, rules, words: str) -> None:
    with pytest.raises(KnowledgeError, match=f"(?s){words}"):
        small(rules).fit(INPUTS, TARGET)


def test_a_rule_among_several_outputs_must_say_which(untrained: None) -> None:
    targets = pandas.DataFrame({"power": TARGET, "loss": -TARGET})
    with pytest.raises(KnowledgeError, match=r"rule 'floor'.*power, loss.*of="):
        small([AtLeast(0, name="floor")]).fit(INPUTS, targets)


BAD_DECLARATIONS: dict[str, tuple[Callable, str]] = {
    "empty range": (lambda: AtLeast(0, where={"dose": (1, 0)}), "'dose'.*empty"),
    "empty region": (lambda: AtLeast(0, where=[]), "empty region"),
    "soft weight of 0": (lambda: AtLeast(0).soft(0), "soft weight must be above 0, got 0"),
    "soft weight below 0": (lambda: AtLeast(0).soft(-1), "soft weight must be above 0, got -1"),
    "p of 0": (lambda: AtLeast(0).probably(0), "p between 0 and 1.*got 0"),
    "p of 1": (lambda: AtLeast(0).probably(1), "p between 0 and 1.*got 1"),
    "p above 1": (lambda: AtLeast(0).probably(1.5), "p between 0 and 1.*got 1.5"),
    "tolerance": (lambda: AtLeast(0).hard(-1), "tolerance must be 0 or above, got -1"),
    "bound": (lambda: AtLeast(np.nan), "bound must be a finite number.*nan"),
    "activation": (lambda: MLP((8,), "rleu"), "activation must be one of relu.*'rleu'"),
    "width": (lambda: MLP((0,)), "hidden holds whole numbers above 0"),
}


@pytest.mark.parametrize(("declare", "words"), BAD_DECLARATIONS.values(), ids=BAD_DECLARATIONS)
def test_bad_declarations_are_refused_where_they_are_written(declare, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        declare()


def two_outputs(key: jax.Array, inputs: int, outputs: int) -> object:
    return MLP((8,)).build(key, inputs, outputs + 1)


def three_inputs(key: jax.Array, inputs: int, outputs: int) -> object:
    return MLP((8,)).build(key, inputs + 1, outputs)


BAD_SETTINGS = {
    "tempering of 0": ({"tempering": 0}, "tempering.*got 0"),
    "tempering below 0": ({"tempering": -0.2}, "tempering.*got -0.2"),
    "tempering of nan": ({"tempering": np.nan}, "tempering.*got nan"),
    "tempering misspelt": ({"tempering": "atuo"}, "tempering.*'auto'.*'atuo'"),
    "steps of 0": ({"steps": 0}, "steps.*above 0, got 0"),
    "steps below 0": ({"steps": -5}, "steps.*above 0, got -5"),
    "half a step": ({"steps": 1.5}, "steps.*whole number.*got 1.5"),
    "draws of 0": ({"draws": 0}, "draws.*above 0, got 0"),
    "points of 0": ({"points": 0}, "points.*above 0, got 0"),
    "batch of 0": ({"batch_size": 0}, "batch_size.*above 0, got 0"),
    "scaling": ({"scaling": "standrd"}, "scaling must be 'standard'.*'standrd'"),
    "inference": ({"inference": "bb"}, "inference must be one of bbb.*'bb'"),
    "no engine": ({"inference": 3}, "inference.*got 3"),
    "noise misspelt": ({"noise": "lerned"}, "noise.*'learned'.*'lerned'"),
    "noise of 0": ({"noise": 0.0}, "noise must be above 0"),
    "likelihood by name": ({"likelihood": "poisson"}, r"StudentT\(\) or Poisson\(\).*'poisson'"),
    "likelihood without brackets": ({"likelihood": StudentT}, r"StudentT\(\).*got <class"),
    "noise twice": ({"likelihood": StudentT(), "noise": 0.1}, r"noise=0.1 .*StudentT\(noise=0.1\)"),
    "network's outputs": ({"network": two_outputs}, r"network must map .*\(2,\) to \(1,\)"),
    "network's inputs": ({"network": three_inputs}, "network failed on one input"),
    "output names": ({"output_names": ["a", "b"]}, "1 columns but 2 output names"),
    "seed below 0": ({"random_state": -1}, "random_state.*-1"),
    "seed beyond 32 bits": ({"random_state": 2**32}, "random_state.*4294967296"),
}


@pytest.mark.parametrize(("options", "words"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_are_refused_by_argument(untrained: None, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small(**options).fit(INPUTS, TARGET)


def test_a_network_that_is_none_is_refused(untrained: None) -> None:
    with pytest.raises(TypeError, match=r"network must have build.*got 3"):
        small(network=3).fit(INPUTS, TARGET)


@pytest.mark.parametrize(
    "method", ["predict", "predict_all", "predict_quantiles", "sample_functions", "sample"]
)
def test_prediction_before_fitting_is_refused(method: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(small(), method)(INPUTS)


BAD_ROWS = {
    "missing column": (lambda frame: frame[["dose"]], "missing: .*'wind speed'"),
    "extra column": (lambda frame: frame.assign(sun=1.0), "unseen at fit time: .*'sun'"),
    "renamed column": (
        lambda frame: frame.rename(columns={"dose": "doze"}),
        "unseen.*'doze'.*missing.*'dose'",
    ),
    "other order": (lambda frame: frame[NAMES[::-1]], "same order.*'dose', 'wind speed'"),
    "too few columns": (lambda frame: frame.to_numpy()[:, :1], "1 features.*expecting 2"),
    "NaN": (lambda frame: frame.assign(dose=np.nan), "'dose'.*40 NaN"),
    "text": (lambda frame: frame.assign(dose="calm"), "'dose' holds"),
    "one dimension": (lambda frame: frame["dose"], "reshape"),
}


@pytest.mark.parametrize(("change", "words"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_unlike_those_of_the_fit_are_refused(
    obedient: PRBNNRegressor, change: Callable, words: str
) -> None:
    with pytest.raises(DataError, match=f"(?s){words}"):
        obedient.predict(change(INPUTS))


# --- numbers at the edges ------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e40, 1e300, -1e25])
def test_inputs_beyond_float32_are_refused_by_every_prediction(
    plain: PRBNNRegressor, far: float
) -> None:
    rows = [[0.5, 0.5], [0.5, far]]
    routes = (
        plain.predict,
        plain.predict_all,
        plain.predict_quantiles,
        plain.sample_functions,
        plain.sample,
        lambda x: plain.posterior_.log_density(np.array(x), np.zeros(2)),
    )
    for route in routes:
        with pytest.raises(
            DataError, match=r"row 1 \(from 0\) has .* in column 'x1', and the fit saw"
        ):
            route(rows)


def test_a_prediction_that_overflows_is_refused(table: Table) -> None:
    """Of a network of one's own: the input is far, but not beyond what can be held."""

    def exponential(key, inputs: int, outputs: int) -> Wave:
        return Steep(jax.random.normal(key, (outputs, inputs)), jnp.zeros(outputs))

    model = small(network=exponential, steps=5).fit(table.inputs, table.target)
    assert np.isfinite(model.predict(table.inputs)).all()
    rows = np.r_[table.inputs, [[0.5, 1e6]]]
    with pytest.raises(DataError, match=rf"prediction at row {ROWS} .*column 'x1' is 1e\+06"):
        model.predict(rows)


class Steep(Wave):
    """A user's network that overflows far from the data."""

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.weight @ jnp.exp(jnp.abs(x)) + self.bias


def test_a_target_beyond_float32_is_only_surprising(plain: PRBNNRegressor) -> None:
    density = plain.posterior_.log_density(np.full((2, 2), 0.5), np.array([0.7, 1e40]))
    assert np.isfinite(density[0])
    assert density[1] == -np.inf


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_weights_at_the_edges_of_numbers_are_refused(table: Table, size: float) -> None:
    with pytest.raises(DataError, match="largest sample_weight"):
        small().fit(table.inputs, table.target, sample_weight=np.full(ROWS, size))


def test_masked_arrays_are_refused_at_fit_and_prediction(
    plain: PRBNNRegressor, table: Table
) -> None:
    masked = np.ma.array(table.inputs, mask=table.inputs > 0.9)
    with pytest.raises(DataError, match="masked"):
        small().fit(masked, table.target)
    with pytest.raises(DataError, match="masked"):
        plain.predict(masked)
