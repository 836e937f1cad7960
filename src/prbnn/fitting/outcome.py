"""How a fit ended, read off its record: plateaus, rules not met, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prbnn.enforcement.stall import patience
from prbnn.fitting import rule_evidence
from prbnn.fitting.loop import Carry
from prbnn.fitting.result import History, Result
from prbnn.fitting.rule_evidence import Record, last_eighth, shown
from prbnn.fitting.task import Task
from prbnn.posterior.diagnostics import Diagnostics
from prbnn.rules.conflicts.finding import Conflict, conflicts
from prbnn.rules.strengths import Hard

# chunks per window in the plateau test
WINDOW = 4
# changes between two windows that make no plateau: of the ELBO in nats per row, and of duals relatively
ELBO_CHANGE = 0.01
DUAL_CHANGE = 0.02
# the ELBO has converged where it changes by no more than this, in nats per row, near the end
CONVERGED_CHANGE = 0.05
# particles are at rest where the residual of attraction and repulsion is below this
LARGEST_RESIDUAL = 0.1


def plateau(record: Record, task: Task) -> bool:
    """Whether the last two windows of steps differ by little more than noise."""
    if len(record) < 3 * WINDOW:
        return False
    elbo = _elbo(record)
    duals = np.array([means.pressure for _, means in record])
    now, before = elbo[-WINDOW:], elbo[-2 * WINDOW : -WINDOW]
    noise = np.sqrt((now.var() + before.var()) / WINDOW)
    still = abs(now.mean() - before.mean()) < ELBO_CHANGE * task.rows + noise
    if not task.rules:
        return bool(still)
    change = np.abs(duals[-WINDOW:].mean(0) - duals[-2 * WINDOW : -WINDOW].mean(0))
    return bool(still and np.all(change <= DUAL_CHANGE * duals[-WINDOW:].mean(0) + 1e-3))


def history_of(record: Record, units: np.ndarray) -> History:
    """The record as arrays, in the user's units; ``units`` are those of each rule's f."""
    rules = len(units)

    def stack(values: list) -> np.ndarray:
        return np.array(values, float).reshape(len(record), rules)

    return History(
        step=np.array([step for step, _ in record]),
        elbo=_elbo(record),
        violation=stack([-means.f for _, means in record]) * units,
        broken=stack([means.broken for _, means in record]),
        dual=stack([means.pressure for _, means in record]) / units,
    )


def _elbo(record: Record) -> np.ndarray:
    return np.array([float(means.elbo) for _, means in record])


def result_of(task: Task, carry: Carry, record: Record, status: str) -> Result:
    """What to tell a user; ``status`` is what stopped the loop."""
    match status:
        case "diverged":
            return Result(
                "diverged",
                "numbers stopped being finite; the posterior is the last finite state. Likely causes, "
                "in order: a learning rate too high, targets with extreme outliers, a score of your own "
                "that is not finite somewhere",
            )
        case "interrupted":
            return Result(
                "interrupted",
                f"stopped at step {record[-1][0]}, before its end; fit again to train to the end",
            )
        case "infeasible":
            looks = np.asarray(carry.enforcement.stall.stalled)
            stalled = looks >= patience(task.enforcement.block) / 2
            late = rule_evidence.missed(task, shown(task, carry, record))
            return _infeasible(task, _those(task, stalled | late))
    unmet = _unmet(task, carry, record)
    if unmet is not None:
        return unmet
    residual = task.engine.residual(carry.engine)
    if residual > LARGEST_RESIDUAL:
        return Result(
            "budget spent",
            f"particles were still moving ({residual:.0%} of what pulls them is not balanced); give "
            "more steps or particles",
        )
    # whether a sampler converged depends on its chains, see `sampled_result`
    if task.engine.block > 1 or _objective_rests(task, record):
        return Result("converged")
    return Result("budget spent", "the objective was still moving; give more steps")


def _unmet(task: Task, carry: Carry, record: Record) -> Result | None:
    """The first of: rules that are not met, means that are not known, duals that have not settled."""
    found = shown(task, carry, record)
    late = rule_evidence.missed(task, found)
    impossible = tuple(
        rule.label
        for rule, unmet in zip(task.rules, late, strict=True)
        if unmet and rule.strength == Hard(tolerance=0.0)
    )
    if impossible:
        return Result(
            "infeasible",
            f"a tolerance of 0 on {_quoted(impossible)} requires every function to obey everywhere; no "
            "member of a family of normal posteriors attains it. State a small tolerance, or use "
            ".hard() and let conditioning reject the rest",
            impossible,
        )
    rules = _those(task, late)
    if rules:
        return Result(
            "budget spent", f"{_quoted(rules)} not met yet; give more steps or loosen them", rules
        )
    pressing = rule_evidence.pressing(task, carry, found)
    rules = _those(task, pressing & rule_evidence.vague(task, found))
    if rules:
        more = "steps" if task.engine.endless or task.engine.block > 1 else "particles or members"
        what = f"too few draws break {_quoted(rules)} for its mean and its dual to be known"
        return Result("budget spent", f"{what}; give more {more}, or loosen it", rules)
    rules = _those(task, pressing & rule_evidence.unsettled(task, carry, found))
    if rules:
        what = f"the dual of {_quoted(rules)} has not settled where its rule is just met"
        return Result("budget spent", f"{what}; give more steps", rules)
    return None


def _objective_rests(task: Task, record: Record) -> bool:
    """Whether the last eighth of training differs from the eighth before by little more than noise."""
    count = len(last_eighth(record))
    elbo = _elbo(record)
    late, later = elbo[-2 * count : -count], elbo[-count:]
    if not len(late):
        return False
    noise = np.sqrt((late.var() + later.var()) / count)
    return bool(abs(later.mean() - late.mean()) <= CONVERGED_CHANGE * task.rows + 2 * noise)


def contradictions(task: Task) -> list[Conflict]:
    """Smallest sets of the task's rules that no posterior obeys, whatever data and network."""
    return [clash for clash in _clashes(task) if clash.contradiction]


