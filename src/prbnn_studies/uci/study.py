"""UCI regression tables on their standard splits, and what knowledge adds where rows are few.

One hidden layer of 50 ReLU units, as published, with a N(0, 1 / fan-in) prior on standardised
data. Nothing is chosen on test rows. For engines that choose by held-out score, each split chooses its
noise (one number or, from 200 rows on, a second output of the network, as in the deep ensembles paper)
and its tempering by the held-out log density of short runs on its own training rows. Samplers and SVGD
average over the noise rather than fit it: they take the second output and a tempering of 1.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prbnn import MLP, DataError, Gaussian, LayerNormal
from prbnn.assessment import metrics
from prbnn.enforcement.fraction import REJECTION
from prbnn.fitting.batch import choose_temperings, score_many, train_many
from prbnn.fitting.prepare import engine_of, prepare
from prbnn.fitting.result import Solution
from prbnn.fitting.task import Task
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Noise
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_all
from prbnn_studies.uci.data import Dataset, rules_of

NETWORK = MLP((50,))
PRIOR = LayerNormal()
NOISES: tuple[Noise, ...] = ("learned", "by input")
# a second output for the noise is a candidate from this many rows on
FEWEST_ROWS_FOR_NOISE = 200
FRACTIONS = (0.1, 0.3, 1.0)
# NUTS follows long paths over all rows: rows times weights above this take hours
NUTS_BUDGET = 500_000
# stored draws are evaluated at points that neither training nor conditioning has seen
FRESH_POINTS = 8192
FRESH_POINTS_SEED = 1000
DRAWS = 1000
# conditioning draws more functions until this many obey, for at most this many rounds
ENOUGH_DRAWS = 200
ROUNDS = 5

Say = Callable[[str], None]


@dataclass(frozen=True)
class EngineScore:
    """One engine on one split, in the target's units.

    ``seconds`` is the time of all splits, which train together, divided by their number.
    """

    set: str
    engine: str
    split: int
    rmse: float
    nll: float
    tempering: float
    seconds: float
    table: str = "uci"


@dataclass(frozen=True)
class KnowledgeScore:
    """One split with or without knowledge, on a fraction of its training rows."""

    set: str
    engine: str
    fraction: float
    split: int
    knowledge: bool
    rmse: float
    nll: float
    stored_draws_violating: float
    acceptance: float
    tempering: float
    status: str
    table: str = "knowledge"


class Fold(NamedTuple):
    """Training and test rows of one split; its number is its seed."""

    number: int
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def folds(dataset: Dataset, count: int, fraction: float = 1.0) -> list[Fold]:
    """The first ``count`` splits; of the training rows the first ``fraction`` of a seeded permutation."""
    found = []
    for number, (train, test) in enumerate(dataset.splits[:count]):
        order = np.random.RandomState(number).permutation(train)
        rows = order[: round(fraction * len(order))]
        found.append(
            Fold(number, dataset.x[rows], dataset.y[rows], dataset.x[test], dataset.y[test])
        )
    return found


def engine_table(
    datasets: Sequence[Dataset], engines: Sequence[str], splits: int, say: Say
) -> Iterator[list[EngineScore]]:
    """Every engine on every set: the scores of all splits, one set and engine at a time."""
    for dataset in datasets:
        own = folds(dataset, splits)
        for engine in map(engine_of, engines):
            began = time.perf_counter()
            tell = _telling(say, f"{dataset.name}, {engine.name}")
            tasks = chosen(dataset, own, engine, tell)
            solutions = _train(tasks, tell)
            scores = _errors([solution.posterior for solution in solutions], own)
            seconds = (time.perf_counter() - began) / len(own)
            yield [
                EngineScore(
                    dataset.name,
                    engine.name,
                    fold.number,
                    *errors,
                    tempering=task.tempering,
                    seconds=seconds,
                )
                for fold, task, errors in zip(own, tasks, scores, strict=True)
            ]


def knowledge_table(
    datasets: Sequence[Dataset],
    engines: Sequence[str],
    fractions: Sequence[float],
    splits: int,
    say: Say,
) -> Iterator[list[KnowledgeScore]]:
    """Knowledge off and on for fractions of the rows: scores of all splits, one set, engine and fraction
    at a time.

    Both use what the split chose without knowledge, so that the rules are all they differ in.
    """
    for dataset in datasets:
        rules = rules_of(dataset.name)
        for engine, fraction in itertools.product(map(engine_of, engines), fractions):
            tell = _telling(say, f"{dataset.name}, {engine.name}, {fraction:.0%} of the rows")
            own = folds(dataset, splits, fraction)
            plain = chosen(dataset, own, engine, tell)
            records: list[KnowledgeScore] = []
            for known, asked in ((False, ()), (True, rules)):
                tasks = [
                    _task(dataset, fold, engine, noise_of(task), task.tempering, asked)
                    for fold, task in zip(own, plain, strict=True)
                ]
                solutions = _train(tasks, tell)
                tell("checking draws")
                kept = [conditioned(solution, asked) for solution in solutions]
                scores = _errors([stored for stored, _ in kept], own)
                records += [
                    KnowledgeScore(
                        dataset.name,
                        engine.name,
                        fraction,
                        fold.number,
                        known,
                        *errors,
                        stored_draws_violating=violating(stored, rules),
                        acceptance=acceptance,
                        tempering=solution.tempering,
                        status=solution.result.status,
                    )
                    for fold, solution, (stored, acceptance), errors in zip(
                        own, solutions, kept, scores, strict=True
                    )
                ]
            yield records


def chosen(dataset: Dataset, own: Sequence[Fold], engine: Engine, say: Say) -> list[Task]:
    """One task per split, with the noise and tempering of the best held-out score on its rows.

    ``own`` are the splits of ``dataset``; ``say`` is called with a line on progress.
    """
    if not engine.races:
        return [_task(dataset, fold, engine, "by input") for fold in own]
    best: list[tuple[float, Task | None]] = [(-np.inf, None)] * len(own)
    rows = min(len(fold.y) for fold in own)
    for noise in NOISES if rows >= FEWEST_ROWS_FOR_NOISE else NOISES[:1]:
        say(f"choosing the tempering, noise {noise}")
        tasks = [_task(dataset, fold, engine, noise) for fold in own]
        for place, found in enumerate(choose_temperings(tasks, range(len(tasks)))):
            # too few rows for held-out scores: the fallback tempering and one number of noise
            fallback = 0.0 if noise == NOISES[0] else -np.inf
            score = found.scores.get(found.value, fallback)
            if score > best[place][0]:
                best[place] = score, tasks[place].tempered(found.value)
    return [task for _, task in best if task is not None]


def noise_of(task: Task) -> Noise:
    """The noise a task's likelihood has."""
    likelihood = task.problem.likelihood
    assert isinstance(likelihood, Gaussian)
    return likelihood.noise


