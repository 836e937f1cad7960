"""UCI regression tables on their standard splits, and what knowledge adds where rows are few.

One hidden layer of 50 ReLU units, as published, with a N(0, 1 / fan-in) prior on standardised
data. Nothing is chosen on test rows: for engines that race, each split chooses its noise (one
number, or, from 200 rows on, a second output of the network, as in the deep ensembles paper) and
its tempering by held-out log density of short runs on its own training rows. Samplers and SVGD
average over the noise rather than fit it: they take the second output and a tempering of 1.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from prbnn.assessment import metrics
from prbnn.enforcement.fraction import REJECTION
from prbnn.errors import DataError
from prbnn.fitting.batch import choose_temperings, score_many, train_many
from prbnn.fitting.prepare import engine_of, prepare
from prbnn.fitting.result import Solution
from prbnn.fitting.task import Task
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Gaussian, Noise
from prbnn.model.networks import MLP
from prbnn.model.priors import LayerNormal
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_all
from prbnn_studies.uci_data import Table, rules_of

NETWORK = MLP((50,))
PRIOR = LayerNormal()
NOISES: tuple[Noise, ...] = ("learned", "by input")
DEFAULT_ENGINES = ("bbb", "ensemble", "sghmc")
# a second output for the noise is raced where there are rows enough to see it in
FEWEST_ROWS_FOR_NOISE = 200
FRACTIONS = (0.1, 0.3, 1.0)
# NUTS follows long paths over all rows: rows times weights above this take hours
NUTS_BUDGET = 500_000
# stored draws are tried at points that neither training nor conditioning has seen
FRESH_POINTS = 8192
FRESH_POINTS_SEED = 1000
DRAWS = 1000
# conditioning asks for further draws until so many obey, for so many rounds
ENOUGH_DRAWS = 200
ROUNDS = 5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Score:
    """One engine on one split, in the target's units; `seconds` is its share of the set's time."""

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
    """One split with or without knowledge, on a share of its training rows."""

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


def folds(table: Table, count: int, fraction: float = 1.0) -> list[Fold]:
    """The first ``count`` splits; of their training rows the first share of a seeded permutation."""
    found = []
    for number, (train, test) in enumerate(table.splits[:count]):
        order = np.random.RandomState(number).permutation(train)
        rows = order[: round(fraction * len(order))]
        found.append(Fold(number, table.x[rows], table.y[rows], table.x[test], table.y[test]))
    return found


def engine_table(
    tables: Sequence[Table], engines: Sequence[str], splits: int, say: Say
) -> Iterator[list[Score]]:
    """Every engine on every set: the records of all splits, one set and engine at a time."""
    for table in tables:
        own = folds(table, splits)
        for engine in map(engine_of, engines):
            began = time.perf_counter()
            tell = _telling(say, f"{table.name}, {engine.name}")
            tasks = chosen(table, own, engine, tell)
            solutions = _train(tasks, tell)
            scores = _errors([solution.posterior for solution in solutions], own)
            seconds = (time.perf_counter() - began) / len(own)
            yield [
                Score(
                    table.name,
                    engine.name,
                    fold.number,
                    *errors,
                    tempering=task.tempering,
                    seconds=seconds,
                )
                for fold, task, errors in zip(own, tasks, scores, strict=True)
            ]


def knowledge_table(
    tables: Sequence[Table],
    engines: Sequence[str],
    fractions: Sequence[float],
    splits: int,
    say: Say,
) -> Iterator[list[KnowledgeScore]]:
    """Knowledge off and on for shares of the rows: records of all splits, a set, engine and share
    at a time.

    Both use what the split chose without knowledge, so that the rules are all they differ in.
    """
    for table in tables:
        rules = rules_of(table.name)
        for engine, fraction in itertools.product(map(engine_of, engines), fractions):
            tell = _telling(say, f"{table.name}, {engine.name}, {fraction:.0%} of the rows")
            own = folds(table, splits, fraction)
            plain = chosen(table, own, engine, tell)
            records: list[KnowledgeScore] = []
            for known, asked in ((False, ()), (True, rules)):
                tasks = [
                    _task(table, fold, engine, noise_of(task), task.tempering, asked)
                    for fold, task in zip(own, plain, strict=True)
                ]
                solutions = _train(tasks, tell)
                tell("checking draws")
                kept = [conditioned(solution, asked) for solution in solutions]
                scores = _errors([stored for stored, _ in kept], own)
                records += [
                    KnowledgeScore(
                        table.name,
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


def chosen(table: Table, own: Sequence[Fold], engine: Engine, say: Say) -> list[Task]:
    """A task a split, with the noise and the tempering that its own training rows speak for."""
    if not engine.races:
        return [_task(table, fold, engine, "by input") for fold in own]
    best: list[tuple[float, Task | None]] = [(-np.inf, None)] * len(own)
    rows = min(len(fold.y) for fold in own)
    for noise in NOISES if rows >= FEWEST_ROWS_FOR_NOISE else NOISES[:1]:
        say(f"choosing the tempering, noise {noise}")
        tasks = [_task(table, fold, engine, noise) for fold in own]
        for place, found in enumerate(choose_temperings(tasks, range(len(tasks)))):
            # too few rows to race: the fallback and one number of noise
            unraced = 0.0 if noise == NOISES[0] else -np.inf
            score = found.scores.get(found.value, unraced)
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
    """Places that hold the same label, one list a label.

    >>> _alike(["a", "b", "a"])
    [[0, 2], [1]]
    """
    return [
        [place for place, own in enumerate(labels) if own == label]
        for label in dict.fromkeys(labels)
    ]


def conditioned(solution: Solution, rules: Sequence[Rule]) -> tuple[Posterior, float]:
    """The draws that obey (all draws where none does), and the share of raw draws they are."""
    kept, acceptance = solution.posterior.condition(rules)
    for number in range(1, ROUNDS):
        if len(kept) >= ENOUGH_DRAWS or not rules:
            break
        further = solution.more(len(solution.posterior), number)
        kept = kept.joined(further.condition(rules)[0])
    return (kept if len(kept) else solution.posterior), acceptance


def violating(posterior: Posterior, rules: Sequence[Rule]) -> float:
    """Share of draws that break a rule somewhere at fresh points."""
    fresh = bind_all(
        rules,
        posterior.columns,
        posterior.scaling,
        FRESH_POINTS,
        margins=False,
        seed=FRESH_POINTS_SEED,
    )
    return 1.0 - float(np.mean(posterior.check(rules, fresh).obeys()))


def refuse_long_runs(tables: Sequence[Table], engines: Sequence[str]) -> None:
    """Say so before anything runs where NUTS would take hours."""
    if "nuts" not in engines:
        return
    large = [
        f"{table.name} ({rows:,} rows, {weights:,} weights)"
        for table in tables
        for rows, weights in [(len(table.splits[0][0]), _weights(table.x.shape[1]))]
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
    table: Table,
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
        columns=table.columns,
        outputs=None,
        seed=fold.number,
        categories=table.categories,
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


class Mean(NamedTuple):
    """A mean over splits and its standard error (nan for one split)."""

    value: float
    error: float

    @staticmethod
    def of(values: Sequence[float]) -> Mean:
        """Of one number a split.

        >>> Mean.of([1.0, 3.0])
        Mean(value=2.0, error=1.0)
        """
        count = len(values)
        spread = float(np.std(values, ddof=1)) if count > 1 else float("nan")
        return Mean(float(np.mean(values)), spread / count**0.5)


def summary(records: Sequence[Score]) -> dict[tuple[str, str], dict[str, Mean]]:
    """(set, engine): mean and standard error over splits of RMSE and NLL."""
    found: dict[tuple[str, str], list[Score]] = {}
    for record in records:
        found.setdefault((record.set, record.engine), []).append(record)
    return {
        key: {name: Mean.of([getattr(one, name) for one in own]) for name in ("rmse", "nll")}
        for key, own in found.items()
    }


def knowledge_summary(records: Sequence[KnowledgeScore]) -> list[dict[str, Any]]:
    """One row a set, engine and share of rows: errors without and with knowledge, and paired
    differences."""
    rows = []
    kinds = dict.fromkeys((record.set, record.engine, record.fraction) for record in records)
    for kind in kinds:
        off, on = (
            {
                record.split: record
                for record in records
                if (record.set, record.engine, record.fraction, record.knowledge) == (*kind, known)
            }
            for known in (False, True)
        )
        row: dict[str, Any] = dict(zip(("set", "engine", "fraction"), kind, strict=True))
        for error in ("rmse", "nll"):
            without, with_it = ([getattr(part[k], error) for k in off] for part in (off, on))
            row[f"{error}_off"], row[f"{error}_on"] = np.mean(without), np.mean(with_it)
            row[f"{error}_change"] = Mean.of(list(np.subtract(with_it, without)))
        for field in ("stored_draws_violating", "acceptance"):
            row[field] = float(np.mean([getattr(record, field) for record in on.values()]))
        row["violating_off"] = float(np.mean([one.stored_draws_violating for one in off.values()]))
        rows.append(row)
    return rows


def as_records(scores: Sequence[Score | KnowledgeScore]) -> list[dict[str, Any]]:
    """Plain records for a file."""
    return [asdict(score) for score in scores]
