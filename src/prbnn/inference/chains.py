"""What samplers share: chains that keep a reservoir of draws of fixed size."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from prbnn.inference.engine import Draws, Pace, evenly
from prbnn.inference.problem import Problem


class Reservoir(NamedTuple):
    """Kept draws of every chain, and what went wrong on the way."""

    vectors: Float[Array, "chains keep vector"]
    divergences: Int[Array, ""]
    acceptance: Float[Array, ""]
    counted: Float[Array, ""]


def empty(chains: Float[Array, "chains vector"], keep: int) -> Reservoir:
    """Filled with where the chains are, until there is something to keep."""
    vectors = jnp.repeat(chains[:, None], keep, axis=1)
    return Reservoir(vectors, jnp.zeros((), int), jnp.zeros(()), jnp.zeros(()))


def put(
    reservoir: Reservoir, chains: Array, pace: Pace, divergent: Array, acceptance: Array
) -> Reservoir:
    """Keep the chains' positions once warm: the last of each of equally long stretches."""
    keep = reservoir.vectors.shape[1]
    slot = jnp.minimum((pace.kept * keep).astype(int), keep - 1)
    vectors = jnp.where(pace.warming, reservoir.vectors, reservoir.vectors.at[:, slot].set(chains))
    counts = jnp.where(pace.warming, 0.0, 1.0)
    return Reservoir(
        vectors,
        reservoir.divergences + jnp.where(pace.warming, 0, jnp.sum(divergent)),
        reservoir.acceptance + counts * jnp.mean(acceptance),
        reservoir.counted + counts,
    )


def drawn(problem: Problem, reservoir: Reservoir, count: int) -> Draws:
    """Kept draws of all chains together."""
    vectors = reservoir.vectors.reshape(-1, reservoir.vectors.shape[-1])
    return Draws(*jax.vmap(problem.split)(evenly(vectors, count)))
