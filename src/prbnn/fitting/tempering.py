"""Choosing the tempering: short runs without rules, side by side, compared on held-out rows.

A mean-field posterior with KL weight 1 often collapses onto its prior, and a better ELBO is not a
better prediction; so the weight is chosen by held-out log predictive density.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.enforcement.pressure import Enforcement, enforcement_of
from prbnn.fitting.checkpoints import Checkpoints
from prbnn.fitting.loop import Schedule, all_rows, begin, run_chunk
from prbnn.fitting.padding import Data, bucket, pad
from prbnn.inference.engine import Engine
from prbnn.inference.mapping import over_functions
from prbnn.inference.problem import Problem
from prbnn.system.process import one_blas_thread, side_by_side

CANDIDATES = (1.0, 0.4, 0.2, 0.1, 0.03, 0.01)
# taken where there are fewer rows than FEWEST_ROWS
FALLBACK = 0.2
FEWEST_ROWS = 30
# larger tables are sampled down to this many rows
MOST_ROWS = 1024
FOLDS = 3
# a table with more rows than this needs one fold, which holds out as many rows as three do together
PLENTY = 2 * MOST_ROWS
STEPS = 1000
# the learning rate is raised by this factor, up to FASTEST: a short run at a higher rate goes about as
# far as a long one
HASTE = 4
FASTEST = 0.02
# Of few rows, it overfits less than the fit will, so that its choice would be too small: up to as many
# rows, steps and factor are these
LONGER = ((96, 6000, 1), (320, 3000, 2))
# functions drawn to predict the held-out rows
DRAWS = 64
# rows are repeated by their whole-numbered weights only where these add up to no more
MOST_REPEATED = 10**6
# the part of a checkpoint
PART = "tempering"


@dataclass(frozen=True)
class Chosen:
    """The tempering chosen, and the held-out log density per row of each candidate (empty: fallback)."""

    value: float
    scores: dict[float, float]

    def __str__(self) -> str:
        if not self.scores:
            return f"tempering {self.value:g} (too few rows to choose by held-out score)"
        found = ", ".join(f"{t:g}: {score:.3f}" for t, score in self.scores.items())
        return f"tempering {self.value:g}, by held-out log density per row ({found})"


class Fold(NamedTuple):
    """Rows of one fold of a race.

    - `held`: 1 for rows that are held out, 0 for others
    - `rest`: positions of the others, which are trained on, padded
    - `real`: 1 for these, 0 for padding
    - `key`: of the fold's runs
    """

    held: Float[Array, " rows"]
    rest: Int[Array, " trained"]
    real: Float[Array, " trained"]
    key: Array


class Race(NamedTuple):
    """One problem, its rows, and its folds, stacked."""

    problem: Problem
    enforcement: Enforcement
    data: Data
    folds: Fold


def tempering_chosen(
    engine: Engine,
    problem: Problem,
    data: Data,
    seed: int,
    budget: int | None,
    kept: Checkpoints,
) -> Chosen:
    """What `choose_tempering` gives, or has given where the choice is among what was ``kept``."""
    found = kept.found(PART)
    if found is not None:
        scores = zip(found["candidates"].tolist(), found["scores"].tolist(), strict=True)
        return Chosen(float(found["value"]), dict(scores))
    chosen = choose_tempering(engine, problem, data, seed, budget)
    made = {
        "value": np.array(chosen.value),
        "candidates": np.array([*chosen.scores], float),
        "scores": np.array([*chosen.scores.values()], float),
    }
    kept.keep(PART, lambda: made, now=True)
    return chosen


@one_blas_thread()
def choose_tempering(
    engine: Engine, problem: Problem, data: Data, seed: int, budget: int | None = None
) -> Chosen:
    """The largest candidate whose held-out log density is within one standard error of the best.

    The rules of ``problem`` are left out, and ``seed`` draws the folds. A larger tempering is closer to
    Bayes' rule and keeps the posterior wide. With fewer than FEWEST_ROWS rows the result is FALLBACK.
    ``budget`` is how many steps the fit will have; None is the engine's own.
    """
    data = rows_to_hold_out(problem, data)
    if int(data.count) < FEWEST_ROWS:
        return Chosen(FALLBACK, {})
    race = race_of(problem, data, seed, folds_for(data))
    steps, factor = lengths_for(data, budget or engine.budget)
    hasty = engine.hasty(factor, FASTEST)
    # a compiled loop of a small network runs on one core: half of the candidates on each of two
    halves = jnp.split(jnp.asarray(CANDIDATES, float), 2)
    found = side_by_side(lambda half: race_between(hasty, race, steps, half), halves)
    return verdict(np.concatenate([np.asarray(part) for part in found]), race)


def rows_to_hold_out(problem: Problem, data: Data) -> Data:
    """The rows that folds are made of; rows of classes and counts are repeated by their weights.

    Such rows repeat by nature, and a fold that held out all copies of a row would test inputs that no
    other fold has seen. Continuous rows repeat by copying, and all copies are in one fold.
    """
    rows = int(data.count)
    weight = np.asarray(data.weight, np.float64)[:rows]
    whole = np.all(weight == np.round(weight)) and np.sum(weight) <= MOST_REPEATED
    if problem.likelihood.scales_targets or not whole or np.all(weight == 1):
        return data
    place = np.repeat(np.arange(rows), weight.astype(int))
    x, y = np.asarray(data.x)[place], np.asarray(data.y)[place]
    upper = None if data.upper is None else np.asarray(data.upper)[place]
    return pad(x, y, np.ones(len(place)), upper)


def folds_for(data: Data) -> int:
    """How many folds a race over these rows has."""
    return 1 if int(data.count) > PLENTY else FOLDS


def lengths_for(data: Data, budget: int) -> tuple[Array, int]:
    """The steps of each run of a race over these rows, and the factor of its learning rate.

    No run is longer than the fit, of ``budget`` steps, unless that has fewer than STEPS.
    """
    rows = int(data.count)
    long = [(steps, factor) for most, steps, factor in LONGER if rows <= most and steps <= budget]
    steps, factor = long[0] if long else (STEPS, HASTE)
    return jnp.asarray(steps, jnp.int32), factor


def race_of(problem: Problem, data: Data, seed: int, folds: int) -> Race:
    """The problem without its rules, in ``folds`` folds that ``seed`` draws.

    MOST_ROWS rows at most are held out, each once, and a fold trains on 2/3 as many.
    """
    generator, rows = np.random.default_rng(seed), int(data.count)
    most = MOST_ROWS if folds > 1 else MOST_ROWS + trained_of(MOST_ROWS)
    if rows > most:
        data = data.take(generator.permutation(rows)[:most])
        rows = most
    fold = np.full(data.x.shape[0], -1)
    numbers = np.arange(rows) % FOLDS if folds > 1 else np.where(np.arange(rows) < MOST_ROWS, 0, 1)
    fold[generator.permutation(rows)] = numbers
    held = fold == np.arange(folds)[:, None]
    # of tables padded alike, folds are too
    trained = bucket(trained_of(data.x.shape[0] if folds > 1 else MOST_ROWS))
    rest, real = np.zeros((folds, trained), int), np.zeros((folds, trained))
    for number, out in enumerate(held):
        places = np.flatnonzero((fold >= 0) & ~out)
        rest[number, : len(places)], real[number, : len(places)] = places, 1
    bare = replace(problem, knowledge=None)
    none = enforcement_of([], np.zeros(0), float(rows))
    keys = jax.random.split(jax.random.key(seed), folds)
    drawn = Fold(jnp.asarray(held, float), jnp.asarray(rest), jnp.asarray(real, float), keys)
    return Race(bare, none, data, drawn)


def trained_of(rows: int) -> int:
    """How many of ``rows`` rows a fold of three trains on, at most."""
    return -(-rows * (FOLDS - 1) // FOLDS)


def verdict(density: Array | np.ndarray, race: Race) -> Chosen:
    """The choice, from the held-out log ``density`` (candidates, rows) of a race."""
    rows = int(race.data.count)
    held = np.sum(np.asarray(race.folds.held), axis=0)
    weight = (np.asarray(race.data.weight) * held)[:rows]
    density = np.asarray(density)[:, :rows]
    scores = np.average(density, axis=1, weights=weight)
    best = int(np.argmax(scores))
    spread = (density[best] - density) - (scores[best] - scores)[:, None]
    error = np.sqrt(spread**2 @ weight**2) / weight.sum()
    good = np.flatnonzero(scores[best] - scores <= error)
    return Chosen(
        CANDIDATES[int(good[0])],
        {value: float(score) for value, score in zip(CANDIDATES, scores, strict=True)},
    )


def run_race(engine: Engine, race: Race, steps: Array) -> Array:
    """Held-out log predictive density of every row (candidates, rows), by runs of ``steps`` steps."""
    return race_between(engine, race, steps, jnp.asarray(CANDIDATES, float))


@eqx.filter_jit
def race_between(engine: Engine, race: Race, steps: Array, candidates: Array) -> Array:
    """The same of some candidates."""
    problem, enforcement, data, folds = race
    lengths = (steps * 2 // 3, steps // 3, 0, steps)
    schedule = Schedule(*(jnp.asarray(length, float) for length in lengths))

    def one(tempering: Array, fold: Fold) -> Array:
        run = eqx.tree_at(lambda p: p.tempering, problem, tempering)
        train = data.at(fold.rest, fold.real)
        start = engine.init(run, jax.random.fold_in(fold.key, 2))
        carry = begin(engine, run, start, fold.key, enforcement.init())
        carry, _ = run_chunk(engine, run, enforcement, train, schedule, carry, steps, None)
        fitted = engine.finish(run, carry.engine, all_rows(train))
        draws = engine.draws_of(run, jax.random.fold_in(fold.key, 1), fitted, DRAWS)

        batch = all_rows(data)
        densities = jax.vmap(lambda *draw: run.log_densities(*draw, batch))(*draws)
        mixture = jax.nn.logsumexp(densities, axis=0) - jnp.log(densities.shape[0])
        return mixture * fold.held

    runs = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * len(candidates)), folds)
    count = folds.held.shape[0]
    temperings = jnp.repeat(candidates, count)
    # candidates are on as many threads as there are cores already
    size = folds.rest.shape[1] * problem.size
    densities = over_functions(one, (temperings, runs), size, parts=1)
    return jnp.sum(densities.reshape(len(candidates), count, -1), axis=1)
