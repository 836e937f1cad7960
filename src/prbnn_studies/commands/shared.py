"""What the study commands have in common: options, printing, and files with what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from prbnn.runs.names import COMMAS, parse_names
from prbnn.runs.records import write_record as write_json
from prbnn.system.terminal import Screen
from prbnn_studies.records import write_record
from prbnn_studies.tables.grid import Grid

Json = Annotated[
    Path | None, typer.Option("--json", help="Write one entry per fit and table to this file.")
]
RecordFile = Annotated[
    Path | None,
    typer.Option(
        "--record",
        help="Write the numbers of the tables, with commit, command and machine, to this file.",
    ),
]
Picture = Annotated[Path, typer.Option("--out", help="Where to write the picture.")]
Folder = Annotated[Path | None, typer.Option("--data", help="Folder that holds the data.")]

# the tables need this many characters; a narrower terminal would break their numbers
WIDTH = 170


def screen() -> Screen:
    """A console wide enough for the tables."""
    return Screen(width=max(Screen().width, WIDTH))


@dataclass(frozen=True)
class Files:
    """Where a study writes what it measured, if anywhere: entries as JSON, and the record."""

    json: Path | None = None
    record: Path | None = None

    def write(self, entries: Iterable[Any], results: dict[str, Any]) -> None:
        """Write the dataclasses ``entries`` and the ``results`` of the record."""
        if self.json is not None:
            write_json(self.json, [asdict(entry) for entry in entries])
        write_record(self.record, results)

    def name(self, console: Screen) -> None:
        """Print which files were written."""
        for label, path in (("Entries", self.json), ("Record", self.record)):
            if path is not None:
                console.print(f"{label}: {path.resolve()}", soft_wrap=True)


def chosen(text: str, allowed: Sequence[str], option: str) -> list[str]:
    """The names that an option lists, each of them allowed."""
    names = list(parse_names(text))
    if not names or not set(names) <= set(allowed):
        raise typer.BadParameter(
            f"{option} takes names of {', '.join(allowed)}, {COMMAS}; got {text!r}"
        )
    return names


def obedience_table(pair: Sequence[Any], headings: tuple[str, str, str], title: str) -> Grid:
    """Violations of every rule, without -> with knowledge.

    ``pair`` holds two outcomes whose ``rules`` are in the same order.
    """
    rows = []
    for plain, known in zip(*(outcome.rules for outcome in pair), strict=True):
        of = f" of {plain.points:,}" if hasattr(plain, "points") else ""
        mean = f"{plain.violations_of_mean} -> {known.violations_of_mean}{of}"
        drawn = f"{plain.share_of_draws_violating:.1%} -> {known.share_of_draws_violating:.1%}"
        rows.append((plain.rule, mean, drawn))
    return Grid(headings, rows, title)
