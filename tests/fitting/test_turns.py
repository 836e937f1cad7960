"""Where draws are moved later, steps evaluate the rules in turn; races by how many rows there are."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn.assessment import doubts
from prbnn.enforcement.fraction import REJECTION
from prbnn.estimators import regressor
from prbnn.fitting import tempering
from prbnn.fitting.loop import Carry, Means, Schedule, pick, run_chunk, start
from prbnn.fitting.padding import pad
from prbnn.fitting.prepare import LED_EVERY, prepare
from prbnn.fitting.task import Task
from prbnn.fitting.tempering import (
    FOLDS,
    HASTE,
    MOST_ROWS,
    STEPS,
    folds_for,
    lengths_for,
    race_of,
    verdict,
)
from prbnn.fitting.train import LEAST_BATCH, MANY_ROWS, MOST_BATCH, rows_per_step
from prbnn.inference.slopes import slopes_of
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import MLP
from prbnn.model.priors import Normal
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.shape import Increasing

pytestmark = pytest.mark.light
SCHEDULE = Schedule(*(jnp.asarray(length, float) for length in (20, 10, 2, 30)))


def made(rows: int = 12, rules: tuple[Rule, ...] = (), activation: str = "tanh") -> Task:
    """The output falls with x0, which the rules deny."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (rows, 2))
    return prepare(
        MLP((3,), activation),
        x,
        -x[:, 0],
        rules,
        inference="bbb",
        likelihood=Gaussian(),
        prior=Normal(),
        tempering=1.0,
        scaling="standard",
        points=16,
        rejection=REJECTION,
        sample_weight=None,
        columns=("x0", "x1"),
        outputs=None,
        seed=0,
    )


@pytest.fixture(scope="module")
def led() -> Task:
    return made(rules=(Increasing("x0"),))


def run(task: Task, steps: int, carry: Carry | None = None) -> tuple[Carry, Means]:
    parts = (task.engine, task.problem, task.enforcement)
    first = start(*parts, jax.random.key(0)) if carry is None else carry
    return run_chunk(*parts, task.data, SCHEDULE, first, jnp.asarray(steps, jnp.int32), None)


def test_only_led_rules_of_several_inputs_are_evaluated_in_turn(led: Task) -> None:
    assert led.problem.every == LED_EVERY > 1
    assert made(rules=(Increasing("x0"),), activation="relu").problem.every == 1
    assert made(rules=(Increasing("x0").soft(1),)).problem.every == 1


