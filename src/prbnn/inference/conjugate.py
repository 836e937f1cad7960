"""Conjugate: the last layer's exact posterior given the hidden layers, an independent normal for these.

Reach for it where rows are few and noise is normal: integrating the last layer out exactly needs no
tempering, and the scale of each input can be learned as a Gaussian process learns its length scales.

The posterior is q(hidden) p(last | hidden, data), and training maximises

    E_q log p(data | hidden)  -  tempering * KL(q(hidden) || prior),

where p(data | hidden) is the evidence of Bayesian linear regression on the hidden layers' features. Rules
move the last layer within its own posterior: its weights are m + L^-T (shift + scale * noise), with the
mean m and the factor L^-T that the hidden layers have; shift 0 and scale 1, where no rule is, are exact.
The tempering concerns the hidden layers alone.
Bishop, *Pattern recognition*, 3.3 and 3.5; Ober, Rasmussen, *Benchmarking the neural linear model*, 2019;
MacKay, *Bayesian non-linear modelling for the prediction competition*, 1994 (the scales of inputs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from prbnn.inference.bbb import gaussian_kl
from prbnn.inference.engine import Draws, Engine, Info, Pace, above_zero
from prbnn.inference.last_layer import conditional
from prbnn.inference.mapping import over_functions
from prbnn.inference.members import restarted
from prbnn.inference.problem import Batch, Problem
from prbnn.inference.slopes import pull_of
from prbnn.model.likelihoods import LOG_TWO_PI, Gaussian, Likelihood
from prbnn.model.networks import MLP, RBF
from prbnn.model.weights import named_leaves


class State(NamedTuple):
    """Variational parameters, one row per member (see `Conjugate._parts`), and Adam's memory."""

    parameters: Float[Array, "members parameters"]
    optimiser: optax.OptState


class Parts(NamedTuple):
    """The parameters of one member by name.

    - `mean`, `log_sd`: of the hidden weights, in standard deviations of their prior
    - `shift`, `log_scale`: of the last layer, within its posterior given the hidden layers
    - `own`: the likelihood's own parameters
    - `scales`: logarithms of the factors of the prior's standard deviations, one per group of weights
    """

    mean: Array
    log_sd: Array
    shift: Array
    log_scale: Array
    own: Array
    scales: Array


