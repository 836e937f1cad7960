"""Code is never in a file: what was the user's own is asked for by name, and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from tests.rules.every_rule import any_rule

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Combined,
    Gaussian,
    ModelFileError,
    Normal,
    PRBNNRegressor,
    Score,
    load,
)
from prbnn.saving.saved_rules import rules_from_json, rules_to_json
from prbnn.system.container import read, sealed
from prbnn.system.disk import write_whole as write

pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X = np.linspace(0, 1, 24)[:, None]
Y = 0.2 + X.ravel() ** 2


def factory(key, inputs, outputs):
    return MLP((3,), "tanh").build(key, inputs, outputs)


def another_activation(key, inputs, outputs):
    return MLP((3,), "relu").build(key, inputs, outputs)


def another_width(key, inputs, outputs):
    return MLP((4,), "tanh").build(key, inputs, outputs)


@dataclass(frozen=True)
class Engine(BayesByBackprop):
    """An engine of one's own."""


@dataclass(frozen=True)
class Likelihood(Gaussian):
    """A likelihood of one's own."""


@dataclass(frozen=True)
class Prior(Normal):
    """A prior of one's own."""


def slope(function, x):
    return 9 + function.slope(x, "x")


def ceiling(x):
    return 9 + x["x"]


KNOWLEDGE = [AtLeast(-9), Score(slope, name="not too steep"), AtMost(ceiling).soft(1)]
PARTS: dict[str, Any] = {
    "knowledge": {"not too steep": KNOWLEDGE[1], "output <= ceiling(x)": KNOWLEDGE[2]},
    "network": factory,
    "inference": Engine(),
    "likelihood": Likelihood(),
    "prior": Prior(),
}


@cache
def fitted() -> PRBNNRegressor:
    options = {name: part for name, part in PARTS.items() if name != "knowledge"}
    model = PRBNNRegressor(
        **options, knowledge=KNOWLEDGE, tempering=0.2, steps=20, draws=8, random_state=0
    )
    return model.fit(X, Y)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("supplied") / "model.prbnn"
    fitted().save(path)
    return path


def test_with_everything_supplied_the_model_is_the_model(path):
    model, again = fitted(), load(path, **PARTS)
    np.testing.assert_array_equal(again.sample(X), model.sample(X))
    assert again.get_params() == model.get_params()
    assert list(again.solution_.rules) == list(model.solution_.rules)
    ours, theirs = (m.posterior_.check(m.solution_.rules) for m in (model, again))
    np.testing.assert_array_equal(theirs.worst, ours.worst)


@pytest.mark.parametrize(
    ("name", "was"),
    [
        ("network", "factory"),
        ("inference", "Engine"),
        ("likelihood", "Likelihood"),
        ("prior", "Prior"),
    ],
)
def test_what_is_missing_is_named(path, name, was):
    with pytest.raises(ModelFileError, match=rf"code of {name} '{was}'.*load\(path, {name}=\.\.\."):
        load(path, **{**PARTS, name: None})


def test_missing_rules_are_named(path):
    with pytest.raises(
        ModelFileError, match=r"'output <= ceiling\(x\)' \(AtMost\); supply it again"
    ):
        load(path, **{**PARTS, "knowledge": {"not too steep": KNOWLEDGE[1]}})
    with pytest.raises(ModelFileError, match=r"'not too steep' \(Score\), 'output <= ceiling"):
        load(path, **{**PARTS, "knowledge": None})


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"output >= -9": AtLeast(-9)}, "which the file holds itself"),
        ({"not to steep": KNOWLEDGE[1]}, "did you mean 'not too steep'"),
    ],
)
def test_rules_that_are_not_asked_for_are_refused(path, extra, message):
    with pytest.raises(ModelFileError, match=message):
        load(path, **{**PARTS, "knowledge": {**PARTS["knowledge"], **extra}})


@pytest.mark.parametrize("rule", [KNOWLEDGE[2], KNOWLEDGE[1].soft(3), "text"])
def test_a_rule_of_another_kind_or_strength_is_refused(path, rule):
    supplied = {**PARTS["knowledge"], "not too steep": rule}
    with pytest.raises(ModelFileError, match="'not too steep' was a Score that is hard"):
        load(path, **{**PARTS, "knowledge": supplied})


def test_a_network_of_other_shapes_is_refused(path):
    with pytest.raises(ModelFileError, match=r"leaf 'layers\.0\.weight' must have shape"):
        load(path, **{**PARTS, "network": another_width})


def test_a_network_that_is_another_function_is_refused(path):
    with pytest.raises(ModelFileError, match="gives other predictions"):
        load(path, **{**PARTS, "network": another_activation})