def _train(tasks: Sequence[Task], say: Say) -> list[Solution]:
    """All splits of one noise side by side."""
    what = f"training {len(tasks)} splits{' with knowledge' if tasks[0].rules else ''}"
    solutions: dict[int, Solution] = {}
    for places in _alike([noise_of(task) for task in tasks]):
        say(f"{what}, compiling")
        found = train_many(
            [tasks[place] for place in places],
            task_seeds=places,
            draws=DRAWS,
            progress=lambda done, steps: say(f"{what}, step {done} of {steps}"),
        )
        solutions.update(zip(places, found, strict=True))
    return [solutions[place] for place in range(len(tasks))]


def _alike(labels: Sequence[Any]) -> list[list[int]]:
    """Places that hold the same label, one list per label.

    >>> _alike(["a", "b", "a"])
    [[0, 2], [1]]
    """
    return [
        [place for place, own in enumerate(labels) if own == label]
        for label in dict.fromkeys(labels)
    ]


def conditioned(solution: Solution, rules: Sequence[Rule]) -> tuple[Posterior, float]:
    """The draws that obey (all draws where none does), and the fraction of raw draws that obey."""
    kept, acceptance = solution.posterior.condition(rules)
    for number in range(1, ROUNDS):
        if len(kept) >= ENOUGH_DRAWS or not rules:
            break
        further = solution.more(len(solution.posterior), number)
        kept = kept.joined(further.condition(rules)[0])
    return (kept if len(kept) else solution.posterior), acceptance


def violating(posterior: Posterior, rules: Sequence[Rule]) -> float:
    """Fraction of draws that break a rule somewhere at fresh points."""
    fresh = bind_all(
        rules,
        posterior.columns,
        posterior.scaling,
        FRESH_POINTS,
        margins=False,
        seed=FRESH_POINTS_SEED,
    )
    return 1.0 - float(np.mean(posterior.check(rules, fresh).obeys()))


def refuse_long_runs(datasets: Sequence[Dataset], engines: Sequence[str]) -> None:
    """Raise before anything runs where NUTS would take hours."""
    if "nuts" not in engines:
        return
    large = [
        f"{dataset.name} ({rows:,} rows, {weights:,} weights)"
        for dataset in datasets
        for rows, weights in [(len(dataset.splits[0][0]), _weights(dataset.x.shape[1]))]
        if rows * weights > NUTS_BUDGET
    ]
    if large:
        raise DataError(
            f"nuts would take hours on {', '.join(large)}: rows times weights may be "
            f"{NUTS_BUDGET:,} at most. Leave these sets out of --sets, or use sghmc"
        )


