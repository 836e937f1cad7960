"""Many tasks at once: tables of one kind (splits, folds, seeds) under one vmap.

Small networks leave most of a machine idle; 20 of them side by side take little longer than one. The
tasks must share network, likelihood, engine and rules; rows are padded to one size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.enforcement.pressure import Enforcement
from prbnn.fitting.fitted import RAW_DRAWS, Trained, solution_of
from prbnn.fitting.loop import Carry, ChunkInfo, Schedule, advance, all_rows, finish, start
from prbnn.fitting.padding import Data
from prbnn.fitting.reached import Budget, Looks
from prbnn.fitting.result import Solution
from prbnn.fitting.task import Task, seeds
from prbnn.fitting.tempering import (
    CANDIDATES,
    FALLBACK,
    FASTEST,
    FEWEST_ROWS,
    MOST_ROWS,
    Chosen,
    Race,
    folds_for,
    lengths_for,
    race_of,
    rows_to_hold_out,
    run_race,
    verdict,
)
from prbnn.fitting.train import (
    Runner,
    budget_of,
    record_of,
    rows_per_step,
    run,
    status_of,
)
from prbnn.inference.engine import Engine
from prbnn.inference.problem import Problem
from prbnn.model.observation import log_observation
from prbnn.posterior.chunks import DrawnModel
from prbnn.posterior.draws import Posterior
from prbnn.system.process import one_blas_thread

# bytes that the tasks trained together may take, and copies of the hidden layers that a step holds
MEMORY = 2e9
COPIES = 6
# draws evaluated at a time in scoring
BLOCK_DRAWS = 32

Report = Callable[[int, int], None]


class Stack(NamedTuple):
    """Tasks as arrays with a leading axis, one entry per task."""

    problem: Problem
    enforcement: Enforcement
    data: Data


@one_blas_thread()
def train_many(
    tasks: Sequence[Task],
    steps: int | None = None,
    *,
    task_seeds: Sequence[int],
    batch_size: int | None = None,
    draws: int = RAW_DRAWS,
    progress: Report | None = None,
) -> list[Solution]:
    """What `train` of each task gives without early stopping, all tasks side by side.

    A run that diverges keeps its last finite state, and one that is infeasible goes on to the end; the
    result of each says so. ``progress`` is called with the steps done and the steps in all.
    """
    solutions: list[Solution] = []
    groups = list(_groups(tasks, 1))
    steps = int(steps or tasks[0].engine.budget)
    for number, group in enumerate(groups):

        def report(done: int, before: int = number * steps) -> None:
            if progress is not None:
                progress(before + done, len(groups) * steps)

        solutions += _train_group(
            [tasks[k] for k in group],
            steps,
            [task_seeds[k] for k in group],
            batch_size,
            draws,
            report,
        )
    return solutions


def _train_group(
    tasks: list[Task],
    steps: int,
    task_seeds: list[int],
    batch_size: int | None,
    draws: int,
    report: Callable[[int], None],
) -> list[Solution]:
    tasks = _padded_alike(tasks)
    engine, count = tasks[0].engine, len(tasks)
    stack = _stacked([Stack(task.problem, task.enforcement, task.data) for task in tasks])
    keys = jax.vmap(jax.random.key)(jnp.asarray([seeds(seed)[1] for seed in task_seeds], np.uint32))
    rows = rows_per_step(tasks[0], batch_size)
    runner = Runner(
        start=lambda: _start_all(engine, stack, keys),
        advance=lambda carry, schedule, count: _advance_all(
            engine, stack, schedule, carry, count, rows
        ),
        finish=lambda state: _finish_all(engine, stack, state),
    )

    def to_the_end(looks: Looks, budget: Budget) -> Budget:
        report(looks[-1][0])
        return budget

    ran = run(runner, budget_of(tasks[0], steps), engine.chunk, to_the_end).reached
    carry = jax.tree.map(lambda leaf: leaf if _is_key(leaf) else np.asarray(leaf), ran.carry)
    solutions = []
    for place, (task, seed) in enumerate(zip(tasks, task_seeds, strict=True)):
        looks = [(step, _entry(info, place)) for step, info in ran.looks]
        trained = Trained(
            carry=_entry(carry, place),
            record=record_of(looks),
            status=status_of(looks),
            budget=steps,
            settle=ran.budget.settle,
            seconds_compile=ran.seconds_compile / count,
            seconds_run=ran.seconds_run / count,
        )
        solutions.append(solution_of(task, trained, draws, seed))
    return solutions


@one_blas_thread()
def choose_temperings(
    tasks: Sequence[Task], task_seeds: Sequence[int], progress: Report | None = None
) -> list[Chosen]:
    """What `choose_tempering` of each task gives, all races side by side."""
    tasks = [task._replace(data=rows_to_hold_out(task.problem, task.data)) for task in tasks]
    if any(int(task.data.count) < FEWEST_ROWS for task in tasks):
        return [Chosen(FALLBACK, {})] * len(tasks)
    choices: list[Chosen] = []
    # races of one batch are alike
    folds = max(folds_for(task.data) for task in tasks)
    fewest = min((task.data for task in tasks), key=lambda data: int(data.count))
    steps, factor = lengths_for(fewest, tasks[0].engine.budget)
    for group in _groups(tasks, folds * len(CANDIDATES)):
        alike = _padded_alike([tasks[k] for k in group])
        races = [
            race_of(task.problem, task.data, task_seeds[k], folds)
            for k, task in zip(group, alike, strict=True)
        ]
        densities = np.asarray(
            _race_all(alike[0].engine.hasty(factor, FASTEST), _stacked(races), steps)
        )
        choices += [verdict(d, race) for d, race in zip(densities, races, strict=True)]
        if progress is not None:
            progress(len(choices), len(tasks))
    return choices


class RowScores(NamedTuple):
    """The mean prediction and log predictive density of some rows, in the user's units."""

    mean: np.ndarray
    log_density: np.ndarray


