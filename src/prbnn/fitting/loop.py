"""The one compiled loop: batches, pressure, engine steps and dual updates, a chunk of steps at a time.

A task trained alone runs `start`, `advance` and `finish` as they are; tasks trained side by side run them
under a vmap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from prbnn.enforcement.measure import Measured
from prbnn.enforcement.pressure import Enforcement, EnforcementState
from prbnn.enforcement.worst import first_worst, kept_worst, worst_width
from prbnn.fitting.padding import Data
from prbnn.inference.engine import Engine, Pace
from prbnn.inference.problem import Batch, Problem
from prbnn.rules.scoring.families import points_each

# the learning rate at the end of a fit, as a fraction of the full one
SETTLED_RATE = 0.002
# a learning rate above this fraction of the full one still searches
SEARCHING = 0.5
# functions evaluated after a chunk where pools are wide
CALIBRATION = 16
# no step has this number, so the start has a key of its own
START = 2**31 - 1


class Schedule(NamedTuple):
    """When the learning rate starts to fall, for how long, when duals may move, and the budget.

    All are in steps.
    """

    settle_start: Float[Array, ""]
    settle_length: Float[Array, ""]
    warmup: Float[Array, ""]
    steps: Float[Array, ""]


class Carry(NamedTuple):
    """Everything that changes from step to step."""

    engine: Any
    enforcement: EnforcementState
    key: Array
    step: Array
    worst: Int[Array, "groups worst"]


class Means(NamedTuple):
    """Averages over the steps of a chunk; `functions` is how many functions a step drew."""

    elbo: Float[Array, ""]
    log_likelihood: Float[Array, ""]
    cost: Float[Array, ""]
    f: Float[Array, " rules"]
    broken: Float[Array, " rules"]
    pressure: Float[Array, " rules"]
    functions: Float[Array, ""]


class ChunkInfo(NamedTuple):
    """What Python decides by after a chunk of steps.

    - `finite`: whether every number is; where one is not, the chunk left the carry as it was
    - `infeasible`: whether some rule stays broken under pressure that should have fixed it
    - `stalling`: whether some rule may be on the way there
    """

    means: Means
    finite: Bool[Array, ""]
    infeasible: Bool[Array, ""]
    stalling: Bool[Array, ""]


@eqx.filter_jit
def start(engine: Engine, problem: Problem, enforcement: Enforcement, key: Array) -> Carry:
    """Everything as it is before the first step of a run with this ``key``."""
    state = engine.init(problem, jax.random.fold_in(key, START))
    return begin(engine, problem, state, key, enforcement.init())


def begin(
    engine: Engine, problem: Problem, state: Any, key: Array, duals: EnforcementState
) -> Carry:
    """The same for an engine that has its first ``state``."""
    worst = first_worst(problem.knowledge, worst_points(engine, problem))
    return Carry(state, duals, key, jnp.zeros((), int), worst)


@eqx.filter_jit
def advance(
    engine: Engine,
    problem: Problem,
    enforcement: Enforcement,
    data: Data,
    schedule: Schedule,
    carry: Carry,
    steps: Array,
    batch_size: int | None,
) -> tuple[Carry, ChunkInfo]:
    """``steps`` steps of training, and what is to be decided by; compiled once for given shapes."""
    following, means = run_chunk(
        engine, problem, enforcement, data, schedule, carry, steps, batch_size
    )
    moving = [leaf for leaf in jax.tree.leaves(following.engine) if eqx.is_inexact_array(leaf)]
    checks = [jnp.all(jnp.isfinite(leaf)) for leaf in (means.elbo, means.pressure, *moving)]
    finite = jnp.all(jnp.stack(checks))
    kept = jax.tree.map(lambda new, old: jnp.where(finite, new, old), following, carry)
    return kept, ChunkInfo(
        means,
        finite,
        jnp.any(enforcement.infeasible(kept.enforcement)),
        jnp.any(enforcement.stalling(kept.enforcement)),
    )


@eqx.filter_jit
def finish(engine: Engine, problem: Problem, state: Any, data: Data) -> Any:
    """The engine's state after its last work, on all rows."""
    return engine.finish(problem, state, all_rows(data))


def all_rows(data: Data) -> Batch:
    """Every row as one batch, for what needs no rules."""
    return Batch(data.x, data.y, data.weight, jnp.zeros((), int), jnp.ones(0), upper=data.upper)


def worst_points(engine: Engine, problem: Problem) -> int:
    """How many of the worst known points a step evaluates; none of a sampler, whose density is fixed."""
    return 0 if engine.block > 1 else worst_width(problem.knowledge, problem.points_width)


def pick(
    problem: Problem, data: Data, carry: Carry, key: Array, batch_size: int | None, softness: Array
) -> Batch:
    """The batch of a step: all rows, or ``batch_size`` random ones, and a block of the rules' points.

    - ``carry``: its step decides which block of points comes next, and it holds the worst known points
    - ``key``: draws the rows; weights are scaled up so that their expected sum is that of all rows
    - ``batch_size``: None is all rows
    - ``softness``: widths of the surrogates of probable rules, passed on

    Points come in low-discrepancy order, so any block is spread over the region; blocks take turns.
    """
    start = jnp.zeros((), int)
    worst = carry.worst if carry.worst.shape[1] else None
    if problem.knowledge is not None:
        size = problem.knowledge.pool
        width = problem.points_width - carry.worst.shape[1]
        start = carry.step // problem.every % max(1, size // width) * width
    if batch_size is None or batch_size >= data.x.shape[0]:
        return Batch(data.x, data.y, data.weight, start, softness, worst, data.upper)
    rows_key = jax.random.fold_in(key, 1)
    index = (jax.random.uniform(rows_key, (batch_size,)) * data.count).astype(int)
    weight = data.weight[index] * (data.count / batch_size)
    upper = None if data.upper is None else data.upper[index]
    return Batch(data.x[index], data.y[index], weight, start, softness, worst, upper)


