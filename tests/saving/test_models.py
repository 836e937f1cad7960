"""Saved and loaded models: the same bits, the same record, whatever was fitted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.marks import quick

from prbnn import (
    GRU,
    LSTM,
    MLP,
    NUTS,
    RBF,
    SGHMC,
    SVGD,
    AtLeast,
    AtMost,
    Between,
    Box,
    Dropout,
    Ensemble,
    Increasing,
    KnowledgeError,
    LayerNormal,
    ModelFileError,
    Normal,
    Poisson,
    PRBNNClassifier,
    PRBNNRegressor,
    PRBNNSequenceRegressor,
    Rises,
    StudentT,
    load,
)
from prbnn.certify.questions import boxes
from prbnn.fitting.result import History
from prbnn.system.container import read, sealed
from prbnn.system.disk import write_whole
from prbnn.system.environment import LIBRARIES, environment

# short fits say that their budget was spent, and are right
pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the posterior has collapsed"),
]

X = np.linspace(0, 1, 24)[:, None]
Y = 0.2 + X.ravel() ** 2
COUNTS = np.round(5 * Y)
FRAME = pandas.DataFrame({"sun": X.ravel(), "wind": np.cos(9 * X.ravel()), "on": [0, 1] * 12})
SHORT: dict[str, Any] = {"tempering": 0.2, "steps": 20, "draws": 8, "random_state": 3}
RULES = [AtLeast(-9), Increasing("x", where={"x": (0, 1)}, name="rising").soft(2)]
WALKS = np.cumsum(np.random.default_rng(0).uniform(0, 1, (12, 6, 2)), axis=1)


def regressor(network=None, rules=(), **options) -> PRBNNRegressor:
    return PRBNNRegressor(network or MLP((4,)), rules, **{**SHORT, **options})


def walk(network, rising: str, **options) -> PRBNNSequenceRegressor:
    chosen = {**SHORT, "draws": 4, "points": 8, **options}
    return PRBNNSequenceRegressor(network, [Rises(rising).soft(1)], **chosen)


def walk_table() -> pandas.DataFrame:
    steps = [(f"w{k}", t, *WALKS[k, t], k / 12) for k in range(12) for t in range(6)]
    return pandas.DataFrame(steps, columns=["walk", "second", "height", "load", "mass"])


CASES = {
    "bbb": lambda: (regressor(rules=RULES), X, Y),
    "dropout by input": lambda: (regressor(RBF(3), inference=Dropout(), noise="by input"), X, Y),
    "svgd fixed noise": lambda: (regressor(inference=SVGD(particles=4), noise=0.1), X, Y),
    "ensemble student": lambda: (
        regressor(
            inference=Ensemble(members=3), likelihood=StudentT(freedom=5), rules=(AtMost(9),)
        ),
        X,
        Y,
    ),
    "laplace counts": lambda: (regressor(inference="laplace", likelihood=Poisson()), X, COUNTS),
    "sghmc": lambda: (
        regressor(inference=SGHMC(chains=2, keep=4), steps=200, prior=LayerNormal()),
        X,
        Y,
    ),
    "nuts": lambda: (
        regressor(MLP(()), inference=NUTS(chains=2, keep=4, doublings=3), prior=Normal(0, 2)),
        X,
        Y,
    ),
    "two outputs of a frame": lambda: (
        regressor(MLP((3, 2), "tanh"), [AtMost("2 * sun + 9", of="up")], scaling="standard"),
        FRAME,
        pandas.DataFrame({"up": Y, "down": -Y}),
    ),
    "by construction": lambda: (
        regressor(
            MLP((4, 3)),
            [Increasing("x"), AtMost("x + 3"), AtLeast(-9)],
            enforce="construction",
            noise="by input",
        ),
        X,
        Y,
    ),
    "two classes": lambda: (PRBNNClassifier(MLP((4,)), [AtLeast(0)], **SHORT), X, Y > 0.5),
    "three classes": lambda: (
        PRBNNClassifier(MLP((4,)), [AtMost(1, of="low")], **SHORT),
        X,
        np.array(["low", "mid", "high"])[np.digitize(Y, [0.3, 0.7])],
    ),
    "lstm of arrays": lambda: (
        walk(LSTM(units=3, layers=2, hidden=(2,)), "x0"),
        WALKS[:, :4],
        WALKS[:, 4:],
    ),
    "gru of a table": lambda: (
        walk(
            GRU(units=2, hidden=()),
            "height",
            static=["mass"],
            variables=("height", "load"),
            **{"id": "walk", "time": "second", "history": 4, "ahead": 2},
        ),
        walk_table(),
        None,
    ),
}


# engines differ in how they find draws, and files in nothing but the draws
EVERY = quick(CASES, "bbb", "by construction", "ensemble student", "gru of a table", "two classes")


@cache
def fitted(case: str) -> tuple[Any, Any]:
    model, x, y = CASES[case]()
    return model.fit(x, y), x


def there_and_back(model, folder: Path, data: bool = True, **supplied) -> Any:
    model.save(folder / "model.prbnn", data=data)
    return load(folder / "model.prbnn", **supplied)


def assert_predicts_the_same(model, again, x) -> None:
    known = ("predict", "predict_proba", "predict_quantiles", "sample_functions", "sample")
    for name in (name for name in known if hasattr(model, name)):
        np.testing.assert_array_equal(getattr(again, name)(x), getattr(model, name)(x), name)
    ours, theirs = model.predict_all(x), again.predict_all(x)
    for part in ("mean", "epistemic", "aleatoric"):
        np.testing.assert_array_equal(getattr(theirs, part), getattr(ours, part))


def same(left, right) -> bool:
    """Equality of attributes, arrays and nan included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(
            left, right, equal_nan=left.dtype.kind == "f"
        )
    return left == right or left != left