def score_many(
    posteriors: Sequence[Posterior], x: Sequence[np.ndarray], y: Sequence[np.ndarray]
) -> list[RowScores]:
    """What each posterior predicts for its own rows: `Posterior.predict` and `log_density` at once.

    Posteriors may hold different numbers of draws, and tables different numbers of rows.
    """
    most_draws, most_rows = max(map(len, posteriors)), max(map(len, x))
    inputs, targets, vectors, weights = [], [], [], []
    for posterior, rows, wanted in zip(posteriors, x, y, strict=True):
        fill, count = ((0, most_rows - len(rows)), (0, 0)), len(posterior)
        inputs.append(np.pad(posterior.scaling.inputs(rows), fill))
        targets.append(np.pad(posterior.scaling.outputs(wanted.reshape(len(rows), -1)), fill))
        vectors.append(np.pad(posterior.vectors, ((0, most_draws - count), (0, 0))))
        weights.append(np.pad(np.full(count, 1 / count), (0, most_draws - count)))
    arrays = (jnp.asarray(np.stack(part), float) for part in (vectors, weights, inputs, targets))
    model = posteriors[0].model
    stated = [posterior.model.window for posterior in posteriors]
    windows = [window for window in stated if window is not None]
    means, densities = _score_all(
        model._replace(window=None), *arrays, jnp.stack(windows) if windows else None
    )
    return [
        RowScores(
            posterior.scaling.restore(mean[: len(rows)]),
            density[: len(rows)] - np.sum(np.log(posterior.scaling.output_scale)),
        )
        for posterior, rows, mean, density in zip(
            posteriors, x, np.asarray(means), np.asarray(densities, np.float64), strict=True
        )
    ]


