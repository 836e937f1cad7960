"""What engines with a finite set of members share: one vector per member, moved together by Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from prbnn.inference.engine import Draws, Info, evenly
from prbnn.inference.problem import Batch, Problem


class State(NamedTuple):
    """One vector (weights, then the likelihood's own parameters) per member, and Adam's memory.

    `anchors` is the centre of each member's prior.
    """

    vectors: Float[Array, "members vector"]
    anchors: Float[Array, "members weights"]
    optimiser: optax.OptState


def start(problem: Problem, vectors: Array, anchors: Array | None = None) -> State:
    """The first state of members at ``vectors``."""
    if anchors is None:
        anchors = jnp.broadcast_to(problem.prior_mean, (vectors.shape[0], problem.size))
    return State(vectors, anchors, optax.scale_by_adam().init(vectors))


def restarted(problem: Problem, key: Array, members: int) -> Float[Array, "members vector"]:
    """Members at newly initialised networks, each from a key of its own."""
    weights = jax.vmap(problem.fresh)(jax.random.split(key, members))
    own = jnp.broadcast_to(problem.likelihood_start, (members, problem.likelihood_start.size))
    return jnp.concatenate([weights, own], axis=1)


def ascend(state: State, gradient: Float[Array, "members vector"], rate: Array | float) -> State:
    """One Adam step uphill."""
    direction, optimiser = optax.scale_by_adam().update(gradient, state.optimiser)
    moved = state.vectors + rate * jnp.asarray(direction)
    return State(moved, state.anchors, optimiser)


def log_posterior(
    problem: Problem, batch: Batch, pressure: Array
) -> Callable[[Array, Array], tuple[Array, Info]]:
    """(vector, anchor) -> log likelihood + tempering * log prior + sum pressure * f, and its parts."""

    def of(vector: Array, anchor: Array) -> tuple[Array, Info]:
        weights, _ = problem.split(vector)
        fit = problem.log_likelihood(vector, batch)
        cost = 0.5 * jnp.sum(((weights - anchor) / problem.prior_sd) ** 2)
        measured = problem.measure(vector, batch)
        objective = fit - problem.tempering * cost
        gain = objective + jnp.sum(pressure * measured.f)
        return gain, Info(objective, fit, cost, measured)

    return of


def log_density(
    problem: Problem, batch: Batch, pressure: Array
) -> Callable[[Array], tuple[Array, Info]]:
    """vector -> what samplers draw from, and its parts."""

    def of(vector: Array) -> tuple[Array, Info]:
        value, (fit, prior, measured) = problem.log_density(vector, batch, pressure)
        return value, Info(value, fit, -prior, measured)

    return of


def averaged(info: Info) -> Info:
    """Means over members; `measured` keeps one row per member."""
    return Info(*(jnp.mean(part) for part in info[:3]), info.measured)


def drawn(problem: Problem, vectors: Array, count: int) -> Draws:
    """The members as draws: all of them, or ``count`` where fewer are wanted."""
    return Draws(*jax.vmap(problem.split)(evenly(vectors, count)))