PLAIN = (
    *("result_", "acceptance_", "tempering_", "tempering_choice_", "noise_", "n_features_in_"),
    *("feature_names_in_", "output_names_", "knowledge_report_", "classes_", "layout_", "audit_"),
    "environment_",
)


@pytest.mark.parametrize("case", EVERY)
def test_a_loaded_model_is_the_model(case, tmp_path):
    model, x = fitted(case)
    again = there_and_back(model, tmp_path)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert set(vars(again)) == set(vars(model))
    for name in PLAIN:
        assert same(getattr(again, name, None), getattr(model, name, None)), name
    assert str(again.knowledge_report_) == str(model.knowledge_report_)
    assert_predicts_the_same(model, again, x)


@pytest.mark.parametrize("case", ["bbb", "ensemble student", "gru of a table"])
def test_the_record_of_training_is_kept(case, tmp_path):
    model, _ = fitted(case)
    again = there_and_back(model, tmp_path)
    assert isinstance(again.history_, History)
    for ours, theirs in (
        (vars(model.history_), vars(again.history_)),
        (vars(model.raw_posterior_), vars(again.raw_posterior_)),
    ):
        for name in ("step", "elbo", "violation", "broken", "dual", "draws"):
            assert same(ours.get(name), theirs.get(name)), name
    before, after = model.solution_, again.solution_
    for name in ("result", "duals", "location", "scale", "steps", "diagnostics", "tempering"):
        assert same(getattr(after, name), getattr(before, name)), name
    assert list(after.rules) == list(before.rules)
    assert after.posterior is again.raw_posterior_
    assert after.history is again.history_


@pytest.mark.parametrize("case", ["bbb", "ensemble student", "two classes", "gru of a table"])
def test_a_loaded_model_saves_to_the_same_bytes(case, tmp_path):
    model, _ = fitted(case)
    again = there_and_back(model, tmp_path)
    again.save(tmp_path / "again.prbnn")
    assert (tmp_path / "again.prbnn").read_bytes() == (tmp_path / "model.prbnn").read_bytes()


@pytest.mark.parametrize("case", ["bbb", "two outputs of a frame", "gru of a table"])
def test_rules_are_checked_as_before(case, tmp_path):
    model, _ = fitted(case)
    again = there_and_back(model, tmp_path)
    ours = model.posterior_.check(model.solution_.rules)
    theirs = again.posterior_.check(again.solution_.rules)
    for name in ("worst", "f", "score", "points"):
        np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name))
    kept, share = again.raw_posterior_.condition(again.solution_.rules[:1])
    assert share == model.raw_posterior_.condition(model.solution_.rules[:1])[1]
    assert len(kept) == round(share * len(again.raw_posterior_))


def test_a_loaded_model_can_be_cloned_and_fitted_again(tmp_path):
    model, x = fitted("bbb")
    again = clone(there_and_back(model, tmp_path)).fit(X, Y)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_another_process_has_the_same_bits(tmp_path):
    model, x = fitted("two outputs of a frame")
    model.save(tmp_path / "model.prbnn")
    x.to_csv(tmp_path / "x.csv", index=False)
    script = (
        "import sys, numpy, pandas, prbnn\n"
        "folder = sys.argv[1]\n"
        "model = prbnn.load(folder + '/model.prbnn')\n"
        "x = pandas.read_csv(folder + '/x.csv')\n"
        "numpy.save(folder + '/out.npy', model.sample(x), allow_pickle=False)\n"
        "print(model.knowledge_report_)\n"
    )
    light = jax.config.read("jax_disable_most_optimizations")
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        # compiled as here, which pytest has chosen
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": str(light)},
        capture_output=True,
        text=True,
        check=True,
    )
    read = pandas.read_csv(tmp_path / "x.csv")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), model.sample(read))
    assert run.stdout.strip() == str(model.knowledge_report_)


