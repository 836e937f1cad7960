"""Many tasks under one vmap: the same numbers as each task on its own."""

import numpy as np
import pytest
from tests.marks import quick

from prbnn.enforcement.fraction import REJECTION
from prbnn.fitting.batch import _groups, choose_temperings, score_many, train_many
from prbnn.fitting.prepare import prepare
from prbnn.fitting.tempering import FALLBACK, choose_tempering
from prbnn.fitting.train import train
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import MLP
from prbnn.model.priors import Normal
from prbnn.rules.shape import Increasing
from prbnn.rules.values import AtLeast

pytestmark = pytest.mark.light

SEEDS = (3, 4)


def table(seed, rows):
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (rows, 2))
    return x, np.exp(x[:, 0]) + 0.2 * x[:, 1] + generator.normal(0, 0.1, rows)


def task(seed, rows=40, inference="bbb", knowledge=(), hidden=(6,)):
    return prepare(
        MLP(hidden),
        *table(seed, rows),
        knowledge,
        inference=inference,
        likelihood=Gaussian(),
        prior=Normal(),
        tempering=0.5,
        scaling="standard",
        points=16,
        rejection=REJECTION,
        sample_weight=None,
        columns=("a", "b"),
        outputs=None,
        seed=seed,
    )


def tasks(**options):
    # tables of different buckets, so that one has to be padded
    return [task(SEEDS[0], rows=30, **options), task(SEEDS[1], rows=60, **options)]


@pytest.mark.parametrize("inference", quick(["bbb", "ensemble"], "bbb"))
def test_training_side_by_side_is_training_one_by_one(inference):
    both = train_many(tasks(inference=inference), 60, task_seeds=SEEDS, draws=20)
    for own, seed, solution in zip(tasks(inference=inference), SEEDS, both, strict=True):
        alone = train(own, 60, draws=20, early_stopping=False, seed=seed)
        np.testing.assert_allclose(
            solution.posterior.draws, alone.posterior.draws, rtol=1e-3, atol=1e-3
        )
        np.testing.assert_allclose(solution.history.elbo, alone.history.elbo, rtol=1e-3)
        assert solution.result.status == alone.result.status
        assert solution.steps == alone.steps == 60


@pytest.mark.slow
def test_rules_are_enforced_side_by_side_too():
    rules = [Increasing("a"), AtLeast(0)]
    both = train_many(tasks(knowledge=rules), 60, task_seeds=SEEDS, draws=20)
    alone = train(tasks(knowledge=rules)[1], 60, draws=20, early_stopping=False, seed=SEEDS[1])
    np.testing.assert_allclose(both[1].posterior.draws, alone.posterior.draws, rtol=1e-3, atol=1e-3)
    assert both[1].duals == pytest.approx(alone.duals, rel=1e-3)


def test_scoring_side_by_side_is_predicting_one_by_one():
    both = train_many(tasks(), 60, task_seeds=SEEDS, draws=20)
    # conditioning leaves posteriors of different sizes
    posteriors = [both[0].posterior, both[1].posterior.take(np.arange(7))]
    rows = [table(8, 12), table(9, 5)]
    scores = score_many(posteriors, [x for x, _ in rows], [y for _, y in rows])
    for posterior, (x, y), score in zip(posteriors, rows, scores, strict=True):
        np.testing.assert_allclose(score.mean, posterior.predict(x).mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            score.log_density, posterior.log_density(x, y), rtol=1e-3, atol=1e-3
        )


def test_temperings_chosen_side_by_side_are_those_chosen_one_by_one(monkeypatch):
    monkeypatch.setattr("prbnn.fitting.tempering.STEPS", 60)
    wide = [task(SEEDS[0], hidden=(5,)), task(SEEDS[1], hidden=(5,))]
    both = choose_temperings(wide, SEEDS)
    for own, seed, choice in zip(wide, SEEDS, both, strict=True):
        alone = choose_tempering(own.engine, own.problem, own.data, seed)
        assert choice.scores == pytest.approx(alone.scores, rel=1e-3, abs=1e-3)


def test_too_few_rows_to_race_take_the_fallback():
    few = [task(seed, rows=12) for seed in SEEDS]
    assert [choice.value for choice in choose_temperings(few, SEEDS)] == [FALLBACK, FALLBACK]


def test_tasks_that_do_not_fit_into_memory_together_go_in_groups(monkeypatch):
    several = [task(seed) for seed in range(5)]
    assert len(list(_groups(several, 1))) == 1
    monkeypatch.setattr("prbnn.fitting.batch.MEMORY", 1.0)
    assert [list(group) for group in _groups(several, 1)] == [[0], [1], [2], [3], [4]]
    steps = []
    found = train_many(
        several[:2], 20, task_seeds=(0, 1), draws=5, progress=lambda *done: steps.append(done)
    )
    assert len(found) == 2
    assert steps[-1] == (40, 40)


def test_a_run_that_diverges_says_so_and_leaves_the_others_alone():
    good, bad = tasks()
    wild = bad._replace(data=bad.data._replace(y=bad.data.y * np.float32(np.inf)))
    found = train_many([good, wild], 20, task_seeds=SEEDS, draws=5)
    assert [solution.result.status == "diverged" for solution in found] == [False, True]
    assert np.all(np.isfinite(found[1].posterior.draws))


def test_tasks_of_different_kinds_are_refused():
    with pytest.raises(ValueError, match="share network"):
        train_many([task(0), task(1, hidden=(7,))], 10, task_seeds=SEEDS)


@pytest.mark.parametrize("inference", ["laplace", "sghmc"])
def test_engines_that_finish_or_sample_train_side_by_side(inference):
    several = [task(seed, inference=inference, hidden=(3,)) for seed in SEEDS]
    found = train_many(several, 20, task_seeds=SEEDS, draws=5)
    assert all(np.all(np.isfinite(solution.posterior.draws)) for solution in found)
    assert all(np.ptp(solution.posterior.draws, axis=0).max() > 0 for solution in found)
