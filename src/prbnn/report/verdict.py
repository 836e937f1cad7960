"""What a report says first: how the fit ended, which rules hold, whether to trust the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from prbnn.assessment.calibration import expected_range
from prbnn.assessment.knowledge_report import BY_CONSTRUCTION, RuleReport
from prbnn.report.findings import ClassScores, Findings, Scores
from prbnn.report.subject import Subject
from prbnn.report.wording import counted, listed, number, percent, typeset, with_unit
from prbnn.rules.strengths import Hard, InPrior, Soft

Mood = Literal["good", "note", "caution", "bad"]
WORST_FIRST: tuple[Mood, ...] = ("bad", "caution", "note", "good")
HEADLINE_LEVEL = 0.9
# a share of the plain network's error that knowledge may cost before it is worth a word
WORTH_A_WORD = 1.1
# gaps of probabilities that are less probable than this are the model's own
LEAST_CHANCE = 0.01


@dataclass(frozen=True)
class Statement:
    """One thing found, how good it is, and what to do where it is not; `brief` is for headlines."""

    mood: Mood
    text: str
    remedy: str = ""
    brief: str = ""


@dataclass(frozen=True)
class Tile:
    """One number to remember."""

    value: str
    label: str
    mood: Mood = "note"


def verdict(subject: Subject, findings: Findings) -> list[Statement]:
    """Every statement, in the order a reader asks: fit, rules, error, bands."""
    said = [_fit(subject), *_warnings(subject), *_rules(subject), _error(subject, findings)]
    if isinstance(findings.scores, Scores):
        said += [
            _bands(subject, findings.scores, k) for k in range(min(3, len(subject.output_names)))
        ]
    else:
        said.append(_probabilities(findings.scores))
    if subject.judged_on == "training":
        said.append(
            Statement(
                "caution",
                "No rows were held out, so the error and the calibration below are of rows that the "
                "model has seen, and flatter it.",
                "Hold some rows out and fit again.",
                "no rows were held out",
            )
        )
    return said


def headline(subject: Subject, said: list[Statement]) -> tuple[Mood, str]:
    """The whole report in one line."""
    mood = min((statement.mood for statement in said), key=WORST_FIRST.index)
    if mood in ("bad", "caution"):
        worries = [statement.brief for statement in said if statement.mood == mood]
        more = f", and {counted(len(worries) - 1, 'thing')} more" if len(worries) > 1 else ""
        start = "Not to be relied on yet" if mood == "bad" else "Usable with care"
        return mood, f"{start}: {worries[0]}{more}."
    obeyed = "obeys its rules" if subject.rules else "fits the data"
    sure = "bands hold what they promise" if subject.classes is None else "probabilities come true"
    return "good", f"This model {obeyed}, and its {sure}."


def mood_of(report: RuleReport) -> Mood:
    """How good a rule's verdict is."""
    if report.verdict.startswith(("obeyed", "met", "within")):
        return "good"
    return "note" if report.verdict.startswith("broken by") else "bad"


def tiles(subject: Subject, findings: Findings) -> list[Tile]:
    """The numbers to remember, four at most."""
    report = subject.model.knowledge_report_
    found = []
    if len(report):
        kept = sum(mood_of(rule) == "good" for rule in report)
        label = f"{'rule' if len(report) == 1 else 'rules'} kept as asked"
        if any(rule.strength == Hard() for rule in subject.rules):
            label += f"; hard ones in all {len(subject.posterior):,} functions"
        found.append(
            Tile(f"{kept} of {len(report)}", label, "good" if kept == len(report) else "caution")
        )
    scores, plain = findings.scores, findings.plain_scores
    if isinstance(scores, ClassScores):
        beside = (
            f"; plain network {percent(plain.accuracy)}" if isinstance(plain, ClassScores) else ""
        )
        return [
            *found,
            Tile(percent(scores.accuracy), f"of {_rows(subject)} classed rightly{beside}"),
            Tile(
                percent(scores.reliability.error),
                "mean gap between probabilities and what happened",
                _probabilities(scores).mood,
            ),
        ]
    name = subject.output_names[0]
    unit = subject.unit(name)
    of = f" of {name}" if len(subject.output_names) > 1 else ""
    beside = (
        f"; plain network {with_unit(plain.rmse[0], unit)}" if isinstance(plain, Scores) else ""
    )
    inside = float(scores.ranks.coverage(HEADLINE_LEVEL)[0])
    return [
        *found,
        Tile(
            with_unit(scores.rmse[0], unit),
            f"error{of} (RMSE) on {_rows(subject)}{beside}",
            _error(subject, findings).mood,
        ),
        Tile(
            percent(inside),
            f"of {_rows(subject)} inside their {percent(HEADLINE_LEVEL)} band{of}",
            _bands(subject, scores, 0).mood,
        ),
        Tile(
            with_unit(scores.epistemic[0], unit),
            f"left to learn{of}: typical spread of the functions",
        ),
    ]


def _rows(subject: Subject) -> str:
    return counted(len(subject.judges), f"{subject.judged_on} row")


def _fit(subject: Subject) -> Statement:
    result = subject.model.result_
    steps = getattr(getattr(subject.model, "solution_", None), "steps", None)
    after = f" after {counted(steps, 'step')}" if steps else ""
    match result.status:
        case "converged":
            return Statement("good", f"The fit converged{after}.")
        case "budget spent":
            return Statement(
                "caution",
                f"The fit stopped{after} before it settled.",
                _sentence(result.message),
                "the fit has not settled",
            )
        case _:
            return Statement(
                "bad",
                f"The fit failed: {result.status}.",
                _sentence(result.message),
                f"{result.status}",
            )


