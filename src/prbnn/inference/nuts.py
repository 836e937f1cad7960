"""NUTS: chains of Hamiltonian Monte Carlo that choose their own path lengths.

Reach for it when the posterior itself is wanted, on networks of up to a few thousand weights.
Hoffman and Gelman, *The No-U-Turn sampler*, 2014; BlackJAX moves the chains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.inference.engine import Info, Pace, above_zero
from prbnn.inference.members import averaged, log_density, restarted
from prbnn.inference.problem import Batch, Problem
from prbnn.inference.reservoir import Reservoir, empty, put
from prbnn.inference.sampler import Sampler

FIRST_WINDOW = 25
FIRST_STEP = 0.01
# the parts of the warm-up between which the mass matrix is learned; before and after, the step size alone
SLOW = (0.1, 0.9)


class Spread(NamedTuple):
    """Welford's running variance within chains, over a window of steps."""

    mean: Float[Array, "chains vector"]
    squares: Float[Array, " vector"]
    count: Float[Array, ""]
    window: Float[Array, ""]


class State(NamedTuple):
    """Chains, the step size and mass matrix adapted so far, and the draws kept."""

    chains: Float[Array, "chains vector"]
    step_size: Any
    inverse_mass: Float[Array, " vector"]
    spread: Spread
    reservoir: Reservoir


@dataclass(frozen=True)
class NUTS(Sampler):
    """Options of the engine.

    - `chains`: how many chains run side by side
    - `keep`: draws kept per chain
    - `doublings`: a path has at most 2^doublings steps
    - `target`: acceptance the step size is tuned to

    >>> NUTS(chains=2)
    NUTS(chains=2, keep=250, doublings=8, target=0.8)
    """

    doublings: int = 8
    target: float = 0.8

    name: ClassVar[str] = "nuts"
    block: ClassVar[int] = 20
    full_batch: ClassVar[bool] = True
    steps: ClassVar[int] = 1000
    chunk: ClassVar[int] = 20

    def __post_init__(self) -> None:
        above_zero(self, "chains", "keep", "doublings", "target")
        if not self.target < 1:
            raise ValueError(f"NUTS: target must be below 1, got {self.target!r}")

    def init(self, problem: Problem, key: Array) -> State:
        """Every chain at a newly initialised network."""
        start = restarted(problem, key, self.chains)
        begin, _, _ = self._tuning()
        mass = jnp.concatenate([problem.prior_sd, problem.own_prior_sd]) ** 2
        return State(
            start,
            _typed(begin(FIRST_STEP)),
            mass,
            _no_spread(start, jnp.asarray(float(FIRST_WINDOW))),
            empty(start, self.keep, problem.rules),
        )

    def _tuning(self) -> tuple:
        from blackjax.adaptation.step_size import dual_averaging_adaptation

        return dual_averaging_adaptation(self.target)

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """One transition of every chain.

        The rules' points stay the same from step to step, since a density must not change. The indicator
        of a probable rule has no slope; it counts through the accept step.
        """
        from blackjax.mcmc import hmc, nuts

        batch = batch._replace(points_start=jnp.zeros_like(batch.points_start))
        with_parts = log_density(problem, batch, pressure)

        def density(vector: Array) -> Array:
            return with_parts(vector)[0]

        _, tune, tuned = self._tuning()
        size = jnp.where(
            pace.warming, jnp.exp(state.step_size.log_step_size), tuned(state.step_size)
        )
        kernel = nuts.build_kernel()

        def move(key: Array, vector: Array) -> tuple[Array, Array, Array]:
            start = hmc.init(vector, density)
            moved, info = kernel(key, start, density, size, state.inverse_mass, self.doublings)
            return moved.position, info.is_divergent, info.acceptance_rate

        keys = jax.random.split(key, self.chains)
        moved, divergent, accepted = jax.vmap(move)(keys, state.chains)
        _, info = jax.vmap(with_parts)(moved)
        step_size = _when(pace.warming, tune(state.step_size, jnp.mean(accepted)), state.step_size)
        state = state._replace(chains=moved, step_size=step_size)
        return (
            self._learn(state, pace)._replace(
                reservoir=put(state.reservoir, moved, info.measured.f, pace, divergent, accepted)
            ),
            averaged(info),
        )

    def _learn(self, state: State, pace: Pace) -> State:
        """Take the chains' positions in; at the end of a window, take its mass and start a longer one."""
        learning = (pace.warmed >= SLOW[0]) & (pace.warmed < SLOW[1])
        old = state.spread
        count = old.count + 1
        mean = old.mean + (state.chains - old.mean) / count
        squares = old.squares + jnp.mean((state.chains - old.mean) * (state.chains - mean), axis=0)
        spread = _when(learning, Spread(mean, squares, count, old.window), old)
        ends = learning & (spread.count >= spread.window)
        variance = spread.squares / jnp.maximum(spread.count - 1, 1)
        # regularised towards a small number, as in Stan
        weight = spread.count / (spread.count + 5)
        mass = weight * variance + (1 - weight) * 1e-3
        begin, _, tuned = self._tuning()
        return state._replace(
            inverse_mass=jnp.where(ends, mass, state.inverse_mass),
            step_size=_when(ends, _typed(begin(tuned(state.step_size))), state.step_size),
            spread=_when(ends, _no_spread(state.chains, 2 * spread.window), spread),
        )


def _no_spread(start: Array, window: Array) -> Spread:
    return Spread(jnp.zeros_like(start), jnp.zeros(start.shape[1]), jnp.zeros(()), window)


def _typed(state: Any) -> Any:
    """Numbers as strongly typed arrays: weakly typed ones would compile the loop twice."""
    kind = jnp.zeros(()).dtype
    return jax.tree.map(
        lambda a: jnp.asarray(a, jnp.int32 if jnp.issubdtype(jnp.asarray(a).dtype, int) else kind),
        state,
    )


def _when(condition: Array, then: Any, otherwise: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), then, otherwise)
