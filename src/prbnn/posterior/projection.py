"""Projection: every draw that breaks a hard rule is moved to the nearest function that obeys.

Draws that obey stay as they are, bit for bit. Draws of one posterior break rules at much the same points,
so a few scouts search a large part of each region first. Where they are broken worst, all draws are moved
(`prbnn.posterior.nearest`); then each is searched at points that are new, and where one is found broken,
the point joins the others and the draw is moved again. Draws that are still broken after the last search
are left to be rejected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from prbnn.posterior import nearest
from prbnn.posterior.checks import worst_places
from prbnn.posterior.draws import Posterior
from prbnn.posterior.prediction import network_inputs
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks
from prbnn.system.process import computing

# training rows at which the distance is measured, at most
ROWS = 256
# draws per call of the compiled programs; the last call repeats some, so that there is one program
BLOCK = 8
# points of each region's pool: over one input, and over several
POOL = 8192
SURFACE_POOL = 65_536
# draws that search first, in how many rounds and at which fraction of the pool; how many points of a rule
# a search reports of each draw, and how many of all that were reported are kept
SCOUTS = 16
SCOUTING = 4
SCOUTED = 1 / 4
REPORTED = 8
KEPT = 512
# searches of all draws, and the points of each, as a fraction of the pool
SEARCHES = 6
SEARCHED = 1 / 16
# how far inside its limit a score must be where a draw is moved, in the rule's unit: over several inputs
# no points are dense, and a function that touches its limit at some crosses it between them. Later
# searches ask for LATER times as much
INSIDE = 0.5 * CHECK_TOLERANCE
SURFACE_INSIDE = 5e-3
LATER = 2.0
# the least standard deviation of an observation, as a fraction of the median: certain classes have none
LEAST_DEVIATION = 0.05


@dataclass(frozen=True, eq=False)
class Projected:
    """Draws after projection, in their order.

    - `posterior`: all draws, moved where they had to be
    - `obeys`: whether the last search of fresh points found nothing broken
    - `broken`: (draws, rules) whether a draw was found breaking a rule before it was moved
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
    each training row counts as (None: one). ``seed`` draws the points.
    """
    computing()
    columns, count = posterior.columns, len(posterior)
    surface = len(columns.inputs) > 1 and columns.layout is None
    moving = nearest.moving_weights(posterior.network)
    states = _start(posterior, moving.of(precision), weight, moving)
    knowledge = posterior.bind(rules, SURFACE_POOL if surface else POOL, seed=seed, edges=True)
    mover = _Mover(posterior, knowledge, moving, states)
    inside = SURFACE_INSIDE if surface else INSIDE
    everyone = np.arange(count)
    scouts = everyone[:: max(1, count // SCOUTS)][:SCOUTS]
    # where no scout can be moved, the rules are at fault and the others would take minutes
    if not mover.scout(scouts, inside):
        return mover.result(np.zeros(count, bool))
    obeys = np.zeros(count, bool)
    left = everyone
    for number in range(SEARCHES):
        mover.move(left, inside if number < 2 else LATER * inside)
        found = mover.search(left)
        left = left[found]
        if not len(left):
            obeys[:] = True
            break
        obeys[:] = True
        obeys[left] = False
    # points that joined late are new to the draws that were done before
    done = np.flatnonzero(obeys)
    obeys[done] = ~mover.move(done, inside)
    return mover.result(obeys)


class _Mover:
    """Draws on their way, and the points of each pool where draws were found broken worst.

    `states` are the draws; `places` (regions, points) the points; `broken` (draws, rules) whether a draw
    was found breaking a rule where it began.
    """

    def __init__(
        self,
        posterior: Posterior,
        knowledge: BoundKnowledge,
        moving: nearest.Span,
        states: nearest.Moving,
    ) -> None:
        self.posterior, self.knowledge, self.moving = posterior, knowledge, moving
        self.states = states
        pool = knowledge.pool
        self.width = max(BLOCK, int(pool * SEARCHED))
        self.places = np.empty((knowledge.regions, 0), int)
        self.depth = np.empty((knowledge.regions, 0))
        # blocks of the pool take turns; the scouts have the first ones
        self.next = int(pool * SCOUTED)
        self.broken = np.zeros((len(posterior), knowledge.count), bool)

    def scout(self, draws: np.ndarray, inside: float) -> bool:
        """Search a large part of the pool and move ``draws``, in turn; whether one of them obeys."""
        width = int(self.knowledge.pool * SCOUTED)
        self._join(np.zeros((1, self.knowledge.regions, 1), int), np.full((1, 1, 1), np.inf))
        for _ in range(SCOUTING):
            places, depth, least = self._searched(draws, 0, width)
            self._note(draws, least)
            self._join(places, depth)
            if not breaks(least, CHECK_TOLERANCE).any():
                return True
            failed = self.move(draws, inside)
        return not failed.all()

    def move(self, draws: np.ndarray, inside: float) -> np.ndarray:
        """Move those of ``draws`` that break a rule at the known places; which of them still do."""
        if not len(draws):
            return np.zeros(0, bool)
        places = jnp.asarray(np.resize(self.places, (self.places.shape[0], KEPT)))
        if self.places.shape[1] >= KEPT:
            places = jnp.asarray(self.places)

        def one(part: tuple[np.ndarray, np.ndarray]) -> tuple:
            some, at = part
            found = nearest.moved(
                self.posterior.model,
                self.knowledge,
                jax.tree.map(jnp.asarray, _taken(self.states, draws[at])),
                self.moving,
                jnp.asarray(inside),
                jnp.asarray(-CHECK_TOLERANCE),
                places,
            )
            return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(some)], found)

        states, before, after = _joined(_side_by_side(one, _blocks(len(draws))))
        _put(self.states, draws, states)
        self._note(draws, before)
        return breaks(after, CHECK_TOLERANCE).any(axis=1)

    def search(self, draws: np.ndarray) -> np.ndarray:
        """Search ``draws`` at the next points of the pool; which of them break a rule there."""
        places, depth, least = self._searched(draws, self.next, self.width)
        self.next = (self.next + self.width) % max(1, self.knowledge.pool - self.width + 1)
        self._note(draws, least)
        broken = breaks(least, CHECK_TOLERANCE).any(axis=1)
        self._join(places[broken], depth[broken])
        return broken

    def result(self, obeys: np.ndarray) -> Projected:
        """What became of all draws."""
        draws = np.array(self.posterior.draws)
        shifted = np.flatnonzero(np.any(self.states.move != 0, axis=1))
        draws[shifted, self.moving.start : self.moving.stop] += self.states.move[shifted]
        found = self.posterior.with_draws(draws)
        return Projected(found, obeys, self.broken, *distances(self.posterior, found))

    def _note(self, draws: np.ndarray, least: np.ndarray) -> None:
        still = ~np.any(self.states.move[draws] != 0, axis=1) | ~self.broken[draws].any(axis=1)
        self.broken[draws] |= breaks(least, CHECK_TOLERANCE) & still[:, None]

    def _searched(self, draws: np.ndarray, start: int, width: int) -> tuple:
        """Worst places (draws, regions, REPORTED), the scores there, and the least of each rule."""
        began = self.moving.of(self.states.first)
        vectors = self.states.first[draws].copy()
        vectors[:, self.moving.start : self.moving.stop] = began[draws] + self.states.move[draws]

        def one(part: tuple[np.ndarray, np.ndarray]) -> tuple:
            some, at = part
            found = worst_places(
                self.posterior.model,
                jnp.asarray(vectors[at]),
                self.knowledge,
                jnp.asarray(start),
                width,
                REPORTED,
            )
            return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(some)], found)

        return _joined(_side_by_side(one, _blocks(len(draws))))

    def _join(self, places: np.ndarray, depth: np.ndarray) -> None:
        """Places that were found (draws, regions, n) join those known; the KEPT worst stay."""
        depth = np.broadcast_to(depth, places.shape)
        regions = places.shape[1]
        known = [dict(zip(p, d, strict=True)) for p, d in zip(self.places, self.depth, strict=True)]
        for region in range(regions):
            found = known[region]
            for place, score in zip(places[:, region].ravel(), depth[:, region].ravel(), strict=True):
                found[place] = min(score, found.get(place, np.inf))
        size = min(KEPT, max(map(len, known)))
        self.places, self.depth = np.empty((regions, size), int), np.empty((regions, size))
        for region, found in enumerate(known):
            worst = sorted(found, key=found.__getitem__)[:size]
            self.places[region] = np.resize(worst, size)
            self.depth[region] = [found[place] for place in self.places[region]]


def _side_by_side(one: Callable, parts: Sequence) -> list:
    """``one`` of each part. A compiled program here runs on one core: as many at a time as there are."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, parts))


def _joined(parts: Sequence) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


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
