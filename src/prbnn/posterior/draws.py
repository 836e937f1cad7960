"""A posterior is draws: predict with them, check them against rules, keep those that obey."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from prbnn.enforcement.measure import CHECK_TOLERANCE
from prbnn.knowledge.binding import BoundKnowledge, bind_all
from prbnn.knowledge.regions import Columns
from prbnn.knowledge.rules import Rule
from prbnn.model.likelihoods import Gaussian
from prbnn.model.scaling import Scaling
from prbnn.model.weights import unflatten

CHUNK_ROWS = 256
CHUNK_DRAWS = 64
CHECK_POINTS = 4096


@dataclass(frozen=True, eq=False)
class Prediction:
    """Moments of the prediction, one row an input and one column an output, in the user's units.

    `epistemic` is the spread of the drawn functions, `aleatoric` the noise around them.
    """

    mean: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Standard deviation of a new observation."""
        return np.sqrt(self.epistemic**2 + self.aleatoric**2)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Weight vectors drawn from a posterior, with all that is needed to use them."""

    network: Any
    draws: Float[Array, "draws weights"]
    likelihood: Gaussian
    likelihood_parameters: Float[Array, " parameters"]
    scaling: Scaling
    columns: Columns

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def noise(self) -> np.ndarray:
        """Learned or fixed noise of each output, in the user's units (nan where it varies)."""
        outputs = len(self.columns.outputs)
        if self.likelihood.noise == "by input":
            return np.full(outputs, np.nan)
        return np.exp(np.asarray(self.likelihood_parameters)) * self.scaling.output_scale

    def predict(self, x: np.ndarray) -> Prediction:
        """Mean, epistemic and aleatoric standard deviation at each row of ``x``."""
        parts = [
            _moments(self._model, self.draws, chunk)[:, :keep] for chunk, keep in self._chunks(x)
        ]
        mean, epistemic, aleatoric = np.concatenate(parts, axis=1)
        scale = self.scaling.output_scale
        return Prediction(self.scaling.restore(mean), epistemic * scale, aleatoric * scale)

    def functions(self, x: np.ndarray) -> np.ndarray:
        """Every drawn function at every row: (draws, rows, outputs), without noise."""
        parts = [
            _values(self._model, self.draws, chunk)[0][:, :keep] for chunk, keep in self._chunks(x)
        ]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def samples(self, x: np.ndarray, seed: int = 0) -> np.ndarray:
        """One new observation a draw and row: drawn functions with their noise added."""
        generator = np.random.default_rng(seed)
        parts = []
        for chunk, keep in self._chunks(x):
            mean, noise = _values(self._model, self.draws, chunk)
            part = np.asarray(mean) + np.asarray(noise) * generator.standard_normal(mean.shape)
            parts.append(part[:, :keep])
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def quantiles(
        self, x: np.ndarray, levels: Sequence[float], *, noise: bool = True
    ) -> np.ndarray:
        """Quantiles (levels, rows, outputs) of a new observation, or of the functions alone."""
        wanted = np.asarray(levels, float)
        if not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"quantile levels must be between 0 and 1, got {levels}")
        quantiles = _mixture_quantiles if noise else _function_quantiles
        parts = [
            quantiles(self._model, self.draws, chunk, jnp.asarray(wanted, float))[:, :keep]
            for chunk, keep in self._chunks(x)
        ]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    @property
    def _model(self) -> tuple:
        return self.network, self.likelihood, self.likelihood_parameters

    def _chunks(self, x: np.ndarray) -> Iterator[tuple[Array, int]]:
        """Rows in network units, in blocks of one padded size: the same bits however they are split."""
        inputs = self.scaling.inputs(x)
        for start in range(0, len(inputs), CHUNK_ROWS):
            block = inputs[start : start + CHUNK_ROWS]
            padded = np.pad(block, ((0, CHUNK_ROWS - len(block)), (0, 0)))
            yield jnp.asarray(padded, float), len(block)

    def bind(self, rules: Sequence[Rule], points: int = CHECK_POINTS) -> BoundKnowledge:
        """The rules on a dense set of points, without safety margins, for checking draws."""
        return bind_all(rules, self.columns, self.scaling, points, margins=False, seed=1)

    def check(self, rules: Sequence[Rule], knowledge: BoundKnowledge | None = None) -> Check:
        """Score every draw against every rule on a dense set of points."""
        if not rules:
            empty = np.zeros((len(self), 0))
            return Check(empty, empty)
        worst, f = _check(self.network, self.draws, knowledge or self.bind(rules))
        return Check(np.asarray(worst), np.asarray(f))

    def condition(
        self, rules: Sequence[Rule], tolerance: float = CHECK_TOLERANCE
    ) -> tuple[Posterior, float]:
        """The draws that obey every rule everywhere it was checked, and their share."""
        obeys = self.check(rules).obeys(tolerance)
        return self.take(obeys), float(np.mean(obeys)) if len(self) else 0.0

    def take(self, keep: np.ndarray) -> Posterior:
        """The posterior of some of the draws."""
        return replace(self, draws=self.draws[np.asarray(keep)])

    def joined(self, other: Posterior) -> Posterior:
        """The draws of both."""
        return replace(self, draws=jnp.concatenate([self.draws, other.draws]))

    def breaks_of_mean(self, rules: Sequence[Rule], points: int = 1024) -> np.ndarray:
        """At how many of the checked points the mean prediction breaks each rule."""
        if not rules:
            return np.zeros(0, int)
        scores = _mean_scores(self.network, self.draws, self.bind(rules, points))
        return np.array([int(np.sum(np.min(s, axis=1) < -CHECK_TOLERANCE)) for s in scores])


