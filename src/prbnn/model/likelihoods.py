"""Likelihoods: how observations scatter around the drawn function."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.errors import is_number

LOG_TWO_PI = math.log(2 * math.pi)
# first noise of a fit, in standard deviations of the target, and the least "by input" may reach
FIRST_NOISE = 0.3
NOISE_FLOOR = 1e-3
SOFTPLUS_ONE = math.log(math.e - 1)


@dataclass(frozen=True)
class Gaussian:
    """y = function(x) + N(0, noise^2).

    `noise` is a standard deviation in the target's units, ``"learned"`` (one number an output), or
    ``"by input"`` (the network gets a second set of outputs for its logarithm).

    >>> Gaussian(noise="by input")
    Gaussian(noise='by input')
    """

    noise: float | Literal["learned", "by input"] = "learned"

    def __post_init__(self) -> None:
        if isinstance(self.noise, str):
            if self.noise not in ("learned", "by input"):
                raise ValueError(
                    f"Gaussian: noise is a number, 'learned' or 'by input', got {self.noise!r}"
                )
        elif not (is_number(self.noise) and self.noise > 0):
            raise ValueError(f"Gaussian: noise must be above 0, got {self.noise!r}")

    def network_outputs(self, outputs: int) -> int:
        """How many outputs the network needs for so many targets."""
        return 2 * outputs if self.noise == "by input" else outputs

    def start(self, output_scale: np.ndarray) -> np.ndarray:
        """First value of the likelihood's own parameters: log noise in network units."""
        if self.noise == "learned":
            return np.full(len(output_scale), math.log(FIRST_NOISE))
        if self.noise == "by input":
            return np.zeros(0)
        return np.log(self.noise / output_scale)

    @property
    def learns(self) -> bool:
        """Whether the likelihood's own parameters move in training."""
        return self.noise == "learned"

    def split(
        self, parameters: Float[Array, " parameters"], values: Float[Array, "... network_outputs"]
    ) -> tuple[Float[Array, "... outputs"], Float[Array, "... outputs"]]:
        """Mean and noise (network units) from the network's outputs."""
        if self.noise == "by input":
            mean, raw = jnp.split(values, 2, axis=-1)
            return mean, NOISE_FLOOR + FIRST_NOISE * jax.nn.softplus(raw + SOFTPLUS_ONE)
        return values, jnp.broadcast_to(jnp.exp(parameters), values.shape)

    def log_density(
        self,
        parameters: Float[Array, " parameters"],
        values: Float[Array, " network_outputs"],
        target: Float[Array, " outputs"],
    ) -> Float[Array, ""]:
        """log p(target | values), in network units, for one row."""
        mean, noise = self.split(parameters, values)
        return jnp.sum(-0.5 * ((target - mean) / noise) ** 2 - jnp.log(noise) - 0.5 * LOG_TWO_PI)
