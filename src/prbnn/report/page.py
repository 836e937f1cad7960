"""The report: one self-contained HTML page, and its plots as PNG files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from prbnn.assessment.scores import RegressionScores
from prbnn.fitting.result import has_price
from prbnn.report.findings import Findings, findings_of
from prbnn.report.palette import Key, variables
from prbnn.report.pictures import MOST_OUTPUTS, Pictures, pictures_of
from prbnn.report.subject import MOST_ROWS, Subject
from prbnn.report.svg import Picture, inline, save
from prbnn.report.tables import (
    audit_table,
    broken_table,
    coverage_table,
    knowledge_table,
    made_table,
    scores_table,
    worst_table,
)
from prbnn.report.verdict import Mood, headline, judging_rows, tiles, verdict
from prbnn.report.wording import counted, percent, with_unit
from prbnn.system.disk import write_whole

__all__ = ["Subject", "html_page", "write_report"]

# under this policy a browser loads nothing, whatever a name in the data says
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
SIGNS: dict[Mood, str] = {
    "good": "M2 7.5 5.5 11 12 3.5",
    "note": "M3 7H11",
    "caution": "M7 2.5V8M7 11V11.2",
    "bad": "M3 3 11 11M11 3 3 11",
}


def write_report(subject: Subject, folder: Path, pictures: bool = True) -> Path:
    """Write ``folder/report.html``, and with ``pictures`` every plot as a PNG beside it.

    >>> import numpy as np, tempfile
    >>> from prbnn import MLP, AtLeast, PRBNNRegressor
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> y = x.ravel() + 0.1 * np.sin(40 * x.ravel())
    >>> options = dict(noise=0.1, tempering=0.2, draws=20, random_state=0)
    >>> model = PRBNNRegressor(MLP((4,)), [AtLeast(-1)], **options).fit(x, y)
    >>> subject = Subject(model, None, x, y, np.zeros(40, bool), "A line")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(subject, Path(folder), pictures=False).name
    'report.html'
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    findings = findings_of(subject)
    drawn = pictures_of(subject, findings)
    path = folder / "report.html"
    write_whole(path, _page(subject, findings, drawn).encode())
    if pictures:
        for picture in drawn.all:
            save(picture, folder)
    return path


def html_page(subject: Subject) -> str:
    """The report on a subject, as the text of an HTML page."""
    findings = findings_of(subject)
    return _page(subject, findings, pictures_of(subject, findings))


def _page(subject: Subject, findings: Findings, drawn: Pictures) -> str:
    sections = [
        ("fit", "Data and fit", _fit(subject, findings, drawn)),
        ("knowledge", "Knowledge", _knowledge(subject, findings)),
        ("training", "Training", _training(subject, drawn)),
        ("calibration", "Calibration", _calibration(subject, findings, drawn)),
        ("plain", "With and without knowledge", _plain(subject, findings, drawn)),
        ("surprises", "Least expected rows", _surprises(subject, findings)),
        ("made", "How it was made", _made(subject)),
    ]
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections)
    body = "".join(
        f'<section id="{name}"><h2>{title}</h2>{content}</section>'
        for name, title, content in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<title>{escape(subject.title)}</title><style>{_style()}</style></head>"
        f'<body><div class="sheet"><header><p class="kicker"><b>prbnn</b> report</p>'
        f'<h1>{escape(subject.title)}</h1><nav aria-label="Sections">{links}</nav></header>'
        f"<main>{_verdict(subject, findings)}{body}</main>"
        "<footer>prbnn: Bayesian neural networks that obey what you know.</footer>"
        "</div></body></html>\n"
    )


@cache
def _style() -> str:
    sheet = files("prbnn.report").joinpath("page.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{variables('dark')}}}}}"
    return f":root{{{variables('light')}}}{dark}{sheet}"


def _verdict(subject: Subject, findings: Findings) -> str:
    remarks = verdict(subject, findings)
    mood, line = headline(subject, remarks)
    numbers = "".join(
        f'<div class="tile {tile.mood}"><b>{escape(tile.value)}</b>'
        f"<span>{escape(tile.label)}</span></div>"
        for tile in tiles(subject, findings)
    )
    statements = "".join(
        f'<li class="{each.mood}">{_sign(each.mood)}<div>{escape(each.text)}'
        + (f' <span class="remedy">{escape(each.remedy)}</span>' if each.remedy else "")
        + "</div></li>"
        for each in remarks
    )
    return (
        f'<section id="verdict" class="card {mood}"><h2>{escape(line)}</h2>'
        f'<div class="tiles">{numbers}</div><ul class="said">{statements}</ul></section>'
    )


def _sign(mood: Mood) -> str:
    return (
        f'<svg viewBox="0 0 14 14" role="img" aria-label="{mood}"><path d="{SIGNS[mood]}" fill="none" '
        'stroke="currentColor" stroke-width="2" stroke-linecap="round"/></svg>'
    )


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


def _fit(subject: Subject, findings: Findings, drawn: Pictures) -> str:
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


def _knowledge(subject: Subject, findings: Findings) -> str:
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
            "hard rule are rejected, the others stored. This is a dense check, not a proof."
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
        " A hard rule without a tolerance has no price: its multiplier depends on the fraction of "
        "functions that may be rejected. State a tolerance to get one."
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


def _training(subject: Subject, drawn: Pictures) -> str:
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


def _judges(subject: Subject) -> str:
    text = f"On {judging_rows(subject)}"
    if len(subject.judges) == MOST_ROWS:
        text += f", {MOST_ROWS:,} chosen at random"
    if subject.judged_on == "training":
        text += ", since none were held out: the numbers are too optimistic"
    return f"{text}. "


def _calibration(subject: Subject, findings: Findings, drawn: Pictures) -> str:
    scores = findings.scores
    parts = [
        _lead(
            _judges(subject) + "Whether bands hold as many observations as they state."
            if isinstance(scores, RegressionScores)
            else _judges(subject) + "Whether classes occur as often as predicted."
        ),
        _legend(drawn.calibration[0][0].keys),
    ]
    for output, group in enumerate(drawn.calibration):
        if len(drawn.calibration) > 1:
            parts.append(f"<h3>{escape(subject.output_names[output])}</h3>")
        beside = coverage_table(scores, output) if isinstance(scores, RegressionScores) else ""
        parts.append(f'<div class="beside">{_figures(group)}{beside}</div>')
    return "".join(parts)


def _plain(subject: Subject, findings: Findings, drawn: Pictures) -> str:
    if subject.plain is None:
        return _lead(f"{_judges(subject)}No plain network was fitted to compare with.") + (
            scores_table(subject, findings)
        )
    rules = broken_table(subject, findings) if subject.rules else ""
    return (
        _lead(
            f"{_judges(subject)}The plain network is fitted to the same data without rules. The better "
            "score is bold."
        )
        + f'<div class="plots">{_figures(drawn.plain)}</div>'
        + f'<div class="pair">{scores_table(subject, findings)}{rules}</div>'
    )


def _surprises(subject: Subject, findings: Findings) -> str:
    rows = counted(len(subject.looked_at), "row")
    return _lead(
        f"Of {rows}, those that the model expected least: a faulty meter, a rare state, or an effect "
        "that rules and columns do not cover. Surprise is minus the log of the predictive density, in "
        "nats above that of the median row. Row numbers start at 1."
    ) + worst_table(subject, findings)


def _made(subject: Subject) -> str:
    command = f'<pre class="card">{escape(subject.command)}</pre>' if subject.command else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in subject.notes)
    return command + made_table(subject) + (f'<ul class="notes">{notes}</ul>' if notes else "")
