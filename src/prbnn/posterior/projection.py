"""Projection: every draw that breaks a hard rule is moved to the nearest function that obeys.

Draws that obey stay as they are, bit for bit. Draws of one posterior break rules at much the same points,
so a few scouts are searched (`prbnn.posterior.searching`) and moved (`prbnn.posterior.nearest`) first.
Where they were broken worst, all draws are moved; then each is searched at points that are new, and where
one is found broken, the point joins the others and the draw is moved again. Draws that are broken after
all are left to be rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from prbnn.posterior import nearest
from prbnn.posterior.draws import Posterior
from prbnn.posterior.prediction import network_inputs
from prbnn.posterior.searching import Search, blocks, in_blocks
from prbnn.rules.base import Rule
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks
from prbnn.system.process import computing, one_blas_thread, side_by_side

# training rows at which the distance is measured, at most
ROWS = 256
# draws that are searched and moved first, in how many rounds, and for what fraction of them it must be
# enough how far inside all others begin
SCOUTS = 32
SCOUTING = 4
SCOUTS_MET = 0.9
# searches of all draws, and the fresh points of each region over one input and over several
SEARCHES = 6
SEARCHED = 2048
SURFACE_SEARCHED = 4096
# how far inside its limit a score must be where a draw is moved, in the unit of the rule. Over several
# inputs no points are dense, and a function that touches its limit at some crosses it between them:
# slopes and differences by more than values. Where a search finds a draw that has moved broken again, it
# grows by GROWTH, up to MOST times as much; where no function is found so far inside, it begins anew
INSIDE = 0.5 * CHECK_TOLERANCE
SURFACE_INSIDE = 1e-2
SURFACE_INSIDE_VALUES = 1e-3
GROWTH, MOST = 2.0, 8.0
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
    count = len(posterior)
    moving = nearest.moving_weights(posterior.network)
    states = _start(posterior, moving.of(precision), weight, moving)
    mover = _Mover(posterior, rules, moving, states, seed)
    everyone = np.arange(count)
    obeys = np.zeros(count, bool)
    # where no scout can be moved, the rules are at fault and the others would take minutes
    if mover.scout(everyone[:: max(1, count // SCOUTS)][:SCOUTS]):
        left = everyone
        for _ in range(SEARCHES):
            mover.move(left)
            close, broken = mover.search(left)
            obeys[left] = ~broken
            left = left[close]
            if not len(left):
                break
        # points that were found late are new to the draws that were done before
        done = np.flatnonzero(obeys)
        before = states.move[done]
        failed = mover.move(done)
        shifted = np.any(states.move[done] != before, axis=1)
        obeys[done] = ~failed
        again = done[shifted & ~failed]
        _, broken = mover.search(again)
        obeys[again] = ~broken
    return mover.result(obeys)


class _Mover:
    """Draws on their way.

    `states` are the draws; `broken` (draws, rules) is whether a draw was found breaking a rule where it
    began; `inside` is the score of each rule where a draw is moved, and `growth` how many times as much
    each draw needs.
    """

    def __init__(
        self,
        posterior: Posterior,
        rules: Sequence[Rule],
        moving: nearest.Span,
        states: nearest.Moving,
        seed: int,
    ) -> None:
        columns = posterior.columns
        surface = len(columns.inputs) > 1 and columns.layout is None
        self.posterior, self.moving, self.states = posterior, moving, states
        self.growth = np.ones(len(posterior))
        self.searching = Search(posterior, rules, seed)
        self.searched = SURFACE_SEARCHED if surface else SEARCHED
        bound = self.searching.bound
        values = np.array([bound.rule(place).of_values for place in range(len(rules))])
        several = np.where(values, SURFACE_INSIDE_VALUES, SURFACE_INSIDE)
        self.inside = several if surface else np.full(len(rules), INSIDE)
        self.broken = np.zeros((len(posterior), len(rules)), bool)

    def scout(self, draws: np.ndarray) -> bool:
        """Search and move ``draws``, in turn; whether one of them obeys.

        Points where they are broken, and how far inside they had to be, are where all others begin.
        """
        failed = np.zeros(len(draws), bool)
        for _ in range(SCOUTING):
            close, _ = self.search(draws)
            if not close.any():
                return True
            failed = self.move(draws)
        self.growth[:] = np.quantile(self.growth[draws], SCOUTS_MET)
        return not failed.all()

    def search(self, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which draws must be moved for points that are new, and which of them break a rule.

        The worst points of those that must be moved are remembered.
        """
        if not len(draws):
            return np.zeros(0, bool), np.zeros(0, bool)
        looked = self.searching.look(self._vectors(draws), self.searched)
        self._note(draws, looked.least)
        close = breaks(looked.least, -self._allowed(draws)).any(axis=1)
        again = draws[close & np.any(self.states.move[draws] != 0, axis=1)]
        self.growth[again] = np.minimum(GROWTH * self.growth[again], MOST)
        self.searching.remember(looked, close)
        return close, breaks(looked.least, CHECK_TOLERANCE).any(axis=1)

    def move(self, draws: np.ndarray) -> np.ndarray:
        """Move those of ``draws`` that break a rule at the points known; which of them still do."""
        if not len(draws):
            return np.zeros(0, bool)
        knowledge = self.searching.worst()

        def one(some: np.ndarray) -> tuple:
            return nearest.moved(
                self.posterior.model,
                knowledge,
                jax.tree.map(jnp.asarray, _taken(self.states, some)),
                self.moving,
                jnp.asarray(self._inside(some), float),
                jnp.asarray(self._allowed(some), float),
            )

        states, before, after = in_blocks(one, draws)
        self._note(draws, before)
        _put(self.states, draws, states)
        failed = breaks(after, CHECK_TOLERANCE)
        self.growth[draws[failed]] = 1
        return failed

    def result(self, obeys: np.ndarray) -> Projected:
        """What became of all draws."""
        vectors = self._vectors(np.arange(len(self.posterior)))
        found = self.posterior.with_draws(vectors[:, : self.posterior.draws.shape[1]])
        return Projected(found, obeys, self.broken, *distances(self.posterior, found))

    def _vectors(self, draws: np.ndarray) -> np.ndarray:
        """Weights and likelihood parameters where the draws are now; as they were where none moved."""
        vectors, move = self.posterior.vectors[draws], self.states.move[draws]
        shifted = np.any(move != 0, axis=1)
        vectors[shifted, self.moving.start : self.moving.stop] += move[shifted]
        return vectors

    def _inside(self, draws: np.ndarray) -> np.ndarray:
        """(draws, rules): the score that each must have where it is moved."""
        return self.growth[draws][:, None] * self.inside

    def _allowed(self, draws: np.ndarray) -> np.ndarray:
        """(draws, rules): the score below which it is moved: half of `_inside` once it has been."""
        moved = np.any(self.states.move[draws] != 0, axis=1)
        return np.where(moved[:, None], self._inside(draws) / 2, -CHECK_TOLERANCE)

    def _note(self, draws: np.ndarray, least: np.ndarray) -> None:
        """Remember which rules were broken by draws that have not moved."""
        there = ~np.any(self.states.move[draws] != 0, axis=1)
        self.broken[draws] |= breaks(least, CHECK_TOLERANCE) & there[:, None]


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

    def inverse(part: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, ...]:
        some, at = part
        found = nearest.sensitivities(posterior.model, jnp.asarray(vectors[at]), x, moving)
        slopes = np.asarray(found)[: len(some)].reshape(len(some), -1, precision.size)
        weights = inverse_variance[some].reshape(len(some), -1)
        diagonal, factor, sign = nearest.inverse_of(slopes, weights, precision)
        return diagonal, factor, np.full(len(some), sign)

    with one_blas_thread():
        parts = side_by_side(inverse, blocks(len(vectors)))
    inverses = nearest.Inverse(
        *(np.concatenate(part).astype(np.float32) for part in zip(*parts, strict=True))
    )
    move = np.zeros((len(vectors), precision.size), np.float32)
    return nearest.Moving(vectors, move, nearest.no_cuts(*move.shape), inverses)


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
