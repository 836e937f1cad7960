"""Branch and bound: undecided boxes are split until all are proved or a point refutes the property.

Many networks are searched at once: one call has `slots`, each with one network and `lanes` boxes of it. A
network with many open boxes takes several slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

# starting points of the descent per call
STARTS = 2048
# the descent is repeated in the worst boxes of a call, at calls 8, 16, 32 ...
DESCENT_BOXES = 16
DESCENT_CALL = 8
# a box narrower than this fraction of its region in every direction is left undecided
NARROWEST = 2.0**-40
# a box counts at least this fraction of its region
LEAST_FRACTION = 1e-300


class Property(Protocol):
    """A score of each network at each point that should be >= -tolerance on all boxes.

    ``networks`` are positions, (slots,); boxes ``low``, ``high`` and ``points`` are (slots, lanes,
    inputs).
    """

    tolerance: float
    work: int
    """Boxes enclosed per call; fewer where one box takes long."""
    slots: int
    """Networks per call, at most."""

    def enclose(
        self, networks: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(least, worst, smear) of every box.

        The guaranteed least score (slots, lanes), the point where it seems lowest, and how much each
        input contributes to the gap (slots, lanes, inputs): a box is split along the largest.
        """
        ...

    def deployed(self, networks: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Scores (slots, lanes) at points, in the precision and by the program that users run."""
        ...

    def find_counterexamples(
        self, networks: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        """A point with a low score in every box, by descent; a counterexample if below -tolerance."""
        ...


@dataclass
class Found:
    """What was decided for each network.

    - ``left``: (networks,), the fraction of the region that is undecided; 0 where proved or refuted
    - ``counterexamples``: by network, a point where its deployed score is below -tolerance
    - ``scores``: by network, the lowest deployed score that was seen
    - ``boxes``: the number of boxes enclosed
    """

    left: np.ndarray
    counterexamples: dict[int, np.ndarray] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    boxes: int = 0
    seconds: float = 0.0

    @property
    def refuted(self) -> np.ndarray:
        """(networks,): whether there is a counterexample."""
        found = np.zeros(len(self.left), bool)
        found[list(self.counterexamples)] = True
        return found

    @property
    def proved(self) -> np.ndarray:
        """(networks,): whether every box was proved."""
        return (self.left == 0) & ~self.refuted


@dataclass
class _Waiting:
    """Undecided boxes of one network, and the fraction of the region that each is."""

    low: np.ndarray
    high: np.ndarray
    fraction: np.ndarray

    def __len__(self) -> int:
        return len(self.low)

    def pop(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keep = max(0, len(self.low) - count)
        taken = self.low[keep:], self.high[keep:], self.fraction[keep:]
        self.low, self.high, self.fraction = self.low[:keep], self.high[:keep], self.fraction[:keep]
        return taken

    def push(self, low: np.ndarray, high: np.ndarray, fraction: np.ndarray) -> None:
        self.low = np.concatenate([self.low, low])
        self.high = np.concatenate([self.high, high])
        self.fraction = np.concatenate([self.fraction, fraction])


def search(
    goal: Property,
    networks: int,
    low: np.ndarray,
    high: np.ndarray,
    seconds: float,
    progress: Callable[[float], None] | None = None,
    started: float | None = None,
) -> Found:
    """Decide for each network whether its score is >= -tolerance on all boxes.

    - ``networks``: how many networks there are
    - ``low``, ``high``: the boxes of the region, (boxes, inputs), the same for all networks
    - ``seconds``: time limit, from ``started`` (as by `time.monotonic`) or from when programs are
      compiled
    - ``progress``: called with the fraction of networks that is decided
    """
    if not networks:
        return Found(np.zeros(0))
    slots, lanes = goal.slots, max(1, goal.work // goal.slots)
    widths = np.max(high - low, axis=0)
    found = Found(np.zeros(networks))
    fraction = np.full(len(low), 1 / len(low))
    waiting = {n: _Waiting(low, high, fraction) for n in range(networks)}
    _find_counterexamples(goal, waiting, found, slots)
    if waiting and started is None:
        goal.enclose(*_filled(_batch_of_one(low, high), slots, lanes))
    started = time.monotonic() if started is None else started
    calls = 0
    while waiting and time.monotonic() - started < seconds:
        if progress is not None:
            progress(1 - len(waiting) / networks)
        batch = _batch(waiting, slots, lanes)
        found.boxes += sum(len(part[1]) for part in batch)
        ids, lows, highs = _filled(batch, slots, lanes)
        least, worst, smear = goal.enclose(ids, lows, highs)
        # NaN counts as unproved
        open_ = ~(least >= -goal.tolerance)
        points, scores = worst, goal.deployed(ids, worst)
        calls += 1
        if calls >= DESCENT_CALL and calls & (calls - 1) == 0:
            more = _find_in_worst_boxes(goal, ids, lows, highs, least)
            points, scores = (
                np.concatenate(both, 1) for both in zip((points, scores), more, strict=True)
            )
        broken = scores < -goal.tolerance
        spare = slots * lanes / max(1, int(open_.sum()))
        for slot, (network, lows_, highs_, fraction) in enumerate(batch):
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
                    lows_[keep],
                    highs_[keep],
                    fraction[keep],
                    smear[slot, lane][keep],
                    widths,
                    spare,
                )
                stuck, rest = parts
                found.left[network] += stuck
                waiting[network].push(*rest)
            if not len(waiting[network]) and not any(n == network for n, *_ in batch[slot + 1 :]):
                del waiting[network]
    for network, boxes in waiting.items():
        found.left[network] += float(boxes.fraction.sum())
    found.left[list(found.counterexamples)] = 0.0
    found.seconds = time.monotonic() - started
    return found


def _batch(waiting: dict[int, _Waiting], slots: int, lanes: int) -> list[tuple]:
    """(network, low, high, fraction) for every slot; networks with many open boxes fill spare slots."""
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
    """The batch as arrays of one size; empty lanes and slots repeat the last box."""
    inputs = batch[0][1].shape[1]
    ids = np.zeros(slots, int)
    low, high = np.zeros((slots, lanes, inputs)), np.zeros((slots, lanes, inputs))
    for slot in range(slots):
        network, lows, highs, _ = batch[min(slot, len(batch) - 1)]
        index = np.minimum(np.arange(lanes), len(lows) - 1)
        ids[slot], low[slot], high[slot] = network, lows[index], highs[index]
    return ids, low, high


def _split(low, high, fraction, smear, widths, spare):
    """(stuck, children) of open boxes: the fraction too narrow to split, and (low, high, fraction).

    ``spare`` is how many times as many boxes fit into the next call: a box is split up to six times.
    """
    narrow = ~np.any(_wide(low, high, widths), axis=1)
    stuck = float(fraction[narrow].sum())
    low, high, fraction, smear = low[~narrow], high[~narrow], fraction[~narrow], smear[~narrow]
    rounds = int(np.clip(np.log2(max(spare, 2.0)) - 0.5, 1, 6))
    for _ in range(rounds):
        pick = np.argmax(np.where(_wide(low, high, widths), smear, -1.0), axis=1)
        rows = np.arange(len(low))
        middle = 0.5 * (low[rows, pick] + high[rows, pick])
        upper_low, lower_high = low.copy(), high.copy()
        upper_low[rows, pick], lower_high[rows, pick] = middle, middle
        low, high = np.concatenate([low, upper_low]), np.concatenate([lower_high, high])
        # a fraction that underflowed to 0 would count as proved
        fraction = np.maximum(np.concatenate([fraction, fraction]) / 2, LEAST_FRACTION)
        smear = smear.copy()
        smear[rows, pick] /= 2
        smear = np.concatenate([smear, smear])
    return stuck, (low, high, fraction)


def _wide(low: np.ndarray, high: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """(boxes, inputs): where a box can be split, with numbers between its ends."""
    middle = 0.5 * (low + high)
    return (high - low > NARROWEST * widths) & (low < middle) & (middle < high)


def _find_in_worst_boxes(goal: Property, ids, low, high, least) -> tuple[np.ndarray, np.ndarray]:
    """Points and scores of a descent in those boxes of a call that are furthest from a proof."""
    count = min(DESCENT_BOXES, least.shape[1])
    pick = np.argsort(least, axis=1)[:, np.arange(STARTS // len(ids)) % count]
    slot = np.arange(len(ids))[:, None]
    points = goal.find_counterexamples(ids, low[slot, pick], high[slot, pick])
    return points, goal.deployed(ids, points)


def _find_counterexamples(
    goal: Property, waiting: dict[int, _Waiting], found: Found, slots: int
) -> None:
    """A descent from many starts before any box is split: most violations are found here."""
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
        points = goal.find_counterexamples(ids, low, high)
        scores = goal.deployed(ids, points)
        for slot, network in enumerate(group):
            place = int(np.argmin(scores[slot]))
            found.scores[network] = float(scores[slot, place])
            if scores[slot, place] < -goal.tolerance:
                found.counterexamples[network] = points[slot, place].copy()
                del waiting[network]
