"""Where draws break rules worst: searches at fresh points, then close to where each draw scores lowest.

Draws of one posterior break rules at much the same points, so half of the points of a search are close to
the worst ones known. Over several inputs a draw may break a rule in a millionth of the region only. That
escapes random points, and less often a search that goes on from the lowest points of each draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prbnn.posterior.checks import worst_places
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.regions import Sampling, around, beside, sample
from prbnn.rules.scoring.binding import BoundKnowledge
from prbnn.rules.scoring.families import points_each
from prbnn.system.process import side_by_side

# draws per call of the compiled programs, and per call of those that evaluate few points of each; the
# last call repeats some, so that there is one program
BLOCK = 8
WIDE_BLOCK = 64
# how many points of a region a search reports of each draw
REPORTED = 4
# points of a region that are kept of those reported; the lowest of the last search may take half of them
KEPT = 256
# rounds of search close to the lowest points of each draw, and new points of each round
DEEPER = 8
DEEPENED = 64
# at how many values of the columns that a rule sweeps each of them is evaluated where draws are moved
EACH = 2
# enough to know the regions
FEWEST = 16


class Looked(NamedTuple):
    """What a search saw.

    - `least`: (draws, rules) the lowest score of each rule
    - `scores`: (draws, regions, REPORTED) the lowest scores of each region
    - `points`: where these are, (draws, REPORTED, inputs) per region
    """

    least: np.ndarray
    scores: np.ndarray
    points: list[np.ndarray]

    def and_those(self, other: Looked) -> Looked:
        """The lowest of two searches of the same draws."""
        scores = np.concatenate([self.scores, other.scores], axis=2)
        kept = np.argsort(scores, axis=2, kind="stable")[:, :, :REPORTED]
        points = [
            np.take_along_axis(np.concatenate(both, axis=1), kept[:, region, :, None], axis=1)
            for region, both in enumerate(zip(self.points, other.points, strict=True))
        ]
        least = np.minimum(self.least, other.least)
        return Looked(least, np.take_along_axis(scores, kept, axis=2), points)


class Search:
    """The regions of some rules, and the points of each where draws were found broken worst.

    ``seed`` draws the points; every search has new ones.
    """

    def __init__(self, posterior: Posterior, rules: Sequence[Rule], seed: int) -> None:
        self.posterior, self.rules, self.seed = posterior, rules, seed
        self.bound = posterior.bind(rules, FEWEST, seed=seed)
        columns = posterior.columns
        # over one input, points are dense
        self.deepens = len(columns.inputs) > 1 and columns.layout is None
        self.samplings: list[Sampling] = [
            rules[places[0]].sampling(columns).shared(columns) for places in self.bound.members
        ]
        self.known = [np.zeros((0, len(columns.inputs))) for _ in self.samplings]

    def look(self, vectors: np.ndarray, count: int) -> Looked:
        """Search draws at about ``count`` new points of each region, and close to the lowest of each."""
        self.seed += 1
        count = points_each(count, len(self.samplings), len(self.rules))
        points = [self._fresh(place, count) for place in range(len(self.samplings))]
        vectors = vectors.astype(np.float32)
        looked = self._lowest(vectors, points, np.zeros(len(vectors), int), count)
        for _ in range(DEEPER if self.deepens else 0):
            looked = self._deeper(vectors, looked)
        return looked

    def _deeper(self, vectors: np.ndarray, looked: Looked) -> Looked:
        """The same with each draw's own new points, close to its lowest ones."""
        self.seed += 1
        columns, draws = self.posterior.columns, len(vectors)
        # one program for however many draws: the pools are those of all
        size = DEEPENED * len(self.posterior)
        points = []
        for sampling, found in zip(self.samplings, looked.points, strict=True):
            lowest = found.reshape(-1, len(columns.inputs))
            near = around(sampling, columns, lowest, DEEPENED // REPORTED, self.seed)
            points.append(np.resize(near, (size, len(columns.inputs))))
        fresh = self._lowest(vectors, points, DEEPENED * np.arange(draws), DEEPENED, WIDE_BLOCK)
        return looked.and_those(fresh)

    def _lowest(
        self,
        vectors: np.ndarray,
        points: list[np.ndarray],
        start: np.ndarray,
        width: int,
        most: int | None = None,
    ) -> Looked:
        """The lowest scores of draws at ``width`` points of each region, from each one's ``start`` on.

        ``most`` is how many draws a call of the compiled program takes.
        """
        pools = dict(zip(self.samplings, points, strict=True))
        knowledge = self.posterior.bind_pools(self.rules, pools)

        def one(some: np.ndarray) -> tuple:
            return worst_places(
                self.posterior.model,
                jnp.asarray(vectors[some]),
                knowledge,
                jnp.asarray(start[some]),
                width,
                REPORTED,
            )

        places, scores, least = in_blocks(one, np.arange(len(vectors)), most)
        found = [points[region][places[:, region]] for region in range(len(points))]
        return Looked(least, scores, found)

    def remember(self, looked: Looked, draws: np.ndarray) -> None:
        """Keep the worst points of those ``draws`` that a mask chooses.

        The lowest of a search come first and those of earlier searches after them: draws were moved in
        between, so that scores of different searches do not compare.
        """
        for region, known in enumerate(self.known):
            scores = looked.scores[draws, region].ravel()
            points = looked.points[region][draws].reshape(-1, known.shape[1])
            points = points[np.argsort(scores, kind="stable")]
            _, first = np.unique(points, axis=0, return_index=True)
            fresh = points[np.sort(first)]
            most = max(KEPT // 2, KEPT - len(known))
            self.known[region] = np.concatenate([fresh[:most], known])[:KEPT]

    def arrays(self) -> dict[str, np.ndarray]:
        """What later searches depend on, for `go_on_from` in a process that takes over."""
        known = {f"known{region}": points for region, points in enumerate(self.known)}
        return {"searches": np.array(self.seed), **known}

    def go_on_from(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Search as one would that has these ``arrays``."""
        self.seed = int(arrays["searches"])
        self.known = [arrays[f"known{region}"] for region in range(len(self.known))]

    def worst(self) -> BoundKnowledge:
        """The rules at the worst points known, at other values of what they sweep, and at others."""
        columns, points = self.posterior.columns, []
        for sampling, known in zip(self.samplings, self.known, strict=True):
            more = beside(sampling, columns, known, EACH - 1)
            points.append(np.concatenate([known, more]))
        return self._bound(KEPT * EACH, points)

    def _fresh(self, region: int, count: int) -> np.ndarray:
        """``count`` new points of a region, half of them close to the worst known."""
        columns, sampling, known = (
            self.posterior.columns,
            self.samplings[region],
            self.known[region],
        )
        points = sample(sampling, columns, count, self.seed, edges=True)
        if len(known):
            each = -(-(count // 2) // len(known))
            near = around(sampling, columns, known, each, self.seed)
            chosen = np.random.default_rng(self.seed).permutation(len(near))[: count // 2]
            points[: 2 * len(chosen) : 2] = near[chosen]
        return points

    def _bound(self, count: int, points: list[np.ndarray]) -> BoundKnowledge:
        """The rules at ``count`` points of each region, of which the given ones are the first."""
        further = {
            places[0]: found
            for places, found in zip(self.bound.members, points, strict=True)
            if len(found)
        }
        return self.posterior.bind(self.rules, count, seed=self.seed, edges=True, further=further)


def in_blocks(one: Callable[[np.ndarray], Any], draws: np.ndarray, most: int | None = None) -> Any:
    """``one`` of blocks of ``most`` (BLOCK if None) draws.

    A compiled program runs on one core: as many at a time as there are."""

    def kept(part: tuple[np.ndarray, np.ndarray]) -> Any:
        some, filled = part
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(some)], one(draws[filled]))

    parts = side_by_side(kept, blocks(len(draws), most))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def blocks(count: int, most: int | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions of the draws of each call, and the same filled up to ``most`` by repeating some."""
    most = most or BLOCK
    parts = [np.arange(start, min(start + most, count)) for start in range(0, count, most)]
    return [(some, np.resize(some, most)) for some in parts]
