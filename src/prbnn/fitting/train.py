"""Training one task or many at once: chunks of compiled steps, and what is decided between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.enforcement.strength_table import MEAN, PROBABILITY
from prbnn.fitting.checkpoints import Checkpoints
from prbnn.fitting.fitted import Trained, solution_of
from prbnn.fitting.interruption import asked
from prbnn.fitting.loop import Carry, ChunkInfo, Means, Schedule, advance, finish, start
from prbnn.fitting.outcome import contradictions, plateau
from prbnn.fitting.reached import Budget, Looks, Reached, reached_from
from prbnn.fitting.result import Progress, Solution
from prbnn.fitting.rule_evidence import Record
from prbnn.fitting.task import Task, seeds
from prbnn.inference.engine import Engine
from prbnn.system.process import computing, one_blas_thread

# tables with more than MANY_ROWS rows are trained on batches: 1 / PARTS of the rows, within these limits
MANY_ROWS = 2048
PARTS = 64
LEAST_BATCH, MOST_BATCH = 256, 1024

# a fit with rules settles early only after this many times the steps before its duals move
WARMUPS = 3

# the part of a checkpoint
PART = "training"


class Runner(NamedTuple):
    """How runs begin, go on for a chunk of steps, and end: those of one task, or of many under a vmap.

    - `start()` gives the first carry
    - `advance(carry, schedule, count)` runs ``count`` steps
    - `finish(state)` does an engine's last work
    """

    start: Callable[[], Carry]
    advance: Callable[[Carry, Schedule, Array], tuple[Carry, ChunkInfo]]
    finish: Callable[[Any], Any]


class Ran(NamedTuple):
    """Runs that ended: where they came to, and whether that was before their end, as was asked for."""

    reached: Reached
    interrupted: bool


def run(
    runner: Runner,
    budget: Budget,
    chunk: int,
    decide: Callable[[Looks, Budget], Budget | None],
    *,
    since: Reached | None = None,
    keep: Callable[[Reached, bool], None] = lambda reached, now: None,
    stops: Callable[[], bool] = lambda: False,
) -> Ran:
    """Train chunk by chunk until the budget is spent.

    After each chunk, ``decide`` gives the budget to go on with, or None to end. Runs that go on are given
    to ``keep``, with whether they must be kept now, and end early where ``stops`` says so. ``since`` is
    what an earlier process kept of these runs.
    """
    computing()
    began = time.perf_counter()
    reached = Reached(runner.start(), [], budget) if since is None else since
    carry, looks, now, *before = reached
    step, interrupted = reached.step, False
    if step < now.steps:
        jax.block_until_ready(runner.advance(carry, budget.schedule, _count(0)))
    compiled = time.perf_counter()

    def seconds() -> tuple[float, float]:
        return before[0] + compiled - began, before[1] + time.perf_counter() - compiled

    looks = [*looks]
    try:
        while now is not None and step < now.steps and not interrupted:
            count = min(chunk, now.steps - step)
            carry, info = runner.advance(carry, now.schedule, _count(count))
            step += count
            looks.append((step, jax.tree.map(np.asarray, info)))
            now = decide(looks, now)
            if now is not None:
                reached = Reached(carry, [*looks], now, *seconds())
                interrupted = step < now.steps and stops()
                keep(reached, interrupted or step >= now.steps)
    except KeyboardInterrupt:
        if reached.looks:
            keep(reached, True)
        raise
    carry = carry._replace(engine=jax.block_until_ready(runner.finish(carry.engine)))
    return Ran(Reached(carry, looks, now or reached.budget, *seconds()), interrupted)


def _count(steps: int) -> Array:
    return jnp.asarray(steps, jnp.int32)


def record_of(looks: Looks) -> Record:
    """Averages over the chunks of one run, without those that left it as it was."""
    return [(step, info.means) for step, info in looks if info.finite]


def status_of(looks: Looks) -> str:
    """What the chunks of one run say of how it ended."""
    if not all(info.finite for _, info in looks):
        return "diverged"
    return "infeasible" if any(info.infeasible for _, info in looks) else "budget spent"


@one_blas_thread()
def train(
    task: Task,
    steps: int | None = None,
    *,
    batch_size: int | None = None,
    draws: int | None = None,
    early_stopping: bool = True,
    progress: Callable[[Progress], None] | None = None,
    seed: int = 0,
    since: Carry | None = None,
    kept: Checkpoints | None = None,
) -> Solution:
    """Train a prepared task: a search at the full learning rate, then a third of it to settle.

    The arguments are those of `prbnn.fit`. ``since`` is where an earlier fit ended; training goes on from
    there. ``kept`` are the checkpoints of this fit: it goes on from what they hold of its training.
    """
    steps = int(steps or task.engine.budget)
    parts = (task.engine, task.problem, task.enforcement)
    rows = rows_per_step(task, batch_size)
    key = jax.random.key(seeds(seed)[1])
    kept = kept or Checkpoints()
    watch = _Watch(task, early_stopping, progress)
    runner = Runner(
        start=lambda: start(*parts, key) if since is None else since,
        advance=lambda carry, schedule, count: advance(
            *parts, task.data, schedule, carry, count, rows
        ),
        finish=lambda state: finish(task.engine, task.problem, state, task.data),
    )

    def keep(reached: Reached, now: bool) -> None:
        kept.keep(PART, reached.arrays, now=now)

    found = kept.found(PART)
    before = None if found is None else reached_from(found, runner.start, len(task.rules))
    ran = run(
        runner,
        budget_of(task, steps),
        task.engine.chunk,
        watch,
        since=before,
        keep=keep,
        stops=asked,
    )
    reached = ran.reached
    kept.closed = ran.interrupted
    ended = "interrupted" if ran.interrupted else status_of(reached.looks)
    trained = Trained(
        carry=reached.carry,
        record=record_of(reached.looks),
        status=watch.status or ended,
        budget=steps,
        settle=reached.budget.settle,
        seconds_compile=reached.seconds_compile,
        seconds_run=reached.seconds_run,
    )
    return solution_of(task, trained, draws, seed)


class _Watch:
    """What is decided after each chunk of one task: to go on, to settle early, or to end.

    `status` says why training ended, where the chunks themselves do not say so. A process that takes over
    needs nothing of it: after a plateau the budget leaves no step to look for another.
    """

    def __init__(
        self, task: Task, early_stopping: bool, progress: Callable[[Progress], None] | None
    ) -> None:
        self.task, self.progress = task, progress
        self.sampler = task.engine.block > 1
        self.may_settle = early_stopping and not self.sampler
        self.compatible = False
        self.status: str | None = None

    def __call__(self, looks: Looks, budget: Budget) -> Budget | None:
        step, info = looks[-1]
        if not info.finite or info.infeasible:
            return None
        freezes = self.sampler and step >= budget.steps - budget.settle
        if not self.compatible and (info.stalling or freezes):
            # rules that contradict each other need no more pressure, nor draws; looked for once
            self.compatible = not contradictions(self.task)
            if not self.compatible:
                self.status = "infeasible"
                return None
        if self.progress is not None:
            self.progress(_progress(step, budget.steps, info.means, self.task))
        # duals that have hardly begun to move rest too; those of rules that only lead need not be exact
        early = not np.all(self.task.led) and step < WARMUPS * budget.warmup
        searching = self.may_settle and not early and step < budget.steps - budget.settle
        if searching and plateau(record_of(looks), self.task):
            self.may_settle = False
            settle = max(self.task.engine.chunk, step // 3)
            return Budget(step + settle, settle, budget.warmup)
        return budget


def budget_of(task: Task, steps: int) -> Budget:
    """When a run of ``steps`` steps settles and when its duals may move."""
    return Budget(steps, _settle(task.engine, steps), _warmup(task, steps))


def _settle(engine: Engine, steps: int) -> int:
    return max(1, steps // 2 if engine.block > 1 else steps // 3)


def _warmup(task: Task, steps: int) -> int:
    """Steps before duals move: a Newton step needs draws that already have their spread."""
    if task.engine.block > 1:
        return max(2 * task.engine.block, steps // 8)
    newton = any(rule.strength.kind in MEAN + PROBABILITY for rule in task.rules)
    return max(1, min(1000, steps // 5) if newton else min(200, steps // 10))


def rows_per_step(task: Task, batch_size: int | None) -> int | None:
    """The batch size to train with, where the user gave ``batch_size``; None is all rows."""
    if task.engine.full_batch:
        return None
    rows = task.data.x.shape[0]
    if batch_size is None and rows > MANY_ROWS:
        return min(max(rows // PARTS, LEAST_BATCH), MOST_BATCH)
    return batch_size


def _progress(step: int, steps: int, means: Means, task: Task) -> Progress:
    rules = len(task.rules)
    return Progress(
        step=step,
        steps=steps,
        elbo=float(means.elbo),
        violation=float(np.max(-means.f)) if rules else 0.0,
        share_broken=float(np.max(means.broken)) if rules else 0.0,
        rules=tuple(
            (rule.label, float(-f * unit), float(broken))
            for rule, f, unit, broken in zip(
                task.rules, means.f, task.units, means.broken, strict=True
            )
        ),
    )
