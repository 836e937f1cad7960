"""How a fit ended, read off its record: plateaus, rules not met, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prbnn.knowledge.conflicts import Conflict, conflicts
from prbnn.knowledge.strengths import Hard
from prbnn.solution import History, Result
from prbnn.task import Task
from prbnn.training import Carry, Means

# (step, averages over the block of steps that ended there)
Record = list[tuple[int, Means]]


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
        stalled = np.asarray(carry.enforcement.stalled) >= task.enforcement.patience / 2
        return _infeasible(task, _those(labels, stalled | _late(task, carry, record)))
    tail = record[-max(1, len(record) // 8) :]
    missed = _late(task, carry, record)
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
    active = np.asarray(task.enforcement.active) > 0
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


def _late(task: Task, carry: Carry, record: Record) -> np.ndarray:
    """Which rules the last eighth of training did not meet."""
    tail = record[-max(1, len(record) // 8) :]
    f = np.mean([means.f for _, means in tail], axis=0)
    broken = np.mean([means.broken for _, means in tail], axis=0)
    return _missed(
        task, carry, f, broken, task.engine.chunk * len(tail) * float(tail[-1][1].functions)
    )


def _those(labels: Sequence[str], mask: np.ndarray) -> tuple[str, ...]:
    return tuple(label for label, chosen in zip(labels, mask, strict=True) if chosen)


def _missed(task: Task, carry: Carry, f: np.ndarray, broken: np.ndarray, seen: float) -> np.ndarray:
    """Which rules are not met, from averages over the last steps, Monte Carlo error allowed for."""
    bound = np.asarray(task.enforcement.bound)
    noise = np.sqrt(np.asarray(carry.enforcement.variance_f) / seen)
    loose = np.array([rule.strength.kind == "average" for rule in task.rules])
    slack = np.where(loose, 0.01, 0.1 * np.abs(bound)) + 3 * noise
    missed = np.zeros(len(task.rules), bool)
    for place, rule in enumerate(task.rules):
        match rule.strength.kind:
            case "hard" | "average":
                missed[place] = f[place] < bound[place] - slack[place] - 1e-6
            case "probable functions" | "probable points":
                missed[place] = -broken[place] < bound[place] - slack[place]
            case "share":
                missed[place] = broken[place] > 3 * float(task.enforcement.target[place])
            case _:
                pass
    return missed & (np.asarray(task.enforcement.active) > 0)


def _quoted(rules: Sequence[str]) -> str:
    return " and ".join(repr(str(rule)) for rule in rules)