def changed(path: Path, folder: Path, change) -> Path:
    """A file whose checksum is right and whose content is not."""
    record, tensors = read(path)
    change(record, tensors)
    write(folder / "changed.prbnn", sealed(record, tensors))
    return folder / "changed.prbnn"


WEIGHT = "draws/network/layers.0.weight"


def put(name: str, shape: tuple[int, ...]):
    return lambda record, tensors: tensors.update({name: np.zeros(shape, np.float32)})


def drop(name: str):
    return lambda record, tensors: tensors.pop(name)


def say(*place: str, value: Any):
    def change(record, tensors):
        for name in place[:-1]:
            record = record[name]
        record[place[-1]] = value

    return change


CHANGES = {
    "a missing leaf": (drop(WEIGHT), "missing: layers.0.weight"),
    "a leaf too many": (
        put("draws/network/layers.9.bias", (8, 3)),
        "not of this network: layers.9",
    ),
    "a leaf of another shape": (put(WEIGHT, (8, 3, 2)), "'layers.0.weight' must have shape"),
    "another number of draws": (put(WEIGHT, (7, 3, 1)), "as many draws as the others"),
    "no noise": (drop("draws/likelihood"), "lacks 'draws/likelihood'"),
    "noise of other draws": (put("draws/likelihood", (3, 1)), "'draws/likelihood' has shape"),
    "no history": (drop("history/dual"), "missing 1 required positional argument: 'dual'"),
    "no rows": (drop("data/rows"), "lacks 'data/rows'"),
    "rows of other columns": (put("data/rows", (24, 2)), r"'data/rows' has shape \(24, 2\)"),
    "places that are none": (
        lambda record, tensors: tensors.update({"raw/places": np.array([10**6])}),
        "out of bounds",
    ),
    "another estimator": (say("estimator", value="Popen"), "no estimator 'Popen'"),
    "an unknown type": (
        say("result", value={"type": "os.system", "command": "ls"}),
        "type 'os.system' that this version does not know",
    ),
    "a field too many": (
        say("result", value={"type": "Result", "status": "converged", "more": 1}),
        "unexpected keyword argument 'more'",
    ),
    "an unknown parameter": (
        say("parameters", "depth", value=3),
        "unexpected keyword argument 'depth'",
    ),
    "an unknown rule": (
        say("knowledge", "rules", value=[{"name": "a", "rule": {"run": "ls"}}]),
        "rule",
    ),
    "no settings": (lambda record, tensors: record.pop("settings"), "lacks 'settings'"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_does_not_hold_together_is_refused(path, tmp_path, change):
    edit, message = CHANGES[change]
    with pytest.raises(ModelFileError, match=message):
        load(changed(path, tmp_path, edit), **PARTS)


def test_what_the_file_holds_is_not_to_be_supplied(path, tmp_path):
    held = changed(path, tmp_path, say("settings", "prior", value={"type": "Normal"}))
    with pytest.raises(ModelFileError, match="holds its prior; leave prior= out"):
        load(held, **PARTS)


@dataclass(frozen=True)
class Floor(AtLeast):
    """A rule of one's own: not the library's, whatever its parent."""


def test_only_rules_with_code_in_them_are_to_be_supplied():
    rules = [AtLeast(0), Floor(0), Score(slope), AtMost("x"), Combined([AtMost(ceiling)])]
    entries = json.loads(json.dumps(rules_to_json(rules, "abcde")))
    assert [e["name"] for e in entries if "supply" in e] == ["b", "c", "e"]
    supplied = {"b": rules[1], "c": rules[2], "e": rules[4]}
    assert rules_from_json(entries, supplied) == rules


@settings(max_examples=50, deadline=None)
@given(any_rule)
def test_rules_without_code_are_held(rule):
    entries = json.loads(json.dumps(rules_to_json([rule], ["name"]), allow_nan=False))
    assert rules_from_json(entries, {}) == [rule]


def test_a_change_that_changes_nothing_is_read(path, tmp_path):
    again = load(changed(path, tmp_path, lambda record, tensors: None), **PARTS)
    np.testing.assert_array_equal(again.predict(X), fitted().predict(X))


def test_random_bits_of_a_saved_model_are_guarded(path, tmp_path):
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    for place in generator.integers(0, len(content), 200):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(generator.integers(8))
        (tmp_path / "damaged.prbnn").write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load(tmp_path / "damaged.prbnn", **PARTS)


def test_building_a_network_again_uses_the_seed_of_the_fit(path):
    again = load(path, **PARTS)
    ours, theirs = fitted().posterior_.network, again.posterior_.network
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
