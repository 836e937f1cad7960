"""Bayes by Backprop: an independent normal for every weight, fitted by reparameterised gradients.

Reach for it first: it is fast on any network and its draws are whole functions. With several members,
each is such a posterior from a start of its own, all trained side by side; their mixture has less of the
luck of a start, and is wider where the starts disagree.
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
from prbnn.inference.members import restarted
from prbnn.inference.problem import Batch, Problem
from prbnn.inference.slopes import slopes_of

# the rate at which the usual length of a gradient follows the last ones
CLIP_RATE = 0.02


class State(NamedTuple):
    """Variational parameters (means, log sds, likelihood's own), one row per member, Adam's memory, and
    the running mean of each member's squared gradient norm."""

    parameters: Float[Array, "members parameters"]
    optimiser: optax.OptState
    usual: Float[Array, " members"]


@dataclass(frozen=True)
class BayesByBackprop(Engine):
    """Options of the engine.

    - `draws`: functions drawn per step, of each member
    - `learning_rate`: Adam's, on scaled data
    - `initial_sd`: standard deviation of each weight at the start, as a fraction of its prior's
    - `clip`: gradients are shortened to this many times their usual length. Recurrent networks have steps
      with far longer ones, and Adam would remember these for `memory` steps. None clips nothing
    - `memory`: for how many steps Adam remembers how large gradients were; rules whose gradients come in
      bursts slow every weight for as long
    - `members`: posteriors trained side by side, each from its own start; draws come from all of them

    >>> BayesByBackprop(draws=2, members=4)
    BayesByBackprop(draws=2, learning_rate=0.003, initial_sd=0.01, clip=None, memory=1000, members=4)
    """

    draws: int = 5
    learning_rate: float = 0.003
    initial_sd: float = 0.01
    clip: float | None = None
    memory: int = 1000
    members: int = 1

    name: ClassVar[str] = "bbb"
    steps: ClassVar[int] = 6000

    def __post_init__(self) -> None:
        above_zero(self, "draws", "learning_rate", "initial_sd", "memory", "members")
        if self.clip is not None:
            above_zero(self, "clip")

    def init(self, problem: Problem, key: Array) -> State:
        """Start at the network as built, nearly certain: a wide start collapses onto the prior.

        Members after the first start at newly initialised networks.
        """
        starts = [problem.start]
        if self.members > 1:
            starts.extend(restarted(problem, key, self.members - 1))
        vectors = jnp.stack(starts)
        weights, own = vectors[:, : problem.size], vectors[:, problem.size :]
        log_sd = jnp.broadcast_to(jnp.log(self.initial_sd * problem.prior_sd), weights.shape)
        parameters = jnp.concatenate([weights, log_sd, own], axis=1)
        return State(parameters, self._adam.init(parameters), jnp.zeros(self.members))

    @property
    def _adam(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(b2=1 - 1 / self.memory)

    def _split(self, problem: Problem, parameters: Array) -> tuple[Array, Array, Array]:
        """Means, log sds and the likelihood's own parameters, of one member or of all."""
        size = problem.size
        return parameters[..., :size], parameters[..., size : 2 * size], parameters[..., 2 * size :]

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """One Adam step of every member on its own -(ELBO + sum of pressure * f)."""
        half = jax.random.normal(key, (self.members, (self.draws + 1) // 2, problem.size))
        # antithetic draws: terms that are odd in the noise cancel from the gradient
        noise = jnp.concatenate([half, -half], axis=1)[:, : self.draws]
        mean, log_sd, own = self._split(problem, state.parameters)
        sd = jnp.exp(log_sd)[:, None]
        weights = mean[:, None] + sd * noise
        own = jnp.broadcast_to(own[:, None], (*weights.shape[:2], own.shape[1]))
        vectors = jnp.concatenate([weights, own], axis=2)

        functions = vectors.reshape(-1, vectors.shape[2])
        slope, fit, measured = slopes_of(problem, functions, batch, pressure)
        slope = slope.reshape(vectors.shape)
        by_weight, by_own = slope[:, :, : problem.size], slope[:, :, problem.size :]
        # weights are mean + sd * noise, so these are the slopes of the mean and of the log sd
        by_mean, by_log_sd = (
            jnp.mean(part, axis=1) for part in (by_weight, by_weight * sd * noise)
        )
        divergence = jax.vmap(
            jax.value_and_grad(gaussian_kl, argnums=(0, 1)), in_axes=(0, 0, None, None)
        )
        kl, cost = divergence(mean, log_sd, problem.prior_mean, problem.prior_sd)
        gradient = jnp.concatenate(
            [
                problem.tempering * cost[0] - by_mean,
                problem.tempering * cost[1] - by_log_sd,
                -jnp.mean(by_own, axis=1),
            ],
            axis=1,
        )
        gradient, usual = self._clipped(gradient, state.usual)
        direction, optimiser = self._adam.update(gradient, state.optimiser)
        change = jax.tree.map(lambda d: -self.learning_rate * pace.rate * d, direction)
        parameters = optax.apply_updates(state.parameters, change)
        fit, kl = jnp.mean(fit), jnp.mean(kl)
        info = Info(fit - problem.tempering * kl, fit, kl, measured)
        return State(jnp.asarray(parameters), optimiser, usual), info

    def _clipped(self, gradient: Array, usual: Array) -> tuple[Array, Array]:
        """Gradients, none longer than ``clip`` times the usual; and the usual square after them."""
        if self.clip is None:
            return gradient, usual
        square = jnp.sum(gradient**2, axis=1)
        most = jnp.where(usual > 0, self.clip**2 * usual, square)
        taken = jnp.minimum(square, most)
        shorter = jnp.sqrt(taken / jnp.maximum(square, 1e-30))
        follow = jnp.where(usual > 0, CLIP_RATE, 1.0)
        return gradient * shorter[:, None], usual + (taken - usual) * follow

    def draws_of(self, problem: Problem, key: Array, state: State, count: int) -> Draws:
        """``count`` weight vectors from the fitted posterior, of one member after the other in turn."""
        mean, log_sd, own = self._split(problem, state.parameters)
        member = jnp.arange(count) % self.members
        noise = jax.random.normal(key, (count, problem.size))
        return Draws(mean[member] + jnp.exp(log_sd[member]) * noise, own[member])

    def hasty(self, factor: float, fastest: float) -> BayesByBackprop:
        """One member at a higher rate."""
        rate = hasty_rate(self.learning_rate, factor, fastest)
        return replace(self, learning_rate=rate, members=1)

    def moments(self, problem: Problem, state: State) -> tuple[Array, Array]:
        """Mean and standard deviation of every weight."""
        mean, log_sd, _ = self._split(problem, state.parameters)
        variance = jnp.mean(jnp.exp(2 * log_sd), axis=0) + jnp.var(mean, axis=0)
        return jnp.mean(mean, axis=0), jnp.sqrt(variance)

    def elbo(self, problem: Problem, state: State, draws: Draws, batch: Batch) -> Array:
        """With the mean KL(q || prior) of the members, which the mixture's is below."""
        vectors = jnp.concatenate(draws, axis=1)
        fits = jax.lax.map(lambda v: problem.log_likelihood(v, batch), vectors, batch_size=64)
        mean, log_sd, _ = self._split(problem, state.parameters)
        each = jax.vmap(gaussian_kl, in_axes=(0, 0, None, None))
        return jnp.mean(fits) - jnp.mean(each(mean, log_sd, problem.prior_mean, problem.prior_sd))


def gaussian_kl(
    mean: Array, log_sd: Array, prior_mean: Array | float, prior_sd: Array | float
) -> Array:
    """KL(N(mean, sd^2) || N(prior_mean, prior_sd^2)), summed over weights."""
    ratio = (jnp.exp(2 * log_sd) + (mean - prior_mean) ** 2) / prior_sd**2
    return jnp.sum(jnp.log(prior_sd) - log_sd + 0.5 * (ratio - 1))
