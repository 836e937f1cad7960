"""Networks that can be enclosed: affine maps with one activation between them, many draws at a time."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.enclosures.activations import ENCLOSED, ROUNDING
from prbnn.data.scaling import Scaling
from prbnn.errors import NotEnclosedError
from prbnn.model.counts_and_classes import Bernoulli, Categorical
from prbnn.model.likelihoods import Gaussian, StudentT
from prbnn.model.networks import Layers
from prbnn.model.weights import by_leaf, named_leaves
from prbnn.posterior.draws import Posterior


class Chain(eqx.Module):
    """z = W_k h + b_k, h = activation(z), and an affine map at the end.

    Arrays have a leading axis of draws, or none for a single network. `precision` names the dtype that
    the network is deployed in, "float32" or "float64".
    """

    weights: tuple[Float[Array, "*draws units entering"], ...]
    biases: tuple[Float[Array, "*draws units"], ...]
    activation: str = eqx.field(static=True)
    precision: str = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return self.weights[0].shape[-1]

    @property
    def rounding(self) -> float:
        """Relative error of a deployed activation."""
        return ROUNDING[np.dtype(self.precision)]

    def doubled(self) -> Chain:
        """The same in float64, as NumPy arrays."""
        return jax.tree.map(lambda part: np.asarray(part, np.float64), self)

    def take(self, draws: np.ndarray | int) -> Chain:
        """The networks of some draws, by position; a single number gives a chain without that axis."""
        return jax.tree.map(lambda part: part[draws], self)


def deployed(numbers: np.ndarray) -> np.ndarray:
    """Numbers in the precision that JAX converts them to: float32 unless x64 is enabled."""
    return np.asarray(numbers, jax.dtypes.canonicalize_dtype(numbers.dtype))


def chain_of(function: Any) -> tuple[Chain, Scaling | None]:
    """A posterior's draws or a built `MLP` as a chain, and the scaling of a posterior (else None).

    Any other network, likelihood or activation raises `NotEnclosedError`: a bound that might be wrong is
    worse than none.
    """
    outputs = None
    if isinstance(function, Posterior):
        network, scaling = function.network, function.scaling
        if not isinstance(function.likelihood, Gaussian | StudentT | Bernoulli | Categorical):
            raise NotEnclosedError(
                f"the response of {type(function.likelihood).__name__} is not enclosed; that of "
                "Gaussian, StudentT, Bernoulli and Categorical is"
            )
        # a second set of outputs is the noise, which rules do not see
        outputs = function.likelihood.network_outputs(len(function.columns.outputs))
        if function.likelihood.scales_targets:
            outputs = len(function.columns.outputs)
        leaves = by_leaf(network, deployed(function.draws))
    else:
        network, scaling = function, None
        leaves = {name: np.asarray(leaf)[None] for name, leaf in named_leaves(network)}
    if not isinstance(network, Layers):
        raise NotEnclosedError(
            f"a network of type {type(network).__name__} cannot be enclosed; MLP() can"
        )
    if network.activation not in ENCLOSED:
        raise NotEnclosedError(
            f"activation {network.activation!r} cannot be enclosed; use one of {', '.join(ENCLOSED)}"
        )
    depth = range(len(network.layers))
    weights: list[Any] = [leaves[f"layers.{k}.weight"] for k in depth]
    biases: list[Any] = [leaves[f"layers.{k}.bias"] for k in depth]
    weights[-1], biases[-1] = weights[-1][:, :outputs], biases[-1][:, :outputs]
    return Chain(
        tuple(weights),
        tuple(biases),
        network.activation,
        str(leaves["layers.0.weight"].dtype),
    ), scaling
