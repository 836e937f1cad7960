"""Bayes by Backprop: an independent normal for every weight, fitted by reparameterised gradients.

Reach for it first: it is fast on any network and its draws are whole functions.
Blundell et al., *Weight uncertainty in neural networks*, 2015; the KL here is in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from prbnn.inference.engine import Draws, Engine, Info, Pace, above_zero, hasty_rate
from prbnn.inference.problem import Batch, Problem
from prbnn.model.weights import flatten

# the rate at which the usual length of a gradient follows the last ones
CLIP_RATE = 0.02


class State(NamedTuple):
    """Variational parameters in one vector (means, log sds, likelihood's own), Adam's memory, and the
    running mean of the gradient's squared norm."""

    parameters: Float[Array, " parameters"]
    optimiser: optax.OptState
    usual: Float[Array, ""]


@dataclass(frozen=True)
class BayesByBackprop(Engine):
    """Options of the engine.

    - `draws`: functions drawn per step
    - `learning_rate`: Adam's, on scaled data
    - `initial_sd`: standard deviation of each weight at the start, as a fraction of its prior's
    - `clip`: gradients are shortened to this many times their usual length. Recurrent networks have steps
      with far longer ones, and Adam would remember these for `memory` steps. None clips nothing
    - `memory`: for how many steps Adam remembers how large gradients were; rules whose gradients come in
      bursts slow every weight for as long

    >>> BayesByBackprop(draws=16)
    BayesByBackprop(draws=16, learning_rate=0.003, initial_sd=0.01, clip=None, memory=1000)
    """

    draws: int = 5
    learning_rate: float = 0.003
    initial_sd: float = 0.01
    clip: float | None = None
    memory: int = 1000

    name: ClassVar[str] = "bbb"
    steps: ClassVar[int] = 6000

    def __post_init__(self) -> None:
        above_zero(self, "draws", "learning_rate", "initial_sd", "memory")
        if self.clip is not None:
            above_zero(self, "clip")

    def init(self, problem: Problem, key: Array) -> State:
        """Start at the network as built, nearly certain: a wide start collapses onto the prior."""
        parameters = jnp.concatenate(
            [
                flatten(problem.network),
                jnp.log(self.initial_sd * problem.prior_sd),
                problem.likelihood_start,
            ]
        )
        return State(parameters, self._adam.init(parameters), jnp.zeros(()))

    @property
    def _adam(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(b2=1 - 1 / self.memory)

    def _split(self, problem: Problem, parameters: Array) -> tuple[Array, Array, Array]:
        size, own = problem.size, problem.likelihood_start.size
        mean, log_sd, rest = jax.lax.split(parameters, [size, size, own])
        return mean, log_sd, rest

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """One Adam step on -(ELBO + sum of pressure * f)."""
        half = jax.random.normal(key, ((self.draws + 1) // 2, problem.size))
        # antithetic draws: terms that are odd in the noise cancel from the gradient
        noise = jnp.concatenate([half, -half])[: self.draws]

        def loss(parameters: Array) -> tuple[Array, Info]:
            mean, log_sd, own = self._split(problem, parameters)
            vectors = jax.vmap(lambda n: jnp.concatenate([mean + jnp.exp(log_sd) * n, own]))(noise)
            fit = jnp.mean(jax.vmap(lambda v: problem.log_likelihood(v, batch))(vectors))
            kl = gaussian_kl(mean, log_sd, problem.prior_mean, problem.prior_sd)
            measured = jax.vmap(lambda v: problem.measure(v, batch))(vectors)
            elbo = fit - problem.tempering * kl
            gain = elbo + jnp.sum(pressure * jnp.mean(measured.f, axis=0))
            return -gain, Info(elbo, fit, kl, measured)

        gradient, info = jax.grad(loss, has_aux=True)(state.parameters)
        gradient, usual = self._clipped(gradient, state.usual)
        direction, optimiser = self._adam.update(gradient, state.optimiser)
        change = jax.tree.map(lambda d: -self.learning_rate * pace.rate * d, direction)
        parameters = optax.apply_updates(state.parameters, change)
        return State(jnp.asarray(parameters), optimiser, usual), info

    def _clipped(self, gradient: Array, usual: Array) -> tuple[Array, Array]:
        """The gradient, no longer than ``clip`` times the usual; and the usual square after it."""
        if self.clip is None:
            return gradient, usual
        square = jnp.sum(gradient**2)
        most = jnp.where(usual > 0, self.clip**2 * usual, square)
        taken = jnp.minimum(square, most)
        shorter = jnp.sqrt(taken / jnp.maximum(square, 1e-30))
        return gradient * shorter, usual + (taken - usual) * jnp.where(usual > 0, CLIP_RATE, 1.0)

    def draws_of(self, problem: Problem, key: Array, state: State, count: int) -> Draws:
        """``count`` weight vectors from the fitted posterior."""
        mean, log_sd, own = self._split(problem, state.parameters)
        weights = mean + jnp.exp(log_sd) * jax.random.normal(key, (count, mean.size))
        return Draws(weights, jnp.broadcast_to(own, (count, own.size)))

    def hasty(self, factor: float, fastest: float) -> BayesByBackprop:
        """The same at a higher rate."""
        return replace(self, learning_rate=hasty_rate(self.learning_rate, factor, fastest))

    def moments(self, problem: Problem, state: State) -> tuple[Array, Array]:
        """Mean and standard deviation of every weight."""
        mean, log_sd, _ = self._split(problem, state.parameters)
        return mean, jnp.exp(log_sd)

    def kl(self, problem: Problem, state: State) -> Array:
        """KL(q || prior), untempered."""
        mean, log_sd, _ = self._split(problem, state.parameters)
        return gaussian_kl(mean, log_sd, problem.prior_mean, problem.prior_sd)


def gaussian_kl(mean: Array, log_sd: Array, prior_mean: Array, prior_sd: Array) -> Array:
    """KL(N(mean, sd^2) || N(prior_mean, prior_sd^2)), summed over weights."""
    ratio = (jnp.exp(2 * log_sd) + (mean - prior_mean) ** 2) / prior_sd**2
    return jnp.sum(jnp.log(prior_sd) - log_sd + 0.5 * (ratio - 1))
