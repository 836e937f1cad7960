"""Training until proved: what is stored is proved, what refutes is trained on, and failure is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prbnn import MLP, AtMost, Increasing, PRBNNRegressor, fit, load
from prbnn.certify.certificate import Certificate
from prbnn.fitting.result import Proof, Solution
from prbnn.fitting.task import Task
from prbnn.fitting.train import train
from prbnn.rules.regions import sample

pytestmark = pytest.mark.light

X = np.linspace(0, 1, 30)[:, None]
Y = X.ravel() ** 2
RULES = [Increasing("x", name="rising"), AtMost("x + 0.2", name="limit")]


@pytest.mark.slow
def test_the_functional_layer_proves_as_many_as_were_asked_for() -> None:
    solution = fit(MLP((8,)), X, Y, RULES, tempering=0.1, steps=1500, draws=60, prove=60, seed=0)
    proof = solution.proof
    assert proof.complete
    assert len(proof.posterior) == 60
    assert proof.certificate.holds
    assert proof.certificate.is_of(proof.posterior)
    assert 0 < proof.acceptance <= 1
    assert not np.any(proof.posterior.check(RULES).broken())


def test_counterexamples_join_the_points_of_their_rule() -> None:
    task = fit(MLP((8,)), X, Y, RULES, steps=1, draws=1).fitted.task
    further = {1: np.array([[0.123456], [0.654321]])}
    joined = task.also_at(further)
    (group,) = joined.problem.knowledge.groups
    points = task.scaling.input_shift + task.scaling.input_scale * np.asarray(group.points)
    for point in further[1]:
        assert np.any(np.isclose(points, point, atol=1e-6))
    before = sample(RULES[1].sampling(task.columns), task.columns, len(points))
    assert np.mean(np.isclose(points, before, atol=1e-6)) > 0.99


@pytest.mark.parametrize(("given", "further"), [(1200, 300), (300, 250), (None, 1500)])
def test_training_goes_on_for_a_quarter_of_the_steps_that_the_fit_was_given(
    given: int | None, further: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's steps where these were given, and at least one chunk, in every round."""
    steps: list[int] = []

    def unproved(solution: Solution, *_: object) -> tuple[Proof, list[np.ndarray]]:
        none = solution.posterior.take(np.zeros(len(solution.posterior), bool))
        return Proof(none, Certificate((), "", "", 0.0), 0.0, 0, complete=False), [np.zeros((0, 1))]

    def counted(task: Task, budget: int, **options: Any) -> Solution:
        steps.append(budget)
        return train(task, 1, **options)

    monkeypatch.setattr("prbnn.fitting.prove._collect", unproved)
    monkeypatch.setattr("prbnn.fitting.prove.train", counted)
    monkeypatch.setattr("prbnn.fitting.prove.ROUNDS", 2)
    fit(MLP(()), X, Y, [AtMost(9.0)], steps=given, draws=5, prove=True)
    assert steps == [further] * 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_estimator_stores_proved_draws_and_keeps_the_certificate(tmp_path) -> None:
    model = PRBNNRegressor(
        MLP((8,)), RULES, tempering=0.2, steps=1500, draws=40, prove=True, random_state=0
    ).fit(X, Y)
    assert model.certificate_.holds
    assert len(model.posterior_) == 40
    assert model.certificate_.is_of(model.posterior_)
    model.save(tmp_path / "m.prbnn")
    again = load(tmp_path / "m.prbnn")
    assert again.certificate_ == model.certificate_
    assert again.certificate_.is_of(again.posterior_)