def _warnings(subject: Subject) -> list[Statement]:
    """What the fit itself warns of; the text before the colon says what happened."""
    return [
        Statement("caution", _sentence(warning), brief=warning.partition(":")[0])
        for warning in subject.model.result_.warnings
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _rules(subject: Subject) -> list[Statement]:
    reports = list(subject.model.knowledge_report_)
    if not reports:
        return [Statement("note", "No knowledge was given.", "State what you know as rules.")]
    strengths = {rule.label: rule.strength for rule in subject.rules}
    hard = [report for report in reports if strengths[report.name] == Hard()]
    said = []
    kept = [report.name for report in hard if report.stored_share == 0]
    stored = counted(len(subject.posterior), "stored function")
    if kept:
        every = "all" if len(kept) == len(hard) else f"{len(kept)} of"
        which = f"{every.capitalize()} {counted(len(hard), 'hard rule')}"
        if len(hard) == 1:
            which = f"The hard rule {listed(kept)}"
        verb = "holds" if len(kept) == 1 else "hold"
        said.append(
            Statement("good", f"{which} {verb} in every one of {stored}, wherever they were tried.")
        )
    for report in hard:
        if report.stored_share > 0:
            said.append(
                Statement(
                    "bad",
                    f"‘{report.name}’ is broken by {percent(report.stored_share)} of {stored}.",
                    "Give more steps, loosen the rule, or narrow the region it is stated for.",
                    f"‘{report.name}’ is broken",
                )
            )
    said += [_other(report, strengths[report.name]) for report in reports if report not in hard]
    return said


def _other(report: RuleReport, strength: object) -> Statement:
    """Rules that allow for exceptions: whether what they ask of the average is met."""
    if isinstance(strength, Soft | InPrior):
        if report.raw_share == 0:
            return Statement(
                "good", f"‘{report.name}’ is a preference, and every function keeps it."
            )
        return Statement(
            "note",
            f"‘{report.name}’ is a preference ({report.strength}); {percent(report.raw_share)} of "
            "functions break it somewhere.",
            "Make it hard if it must hold.",
        )
    if report.verdict in ("met", "within tolerance", BY_CONSTRUCTION):
        return Statement("good", f"‘{report.name}’ is met as asked: {typeset(report.strength)}.")
    return Statement(
        "caution",
        f"‘{report.name}’ is not met: {typeset(report.strength)} was asked.",
        "Give more steps or points, or ask for less.",
        f"‘{report.name}’ is not met",
    )


def _error(subject: Subject, findings: Findings) -> Statement:
    scores, plain = findings.scores, findings.plain_scores
    rows = _rows(subject)
    if isinstance(scores, ClassScores):
        beside = (
            f" (plain network: {percent(plain.accuracy)})" if isinstance(plain, ClassScores) else ""
        )
        return Statement(
            "good", f"On {rows}, {percent(scores.accuracy)} are classed rightly{beside}."
        )
    units = [subject.unit(name) for name in subject.output_names]
    parts = [
        (f"{name} " if len(units) > 1 else "") + with_unit(value, unit)
        for name, value, unit in zip(subject.output_names, scores.rmse, units, strict=True)
    ]
    text = f"On {rows} the error (RMSE) is {', '.join(parts)}"
    if not isinstance(plain, Scores):
        return Statement("good", f"{text}.")
    beside = ", ".join(
        with_unit(value, unit) for value, unit in zip(plain.rmse, units, strict=True)
    )
    if np.all(scores.rmse <= WORTH_A_WORD * plain.rmse):
        return Statement("good", f"{text}; without knowledge it is {beside}.")
    dearest = max(subject.model.knowledge_report_, key=lambda rule: rule.dual * rule.violation)
    return Statement(
        "caution",
        f"{text}; without knowledge it is only {beside}.",
        f"A rule may be wrong or too tight for these rows; look at ‘{dearest.name}’ first.",
        "knowledge costs accuracy",
    )


def _probabilities(scores: ClassScores) -> Statement:
    gap = f"Probabilities are {percent(scores.reliability.error)} off on average"
    if scores.reliability.chance > LEAST_CHANCE:
        return Statement("good", f"{gap}, no more than chance allows.")
    return Statement(
        "caution",
        f"{gap}, more than chance allows.",
        "More rows, or another tempering, would mend them; until then read them as an order only.",
        "probabilities do not come true as often as they say",
    )


def _bands(subject: Subject, scores: Scores, output: int) -> Statement:
    rows = len(scores.ranks.below)
    inside = float(scores.ranks.coverage(HEADLINE_LEVEL)[output])
    low, high = expected_range(HEADLINE_LEVEL, rows, 0.99)
    of = f" of {subject.output_names[output]}" if len(subject.output_names) > 1 else ""
    text = (
        f"The {percent(HEADLINE_LEVEL)} band{of} holds {number(round(inside * rows))} of "
        f"{rows:,} {subject.judged_on} rows ({percent(inside)})"
    )
    if low <= inside <= high:
        return Statement("good", f"{text}, as it should.")
    if inside > high:
        return Statement(
            "note", f"{text}: wider than need be.", "More rows, or more steps, would narrow it."
        )
    return Statement(
        "caution",
        f"{text}: too narrow.",
        'Look at the least expected rows below; then try noise="by input" where scatter differs '
        "from place to place, or StudentT() where some rows are far off.",
        f"the {percent(HEADLINE_LEVEL)} band{of} is too narrow",
    )
