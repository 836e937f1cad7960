"""The first section of a report: how the fit ended, which rules hold, whether to trust the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from prbnn.assessment.calibration import expected_range
from prbnn.assessment.doubts import undecided
from prbnn.assessment.knowledge_report import BY_CONSTRUCTION, RuleReport
from prbnn.assessment.scores import ClassScores, RegressionScores
from prbnn.report.findings import Findings
from prbnn.report.subject import Subject
from prbnn.report.wording import counted, listed, number, percent, typeset, with_unit
from prbnn.rules.strengths import Kind

Mood = Literal["good", "note", "caution", "bad"]
WORST_FIRST: tuple[Mood, ...] = ("bad", "caution", "note", "good")
HEADLINE_LEVEL = 0.9
# remarks on bands are made for this many outputs at most
MOST_BANDS = 3
# an error above this multiple of the plain network's is a cost of the knowledge that the verdict names
COSTLY = 1.1
# gaps between probabilities and frequencies that are less probable than this are the model's fault
LEAST_CHANCE = 0.01


@dataclass(frozen=True)
class Remark:
    """One finding in words.

    - `mood`: how good it is
    - `text`: what was found
    - `remedy`: what to do about it; empty where nothing needs to be done
    - `brief`: the finding in a few words, for the headline
    """

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


def verdict(subject: Subject, findings: Findings) -> list[Remark]:
    """Every remark, in the order a reader asks: fit, rules, error, bands."""
    doubts, rules = [*_warnings(subject), *_undecided(subject)], _rules(subject)
    remarks = [_fit(subject), *doubts, *rules, _error(subject, findings)]
    if isinstance(findings.scores, RegressionScores):
        outputs = range(min(MOST_BANDS, len(subject.output_names)))
        remarks += [_bands(subject, findings.scores, k) for k in outputs]
    else:
        remarks.append(_probabilities(findings.scores))
    if subject.scored_on == "training":
        remarks.append(
            Remark(
                "caution",
                "No rows were held out: error and calibration below are those of training rows, and "
                "too optimistic.",
                "Hold some rows out and fit again.",
                "no rows were held out",
            )
        )
    return remarks


def headline(subject: Subject, remarks: list[Remark]) -> tuple[Mood, str]:
    """The whole report in one line, and how good it is."""
    mood = min((remark.mood for remark in remarks), key=WORST_FIRST.index)
    if mood in ("bad", "caution"):
        worries = [remark.brief for remark in remarks if remark.mood == mood]
        more = f", and {counted(len(worries) - 1, 'thing')} more" if len(worries) > 1 else ""
        start = "Not to be relied on yet" if mood == "bad" else "Usable with care"
        return mood, f"{start}: {worries[0]}{more}."
    obeyed = "obeys its rules" if subject.rules else "fits the data"
    calibrated = (
        "bands have the coverage they state"
        if subject.classes is None
        else "probabilities match the observed frequencies"
    )
    return "good", f"This model {obeyed}, and its {calibrated}."


def mood_of(report: RuleReport) -> Mood:
    """How good a rule's verdict is."""
    if report.verdict.startswith(("obeyed", "met", "within")):
        return "good"
    return "note" if report.verdict.startswith("broken by") else "bad"


def tiles(subject: Subject, findings: Findings) -> list[Tile]:
    """The numbers to remember, four at most."""
    found = [_rules_tile(subject)] if subject.rules else []
    scores, plain = findings.scores, findings.plain_scores
    rows = scored_rows(subject)
    if isinstance(scores, ClassScores):
        beside = (
            f"; plain network {percent(plain.accuracy)}" if isinstance(plain, ClassScores) else ""
        )
        return [
            *found,
            Tile(percent(scores.accuracy), f"of {rows} classified correctly{beside}"),
            Tile(
                percent(scores.reliability.error),
                "mean gap between probabilities and observed frequencies",
                _probabilities(scores).mood,
            ),
        ]
    unit, of = subject.unit(subject.output_names[0]), of_output(subject, 0)
    beside = (
        f"; plain network {with_unit(plain.rmse[0], unit)}"
        if isinstance(plain, RegressionScores)
        else ""
    )
    return [
        *found,
        Tile(
            with_unit(scores.rmse[0], unit),
            f"error{of} (RMSE) on {rows}{beside}",
            _error(subject, findings).mood,
        ),
        Tile(
            percent(float(scores.ranks.coverage(HEADLINE_LEVEL)[0])),
            f"of {rows} inside their {percent(HEADLINE_LEVEL)} band{of}",
            _bands(subject, scores, 0).mood,
        ),
        Tile(
            with_unit(scores.epistemic[0], unit),
            f"model uncertainty{of}: mean standard deviation of the functions",
        ),
    ]


