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
from prbnn.posterior.keeping import Keeping, Unkept
from prbnn.posterior.prediction import network_inputs
from prbnn.posterior.searching import Search, blocks, in_blocks
from prbnn.rules.base import Rule
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks
from prbnn.system.named_arrays import Arrays, below, from_arrays, to_arrays, under
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
LAST = SCOUTING + SEARCHES
END = LAST + 1
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
# the name of the draws among the arrays of draws that have been moved
DONE = "draws"


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

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it by name, for `projected_from`."""
        parts = {name: getattr(self, name) for name in ("obeys", "broken", "distance", "change")}
        return {DONE: np.asarray(self.posterior.draws), **parts}


def is_done(arrays: Arrays) -> bool:
    """Whether ``arrays`` that were kept are those of draws that have been moved."""
    return DONE in arrays


def projected_from(posterior: Posterior, arrays: Arrays) -> Projected:
    """What became of a ``posterior``, from the arrays that `Projected.arrays` gave."""
    form = {DONE: np.asarray(posterior.draws)}
    draws = from_arrays(form, {DONE: arrays[DONE]})[DONE]
    names = ("obeys", "broken", "distance", "change")
    return Projected(posterior.with_draws(draws), *(np.array(arrays[name]) for name in names))


def project(
    posterior: Posterior,
    rules: Sequence[Rule],
    precision: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    seed: int = 1,
    kept: Keeping | None = None,
) -> Projected:
    """Move every draw that breaks one of ``rules`` to the nearest function that obeys all of them.

    ``precision`` is that of each weight under its prior, times the tempering. ``weight`` is how many rows
    each training row counts as (None: one). ``seed`` draws the points. ``kept`` is where each round is
    kept, and from where an earlier process is gone on with.
    """
    computing()
    kept = kept or Unkept()
    found = kept.found()
    if found is not None and is_done(found):
        return projected_from(posterior, found)
    moving = nearest.moving_weights(posterior.network)
    states = _start(posterior, moving.of(precision), weight, moving)
    mover = _Mover(posterior, rules, moving, states, seed)
    if found is not None:
        mover.go_on_from(found)
    while mover.round < END:
        mover.go_on()
        kept.keep(mover.arrays)
    result = mover.result()
    kept.keep(result.arrays, now=True)
    return result


class _Mover:
    """Draws on their way.

    `states` are the draws; `broken` (draws, rules) is whether a draw was found breaking a rule where it
    began; `inside` is the score of each rule where a draw is moved, and `growth` how many times as much
    each draw needs. `round` counts rounds of scouting and of searching, `left` are the draws that are not
    done, and `obeys` is whether the last search of a draw found nothing broken.
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
        self.round, self.left = 0, np.arange(len(posterior))
        self.obeys = np.zeros(len(posterior), bool)

    def go_on(self) -> None:
        """One round of scouting; then rounds of moving and searching all draws, and a last one."""
        if self.round < SCOUTING:
            self._scout(np.arange(len(self.obeys))[:: max(1, len(self.obeys) // SCOUTS)][:SCOUTS])
        elif self.round < LAST:
            self._everyone()
        else:
            self._again()

    def arrays(self) -> dict[str, np.ndarray]:
        """What later rounds depend on, for `go_on_from` in a process that takes over."""
        return {
            **under("cuts", to_arrays(self.states.cuts)),
            **under("searching", self.searching.arrays()),
            **{name: getattr(self, name) for name in ("growth", "broken", "left", "obeys")},
            "move": self.states.move,
            "round": np.array(self.round),
        }

    def go_on_from(self, arrays: Arrays) -> None:
        """Go on from where a mover was that has these ``arrays``."""
        form = {name: getattr(self, name) for name in ("growth", "broken", "obeys")}
        form["move"] = self.states.move
        filled = from_arrays(form, {name: arrays[name] for name in form})
        cuts = from_arrays(self.states.cuts, below("cuts", arrays))
        self.states = self.states._replace(move=filled.pop("move"), cuts=cuts)
        for name, value in filled.items():
            setattr(self, name, value)
        self.round, self.left = int(arrays["round"]), np.array(arrays["left"])
        self.searching.go_on_from(below("searching", arrays))

    def _scout(self, draws: np.ndarray) -> None:
        """Search and move the first ``draws``.

        Points where they are broken, and how far inside they had to be, are where all others begin.
        """
        close, _ = self.search(draws)
        if not close.any():
            self.round = SCOUTING
            return
        failed = self.move(draws)
        self.round += 1
        if self.round == SCOUTING:
            self.growth[:] = np.quantile(self.growth[draws], SCOUTS_MET)
            # where no scout can be moved, the rules are at fault and the others would take minutes
            self.round = END if failed.all() else self.round

    def _everyone(self) -> None:
        """Move and search all draws that are left."""
        self.move(self.left)
        close, broken = self.search(self.left)
        self.obeys[self.left] = ~broken
        self.left = self.left[close]
        self.round = self.round + 1 if len(self.left) else LAST

    def _again(self) -> None:
        """Move draws for points that were found late: new to those that were done before."""
        done = np.flatnonzero(self.obeys)
        before = self.states.move[done]
        failed = self.move(done)
        shifted = np.any(self.states.move[done] != before, axis=1)
        self.obeys[done] = ~failed
        again = done[shifted & ~failed]
        _, broken = self.search(again)
        self.obeys[again] = ~broken
        self.round = END

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

    def result(self) -> Projected:
        """What became of all draws."""
        vectors = self._vectors(np.arange(len(self.posterior)))
        found = self.posterior.with_draws(vectors[:, : self.posterior.draws.shape[1]])
        return Projected(found, self.obeys, self.broken, *distances(self.posterior, found))

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
