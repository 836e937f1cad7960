"""The draws that a sampler's chains keep, evenly spread over the steps after their warm-up."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from prbnn.inference.engine import Draws, Pace
from prbnn.inference.problem import Problem


class Reservoir(NamedTuple):
    """Draws kept per chain, and counts over the steps after the warm-up.

    - `vectors`: the kept draws; only the first `filled` per chain were drawn, the rest are zeros
    - `f`: the value of f of each kept draw and rule
    - `due`: decides when the next draw is kept; see `put`
    - `divergences`, `acceptance`: summed over the `counted` steps
    """

    vectors: Float[Array, "chains keep vector"]
    f: Float[Array, "chains keep rules"]
    filled: Int[Array, ""]
    due: Int[Array, ""]
    divergences: Int[Array, ""]
    acceptance: Float[Array, ""]
    counted: Float[Array, ""]


def empty(chains: Float[Array, "chains vector"], keep: int, rules: int) -> Reservoir:
    """A reservoir for ``keep`` draws per chain, with none in it."""
    count, size = chains.shape
    nothing = jnp.zeros((), jnp.int32)
    return Reservoir(
        jnp.zeros((count, keep, size), chains.dtype),
        jnp.zeros((count, keep, rules), chains.dtype),
        nothing,
        nothing,
        nothing,
        jnp.zeros(()),
        jnp.zeros(()),
    )


def put(
    reservoir: Reservoir,
    chains: Float[Array, "chains vector"],
    f: Float[Array, "chains rules"],
    pace: Pace,
    divergent: Array,
    acceptance: Array,
) -> Reservoir:
    """Keep the chains' positions once warm: the last step of each of ``keep`` equally long stretches.

    `due` grows by ``keep`` per step, and a draw is kept whenever it reaches the number of steps after the
    warm-up; these are whole numbers, so that no place is skipped. Where there are fewer steps than
    places, every step's position is kept, and the places that remain stay unfilled.
    """
    places = reservoir.vectors.shape[1]
    due = reservoir.due + jnp.minimum(places, pace.keeping)
    keeps = ~pace.warming & (due >= pace.keeping) & (reservoir.filled < places)
    place = jnp.minimum(reservoir.filled, places - 1)

    def kept(held: Array, new: Array) -> Array:
        return jnp.where(keeps, held.at[:, place].set(new), held)

    counts = jnp.where(pace.warming, 0.0, 1.0)
    return Reservoir(
        kept(reservoir.vectors, chains),
        kept(reservoir.f, f),
        reservoir.filled + keeps.astype(jnp.int32),
        jnp.where(pace.warming, 0, due - jnp.where(due >= pace.keeping, pace.keeping, 0)),
        reservoir.divergences + jnp.where(pace.warming, 0, jnp.sum(divergent)).astype(jnp.int32),
        reservoir.acceptance + counts * jnp.mean(acceptance),
        reservoir.counted + counts,
    )


def available(reservoir: Reservoir) -> int:
    """How many draws all chains together have; one per chain before any was kept, its position."""
    return reservoir.vectors.shape[0] * max(1, int(reservoir.filled))


def drawn(
    problem: Problem, reservoir: Reservoir, chains: Float[Array, "chains vector"], count: int
) -> Draws:
    """``count`` of the kept draws, chain after chain, or each chain's position where none was kept yet.

    ``count`` is at most `available`.
    """
    each = jnp.maximum(reservoir.filled, 1)
    held = reservoir.vectors.at[:, 0].set(
        jnp.where(reservoir.filled > 0, reservoir.vectors[:, 0], chains)
    )
    # the k-th of `count` is at (k * total) // count; in two parts, since the product overflows early
    whole, rest = jnp.divmod(chains.shape[0] * each, count)
    order = jnp.arange(count)
    place = order * whole + (order * rest) // count
    return Draws(*jax.vmap(problem.split)(held[place // each, place % each]))
