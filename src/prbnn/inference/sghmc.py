"""SGHMC: Hamiltonian chains with friction, whose gradients are of a batch of rows.

Reach for it when the posterior itself is wanted and there are too many rows for NUTS.
Chen et al., *Stochastic gradient Hamiltonian Monte Carlo*, 2014; Leimkuhler and Matthews' splitting
keeps the error of a step small, and weights are scaled by the spread their gradients suggest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from prbnn.inference.engine import NEEDS_SLOPES, WITH_SLOPES, Info, Pace, above_zero
from prbnn.inference.members import averaged, log_density, restarted
from prbnn.inference.problem import Batch, Problem
from prbnn.inference.reservoir import Reservoir, empty, put
from prbnn.inference.sampler import Sampler
from prbnn.rules.strengths import Kind

# the fraction of the warm-up that climbs to where the posterior is; then gradients are measured
CLIMBING = 0.2
# learning rate of the climb, in standard deviations of the prior
CLIMBING_RATE = 0.01
# steps that the mean square of gradients remembers
GRADIENT_MEMORY = 200


class State(NamedTuple):
    """Chains with velocities and gradients, the gradients' mean square, and the draws kept."""

    chains: Float[Array, "chains vector"]
    velocity: Float[Array, "chains vector"]
    gradient: Float[Array, "chains vector"]
    squares: Float[Array, " vector"]
    optimiser: optax.OptState
    reservoir: Reservoir


@dataclass(frozen=True)
class SGHMC(Sampler):
    """Options of the engine.

    - `chains`: how many chains run side by side
    - `keep`: draws kept per chain
    - `step_size`: in standard deviations of the posterior; smaller is more exact
    - `friction`: the rate at which velocities decay, per unit of time

    >>> SGHMC(chains=2)
    SGHMC(chains=2, keep=250, step_size=0.1, friction=1.0)
    """

    step_size: float = 0.1
    friction: float = 1.0

    name: ClassVar[str] = "sghmc"
    block: ClassVar[int] = 100
    steps: ClassVar[int] = 20_000
    chunk: ClassVar[int] = 500
    honours: ClassVar[tuple[Kind, ...]] = WITH_SLOPES
    instead: ClassVar[str] = NEEDS_SLOPES

    def __post_init__(self) -> None:
        above_zero(self, "chains", "keep", "step_size", "friction")

    def init(self, problem: Problem, key: Array) -> State:
        """Every chain at a newly initialised network, at rest."""
        start = restarted(problem, key, self.chains)
        return State(
            start,
            jnp.zeros_like(start),
            jnp.zeros_like(start),
            jnp.ones(start.shape[1]),
            optax.scale_by_adam().init(start),
            empty(start, self.keep, problem.rules),
        )

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """Half a kick, half a drift, friction and noise, half a drift, half a kick."""
        climbing = pace.warmed < CLIMBING
        scale = self._scale(problem, state)
        half = 0.5 * self.step_size * scale
        kept = jnp.exp(-self.friction * self.step_size)
        noise = jax.random.normal(key, state.chains.shape)
        before = state.velocity + half * state.gradient
        velocity = kept * before + jnp.sqrt(1 - kept**2) * noise
        climbed, optimiser = self._climb(problem, state)
        moved = jnp.where(climbing, climbed, state.chains + half * (before + velocity))

        density = log_density(problem, batch, pressure)
        gradient, info = jax.vmap(jax.grad(density, has_aux=True))(moved)
        following = jnp.where(pace.warming, 1 / GRADIENT_MEMORY, 0.0)
        # a dual that moves pulls all chains alike, and their common gradient is no part of their spread
        common = jnp.mean(gradient, axis=0) if self.chains > 1 else 0.0
        found = jnp.sum((gradient - common) ** 2, axis=0) / max(self.chains - 1, 1)
        return (
            State(
                moved,
                jnp.where(climbing, noise, velocity + half * gradient),
                gradient,
                state.squares + following * (found - state.squares),
                optimiser,
                put(
                    state.reservoir,
                    moved,
                    info.measured.f,
                    pace,
                    ~jnp.isfinite(info.objective),
                    jnp.ones(()),
                ),
            ),
            averaged(info),
        )

    def _scale(self, problem: Problem, state: State) -> Float[Array, " vector"]:
        """About each weight's posterior sd: at equilibrium the variance of gradients is the precision."""
        prior = jnp.concatenate([problem.prior_sd, problem.own_prior_sd]) ** -2
        return 1 / jnp.sqrt(jnp.maximum(state.squares, prior))

    def _climb(self, problem: Problem, state: State) -> tuple[Array, optax.OptState]:
        direction, optimiser = optax.scale_by_adam().update(state.gradient, state.optimiser)
        prior = jnp.concatenate([problem.prior_sd, problem.own_prior_sd])
        return state.chains + CLIMBING_RATE * prior * jnp.asarray(direction), optimiser
