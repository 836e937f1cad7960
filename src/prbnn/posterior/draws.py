"""A posterior is draws: predict with them, check them against rules, keep those that obey."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.enforcement.measure import CHECK_TOLERANCE
from prbnn.errors import DataError
from prbnn.inference.problem import inside_of
from prbnn.model.construction.builder import ends_of, output_of
from prbnn.model.construction.built import built_in
from prbnn.model.construction.limits import held
from prbnn.model.likelihoods import Likelihood
from prbnn.model.response import response
from prbnn.model.weights import unflatten
from prbnn.rules.base import Rule
from prbnn.rules.evaluation import at_points
from prbnn.rules.regions import sample
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all
from prbnn.rules.scoring.families import each_rule
from prbnn.rules.scoring.obedience import breaks, known, lowest
from prbnn.rules.strengths import Kind
from prbnn.system.process import computing

CHUNK_ROWS = 256
CHUNK_DRAWS = 64
CHECK_POINTS = 8192
CHECK_SEQUENCES = 512
# enough to notice rounding; that such rules hold needs no points
BUILT_POINTS = 256
FURTHER_CHECKS = 2
CHECK_DRAWS = 4
# inputs in network units: their squares, and sums of some with large weights, still fit into float32
LARGEST_INPUT = 1e18


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
    """Weight vectors drawn from a posterior, with all that is needed to use them.

    `likelihood_parameters` has one row a draw (one vector serves all).
    """

    network: Any
    draws: np.ndarray
    likelihood: Likelihood
    likelihood_parameters: np.ndarray
    scaling: Scaling
    columns: Columns

    def __post_init__(self) -> None:
        own = np.asarray(self.likelihood_parameters)
        shape = (len(self.draws), own.shape[-1])
        object.__setattr__(self, "likelihood_parameters", np.broadcast_to(own, shape))

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def noise(self) -> np.ndarray:
        """Learned or fixed noise of each output, in the user's units (nan where it varies)."""
        if not self.likelihood.scales_targets or not self.likelihood_parameters.shape[1]:
            return np.full(len(self.columns.outputs), np.nan)
        scale = np.exp(np.asarray(self.likelihood_parameters, np.float64))
        return np.sqrt(np.mean(scale**2, axis=0)) * self.scaling.output_scale

    def predict(self, x: np.ndarray) -> Prediction:
        """Mean, epistemic and aleatoric standard deviation at each row of ``x``."""
        parts = []
        for mean, noise, keep in self.blocks(x):
            aleatoric = self.likelihood.deviation(mean, noise)
            moments = mean.mean(axis=0), mean.std(axis=0), np.sqrt(np.mean(aleatoric**2, axis=0))
            parts.append(np.stack(moments)[:, :keep])
        mean, epistemic, aleatoric = np.concatenate(parts, axis=1)
        scale = self.scaling.output_scale
        return Prediction(self.scaling.restore(mean), epistemic * scale, aleatoric * scale)

    def functions(self, x: np.ndarray) -> np.ndarray:
        """Every drawn function at every row: (draws, rows, outputs), without noise."""
        parts = [mean[:, :keep] for mean, _, keep in self.blocks(x)]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def samples(self, x: np.ndarray, seed: int = 0) -> np.ndarray:
        """One new observation a draw and row: drawn functions with their noise added."""
        generator = np.random.default_rng(seed)
        parts = [
            self.likelihood.sample(generator, mean, noise)[:, :keep]
            for mean, noise, keep in self.blocks(x)
        ]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def quantiles(
        self, x: np.ndarray, levels: Sequence[float], *, noise: bool = True
    ) -> np.ndarray:
        """Quantiles (levels, rows, outputs) of a new observation, or of the functions alone."""
        wanted = np.asarray(levels, float)
        if not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"quantile levels must be between 0 and 1, got {levels}")
        parts = [
            (
                _mixture_quantiles(self.likelihood, mean, scale, wanted)
                if noise
                else np.quantile(mean, wanted, axis=0)
            )[:, :keep]
            for mean, scale, keep in self.blocks(x)
        ]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def blocks(
        self, x: np.ndarray, *, finite: bool = True
    ) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Mean and noise of every draw (network units) on blocks of rows of one padded size.

        The same bits however the rows are split, and one program however many draws there are. Values
        that must be ``finite`` and are not raise by row and column.
        """
        computing()
        inputs = self._inputs(x)
        groups = list(_padded(self.vectors, CHUNK_DRAWS))
        for number, (block, rows) in enumerate(_padded(inputs, CHUNK_ROWS)):
            parts = [
                [np.asarray(part)[:keep] for part in _values(self._model, draws, block)]
                for draws, keep in groups
            ]
            mean, noise = (np.concatenate(piece) for piece in zip(*parts, strict=True))
            first = number * CHUNK_ROWS
            if finite:
                self._refuse_overflow(x, first, mean[:, :rows], noise[:, :rows])
            mean = mean.astype(np.float64)
            given = np.asarray(x[first : first + rows], np.float64)
            mean[:, :rows] = held(self.network, mean[:, :rows], given, self.scaling)
            yield mean, noise.astype(np.float64), rows

    def _inputs(self, x: np.ndarray) -> np.ndarray:
        """Rows in network units; refused where float32, in which networks compute, cannot hold them."""
        with np.errstate(over="ignore"):
            inputs = self.scaling.inputs(x)
        beyond = ~(np.abs(inputs) <= LARGEST_INPUT)
        if np.any(beyond):
            row, place = np.argwhere(beyond)[0]
            raise DataError(
                f"row {row} (from 0) has {np.asarray(x)[row, place]:g} in column "
                f"{self.columns.inputs[place]!r}, and {self._seen(place)}; nothing can be computed "
                f"beyond {LARGEST_INPUT:g} times the scale of a column. Check its unit, or leave the "
                "row out"
            )
        return inputs

    def _refuse_overflow(self, x: np.ndarray, first: int, *found: np.ndarray) -> None:
        """Raise where the network's own numbers overflow, naming the row and its farthest column."""
        for values in found:
            rows = np.argwhere(~np.isfinite(values))
            if not len(rows):
                continue
            row = first + int(rows[:, 1].min())
            if not np.all(np.isfinite(self.vectors)):
                raise DataError("the posterior holds weights that are not finite; fit it again")
            place = int(np.argmax(np.abs(self.scaling.inputs(np.asarray(x)[row]))))
            raise DataError(
                f"the prediction at row {row} (from 0) is not a finite number: column "
                f"{self.columns.inputs[place]!r} is {np.asarray(x)[row, place]:g}, and "
                f"{self._seen(place)}. Check its unit, or leave the row out"
            )

    def _seen(self, place: int) -> str:
        low, high = self.columns.span(self.columns.inputs[place])
        return f"the fit saw {low:g} to {high:g}"

    @property
    def vectors(self) -> np.ndarray:
        """Weights followed by the likelihood's own parameters, one row a draw."""
        return np.concatenate([self.draws, self.likelihood_parameters], axis=1)

    @property
    def _model(self) -> tuple:
        return self.network, self.likelihood, self.draws.shape[1]

    def log_density(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log of the mean over draws of p(y | x, draw), one number a row, in the user's units."""
        computing()
        targets = self.scaling.outputs(np.asarray(y, float).reshape(len(x), -1))
        largest = float(np.finfo(np.float32).max)
        targets = np.clip(targets, -largest, largest)
        inputs = self._inputs(x)
        groups = list(_padded(self.vectors, CHUNK_DRAWS))
        parts = []
        for (block, rows), (wanted, _) in zip(
            _padded(inputs, CHUNK_ROWS), _padded(targets, CHUNK_ROWS), strict=True
        ):
            found = [
                np.asarray(_densities(self._model, draws, block, wanted))[:keep]
                for draws, keep in groups
            ]
            density = np.concatenate(found).astype(np.float64)
            # a target too far away for float32 has no density
            density = np.where(np.isnan(density), -np.inf, density)
            parts.append((logsumexp(density, axis=0) - np.log(len(density)))[:rows])
        return np.concatenate(parts) - np.sum(np.log(self.scaling.output_scale))

    def bind(
        self, rules: Sequence[Rule], points: int | None = None, seed: int = 1
    ) -> BoundKnowledge:
        """The rules on a dense set of points, without safety margins, for checking draws."""
        if points is None:
            points = self._check_points
        exact = built_in(self.network)
        return bind_all(
            rules, self.columns, self.scaling, points, margins=False, seed=seed, exact=exact
        )

    @property
    def _check_points(self) -> int:
        if self.columns.layout is not None:
            return CHECK_SEQUENCES
        return CHECK_POINTS if len(self.columns.inputs) == 1 else 2 * CHECK_POINTS

    def check(self, rules: Sequence[Rule], knowledge: BoundKnowledge | None = None) -> Check:
        """Score every draw against every rule on a dense set of points.

        Rules that the network obeys by construction are tried at a few points only.
        """
        if not rules or not len(self):
            return Check(*np.zeros((4, len(self), len(rules))))
        built = np.array([rule.label in built_in(self.network) for rule in rules])
        if knowledge is None and built.any():
            found = np.zeros((4, len(self), len(rules)))
            limits = built & np.array([bool(ends_of(rule)) for rule in rules])
            kinds = [limits, built & ~limits, ~built]
            near, form, others = ([rules[k] for k in np.flatnonzero(part)] for part in kinds)
            checks = [
                self._check_limits(near),
                self.check(form, self.bind(form, BUILT_POINTS)) if form else Check.none(len(self)),
                self.check(others),
            ]
            for part, check in zip(kinds, checks, strict=True):
                found[:, :, part] = (check.worst, check.f, check.score, check.points)
            return Check(*found)
        computing()
        knowledge = knowledge or self.bind(rules)
        parts = [
            np.asarray(_check(self._model, draws, knowledge))[:keep]
            for draws, keep in _padded(self.vectors, CHUNK_DRAWS)
        ]
        return Check(*np.moveaxis(np.concatenate(parts), 1, 0))

    def worst_points(self, rule: Rule, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Where each draw scores lowest, (draws, inputs) in the user's units, and the score there.

        Among the points that `bind` with this seed checks, in the rule's unit.
        """
        knowledge = self.bind([rule], seed=seed)
        pool = sample(
            rule.sampling(self.columns).shared(self.columns), self.columns, self._check_points, seed
        )
        parts = [
            np.asarray(_lowest(self._model, draws, knowledge))[:keep]
            for draws, keep in _padded(self.vectors, CHUNK_DRAWS)
        ]
        places, scores = np.concatenate(parts).T
        return pool[places.astype(int)], scores.astype(np.float64)

    def _check_limits(self, rules: Sequence[Rule]) -> Check:
        """Limits that are built, of the values that are predicted, in float64."""
        found = np.zeros((4, len(self), len(rules)))
        for place, rule in enumerate(rules):
            points = sample(rule.sampling(self.columns), self.columns, BUILT_POINTS, 1)
            parts = [mean[:, :keep] for mean, _, keep in self.blocks(points, finite=False)]
            score = self._beyond(rule, points, self.scaling.restore(np.concatenate(parts, axis=1)))
            found[:, :, place] = (
                score.min(axis=1),
                np.minimum(score, 0).mean(axis=1),
                score.mean(axis=1),
                breaks(score, CHECK_TOLERANCE).mean(axis=1),
            )
        return Check(*found)

    def _beyond(self, rule: Rule, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Scores of values (..., points, outputs) against limits on an output, in its unit."""
        output = output_of(rule, self.columns)
        value, scores = values[..., output], []
        for end, upper in ends_of(rule):
            limit = at_points(end, self.columns, points, "bound")
            scores.append(limit - value if upper else value - limit)
        return known(np.min(scores, axis=0)) / self.scaling.output_sd[output]

    def condition(
        self,
        rules: Sequence[Rule],
        tolerance: float = CHECK_TOLERANCE,
        checked: Check | None = None,
    ) -> tuple[Posterior, float]:
        """The draws that obey every rule everywhere it was checked, and their share.

        Over several inputs no set of points is dense, so those that obey are tried at others, too.
        ``checked`` is what `check` found of these rules, where that is known.
        """
        kept = self.take((self.check(rules) if checked is None else checked).obeys(tolerance))
        surface = len(self.columns.inputs) > 1 and self.columns.layout is None
        further = FURTHER_CHECKS if surface and rules else 0
        for number in range(further):
            if len(kept):
                others = self.bind(rules, seed=2 + number)
                kept = kept.take(kept.check(rules, others).obeys(tolerance))
        return kept, len(kept) / len(self) if len(self) else 0.0

    def violated(self, rules: Sequence[Rule], points: int = 1024) -> np.ndarray:
        """P(score < 0) of each rule: over draws, and over points where it is trained.

        As it is trained: less its margin, and so far inside its limit as hard rules are trained. It is
        what a mean violation changes by when a bound moves, d E min(0, score + d) / dd = P(score < 0);
        of a combined rule the sum over its parts, by their weights.
        """
        if not rules or not len(self):
            return np.zeros(len(rules))
        points = self.points_for_mean(points)
        exact = built_in(self.network)
        knowledge = bind_all(rules, self.columns, self.scaling, points, exact=exact)
        parts = [
            np.asarray(_violated(self._model, draws, knowledge))[:keep]
            for draws, keep in _padded(self.vectors, CHUNK_DRAWS)
        ]
        return np.concatenate(parts).mean(axis=0, dtype=np.float64)

    def take(self, keep: np.ndarray) -> Posterior:
        """The posterior of some of the draws."""
        keep = np.asarray(keep)
        return self._of(self.draws[keep], self.likelihood_parameters[keep])

    def joined(self, other: Posterior) -> Posterior:
        """The draws of both."""
        return self._of(
            np.concatenate([self.draws, other.draws]),
            np.concatenate([self.likelihood_parameters, other.likelihood_parameters]),
        )

    def _of(self, draws: np.ndarray, own: np.ndarray) -> Posterior:
        return replace(self, draws=draws, likelihood_parameters=own)

    def points_for_mean(self, points: int, *, built: bool = False) -> int:
        """At how many points the mean is tried: every draw is there at once, so sequences are few.

        A mean of functions that obey a limit or a shape obeys it: ``built`` rules need fewer still.
        """
        few = self.columns.layout is not None or built
        return min(points, CHECK_SEQUENCES // 4) if few else points

    def breaks_of_mean(self, rules: Sequence[Rule], points: int = 1024) -> np.ndarray:
        """At how many of the checked points the mean prediction breaks each rule."""
        if not rules:
            return np.zeros(0, int)
        built = np.array([rule.label in built_in(self.network) for rule in rules])
        found = np.zeros(len(rules), int)
        limits = built & np.array([bool(ends_of(rule)) for rule in rules])
        for place in np.flatnonzero(limits):
            rule, count = rules[place], self.points_for_mean(points, built=True)
            tried = sample(rule.sampling(self.columns), self.columns, count, 1)
            score = self._beyond(rule, tried, self.predict(tried).mean)
            found[place] = int(np.sum(breaks(score, CHECK_TOLERANCE)))
        for part, few in ((built & ~limits, True), (~built, False)):
            chosen = [rules[place] for place in np.flatnonzero(part)]
            if chosen:
                tried = self.bind(chosen, self.points_for_mean(points, built=few))
                found[part] = self._breaks_of_mean(tried)
        return found

    def _breaks_of_mean(self, knowledge: BoundKnowledge) -> np.ndarray:
        count = len(self.draws)
        extra = -count % CHUNK_DRAWS
        draws = jnp.asarray(np.pad(self.vectors, ((0, extra), (0, 0))))
        share = jnp.asarray(np.repeat([1 / count, 0.0], [count, extra]), float)
        return np.asarray(_mean_breaks(self._model, draws, share, knowledge))


@dataclass(frozen=True, eq=False)
class Check:
    """Draws against rules (draws, rules), scores in each rule's unit.

    `worst` is the lowest score anywhere, `f` the mean of min(0, score), `score` the mean as it is,
    `points` the share of points where the rule is broken. Where a score is NaN, it is broken, and the
    other three are -inf.
    """

    worst: np.ndarray
    f: np.ndarray
    score: np.ndarray
    points: np.ndarray

    @staticmethod
    def none(draws: int) -> Check:
        """Of no rules."""
        return Check(*np.zeros((4, draws, 0)))

    def of(self, places: Sequence[int]) -> Check:
        """Some of the rules."""
        return Check(*(part[:, places] for part in (self.worst, self.f, self.score, self.points)))

    def broken(self, tolerance: float = CHECK_TOLERANCE) -> np.ndarray:
        """(draws, rules): whether a draw breaks a rule somewhere."""
        return breaks(self.worst, tolerance)

    def obeys(self, tolerance: float = CHECK_TOLERANCE) -> np.ndarray:
        """(draws,): whether a draw obeys every rule."""
        return ~np.any(self.broken(tolerance), axis=1)


def _padded(table: np.ndarray, size: int) -> Iterator[tuple[Array, int]]:
    """Blocks of one size, the last filled up with zeros, and how many of their rows count."""
    for start in range(0, len(table), size):
        block = table[start : start + size]
        filled = np.pad(block, ((0, size - len(block)), (0, 0)))
        yield jnp.asarray(filled, float), len(block)


@eqx.filter_jit
def _values(model: tuple, draws: Array, x: Array) -> tuple[Array, Array]:
    network, likelihood, size = model

    def one(vector: Array) -> tuple[Array, Array]:
        values = jax.vmap(unflatten(network, vector[:size]))(x)
        return likelihood.split(vector[size:], values)

    return jax.vmap(one)(draws)


@eqx.filter_jit
def _densities(model: tuple, draws: Array, x: Array, y: Array) -> Array:
    network, likelihood, size = model

    def one(vector: Array) -> Array:
        values = jax.vmap(unflatten(network, vector[:size]))(x)
        return jax.vmap(lambda v, t: likelihood.log_density(vector[size:], v, t))(values, y)

    return jax.vmap(one)(draws)


def _mixture_quantiles(
    likelihood: Likelihood, mean: np.ndarray, scale: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Quantiles of the mixture the draws stand for, by bisection of its distribution function."""
    shape = (len(levels), *mean.shape[1:])
    # no distribution has more than 1/k^2 beyond k standard deviations (Chebyshev)
    rarest = min(levels.min(), 1 - levels.max())
    reach = max(9.0, rarest**-0.5) * likelihood.deviation(mean, scale)
    low = np.broadcast_to(np.min(mean - reach, axis=0), shape)
    high = np.broadcast_to(np.max(mean + reach, axis=0), shape)
    for _ in range(30):
        middle = (low + high) / 2
        share = np.stack(
            [np.mean(likelihood.distribution(value, mean, scale), axis=0) for value in middle]
        )
        below = share < levels[:, None, None]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    middle = (low + high) / 2
    return middle if likelihood.scales_targets else np.round(middle) + 0.0


@eqx.filter_jit
def _check(model: tuple, draws: Array, knowledge: BoundKnowledge) -> Array:
    """(draws, 4, rules): what `Check` holds."""

    network, likelihood, size = model

    def one(vector: Array) -> Array:
        drawn = response(network, likelihood, vector[:size], vector[size:])
        return each_rule(knowledge.scored(drawn), summary).T

    def summary(_: Kind, score: Array, weights: Array | None) -> Array:
        score = known(score)
        low = jnp.minimum(score, 0)
        f, mean = (
            jnp.mean(part) if weights is None else jnp.mean(part @ weights) for part in (low, score)
        )
        # a weight of 0, or infinities of both signs, would make NaN of a mean
        f, mean = (known(part) for part in (f, mean))
        least = jnp.min(score, axis=1)
        return jnp.stack([jnp.min(least), f, mean, jnp.mean(breaks(least, CHECK_TOLERANCE))])

    # a few draws at a time: hidden layers at thousands of points take memory
    return jax.lax.map(one, draws, batch_size=CHECK_DRAWS)


@eqx.filter_jit
def _lowest(model: tuple, draws: Array, knowledge: BoundKnowledge) -> Array:
    """(draws, 2): at which point the one rule's score is lowest, and the score."""
    network, likelihood, size = model

    def one(vector: Array) -> Array:
        drawn = response(network, likelihood, vector[:size], vector[size:])
        least = lowest(knowledge.scores(drawn)[0], axis=1)
        place = jnp.argmin(least)
        return jnp.stack([place.astype(least.dtype), least[place]])

    return jax.lax.map(one, draws, batch_size=CHECK_DRAWS)


@eqx.filter_jit
def _violated(model: tuple, draws: Array, knowledge: BoundKnowledge) -> Array:
    """(draws, rules): the share of points, and of a score's components, below 0."""
    network, likelihood, size = model
    inside = inside_of(knowledge)

    def one(vector: Array) -> Array:
        drawn = response(network, likelihood, vector[:size], vector[size:])
        return each_rule(knowledge.scored(drawn), below)

    def below(kind: Kind, score: Array, weights: Array | None) -> Array:
        short = score - inside if kind == Kind.HARD else score
        # where a function is flat, its slope is 0 but for rounding
        found = breaks(short, CHECK_TOLERANCE).astype(score.dtype)
        return jnp.mean(found) if weights is None else jnp.mean(found @ weights)

    return jax.lax.map(one, draws, batch_size=CHECK_DRAWS)


@eqx.filter_jit
def _mean_breaks(model: tuple, draws: Array, share: Array, knowledge: BoundKnowledge) -> Array:
    """At how many points the mean function breaks each rule."""
    network, likelihood, size = model

    def mean_function(x: Array) -> Array:
        return share @ jax.vmap(
            lambda vector: response(network, likelihood, vector[:size], vector[size:])(x)
        )(draws)

    def broken(_: Kind, score: Array, weights: Array | None) -> Array:
        return jnp.sum(breaks(lowest(score, axis=1), CHECK_TOLERANCE))

    return each_rule(knowledge.scored(mean_function), broken)
