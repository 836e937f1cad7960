"""Bayes by Backprop: an independent normal for every weight, fitted by reparameterised gradients.

Reach for it first: it is fast on any network and its draws are whole functions.
Blundell et al., *Weight uncertainty in neural networks*, 2015; the KL here is in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from prbnn.enforcement.measure import Measured
from prbnn.inference.problem import Batch, Problem
from prbnn.model.weights import flatten


class State(NamedTuple):
    """Variational parameters in one vector (means, log sds, likelihood's own), and Adam's memory."""

    parameters: Float[Array, " parameters"]
    optimiser: optax.OptState


class Info(NamedTuple):
    """What a person wants to see of a step; `elbo` is the tempered one, higher is better."""

    elbo: Float[Array, ""]
    log_likelihood: Float[Array, ""]
    kl: Float[Array, ""]
    measured: Measured


@dataclass(frozen=True)
class BayesByBackprop:
    """Options of the engine.

    - `draws`: functions drawn a step
    - `learning_rate`: Adam's, on scaled data
    - `initial_sd`: standard deviation of each weight at the start, as a share of its prior's

    >>> BayesByBackprop(draws=16)
    BayesByBackprop(draws=16, learning_rate=0.003, initial_sd=0.01)
    """

    draws: int = 5
    learning_rate: float = 0.003
    initial_sd: float = 0.01

    def __post_init__(self) -> None:
        for name in ("draws", "learning_rate", "initial_sd"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"BayesByBackprop: {name} must be above 0, got {getattr(self, name)!r}"
                )

    def init(self, problem: Problem) -> State:
        """Start at the network as built, nearly certain: a wide start collapses onto the prior."""
        parameters = jnp.concatenate(
            [
                flatten(problem.network),
                jnp.log(self.initial_sd * problem.prior_sd),
                problem.likelihood_start,
            ]
        )
        return State(parameters, optax.scale_by_adam().init(parameters))

    def _split(self, problem: Problem, parameters: Array) -> tuple[Array, Array, Array]:
        size, own = problem.prior_sd.size, problem.likelihood_start.size
        mean, log_sd, rest = jax.lax.split(parameters, [size, size, own])
        return mean, log_sd, rest

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        rate: Float[Array, ""],
    ) -> tuple[State, Info]:
        """One Adam step on -(ELBO + sum of pressure * f), with ``rate`` scaling the learning rate."""
        half = jax.random.normal(key, ((self.draws + 1) // 2, problem.prior_sd.size))
        # each draw has its mirror image: what is odd in the noise cancels from the gradient
        noise = jnp.concatenate([half, -half])[: self.draws]

        def loss(parameters: Array) -> tuple[Array, Info]:
            mean, log_sd, own = self._split(problem, parameters)
            if not problem.likelihood.learns:
                own = jax.lax.stop_gradient(own)
            weights = mean + jnp.exp(log_sd) * noise
            fit = jnp.mean(jax.vmap(lambda w: problem.log_likelihood(w, own, batch))(weights))
            kl = gaussian_kl(mean, log_sd, problem.prior_mean, problem.prior_sd)
            measured = jax.vmap(lambda w: problem.measure(w, batch))(weights)
            elbo = fit - problem.tempering * kl
            gain = elbo + jnp.sum(pressure * jnp.mean(measured.f, axis=0))
            return -gain, Info(elbo, fit, kl, measured)

        gradient, info = jax.grad(loss, has_aux=True)(state.parameters)
        direction, optimiser = optax.scale_by_adam().update(gradient, state.optimiser)
        change = jax.tree.map(lambda d: -self.learning_rate * rate * d, direction)
        parameters = optax.apply_updates(state.parameters, change)
        return State(jnp.asarray(parameters), optimiser), info

    def draws_of(
        self, problem: Problem, key: Array, state: State, count: int
    ) -> Float[Array, "draws weights"]:
        """``count`` weight vectors from the fitted posterior."""
        mean, log_sd, _ = self._split(problem, state.parameters)
        return mean + jnp.exp(log_sd) * jax.random.normal(key, (count, mean.size))

    def moments(self, problem: Problem, state: State) -> tuple[Array, Array]:
        """Mean and standard deviation of every weight."""
        mean, log_sd, _ = self._split(problem, state.parameters)
        return mean, jnp.exp(log_sd)

    def kl(self, problem: Problem, state: State) -> Array:
        """KL(q || prior), untempered."""
        mean, log_sd, _ = self._split(problem, state.parameters)
        return gaussian_kl(mean, log_sd, problem.prior_mean, problem.prior_sd)

    def likelihood_parameters(self, problem: Problem, state: State) -> Array:
        """The likelihood's own parameters, as fitted."""
        return self._split(problem, state.parameters)[2]


def gaussian_kl(mean: Array, log_sd: Array, prior_mean: Array, prior_sd: Array) -> Array:
    """KL(N(mean, sd^2) || N(prior_mean, prior_sd^2)), summed over weights."""
    ratio = (jnp.exp(2 * log_sd) + (mean - prior_mean) ** 2) / prior_sd**2
    return jnp.sum(jnp.log(prior_sd) - log_sd + 0.5 * (ratio - 1))
