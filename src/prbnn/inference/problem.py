"""What an engine sees: a log density over one weight vector, and what draws do to each rule."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.measure import Measured, measure
from prbnn.knowledge.binding import BoundKnowledge
from prbnn.model.likelihoods import Gaussian
from prbnn.model.weights import unflatten


class Batch(NamedTuple):
    """Rows of a step (weight 0 pads), how many rows each stands for, and where to try the rules."""

    x: Float[Array, "rows inputs"]
    y: Float[Array, "rows outputs"]
    weight: Float[Array, " rows"]
    points_start: Array
    softness: Float[Array, " rules"]


class Problem(eqx.Module):
    """Network, likelihood, prior, tempering and knowledge; every number is an array."""

    network: Any
    likelihood: Gaussian = eqx.field(static=True)
    knowledge: BoundKnowledge | None
    prior_mean: Float[Array, " weights"]
    prior_sd: Float[Array, " weights"]
    likelihood_start: Float[Array, " parameters"]
    tempering: Float[Array, ""]
    points_width: int = eqx.field(static=True)

    def log_likelihood(
        self,
        weights: Float[Array, " weights"],
        parameters: Float[Array, " parameters"],
        batch: Batch,
    ) -> Float[Array, ""]:
        """Sum over the batch's rows, each counted by its weight."""
        network = unflatten(self.network, weights)
        density = jax.vmap(lambda x, y: self.likelihood.log_density(parameters, network(x), y))(
            batch.x, batch.y
        )
        return jnp.sum(density * batch.weight)

    def measure(self, weights: Float[Array, " weights"], batch: Batch) -> Measured:
        """What one drawn function does to each rule on this step's points."""
        if self.knowledge is None:
            return Measured(jnp.zeros(0), jnp.zeros(0), jnp.zeros(0))
        network = unflatten(self.network, weights)
        return measure(
            self.knowledge, network, batch.points_start, self.points_width, batch.softness
        )
