"""Tables of a report, as HTML; every text of the user's is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from prbnn.assessment.audit import Finding
from prbnn.assessment.calibration import LEVELS, expected_range
from prbnn.assessment.scores import ClassScores, RegressionScores
from prbnn.model.construction.built import built_in
from prbnn.report.findings import Findings
from prbnn.report.subject import Subject
from prbnn.report.verdict import mood_of, of_output, scored_rows
from prbnn.report.wording import (
    number,
    percent,
    price_in_words,
    region_in_words,
    rule_in_words,
    typeset,
    with_unit,
)
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Kind

MOST_COLUMNS = 12
MOST_NUMBERS = 12
# what `environment_` says of the machine, in this order; all else are versions
MACHINE = ("processor", "platform", "device", "precision", "xla_flags")


def table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = ""
) -> str:
    """A table that scrolls in its own box.

    Cells are HTML, headings and caption plain text; the first cell of a row is the row's heading.
    ``kind`` is the table's class in the style sheet.
    """
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{kind}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def value(amount: float, unit: str = "", shown: str | None = None) -> str:
    """A number for people, or ``shown`` in its place, with all its digits for machines."""
    text = with_unit(amount, unit) if shown is None else shown
    text = text.replace(" × ", "\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}")
    return f'<data value="{float(amount)!r}">{escape(text)}</data>'


def fraction(amount: float) -> str:
    """A fraction as a percentage for people, with all its digits for machines."""
    return value(amount, shown=percent(amount))


def knowledge_table(subject: Subject, findings: Findings) -> str:
    """One line per rule: what it says, its verdict, how far and how often it is broken, its prices."""
    headings = (
        "Rule",
        "Verdict",
        "Where",
        "Strength",
        "Mean violation",
        "Functions that break it",
        "Rows that break it",
        "Price of its tolerance",
        "Price of its bound",
    )
    reports = {report.name: report for report in subject.model.knowledge_report_}
    rows = []
    for rule, found in zip(subject.rules, findings.rows_breaking, strict=True):
        report = reports[rule.label]
        unit = subject.rule_unit(rule)
        words = rule_in_words(rule, subject)
        says = "" if words == rule.label else f'<span class="says">{escape(words)}</span>'
        because = f'<span class="because">{escape(rule.because)}</span>' if rule.because else ""
        chance = rule.strength.kind in (Kind.FUNCTIONS, Kind.POINTS)
        rows.append(
            (
                f'<span class="name">{escape(rule.label)}</span>{says}{because}',
                f'<span class="pill {mood_of(report)}">{escape(report.verdict)}</span>',
                escape(region_in_words(rule, subject)),
                escape(typeset(report.strength)),
                value(report.violation, unit),
                f"{fraction(report.stored_share)} stored<br>"
                f'<span class="faint">{fraction(report.raw_share)} of raw draws</span>',
                "–" if found is None else f"{found[0]:,} of {found[1]:,}",
                _price(report.price, unit, probable=chance),
                _price(report.bound_price, unit),
            )
        )
    return table("Rules", headings, rows, "knowledge")


def _price(price: float | None, unit: str, *, probable: bool = False) -> str:
    if price is None:
        return "–"
    return value(price, shown=price_in_words(price, unit, probable=probable))


def audit_table(subject: Subject, findings: Sequence[Finding]) -> str:
    """Training rows that break rules by more than noise explains, one line per rule."""
    places = np.flatnonzero(~np.asarray(subject.held_out, bool))
    units = {rule.label: subject.rule_unit(rule) for rule in subject.rules}
    rows = []
    for finding in (each for each in findings if each.rows):
        numbers = [
            f"{subject.number_of(int(places[row])):,}" for row in finding.rows[:MOST_NUMBERS]
        ]
        more = len(finding.rows) - len(numbers)
        rows.append(
            (
                escape(finding.rule),
                f"{len(finding.rows):,}",
                ", ".join(numbers) + (f" and {more:,} more" if more else ""),
                value(finding.by[0], "" if finding.pairs else units.get(finding.rule, "")),
                f"{finding.deviations[0]:.1f}",
            )
        )
    headings = ("Rule", "Rows", "Row numbers, worst first", "Worst by", "In sd of noise")
    return table("Audit", headings, rows, "audit")


def scores_table(subject: Subject, findings: Findings) -> str:
    """Scores of both networks on the held-out rows."""
    both = [findings.scores, *([findings.plain_scores] if findings.plain_scores else [])]
    first = "with knowledge" if subject.rules else "this network"
    headings = ["", first, "plain network"][: 1 + len(both)]
    rows: list[Sequence[str]] = []
    for title, amounts, unit, better in _measures(subject, both):
        best = None if better is None or len(amounts) == 1 else better(amounts)
        cells = [
            f"<strong>{value(amount, unit)}</strong>" if amount == best else value(amount, unit)
            for amount in amounts
        ]
        rows.append((escape(title), *cells))
    return table(f"On {scored_rows(subject)}", headings, rows, "scores")


def broken_table(subject: Subject, findings: Findings) -> str:
    """How often both networks break each rule."""
    headings = (
        "Functions that break it (points where the mean does)",
        "with knowledge",
        "plain network",
    )

    def cell(rule: Rule, amount: float, points: int) -> str:
        mark = ' class="bad"' if amount > 0 and rule.strength.kind == Kind.HARD else ""
        return f'<span{mark}>{fraction(amount)}</span> <span class="faint">({points:,})</span>'

    rows = [
        (
            escape(rule.label),
            cell(rule, report.stored_share, report.points_broken_by_mean),
            cell(rule, plain.broken, plain.points_broken_by_mean),
        )
        for rule, report, plain in zip(
            subject.rules, subject.model.knowledge_report_, findings.plain_rules, strict=True
        )
    ]
    return table("Rules broken", headings, rows, "scores")


def _measures(subject: Subject, both: list) -> list[tuple]:
    """(title, one number per model, unit, which is better) of every measure."""
    if isinstance(both[0], ClassScores):
        return [
            ("Accuracy", [found.accuracy for found in both], "", max),
            ("Log loss", [found.log_loss for found in both], "nats", min),
            ("Calibration error", [found.reliability.error for found in both], "", min),
        ]
    found: list[tuple] = []
    for k, name in enumerate(subject.output_names):
        of, unit = of_output(subject, k), subject.unit(name)
        found += [
            (f"Error{of} (RMSE)", [each.rmse[k] for each in both], unit, min),
            (f"CRPS{of}", [each.crps[k] for each in both], unit, min),
            (f"Sd of a new observation{of}", [each.deviation[k] for each in both], unit, None),
            (f"Sd of the functions{of}", [each.epistemic[k] for each in both], unit, None),
        ]
    return [
        *found,
        ("Log density per row", [each.log_density for each in both], "nats", max),
    ]


def coverage_table(scores: RegressionScores, output: int) -> str:
    """Stated and observed coverage of the bands, and what chance alone allows."""
    rows = []
    for level in LEVELS:
        low, high = expected_range(level, len(scores.ranks.below))
        rows.append(
            (
                percent(level),
                fraction(float(scores.ranks.coverage(level)[output])),
                f"{percent(low)} to {percent(high)}",
            )
        )
    return table("Coverage", ("Band", "Rows inside", "Chance allows"), rows, "coverage")


def worst_table(subject: Subject, findings: Findings) -> str:
    """The rows of lowest predictive density."""
    ordered = [way.column for way in findings.profiles][:MOST_COLUMNS]
    names = [subject.column_names[k] for k in ordered]
    outputs = range(len(subject.output_names))
    headings = ["Row", "Used for", *(_with_unit(subject, name) for name in names)]
    if subject.classes is not None:
        headings += ["Observed", *(f"P({name}), 90 % band" for name in subject.output_names)]
    else:
        for name in subject.output_names:
            headings += [f"Observed {_with_unit(subject, name)}", "Predicted", "90 % band"]
    headings += ["Surprise [nats]"] + (["Rules the row breaks"] if subject.rules else [])
    rows = []
    for row in findings.worst:
        cells = [
            f"{subject.number_of(row.place):,}",
            "held out" if subject.held_out[row.place] else "training",
            *(number(subject.inputs[row.place, k], 4) for k in ordered),
        ]
        if subject.classes is not None:
            cells.append(escape(str(subject.targets[row.place])))
            cells += [_band(row.mean[k], row.low[k], row.high[k]) for k in outputs]
        else:
            for k in outputs:
                cells += [
                    value(subject.numbers[row.place, k]),
                    value(row.mean[k]),
                    f"{number(row.low[k])} to {number(row.high[k])}",
                ]
        cells.append(value(row.excess, shown=f"+{number(row.excess)}"))
        if subject.rules:
            cells.append(escape(", ".join(row.broken)) or "none")
        rows.append(cells)
    return table("Least expected rows", headings, rows, "worst")


def _with_unit(subject: Subject, name: str) -> str:
    return f"{name} [{subject.unit(name)}]" if subject.unit(name) else name


def _band(mean: float, low: float, high: float) -> str:
    return escape(f"{percent(mean)} ({percent(low)} to {percent(high)})")


def made_table(subject: Subject) -> str:
    """What is needed to make the model again: data, network, engine, seed, versions."""
    model = subject.model
    noise = np.atleast_1d(getattr(model, "noise_", np.nan))
    choice = getattr(model, "tempering_choice_", None)
    given = "of this engine" if model.settings_.parameters["tempering"] == "auto" else "as given"
    tempering = (
        f"{choice}".removeprefix("tempering ") if choice else f"{model.tempering_:g}, {given}"
    )
    held = int(np.sum(subject.held_out))
    made_with = model.environment_
    versions = {name: each for name, each in made_with.items() if name not in MACHINE}
    facts = [
        ("Rows", f"{len(subject.inputs) - held:,} for training, {held:,} held out"),
        ("Columns", ", ".join(_with_unit(subject, name) for name in subject.column_names)),
        ("Predicts", ", ".join(_with_unit(subject, name) for name in subject.output_names)),
        ("Fingerprint of the data", subject.fingerprint),
        ("Network", repr(model.settings_.network)),
        ("Hard rules", _kept_by(subject)),
        ("Engine", repr(model.settings_.inference)),
        ("Likelihood", f"{subject.posterior.likelihood}"),
        ("Tempering", tempering),
        ("Functions", f"{len(subject.posterior):,} stored, {percent(model.acceptance_)} accepted"),
        ("Seed", f"{model.settings_.seed}"),
        ("Scaling", subject.posterior.scaling.kind),
        ("Versions", ", ".join(f"{name} {each}" for name, each in versions.items())),
        ("Machine", ", ".join(made_with[name] for name in MACHINE if name in made_with)),
    ]
    if np.all(np.isfinite(noise)):
        learned = [
            with_unit(float(amount), subject.unit(name))
            for name, amount in zip(subject.output_names, noise, strict=False)
        ]
        facts.insert(8, ("Noise (standard deviation)", ", ".join(learned)))
    rows = [(escape(name), escape(text)) for name, text in facts]
    return table("How it was made", ("What", "Value"), rows, "made")


def _kept_by(subject: Subject) -> str:
    """How hard rules are kept; where draws were moved, for each rule how many and how far."""
    model = subject.model
    if built_in(subject.posterior.network):
        return "kept by construction"
    moved = [rule.moves for rule in model.knowledge_report_ if rule.moves is not None]
    if not moved:
        return "kept by pressure, and by rejecting the draws that break them"
    unit = subject.unit(subject.output_names[0]) if len(subject.output_names) == 1 else ""
    each = [
        f"{percent(moves.fraction)} for {moves.rule}"
        + (
            f", by {moves.distance:.2g} standard deviations of the noise "
            f"({with_unit(moves.change, unit)})"
            if moves.fraction
            else ""
        )
        for moves in moved
    ]
    return f"kept by projection; fraction of draws moved, and how far: {'; '.join(each)}"