@eqx.filter_jit
def _score_all(
    model: DrawnModel, vectors: Array, weights: Array, x: Array, y: Array, windows: Array | None
) -> tuple[Array, Array]:
    likelihood = model.likelihood

    def one(
        vectors: Array, weights: Array, x: Array, y: Array, window: Array | None
    ) -> tuple[Array, Array]:
        def drawn(vector: Array) -> tuple[Array, Array]:
            network, own = model.parts(vector)
            values = jax.vmap(network)(x)
            density = jax.vmap(lambda v, t: log_observation(likelihood, own, v, t, window=window))(
                values, y
            )
            return likelihood.split(own, values)[0], density

        means, densities = jax.lax.map(drawn, vectors, batch_size=BLOCK_DRAWS)
        mixture = jax.nn.logsumexp(densities, axis=0, b=weights[:, None])
        return jnp.tensordot(weights, means, axes=1), mixture

    return jax.vmap(one)(vectors, weights, x, y, windows)


def _groups(tasks: Sequence[Task], runs_per_task: int) -> Iterator[np.ndarray]:
    """Positions of tasks that fit into memory together, where each takes ``runs_per_task`` runs."""
    rows = max(task.data.x.shape[0] for task in tasks)
    rows = min(rows, MOST_ROWS) if runs_per_task > 1 else rows_per_step(tasks[0], None) or rows
    task = tasks[0]
    leaves = [leaf for leaf in jax.tree.leaves(task.problem.network) if eqx.is_array(leaf)]
    units = sum(leaf.shape[0] for leaf in leaves if leaf.ndim == 2)
    points = task.problem.points_width * len(task.rules)
    size = 4 * COPIES * runs_per_task * _functions(task) * (rows + points) * max(units, 1)
    count = min(len(tasks), -(-len(tasks) * size // int(MEMORY)))
    yield from np.array_split(np.arange(len(tasks)), max(count, 1))


def _functions(task: Task) -> int:
    """How many functions the engine evaluates per step."""
    options = ("draws", "members", "particles", "chains")
    return math.prod(getattr(task.engine, name, 1) for name in options)


def _padded_alike(tasks: Sequence[Task]) -> list[Task]:
    """The tasks with rows of weight 0 added until all have equally many."""
    most = max(task.data.x.shape[0] for task in tasks)

    cut = any(task.data.upper is not None for task in tasks)

    def padded(data: Data) -> Data:
        # a table without censored rows beside one with: all its targets are exact
        data = data._replace(upper=data.y) if cut and data.upper is None else data
        return data.padded(most)

    def alike(task: Task) -> Task:
        data = padded(task.data)
        if task.problem.rows is None:
            return task._replace(data=data)
        problem = eqx.tree_at(lambda part: part.rows, task.problem, all_rows(data))
        return task._replace(data=data, problem=problem)

    return [alike(task) for task in tasks]


def _stacked(parts: Sequence[Any]) -> Any:
    """Pytrees of the same structure as one, with a leading axis; raises where structures differ."""
    structures = {jax.tree.structure(eqx.filter(part, eqx.is_array)) for part in parts}
    if len(structures) > 1:
        raise ValueError("tasks trained together must share network, likelihood, engine and rules")
    return jax.tree.map(
        lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *parts
    )


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _entry(tree: Any, place: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[place], tree)


@eqx.filter_jit
def _start_all(engine: Engine, stack: Stack, keys: Array) -> Carry:
    return eqx.filter_vmap(lambda part, key: start(engine, part.problem, part.enforcement, key))(
        stack, keys
    )


@eqx.filter_jit
def _advance_all(
    engine: Engine,
    stack: Stack,
    schedule: Schedule,
    carry: Carry,
    count: Array,
    batch_size: int | None,
) -> tuple[Carry, ChunkInfo]:
    return eqx.filter_vmap(
        lambda part, carry: advance(engine, *part, schedule, carry, count, batch_size)
    )(stack, carry)


@eqx.filter_jit
def _finish_all(engine: Engine, stack: Stack, state: Any) -> Any:
    return eqx.filter_vmap(lambda part, state: finish(engine, part.problem, state, part.data))(
        stack, state
    )


@eqx.filter_jit
def _race_all(engine: Engine, races: Race, steps: Array) -> Array:
    return eqx.filter_vmap(lambda race: run_race(engine, race, steps))(races)