def test_duals_take_in_the_steps_that_evaluate_the_rules(led: Task) -> None:
    found = {steps: run(led, steps) for steps in (1, LED_EVERY, LED_EVERY + 1)}
    for steps, (carry, _) in found.items():
        assert int(carry.step) == steps
        assert int(carry.enforcement.running.step) == -(-steps // LED_EVERY)
    # means over steps are those of the steps that measured something
    first, means = found[1][1], found[LED_EVERY][1]
    assert float(first.f[0]) < 0 < float(first.broken[0])
    np.testing.assert_allclose(means.f, first.f, rtol=1e-6)
    np.testing.assert_allclose(means.broken, first.broken, rtol=1e-6)


def test_a_step_that_is_due_has_the_pressure_of_its_turn_and_others_none(led: Task) -> None:
    carry = start(led.engine, led.problem, led.enforcement, jax.random.key(0))
    vectors = jnp.stack([led.problem.start, led.problem.start + 0.1])
    pressure = jnp.asarray([3.0])

    def slope(problem: object, due: bool, pressure: jax.Array) -> np.ndarray:
        batch = pick(problem, led.data, carry, jax.random.key(1), None, jnp.ones(1))
        return np.asarray(slopes_of(problem, vectors, batch._replace(due=due), pressure).slope)

    always = dataclasses.replace(led.problem, every=1)
    bare = slope(always, True, 0 * pressure)
    pull = slope(always, True, pressure) - bare
    assert np.max(np.abs(pull)) > 0.1
    np.testing.assert_allclose(
        slope(led.problem, True, pressure) - bare, LED_EVERY * pull, rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(slope(led.problem, False, pressure), bare, rtol=1e-5, atol=1e-5)


def test_blocks_of_points_follow_each_other_though_steps_take_turns(led: Task) -> None:
    carry = start(led.engine, led.problem, led.enforcement, jax.random.key(0))
    starts = [
        int(
            pick(
                led.problem,
                led.data,
                carry._replace(step=jnp.asarray(step)),
                jax.random.key(1),
                None,
                jnp.ones(1),
            ).points_start
        )
        for step in range(0, 3 * LED_EVERY, LED_EVERY)
    ]
    width = led.problem.points_width
    assert starts == [0, width, 2 * width]


def test_a_race_over_many_rows_holds_out_as_many_of_one_fold() -> None:
    rows = 2 * MOST_ROWS + 1
    data = pad(np.arange(rows, dtype=float)[:, None], np.zeros((rows, 1)), np.ones(rows))
    problem = made().problem
    assert folds_for(data) == 1 and folds_for(data.take(np.arange(rows - 1))) == FOLDS
    race = race_of(problem, data, 0, 1)
    held = np.flatnonzero(np.asarray(race.folds.held[0]))
    trained = np.asarray(race.folds.rest[0])[np.asarray(race.folds.real[0]) > 0]
    assert len(held) == MOST_ROWS and not set(held) & set(trained)
    assert len(trained) == -(-MOST_ROWS * 2 // 3) == len(race.data.x) - MOST_ROWS
    three = race_of(problem, data, 0, FOLDS)
    assert len(three.data.x) == MOST_ROWS and np.all(np.sum(three.folds.held, axis=0) == 1)


def test_rows_that_are_trained_on_have_no_say_in_the_choice() -> None:
    rows = 2 * MOST_ROWS + 1
    data = pad(np.zeros((rows, 1)), np.zeros((rows, 1)), np.ones(rows))
    race = race_of(made().problem, data, 0, 1)
    held = np.asarray(race.folds.held[0]) > 0
    density = np.zeros((6, len(held)))
    # the first candidate is best by far on trained rows, the last on those held out
    density[0, ~held], density[5, held] = 100.0, 1.0
    chosen = verdict(density, race)
    assert chosen.value == 0.01
    assert list(chosen.scores.values()) == [0, 0, 0, 0, 0, 1.0]


def test_races_over_few_rows_are_as_long_as_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempering, "LONGER", ((96, 6000, 1), (320, 3000, 2)))

    def lengths(rows: int, budget: int) -> tuple[int, int]:
        steps, factor = lengths_for(
            pad(np.zeros((rows, 1)), np.zeros((rows, 1)), np.ones(rows)), budget
        )
        return int(steps), factor

    assert [lengths(rows, 6000) for rows in (96, 97, 320, 321)] == [
        (6000, 1),
        (3000, 2),
        (3000, 2),
        (STEPS, HASTE),
    ]
    # a fit that is shorter overfits less, too
    assert [lengths(60, budget) for budget in (5999, 2999)] == [(3000, 2), (STEPS, HASTE)]


@pytest.mark.parametrize(
    ("rows", "batch"),
    [(MANY_ROWS, None), (MANY_ROWS + 1, LEAST_BATCH), (20_480, 320), (10**6, MOST_BATCH)],
)
def test_larger_tables_take_larger_batches(rows: int, batch: int | None) -> None:
    task = made()
    wide = task._replace(data=task.data._replace(x=np.broadcast_to(np.zeros((1, 2)), (rows, 2))))
    assert rows_per_step(wide, None) == batch
    assert rows_per_step(wide, 7) == 7


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_estimator_tells_its_budget_and_judges_a_part_of_many_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budgets, predicted = [], []

    def chosen(*arguments: Any) -> tempering.Chosen:
        budgets.append(arguments[-1])
        return tempering.Chosen(0.2, {})

    predict = Posterior.predict

    def counted(posterior: Posterior, rows: np.ndarray) -> Any:
        predicted.append(len(rows))
        return predict(posterior, rows)

    monkeypatch.setattr("prbnn.fitting.tempering.choose_tempering", chosen)
    monkeypatch.setattr(Posterior, "predict", counted)
    monkeypatch.setattr(doubts, "JUDGED", 10)
    x = np.linspace(-1, 1, 41)[:, None]
    model = regressor.PRBNNRegressor(MLP((2,)), inference="bbb", steps=20, draws=5).fit(x, x[:, 0])
    assert budgets == [20]
    doubts.collapse(model.posterior_, np.ones(len(x)), 0.2)
    # every fifth row, so that there are no more than ten
    assert predicted == [9]