def test_numbers_in_double_precision_stay_so(tmp_path):
    with jax.enable_x64(True):
        # a shape of its own: `light` tests leave programs of other rounding, which JAX would reuse
        model = regressor(MLP((2, 2))).fit(X, Y)
        again = there_and_back(model, tmp_path)
        assert again.posterior_.draws.dtype == np.float64
        assert_predicts_the_same(model, again, X)
    again = load(tmp_path / "model.prbnn")
    assert_predicts_the_same(model, again, X)


def test_further_draws_are_refused_and_the_elbo_is_kept_if_asked_for(tmp_path):
    model = regressor().fit(X, Y)
    again = there_and_back(model, tmp_path)
    with pytest.raises(ModelFileError, match="the draws that were saved and no others"):
        again.solution_.more(10, 1)
    with pytest.raises(ModelFileError, match="asked for before saving"):
        _ = again.solution_.elbo
    elbo = model.solution_.elbo
    assert there_and_back(model, tmp_path).solution_.elbo == elbo


def test_a_file_says_what_was_fitted_not_what_was_set_later(tmp_path):
    rules = list(RULES)
    model = regressor(rules=rules).fit(X, Y)
    before = model.predict(X)
    model.set_params(network=MLP((9, 9)), noise=0.5)
    rules.append(AtMost(0))
    again = there_and_back(model, tmp_path)
    assert again.network == MLP((4,))
    assert again.noise == "learned"
    assert again.knowledge == RULES
    np.testing.assert_array_equal(again.predict(X), before)


def test_a_random_state_is_kept_as_the_seed_it_gave(tmp_path):
    model = regressor(random_state=np.random.RandomState(5)).fit(X, Y)
    again = there_and_back(model, tmp_path)
    assert again.random_state == model.settings_.seed
    np.testing.assert_array_equal(clone(again).fit(X, Y).predict(X), model.predict(X))
    assert there_and_back(regressor(random_state=None).fit(X, Y), tmp_path).random_state is None


def test_a_model_that_was_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        regressor().save(tmp_path / "model.prbnn")
    assert not list(tmp_path.iterdir())


class Mine(PRBNNRegressor):
    """A class that no loader could find."""


def test_an_estimator_of_ones_own_is_refused(tmp_path):
    model = copy(fitted("bbb")[0])
    model.__class__ = Mine
    with pytest.raises(ModelFileError, match="Mine is a class of your own.*fit PRBNNRegressor"):
        model.save(tmp_path / "model.prbnn")


