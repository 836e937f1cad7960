"""The nearest function that obeys: one quadratic program per draw, solved by cutting planes.

The distance of a draw from where it began is

    1/2 sum over rows |f(x) - f0(x)|^2 / noise^2  +  1/2 tempering |w - w0|^2 / prior_sd^2

over the weights that move. The second term decides what the data leave open; together they are the local
precision of the posterior. A linear last layer is all that moves, where a network has one: slopes, values
and differences are linear in it, so the program is convex and its answer is the nearest. A score at a
point is then one linear inequality (a cut). In each round the points where a draw is broken most give new
cuts, the program is solved again, and the scores at all points follow from one linearisation. Scores that
are not linear are linearised again where the draw has come to.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.model.weights import named_leaves
from prbnn.posterior.chunks import DrawnModel
from prbnn.rules.scoring.binding import BoundKnowledge
from prbnn.rules.scoring.families import Scored, each_rule
from prbnn.rules.scoring.obedience import lowest, trainable

# cuts of one program, and how many of them a round of solving may replace
CUTS = 96
FRESH = 16
# rounds per linearisation, and linearisations
ROUNDS = 8
LINEARISED = 4
# sweeps of coordinate descent over the multipliers
SWEEPS = 6
# a network without a linear last layer moves its last weights, up to this many
MOST_WEIGHTS = 4096
# metrics of up to this many weights are inverted whole: with few rows Woodbury's form would need less,
# but it is a difference of numbers that are nearly equal where the noise is small
DENSE = 512
# a score above this, in the rule's unit, is no cut
FAR = 1e3


class Span(NamedTuple):
    """Which weights of a vector move: those from ``start`` to before ``stop``."""

    start: int
    stop: int

    def of(self, vector: Any) -> Any:
        """The entries of a vector, along its last axis, that move."""
        return vector[..., self.start : self.stop]

    def put(self, vector: Array, weights: Array) -> Array:
        """``vector`` with ``weights`` in their place."""
        return jnp.concatenate([vector[: self.start], weights, vector[self.stop :]])


class Inverse(NamedTuple):
    """The inverse of a draw's metric, diagonal + sign * factor^T factor, over the weights that move."""

    diagonal: Float[Any, " moving"]
    factor: Float[Any, "rank moving"]
    sign: Float[Any, ""]

    def times(self, rows: Float[Array, "n moving"]) -> Float[Array, "n moving"]:
        """``rows`` times the inverse."""
        return rows * self.diagonal + self.sign * ((rows @ self.factor.T) @ self.factor)


class Cuts(NamedTuple):
    """Inequalities slope . move >= short in the move of a draw from where it began, and multipliers."""

    slope: Float[Any, "cuts moving"]
    short: Float[Any, " cuts"]
    multiplier: Float[Any, " cuts"]


class Moving(NamedTuple):
    """A draw on its way: where it began, how far its weights have moved, and its cuts."""

    first: Float[Any, " vector"]
    move: Float[Any, " moving"]
    cuts: Cuts
    inverse: Inverse


def moving_weights(network: Any) -> Span:
    """Which weights move: those of a linear last layer; else all, or the last ones of a large network.

    A last layer is the last two arrays of the network, where these are a matrix and its biases.

    >>> from prbnn import MLP
    >>> import jax
    >>> moving_weights(MLP((8,)).build(jax.random.key(0), 2, 1))
    Span(start=24, stop=33)
    """
    shapes = [leaf.shape for _, leaf in named_leaves(network)]
    sizes = [math.prod(shape) for shape in shapes]
    total = sum(sizes)
    if len(shapes) > 1 and len(shapes[-2]) == 2 and shapes[-1] == shapes[-2][:1]:
        return Span(total - sizes[-1] - sizes[-2], total)
    return Span(max(0, total - MOST_WEIGHTS), total)


def no_cuts(draws: int, moving: int) -> Cuts:
    """Before the first block: no inequality is known."""
    return Cuts(
        np.zeros((draws, CUTS, moving), np.float32),
        np.full((draws, CUTS), -FAR, np.float32),
        np.zeros((draws, CUTS), np.float32),
    )


@eqx.filter_jit
def sensitivities(
    model: DrawnModel, vectors: Array, x: Float[Array, "rows inputs"], moving: Span
) -> Float[Array, "draws rows outputs moving"]:
    """How each draw's predictions at rows change with the weights that move."""

    def one(vector: Array) -> Array:
        def at(weights: Array, x: Array) -> Array:
            return model.response(moving.put(vector, weights))(x)

        return jax.vmap(jax.jacrev(at), in_axes=(None, 0))(moving.of(vector), x)

    return jax.lax.map(one, vectors, batch_size=8)


