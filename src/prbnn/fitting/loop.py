"""The one compiled loop: batches, pressure, engine steps and dual updates, a chunk at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.enforcement.measure import Measured
from prbnn.enforcement.pressure import Enforcement, EnforcementState
from prbnn.enforcement.worst import first_worst, kept_worst, worst_width
from prbnn.inference.engine import Engine, Pace
from prbnn.inference.problem import Batch, Problem
from prbnn.rules.scoring.families import points_each

SETTLED_RATE = 0.002
# a learning rate above this share of the full one still searches
SEARCHING = 0.5
# functions tried after a chunk where pools are wide, and at how many points of each pool
CALIBRATION = 16
SEARCHED = 16_384


class Data(NamedTuple):
    """Padded rows in network units; ``weight`` is 0 for padding."""

    x: Float[Array, "rows inputs"]
    y: Float[Array, "rows outputs"]
    weight: Float[Array, " rows"]
    count: Float[Array, ""]


class Plan(NamedTuple):
    """When the learning rate starts to fall, for how long, when duals may move, and the budget."""

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
    """Averages over a chunk, for people and for stopping; of so many functions a step."""

    elbo: Float[Array, ""]
    log_likelihood: Float[Array, ""]
    cost: Float[Array, ""]
    f: Float[Array, " rules"]
    broken: Float[Array, " rules"]
    pressure: Float[Array, " rules"]
    functions: Float[Array, ""]


def bucket(rows: int) -> int:
    """Rows padded up to a size that many tables share: 1 or 1.5 times a power of two.

    >>> bucket(87), bucket(100), bucket(3)
    (96, 128, 8)
    """
    size = 8
    while size < rows:
        size = (
            size * 3 // 2
            if size & (size - 1) == 0 and size * 3 // 2 >= rows
            else (size * 2 if size & (size - 1) == 0 else size * 4 // 3)
        )
    return size


def pad(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Data:
    """Rows in network units, padded to a bucket with weight 0."""
    extra = bucket(len(x)) - len(x)
    return Data(
        jnp.asarray(np.pad(x, ((0, extra), (0, 0))), float),
        jnp.asarray(np.pad(y, ((0, extra), (0, 0))), float),
        jnp.asarray(np.pad(weight, (0, extra)), float),
        jnp.asarray(len(x), float),
    )


def begin(
    engine: Engine, problem: Problem, state: Any, key: Array, duals: EnforcementState
) -> Carry:
    """Everything as it is before the first step, once an engine has its first state."""
    worst = first_worst(problem.knowledge, worst_points(engine, problem))
    return Carry(state, duals, key, jnp.zeros((), int), worst)


def worst_points(engine: Engine, problem: Problem) -> int:
    """At how many of the worst points a step tries hard rules; a sampler's density may not move."""
    return 0 if engine.block > 1 else worst_width(problem.knowledge, problem.points_width)


def pick(
    problem: Problem, data: Data, carry: Carry, key: Array, batch_size: int | None, softness: Array
) -> Batch:
    """All rows, or a random batch scaled up to them; and a block of the rules' points.

    Points come in low-discrepancy order, so any block is spread over the region; blocks take turns.
    """
    start = jnp.zeros((), int)
    worst = carry.worst if carry.worst.shape[1] else None
    if problem.knowledge is not None:
        size = problem.knowledge.pool
        width = problem.points_width - carry.worst.shape[1]
        start = carry.step % max(1, size // width) * width
    if batch_size is None or batch_size >= data.x.shape[0]:
        return Batch(data.x, data.y, data.weight, start, softness, worst)
    rows_key = jax.random.fold_in(key, 1)
    index = (jax.random.uniform(rows_key, (batch_size,)) * data.count).astype(int)
    weight = data.weight[index] * (data.count / batch_size)
    return Batch(data.x[index], data.y[index], weight, start, softness, worst)


def _worst(problem: Problem, carry: Carry, batch: Batch, measured: Measured) -> Array:
    """The worst points that are known, after a step."""
    if problem.knowledge is None or batch.worst is None or measured.heat is None:
        return carry.worst
    heat = jnp.mean(measured.heat, axis=0)
    return kept_worst(problem.knowledge, batch.worst, batch.points_start, heat)


@eqx.filter_jit
def run_chunk(
    engine: Engine,
    problem: Problem,
    enforcement: Enforcement,
    data: Data,
    plan: Plan,
    carry: Carry,
    steps: Array,
    batch_size: int | None,
) -> tuple[Carry, Means]:
    """``steps`` steps of training, and their averages; compiled once for given shapes."""

    def body(_: Array, state: tuple[Carry, Means]) -> tuple[Carry, Means]:
        carry, sums = state
        key = jax.random.fold_in(carry.key, carry.step)
        softness = enforcement.softness(
            carry.enforcement, carry.step, plan.steps, plan.settle_start
        )
        batch = pick(problem, data, carry, key, batch_size, softness)
        settled = jnp.clip((carry.step - plan.settle_start) / plan.settle_length, 0.0, 1.0)
        rate = SETTLED_RATE + (1 - SETTLED_RATE) * 0.5 * (1 + jnp.cos(jnp.pi * settled))
        keeping = jnp.round(plan.settle_length).astype(jnp.int32)
        pace = Pace(rate, jnp.minimum(carry.step / plan.settle_start, 1.0), keeping)
        pressure = enforcement.pressure(carry.enforcement, carry.step / plan.warmup)
        engine_key = jax.random.fold_in(key, 0) if batch_size else key
        engine_state, info = engine.step(problem, engine_key, carry.engine, batch, pressure, pace)
        frozen = ~pace.warming if engine.block > 1 else False
        duals = enforcement.update(
            carry.enforcement, info.measured, plan.warmup, rate > SEARCHING, frozen, softness == 0
        )
        now = Means(
            info.objective,
            info.log_likelihood,
            info.cost,
            jnp.mean(info.measured.f, axis=0),
            jnp.mean(info.measured.broken, axis=0),
            pressure,
            jnp.asarray(float(info.measured.f.shape[0])),
        )
        return (
            Carry(
                engine_state,
                duals,
                carry.key,
                carry.step + 1,
                _worst(problem, carry, batch, info.measured),
            ),
            jax.tree.map(jnp.add, sums, now),
        )

    rules = jnp.zeros(len(enforcement.table.kinds))
    zeros = Means(*(jnp.zeros(()) for _ in range(3)), rules, rules, rules, jnp.zeros(()))
    carry, sums = jax.lax.fori_loop(0, steps, body, (carry, zeros))
    if problem.knowledge is not None and carry.worst.shape[1]:
        key = jax.random.fold_in(jax.random.fold_in(carry.key, carry.step), CALIBRATION)
        draws = engine.draws_of(problem, key, carry.engine, CALIBRATION)
        size = problem.knowledge.pool
        regions, rules = problem.knowledge.regions, problem.knowledge.count
        searched = min(size, points_each(SEARCHED, regions, rules))
        part = jax.random.randint(jax.random.fold_in(key, 1), (), 0, max(1, size // searched))
        anywhere, worst = problem.search(
            jnp.concatenate(draws, axis=1), carry.worst, part * searched, searched
        )
        duals = enforcement.calibrate(carry.enforcement, anywhere)
        carry = carry._replace(enforcement=duals, worst=worst)
    return carry, jax.tree.map(lambda total: total / steps, sums)