def _rules_tile(subject: Subject) -> Tile:
    report = subject.model.knowledge_report_
    met = sum(mood_of(rule) == "good" for rule in report)
    label = f"{'rule' if len(report) == 1 else 'rules'} met"
    hard = _hard(subject)
    if hard and all(rule.stored_share == 0 for rule in hard):
        label += f"; hard ones by all {len(subject.posterior):,} functions"
    return Tile(f"{met} of {len(report)}", label, "good" if met == len(report) else "caution")


def scored_rows(subject: Subject) -> str:
    """How many rows the scores are of, and which: '30 held-out rows'."""
    return counted(len(subject.scored_rows), f"{subject.scored_on} row")


def of_output(subject: Subject, output: int) -> str:
    """' of NAME' where there are several outputs to tell apart, or nothing."""
    return f" of {subject.output_names[output]}" if len(subject.output_names) > 1 else ""


def _fit(subject: Subject) -> Remark:
    result = subject.model.result_
    steps = getattr(getattr(subject.model, "solution_", None), "steps", None)
    after = f" after {counted(steps, 'step')}" if steps else ""
    match result.status:
        case "converged":
            return Remark("good", f"The fit converged{after}.")
        case "budget spent":
            return Remark(
                "caution",
                f"The fit stopped{after} before it converged.",
                _sentence(result.message),
                "the fit has not converged",
            )
        case status:
            return Remark("bad", f"The fit failed: {status}.", _sentence(result.message), status)


def _warnings(subject: Subject) -> list[Remark]:
    """What the fit itself warns of."""
    return [_doubt(warning) for warning in subject.model.result_.warnings]


def _undecided(subject: Subject) -> list[Remark]:
    """Rules of which the certificate of the stored functions says neither that they hold nor that not."""
    return [] if subject.proofs is None else [_doubt(each) for each in undecided(subject.proofs)]


