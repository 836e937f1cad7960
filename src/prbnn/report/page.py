"""The report: one self-contained HTML page, and its plots as PNG files."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from prbnn.report import sections
from prbnn.report.findings import Findings, findings_of
from prbnn.report.palette import variables
from prbnn.report.pictures import Pictures, pictures_of
from prbnn.report.subject import Subject
from prbnn.report.svg import save
from prbnn.report.verdict import Mood, headline, tiles, verdict
from prbnn.system.disk import write_inside
from prbnn.system.printing import printable

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
    write_inside(folder, "report.html", _page(subject, findings, drawn).encode())
    if pictures:
        for picture in drawn.all:
            save(picture, folder)
    return folder / "report.html"


def html_page(subject: Subject) -> str:
    """The report on a subject, as the text of an HTML page."""
    findings = findings_of(subject)
    return _page(subject, findings, pictures_of(subject, findings))


def _page(subject: Subject, findings: Findings, drawn: Pictures) -> str:
    # names may hold characters that turn the text around them, or that no browser shows
    return printable(_markup(subject, findings, drawn))


def _markup(subject: Subject, findings: Findings, drawn: Pictures) -> str:
    parts = [
        ("fit", "Data and fit", sections.fit(subject, drawn)),
        ("knowledge", "Knowledge", sections.knowledge(subject, findings)),
        ("training", "Training", sections.training(subject, drawn)),
        ("calibration", "Calibration", sections.calibration(subject, findings, drawn)),
        ("plain", "With and without knowledge", sections.plain(subject, findings, drawn)),
        ("surprises", "Least expected rows", sections.surprises(subject, findings)),
        ("made", "How it was made", sections.made(subject)),
    ]
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in parts)
    body = "".join(
        f'<section id="{name}"><h2>{title}</h2>{content}</section>'
        for name, title, content in parts
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