@dataclass(frozen=True)
class Conjugate(Engine):
    """Options of the engine.

    - `draws`: functions drawn per step, of each member
    - `members`: posteriors trained side by side, each from its own start; draws come from all of them
    - `relevance`: whether scales of the prior are learned: one per input of the first layer, one for each
      other array of weights but the last biases. The prior of a scale's logarithm is N(0, 1); an input
      that says nothing is scaled down. False keeps the stated prior
    - `learning_rate`: Adam's, in standard deviations of the prior
    - `initial_sd`: standard deviation of each hidden weight at the start, as a fraction of its prior's
    - `memory`: for how many steps Adam remembers how large gradients were

    The noise must be a `Gaussian` with the same noise in all rows, and the network an `MLP` or `RBF`.

    >>> Conjugate(members=4, relevance=True)
    Conjugate(draws=2, members=4, relevance=True, learning_rate=0.02, initial_sd=0.1, memory=100)
    """

    draws: int = 2
    members: int = 1
    relevance: bool = False
    learning_rate: float = 0.02
    initial_sd: float = 0.1
    memory: int = 100

    name: ClassVar[str] = "conjugate"
    steps: ClassVar[int] = 2000
    chunk: ClassVar[int] = 50
    full_batch: ClassVar[bool] = True
    races: ClassVar[bool] = False
    builds: ClassVar[bool] = False
    uses_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        above_zero(self, "draws", "members", "learning_rate", "initial_sd", "memory")

    def objection(self, network: Any, likelihood: Likelihood, *, exact: bool) -> str:
        if not isinstance(network, MLP | RBF):
            return "it needs a network whose last layer is linear: MLP(...) or RBF(...)"
        if type(likelihood) is not Gaussian or likelihood.noise == "by input":
            return "its last layer needs normal noise that is the same in all rows: Gaussian()"
        if likelihood.truncated is not None or not exact:
            return "it needs targets that are neither censored nor truncated"
        return ""

    def init(self, problem: Problem, key: Array) -> State:
        """Hidden weights of networks as built, nearly certain; the last layer's exact posterior."""
        starts = [problem.start]
        if self.members > 1:
            starts.extend(restarted(problem, key, self.members - 1))
        vectors, hidden = jnp.stack(starts), _hidden(problem)
        prior = problem.prior_mean[:hidden], problem.prior_sd[:hidden]
        mean = (vectors[:, :hidden] - prior[0]) / prior[1]
        log_sd = jnp.full_like(mean, math.log(self.initial_sd))
        last = jnp.zeros((self.members, 2 * (problem.size - hidden)))
        scales = jnp.zeros((self.members, self._groups(problem)))
        own = vectors[:, problem.size :]
        parameters = jnp.concatenate([mean, log_sd, last, own, scales], axis=1)
        return State(parameters, self._adam.init(parameters))

    @property
    def _adam(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(b2=1 - 1 / self.memory)

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """One Adam step of every member on its own -(evidence - KL + sum of pressure * f)."""
        half = jax.random.normal(key, (self.members, (self.draws + 1) // 2, problem.size))
        noise = jnp.concatenate([half, -half], axis=1)[:, : self.draws]

        def drawn(parameters: Array) -> tuple[tuple[Array, Array], Array]:
            vectors, fits = self._drawn(problem, parameters, noise, batch)
            costs = jax.vmap(lambda row: self._cost(problem, row))(parameters)
            gain = jnp.sum(jnp.mean(fits, axis=1) - costs)
            return (gain, vectors), jnp.stack([jnp.mean(fits), jnp.mean(costs)])

        (_, vectors), pull_back, (fit, cost) = jax.vjp(drawn, state.parameters, has_aux=True)
        functions = vectors.reshape(-1, vectors.shape[2])
        pull, measured = pull_of(problem, functions, batch, pressure)
        (uphill,) = pull_back((jnp.ones(()), pull.reshape(vectors.shape) / self.draws))
        direction, optimiser = self._adam.update(-uphill, state.optimiser)
        moved = state.parameters - self.learning_rate * pace.rate * jnp.asarray(direction)
        return State(moved, optimiser), Info(fit - cost, fit, cost, measured)

    def _drawn(
        self, problem: Problem, parameters: Array, noise: Array, batch: Batch
    ) -> tuple[Array, Array]:
        """Vectors (members, draws, vector), and what each says of log p(data | hidden)."""
        members, draws = noise.shape[:2]
        each = jnp.repeat(parameters, draws, axis=0), noise.reshape(members * draws, -1)
        vectors, fits = over_functions(
            lambda row, one: self._function(problem, row, one, batch),
            each,
            problem.effort(batch)[0],
        )
        return vectors.reshape(members, draws, -1), fits.reshape(members, draws)

    def _function(
        self, problem: Problem, parameters: Array, noise: Array, batch: Batch
    ) -> tuple[Array, Array]:
        """One function: its vector, and the log of the evidence of its hidden layers."""
        parts, hidden = self._parts(problem, parameters), _hidden(problem)
        sd = self._sd(problem, parts.scales)
        lead = parts.mean + jnp.exp(parts.log_sd) * noise[:hidden]
        lead = problem.prior_mean[:hidden] + sd[:hidden] * lead
        outputs = batch.y.shape[1]
        features = _features(problem, lead, batch.x)
        inner = (parts.shift + jnp.exp(parts.log_scale) * noise[hidden:]).reshape(-1)
        own = parts.own if problem.likelihood.learns else problem.likelihood_start
        # the last layer as one row of weights and a bias per output
        inner, centre, spread = (
            _by_output(part, outputs) for part in (inner, problem.prior_mean[hidden:], sd[hidden:])
        )

        def one(y: Array, log_noise: Array, z: Array, mean: Array, sd: Array) -> tuple:
            deviation = jnp.exp(log_noise)
            root = jnp.sqrt(batch.weight) / deviation
            found = conditional(features * sd * root[:, None], (y - features @ mean) * root, z)
            constant = jnp.sum(batch.weight) * (log_noise + 0.5 * LOG_TWO_PI)
            return mean + sd * found.weights, found.evidence - constant

        last, fits = jax.vmap(one)(batch.y.T, own, inner, centre, spread)
        return jnp.concatenate([lead, _from_outputs(last), own]), jnp.sum(fits)

    def _cost(self, problem: Problem, parameters: Array) -> Array:
        """The tempered KL(q || prior), and minus the log priors of the scales and of a learned noise."""
        parts = self._parts(problem, parameters)
        hidden, last = self._divergences(problem, parameters)
        cost = problem.tempering * hidden + last + 0.5 * jnp.sum(parts.scales**2)
        if problem.likelihood.learns:
            cost += 0.5 * jnp.sum(
                ((parts.own - problem.own_prior_mean) / problem.own_prior_sd) ** 2
            )
        return cost

    def elbo(self, problem: Problem, state: State, draws: Draws, batch: Batch) -> Array:
        """With the scales of the prior as they are, and as many fresh hidden layers as draws."""
        count = draws.weights.shape[0]
        noise = jax.random.normal(jax.random.key(0), (count, problem.size))
        parameters = state.parameters[jnp.arange(count) % self.members]
        _, fits = jax.lax.map(
            lambda each: self._function(problem, *each, batch), (parameters, noise)
        )
        costs = jax.vmap(lambda row: sum(self._divergences(problem, row)))(state.parameters)
        return jnp.mean(fits) - jnp.mean(costs)

    def _divergences(self, problem: Problem, parameters: Array) -> tuple[Array, Array]:
        """KL(q || prior) of the hidden layers, and of the last one given them."""
        parts = self._parts(problem, parameters)
        return (
            gaussian_kl(parts.mean, parts.log_sd, 0.0, 1.0),
            gaussian_kl(parts.shift, parts.log_scale, 0.0, 1.0),
        )

    def _parts(self, problem: Problem, parameters: Array) -> Parts:
        hidden, last = _hidden(problem), problem.size - _hidden(problem)
        sizes = [hidden, hidden, last, last, problem.likelihood_start.size, self._groups(problem)]
        return Parts(*jax.lax.split(parameters, sizes, axis=parameters.ndim - 1))

    def _groups(self, problem: Problem) -> int:
        return int(_group_of(problem.network).max()) + 1 if self.relevance else 0

    def _sd(self, problem: Problem, scales: Array) -> Array:
        """The prior's standard deviation of each weight, with its learned scale."""
        if not self.relevance:
            return problem.prior_sd
        # the last group is that of weights without a scale
        factors = jnp.append(jnp.exp(scales), 1.0)
        return problem.prior_sd * factors[_group_of(problem.network)]

    def prior_precision(self, problem: Problem, state: State) -> Array:
        """With the learned scales; of several members their geometric mean."""
        scales = jnp.mean(self._parts(problem, state.parameters).scales, axis=0)
        return 1 / self._sd(problem, scales) ** 2

    def draws_of(self, problem: Problem, key: Array, state: State, count: int) -> Draws:
        """``count`` weight vectors from the fitted posterior, of one member after the other in turn."""
        assert problem.rows is not None
        rows, noise = problem.rows, jax.random.normal(key, (count, problem.size))
        parameters = state.parameters[jnp.arange(count) % self.members]
        vectors, _ = jax.lax.map(
            lambda each: self._function(problem, *each, rows), (parameters, noise)
        )
        return Draws(vectors[:, : problem.size], vectors[:, problem.size :])


def _hidden(problem: Problem) -> int:
    """How many weights come before the last layer's matrix and biases."""
    leaves = [leaf for _, leaf in named_leaves(problem.network)]
    return problem.size - leaves[-2].size - leaves[-1].size


def _features(problem: Problem, lead: Array, x: Array) -> Float[Array, "rows features"]:
    """The factors of the last layer's weights and bias for one output, given the ``lead`` weights.

    The network is linear in its last layer, so these are its slopes there.
    """
    leaves = [leaf for _, leaf in named_leaves(problem.network)]
    outputs, width = leaves[-2].shape
    zeros = jnp.zeros(problem.size - lead.size)

    def first(last: Array, row: Array) -> Array:
        vector = jnp.concatenate([lead, last, problem.likelihood_start])
        return problem.function(vector)(row)[0]

    slopes = jax.vmap(jax.grad(first), in_axes=(None, 0))(zeros, x)
    # of the first output's row of the matrix, and of its bias
    return jnp.concatenate([slopes[:, :width], slopes[:, outputs * width :][:, :1]], axis=1)


def _by_output(last: Array, outputs: int) -> Float[Array, "outputs features"]:
    """A vector over the last layer as one row per output: its weights, then its bias."""
    matrix, bias = last[:-outputs], last[-outputs:]
    return jnp.concatenate([matrix.reshape(outputs, -1), bias[:, None]], axis=1)


def _from_outputs(rows: Float[Array, "outputs features"]) -> Array:
    """What `_by_output` took apart."""
    return jnp.concatenate([rows[:, :-1].reshape(-1), rows[:, -1]])


def _group_of(network: Any) -> np.ndarray:
    """The group of each weight whose prior has one scale; -1 for the last biases, which have none.

    Columns of the first matrix are groups of their own, one per input; other arrays are one each.
    """
    leaves = [leaf for leaf in jax.tree.leaves(network) if eqx.is_inexact_array(leaf)]
    first = next(place for place, leaf in enumerate(leaves) if leaf.ndim == 2)
    groups, count = [], 0
    for place, leaf in enumerate(leaves[:-1]):
        if place == first and place < len(leaves) - 2:
            groups.append(np.broadcast_to(count + np.arange(leaf.shape[1]), leaf.shape).ravel())
            count += leaf.shape[1]
        else:
            groups.append(np.full(leaf.size, count))
            count += 1
    return np.concatenate([*groups, np.full(leaves[-1].size, -1)])
