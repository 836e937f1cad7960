"""Checking draws against rules on dense sets of points."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.inference.problem import inside_of
from prbnn.model.construction.builder import ends_of, output_of
from prbnn.posterior.chunks import CHUNK_DRAWS, DrawnModel, by_draw
from prbnn.rules.base import Rule
from prbnn.rules.evaluation import at_points
from prbnn.rules.scoring.binding import BoundKnowledge
from prbnn.rules.scoring.families import each_rule
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks, known, lowest
from prbnn.rules.strengths import Kind
from prbnn.system.process import side_by_side

# points at which a rule over one input is checked; twice as many over several, fewer sequences
CHECK_POINTS = 8192
CHECK_SEQUENCES = 512
# enough to notice rounding of rules that hold by construction
BUILT_POINTS = 256
# points of a pool that are evaluated at a time, of one draw and of the mean of all: hidden layers at
# more do not fit into a cache
AT_ONCE = 1024
MEAN_POINTS = 16


@dataclass(frozen=True, eq=False)
class Check:
    """Draws against rules (draws, rules), scores in each rule's unit.

    `worst` is the lowest score anywhere, `f` the mean of min(0, score), `score` the mean as it is,
    `points` the fraction of points where the rule is broken. A NaN score counts as broken, and makes the
    other three -inf.
    """

    worst: np.ndarray
    f: np.ndarray
    score: np.ndarray
    points: np.ndarray

    @staticmethod
    def none(draws: int) -> Check:
        """A check of zero rules."""
        return Check(*np.zeros((4, draws, 0)))

    def of(self, places: Sequence[int]) -> Check:
        """The same for the rules at these places."""
        return Check(*(part[:, places] for part in (self.worst, self.f, self.score, self.points)))

    def among(self, draws: np.ndarray) -> Check:
        """The same for some of the draws, chosen by a mask or by positions."""
        return Check(*(part[draws] for part in (self.worst, self.f, self.score, self.points)))

    def broken(self, tolerance: float = CHECK_TOLERANCE) -> np.ndarray:
        """(draws, rules): whether a draw breaks a rule somewhere by more than ``tolerance``."""
        return breaks(self.worst, tolerance)

    def obeys(self, tolerance: float = CHECK_TOLERANCE) -> np.ndarray:
        """(draws,): whether a draw obeys every rule to within ``tolerance``."""
        return ~np.any(self.broken(tolerance), axis=1)


def check_points(columns: Columns) -> int:
    """At how many points rules are checked."""
    if columns.layout is not None:
        return CHECK_SEQUENCES
    return CHECK_POINTS if len(columns.inputs) == 1 else 2 * CHECK_POINTS


def split_by_form(
    rules: Sequence[Rule], built: Collection[str], columns: Columns
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which ``rules`` are limits in ``built``, which are other rules in it, and which are not in it."""
    met = np.array([rule.label in built for rule in rules])
    limits = met & np.array([bool(ends_of(rule, columns)) for rule in rules])
    return limits, met & ~limits, ~met


def check_draws(model: DrawnModel, vectors: np.ndarray, knowledge: BoundKnowledge) -> Check:
    """Score every draw against every rule of ``knowledge``."""
    found = by_draw(lambda draws: _check(model, draws, knowledge), vectors)
    return Check(*np.moveaxis(found, 1, 0))


