"""The sections of a report below its verdict, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from prbnn.assessment.scores import RegressionScores
from prbnn.fitting.result import has_price
from prbnn.report.findings import Findings
from prbnn.report.palette import Key
from prbnn.report.pictures import MOST_OUTPUTS, Pictures
from prbnn.report.subject import MOST_ROWS, Subject
from prbnn.report.svg import Picture, inline
from prbnn.report.tables import (
    audit_table,
    broken_table,
    coverage_table,
    knowledge_table,
    made_table,
    scores_table,
    worst_table,
)
from prbnn.report.verdict import scored_rows
from prbnn.report.wording import counted, percent, with_unit


def _lead(text: str) -> str:
    return f'<p class="lead">{text}</p>'


def _small(text: str) -> str:
    return f'<p class="small">{text}</p>'


def _figures(pictures: Iterable[Picture]) -> str:
    return "".join(
        f'<figure class="card{" wide" if picture.wide else ""}">'
        f'<p class="name">{escape(picture.title)}</p>'
        f"{inline(picture)}<figcaption>{escape(picture.caption)}</figcaption></figure>"
        for picture in pictures
    )


def _legend(keys: Sequence[Key]) -> str:
    def swatch(key: Key) -> str:
        ink = f"var(--{key.role})"
        match key.kind:
            case "band":
                return (
                    f'<rect x=".5" y=".5" width="21" height="11" rx="2" fill="{ink}" stroke="{ink}" '
                    f'fill-opacity="{key.strength}" stroke-opacity=".45"/>'
                )
            case "dot":
                return f'<circle cx="11" cy="6" r="3.2" fill="{ink}"/>'
            case kind:
                dashes = ' stroke-dasharray="5 3"' if kind == "dashes" else ""
                return f'<path d="M0 6H22" stroke="{ink}" stroke-width="2.2"{dashes}/>'

    items = "".join(
        f'<li><svg viewBox="0 0 22 12" aria-hidden="true">{swatch(key)}</svg>{escape(key.label)}</li>'
        for key in keys
    )
    return f'<ul class="legend">{items}</ul>'


def fit(subject: Subject, drawn: Pictures) -> str:
    """The prediction along each input, and observed against predicted."""
    held = int(np.sum(subject.held_out))
    names = len(subject.column_names)
    text = (
        f"{counted(len(subject.inputs) - held, 'row')} for training, {held:,} held out; "
        f"{counted(names, 'input')}."
    )
    if names > 1:
        text += (
            " Inputs are ordered by how far they move the mean. Each plot varies one input and holds "
            "the others at the median of the training rows (at the most common value for inputs with "
            "few values)."
        )
        if subject.classes is None:
            text += (
                " Dots are observed rows with their own values of all columns, so faint dots need not "
                "follow the curve."
            )
    shown = len({picture.name for picture in drawn.fit[0]}) - (subject.classes is None)
    if shown < names:
        text += f" {shown} of {names} inputs are shown."
    if len(subject.output_names) > MOST_OUTPUTS:
        text += f" {MOST_OUTPUTS} of {len(subject.output_names)} outputs are shown."
    parts = [_lead(text), _legend(drawn.fit[0][0].keys)]
    for output, group in enumerate(drawn.fit):
        if len(drawn.fit) > 1:
            parts.append(f"<h3>{escape(subject.output_names[output])}</h3>")
        parts.append(f'<div class="plots">{_figures(group)}</div>')
    return "".join(parts)


def knowledge(subject: Subject, findings: Findings) -> str:
    """The table of rules, what its columns mean, and the audit of the training rows."""
    if not subject.rules:
        return _lead("No knowledge was given.")
    tempered = (
        ""
        if subject.model.tempering_ == 1
        else f" Prices are on the scale of tempering {subject.model.tempering_:g}."
    )
    return (
        _lead(
            "Functions are evaluated at thousands of points of each rule's region. Those that break a "
            "hard rule are moved to the nearest function that obeys, or rejected. This is a dense check, "
            "not a proof."
        )
        + knowledge_table(subject, findings)
        + _small(
            "<b>Prices</b>: how many nats of evidence (fit minus complexity) tolerating that much more "
            "mean violation would buy, or moving the bound outwards by that much (the first price times "
            "the fraction of functions and points beyond the bound). A free rule agrees with the data "
            f"anyway; a high price shows where rule and data conflict.{_no_prices(subject)}{tempered} "
            "<b>Rows that break it</b>: as observed, noise included; rules are about the output "
            "without noise."
        )
        + _audit(subject)
    )


def _no_prices(subject: Subject) -> str:
    """Why some rules have no price, where there are such rules."""
    if all(has_price(rule) for rule in subject.rules):
        return ""
    return (
        " A hard rule without a tolerance has no price: its multiplier only says how hard training "
        "pushed. State a tolerance to get one."
    )


def _audit(subject: Subject) -> str:
    """Training rows that break a rule by more than noise explains, and how that was judged."""
    found = subject.model.audit_
    if not found.noise:
        return ""
    sizes = ", ".join(
        with_unit(size, subject.unit(name))
        for name, size in zip(subject.output_names, found.noise, strict=True)
    )
    judged = (
        f"Judged by noise of {escape(sizes)}, "
        + ("as stated" if found.source == "stated" else "estimated from neighbouring rows")
        + f", with a probability of {percent(found.rate)} per rule that clean rows are listed."
    )
    if not found.rows:
        return _small(
            f"<b>Audit</b>: no training row breaks a rule by more than noise explains. {judged}"
        )
    return (
        "<h3>Audit of the training rows</h3>"
        + audit_table(subject, found.findings)
        + _small(
            "Rows that break a rule by more than noise explains: a faulty meter, a wrong rule, or a "
            f"state that the rule should exclude. {judged}"
        )
    )


def training(subject: Subject, drawn: Pictures) -> str:
    """How multipliers and violations moved over the training steps."""
    if not drawn.training:
        return _lead("There is no record of rules during training.")
    keys = drawn.training[0].keys
    left = len(subject.rules) - len(keys)
    more = f" {counted(left, 'rule')} with smaller penalties not shown." if left else ""
    return (
        _lead(
            "Multipliers rise until their rules hold, then settle. One that still rises at the end needs "
            f"more steps.{more}"
        )
        + _legend(keys)
        + f'<div class="plots">{_figures(drawn.training)}</div>'
    )


def _on_rows(subject: Subject) -> str:
    text = f"On {scored_rows(subject)}"
    if len(subject.scored_rows) == MOST_ROWS:
        text += f", {MOST_ROWS:,} chosen at random"
    if subject.scored_on == "training":
        text += ", since none were held out: the numbers are too optimistic"
    return f"{text}. "


def calibration(subject: Subject, findings: Findings, drawn: Pictures) -> str:
    """Coverage of the bands, or reliability of the probabilities."""
    scores = findings.scores
    parts = [
        _lead(
            _on_rows(subject) + "Whether bands hold as many observations as they state."
            if isinstance(scores, RegressionScores)
            else _on_rows(subject) + "Whether classes occur as often as predicted."
        ),
        _legend(drawn.calibration[0][0].keys),
    ]
    for output, group in enumerate(drawn.calibration):
        if len(drawn.calibration) > 1:
            parts.append(f"<h3>{escape(subject.output_names[output])}</h3>")
        beside = coverage_table(scores, output) if isinstance(scores, RegressionScores) else ""
        parts.append(f'<div class="beside">{_figures(group)}{beside}</div>')
    return "".join(parts)


def plain(subject: Subject, findings: Findings, drawn: Pictures) -> str:
    """Scores of the model and of the plain network, and how often each breaks the rules."""
    if subject.plain is None:
        return _lead(f"{_on_rows(subject)}No plain network was fitted to compare with.") + (
            scores_table(subject, findings)
        )
    rules = broken_table(subject, findings) if subject.rules else ""
    return (
        _lead(
            f"{_on_rows(subject)}The plain network is fitted to the same data without rules. The better "
            "score is bold."
        )
        + f'<div class="plots">{_figures(drawn.plain)}</div>'
        + f'<div class="pair">{scores_table(subject, findings)}{rules}</div>'
    )


def surprises(subject: Subject, findings: Findings) -> str:
    """The rows of lowest predictive density."""
    rows = counted(len(subject.looked_at), "row")
    return _lead(
        f"Of {rows}, those that the model expected least: a faulty meter, a rare state, or an effect "
        "that rules and columns do not cover. Surprise is minus the log of the predictive density, in "
        "nats above that of the median row. Row numbers start at 1."
    ) + worst_table(subject, findings)


def made(subject: Subject) -> str:
    """Command, settings and versions that made the model, and notes on the data."""
    command = f'<pre class="card">{escape(subject.command)}</pre>' if subject.command else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in subject.notes)
    return command + made_table(subject) + (f'<ul class="notes">{notes}</ul>' if notes else "")
