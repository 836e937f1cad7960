"""How a fit ended, read off its record: plateaus, rules not met, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from prbnn.enforcement.stall import patience
from prbnn.fitting import rule_evidence
from prbnn.fitting.at_rest import LARGEST_GAIN, LEAST_REACH, drift, objective
from prbnn.fitting.loop import Carry
from prbnn.fitting.result import History, Result
from prbnn.fitting.rule_evidence import Record, last_eighth, shown
from prbnn.fitting.task import Task
from prbnn.posterior.diagnostics import FEWEST_EFFECTIVE, Diagnostics
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


class FinalCheck(NamedTuple):
    """Rules of which a dense check of the final draws has shown more than training did, by name.

    - `met`: what the strength asks of their average is met
    - `just`: it is met, and not by more than is asked for, so that the dual is right
    """

    met: tuple[str, ...] = ()
    just: tuple[str, ...] = ()


UNCHECKED = FinalCheck()


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


def result_of(
    task: Task,
    carry: Carry,
    record: Record,
    status: str,
    settle: int,
    checked: FinalCheck = UNCHECKED,
) -> Result:
    """What to tell a user; ``status`` is what stopped the loop.

    ``settle`` is for how many steps at the end the learning rate fell; ``checked`` is what a dense check
    of the final draws has shown of the rules.
    """
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
    unmet = _unmet(task, carry, record, checked)
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
    return Result("converged") if task.engine.block > 1 else _rested(task, record, settle)


def _unmet(task: Task, carry: Carry, record: Record, checked: FinalCheck) -> Result | None:
    """The first of: rules that are not met, means that are not known, duals that have not settled."""
    found = shown(task, carry, record)
    late = rule_evidence.missed(task, found) & ~_masked(task, checked.met)
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
    wrong = pressing & rule_evidence.unsettled(task, carry, found) & ~_masked(task, checked.just)
    rules = _those(task, wrong)
    if rules:
        gaps = (found.value - np.asarray(task.enforcement.table.bound, float)) * task.units
        errors = found.error * task.units
        off = ", ".join(
            f"{gap:.2g} +- {error:.1g}"
            for gap, error in zip(gaps[wrong], errors[wrong], strict=True)
        )
        what = f"the dual of {_quoted(rules)} has not settled where its rule is just met (off by {off})"
        return Result("budget spent", f"{what}; give more steps", rules)
    return None


def _rested(task: Task, record: Record, settle: int) -> Result:
    """Whether more training would change the objective little, by the law of `at_rest`."""
    found = drift(task, record, settle)
    if found.reach < LEAST_REACH:
        return Result(
            "budget spent",
            f"the fit cannot have left its start: all its steps can move a weight by {found.reach:.2g}, "
            f"less than {LEAST_REACH:g}. Likely causes, in order: a learning rate too low, too few "
            "steps; raise the learning rate, or give more steps",
        )
    if np.isnan(found.ahead):
        return Result(
            "budget spent",
            "too few steps to tell whether the objective was still moving; give more steps",
        )
    if not found.settled or not _objective_rests(task, record):
        what = f"as many steps again would change it by about {abs(found.ahead):.2g} nats per row"
        if found.fallen > LARGEST_GAIN:
            what = f"it fell by {found.fallen:.2g} nats per row while the learning rate fell"
        return Result(
            "budget spent",
            f"the objective was still moving ({what}). Likely causes, in order: too few steps, rules "
            "that still move the fit, a learning rate too low; give more steps",
        )
    return Result("converged")


def _objective_rests(task: Task, record: Record) -> bool:
    """Whether the last eighth of training differs from the eighth before by little more than noise.

    The noise is that of a chunk beside its neighbours, which a trend leaves small.
    """
    count = len(last_eighth(record))
    found = objective(task, record)
    late, later = found[-2 * count : -count], found[-count:]
    if not len(late):
        return False
    beside = np.concatenate([np.diff(late), np.diff(later)])
    noise = np.sqrt(np.mean(beside**2) / count) if len(beside) else 0.0
    return bool(abs(later.mean() - late.mean()) <= CONVERGED_CHANGE + 2 * noise)


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
    if diagnostics.stuck:
        return Result(
            "budget spent",
            f"chains never moved ({diagnostics}). Likely causes, in order: a step size too small or too "
            "large, a density that is not finite nearby, inputs or targets without scaling. Change the "
            "step size, or use scaling='standard'",
        )
    if not diagnostics.mixed:
        return Result(
            "budget spent",
            f"the chains have not mixed ({diagnostics}). Likely causes, in order: too few steps, several "
            "modes that chains do not leave, a step size that does not fit; give more steps",
        )
    if diagnostics.few:
        return Result(
            "budget spent",
            f"the draws are worth fewer than {FEWEST_EFFECTIVE} independent ones ({diagnostics}). Likely "
            "causes, in order: too few steps, too few draws kept, steps too small; give more steps",
        )
    if diagnostics.kept is not None and diagnostics.kept < keep:
        return Result(
            "converged",
            f"each chain kept {diagnostics.kept} of {keep} draws, one per step after its warm-up; for "
            f"all, give at least {2 * keep} steps",
        )
    return Result("converged")


def _masked(task: Task, names: Sequence[str]) -> np.ndarray:
    """Which of the task's rules have these names."""
    return np.array([rule.label in names for rule in task.rules], bool)


def _those(task: Task, chosen: np.ndarray) -> tuple[str, ...]:
    """Names of the rules that a mask chooses."""
    return tuple(rule.label for rule, here in zip(task.rules, chosen, strict=True) if here)


def _quoted(rules: Sequence[str]) -> str:
    return " and ".join(repr(str(rule)) for rule in rules)
