"""What the end of training shows of each rule: whether it is met, and whether its dual is right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prbnn.enforcement.strength_table import MEAN, PROBABILITY
from prbnn.fitting.loop import Carry, Means
from prbnn.fitting.task import Task
from prbnn.posterior.diagnostics import FEWEST_DRAWS, effective_draws
from prbnn.rules.strengths import Kind

# (step, averages over the chunk of steps that ended there)
Record = list[tuple[int, Means]]
# a rule is met to within this fraction of its bound, or of its unit where an average is bounded
RELATIVE_SLACK = 0.1
AVERAGE_SLACK = 0.01
# the dual of an average is settled where the mean is off by no more than this fraction of what the dual
# moves it by, and by no more than this many standard deviations
DUAL_SLACK = 0.05
SPREAD_SLACK = 0.5
# a dual is as good as 0 where it moves a mean by fewer standard deviations than this
NEGLIGIBLE = 0.05
# a mean is known where its standard error is below this fraction of its bound
VAGUE = 1 / 3


class Shown(NamedTuple):
    """What the end of training shows of each rule, in its unit.

    - `value`: what is bounded: mean f, or minus the frequency of breaking a probable rule
    - `error`: its standard error, as a mean over the posterior's own draws
    - `variance`: of a single draw; `worth`: how many independent draws of the true posterior there were
    - `broken`: fraction of functions seen to break it
    """

    value: np.ndarray
    error: np.ndarray
    variance: np.ndarray
    worth: np.ndarray
    broken: np.ndarray


def last_eighth(record: Record) -> Record:
    """The end of training, by which it is judged."""
    return record[-max(1, len(record) // 8) :]


def shown(task: Task, carry: Carry, record: Record) -> Shown:
    """From all draws that a sampler kept; of other engines, from the last eighth of training."""
    tail = last_eighth(record)
    broken = np.mean([means.broken for _, means in tail], axis=0)
    reservoir = getattr(carry.engine, "reservoir", None)
    if reservoir is not None and int(reservoir.filled) >= FEWEST_DRAWS:
        f = np.asarray(reservoir.f, float)[:, : int(reservoir.filled)]
        variance = f.var(axis=(0, 1))
        # only rules with a dual need it
        found = _has_dual(_kinds(task))
        worth = np.array([_worth(f[..., k]) if dual else 1.0 for k, dual in enumerate(found)])
        return Shown(f.mean(axis=(0, 1)), np.sqrt(variance / worth), variance, worth, broken)
    functions = float(tail[-1][1].functions)
    seen = task.engine.chunk * len(tail) * functions
    f = np.mean([means.f for _, means in tail], axis=0)
    variance = np.asarray(carry.enforcement.running.variance, float)
    # members are the same functions at every step
    worth = np.full(len(task.rules), seen if task.engine.endless else functions)
    value = np.where(np.isin(_kinds(task), PROBABILITY), -broken, f)
    return Shown(value, np.sqrt(variance / seen), variance, worth, broken)


def _worth(f: np.ndarray) -> float:
    """How many independent draws a rule's f, by chain, is worth; all where it never changes."""
    return max(1.0, effective_draws(f.ravel(), len(f))) if np.ptp(f) > 0 else float(f.size)


def missed(task: Task, found: Shown) -> np.ndarray:
    """Which rules are not met, by more than Monte Carlo error."""
    kinds = _kinds(task)
    bound = _bound(task)
    slack = np.where(kinds == Kind.AVERAGE, AVERAGE_SLACK, RELATIVE_SLACK * np.abs(bound))
    short = found.value < bound - slack - 3 * found.error - 1e-6
    often = found.broken > 3 * np.asarray(task.enforcement.table.target, float)
    late = np.where(kinds == Kind.HARD, often, short & _has_dual(kinds))
    return late & _judged(task)


def pressing(task: Task, carry: Carry, found: Shown) -> np.ndarray:
    """Which duals move what they bound by more than a negligible part of its spread."""
    kinds = _kinds(task)
    # where no draw breaks a rule its spread is not seen, but its dual may well be too large
    unseen = np.where(kinds == Kind.AVERAGE, 0.0, np.abs(_bound(task)))
    spread = np.maximum(np.sqrt(found.variance), unseen)
    tilts = np.asarray(carry.enforcement.dual, float) * spread > NEGLIGIBLE * task.tempering
    return tilts & _has_dual(kinds) & _judged(task)


def unsettled(task: Task, carry: Carry, found: Shown) -> np.ndarray:
    """Rules for which complementary slackness does not hold within error.

    At the optimal dual a rule is just met, or the dual is 0. A dual moves a mean
    by dual * variance / tempering.
    """
    bound = _bound(task)
    moved = np.asarray(carry.enforcement.dual, float) * found.variance / task.tempering
    average = _kinds(task) == Kind.AVERAGE
    most = np.minimum(DUAL_SLACK * moved, SPREAD_SLACK * np.sqrt(found.variance))
    slack = np.where(average, most, RELATIVE_SLACK * np.abs(bound))
    return np.abs(found.value - bound) > slack + 2 * found.error + 1e-6


def vague(task: Task, found: Shown) -> np.ndarray:
    """Rules whose mean violation or frequency has too large a Monte Carlo error."""
    bound = _bound(task)
    error = np.sqrt(found.variance / found.worth)
    return (_kinds(task) != Kind.AVERAGE) & (bound < 0) & (error > VAGUE * np.abs(bound))


def _kinds(task: Task) -> np.ndarray:
    return np.array([rule.strength.kind for rule in task.rules], object)


def _has_dual(kinds: np.ndarray) -> np.ndarray:
    """Which strengths bound a mean or a probability by a dual."""
    return np.isin(kinds, MEAN + PROBABILITY)


def _bound(task: Task) -> np.ndarray:
    return np.asarray(task.enforcement.table.bound, float)


def _judged(task: Task) -> np.ndarray:
    """Which rules training must meet: those of draws that are moved later are judged by the draws."""
    return (np.asarray(task.enforcement.table.active) > 0) & ~task.led