def _weights(inputs: int) -> int:
    width = NETWORK.hidden[0]
    return (inputs + 1) * width + 2 * (width + 1)


def _task(
    dataset: Dataset,
    fold: Fold,
    engine: Engine,
    noise: Noise,
    tempering: float = 1.0,
    rules: Sequence[Rule] = (),
) -> Task:
    return prepare(
        NETWORK,
        fold.x,
        fold.y,
        rules,
        inference=engine,
        likelihood=Gaussian(noise),
        prior=PRIOR,
        tempering=tempering,
        scaling="standard",
        points=64,
        rejection=REJECTION,
        sample_weight=None,
        columns=dataset.columns,
        outputs=None,
        seed=fold.number,
        categories=dataset.categories,
    )


def _errors(posteriors: Sequence[Posterior], own: Sequence[Fold]) -> list[tuple[float, float]]:
    """RMSE and NLL on the test rows of every split."""
    errors: dict[int, tuple[float, float]] = {}
    for places in _alike([posterior.likelihood for posterior in posteriors]):
        rows = [own[place] for place in places]
        scores = score_many(
            [posteriors[place] for place in places],
            [fold.test_x for fold in rows],
            [fold.test_y for fold in rows],
        )
        for place, fold, score in zip(places, rows, scores, strict=True):
            nll = float(-np.mean(score.log_density))
            errors[place] = metrics.rmse(fold.test_y, score.mean[:, 0]), nll
    return [errors[place] for place in range(len(own))]


def _telling(say: Say, where: str) -> Say:
    return lambda what: say(f"{where}: {what}")


def mean_and_error(values: Sequence[float]) -> dict[str, float | None]:
    """The mean of one number per split and its standard error (None for one split).

    >>> mean_and_error([1.0, 3.0])
    {'mean': 2.0, 'error': 1.0}
    """
    count = len(values)
    error = float(np.std(values, ddof=1)) / count**0.5 if count > 1 else None
    return {"mean": float(np.mean(values)), "error": error}


def summary(scores: Sequence[EngineScore | KnowledgeScore]) -> dict[str, Any]:
    """Results of a record: errors by set and engine, and what knowledge adds by fraction of rows."""
    errors: dict[str, Any] = {}
    knowledge: dict[str, Any] = {}
    engine_scores = [score for score in scores if isinstance(score, EngineScore)]
    for key, group in _grouped(engine_scores, lambda score: (score.set, score.engine)):
        errors.setdefault(key[0], {})[key[1]] = {
            name: mean_and_error([getattr(score, name) for score in group])
            for name in ("rmse", "nll")
        }
    pairs = [score for score in scores if isinstance(score, KnowledgeScore)]
    for key, group in _grouped(pairs, lambda score: (score.set, score.engine, score.fraction)):
        by_engine = knowledge.setdefault(key[0], {}).setdefault(key[1], {})
        by_engine[f"{key[2]:.0%}"] = knowledge_row(group)
    splits = len({score.split for score in scores})
    return {"splits": splits, "errors": errors, "knowledge": knowledge}


def _grouped(scores: Sequence[Any], key: Callable[[Any], tuple]) -> list[tuple[tuple, list]]:
    """Scores with the same key, one list per key, in the order in which the keys appear."""
    groups: dict[tuple, list] = {}
    for score in scores:
        groups.setdefault(key(score), []).append(score)
    return list(groups.items())


def knowledge_row(scores: Sequence[KnowledgeScore]) -> dict[str, Any]:
    """Errors of one set, engine and fraction without and with knowledge, and paired differences."""
    off, on = (
        {score.split: score for score in scores if score.knowledge is known}
        for known in (False, True)
    )
    row: dict[str, Any] = {}
    for error in ("rmse", "nll"):
        without, with_it = ([getattr(part[split], error) for split in off] for part in (off, on))
        row[f"{error}_off"], row[f"{error}_on"] = float(np.mean(without)), float(np.mean(with_it))
        row[f"{error}_change"] = mean_and_error(list(np.subtract(with_it, without)))
    row["violating_off"] = _mean(off, "stored_draws_violating")
    for field in ("stored_draws_violating", "acceptance"):
        row[field] = _mean(on, field)
    return row


def _mean(scores: dict[int, KnowledgeScore], field: str) -> float:
    return float(np.mean([getattr(score, field) for score in scores.values()]))
