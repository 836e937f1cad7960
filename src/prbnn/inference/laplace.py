"""Laplace: a network trained to its most probable weights, then a normal around its last layer.

Reach for it when a trained network's last layer should say how sure it is, at almost no cost.
MacKay, *A practical Bayesian framework*, 1992; Daxberger et al., *Laplace redux*, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.inference import members
from prbnn.inference.engine import Draws, Engine, Info, Pace, above_zero, hasty_rate
from prbnn.inference.problem import Batch, Problem
from prbnn.rules.strengths import Kind


class State(NamedTuple):
    """The training state of one member, and the last layer's spread once training has ended."""

    member: members.State
    factor: Float[Array, "last last"]


@dataclass(frozen=True)
class Laplace(Engine):
    """Options of the engine.

    - `learning_rate`: Adam's, on scaled data

    Soft rules move the most probable weights; hard rules also do, and then the draws that break them are
    rejected. Strengths that bound an average over draws cannot be trained here.

    >>> Laplace()
    Laplace(learning_rate=0.005)
    """

    learning_rate: float = 0.005

    name: ClassVar[str] = "laplace"
    steps: ClassVar[int] = 4000
    honours: ClassVar[tuple[Kind, ...]] = (Kind.SOFT, Kind.PRIOR, Kind.HARD)
    instead: ClassVar[str] = (
        "training sees the most probable function only, not an average over draws: use .soft(weight) "
        "or .hard() (draws that break it are rejected), or inference='bbb'"
    )

    def __post_init__(self) -> None:
        above_zero(self, "learning_rate")

    def init(self, problem: Problem, key: Array) -> State:
        """The network as built."""
        last = _last(problem)
        return State(members.start(problem, problem.start[None]), jnp.zeros((last, last)))

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """One Adam step on the log posterior + sum of pressure * f."""
        gain = members.log_posterior(problem, batch, pressure)
        member = state.member
        gradient, info = jax.vmap(jax.grad(gain, has_aux=True))(member.vectors, member.anchors)
        moved = members.ascend(member, gradient, self.learning_rate * pace.rate)
        return State(moved, state.factor), members.averaged(info)

    def finish(self, problem: Problem, state: State, batch: Batch) -> State:
        """The covariance of the last layer: the inverse of the log posterior's second derivatives.

        The posterior of the tempered objective is likelihood^(1/tempering) * prior.
        """
        vector, last = state.member.vectors[0], _last(problem)
        first = problem.size - last

        def loss(end: Array) -> Array:
            moved = vector.at[first : problem.size].set(end)
            return -problem.log_likelihood(moved, batch) / problem.tempering

        curvature = jax.hessian(loss)(vector[first : problem.size])
        precision = jnp.diag(1 / problem.prior_sd[first:] ** 2)
        # behind a link the likelihood may have negative curvature; there the prior's precision stays
        values, directions = jnp.linalg.eigh(0.5 * (curvature + curvature.T))
        curvature = (directions * jnp.maximum(values, 0.0)) @ directions.T
        values, directions = jnp.linalg.eigh(curvature + precision)
        return State(state.member, directions / jnp.sqrt(jnp.maximum(values, 1e-12)))

    def draws_of(self, problem: Problem, key: Array, state: State, count: int) -> Draws:
        """Networks that differ in their last layer."""
        vector = state.member.vectors[0]
        noise = jax.random.normal(key, (count, state.factor.shape[0]))
        first = problem.size - state.factor.shape[0]
        weights = jnp.broadcast_to(vector[: problem.size], (count, problem.size))
        own = jnp.broadcast_to(vector[problem.size :], (count, problem.likelihood_start.size))
        return Draws(weights.at[:, first:].add(noise @ state.factor.T), own)

    def hasty(self, factor: float, fastest: float) -> Laplace:
        """The same at a higher rate."""
        return replace(self, learning_rate=hasty_rate(self.learning_rate, factor, fastest))


def _last(problem: Problem) -> int:
    """How many weights the last layer has: the last matrix and what follows it."""
    leaves = [leaf for leaf in jax.tree.leaves(problem.network) if eqx.is_inexact_array(leaf)]
    matrices = [place for place, leaf in enumerate(leaves) if leaf.ndim == 2]
    start = matrices[-1] if matrices else 0
    return sum(leaf.size for leaf in leaves[start:])
