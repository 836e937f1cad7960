"""Monte Carlo dropout: one network, hidden units switched off at random in training and after.

Reach for it when a network was going to be trained with dropout anyway; its bands are rough.
Gal and Ghahramani, *Dropout as a Bayesian approximation*, 2016. A draw is one network, its mask
multiplied into the weights, so that a drawn function is the same function at every input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from prbnn.inference.engine import Draws, Engine, Info, Pace, above_zero, hasty_rate
from prbnn.inference.problem import Batch, Problem
from prbnn.inference.slopes import slopes_of


class State(NamedTuple):
    """The network's weights with the likelihood's own parameters, and Adam's memory."""

    vector: Float[Array, " vector"]
    optimiser: optax.OptState


@dataclass(frozen=True)
class Dropout(Engine):
    """Options of the engine.

    - `rate`: fraction of hidden units switched off in a draw
    - `draws`: masks drawn per step
    - `learning_rate`: Adam's, on scaled data

    >>> Dropout(rate=0.1)
    Dropout(rate=0.1, draws=5, learning_rate=0.005)
    """

    rate: float = 0.05
    draws: int = 5
    learning_rate: float = 0.005

    name: ClassVar[str] = "dropout"
    steps: ClassVar[int] = 6000

    def __post_init__(self) -> None:
        above_zero(self, "rate", "draws", "learning_rate")
        if not self.rate < 1:
            raise ValueError(f"Dropout: rate must be below 1, got {self.rate!r}")

    def init(self, problem: Problem, key: Array) -> State:
        """The network as built."""
        return State(problem.start, optax.scale_by_adam().init(problem.start))

    def masks(self, problem: Problem, key: Array, count: int) -> Float[Array, "count weights"]:
        """``count`` masks: factors of every weight, 0 for those that read a unit switched off."""
        leaves = [leaf for leaf in jax.tree.leaves(problem.network) if eqx.is_inexact_array(leaf)]
        dropped = _hidden(problem.network, leaves)
        parts = []
        for place, leaf in enumerate(leaves):
            if place not in dropped:
                parts.append(jnp.ones((count, leaf.size)))
                continue
            keep = jax.random.bernoulli(
                jax.random.fold_in(key, place), 1 - self.rate, (count, 1, leaf.shape[1])
            )
            factor = jnp.where(dropped[place], keep / (1 - self.rate), 1.0)
            factor = jnp.broadcast_to(factor, (count, *leaf.shape))
            parts.append(factor.reshape(count, leaf.size))
        return jnp.concatenate(parts, axis=1)

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """One Adam step on log likelihood - tempering * weight decay + sum of pressure * f."""
        masks = self.masks(problem, key, self.draws)
        weights, own = problem.split(state.vector)
        owns = jnp.broadcast_to(own, (self.draws, own.size))

        vectors = jnp.concatenate([weights * masks, owns], axis=1)
        slope, fit, measured = slopes_of(problem, vectors, batch, pressure)
        through = jnp.concatenate([masks, jnp.ones_like(owns)], axis=1)

        # up to a constant, the KL of a mixture of two narrow normals is weight decay
        def decay(vector: Array) -> Array:
            return -(1 - self.rate) * problem.log_prior(vector)

        cost, pull = jax.value_and_grad(decay)(state.vector)
        gradient = problem.tempering * pull - jnp.mean(slope * through, axis=0)
        fit = jnp.mean(fit)
        info = Info(fit - problem.tempering * cost, fit, cost, measured)
        direction, optimiser = optax.scale_by_adam().update(gradient, state.optimiser)
        vector = state.vector - self.learning_rate * pace.rate * jnp.asarray(direction)
        return State(vector, optimiser), info

    def draws_of(self, problem: Problem, key: Array, state: State, count: int) -> Draws:
        """The network under ``count`` masks."""
        weights, own = problem.split(state.vector)
        masked = weights * self.masks(problem, key, count)
        return Draws(masked, jnp.broadcast_to(own, (count, own.size)))

    def hasty(self, factor: float, fastest: float) -> Dropout:
        """The same at a higher rate."""
        return replace(self, learning_rate=hasty_rate(self.learning_rate, factor, fastest))


def _hidden(network: Any, leaves: list[Array]) -> dict[int, np.ndarray]:
    """Which matrices (by place among the leaves) read hidden units, and which of their columns do.

    Inputs stay on.
    """
    matrices = [place for place, leaf in enumerate(leaves) if leaf.ndim == 2]
    stated = network.hidden_sources() if hasattr(network, "hidden_sources") else None
    if stated is None:
        # the first matrix reads the inputs
        stated = [np.full(leaves[place].shape[1], place != matrices[0]) for place in matrices]
    found = {k: hidden for k, hidden in zip(matrices, stated, strict=True) if hidden.any()}
    # a network without hidden units has nothing else to switch off
    return found or {place: np.ones(leaves[place].shape[1], bool) for place in matrices}