LABELS = {
    "text": ["no", "\N{SNOWMAN}"],
    "numpy text": np.array(["no", "yes"]),
    "whole numbers": [7, -1],
    "small whole numbers": np.array([5, 2], np.int8),
    "truth values": [True, False],
    "numbers": [2.0, 4.0],
    "single precision": np.array([1, 2], np.float32),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_types(kind, tmp_path):
    labels = LABELS[kind]
    every = np.arange(24) % len(labels)
    y = labels[every] if isinstance(labels, np.ndarray) else [labels[k] for k in every]
    model = PRBNNClassifier(MLP(()), **SHORT).fit(X, y)
    again = there_and_back(model, tmp_path)
    assert same(again.classes_, model.classes_)
    assert [type(label) for label in again.classes_] == [type(label) for label in model.classes_]
    assert same(again.predict(X), model.predict(X))


def test_labels_that_json_does_not_know_are_refused(tmp_path):
    model = PRBNNClassifier(MLP(()), **SHORT).fit(X, np.array([b"no", b"yes"])[np.arange(24) % 2])
    with pytest.raises(ModelFileError, match="labels of type .S3 cannot be saved"):
        model.save(tmp_path / "model.prbnn")


def test_sequences_keep_their_layout_and_read_columns_by_name(tmp_path):
    model, table = fitted("gru of a table")
    again = there_and_back(model, tmp_path)
    assert again.layout_.static == ("mass",)
    shuffled = table[["mass", "load", "second", "walk", "height"]]
    np.testing.assert_array_equal(again.predict(shuffled), model.predict(table))


def test_a_thousand_draws_take_little_more_than_their_weights(tmp_path):
    model = PRBNNRegressor(tempering=0.2, steps=20, draws=1000, random_state=0).fit(X, Y)
    model.save(tmp_path / "model.prbnn")
    weights = 1000 * 301 * 4
    assert len(model.posterior_) == 1000
    assert weights < (tmp_path / "model.prbnn").stat().st_size < 1.03 * weights


class Shuffled(eqx.Module):
    """A network of one's own with a fixed order of its inputs, drawn at the start."""

    weight: jax.Array
    order: jax.Array

    def __call__(self, x):
        return self.weight @ x[self.order]


def shuffled(key, inputs, outputs):
    first, second = jax.random.split(key)
    order = jax.random.permutation(first, inputs)
    return Shuffled(jax.random.normal(second, (outputs, inputs)), order)


def unshuffled(key, inputs, outputs):
    return Shuffled(jax.numpy.zeros((outputs, inputs)), jax.numpy.arange(inputs))


def test_arrays_that_are_no_weights_are_kept(tmp_path):
    model = regressor(shuffled).fit(FRAME, Y)
    assert not np.array_equal(model.posterior_.network.order, np.arange(3))
    again = there_and_back(model, tmp_path, network=unshuffled)
    assert_predicts_the_same(model, again, FRAME)


def test_without_data_no_row_is_in_the_file(tmp_path):
    model, _ = fitted("two outputs of a frame")
    model.save(tmp_path / "without.prbnn", data=False)
    content = (tmp_path / "without.prbnn").read_bytes()
    assert np.float64(FRAME["wind"][7]).tobytes() not in content
    model.save(tmp_path / "with.prbnn")
    assert np.float64(FRAME["wind"][7]).tobytes() in (tmp_path / "with.prbnn").read_bytes()


def test_without_data_predictions_are_the_same_and_checks_say_what_they_lack(tmp_path):
    model, x = fitted("two outputs of a frame")
    again = there_and_back(model, tmp_path, data=False)
    assert_predicts_the_same(model, again, x)
    assert str(again.knowledge_report_) == str(model.knowledge_report_)
    with pytest.raises(KnowledgeError, match="rule 'up <= .*the training rows.*data=False"):
        again.posterior_.check(again.solution_.rules)
    boxed = [AtMost(0.5, of="up", where=Box(sun=(0, 1))), Increasing("sun", of="up", where=Box())]
    np.testing.assert_array_equal(
        again.posterior_.check(boxed).worst, model.posterior_.check(boxed).worst
    )
    again.save(tmp_path / "again.prbnn")
    assert (tmp_path / "again.prbnn").read_bytes() == (tmp_path / "model.prbnn").read_bytes()


def test_without_data_rules_over_one_input_are_checked_as_before(tmp_path):
    model, _ = fitted("bbb")
    again = there_and_back(model, tmp_path, data=False)
    np.testing.assert_array_equal(
        again.posterior_.check(again.solution_.rules).worst,
        model.posterior_.check(model.solution_.rules).worst,
    )
    with pytest.raises(KnowledgeError, match="rule '0 <= y .*the training targets.*data=False"):
        again.posterior_.check([Between(0, 1, of="y + x")])


def test_the_record_can_be_read_by_other_tools(tmp_path):
    from safetensors import safe_open

    model, _ = fitted("bbb")
    model.save(tmp_path / "model.prbnn")
    with safe_open(tmp_path / "model.prbnn", framework="np") as file:
        record = json.loads(file.metadata()["prbnn"])
        weight = file.get_tensor("draws/network/layers.0.weight")
    assert weight.shape == (8, 4, 1)
    np.testing.assert_array_equal(weight.reshape(8, -1), model.posterior_.draws[:, :4])
    assert record["settings"]["network"] == {"type": "MLP", "hidden": [4], "activation": "relu"}
    assert record["data"]["count"] == 24
    assert set(record["written_by"]) == set(LIBRARIES)
    assert record["environment"] == model.environment_ == environment()


# ---- categories ---------------------------------------------------------------------------


@pytest.mark.parametrize("data", [True, False])
def test_categories_are_saved_and_earlier_files_keep_what_was_trained(tmp_path, data: bool) -> None:
    path = tmp_path / "model.prbnn"
    rule = AtMost(5, where=Box(sun=(0, 1)))
    model = PRBNNRegressor(
        MLP((2,)), [rule], tempering=0.2, steps=20, draws=4, categories=["on"], random_state=0
    ).fit(FRAME, Y)
    model.save(path, data=data)
    again = load(path)
    assert again.categories == ["on"]
    columns = again.posterior_.columns
    assert columns.categories == ("on",)
    assert boxes(rule.sampling(columns), columns, None)[2].endswith("on in {0, 1}")
    record, tensors = read(path)
    # as files were before there were categories: columns with few values are listed, and that is all
    del record["columns"]["categories"], record["parameters"]["categories"]
    write_whole(path, sealed(record, tensors))
    earlier = load(path)
    assert earlier.posterior_.columns.categories == ("on",)
    assert earlier.categories == ()
