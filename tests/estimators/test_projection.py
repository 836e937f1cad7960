"""Draws that break hard rules are moved, through the estimators: what is stored, said and saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Decreasing,
    Increasing,
    InfeasibleError,
    KnowledgeError,
    LayerNormal,
    PRBNNClassifier,
    PRBNNRegressor,
    SlopeBetween,
    load,
)
from prbnn.posterior import projection, searching
from prbnn.rules.base import Rule

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NETWORK = MLP((12,), "tanh")
ONE = BayesByBackprop(draws=2)
RULES = (Increasing("x0"), Decreasing("x1"), AtLeast(-1.0))


def table(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    x = generator.uniform(0, 1, (rows, 2))
    return x, 0.2 * x[:, 0] - 0.3 * x[:, 1] ** 2 + 0.3 * generator.standard_normal(rows)


def fitted(rules: Sequence[Rule] = RULES, **options) -> PRBNNRegressor:
    settings = {
        "prior": LayerNormal(2.0),
        "inference": ONE,
        "tempering": 0.1,
        "steps": 600,
        "draws": 60,
        "random_state": 0,
        "enforce": "projection",
        **options,
    }
    x, y = table()
    return PRBNNRegressor(NETWORK, rules, **settings).fit(x, y)


@pytest.fixture(scope="module")
def model() -> PRBNNRegressor:
    return fitted()


def test_stored_draws_obey_at_fresh_points(model: PRBNNRegressor) -> None:
    rules = list(model.solution_.rules)
    raw, stored = model.raw_posterior_, model.posterior_
    before = raw.check(rules, raw.bind(rules, 4096, seed=50))
    after = stored.check(rules, stored.bind(rules, 4096, seed=50))
    assert np.mean(~before.obeys()) > 0.2, "nothing to move"
    assert np.mean(after.obeys(1e-3)) > 0.99
    assert len(stored) == 60


def test_training_is_that_of_the_network_without_hard_rules(model: PRBNNRegressor) -> None:
    x, y = table()
    plain = PRBNNRegressor(
        NETWORK,
        prior=LayerNormal(2.0),
        inference=ONE,
        tempering=0.1,
        steps=600,
        draws=60,
        random_state=0,
    ).fit(x, y)
    # how many raw draws there are differs, and with it their noise
    assert np.array_equal(plain.history_.elbo, model.history_.elbo)
    assert np.array_equal(plain.history_.step, model.history_.step)


def test_draws_move_no_further_than_they_must(model: PRBNNRegressor) -> None:
    moves = {line.name: line.moves for line in model.knowledge_report_}
    rising = moves["output rises with x0"]
    assert rising.fraction > 0 and 0 < rising.distance < 0.5
    assert rising.change == pytest.approx(rising.distance * model.noise_, rel=0.5)
    assert moves["output >= -1"].fraction < 0.05
    assert "were moved to the nearest function" in str(model.knowledge_report_)


def test_a_saved_model_keeps_what_was_moved(model: PRBNNRegressor, tmp_path) -> None:
    path = tmp_path / "model.prbnn"
    model.save(path)
    again = load(path)
    assert again.knowledge_report_ == model.knowledge_report_
    assert np.array_equal(again.posterior_.draws, model.posterior_.draws)


def test_auto_moves_draws_of_smooth_networks_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # whether draws are moved is asked here, and not how well
    for name in ("SCOUTING", "SEARCHES"):
        monkeypatch.setattr(projection, name, 1)
    monkeypatch.setattr(searching, "DEEPER", 0)
    smooth = fitted(enforce="auto")
    assert smooth.knowledge_report_[0].moves is not None
    x, y = table()
    kinked = PRBNNRegressor(
        MLP((6,)),
        [Increasing("x0")],
        inference=ONE,
        tempering=0.2,
        steps=300,
        draws=20,
        random_state=0,
    ).fit(x, y)
    assert kinked.knowledge_report_[0].moves is None


def test_the_former_name_of_pressure_is_understood() -> None:
    rule = [Increasing("x0")]
    same = [fitted(rule, enforce=way, steps=60, draws=10) for way in ("training", "pressure")]
    assert np.array_equal(*(model.posterior_.draws for model in same))


def test_classes_are_moved_in_probability() -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (80, 1))
    labels = (x[:, 0] + 0.8 * generator.standard_normal(80) > 0).astype(int)
    model = PRBNNClassifier(
        MLP((8,), "tanh"),
        [Increasing("x", of="1")],
        inference=ONE,
        tempering=0.1,
        steps=500,
        draws=50,
        random_state=0,
        enforce="projection",
    ).fit(x, labels)
    rules = list(model.solution_.rules)
    stored = model.posterior_
    assert stored.check(rules, stored.bind(rules, 2048, seed=9)).obeys(1e-3).mean() > 0.95


def test_rules_that_contradict_each_other_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # none of the first draws can be moved, and every pass tries all of them
    monkeypatch.setattr(searching, "BLOCK", 4)
    x, y = table()
    high, low = AtLeast(1.0, name="high"), AtMost(0.5, where={"x0": (0, 0.5)}, name="low")
    options = {"inference": ONE, "steps": 50, "tempering": 0.2, "draws": 20, "random_state": 0}
    model = PRBNNRegressor(MLP((4,), "tanh"), [high, low], enforce="projection", **options)
    with pytest.raises(InfeasibleError, match="contradict each other") as raised:
        model.fit(x, y)
    assert set(raised.value.rules) == {"high", "low"}


@pytest.mark.slow
def test_rules_that_the_network_cannot_obey_leave_too_few_draws() -> None:
    x, y = table()
    # a straight line cannot rise on one side and fall on the other
    rules = [
        SlopeBetween("x0", lower=0.5, where={"x0": (0, 0.4)}),
        SlopeBetween("x0", upper=-0.5, where={"x0": (0.6, 1)}),
    ]
    model = PRBNNRegressor(
        MLP(()), rules, steps=50, tempering=0.2, draws=20, random_state=0, enforce="projection"
    ).fit(x, y)
    assert model.result_.status == "acceptance too low"


def test_mistakes_of_a_rule_are_found_before_training() -> None:
    x, y = table()
    model = PRBNNRegressor(NETWORK, [Increasing("weight")], steps=10**9, enforce="projection")
    with pytest.raises(KnowledgeError, match="no column 'weight'"):
        model.fit(x, y)