@dataclass(frozen=True, eq=False)
class Check:
    """Draws against rules, in each rule's unit: the worst score anywhere, and mean min(0, score)."""

    worst: np.ndarray
    f: np.ndarray

    def broken(self, tolerance: float = CHECK_TOLERANCE) -> np.ndarray:
        """(draws, rules): whether a draw breaks a rule somewhere."""
        return self.worst < -tolerance

    def obeys(self, tolerance: float = CHECK_TOLERANCE) -> np.ndarray:
        """(draws,): whether a draw obeys every rule."""
        return ~np.any(self.broken(tolerance), axis=1)


def _each_draw(function: Any, draws: Array) -> Any:
    return jax.lax.map(function, draws, batch_size=CHUNK_DRAWS)


def _draw_values(model: tuple, draws: Array, x: Array) -> tuple[Array, Array]:
    network, likelihood, parameters = model

    def one(weights: Array) -> tuple[Array, Array]:
        return likelihood.split(parameters, jax.vmap(unflatten(network, weights))(x))

    return _each_draw(one, draws)


@eqx.filter_jit
def _values(model: tuple, draws: Array, x: Array) -> tuple[Array, Array]:
    return _draw_values(model, draws, x)


@eqx.filter_jit
def _moments(model: tuple, draws: Array, x: Array) -> Array:
    mean, noise = _draw_values(model, draws, x)
    return jnp.stack(
        [jnp.mean(mean, axis=0), jnp.std(mean, axis=0), jnp.sqrt(jnp.mean(noise**2, axis=0))]
    )


@eqx.filter_jit
def _function_quantiles(model: tuple, draws: Array, x: Array, levels: Array) -> Array:
    return jnp.quantile(_draw_values(model, draws, x)[0], levels, axis=0)


@eqx.filter_jit
def _mixture_quantiles(model: tuple, draws: Array, x: Array, levels: Array) -> Array:
    """Quantiles of the mixture of normals, by bisection of its distribution function."""
    mean, noise = _draw_values(model, draws, x)
    shape = (len(levels), *mean.shape[1:])
    low = jnp.broadcast_to(jnp.min(mean - 9 * noise, axis=0), shape)
    high = jnp.broadcast_to(jnp.max(mean + 9 * noise, axis=0), shape)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        share = jax.lax.map(lambda m: jnp.mean(norm.cdf(m, mean, noise), axis=0), middle)
        below = share < levels[:, None, None]
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, 30, halve, (low, high))
    return (low + high) / 2


@eqx.filter_jit
def _check(network: Any, draws: Array, knowledge: BoundKnowledge) -> tuple[Array, Array]:
    def one(weights: Array) -> tuple[Array, Array]:
        scores = knowledge.scores(unflatten(network, weights))
        worst = jnp.stack([jnp.min(score) for score in scores])
        return worst, jnp.stack([jnp.mean(jnp.minimum(score, 0)) for score in scores])

    return _each_draw(one, draws)


@eqx.filter_jit
def _mean_scores(network: Any, draws: Array, knowledge: BoundKnowledge) -> list[Array]:
    def mean_function(x: Array) -> Array:
        return jnp.mean(jax.vmap(lambda w: unflatten(network, w)(x))(draws), axis=0)

    return knowledge.scores(mean_function)
