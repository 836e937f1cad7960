"""Projection: every draw that breaks a hard rule is moved to the nearest function that obeys.

Draws that obey stay as they are, bit for bit. The others are moved (`prbnn.posterior.nearest`) until a
pass over fresh points finds nothing broken; those that cannot be moved so far are left to be rejected.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from prbnn.posterior import nearest
from prbnn.posterior.checks import check_points
from prbnn.posterior.draws import Posterior
from prbnn.posterior.prediction import network_inputs
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks
from prbnn.system.process import computing

# training rows at which the distance is measured, at most
ROWS = 256
# draws per call of the compiled program; the last call repeats some, so that there is one program
BLOCK = 32
# how far inside its limit a score must be where a draw is moved, in the rule's unit, by pass over fresh
# points; and what counts as broken. A draw that a second pass finds broken will be broken elsewhere, too:
# later passes ask for more than the rule itself
INSIDE = (0.5 * CHECK_TOLERANCE, 1e-2, *[2e-2] * 6)
ALLOWED = (-CHECK_TOLERANCE, -CHECK_TOLERANCE, *[1e-2] * 6)
# of the points that the dense check evaluates, a pass evaluates 1 / FEWER, in PARTS
FEWER, PARTS = 2, 8
# the least standard deviation of an observation, as a fraction of the median: certain classes have none
LEAST_DEVIATION = 0.05


@dataclass(frozen=True, eq=False)
class Projected:
    """Draws after projection, in their order.

    - `posterior`: all draws, moved where they had to be
    - `obeys`: whether the last pass over fresh points found nothing broken
    - `broken`: (draws, rules) whether the first pass found a draw breaking a rule, where it began or on
      its way
    - `distance`: root mean square change of a draw's predictions over the training rows, in standard
      deviations of the noise
    - `change`: the same in the user's units, (draws, outputs)
    """

    posterior: Posterior
    obeys: np.ndarray
    broken: np.ndarray
    distance: np.ndarray
    change: np.ndarray


def project(
    posterior: Posterior,
    rules: Sequence[Rule],
    precision: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    seed: int = 1,
) -> Projected:
    """Move every draw that breaks one of ``rules`` to the nearest function that obeys all of them.

    ``precision`` is that of each weight under its prior, times the tempering. ``weight`` is how many rows
    each training row counts as (None: one). Passes draw their points from ``seed`` on.
    """
    computing()
    moving = nearest.moving_weights(posterior.network)
    states = _start(posterior, moving.of(precision), weight, moving)
    count = len(posterior)
    obeys, broken = np.zeros(count, bool), np.zeros((count, len(rules)), bool)
    points = max(PARTS, check_points(posterior.columns) // FEWER)
    # where none of the first draws can be moved, the rules are at fault and the others would take minutes
    for places in np.split(np.arange(count), [min(BLOCK, count)]):
        for number, (inside, allowed) in enumerate(zip(INSIDE, ALLOWED, strict=True)):
            left = places[~obeys[places]]
            if not len(left):
                break
            knowledge = posterior.bind(rules, points, seed=seed + number, edges=True)
            some = _taken(states, left)
            after, least = _pass(posterior, knowledge, some, moving, inside, allowed)
            _put(states, left, after)
            short = breaks(least, -allowed)
            if number == 0:
                broken[left] = short
            obeys[left] = ~short.any(axis=1)
        if not obeys[places].any():
            break
    draws = np.array(posterior.draws)
    shifted = np.flatnonzero(np.any(states.move != 0, axis=1))
    draws[shifted, moving.start : moving.stop] += states.move[shifted]
    found = posterior.with_draws(draws)
    return Projected(found, obeys, broken, *distances(posterior, found))


def _start(
    posterior: Posterior, precision: np.ndarray, weight: np.ndarray | None, moving: nearest.Span
) -> nearest.Moving:
    """Every draw where it is, with the inverse of its metric."""
    table = posterior.columns.rows
    places = measured_rows(posterior)
    each = np.ones(len(table)) if weight is None else np.asarray(weight, float)
    counts = each[places] * each.sum() / max(each[places].sum(), 1e-30)
    x = jnp.asarray(network_inputs(table[places], posterior.columns, posterior.scaling), float)
    inverse_variance = counts[:, None] / deviations(posterior, table[places]) ** 2
    vectors = posterior.vectors.astype(np.float32)
    parts = []
    for some, at in _blocks(len(vectors)):
        found = nearest.sensitivities(posterior.model, jnp.asarray(vectors[at]), x, moving)
        slopes = np.asarray(found)[: len(some)].reshape(len(some), -1, precision.size)
        weights = inverse_variance[some].reshape(len(some), -1)
        diagonal, factor, sign = nearest.inverse_of(slopes, weights, precision)
        parts.append((diagonal, factor, np.full(len(some), sign)))
    inverse = nearest.Inverse(
        *(np.concatenate(part).astype(np.float32) for part in zip(*parts, strict=True))
    )
    move = np.zeros((len(vectors), precision.size), np.float32)
    return nearest.Moving(vectors, move, nearest.no_cuts(*move.shape), inverse)


def _pass(
    posterior: Posterior,
    knowledge: BoundKnowledge,
    states: nearest.Moving,
    moving: nearest.Span,
    inside: float,
    allowed: float,
) -> tuple[nearest.Moving, np.ndarray]:
    """Draws after one pass over the pools, and the least score of each rule met on the way."""

    def one(part: tuple[np.ndarray, np.ndarray]) -> tuple:
        some, at = part
        found = nearest.moved(
            posterior.model,
            knowledge,
            jax.tree.map(jnp.asarray, _taken(states, at)),
            moving,
            jnp.asarray(inside),
            jnp.asarray(allowed),
            PARTS,
        )
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(some)], found)

    # a draw is moved on one core: as many blocks at a time as there are cores
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(one, _blocks(len(states.move))))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _blocks(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions of the draws of each call, and the same filled up to BLOCK by repeating some."""
    parts = [np.arange(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    return [(some, np.resize(some, BLOCK)) for some in parts]


def _taken(states: nearest.Moving, places: np.ndarray) -> nearest.Moving:
    return jax.tree.map(lambda leaf: leaf[places], states)


def _put(states: nearest.Moving, places: np.ndarray, values: nearest.Moving) -> None:
    for leaf, value in zip(jax.tree.leaves(states), jax.tree.leaves(values), strict=True):
        leaf[places] = value


def measured_rows(posterior: Posterior) -> np.ndarray:
    """Training rows at which distances are measured: all, or ROWS of them spread over the table."""
    count = len(posterior.columns.rows)
    return np.unique(np.linspace(0, count - 1, min(count, ROWS)).astype(int))


def deviations(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """Standard deviation of an observation (draws, rows, outputs), in network units."""
    parts = [
        np.broadcast_to(posterior.likelihood.deviation(mean, noise), mean.shape)[:, :keep]
        for mean, noise, keep in posterior.blocks(rows, finite=False)
    ]
    found = np.concatenate(parts, axis=1)
    return np.maximum(found, LEAST_DEVIATION * np.median(found, axis=(0, 1)))


def distances(before: Posterior, after: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """How far each draw's predictions moved: `distance` and `change` of `Projected`."""
    rows = before.columns.rows[measured_rows(before)]
    deviation = deviations(before, rows) * before.scaling.output_scale
    change = after.functions(rows) - before.functions(rows)
    return (
        np.sqrt(np.mean((change / deviation) ** 2, axis=(1, 2))),
        np.sqrt(np.mean(change**2, axis=1)),
    )
