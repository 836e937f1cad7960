"""Simulation-based calibration: does a posterior hold the truth as often as it says?

Weights are drawn from the prior, data from the likelihood under these weights, and an engine draws from
its posterior of these data. Over many such simulations the rank of the truth among the draws is uniform
if, and for all practical purposes only if, the engine draws from the posterior: truths in the outer ranks
too often mean draws that are too narrow, and in the inner ranks too often draws that are too wide.
Talts et al., *Validating Bayesian inference algorithms with simulation-based calibration*, 2018.

Ranked are values of the function at some inputs and the log likelihood of the data. Weights of a network
are not: those of its hidden units can be exchanged without changing the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.stats import chisquare

from prbnn import MLP, Gaussian, Normal
from prbnn.fitting.loop import all_rows, finish, run_chunk, start
from prbnn.fitting.prepare import prepare
from prbnn.fitting.task import Task
from prbnn.fitting.train import budget_of
from prbnn.inference.engine import Engine
from prbnn.system.process import one_blas_thread

SIMULATIONS, DRAWS = 640, 63
# ranks are counted in this many bins
BINS = 16
# simulations of one program; chains of NUTS wait for the longest path among those beside them
SIDE_BY_SIDE = 64
# ranks with a smaller p value than this are not uniform
UNIFORM = 0.01
LOG_LIKELIHOOD = "log likelihood"


@dataclass(frozen=True)
class Generated:
    """A network with an N(0, 1) prior, the rows of its data, and where its function is ranked.

    - `x`: the inputs of the rows
    - `noise`: standard deviation of the targets around the function
    - `ranked`: inputs at which the function's value is ranked
    """

    network: MLP
    x: tuple[float, ...]
    noise: float
    ranked: tuple[float, ...]

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is ranked, in words."""
        return (*(f"f({at:g})" for at in self.ranked), LOG_LIKELIHOOD)

    def task(self, engine: Engine) -> Task:
        """A fit of ``engine`` to a table without its targets, which differ by simulation."""
        return prepare(
            self.network,
            np.array(self.x)[:, None],
            np.array(self.x),
            (),
            inference=engine,
            likelihood=Gaussian(self.noise),
            prior=Normal(),
            tempering=1.0,
            scaling="none",
            points=1,
            rejection=None,
            sample_weight=None,
            columns=None,
            outputs=None,
            seed=0,
        )


# the line of tests/truths; its value at 8 is far from the data
LINE = Generated(MLP(hidden=()), (0.0, 1.0, 2.0, 3.0, 4.0), 0.5, (0.0, 2.0, 8.0))
NETWORK = Generated(
    MLP(hidden=(5,), activation="tanh"), (-2.0, -1.5, -1.0, -0.5, 0.5, 1.0), 0.5, (-1.0, 0.0, 3.0)
)
MODELS = {"line": LINE, "network": NETWORK}


@dataclass(frozen=True, eq=False)
class Simulations:
    """The truths of many simulations, and the draws of each one's posterior.

    - `truths`: (simulations, quantities)
    - `draws`: (simulations, draws, quantities)
    """

    quantities: tuple[str, ...]
    truths: np.ndarray
    draws: np.ndarray

    @property
    def ranks(self) -> np.ndarray:
        """(simulations, quantities): how many draws lie below the truth."""
        return np.sum(self.draws < self.truths[:, None], axis=1)

    def narrowed(self, factor: float) -> Simulations:
        """The same with the standard deviation of each posterior times ``factor``."""
        centre = self.draws.mean(axis=1, keepdims=True)
        return Simulations(self.quantities, self.truths, centre + factor * (self.draws - centre))


@one_blas_thread()
def simulate(
    model: Generated, engine: Engine, steps: int, simulations: int = SIMULATIONS, seed: int = 3
) -> Simulations:
    """Fit ``engine`` for ``steps`` steps to the data of each simulation, many side by side."""
    task = model.task(engine)
    schedule = budget_of(task, steps).schedule
    problem = task.problem
    ranked = jnp.asarray(model.ranked)[:, None]

    def one(key: Array) -> tuple[Array, Array]:
        weights_key, noise_key, fit_key, draws_key = jax.random.split(key, 4)
        truth = problem.prior_mean + problem.prior_sd * jax.random.normal(
            weights_key, (problem.size,)
        )
        truth = jnp.concatenate([truth, problem.likelihood_start])
        clean = jax.vmap(problem.function(truth))(task.data.x)
        noise = model.noise * jax.random.normal(noise_key, clean.shape)
        data = task.data._replace(y=jnp.where(task.data.weight[:, None] > 0, clean + noise, 0.0))
        carry = start(engine, problem, task.enforcement, fit_key)
        parts = (engine, problem, task.enforcement, data, schedule, carry)
        carry, _ = run_chunk(*parts, jnp.asarray(steps), None)
        state = finish(engine, problem, carry.engine, data)
        draws = jnp.concatenate(engine.draws_of(problem, draws_key, state, DRAWS), axis=1)

        def quantities(vector: Array) -> Array:
            values = jax.vmap(problem.function(vector))(ranked)[:, 0]
            return jnp.append(values, problem.log_likelihood(vector, all_rows(data)))

        return quantities(truth), jax.vmap(quantities)(draws)

    keys = jax.random.split(jax.random.key(seed), simulations)
    side_by_side = eqx.filter_jit(lambda keys: jax.lax.map(one, keys, batch_size=SIDE_BY_SIDE))
    truths, draws = jax.tree.map(np.asarray, side_by_side(keys))
    assert draws.shape[1] == DRAWS, "give the engine as many chains * keep, members or particles"
    return Simulations(model.quantities, truths, draws)


def uniformity(ranks: np.ndarray, draws: int = DRAWS) -> float:
    """p value (chi-square over bins) of ranks among ``draws`` draws being uniform.

    >>> round(uniformity(np.arange(640) % 64), 2), uniformity(np.zeros(640, int)) < 1e-9
    (1.0, True)
    """
    counts = np.bincount(ranks * BINS // (draws + 1), minlength=BINS)
    return float(chisquare(counts).pvalue)


def together(p_values: Sequence[float]) -> float:
    """The p value of several quantities at once: the smallest times their number (Bonferroni).

    >>> together([0.5, 0.02, 0.3])
    0.06
    """
    return min(1.0, len(p_values) * min(p_values))


def inside(ranks: np.ndarray, level: float, draws: int = DRAWS) -> tuple[float, float]:
    """The fraction of truths in the central interval of a ``level``, and its Monte Carlo error.

    A rank stands for 1 / (draws + 1) of probability; one that an end of the interval cuts counts in part.

    >>> inside(np.arange(64), 0.9)[0]
    0.9
    """
    ends = np.array([1 - level, 1 + level]) / 2 * (draws + 1)
    each = np.clip(np.minimum(ranks + 1, ends[1]) - np.maximum(ranks, ends[0]), 0, 1)
    return round(float(each.mean()), 12), float(each.std() / np.sqrt(len(each)))
