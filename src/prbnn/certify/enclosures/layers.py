"""Networks that can be enclosed: affine maps with one activation between, many draws at a time."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.enclosures.activations import known
from prbnn.data.scaling import Scaling
from prbnn.errors import NotEnclosedError
from prbnn.model.likelihoods import Bernoulli, Categorical, Gaussian, StudentT
from prbnn.model.networks import Layers
from prbnn.model.weights import by_leaf
from prbnn.posterior.draws import Posterior


class Chain(eqx.Module):
    """z = W_k h + b_k, h = activation(z), and an affine map at the end; a leading axis of draws.

    `precision` is the type of number the network is deployed in.
    """

    weights: tuple[Float[Array | np.ndarray, "draws wide deep"], ...]
    biases: tuple[Float[Array | np.ndarray, "draws wide"], ...]
    activation: str = eqx.field(static=True)
    precision: str = eqx.field(static=True)

    @property
    def draws(self) -> int:
        """How many networks there are."""
        return self.weights[0].shape[0]

    @property
    def inputs(self) -> int:
        """How many inputs they have."""
        return self.weights[0].shape[-1]

    def doubled(self) -> Chain:
        """The same in float64, as NumPy's arrays."""
        return jax.tree.map(lambda part: np.asarray(part, np.float64), self)

    def take(self, draws: np.ndarray) -> Chain:
        """Some of the networks, by number."""
        return jax.tree.map(lambda part: part[draws], self)


def deployed(numbers: np.ndarray) -> np.ndarray:
    """Numbers in the precision that JAX takes them in, whatever they are kept as."""
    return np.asarray(numbers, jax.dtypes.canonicalize_dtype(numbers.dtype))


def chain_of(function: Any) -> tuple[Chain, Scaling | None]:
    """A posterior's draws or a built `MLP` as a chain, with the scaling around it.

    What it does not know it refuses: a bound that might be wrong is worse than none.
    """
    outputs = None
    if isinstance(function, Posterior):
        network, scaling = function.network, function.scaling
        if not isinstance(function.likelihood, Gaussian | StudentT | Bernoulli | Categorical):
            raise NotEnclosedError(
                f"the response of {type(function.likelihood).__name__} is not enclosed; that of "
                "Gaussian, StudentT, Bernoulli and Categorical is"
            )
        # a second set of outputs holds noise, which rules do not see
        outputs = function.likelihood.network_outputs(len(function.columns.outputs))
        if function.likelihood.scales_targets:
            outputs = len(function.columns.outputs)
        leaves = by_leaf(network, deployed(function.draws))
    else:
        network, scaling = function, None
        arrays = eqx.filter(network, eqx.is_inexact_array)
        leaves = {
            jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)[None]
            for path, leaf in jax.tree_util.tree_flatten_with_path(arrays)[0]
        }
    if not isinstance(network, Layers):
        raise NotEnclosedError(
            f"{type(network).__name__} is not a network it can enclose; MLP() is"
        )
    if not known(network.activation):
        raise NotEnclosedError(f"activation {network.activation!r} is not one it can enclose")
    depth = range(len(network.layers))
    weights = [leaves[f"layers.{k}.weight"] for k in depth]
    biases = [leaves[f"layers.{k}.bias"] for k in depth]
    weights[-1], biases[-1] = weights[-1][:, :outputs], biases[-1][:, :outputs]
    return Chain(
        tuple(weights),
        tuple(biases),
        network.activation,
        str(leaves["layers.0.weight"].dtype),
    ), scaling
