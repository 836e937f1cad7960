"""Which draws of a fit are stored: those that obey the hard rules, and what is said if too few do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from prbnn.assessment.doubts import UNDECIDED
from prbnn.assessment.knowledge_report import Gap, KnowledgeReport, gap, knowledge_report
from prbnn.fitting.checkpoints import Checkpoints, Place
from prbnn.fitting.fitted import FittedTask
from prbnn.fitting.obeying import obeying, projects
from prbnn.fitting.outcome import FinalCheck
from prbnn.fitting.result import Proof, Result, Solution
from prbnn.fitting.rule_evidence import DUAL_SLACK, NEGLIGIBLE
from prbnn.model.construction.built import built_in
from prbnn.posterior.checks import check_points
from prbnn.posterior.draws import Check, Posterior
from prbnn.rules.base import Rule
from prbnn.rules.conflicts.finding import conflicts
from prbnn.rules.strengths import Kind

LEAST_ACCEPTANCE = 0.02
# where draws are moved and pressure could be used instead
LEAST_MOVED = 0.5
# where draws are moved, the raw ones are checked at 1 / RAW_FEWER of the points
RAW_FEWER = 8
# seed of the points of that check and the last, which no projection has used
CHECKED = 3
# where draws are moved, so many of those wanted are enough: moving a few more takes another search
ENOUGH = 0.95
# factor by which more draws are evaluated than the acceptance says are needed
SPARE = 1.2


class Stored(NamedTuple):
    """The draws that an estimator stores, and what is known of them.

    - `posterior`: the stored draws
    - `acceptance`: fraction of raw draws that obey every hard rule
    - `result`: how the fit ended, checks of the draws included
    - `report`: the table of the rules
    """

    posterior: Posterior
    acceptance: float
    result: Result
    report: KnowledgeReport


def stored_draws(
    solution: Solution,
    wanted: int,
    checkpoints: Checkpoints | None = None,
    least: float = LEAST_ACCEPTANCE,
) -> Stored:
    """Up to ``wanted`` draws that obey every hard rule: the proved ones, or those that pass the check.

    ``checkpoints`` are those of the fit: draws are kept there while they are moved. Below an acceptance
    of ``least`` no further draws are looked for, and the result says that it is too low.
    """
    on_their_way = _places(checkpoints or Checkpoints())
    # a stated tolerance is on the mean violation; without one, every draw must obey
    raw = solution.posterior
    met = built_in(raw.network)
    places = [
        place
        for place, rule in enumerate(solution.rules)
        if rule.strength.kind == Kind.HARD and rule.label not in met
    ]
    hard = [solution.rules[place] for place in places]
    moving = solution.proof is None and projects(solution)
    # draws that are moved are searched for points where they break a rule: no need to do it twice
    few = check_points(raw.columns) // RAW_FEWER
    check = raw.check(
        solution.rules, raw.bind(solution.rules, few) if moving and solution.rules else None
    )
    if solution.proof is None:
        checked = None if moving else check.of(places)
        found = obeying(solution, raw, hard, checked, next(on_their_way))
        acceptance, moves = found.acceptance, found.moves
        clashes = _clashes(hard, raw) if moves is not None and not acceptance else None
        posterior, result = (
            (raw, clashes)
            if clashes
            else _accepted(solution, found.posterior, acceptance, hard, wanted, on_their_way, least)
        )
    else:
        acceptance, moves = solution.proof.acceptance, None
        posterior, result = _proved(solution, solution.proof, wanted)
    stored = check
    # of sequences the passes of the projection, each over fresh ones, are the dense check
    searches = moving and raw.columns.layout is None
    if len(posterior) != len(raw) or hard:
        fresh = posterior.bind(solution.rules, few, seed=CHECKED) if searches else None
        stored = posterior.check(solution.rules, fresh)
    if searches and acceptance:
        # the dense check has the last word
        kept = stored.of(places).obeys()
        posterior, stored = posterior.take(kept), stored.among(kept)
        acceptance *= float(np.mean(kept))
        if acceptance < least:
            result = _too_low(solution, acceptance, hard)
            posterior, stored = (posterior, stored) if len(posterior) else (raw, check)
    result = result or _missed_when_checked(solution, check)
    if solution.result.status == "interrupted" and result is not None:
        # the interruption explains what was missed
        message = f"{solution.result.message}; {result.message}"
        result = replace(solution.result, message=message, rules=result.rules)
    result = result or solution.result
    report = knowledge_report(
        solution.rules,
        solution,
        check,
        posterior,
        stored,
        acceptance,
        result,
        moves=moves or (),
    )
    return Stored(posterior, acceptance, result, report)


def _places(checkpoints: Checkpoints) -> Iterator[Place]:
    """Where batches of draws are kept while they are moved, one after the other."""
    return (checkpoints.place(f"moving {number}") for number in count())


def _accepted(
    solution: Solution,
    kept: Posterior,
    acceptance: float,
    rules: list[Rule],
    wanted: int,
    places: Iterator[Place],
    least: float,
) -> tuple[Posterior, Result | None]:
    """Draws ``kept``, joined by further ones until ``wanted`` obey ``rules``.

    Where draws are moved, nearly as many are enough. The result is not None where the acceptance is too
    low for that, below ``least``. ``places`` are those where further draws are kept while they are moved.
    """
    if acceptance < least:
        stored = kept if len(kept) else solution.posterior
        return stored, _too_low(solution, acceptance, rules)
    if not solution.fitted.endless:
        few = min(wanted, len(kept))
        return kept.take(np.arange(few) * len(kept) // few), None
    enough = int(np.ceil(ENOUGH * wanted)) if projects(solution) else wanted
    batch = len(solution.posterior)
    # twice what the acceptance suggests is more than chance can use up
    rounds = 2 + int(2 * wanted / (batch * acceptance))
    for number in range(1, rounds):
        if len(kept) >= enough:
            break
        fresh = solution.more(batch, number)
        start = 0
        while start < batch and len(kept) < wanted:
            # checking a draw takes longer than drawing it: no more than are likely to be needed
            end = start + int(SPARE * (wanted - len(kept)) / acceptance) + 1
            some = fresh.take(np.arange(start, min(end, batch)))
            found = obeying(solution, some, rules, kept=next(places))
            kept = kept.joined(found.posterior)
            start = end
    return kept.take(np.arange(min(wanted, len(kept)))), None


def _too_low(solution: Solution, acceptance: float, rules: list[Rule]) -> Result:
    """The result of a fit of which hardly any drawn function obeys ``rules``."""
    message = (
        f"only {acceptance:.1%} of drawn functions obey every hard rule. Likely causes, in order: too "
        "few steps, rules that leave functions hardly any room, rules that the data contradict; give "
        "more steps, or loosen the rules that the report shows broken most"
    )
    often = np.mean(solution.posterior.check(rules).broken(), axis=0) > 0.5
    names = tuple(rule.label for rule, bad in zip(rules, often, strict=True) if bad)
    return Result(
        "acceptance too low", message, tuple(dict.fromkeys((*solution.result.rules, *names)))
    )


def _clashes(rules: list[Rule], raw: Posterior) -> Result | None:
    """A result that names the rules that contradict each other, where no draw could be moved.

    Rules that exert pressure are compared in training.
    """
    clashes = [clash for clash in conflicts(rules, raw.columns) if clash.contradiction]
    if not clashes:
        return None
    why = f"the rules contradict each other: {'; '.join(map(str, clashes))}; loosen or drop one"
    return Result("infeasible", why, tuple({name: 0 for each in clashes for name in each.rules}))


def _proved(solution: Solution, proof: Proof, wanted: int) -> tuple[Posterior, Result | None]:
    """The proved draws, or the raw ones if none is; a result where fewer than ``wanted`` are proved."""
    if proof.complete:
        return proof.posterior, None
    names = tuple(rule.label for rule in solution.rules if rule.strength.kind == Kind.HARD)
    message = (
        f"{UNDECIDED}: {len(proof.posterior)} of {wanted} draws proved to obey "
        f"{' and '.join(map(repr, names))} before the time for proofs ended. Likely causes, in order: "
        "too little time, too few draws that obey, a rule that functions nearly touch; give more "
        "(prove=600), more steps, or a margin"
    )
    stored = proof.posterior if len(proof.posterior) else solution.posterior
    return stored, Result("budget spent", message, names)


def _missed_when_checked(solution: Solution, check: Check) -> Result | None:
    """A result that the dense check changes; None where training was right.

    Training evaluates a rule on a block of points at a time, and over its last eighth, so the dense
    ``check`` of the final draws decides whether a rule is met. Of one that is, it also says whether the
    dual is right; all else that a fit is judged by stays.
    """
    units = solution.posterior.bind(solution.rules, 8).units
    gaps = {
        rule.label: gap(rule, units[place], check, place)
        for place, rule in enumerate(solution.rules)
    }
    missed = tuple(name for name, found in gaps.items() if not found.met)
    if missed:
        names = " and ".join(map(repr, missed))
        off = ", ".join(f"{gaps[name].value:.2g} +- {gaps[name].error:.1g}" for name in missed)
        message = (
            f"{names} not met when checked densely (off by {off}). Likely causes, in order: too few "
            "steps, too few points, rules that contradict each other or the data; give more steps or "
            "points"
        )
        return Result("budget spent", message, missed)
    named = [rule for rule in solution.rules if rule.label in solution.result.rules]
    fitted = solution.fitted
    if not named:
        return _pressed_too_hard(solution, gaps)
    if any(rule.strength.kind == Kind.HARD for rule in named):
        return None
    if not isinstance(fitted, FittedTask):
        return None
    just = tuple(rule.label for rule in named if gaps[rule.label].just)
    checked = FinalCheck(tuple(rule.label for rule in named), just)
    return fitted.judged(solution.diagnostics, checked)


def _pressed_too_hard(solution: Solution, gaps: dict[str, Gap]) -> Result | None:
    """A result that names the rules whose duals press though the final draws more than meet them.

    At the right dual a rule is just met, or the dual is 0. Of samplers the kept draws have shown it, and
    members are too few to show it.
    """
    if solution.result.status != "converged" or not solution.fitted.endless:
        return None
    names = []
    for name, found in gaps.items():
        moved = solution.duals[name] * found.spread / solution.tempering
        slack = max(found.slack, DUAL_SLACK * moved * found.spread)
        if moved > NEGLIGIBLE and found.value < -slack - 3 * found.error:
            names.append(name)
    if not names:
        return None
    off = ", ".join(f"{-gaps[name].value:.2g} +- {gaps[name].error:.1g}" for name in names)
    message = (
        f"the dual of {' and '.join(map(repr, names))} has not settled where its rule is just met (when "
        f"checked densely it is met by {off} more than asked); give more steps"
    )
    return Result("budget spent", message, tuple(names))
