"""Who says that a column is a category: the table by its types, or the user; nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import polars
import pytest

from prbnn import MLP, AtMost, DataError, PRBNNClassifier, PRBNNRegressor, PRBNNSequenceRegressor
from prbnn.data.layout import Layout
from prbnn.fitting.prepare import prepare
from prbnn.fitting.task import Task
from prbnn.model.likelihoods import Gaussian
from prbnn.model.priors import Normal
from prbnn.rules.regions import Sampling, sample
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import prepare_run

FLAG = [0, 1] * 10
WIND = np.linspace(0, 1, 20)
POWER = np.cos(WIND)


def task(x: Any, categories: Any = (), layout: Layout | None = None, y: Any = POWER) -> Task:
    return prepare(
        MLP((2,)),
        x,
        y,
        [AtMost(2, of=None if layout is None else layout.outputs[0])],
        inference="bbb",
        likelihood=Gaussian(),
        prior=Normal(),
        tempering=1.0,
        scaling="standard",
        points=8,
        rejection=None,
        sample_weight=None,
        columns=None if layout is None else layout.inputs,
        outputs=None if layout is None else layout.targets,
        seed=0,
        layout=layout,
        categories=categories,
    )


@pytest.mark.parametrize(
    "flag",
    [
        FLAG,
        [value + 0.0 for value in FLAG],
        pandas.Series(FLAG, dtype="int8"),
        [value * 3 % 7 for value in range(20)],
    ],
)
def test_numbers_are_numbers(flag: Any) -> None:
    found = task(pandas.DataFrame({"wind": WIND, "flag": flag}))
    assert found.columns.categories == ()
    points = np.asarray(found.problem.knowledge.groups[0].points)[:1000, 1]
    assert len(np.unique(points)) > 100


@pytest.mark.parametrize(
    "table",
    [
        pandas.DataFrame({"wind": WIND, "flag": np.array(FLAG, bool)}),
        pandas.DataFrame({"wind": WIND, "flag": pandas.Categorical(FLAG)}),
        pandas.DataFrame({"wind": WIND, "flag": pandas.Categorical(FLAG, ordered=True)}),
        pandas.DataFrame({"wind": WIND, "flag": pandas.array(FLAG, dtype="boolean")}),
        polars.DataFrame({"wind": WIND, "flag": [value == 1 for value in FLAG]}),
        {"wind": WIND, "flag": [value == 1 for value in FLAG]},
    ],
)
def test_the_table_says_which_columns_are_categories(table: Any) -> None:
    found = task(table)
    assert found.columns.categories == ("flag",)
    points = np.asarray(found.problem.knowledge.groups[0].points)[:1000, 1]
    assert len(np.unique(points)) == 2


def test_the_user_says_which_columns_are_categories() -> None:
    assert task(np.column_stack([WIND, FLAG]), ["x1"]).columns.categories == ("x1",)


def test_truth_values_of_an_array_are_categories() -> None:
    x = np.column_stack([FLAG, FLAG[::-1]]).astype(bool)
    assert task(x).columns.categories == ("x0", "x1")


def test_a_category_of_text_is_refused() -> None:
    table = pandas.DataFrame({"wind": WIND, "flag": pandas.Categorical(["on", "off"] * 10)})
    with pytest.raises(DataError, match="column 'flag' holds Categorical, not numbers; encode it"):
        task(table)


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        (["flga"], "categories: no column 'flga'; did you mean 'flag'"),
        ("flag", r"categories takes a list of columns, such as \['flag'\]"),
    ],
)
def test_mistakes_are_told(categories: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        task({"wind": WIND, "flag": FLAG}, categories)


def test_without_rows_there_are_no_values() -> None:
    with pytest.raises(DataError, match="the values of categories come from the rows"):
        task(None, ["x"], y=None)


def test_a_variable_of_sequences_is_a_category_at_every_step() -> None:
    layout = Layout(("speed", "gear"), 2, ("kind", "mass"), ("speed",), 1)
    generator = np.random.default_rng(0)
    rows = np.column_stack(
        [
            generator.random(20),
            generator.integers(0, 3, 20),
            generator.random(20),
            generator.integers(0, 3, 20),
            generator.integers(0, 2, 20),
            generator.integers(0, 2, 20),
            np.ones(20),
        ]
    )
    y = generator.random((20, 1))
    found = task(rows, ["gear", "kind"], layout, y)
    assert found.columns.categories == ("gear[-1]", "gear[0]", "kind")
    points = sample(Sampling(()), found.columns, 200)
    assert set(points[:, 1]) | set(points[:, 3]) == {0, 1, 2}
    assert set(points[:, 4]) == {0, 1}
    assert len(set(points[:, 5])) > 20
    with pytest.raises(DataError, match="no column 'gaer'; did you mean 'gear'"):
        task(rows, ["gaer"], layout, y)


@pytest.mark.parametrize("kind", [PRBNNRegressor, PRBNNClassifier, PRBNNSequenceRegressor])
def test_every_estimator_takes_them(kind: Any) -> None:
    assert kind(categories=["flag"]).get_params()["categories"] == ["flag"]


# --- the command line ----------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path: Any) -> RunPlan:
    generator = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "wind": generator.random(60),
            "derate": generator.integers(0, 2, 60),
            "grade": generator.integers(1, 5, 60),
            "open": generator.choice(["yes", "no"], 60),
            "site": generator.choice(["north", "south", "west"], 60),
            "day": pandas.date_range("2024-01-01", periods=60).astype(str),
            "power": generator.random(60),
        }
    )
    frame.to_csv(tmp_path / "plant.csv", index=False)
    return RunPlan(str(tmp_path / "plant.csv"), "power")


SITES = ("site=north", "site=south", "site=west")


def test_text_and_yes_no_are_categories_and_numbers_are_not(plan: RunPlan) -> None:
    assert prepare_run(plan).categories == ("open", *SITES)


def test_columns_of_a_file_are_named_as_categories(plan: RunPlan) -> None:
    found = prepare_run(replace(plan, categories=("grade", "derate", "site")))
    assert found.categories == ("derate", "grade", "open", *SITES)
    assert "--categories grade,derate,site" in found.plan.command("run")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dreate", "categories: no input column 'dreate'; did you mean 'derate'"),
        ("day", "'day' cannot be a category. In the file, day: a date"),
    ],
)
def test_mistakes_at_the_command_line_are_told(plan: RunPlan, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepare_run(replace(plan, categories=(name,)))
