"""How a fit ended, read off its record: plateaus, rules not met, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from prbnn.enforcement.stall import patience
from prbnn.fitting.loop import Carry, Means
from prbnn.fitting.result import History, Result
from prbnn.fitting.task import Task
from prbnn.posterior.diagnostics import FEWEST_DRAWS, Diagnostics, effective_draws
from prbnn.rules.conflicts.finding import Conflict, conflicts
from prbnn.rules.strengths import Hard, Kind

# (step, averages over the block of steps that ended there)
Record = list[tuple[int, Means]]
# a rule is met to within so much: of its bound, or of its unit where an average is bounded
RELATIVE_SLACK = 0.1
AVERAGE_SLACK = 0.01
# a dual is settled to within so much of itself, and so many standard deviations of what it moves; it is
# as good as 0 where it moves a mean by fewer standard deviations than this; and a bounded mean is known
# where its error is below this much of it
DUAL_SLACK = 0.05
SPREAD_SLACK = 0.5
NEGLIGIBLE = 0.05
VAGUE = 1 / 3
# particles rest where less than this of what pulls them is left
LARGEST_RESIDUAL = 0.1


def plateau(record: Record, task: Task) -> bool:
    """Whether two windows of steps differ by less than a hundredth of a nat a row and noise."""
    window = 4
    if len(record) < 3 * window:
        return False
    elbo = np.array([float(means.elbo) for _, means in record])
    duals = np.array([means.pressure for _, means in record])
    now, before = elbo[-window:], elbo[-2 * window : -window]
    noise = np.sqrt((now.var() + before.var()) / window)
    still = abs(now.mean() - before.mean()) < 0.01 * task.rows + noise
    if not task.rules:
        return bool(still)
    change = np.abs(duals[-window:].mean(0) - duals[-2 * window : -window].mean(0))
    return bool(still and np.all(change <= 0.02 * duals[-window:].mean(0) + 1e-3))


def history_of(record: Record, units: np.ndarray) -> History:
    """The record as arrays, in the user's units."""
    rules = len(units)

    def stack(values: list) -> np.ndarray:
        return np.array(values, float).reshape(len(record), rules)

    return History(
        step=np.array([step for step, _ in record]),
        elbo=np.array([float(means.elbo) for _, means in record]),
        violation=stack([-means.f for _, means in record]) * units,
        broken=stack([means.broken for _, means in record]),
        dual=stack([means.pressure for _, means in record]) / units,
    )


