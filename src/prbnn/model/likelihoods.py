"""Likelihoods: how observations scatter around the drawn function.

A network gives `values`; a likelihood turns them into the `response` that rules see and that is
predicted (a mean, a rate, class probabilities) and into the density of an observation. A likelihood may
have parameters of its own beside the weights, such as a learned noise; they are one vector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.errors import is_number
from prbnn.model.standard_tails import StandardTail, normal_tail, student_tail
from prbnn.model.tails import normal_log_mass, student_log_mass
from prbnn.model.truncation import Truncated, checked_window

LOG_TWO_PI = math.log(2 * math.pi)
# initial noise of a fit in network units, and the smallest noise "by input"
FIRST_NOISE = 0.3
NOISE_FLOOR = 1e-3
SOFTPLUS_ONE = math.log(math.e - 1)

Noise = float | Literal["learned", "by input"]


@dataclass(frozen=True)
class NoisePrior:
    """The prior of a learned noise: log(noise / sd of the target) ~ N(log(median), spread^2).

    NUTS, SGHMC and SVGD sample the noise with the weights and need a prior of it; the other engines
    take the noise that fits best. It is relative to the target's standard deviation over the training
    rows, so changing the target's unit changes nothing.

    - `median`: median of the noise, in standard deviations of the target
    - `spread`: standard deviation of the noise's logarithm; 1 is a factor of e either way

    >>> Gaussian(noise_prior=NoisePrior(median=0.1, spread=0.5))
    Gaussian(noise='learned', noise_prior=NoisePrior(median=0.1, spread=0.5))
    """

    median: float = 0.3
    spread: float = 1.0

    def __post_init__(self) -> None:
        for name in ("median", "spread"):
            value = getattr(self, name)
            if not (is_number(value) and value > 0 and math.isfinite(value)):
                raise ValueError(f"NoisePrior: {name} must be above 0, got {value!r}")


@runtime_checkable
class Likelihood(Protocol):
    """What a fit, a posterior and a rule need to know about how observations are distributed.

    ``parameters`` are the likelihood's own, ``values`` are network outputs (..., network_outputs), and
    ``response`` and ``scale`` are the two results of `split`, (..., outputs).

    For censored rows a likelihood also has ``log_interval(parameters, values, low, high)``: the log
    probability that each target lies between ``low`` and ``high``, which may be infinite, or the log
    density where they are equal, summed over the outputs. A truncated likelihood has ``truncated`` (see
    `Gaussian`), ``log_interval`` and ``survival(value, response, scale)``, which is
    P(observation > value); its other methods are those of the distribution before it was truncated.

    Where scatter is symmetric, ``symmetric_quantile(probability, response, scale)`` and
    ``standard_tail()`` make quantiles of predictions fast; both must agree with `distribution`.
    """

    @property
    def learns(self) -> bool:
        """Whether the likelihood's own parameters move in training."""
        ...

    @property
    def scales_targets(self) -> bool:
        """Whether targets are shifted and scaled for the network; counts and classes are not."""
        ...

    def network_outputs(self, outputs: int) -> int:
        """The number of network outputs that ``outputs`` target columns need."""
        ...

    def start(
        self, output_scale: np.ndarray, targets: np.ndarray, weight: np.ndarray | None = None
    ) -> np.ndarray:
        """Initial value of the likelihood's own parameters.

        - ``output_scale``: (outputs,), the target's units per network unit
        - ``targets``: (rows, outputs), in the user's units; invalid ones raise
        - ``weight``: (rows,), a row of weight 2 counts as two rows
        """
        ...

    def split(self, parameters: Array, values: Array) -> tuple[Array, Array]:
        """The response, and the scale of the scatter around it, in network units."""
        ...

    def log_density(self, parameters: Array, values: Array, target: Array) -> Array:
        """log p(target | values), in network units, for one row."""
        ...

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Standard deviation of observations around the response."""
        ...

    def sample(
        self, generator: np.random.Generator, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """One random observation per response."""
        ...

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """P(observation <= value)."""
        ...


def parameters_prior(
    likelihood: Likelihood, start: np.ndarray, output_sd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the normal prior of a likelihood's own parameters.

    ``output_sd`` holds the targets' standard deviations in network units. A likelihood of a user's own
    may state ``parameters_prior(output_sd)``; without it, the prior is N(start, 1).
    """
    stated = getattr(likelihood, "parameters_prior", None)
    if stated is None or not likelihood.learns:
        return start, np.ones_like(start)
    mean, sd = stated(output_sd)
    return np.broadcast_to(mean, start.shape), np.broadcast_to(sd, start.shape)


