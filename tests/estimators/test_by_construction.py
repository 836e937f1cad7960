"""``enforce="construction"`` from fit to file: no pressure, no rejection, and the report says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    Dropout,
    Ensemble,
    Increasing,
    KnowledgeError,
    Laplace,
    PRBNNClassifier,
    PRBNNRegressor,
    PRBNNSequenceRegressor,
    fit,
    load,
)
from prbnn.model.construction.built import built_in
from tests.contracts.test_engines import QUICK
from tests.marks import quick

pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the posterior has collapsed"),
]

GENERATOR = np.random.default_rng(0)
X = np.column_stack([GENERATOR.uniform(0, 4, 48), GENERATOR.uniform(-1, 1, 48)])
# the data break both rules
Y = 0.3 - 0.4 * X[:, 0] + X[:, 1] ** 2 + 0.1 * GENERATOR.normal(size=48)
FAR = np.column_stack([np.linspace(-9, 9, 61), np.full(61, 0.3)])
RULES = [
    Increasing("x0", name="rising"),
    AtLeast("0.1 * x0 - 0.2", name="floor"),
    AtMost(0.0, name="low").soft(1.0),
]
SHORT: dict[str, Any] = {"tempering": 0.2, "steps": 60, "draws": 20, "random_state": 1}


@pytest.mark.parametrize("name", quick(QUICK, "bbb", "dropout"))
def test_every_engine_draws_functions_that_obey(name: str) -> None:
    engine, steps = QUICK[name]
    solution = fit(
        MLP((5,)),
        X,
        Y,
        RULES,
        inference=engine,
        steps=steps,
        points=8,
        enforce="construction",
        columns=["x0", "x1"],
    )
    assert solution.result.status in ("converged", "budget spent")
    assert built_in(solution.posterior.network) == {"rising", "floor"}
    functions = solution.posterior.functions(FAR)[..., 0]
    assert np.all(np.isfinite(functions))
    assert np.diff(functions, axis=1).min() >= -1e-5
    assert np.all(functions >= 0.1 * FAR[:, 0] - 0.2 - 1e-4)
    assert len(np.unique(functions[:, 30])) > 1
    # those that are built were never under pressure; the soft one was
    assert solution.duals["rising"] == solution.duals["floor"] == 0
    assert solution.duals["low"] > 0
    assert solution.history.dual.shape[1] == 3
    assert not np.any(solution.history.violation[:, :2])


def test_dropout_never_switches_inputs_off() -> None:
    """Drawn functions all move with the input that has a trend."""
    solution = fit(
        MLP((30,)),
        X,
        X[:, 0],
        [Increasing("x0")],
        inference=Dropout(rate=0.3),
        steps=300,
        columns=["x0", "x1"],
        enforce="construction",
    )
    functions = solution.posterior.functions(np.array([[0.0, 0.0], [4.0, 0.0]]))[..., 0]
    assert np.min(functions[:, 1] - functions[:, 0]) > 0.5


def test_laplace_needs_one_last_layer() -> None:
    with pytest.raises(KnowledgeError, match="'laplace' needs one shared last layer"):
        fit(
            MLP((4,)),
            X,
            np.column_stack([Y, Y]),
            [Increasing("x0", of="y0")],
            outputs=["y0", "y1"],
            inference=Laplace(),
            columns=["x0", "x1"],
            enforce="construction",
        )


@pytest.fixture(scope="module")
def model() -> PRBNNRegressor:
    with np.errstate(all="ignore"):
        return PRBNNRegressor(MLP((6,)), RULES, enforce="construction", **SHORT).fit(X, Y)


def test_the_report_says_by_construction(model: PRBNNRegressor) -> None:
    report = model.knowledge_report_
    assert [report[name].verdict for name in ("rising", "floor")] == ["met by construction"] * 2
    assert report["rising"].raw_share == report["floor"].stored_share == 0
    assert report["low"].verdict.startswith("broken by")
    assert model.acceptance_ == 1
    assert len(model.posterior_) == 20
    assert "met by construction" in str(report)


def test_a_saved_model_obeys_again(model: PRBNNRegressor, tmp_path: Path) -> None:
    for data in (True, False):
        path = tmp_path / f"model-{data}.prbnn"
        model.save(path, data=data)
        again = load(path)
        assert np.array_equal(again.predict(FAR), model.predict(FAR))
        assert built_in(again.posterior_.network) == {"rising", "floor"}
        assert again.knowledge_report_ == model.knowledge_report_
        assert again.get_params() == model.get_params()


def test_conventions_of_scikit_learn(model: PRBNNRegressor) -> None:
    assert clone(model).enforce == "construction"
    for kind in (PRBNNRegressor, PRBNNClassifier, PRBNNSequenceRegressor):
        assert kind().enforce == "auto"
    with pytest.raises(ValueError, match="enforce must be one of 'auto', 'pressure'"):
        PRBNNRegressor(enforce="build").fit(X, Y)


def test_a_probability_rises(tmp_path: Path) -> None:
    labels = np.where(Y > -0.5, "yes", "no")
    model = PRBNNClassifier(
        MLP((5,)),
        [Increasing("x0")],
        inference=Ensemble(members=3),
        enforce="construction",
        **SHORT,
    ).fit(X, labels)
    chances = model.sample_functions(FAR)[..., 1]
    assert np.diff(chances, axis=1).min() >= -1e-6
    model.save(tmp_path / "classes.prbnn")
    assert np.array_equal(
        load(tmp_path / "classes.prbnn").predict_proba(FAR), model.predict_proba(FAR)
    )
