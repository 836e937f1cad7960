"""What a network with given weights computes, and new starts of its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Float

from prbnn.model.likelihoods import Likelihood
from prbnn.model.networks import Network, build
from prbnn.model.weights import flatten, unflatten


def response(
    network: Any, likelihood: Likelihood, weights: Array, own: Array
) -> Callable[[Array], Array]:
    """What rules see of ``network`` with these ``weights``: means, rates or class probabilities.

    ``own`` are the likelihood's own parameters. The function returned maps one input to its outputs, in
    network units and without noise.
    """
    built = unflatten(network, weights)
    return lambda x: likelihood.split(own, built(x))[0]


@dataclass(frozen=True)
class FreshWeights:
    """Weights of a declared network at its start; another key gives another start."""

    network: Network | Callable
    inputs: int
    outputs: int

    def __call__(self, key: Array) -> Float[Array, " weights"]:
        return flatten(build(self.network, key, self.inputs, self.outputs))
