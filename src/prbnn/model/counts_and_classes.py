"""Likelihoods of counts and classes: targets keep their units, and only weights are learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.model.tails import poisson_log_mass
from prbnn.model.truncation import Truncated, checked_window

# log(rate / mean count) is clipped to [-20, 20]
LARGEST_LOG_RATE = 20.0


@dataclass(frozen=True)
class _Unscaled:
    """Targets in their own units, and nothing to learn beside the weights.

    The response says how observations scatter around it, so it is its own scale.
    """

    @property
    def learns(self) -> bool:
        return False

    @property
    def scales_targets(self) -> bool:
        return False

    def network_outputs(self, outputs: int) -> int:
        return outputs

    def split(self, parameters: Array, values: Array) -> tuple[Array, Array]:
        response = self.response(parameters, values)
        return response, response

    def response(self, parameters: Array, values: Array) -> Array:
        """What rules see and what is predicted."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Poisson(_Unscaled):
    """Counts: y ~ Poisson(rate), and the network's output is log(rate / mean count).

    `truncated` is the window of counts that were recorded, both ends included, where rows outside it
    are missing from the table: ``(1, None)`` where nothing was written down for a count of 0.

    >>> Poisson(truncated=(1, None))
    Poisson(truncated=(1, None))
    """

    truncated: Truncated = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "truncated", checked_window("Poisson", self.truncated))

    def __repr__(self) -> str:
        return "Poisson()" if self.truncated is None else f"Poisson(truncated={self.truncated!r})"

    def start(
        self, output_scale: np.ndarray, targets: np.ndarray, weight: np.ndarray | None = None
    ) -> np.ndarray:
        """The log of the mean count, which training does not change."""
        if np.any(targets < 0) or np.any(targets != np.round(targets)):
            raise ValueError("Poisson: targets must be whole numbers of 0 or above")
        return np.log(np.maximum(np.average(targets, axis=0, weights=weight), 1e-3))

    def response(self, parameters: Array, values: Array) -> Array:
        """The rate."""
        return jnp.exp(self._log_rate(parameters, values))

    def log_density(self, parameters: Array, values: Array, target: Array) -> Float[Array, ""]:
        return jnp.sum(self._log_pmf(self._log_rate(parameters, values), target))

    def log_interval(
        self, parameters: Array, values: Array, low: Array, high: Array
    ) -> Float[Array, ""]:
        """log P(low <= target <= high), both ends included."""
        log_rate = self._log_rate(parameters, values)
        exact = low == high
        pmf = self._log_pmf(log_rate, jnp.where(exact, low, 0.0))
        mass = poisson_log_mass(log_rate, jnp.where(exact, 0.0, low), jnp.where(exact, 1.0, high))
        return jnp.sum(jnp.where(exact, pmf, mass))

    def _log_rate(self, parameters: Array, values: Array) -> Array:
        return parameters + jnp.clip(values, -LARGEST_LOG_RATE, LARGEST_LOG_RATE)

    def _log_pmf(self, log_rate: Array, target: Array) -> Array:
        return target * log_rate - jnp.exp(log_rate) - jax.lax.lgamma(target + 1)

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.sqrt(response)

    def sample(
        self, generator: np.random.Generator, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        return generator.poisson(response).astype(float)

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        from scipy.special import pdtr

        return np.where(value < 0, 0.0, pdtr(np.floor(np.maximum(value, 0)), response))

    def survival(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """P(observation > value)."""
        from scipy.special import pdtrc

        return np.where(value < 0, 1.0, pdtrc(np.floor(np.maximum(value, 0)), response))


@dataclass(frozen=True)
class _Classes(_Unscaled):
    """Targets are 0 or 1, one column per class; the response is the probability of 1."""

    def start(
        self, output_scale: np.ndarray, targets: np.ndarray, weight: np.ndarray | None = None
    ) -> np.ndarray:
        """No parameters."""
        if not np.all(np.isin(targets, (0, 1))):
            raise ValueError(
                f"{type(self).__name__}: targets must be 0 or 1, one column per class; "
                "PRBNNClassifier makes them from labels"
            )
        return np.zeros(0)

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(response * (1 - response), 0))

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.where(value < 0, 0.0, np.where(value < 1, 1 - response, 1.0))


@dataclass(frozen=True)
class Bernoulli(_Classes):
    """Yes or no: y is 1 with probability sigmoid(network output).

    >>> Bernoulli()
    Bernoulli()
    """

    def response(self, parameters: Array, values: Array) -> Array:
        """The probability of 1."""
        return jax.nn.sigmoid(values)

    def log_density(self, parameters: Array, values: Array, target: Array) -> Float[Array, ""]:
        return jnp.sum(
            target * jax.nn.log_sigmoid(values) + (1 - target) * jax.nn.log_sigmoid(-values)
        )

    def sample(
        self, generator: np.random.Generator, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        return (generator.random(response.shape) < response).astype(float)


@dataclass(frozen=True)
class Categorical(_Classes):
    """One of several classes, with probabilities softmax(network outputs).

    >>> Categorical()
    Categorical()
    """

    def response(self, parameters: Array, values: Array) -> Array:
        """The probability of each class."""
        return jax.nn.softmax(values, axis=-1)

    def log_density(self, parameters: Array, values: Array, target: Array) -> Float[Array, ""]:
        return jnp.sum(target * jax.nn.log_softmax(values, axis=-1))

    def sample(
        self, generator: np.random.Generator, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        edges = np.cumsum(response, axis=-1)
        drawn = generator.random((*response.shape[:-1], 1)) * edges[..., -1:]
        place = np.argmax(drawn < edges, axis=-1)
        return np.eye(response.shape[-1])[place]