def result_of(task: Task, carry: Carry, record: Record, status: str) -> Result:
    """What to tell a user: ``status`` is what stopped the loop."""
    labels = [rule.label for rule in task.rules]
    if status == "diverged":
        return Result(
            "diverged",
            "numbers stopped being finite; the posterior is the last finite state. Likely causes, in "
            "order: a learning rate too high, targets with extreme outliers, a score of your own "
            "that is not finite somewhere",
        )
    if status == "interrupted":
        step = record[-1][0]
        return Result(
            "interrupted", f"stopped at step {step}, before its end; fit again to train to the end"
        )
    if status == "infeasible":
        stalled = (
            np.asarray(carry.enforcement.stall.stalled) >= patience(task.enforcement.block) / 2
        )
        late = _missed(task, _shown(task, carry, record))
        return _infeasible(task, _those(labels, stalled | late))
    shown = _shown(task, carry, record)
    missed = _missed(task, shown)
    impossible = tuple(
        rule.label
        for rule, late in zip(task.rules, missed, strict=True)
        if late and rule.strength == Hard(tolerance=0.0)
    )
    if impossible:
        return Result(
            "infeasible",
            f"a tolerance of 0 on {_quoted(impossible)} asks that every function obeys everywhere; no "
            "member of a family of normal posteriors attains it. State a small tolerance, or use "
            ".hard() and let conditioning reject the rest",
            impossible,
        )
    rules = _those(labels, missed)
    if rules:
        return Result(
            "budget spent", f"{_quoted(rules)} not met yet; give more steps or loosen them", rules
        )
    pressing = _pressing(task, carry, shown)
    rules = _those(labels, pressing & _vague(task, shown))
    if rules:
        more = "steps" if task.engine.endless or task.engine.block > 1 else "particles or members"
        told = f"too few draws break {_quoted(rules)} for its mean and its dual to be known"
        return Result("budget spent", f"{told}; give more {more}, or loosen it", rules)
    rules = _those(labels, pressing & _unsettled(task, carry, shown))
    if rules:
        told = f"the dual of {_quoted(rules)} has not settled where its rule is just met"
        return Result("budget spent", f"{told}; give more steps", rules)
    residual = task.engine.residual(carry.engine)
    if residual > LARGEST_RESIDUAL:
        return Result(
            "budget spent",
            f"particles were still moving ({residual:.0%} of what pulls them is not balanced); give "
            "more steps or particles",
        )
    if task.engine.block > 1:
        return Result("converged")  # subject to what its chains show
    tail = record[-max(1, len(record) // 8) :]
    elbo = np.array([float(means.elbo) for _, means in record])
    late, later = elbo[-2 * len(tail) : -len(tail)], elbo[-len(tail) :]
    noise = np.sqrt((late.var() + later.var()) / len(tail)) if len(late) else np.inf
    if len(late) and abs(later.mean() - late.mean()) <= 0.05 * task.rows + 2 * noise:
        return Result("converged")
    return Result("budget spent", "the objective was still moving; give more steps")


def contradictions(task: Task) -> list[Conflict]:
    """Smallest sets of the task's rules that no posterior obeys, whatever data and network."""
    return [clash for clash in _clashes(task) if clash.contradiction]


def _clashes(task: Task) -> list[Conflict]:
    active = np.asarray(task.enforcement.table.active) > 0
    rules = [rule for rule, here in zip(task.rules, active, strict=True) if here]
    return conflicts(rules, task.columns)


def _infeasible(task: Task, broken: tuple[str, ...]) -> Result:
    """Name the rules that clash by themselves, at all or within their tolerances; or all broken."""
    clashes = _clashes(task)
    proven = [clash for clash in clashes if clash.contradiction]
    tight = [clash for clash in clashes if {*clash.rules} <= {*broken}]
    if proven:
        told = f"the rules contradict each other: {'; '.join(map(str, proven))}"
    elif tight:
        told = f"{'; '.join(map(str, tight))}; pressure grew far and did not bring them within tolerance"
    else:
        told = (
            f"pressure on {_quoted(broken)} grew far and mended nothing: knowledge that contradicts the "
            "data, what the network can do, or itself; prbnn.smallest_conflict(solution) names the fewest"
        )
    named = {name for clash in proven or tight for name in clash.rules} or {*broken}
    rules = tuple(rule.label for rule in task.rules if rule.label in named)
    return Result("infeasible", f"{told}; loosen or drop one", rules)


def sampled_result(diagnostics: Diagnostics, keep: int) -> Result:
    """Of a sampler whose rules are met: whether its chains agree, and hold as much as was asked for."""
    if not diagnostics.mixed:
        return Result("budget spent", f"the chains have not mixed ({diagnostics}); give more steps")
    if diagnostics.kept is not None and diagnostics.kept < keep:
        return Result(
            "converged",
            f"each chain kept {diagnostics.kept} of {keep} draws, one per step after its warm-up; for "
            f"all, give at least {2 * keep} steps",
        )
    return Result("converged")


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


def _shown(task: Task, carry: Carry, record: Record) -> Shown:
    """From all draws that a sampler kept; of other engines, from the last eighth of training."""
    tail = record[-max(1, len(record) // 8) :]
    broken = np.mean([means.broken for _, means in tail], axis=0)
    reservoir = getattr(carry.engine, "reservoir", None)
    if reservoir is not None and int(reservoir.filled) >= FEWEST_DRAWS:
        f = np.asarray(reservoir.f, float)[:, : int(reservoir.filled)]
        variance = f.var(axis=(0, 1))
        # only a dual asks for it
        priced = _priced(_kinds(task))
        worth = np.array([_worth(f[..., k]) if asked else 1.0 for k, asked in enumerate(priced)])
        return Shown(f.mean(axis=(0, 1)), np.sqrt(variance / worth), variance, worth, broken)
    functions = float(tail[-1][1].functions)
    seen = task.engine.chunk * len(tail) * functions
    f = np.mean([means.f for _, means in tail], axis=0)
    chance = np.isin(_kinds(task), (Kind.FUNCTIONS, Kind.POINTS))
    variance = np.asarray(carry.enforcement.running.variance, float)
    # members are the same functions at every step
    worth = np.full(len(task.rules), seen if task.engine.endless else functions)
    return Shown(np.where(chance, -broken, f), np.sqrt(variance / seen), variance, worth, broken)


def _worth(f: np.ndarray) -> float:
    """How many independent draws a rule's f, by chain, is worth; all where it never changes."""
    return max(1.0, effective_draws(f.ravel(), len(f))) if np.ptp(f) > 0 else float(f.size)


def _those(labels: Sequence[str], mask: np.ndarray) -> tuple[str, ...]:
    return tuple(label for label, chosen in zip(labels, mask, strict=True) if chosen)


def _missed(task: Task, shown: Shown) -> np.ndarray:
    """Which rules are not met, Monte Carlo error allowed for."""
    kinds = _kinds(task)
    bound = np.asarray(task.enforcement.table.bound, float)
    slack = np.where(kinds == Kind.AVERAGE, AVERAGE_SLACK, RELATIVE_SLACK * np.abs(bound))
    short = shown.value < bound - slack - 3 * shown.error - 1e-6
    often = shown.broken > 3 * np.asarray(task.enforcement.table.target, float)
    missed = np.where(kinds == Kind.HARD, often, short & _priced(kinds))
    return missed & (np.asarray(task.enforcement.table.active) > 0)


def _pressing(task: Task, carry: Carry, shown: Shown) -> np.ndarray:
    """Which duals tilt the posterior by more than a little of the spread of what they bound."""
    kinds = _kinds(task)
    # where no draw breaks a rule its spread is not seen, but its dual may well be too large
    unseen = np.where(
        kinds == Kind.AVERAGE, 0.0, np.abs(np.asarray(task.enforcement.table.bound, float))
    )
    spread = np.maximum(np.sqrt(shown.variance), unseen)
    tilts = np.asarray(carry.enforcement.dual, float) * spread > NEGLIGIBLE * task.tempering
    return tilts & _priced(kinds) & (np.asarray(task.enforcement.table.active) > 0)


def _unsettled(task: Task, carry: Carry, shown: Shown) -> np.ndarray:
    """Which rules are more than met, or not quite, at the dual that presses on them.

    At the right dual a rule is just met, or the dual is 0 (complementary slackness). A dual moves a mean
    by dual * variance / tempering.
    """
    bound = np.asarray(task.enforcement.table.bound, float)
    moved = np.asarray(carry.enforcement.dual, float) * shown.variance / task.tempering
    average = _kinds(task) == Kind.AVERAGE
    most = np.minimum(DUAL_SLACK * moved, SPREAD_SLACK * np.sqrt(shown.variance))
    slack = np.where(average, most, RELATIVE_SLACK * np.abs(bound))
    return np.abs(shown.value - bound) > slack + 2 * shown.error + 1e-6


def _vague(task: Task, shown: Shown) -> np.ndarray:
    """Which mean violations and frequencies rest on too few draws to be known."""
    bound = np.asarray(task.enforcement.table.bound, float)
    error = np.sqrt(shown.variance / shown.worth)
    return (_kinds(task) != Kind.AVERAGE) & (bound < 0) & (error > VAGUE * np.abs(bound))


def _kinds(task: Task) -> np.ndarray:
    return np.array([rule.strength.kind for rule in task.rules], object)


def _priced(kinds: np.ndarray) -> np.ndarray:
    """Which strengths bound a mean or a probability by a dual."""
    return np.isin(kinds, (Kind.TOLERANT, Kind.AVERAGE, Kind.FUNCTIONS, Kind.POINTS))


def _quoted(rules: Sequence[str]) -> str:
    return " and ".join(repr(str(rule)) for rule in rules)