def _doubt(text: str) -> Remark:
    """A doubt: its name is before the colon, and its causes and remedy are after what was found."""
    found, likely, causes = text.partition(". Likely causes")
    return Remark(
        "caution", _sentence(found), _sentence(likely[2:] + causes), text.partition(":")[0]
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _hard(subject: Subject) -> list[RuleReport]:
    """Reports of the hard rules without a tolerance, which every stored function must obey."""
    names = {rule.label for rule in subject.rules if rule.strength.kind == Kind.HARD}
    return [report for report in subject.model.knowledge_report_ if report.name in names]


def _rules(subject: Subject) -> list[Remark]:
    reports = list(subject.model.knowledge_report_)
    if not reports:
        return [Remark("note", "No knowledge was given.", "State what you know as rules.")]
    hard = _hard(subject)
    stored = counted(len(subject.posterior), "stored function")
    remarks = []
    kept = [report.name for report in hard if report.stored_share == 0]
    if kept:
        every = "All" if len(kept) == len(hard) else f"{len(kept)} of"
        which = f"{every} {counted(len(hard), 'hard rule')}"
        if len(hard) == 1:
            which = f"The hard rule {listed(kept)}"
        verb = "holds" if len(kept) == 1 else "hold"
        remarks.append(
            Remark("good", f"{which} {verb} for all {stored}, at every point that was checked.")
        )
    remarks += [
        Remark(
            "bad",
            f"‘{report.name}’ is broken by {percent(report.stored_share)} of {stored}.",
            "Give more steps, loosen the rule, or narrow the region it is stated for.",
            f"‘{report.name}’ is broken",
        )
        for report in hard
        if report.stored_share > 0
    ]
    kinds = {rule.label: rule.strength.kind for rule in subject.rules}
    return remarks + [
        _other(report, kinds[report.name]) for report in reports if report not in hard
    ]


def _other(report: RuleReport, kind: Kind) -> Remark:
    """A rule that allows exceptions: whether what it asks of the average is met."""
    if kind in (Kind.SOFT, Kind.PRIOR):
        if report.raw_share == 0:
            return Remark("good", f"‘{report.name}’ is a preference, and every function obeys it.")
        return Remark(
            "note",
            f"‘{report.name}’ is a preference ({report.strength}); {percent(report.raw_share)} of "
            "functions break it somewhere.",
            "Make it hard if it must hold.",
        )
    if report.verdict in ("met", "within tolerance", BY_CONSTRUCTION):
        return Remark("good", f"‘{report.name}’ is met: {typeset(report.strength)}.")
    return Remark(
        "caution",
        f"‘{report.name}’ is not met: {typeset(report.strength)} was asked for.",
        "Give more steps or points, or ask for less.",
        f"‘{report.name}’ is not met",
    )


def _error(subject: Subject, findings: Findings) -> Remark:
    scores, plain = findings.scores, findings.plain_scores
    rows = scored_rows(subject)
    if isinstance(scores, ClassScores):
        beside = (
            f" (plain network: {percent(plain.accuracy)})" if isinstance(plain, ClassScores) else ""
        )
        return Remark(
            "good", f"Of {rows}, {percent(scores.accuracy)} are classified correctly{beside}."
        )
    units = [subject.unit(name) for name in subject.output_names]
    parts = [
        (f"{name} " if len(units) > 1 else "") + with_unit(value, unit)
        for name, value, unit in zip(subject.output_names, scores.rmse, units, strict=True)
    ]
    text = f"On {rows} the error (RMSE) is {', '.join(parts)}"
    if not isinstance(plain, RegressionScores):
        return Remark("good", f"{text}.")
    beside = ", ".join(
        with_unit(value, unit) for value, unit in zip(plain.rmse, units, strict=True)
    )
    if np.all(scores.rmse <= COSTLY * plain.rmse):
        return Remark("good", f"{text}; without knowledge it is {beside}.")
    # multiplier times mean violation is what a rule takes from the objective, in nats
    costliest = max(subject.model.knowledge_report_, key=lambda rule: rule.dual * rule.violation)
    return Remark(
        "caution",
        f"{text}; without knowledge it is only {beside}.",
        f"A rule may be wrong or too tight for these rows; look at ‘{costliest.name}’ first.",
        "knowledge costs accuracy",
    )


def _probabilities(scores: ClassScores) -> Remark:
    gap = f"Probabilities are {percent(scores.reliability.error)} off on average"
    if scores.reliability.chance > LEAST_CHANCE:
        return Remark("good", f"{gap}, no more than chance allows.")
    return Remark(
        "caution",
        f"{gap}, more than chance allows.",
        "More rows, or another tempering, may fix this; until then use them for ranking only.",
        "probabilities do not match the observed frequencies",
    )


def _bands(subject: Subject, scores: RegressionScores, output: int) -> Remark:
    rows = len(scores.ranks.below)
    inside = float(scores.ranks.coverage(HEADLINE_LEVEL)[output])
    low, high = expected_range(HEADLINE_LEVEL, rows, 0.99)
    band = f"{percent(HEADLINE_LEVEL)} band{of_output(subject, output)}"
    text = (
        f"The {band} holds {number(round(inside * rows))} of {rows:,} {subject.scored_on} rows "
        f"({percent(inside)})"
    )
    if low <= inside <= high:
        return Remark("good", f"{text}, within what chance allows.")
    if inside > high:
        return Remark(
            "note", f"{text}: wider than necessary.", "More rows, or more steps, would narrow it."
        )
    return Remark(
        "caution",
        f"{text}: too narrow.",
        'Look at the least expected rows below; then try noise="by input" where the noise differs '
        "from place to place, or StudentT() where some rows are far off.",
        f"the {band} is too narrow",
    )