def _check_noise(kind: str, noise: Noise) -> None:
    if isinstance(noise, str):
        if noise not in ("learned", "by input"):
            raise ValueError(f"{kind}: noise is a number, 'learned' or 'by input', got {noise!r}")
    elif not (is_number(noise) and noise > 0):
        raise ValueError(f"{kind}: noise must be above 0, got {noise!r}")


@dataclass(frozen=True, repr=False)
class _Scattered:
    """A response in the target's units, with symmetric scatter of some scale around it."""

    noise: Noise = "learned"
    noise_prior: NoisePrior = field(default=NoisePrior(), kw_only=True)
    truncated: Truncated = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        kind = type(self).__name__
        _check_noise(kind, self.noise)
        if not isinstance(self.noise_prior, NoisePrior):
            raise ValueError(
                f"{kind}: noise_prior must be NoisePrior(...), got {self.noise_prior!r}"
            )
        if self.noise != "learned" and self.noise_prior != NoisePrior():
            raise ValueError(f"{kind}: noise_prior needs noise='learned', got noise={self.noise!r}")
        object.__setattr__(self, "truncated", checked_window(kind, self.truncated))

    def __repr__(self) -> str:
        shown = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, usual in (("noise_prior", NoisePrior()), ("truncated", None)):
            value = shown.pop(name)
            if value != usual:
                shown[name] = value
        inside = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({inside})"

    def parameters_prior(self, output_sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the log of the scale, in network units."""
        prior = self.noise_prior
        return np.log(prior.median * output_sd), np.full_like(output_sd, prior.spread)

    @property
    def scales_targets(self) -> bool:
        return True

    @property
    def learns(self) -> bool:
        return self.noise == "learned"

    def network_outputs(self, outputs: int) -> int:
        return 2 * outputs if self.noise == "by input" else outputs

    def start(
        self, output_scale: np.ndarray, targets: np.ndarray, weight: np.ndarray | None = None
    ) -> np.ndarray:
        """The log of the scale, in network units."""
        if self.noise == "learned":
            return np.full(len(output_scale), math.log(FIRST_NOISE))
        if self.noise == "by input":
            return np.zeros(0)
        return np.log(self.noise / output_scale)

    def split(
        self, parameters: Float[Array, " parameters"], values: Float[Array, "... network_outputs"]
    ) -> tuple[Float[Array, "... outputs"], Float[Array, "... outputs"]]:
        if self.noise == "by input":
            mean, raw = jnp.split(values, 2, axis=-1)
            return mean, NOISE_FLOOR + FIRST_NOISE * jax.nn.softplus(raw + SOFTPLUS_ONE)
        return values, jnp.broadcast_to(jnp.exp(parameters), values.shape)

    def log_interval(
        self, parameters: Array, values: Array, low: Array, high: Array
    ) -> Float[Array, ""]:
        """log P(low <= target <= high), or the log density where both are equal."""
        mean, noise = self.split(parameters, values)
        exact = low == high
        density = self._log_densities(mean, noise, jnp.where(exact, low, 0.0))
        ends = jnp.where(exact, -1.0, low), jnp.where(exact, 1.0, high)
        return jnp.sum(jnp.where(exact, density, self._log_masses(mean, noise, *ends)))

    def survival(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """P(observation > value), by the symmetry of the scatter."""
        return self.distribution(2 * response - value, response, scale)

    def _log_densities(self, mean: Array, noise: Array, target: Array) -> Array:
        raise NotImplementedError

    def _log_masses(self, mean: Array, noise: Array, low: Array, high: Array) -> Array:
        raise NotImplementedError

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """P(observation <= value)."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Gaussian(_Scattered):
    """y = function(x) + N(0, noise^2).

    `noise` is a standard deviation in the target's units, ``"learned"`` (one number per output), or
    ``"by input"`` (the network gets a second set of outputs, from which the noise at an input is
    computed). `noise_prior` is the `NoisePrior` of a learned noise.

    `truncated` is the window in which values were recorded, in the target's units, where rows outside it
    are missing from the table: ``(0, None)`` is 0 and above. With several outputs it is the window of
    each, or a list of one window per output (None for an output without). The density of a recorded
    value is then the normal's divided by its probability of lying in the window; the function is the mean
    before anything was left out.

    >>> Gaussian(noise="by input")
    Gaussian(noise='by input')
    >>> Gaussian(truncated=(0, None))
    Gaussian(noise='learned', truncated=(0.0, None))
    """

    def log_density(self, parameters: Array, values: Array, target: Array) -> Float[Array, ""]:
        return jnp.sum(self._log_densities(*self.split(parameters, values), target))

    def _log_densities(self, mean: Array, noise: Array, target: Array) -> Array:
        return -0.5 * ((target - mean) / noise) ** 2 - jnp.log(noise) - 0.5 * LOG_TWO_PI

    def _log_masses(self, mean: Array, noise: Array, low: Array, high: Array) -> Array:
        return normal_log_mass(low, high, mean, noise)

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return scale

    def sample(
        self, generator: np.random.Generator, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        return response + scale * generator.standard_normal(response.shape)

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        return ndtr((value - response) / scale)

    def symmetric_quantile(
        self, probability: np.ndarray, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """The value with P(observation <= value) = probability."""
        from scipy.special import ndtri

        return response + scale * ndtri(probability)

    def standard_tail(self) -> StandardTail:
        """The distribution of (target - response) / scale, for compiled code."""
        return normal_tail()


@dataclass(frozen=True, repr=False)
class StudentT(_Scattered):
    """y = function(x) + noise * t, with ``freedom`` degrees of freedom: outliers pull little.

    `noise` is a scale, not a standard deviation; it is given or learned as for `Gaussian`, and
    `truncated` is a window as there.

    >>> StudentT(freedom=3)
    StudentT(noise='learned', freedom=3)
    """

    freedom: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (is_number(self.freedom) and self.freedom > 2):
            raise ValueError(
                f"StudentT: freedom must be above 2 (below, y has no variance), got {self.freedom!r}"
            )

    def log_density(self, parameters: Array, values: Array, target: Array) -> Float[Array, ""]:
        return jnp.sum(self._log_densities(*self.split(parameters, values), target))

    def _log_densities(self, mean: Array, noise: Array, target: Array) -> Array:
        nu = self.freedom
        constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
        tail = 0.5 * (nu + 1) * jnp.log1p(((target - mean) / noise) ** 2 / nu)
        return constant - jnp.log(noise) - tail

    def _log_masses(self, mean: Array, noise: Array, low: Array, high: Array) -> Array:
        return student_log_mass(self.freedom, low, high, mean, noise)

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return scale * math.sqrt(self.freedom / (self.freedom - 2))

    def sample(
        self, generator: np.random.Generator, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        return response + scale * generator.standard_t(self.freedom, response.shape)

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        from scipy.special import stdtr

        return stdtr(self.freedom, (value - response) / scale)

    def symmetric_quantile(
        self, probability: np.ndarray, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """The value with P(observation <= value) = probability."""
        from scipy.special import stdtrit

        return response + scale * stdtrit(self.freedom, probability)

    def standard_tail(self) -> StandardTail | None:
        """The distribution of (target - response) / scale, for compiled code, if that has it."""
        return student_tail(float(self.freedom))