def _clashes(task: Task) -> list[Conflict]:
    active = {*_those(task, np.asarray(task.enforcement.table.active) > 0)}
    return conflicts([rule for rule in task.knowledge if rule.label in active], task.columns)


def _infeasible(task: Task, broken: tuple[str, ...]) -> Result:
    """Name the rules that clash by themselves, at all or within their tolerances; or all broken."""
    clashes = _clashes(task)
    proven = [clash for clash in clashes if clash.contradiction]
    tight = [clash for clash in clashes if {*clash.rules} <= {*broken}]
    if proven:
        why = f"the rules contradict each other: {'; '.join(map(str, proven))}"
    elif tight:
        why = f"{'; '.join(map(str, tight))}; large pressure did not bring them within tolerance"
    else:
        why = (
            f"large pressure on {_quoted(broken)} changed nothing: the knowledge contradicts the data, "
            "what the network can do, or itself; prbnn.smallest_conflict(solution) returns a "
            "minimal set of conflicting rules"
        )
    named = {name for clash in proven or tight for name in clash.rules} or {*broken}
    rules = tuple(rule.label for rule in task.rules if rule.label in named)
    return Result("infeasible", f"{why}; loosen or drop one", rules)


def sampled_result(diagnostics: Diagnostics, keep: int) -> Result:
    """Of a sampler whose rules are met: whether its chains agree, and kept ``keep`` draws each."""
    if not diagnostics.mixed:
        return Result("budget spent", f"the chains have not mixed ({diagnostics}); give more steps")
    if diagnostics.kept is not None and diagnostics.kept < keep:
        return Result(
            "converged",
            f"each chain kept {diagnostics.kept} of {keep} draws, one per step after its warm-up; for "
            f"all, give at least {2 * keep} steps",
        )
    return Result("converged")


def _those(task: Task, chosen: np.ndarray) -> tuple[str, ...]:
    """Names of the rules that a mask chooses."""
    return tuple(rule.label for rule, here in zip(task.rules, chosen, strict=True) if here)


def _quoted(rules: Sequence[str]) -> str:
    return " and ".join(repr(str(rule)) for rule in rules)
