"""Whether training went on for long enough: what more of it would gain, and how far it could go at all.

An objective that no longer changes at the end of a fit says nothing: its learning rate falls to almost
zero there, and a learning rate that was too low from the start changes nothing either. So the evidence is
of the steps at the full learning rate, before it falls:

- **The gain ahead.** Their objective per row is averaged over quarters of them. The gains g1, from the
  second quarter to the third, and g2, from there to the last, give r = |g2 / g1|, at most 1, and as many
  steps again would change the objective by g2 (r + r^2 + r^3 + r^4) if gains go on falling by the same
  factor. The same is done with quarters of the later half, and eight powers of r, and the smaller of the
  two counts: duals that take hold midway disturb the first, and noise the second. The objective of a good
  fit rises for very long, while weights that do not matter widen towards their prior and predictions stay
  as they are; so what counts is the size of the change, and not whether there is one.
- **The fall.** The objective after the learning rate has fallen is not below that of the last quarter: a
  fit that duals disturb while it settles has no time to recover.
- **The reach.** A step of Adam moves a number by about the learning rate at most. Inputs, targets and
  weights are of the size of 1, so a fit whose steps add up to less has not left its start, whatever its
  objective does.

Measured in nats per row on tables of 10 to 100 rows with 1 to 10 inputs: of 13 fits of the default length
by five engines the gain ahead is 0.10 at most, and 0.14 of one with a rule whose dual overshoots. Of six
fits of 2,000 steps it is 0.32 or more where the objective of 6,000 steps or more is higher by over 0.2,
and 0.14 in the one where it is higher by 0.06 and predictions are the same. Of six fits with a learning
rate of 1e-5 it is 0.19 or more, and all reach 0.05.

What is judged is the objective, of the rows that are trained on; no rows are held out for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from prbnn.fitting.rule_evidence import Record, last_eighth
from prbnn.fitting.task import Task

# parts of the steps at the full learning rate between which gains are compared
PARTS = 4
# at rest, as many steps again would change the objective by no more than this, in nats per row
LARGEST_GAIN = 0.2
# a fit whose steps add up to less than this has not left its start
LEAST_REACH = 1.0


class Drift(NamedTuple):
    """How far a fit is from where more training would take it.

    - `ahead`: by how much as many steps again would change the objective, in nats per row; NaN where
      there are too few steps to tell
    - `fallen`: how much lower the objective ended than it was before the learning rate fell
    - `reach`: how far a weight can have moved, infinite where an engine has no learning rate
    """

    ahead: float
    fallen: float
    reach: float

    @property
    def settled(self) -> bool:
        """Whether more training would change little.

        >>> Drift(ahead=0.02, fallen=-0.1, reach=15.0).settled
        True
        >>> Drift(ahead=0.0, fallen=0.0, reach=0.05).settled
        False
        """
        small = abs(self.ahead) <= LARGEST_GAIN and self.fallen <= LARGEST_GAIN
        return small and self.reach >= LEAST_REACH


def drift(task: Task, record: Record, settle: int) -> Drift:
    """The drift of a fit whose learning rate fell in its last ``settle`` steps."""
    steps = record[-1][0] if record else 0
    full = objective(task, record)[[step <= steps - settle for step, _ in record]]
    last, end = full[-max(1, len(full) // PARTS) :], objective(task, last_eighth(record))
    rate = getattr(task.engine, "learning_rate", math.inf)
    return Drift(
        ahead=gain_ahead(full),
        fallen=float(np.mean(last) - np.mean(end)) if len(full) else math.nan,
        # the rate falls along a cosine, to half of it on average
        reach=rate * (steps - settle / 2),
    )


def objective(task: Task, record: Record) -> np.ndarray:
    """Log likelihood minus tempering * cost, per row, after each chunk of steps.

    Of particles and samplers `History.elbo` is a log density, which is larger by 1 / tempering.
    """
    found = [float(means.log_likelihood - task.tempering * means.cost) for _, means in record]
    return np.array(found) / task.rows


def gain_ahead(objective: np.ndarray) -> float:
    """What as many steps again would add to an ``objective`` with one entry per chunk of steps.

    The smaller of what all chunks and the later half of them say, where there are enough for a half.

    >>> gain_ahead(np.array([0.0, 4.0, 6.0, 7.0]))
    0.9375
    """
    chunks = len(objective)
    found = extrapolated(objective, chunks)
    if chunks < 2 * PARTS:
        return found
    return min(found, extrapolated(objective[-(chunks // 2) :], chunks), key=abs)


def extrapolated(objective: np.ndarray, chunks: int) -> float:
    """What so many further ``chunks`` would add to an ``objective`` with one entry per chunk of steps.

    The latest chunks are averaged in PARTS parts, or fewer where there are fewer chunks. Without a third
    part no gain is known to fall, and of one chunk nothing is known.

    >>> extrapolated(np.array([0.0, 4.0, 6.0, 7.0]), 2)
    0.75
    >>> extrapolated(np.array([1.0, 1.0, 1.0, 1.0]), 4), extrapolated(np.array([1.0, 2.0]), 2)
    (0.0, 2.0)
    """
    parts = min(PARTS, len(objective))
    if parts < 2:
        return math.nan
    size = len(objective) // parts
    means = objective[len(objective) - parts * size :].reshape(parts, size).mean(axis=1)
    gains = np.diff(means)
    falling = 1.0
    if parts > 2 and gains[-2]:
        falling = min(1.0, abs(gains[-1] / gains[-2]))
    return float(gains[-1] * sum(falling**power for power in range(1, round(chunks / size) + 1)))