@eqx.filter_jit
def _check(model: DrawnModel, draws: Array, knowledge: BoundKnowledge) -> Array:
    """(draws, 4, rules): what `Check` holds."""
    count, width = _blocks(knowledge.pool)

    def one(vector: Array) -> Array:
        function = model.response(vector)

        def block(number: Array) -> Array:
            return each_rule(knowledge.scored(function, number * width, width), summary)

        found = jax.lax.map(block, jnp.arange(count))
        means = jnp.mean(found[..., 1:], axis=0)
        return jnp.column_stack([jnp.min(found[..., 0], axis=0), means]).T

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

    return jax.lax.map(one, draws, batch_size=max(1, AT_ONCE // width))


def _blocks(points: int) -> tuple[int, int]:
    """In how many blocks as many points are evaluated, and the points of each."""
    return (points // AT_ONCE, AT_ONCE) if points % AT_ONCE == 0 else (1, points)


def lowest_scores(
    model: DrawnModel, vectors: np.ndarray, knowledge: BoundKnowledge
) -> tuple[np.ndarray, np.ndarray]:
    """Of each draw, at which point the one rule of ``knowledge`` scores lowest, and the score."""
    places, scores = by_draw(lambda draws: _lowest(model, draws, knowledge), vectors).T
    return places.astype(int), scores.astype(np.float64)


@eqx.filter_jit
def _lowest(model: DrawnModel, draws: Array, knowledge: BoundKnowledge) -> Array:
    """(draws, 2): at which point the one rule's score is lowest, and the score."""

    def one(vector: Array) -> Array:
        least = lowest(knowledge.scores(model.response(vector))[0], axis=1)
        place = jnp.argmin(least)
        return jnp.stack([place.astype(least.dtype), least[place]])

    return jax.lax.map(one, draws, batch_size=max(1, AT_ONCE // knowledge.pool))


@eqx.filter_jit
def worst_places(
    model: DrawnModel,
    vectors: Array,
    knowledge: BoundKnowledge,
    start: Array,
    width: int,
    count: int,
) -> tuple[Array, Array, Array]:
    """Where in each pool draws are broken worst, among ``width`` points from each one's ``start`` on.

    Returns ``count`` places per draw and region and the lowest score at each, both (draws, regions,
    count), and the least score of each rule (draws, rules).
    """
    members = knowledge.members

    blocks, size = _blocks(width)

    def one(part: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        vector, start = part
        function = model.response(vector)

        def by_point(_: Kind, score: Array, __: Array | None) -> Array:
            return lowest(score, axis=1)

        def block(number: Array) -> Array:
            return each_rule(knowledge.scored(function, start + number * size, size), by_point)

        found = jnp.concatenate(list(jax.lax.map(block, jnp.arange(blocks))), axis=1)
        regions = jnp.stack([jnp.min(found[np.array(rules)], axis=0) for rules in members])
        depth, places = jax.lax.top_k(-regions, count)
        return places + start, -depth, jnp.min(found, axis=1)

    return jax.lax.map(one, (vectors, start))


def chance_below(model: DrawnModel, vectors: np.ndarray, knowledge: BoundKnowledge) -> np.ndarray:
    """P(score < 0) of each rule, over draws and points, as training scores it."""
    found = by_draw(lambda draws: _below(model, draws, knowledge), vectors)
    return found.mean(axis=0, dtype=np.float64)


@eqx.filter_jit
def _below(model: DrawnModel, draws: Array, knowledge: BoundKnowledge) -> Array:
    """(draws, rules): the fraction of points, and of a score's components, below 0."""
    inside = inside_of(knowledge)

    def one(vector: Array) -> Array:
        return each_rule(knowledge.scored(model.response(vector)), below)

    def below(kind: Kind, score: Array, weights: Array | None) -> Array:
        short = score - inside if kind == Kind.HARD else score
        # where a function is flat, its slope is 0 but for rounding
        found = breaks(short, CHECK_TOLERANCE).astype(score.dtype)
        return jnp.mean(found) if weights is None else jnp.mean(found @ weights)

    return jax.lax.map(one, draws, batch_size=max(1, AT_ONCE // knowledge.pool))


def breaks_of_mean(model: DrawnModel, vectors: np.ndarray, knowledge: BoundKnowledge) -> np.ndarray:
    """At how many points the mean of all draws breaks each rule."""
    count = len(vectors)
    extra = -count % CHUNK_DRAWS
    draws = jnp.asarray(np.pad(vectors, ((0, extra), (0, 0))))
    weight = jnp.asarray(np.repeat([1 / count, 0.0], [count, extra]), float)
    size = knowledge.pool
    width = MEAN_POINTS if size % MEAN_POINTS == 0 else size

    def block(start: int) -> np.ndarray:
        return np.asarray(
            _mean_breaks(model, draws, weight, knowledge, jnp.asarray(start, int), width)
        )

    return np.sum(side_by_side(block, range(0, size, width)), axis=0)


@eqx.filter_jit
def _mean_breaks(
    model: DrawnModel,
    draws: Array,
    weight: Array,
    knowledge: BoundKnowledge,
    start: Array,
    width: int,
) -> Array:
    def mean_function(x: Array) -> Array:
        return weight @ jax.vmap(lambda vector: model.response(vector)(x))(draws)

    def broken(_: Kind, score: Array, weights: Array | None) -> Array:
        return jnp.sum(breaks(lowest(score, axis=1), CHECK_TOLERANCE))

    return each_rule(knowledge.scored(mean_function, start, width), broken)


def scores_of_limits(
    rule: Rule, points: np.ndarray, values: np.ndarray, columns: Columns, scaling: Scaling
) -> np.ndarray:
    """Scores in the rule's unit of ``values`` (..., points, outputs) against limits on an output."""
    output = output_of(rule, columns)
    value, scores = values[..., output], []
    for end, upper in ends_of(rule, columns):
        limit = at_points(end, columns, points, "bound")
        scores.append(limit - value if upper else value - limit)
    return known(np.min(scores, axis=0)) / scaling.output_sd[output]
