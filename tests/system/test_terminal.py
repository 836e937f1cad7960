"""Text from files stays text: in a terminal, in tables and in CSV files."""

from __future__ import annotations

import io
from pathlib import Path

import pandas
import pytest
from rich.table import Table
from typer.testing import CliRunner

from prbnn.assessment.knowledge_report import KnowledgeReport, RuleReport
from prbnn.cli.main import app
from prbnn.fitting.progress import LogLines
from prbnn.fitting.result import Progress
from prbnn.system.printing import printable, without_formulas
from prbnn.system.terminal import Screen, echo

ESCAPE = "late\x1b]0;owned\x07\x1b[2J"
HOSTILE = ("\x1b", "\x07", "\x9b", "\u202e", "\r", "\x00", "\x7f")


@pytest.mark.parametrize("character", HOSTILE)
def test_control_characters_are_shown_and_not_sent(character: str) -> None:
    shown = printable(f"a{character}b")
    assert character not in shown
    assert shown.startswith("a\\")


def test_ordinary_text_is_left_alone() -> None:
    for text in ("Größe [kW]", "温度", "a\tb\nc", "👩\u200d🔬"):
        assert printable(text) == text


def test_a_screen_shows_names_as_they_are_in_lines_and_tables() -> None:
    table = Table(title=f"[red]{ESCAPE}")
    table.add_column(f"[bold]{ESCAPE}")
    table.add_row(f"[link=x]{ESCAPE}")
    written = io.StringIO()
    screen = Screen(file=written, width=200)
    screen.print(f"[red]{ESCAPE}")
    screen.print(table)
    found = written.getvalue()
    assert not any(character in found for character in HOSTILE)
    for tag in ("[red]late", "[bold]late", "[link=x]late"):
        assert tag in found


def test_lines_of_progress_and_reports_show_names_as_they_are(capsys) -> None:
    LogLines().update(Progress(1, 10, 0.0, 0.0, 0.0, ((ESCAPE, 0.0, 0.0),)))
    echo(ESCAPE)
    rule = RuleReport(ESCAPE, "hard", 0.0, 0, 1, 0.0, 0.0, 0.0, "obeyed")
    print(KnowledgeReport((rule,), 1.0, 1.0, "converged"))
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert told.err.count("x1b") == 2


def test_formulas_in_text_are_quoted_and_numbers_are_not() -> None:
    table = pandas.DataFrame(
        {
            "=HYPERLINK(1)": ["=1+1", "+a", "-b", "@c", "\td", "\re", "fine", "a=b"],
            "number": [-1.5, 2, 3, 4, 5, 6, 7, 8],
            "-mixed": [-1, "=x", None, True, 2.5, "", "y", "-"],
        }
    )
    found = without_formulas(table)
    assert list(found.columns) == ["'=HYPERLINK(1)", "number", "'-mixed"]
    text = ["'=1+1", "'+a", "'-b", "'@c", "'\td", "'\re", "fine", "a=b"]
    assert found.iloc[:, 0].tolist() == text
    assert found["number"].tolist() == table["number"].tolist()
    assert found.iloc[:, 2].tolist() == [-1, "'=x", None, True, 2.5, "", "y", "'-"]
    assert "'" not in "".join(table.columns), "the table itself stays as it was"


def test_commands_send_no_escapes_and_no_formulas(tmp_path: Path, monkeypatch) -> None:
    """Classes and columns named to attack whoever opens what is written."""
    monkeypatch.chdir(tmp_path)
    kind, label = "[red]kind\x1b[2J", '=HYPERLINK("http://x")'
    table = pandas.DataFrame({kind: [0.1 * k for k in range(24)], "-out": [label, "no"] * 12})
    table.to_csv("table.csv", index=False)
    run = CliRunner().invoke
    told = run(app, ["data", "table.csv"])
    fit = ["fit", "table.csv", "--target=-out", "--classes", "--out", "run", "--hidden", "2"]
    told_fit = run(app, [*fit, "--steps", "5", "--draws", "5"])
    assert told_fit.exit_code == 0, told_fit.output
    told_out = run(app, ["predict", "run", "table.csv", "--out", "found.csv"])
    assert told_out.exit_code == 0, told_out.output
    watch = run(app, ["watch", "run", "table.csv"])
    wrong = run(app, ["fit", "table.csv", "--target", "no\x1b[2J", "--out", "other"])
    for each in (told, told_fit, told_out, watch, wrong):
        assert "\x1b" not in each.output, each.output
    assert "[red]kind" in told.output
    head, *lines = Path("found.csv").read_text().splitlines()
    assert not any(cell.startswith(("=", "-", "+", "@")) for cell in head.split(","))
    assert all(
        line.split(",", 1)[1].lstrip('"').startswith(("'=HYPERLINK", "no")) for line in lines
    )