def run_chunk(
    engine: Engine,
    problem: Problem,
    enforcement: Enforcement,
    data: Data,
    schedule: Schedule,
    carry: Carry,
    steps: Array,
    batch_size: int | None,
) -> tuple[Carry, Means]:
    """``steps`` steps of training, and their averages; for compiled code."""

    every = problem.every

    def body(number: Array, state: tuple[Carry, Means]) -> tuple[Carry, Means]:
        carry, sums = state
        due = True if every == 1 else number % every == 0
        carry, now = _step(engine, problem, enforcement, data, schedule, carry, batch_size, due)
        return carry, jax.tree.map(jnp.add, sums, now)

    rules = jnp.zeros(len(enforcement.table.kinds))
    zeros = Means(*(jnp.zeros(()) for _ in range(3)), rules, rules, rules, jnp.zeros(()))
    carry, sums = jax.lax.fori_loop(0, steps, body, (carry, zeros))
    if problem.knowledge is not None and carry.worst.shape[1]:
        carry = _calibrated(engine, problem, enforcement, carry)
    means = jax.tree.map(lambda total: total / steps, sums)
    if every > 1:
        # of the steps that evaluated the rules
        more = steps / -(-steps // every)
        means = means._replace(f=means.f * more, broken=means.broken * more)
    return carry, means


def _step(
    engine: Engine,
    problem: Problem,
    enforcement: Enforcement,
    data: Data,
    schedule: Schedule,
    carry: Carry,
    batch_size: int | None,
    due: Array | bool,
) -> tuple[Carry, Means]:
    """One step of the engine and of the duals; ``due`` says whether it evaluates the rules."""
    key = jax.random.fold_in(carry.key, carry.step)
    softness = enforcement.softness(
        carry.enforcement, carry.step, schedule.steps, schedule.settle_start
    )
    batch = pick(problem, data, carry, key, batch_size, softness)._replace(due=due)
    settled = jnp.clip((carry.step - schedule.settle_start) / schedule.settle_length, 0.0, 1.0)
    rate = SETTLED_RATE + (1 - SETTLED_RATE) * 0.5 * (1 + jnp.cos(jnp.pi * settled))
    keeping = jnp.round(schedule.settle_length).astype(jnp.int32)
    pace = Pace(rate, jnp.minimum(carry.step / schedule.settle_start, 1.0), keeping)
    pressure = enforcement.pressure(carry.enforcement, carry.step / schedule.warmup)
    engine_key = jax.random.fold_in(key, 0) if batch_size else key
    engine_state, info = engine.step(problem, engine_key, carry.engine, batch, pressure, pace)

    def moved() -> EnforcementState:
        return enforcement.update(
            carry.enforcement,
            info.measured,
            schedule.warmup / problem.every,
            searching=rate > SEARCHING,
            frozen=~pace.warming if engine.block > 1 else False,
            sharp=softness == 0,
        )

    duals = moved() if problem.every == 1 else jax.lax.cond(due, moved, lambda: carry.enforcement)
    means = Means(
        info.objective,
        info.log_likelihood,
        info.cost,
        jnp.mean(info.measured.f, axis=0),
        jnp.mean(info.measured.broken, axis=0),
        pressure,
        jnp.asarray(float(info.measured.f.shape[0])),
    )
    worst = _worst(problem, carry, batch, info.measured)
    return Carry(engine_state, duals, carry.key, carry.step + 1, worst), means


def _worst(problem: Problem, carry: Carry, batch: Batch, measured: Measured) -> Array:
    """The worst points that are known, after a step."""
    if problem.knowledge is None or batch.worst is None or measured.heat is None:
        return carry.worst
    heat = jnp.mean(measured.heat, axis=0)
    return kept_worst(problem.knowledge, batch.worst, batch.points_start, heat)


def _calibrated(engine: Engine, problem: Problem, enforcement: Enforcement, carry: Carry) -> Carry:
    """The carry after a part of each pool was searched for points where some functions break rules."""
    assert problem.knowledge is not None
    key = jax.random.fold_in(jax.random.fold_in(carry.key, carry.step), CALIBRATION)
    draws = engine.draws_of(problem, key, carry.engine, CALIBRATION)
    size = problem.knowledge.pool
    regions, rules = problem.knowledge.regions, problem.knowledge.count
    searched = min(size, points_each(problem.searched, regions, rules))
    part = jax.random.randint(jax.random.fold_in(key, 1), (), 0, max(1, size // searched))
    anywhere, worst = problem.search(
        jnp.concatenate(draws, axis=1), carry.worst, part * searched, searched
    )
    duals = enforcement.calibrate(carry.enforcement, anywhere)
    return carry._replace(enforcement=duals, worst=worst)
