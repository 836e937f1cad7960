"""Stein variational gradient descent: particles that climb the posterior and repel each other.

Reach for it on small networks, where a few hundred particles can represent several modes.
Liu and Wang, *Stein variational gradient descent*, 2016. Rules enter with a plus sign: f is higher
where a rule is violated less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from prbnn.inference.engine import NEEDS_SLOPES, WITH_SLOPES, Draws, Engine, Info, Pace, above_zero
from prbnn.inference.mapping import over_functions
from prbnn.inference.members import averaged, drawn, log_density, restarted
from prbnn.inference.problem import Batch, Problem
from prbnn.rules.strengths import Kind

NEIGHBOURS = 16
# the kernel's width, in medians / log(particles): with 1 the spread of a normal posterior comes out 3 %
# short; with 4 the mean beside a kink of the density, such as a rule's limit, comes out 5 % off
WIDTH = 2.0
# Adam remembers squared gradients for this many steps: particles start where the density is steep, and
# gradients remembered from there would slow them for the rest of the fit
MEMORY = 300
# attraction and repulsion are compared as means over this many steps, since points differ by step
BALANCE_MEMORY = 100


class State(NamedTuple):
    """Particles, Adam's memory, and running means of what moves the particles.

    - `scale`: the unit of steps: the prior's standard deviation of each coordinate, or how far from the
      prior's mean particles start where that is further
    - `direction`, `force`: at a fixed point the density's attraction and the particles' repulsion cancel,
      so that their mean sum is small beside the mean of their sizes
    """

    vectors: Float[Array, "particles vector"]
    scale: Float[Array, " vector"]
    optimiser: optax.OptState
    direction: Float[Array, "particles vector"]
    force: Float[Array, ""]


@dataclass(frozen=True)
class SVGD(Engine):
    """Options of the engine.

    - `particles`: how many vectors
    - `learning_rate`: Adam's, on scaled data
    - `spread`: sd of the noise added to the particles' first weights, in standard deviations of the prior

    >>> SVGD(particles=200)
    SVGD(particles=200, learning_rate=0.01, spread=0.1)
    """

    particles: int = 100
    learning_rate: float = 0.01
    spread: float = 0.1

    name: ClassVar[str] = "svgd"
    endless: ClassVar[bool] = False
    races: ClassVar[bool] = False
    steps: ClassVar[int] = 4000
    honours: ClassVar[tuple[Kind, ...]] = WITH_SLOPES
    instead: ClassVar[str] = NEEDS_SLOPES

    def __post_init__(self) -> None:
        above_zero(self, "particles", "learning_rate", "spread")

    def init(self, problem: Problem, key: Array) -> State:
        """Particles near newly initialised networks."""
        starts, noise = jax.random.split(key)
        vectors = restarted(problem, starts, self.particles)
        shift = jax.random.normal(noise, (self.particles, problem.size)) * problem.prior_sd
        vectors = vectors.at[:, : problem.size].add(self.spread * shift)
        centre = jnp.concatenate([problem.prior_mean, problem.own_prior_mean])
        spread = jnp.concatenate([problem.prior_sd, problem.own_prior_sd])
        far = jnp.sqrt(jnp.mean((vectors - centre) ** 2, axis=0))
        return State(
            vectors,
            jnp.maximum(spread, far),
            _ADAM.init(vectors),
            jnp.zeros_like(vectors),
            jnp.zeros(()),
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
        """One Adam step along the Stein direction of log density + sum of pressure * f."""
        density = log_density(problem, batch, pressure)
        gradient, info = over_functions(
            jax.grad(density, has_aux=True), (state.vectors,), sum(problem.effort(batch))
        )
        attraction, repulsion = stein_forces(state.vectors, gradient)
        scale = state.scale
        direction = (attraction + repulsion) * scale
        step, optimiser = _ADAM.update(direction, state.optimiser)
        moved = state.vectors + self.learning_rate * pace.rate * scale * jnp.asarray(step)
        force = jnp.linalg.norm(attraction * scale) + jnp.linalg.norm(repulsion * scale)
        following = 1 / BALANCE_MEMORY
        return (
            State(
                moved,
                scale,
                optimiser,
                state.direction + following * (direction - state.direction),
                state.force + following * (force - state.force),
            ),
            averaged(info),
        )

    def residual(self, state: State) -> float:
        """The norm of attraction plus repulsion, as a fraction of the sum of their norms."""
        return float(jnp.linalg.norm(state.direction) / jnp.maximum(state.force, 1e-30))

    def draws_of(self, problem: Problem, key: Array, state: State, count: int) -> Draws:
        """The particles."""
        return drawn(problem, state.vectors, count)


_ADAM = optax.scale_by_adam(b2=1 - 1 / MEMORY)


def stein_forces(particles: Array, gradient: Array) -> tuple[Array, Array]:
    """Means over j of k(x_j, x_i) grad_j and of grad_{x_j} k(x_j, x_i), k an RBF of median bandwidth."""
    count = particles.shape[0]
    squares = jnp.sum(particles**2, axis=1)
    distance = jnp.maximum(squares[:, None] + squares[None] - 2 * particles @ particles.T, 0.0)
    # the median over each particle and some of its neighbours in the list: all pairs take long to sort
    others = (jnp.arange(count)[:, None] + jnp.arange(1, min(count, NEIGHBOURS + 1))) % count
    median = jnp.median(jnp.take_along_axis(distance, others, axis=1)) if count > 1 else 1.0
    width = WIDTH * median / jnp.log(count + 1.0) + 1e-8
    kernel = jnp.exp(-distance / width)
    repulsion = (kernel.sum(axis=1)[:, None] * particles - kernel @ particles) * (2 / width)
    return kernel @ gradient / count, repulsion / count
