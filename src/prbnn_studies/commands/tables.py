"""The study of public tables as tables for a terminal."""

from __future__ import annotations

from pathlib import Path

import typer

from prbnn.runs.names import COMMAS, parse_names
from prbnn_studies.commands.shared import Files, chosen, screen
from prbnn_studies.peers import data
from prbnn_studies.peers.methods import METHODS, NOT_INSTALLED, PEERS, method_of
from prbnn_studies.peers.study import Cache, Entry, Settings, measured, summary
from prbnn_studies.tables import peers as grids


def study(
    folder: Path | None,
    names: str | None,
    sizes: str,
    splits: int,
    methods: str | None,
    settings: Settings,
    cache: Path | None,
    files: Files,
) -> None:
    """Run what is asked for; files are written after every table and size, so that none is lost."""
    console = screen()
    tables = chosen(names, data.TABLES, "--tables") if names else list(data.TABLES)
    wanted = chosen(methods, METHODS, "--methods") if methods else list(METHODS)
    counts = list(parse_names(sizes))
    try:
        for size in counts:
            data.count_of(size, data.FEWEST_ROWS)
    except ValueError as error:
        raise typer.BadParameter(f"--sizes: {error}") from None
    if not counts:
        raise typer.BadParameter(f"--sizes takes sizes such as 60,30%,all, {COMMAS}; got {sizes!r}")
    skipped = data.missing(tables, folder)
    for name, reason in skipped.items():
        console.print(f"{name} skipped: {reason}")
    read = [data.read(name, folder) for name in tables if name not in skipped]
    if not read:
        raise typer.BadParameter("no table is left to run; see the reasons above")
    for name in wanted:
        if method_of(name) is None:
            console.print(
                f"{name}: {NOT_INSTALLED} ({PEERS[name].module}); pip install prbnn[peers]"
            )
    for table in read:
        if len(table.y) - data.MOST_TEST_ROWS > settings.most_rows:
            console.print(
                f"{table.name}: {settings.most_rows:,} of {len(table.y):,} rows are all that is "
                "trained on (--most-rows)"
            )
    entries: list[Entry] = []
    known = Cache(cache, settings)
    with console.status("starting") as status:
        for found in measured(read, counts, splits, wanted, settings, known, status.update):
            entries += found
            files.write(entries, summary(entries))
            console.print(grids.line(summary(found)))
    results = summary(entries)
    for grid in (grids.crps, grids.changes, grids.overview):
        console.print(grid(results).for_terminal())
    console.print(grids.LEGEND)
    files.name(console)
