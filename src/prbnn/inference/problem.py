"""What an engine sees: a log density over one vector, and what is measured of each rule.

An engine moves a vector of weights followed by the likelihood's own parameters (such as a log noise).
It need not know where one ends and the other begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from prbnn.enforcement.measure import Measured, measure
from prbnn.enforcement.worst import kept_worst
from prbnn.model.likelihoods import Likelihood
from prbnn.model.observation import log_observation
from prbnn.model.response import response
from prbnn.model.weights import flatten, unflatten
from prbnn.rules.scoring.binding import BoundKnowledge

# in the rule's unit; see inside_of
INSIDE = 0.02


class Batch(NamedTuple):
    """Rows of a step, and where the rules are evaluated.

    - `weight`: how many rows each row counts as; 0 for padding
    - `points_start`: points are those of each pool from this one on
    - `softness`: width of the surrogate of each probable rule
    - `worst`: positions of further points per pool, where these are known
    - `upper`: where targets are censored, they lie from `y` to this; exact where both are equal
    - `due`: whether the step evaluates the rules, of a problem whose steps do so in turn
    """

    x: Float[Array, "rows inputs"]
    y: Float[Array, "rows outputs"]
    weight: Float[Array, " rows"]
    points_start: Array
    softness: Float[Array, " rules"]
    worst: Int[Array, "groups worst"] | None = None
    upper: Float[Array, "rows outputs"] | None = None
    due: Bool[Array, ""] | bool = True


class Problem(eqx.Module):
    """Network, likelihood, prior, tempering and knowledge; every number is an array.

    - `fresh`: newly initialised weights, by a key
    - `own_prior_mean`, `own_prior_sd`: of the likelihood's own parameters, which samplers and particles
      draw; other engines maximise over them
    - `points_width`: how many points of each pool a step evaluates
    - `every`: one of so many steps evaluates the rules, with as many times their pressure
    - `searched`: how many of each pool are searched after a chunk of steps for their worst points
    - `window`: ends between which the targets were recorded, where the likelihood is truncated
    - `rows`: all training rows, for engines whose draws depend on them
    """

    network: Any
    fresh: Callable[[Array], Array] = eqx.field(static=True)
    likelihood: Likelihood = eqx.field(static=True)
    knowledge: BoundKnowledge | None
    prior_mean: Float[Array, " weights"]
    prior_sd: Float[Array, " weights"]
    likelihood_start: Float[Array, " parameters"]
    own_prior_mean: Float[Array, " parameters"]
    own_prior_sd: Float[Array, " parameters"]
    tempering: Float[Array, ""]
    points_width: int = eqx.field(static=True)
    searched: int = eqx.field(static=True)
    window: Float[Array, "2 outputs"] | None = None
    every: int = eqx.field(static=True, default=1)
    rows: Batch | None = None

    @property
    def size(self) -> int:
        """How many weights there are."""
        return self.prior_sd.size

    @property
    def rules(self) -> int:
        """How many rules there are."""
        return 0 if self.knowledge is None else self.knowledge.count

    def effort(self, batch: Batch) -> tuple[int, int]:
        """The rows, and the points, at which a step evaluates a function, times its weights."""
        regions = 0 if self.knowledge is None else self.knowledge.regions
        return batch.x.shape[0] * self.size, regions * self.points_width * self.size

    @property
    def start(self) -> Float[Array, " vector"]:
        """The network as built, and the likelihood's first parameters."""
        return jnp.concatenate([flatten(self.network), self.likelihood_start])

    def split(self, vector: Float[Array, " vector"]) -> tuple[Array, Array]:
        """Weights, and the likelihood's own parameters (the first ones where none are learned)."""
        weights, own = jax.lax.split(vector, [self.size, self.likelihood_start.size])
        return weights, own if self.likelihood.learns else self.likelihood_start

    def function(self, vector: Float[Array, " vector"]) -> Callable[[Array], Array]:
        """The function that a vector parametrises: network inputs to outputs, without noise."""
        weights, own = self.split(vector)
        return response(self.network, self.likelihood, weights, own)

    def log_likelihood(self, vector: Float[Array, " vector"], batch: Batch) -> Float[Array, ""]:
        """Sum over the batch's rows, each times its weight."""
        return jnp.sum(self.log_densities(*self.split(vector), batch) * batch.weight)

    def log_densities(self, weights: Array, own: Array, batch: Batch) -> Float[Array, " rows"]:
        """log density of what was observed of each row, whatever its weight.

        ``own`` are the likelihood's own parameters.
        """
        network = unflatten(self.network, weights)

        def one(x: Array, y: Array, upper: Array | None) -> Array:
            return log_observation(self.likelihood, own, network(x), y, upper, self.window)

        return jax.vmap(one)(batch.x, batch.y, batch.upper)

    def log_prior(self, vector: Float[Array, " vector"]) -> Float[Array, ""]:
        """Of the weights, up to a constant."""
        weights, _ = self.split(vector)
        return -0.5 * jnp.sum(((weights - self.prior_mean) / self.prior_sd) ** 2)

    def log_density(
        self,
        vector: Float[Array, " vector"],
        batch: Batch,
        pressure: Float[Array, " rules"],
    ) -> tuple[Array, tuple[Array, Array, Measured]]:
        """What samplers draw from: log of prior * (likelihood * exp(sum pressure f))^(1/tempering).

        Returns it with its parts: log likelihood, log prior, and what was measured.
        """
        fit, prior = self.log_likelihood(vector, batch), self.log_prior(vector)
        measured = self.measure(vector, batch)
        own = (vector[self.size :] - self.own_prior_mean) / self.own_prior_sd
        own_prior = -0.5 * jnp.sum(own**2)
        gain = fit + jnp.sum(pressure * measured.f)
        return gain / self.tempering + prior + own_prior, (fit, prior, measured)

    def measure(self, vector: Float[Array, " vector"], batch: Batch) -> Measured:
        """What the function of ``vector`` does to each rule on this step's points."""
        if self.knowledge is None:
            return Measured(jnp.zeros(0), jnp.zeros(0), jnp.zeros(0))
        return measure(
            self.knowledge,
            self.function(vector),
            batch.points_start,
            self.points_width,
            batch.softness,
            self.inside,
            batch.worst,
        )

    @property
    def inside(self) -> float:
        """How far inside its limit a hard rule is trained, in its unit."""
        return 0.0 if self.knowledge is None else inside_of(self.knowledge)

    def search(
        self,
        vectors: Float[Array, "draws vector"],
        worst: Int[Array, "groups worst"],
        start: Array,
        width: int,
    ) -> tuple[Float[Array, " rules"], Int[Array, "groups worst"]]:
        """Evaluate functions at ``width`` points per pool from ``start`` on, and at the ``worst`` known.

        Returns the fraction of them that break each rule there, and the worst points after that.
        """
        knowledge = self.knowledge
        if knowledge is None:
            return jnp.zeros(0), worst
        points = width + worst.shape[1]

        def measured(vector: Array) -> Measured:
            return measure(
                knowledge, self.function(vector), start, points, inside=self.inside, worst=worst
            )

        found = jax.tree.map(lambda part: jnp.mean(part, axis=0), jax.lax.map(measured, vectors))
        return found.broken, kept_worst(knowledge, worst, start, found.heat)


def inside_of(knowledge: BoundKnowledge) -> float:
    """How far inside its limit a hard rule without a tolerance is trained, in its unit.

    No set of points is dense over several inputs: a function that touches its limit at some of them would
    cross it a little between them.
    """
    return INSIDE if len(knowledge.frame.inputs) > 1 else 0.0
