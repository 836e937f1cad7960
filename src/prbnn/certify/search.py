"""Branch and bound: boxes that are not decided are split, until all are proved or one is refuted.

Many networks at once: a program has `slots`, each with one network and `lanes` boxes of it. A network
with much left to do takes several slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

# points that slopes are followed from in one call
STARTS = 2048
# again in the worst boxes of a call, each time that twice as many calls were made, from this one on
HUNTED_BOXES = 16
HUNTED_CALL = 8
# a box narrower than this share of its region's width in every direction is given up
NARROWEST = 2.0**-40
LEAST_SHARE = 1e-300


class Property(Protocol):
    """What the search asks of a claim; networks are counted from 0."""

    tolerance: float
    work: int
    """Boxes enclosed in one call: few where one is much work."""
    slots: int
    """Networks they are of, at most."""

    def enclose(
        self, networks: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of (slots, lanes) boxes: a guaranteed least score, where it seems lowest, and how much each
        input contributes."""
        ...

    def deployed(self, networks: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Scores at (slots, lanes) points, in the precision and by the program that users run."""
        ...

    def hunt(self, networks: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Points of the boxes with low scores, found by following slopes."""
        ...


@dataclass
class Found:
    """How each network stands: proved, refuted at a point, or undecided on a share of the region."""

    left: np.ndarray
    counterexamples: dict[int, np.ndarray] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    boxes: int = 0
    seconds: float = 0.0

    @property
    def refuted(self) -> np.ndarray:
        """One truth value a network."""
        found = np.zeros(len(self.left), bool)
        found[list(self.counterexamples)] = True
        return found

    @property
    def proved(self) -> np.ndarray:
        """One truth value a network."""
        return (self.left == 0) & ~self.refuted


@dataclass
class _Waiting:
    """Boxes of one network that are not decided."""

    low: np.ndarray
    high: np.ndarray
    share: np.ndarray

    def __len__(self) -> int:
        return len(self.low)

    def pop(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keep = max(0, len(self.low) - count)
        taken = self.low[keep:], self.high[keep:], self.share[keep:]
        self.low, self.high, self.share = self.low[:keep], self.high[:keep], self.share[:keep]
        return taken

    def push(self, low: np.ndarray, high: np.ndarray, share: np.ndarray) -> None:
        self.low = np.concatenate([self.low, low])
        self.high = np.concatenate([self.high, high])
        self.share = np.concatenate([self.share, share])


def search(
    asked: Property,
    networks: int,
    low: np.ndarray,
    high: np.ndarray,
    seconds: float,
    progress: Callable[[float], None] | None = None,
    started: float | None = None,
) -> Found:
    """Decide for each network whether its score is >= -tolerance on all boxes.

    Seconds count from ``started``, or from when programs are compiled.
    """
    if not networks:
        return Found(np.zeros(0))
    slots, lanes = asked.slots, max(1, asked.work // asked.slots)
    widths = np.max(high - low, axis=0)
    found = Found(np.zeros(networks))
    share = np.full(len(low), 1 / len(low))
    waiting = {n: _Waiting(low, high, share) for n in range(networks)}
    _hunt(asked, waiting, found, slots)
    if waiting and started is None:
        asked.enclose(*_filled(_batch_of_one(low, high), slots, lanes))
    started = time.monotonic() if started is None else started
    calls = 0
    while waiting and time.monotonic() - started < seconds:
        if progress is not None:
            progress(1 - len(waiting) / networks)
        batch = _batch(waiting, slots, lanes)
        found.boxes += sum(len(part[1]) for part in batch)
        ids, lows, highs = _filled(batch, slots, lanes)
        least, worst, smear = asked.enclose(ids, lows, highs)
        # what is no number is not proved
        open_ = ~(least >= -asked.tolerance)
        points, scores = worst, asked.deployed(ids, worst)
        calls += 1
        if calls >= HUNTED_CALL and calls & (calls - 1) == 0:
            more = _hunt_again(asked, ids, lows, highs, least)
            points, scores = (
                np.concatenate(both, 1) for both in zip((points, scores), more, strict=True)
            )
        broken = scores < -asked.tolerance
        spare = slots * lanes / max(1, int(open_.sum()))
        for slot, (network, lows_, highs_, share) in enumerate(batch):
            if network not in waiting:
                continue
            lane = np.arange(len(lows_))
            if broken[slot].any():
                first = int(np.argmax(broken[slot]))
                found.counterexamples[network] = points[slot, first].copy()
                found.scores[network] = float(scores[slot, first])
                del waiting[network]
                continue
            keep = open_[slot, lane]
            if keep.any():
                parts = _split(
                    lows_[keep], highs_[keep], share[keep], smear[slot, lane][keep], widths, spare
                )
                stuck, rest = parts
                found.left[network] += stuck
                waiting[network].push(*rest)
            if not len(waiting[network]) and not any(n == network for n, *_ in batch[slot + 1 :]):
                del waiting[network]
    for network, boxes in waiting.items():
        found.left[network] += float(boxes.share.sum())
    found.left[list(found.counterexamples)] = 0.0
    found.seconds = time.monotonic() - started
    return found


def _batch(waiting: dict[int, _Waiting], slots: int, lanes: int) -> list[tuple]:
    """(network, low, high, share) for every slot; those with much to do fill what is left over."""
    batch = []
    order = list(waiting)
    while len(batch) < slots:
        before = len(batch)
        for network in order:
            if len(batch) == slots:
                break
            if len(waiting[network]):
                batch.append((network, *waiting[network].pop(lanes)))
        if len(batch) == before:
            break
    return batch


def _batch_of_one(low: np.ndarray, high: np.ndarray) -> list[tuple]:
    return [(0, low[:1], high[:1], None)]


def _filled(batch: list[tuple], slots: int, lanes: int):
    """The batch as arrays of one size; empty places repeat a box that is there."""
    inputs = batch[0][1].shape[1]
    ids = np.zeros(slots, int)
    low, high = np.zeros((slots, lanes, inputs)), np.zeros((slots, lanes, inputs))
    for slot in range(slots):
        network, lows, highs, _ = batch[min(slot, len(batch) - 1)]
        index = np.minimum(np.arange(lanes), len(lows) - 1)
        ids[slot], low[slot], high[slot] = network, lows[index], highs[index]
    return ids, low, high


def _split(low, high, share, smear, widths, spare):
    """Children of open boxes; where there is room in the next call, more than two of each."""
    narrow = ~np.any(_wide(low, high, widths), axis=1)
    stuck = float(share[narrow].sum())
    low, high, share, smear = low[~narrow], high[~narrow], share[~narrow], smear[~narrow]
    rounds = int(np.clip(np.log2(max(spare, 2.0)) - 0.5, 1, 6))
    for _ in range(rounds):
        pick = np.argmax(np.where(_wide(low, high, widths), smear, -1.0), axis=1)
        rows = np.arange(len(low))
        middle = 0.5 * (low[rows, pick] + high[rows, pick])
        upper_low, lower_high = low.copy(), high.copy()
        upper_low[rows, pick], lower_high[rows, pick] = middle, middle
        low, high = np.concatenate([low, upper_low]), np.concatenate([lower_high, high])
        # a share that vanished would count as proved
        share = np.maximum(np.concatenate([share, share]) / 2, LEAST_SHARE)
        smear = smear.copy()
        smear[rows, pick] /= 2
        smear = np.concatenate([smear, smear])
    return stuck, (low, high, share)


def _wide(low: np.ndarray, high: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Where a box can be split: there are numbers between its ends."""
    middle = 0.5 * (low + high)
    return (high - low > NARROWEST * widths) & (low < middle) & (middle < high)


def _hunt_again(asked: Property, ids, low, high, least) -> tuple[np.ndarray, np.ndarray]:
    """Points and scores: slopes followed in the boxes of a call that are furthest from a proof."""
    count = min(HUNTED_BOXES, least.shape[1])
    pick = np.argsort(least, axis=1)[:, np.arange(STARTS // len(ids)) % count]
    slot = np.arange(len(ids))[:, None]
    points = asked.hunt(ids, low[slot, pick], high[slot, pick])
    return points, asked.deployed(ids, points)


def _hunt(asked: Property, waiting: dict[int, _Waiting], found: Found, slots: int) -> None:
    """Before any box is split, follow slopes from many starts: a rule that fails, fails early."""
    networks, lanes = list(waiting), STARTS // slots
    for start in range(0, len(networks), slots):
        group = networks[start : start + slots]
        ids = np.array(group + [group[-1]] * (slots - len(group)))
        boxes = waiting[group[0]]
        index = (
            np.arange(lanes) * len(boxes) // lanes
            if len(boxes) > lanes
            else np.arange(lanes) % len(boxes)
        )
        shape = (slots, lanes, boxes.low.shape[1])
        low, high = (np.broadcast_to(end[index], shape) for end in (boxes.low, boxes.high))
        points = asked.hunt(ids, low, high)
        scores = asked.deployed(ids, points)
        for slot, network in enumerate(group):
            place = int(np.argmin(scores[slot]))
            found.scores[network] = float(scores[slot, place])
            if scores[slot, place] < -asked.tolerance:
                found.counterexamples[network] = points[slot, place].copy()
                del waiting[network]