def inverse_of(
    sensitivity: np.ndarray, weight: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Diagonals, factors and the sign of the inverse metrics; see `Inverse`.

    ``sensitivity`` is (draws, rows, moving), ``weight`` (draws, rows) the inverse variance of each row,
    ``precision`` (moving,) that of the weights. Of many weights that outnumber the rows, the smaller of
    two matrices is factored (Woodbury).
    """
    draws, rows, moving = sensitivity.shape
    scaled = (sensitivity * np.sqrt(weight)[:, :, None]).astype(np.float64)
    if moving <= max(rows, DENSE):
        matrix = np.swapaxes(scaled, 1, 2) @ scaled + np.diag(precision)
        return np.zeros((draws, moving)), np.linalg.inv(np.linalg.cholesky(matrix)), 1.0
    thin = scaled / np.sqrt(precision)
    lower = np.linalg.cholesky(thin @ np.swapaxes(thin, 1, 2) + np.eye(rows))
    factor = np.linalg.solve(lower, thin) / np.sqrt(precision)
    return np.broadcast_to(1 / precision, (draws, moving)), factor, -1.0


@eqx.filter_jit
def moved(
    model: DrawnModel,
    knowledge: BoundKnowledge,
    draws: Moving,
    moving: Span,
    inside: Float[Array, "draws rules"],
    allowed: Float[Array, "draws rules"],
) -> tuple[Moving, Float[Array, "draws rules"], Float[Array, " draws"]]:
    """Draws after they were moved, the least score of each rule before, and of all rules after.

    A draw stays where it is while no rule's score is below ``allowed``; where one is, scores must be
    ``inside``.
    """

    def one(part: tuple[Moving, Array, Array]) -> tuple[Moving, Array, Array]:
        draw, inside, allowed = part
        return _moved(model, knowledge, draw, moving, inside, allowed)

    # one draw at a time: the hidden layers of several at all points would not fit into a cache
    return jax.lax.map(one, (draws, inside, allowed))


def _moved(
    model: DrawnModel,
    knowledge: BoundKnowledge,
    draw: Moving,
    moving: Span,
    inside: Float[Array, " rules"],
    allowed: Float[Array, " rules"],
) -> tuple[Moving, Array, Array]:
    """The same of one draw."""
    began = moving.of(draw.first)

    def scored(move: Array, start: Array | int = 0, width: int | None = None) -> list[Scored]:
        function = model.response(moving.put(draw.first, began + move))
        return knowledge.scored(function, start, width)

    def by_point(found: list[Scored]) -> Float[Array, "points scores"]:
        rows = [jnp.moveaxis(trainable(block.score), 1, 0) for block in found]
        return jnp.concatenate([row.reshape(row.shape[0], -1) for row in rows], axis=1)

    def by_score(found: list[Scored], of_rules: Array) -> Float[Array, " scores"]:
        """Numbers of rules, one per score."""
        each = [
            jnp.repeat(of_rules[np.array(block.places)], block.score.shape[2]) for block in found
        ]
        return jnp.concatenate(each)

    def at(move: Array, place: Array) -> Array:
        """One score at one point: ``place`` counts all scores of all points."""
        return by_point(scored(move, place // count, 1))[0, place % count]

    def broken(number: Array, now: Array, most: int) -> Array:
        return (number < most) & (jnp.min(now - least) < 0)

    def linearised(state: tuple) -> tuple:
        number, first, cuts, _ = state
        now, change = jax.linearize(lambda move: by_point(scored(move)), first)

        def again(state: tuple) -> tuple:
            number, move, cuts, now = state
            worst = _worst(now - most)
            slope = jax.vmap(lambda place: jax.grad(at)(first, place))(worst)
            slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
            cuts = _joined(cuts, move, now.ravel()[worst], slope, most[worst % count])
            through = draw.inverse.times(cuts.slope)
            multiplier = _multipliers(through @ cuts.slope.T, cuts.short, cuts.multiplier)
            cuts, after = cuts._replace(multiplier=multiplier), through.T @ multiplier
            return number + 1, after, cuts, now + change(after - move)

        start = (jnp.asarray(0), first, cuts, now)
        _, move, cuts, _ = jax.lax.while_loop(
            lambda state: broken(state[0], state[3], ROUNDS), again, start
        )
        return number + 1, move, cuts, by_point(scored(move))

    before = scored(draw.move)
    now = by_point(before)
    least, most, count = by_score(before, allowed), by_score(before, inside), now.shape[1]
    state = (jnp.asarray(0), draw.move, draw.cuts, now)
    _, move, cuts, now = jax.lax.while_loop(
        lambda state: broken(state[0], state[3], LINEARISED), linearised, state
    )
    first = each_rule(before, lambda _, score, __: lowest(score))
    return draw._replace(move=move, cuts=cuts), first, jnp.min(now)


def _worst(now: Float[Array, "points scores"]) -> Int[Array, " fresh"]:
    """The worst place of each of FRESH parts: the worst of all lie side by side."""
    flat = now.ravel()
    part = -(-flat.size // FRESH)
    flat = jnp.pad(flat, (0, part * FRESH - flat.size), constant_values=jnp.inf)
    chosen = jnp.argmin(flat.reshape(FRESH, part), axis=1) + part * np.arange(FRESH)
    return jnp.minimum(chosen, now.size - 1)


def _joined(cuts: Cuts, move: Array, value: Array, slope: Array, inside: Array) -> Cuts:
    """The cuts known, without those that are met by the most, and fresh ones."""
    slack = cuts.slope @ move - cuts.short - FAR * (cuts.multiplier > 0)
    _, kept = jax.lax.top_k(-slack, CUTS - FRESH)
    # a score in the move from where the draw began: value + slope . (move' - move) >= inside
    return Cuts(
        jnp.concatenate([cuts.slope[kept], slope]),
        jnp.concatenate([cuts.short[kept], inside - value + slope @ move]),
        jnp.concatenate([cuts.multiplier[kept], jnp.zeros(FRESH)]),
    )


def _multipliers(
    matrix: Float[Array, "n n"], short: Float[Array, " n"], first: Float[Array, " n"]
) -> Float[Array, " n"]:
    """min over m >= 0 of 1/2 m^T matrix m - short^T m, by coordinate descent from ``first``."""
    diagonal = jnp.diag(matrix)
    diagonal = diagonal + 1e-6 * jnp.max(diagonal) + 1e-30

    def one(place: Array, multiplier: Array) -> Array:
        index = place % short.size
        change = (short[index] - matrix[index] @ multiplier) / diagonal[index]
        return multiplier.at[index].set(jnp.maximum(multiplier[index] + change, 0))

    return jax.lax.fori_loop(0, SWEEPS * short.size, one, first)
