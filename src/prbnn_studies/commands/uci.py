"""The UCI study as tables for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from prbnn.errors import DataError
from prbnn.inference import ENGINES
from prbnn_studies import uci, uci_data, uci_published

# the tables need this many columns; a narrower terminal would break their numbers
STUDY_WIDTH = 170


def study(
    folder: Path,
    sets: str | None,
    splits: int,
    engines: str,
    tables: str,
    records_file: Path | None,
) -> None:
    """Run the tables asked for; the records are written after every set, so that none is lost."""
    console = Console()
    console = Console(width=max(console.width, STUDY_WIDTH))
    names = _listed(sets, uci_data.ALL_SETS, "--sets") if sets else list(uci_data.ALL_SETS)
    methods = _listed(engines, tuple(ENGINES), "--engines")
    standard, known = (
        [name for name in names if name in those and tables in (which, "both")]
        for those, which in (
            (uci_data.STANDARD_SETS, "uci"),
            (uci_data.KNOWLEDGE_SETS, "knowledge"),
        )
    )
    try:
        uci_data.check(folder, [*standard, *known])
        read = {name: uci_data.read(folder, name) for name in {*standard, *known}}
        uci.refuse_long_runs(list(read.values()), methods)
    except DataError as error:
        raise typer.BadParameter(str(error)) from None
    scores = _engine_table(
        console, [read[name] for name in standard], methods, splits, records_file
    )
    _knowledge_table(console, [read[name] for name in known], methods, splits, records_file, scores)
    if records_file is not None:
        console.print(f"Records: {records_file.resolve()}", soft_wrap=True)


def _listed(text: str, allowed: Sequence[str], option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in allowed]
    if unknown or not names:
        raise typer.BadParameter(
            f"{option} takes names of {', '.join(allowed)} with commas between, got {text!r}"
        )
    return names


def _write(records_file: Path | None, scores: Sequence[Any]) -> None:
    if records_file is not None:
        records_file.write_text(json.dumps(uci.as_records(scores), indent=1))


def _engine_table(
    console: Console,
    tables: list[uci_data.Table],
    engines: list[str],
    splits: int,
    records_file: Path | None,
) -> list:
    scores: list = []
    with console.status("starting") as status:
        for found in uci.engine_table(tables, engines, splits, status.update):
            scores += found
            _write(records_file, scores)
            means = uci.summary(found)[found[0].set, found[0].engine]
            seconds = sum(score.seconds for score in found)
            rmse, nll = means["rmse"], means["nll"]
            console.print(
                f"{found[0].set}, {found[0].engine}: {len(found)} splits, RMSE "
                f"{_shown(*rmse, _digits(rmse))}, NLL {_shown(*nll, 2)}, {seconds:.0f} s"
            )
    if scores:
        count = len({score.split for score in scores})
        for metric, published in (("rmse", uci_published.RMSE), ("nll", uci_published.NLL)):
            console.print(error_table(scores, metric, published, count))
        console.print(
            "Mean over splits ± standard error, in the target's units and nats. Published columns: "
            "(A) deep ensembles paper (the ± of its MC dropout and deep ensembles look like standard "
            "deviations),\n(B) Gal's longer rerun with searched hyperparameters, (C) Springenberg et "
            "al.; bold is the lowest of a row."
        )
    return scores


def error_table(scores: Sequence[uci.Score], metric: str, published: dict, count: int) -> Table:
    """One row a set: our engines, then the published columns; the lowest mean in bold."""
    means = uci.summary(scores)
    engines = list(dict.fromkeys(score.engine for score in scores))
    table = Table(title=f"Test {metric.upper()}, {count} split(s)", header_style="bold")
    table.add_column("set")
    for heading in (*engines, *published):
        table.add_column(heading, justify="right")
    for name in dict.fromkeys(score.set for score in scores):
        own = [
            means[name, engine][metric] if (name, engine) in means else None for engine in engines
        ]
        theirs = [column.get(name) for column in published.values()]
        values = [round(cell[0], 2) for cell in (*own, *theirs) if cell is not None]
        # two digits are what the published numbers have, so a tie in them is a tie
        lowest = min(values)
        table.add_row(
            name,
            *(_cell(cell, lowest, _digits(cell)) for cell in own),
            *(_cell(cell, lowest, 2) for cell in theirs),
        )
    return table


def _cell(cell: tuple[float, float | None] | None, lowest: float, digits: int) -> str:
    if cell is None:
        return "-"
    text = _shown(*cell, digits)
    return f"[bold]{text}[/bold]" if round(cell[0], 2) == lowest else text


def _digits(cell: tuple[float, float | None] | None) -> int:
    """Two after the point, more for small numbers that would vanish.

    >>> _digits((3.012, None)), _digits((0.00042, None))
    (2, 5)
    """
    if cell is None or cell[0] == 0 or abs(cell[0]) >= 0.1:
        return 2
    return min(5, 1 - int(np.floor(np.log10(abs(cell[0])))))


def _shown(value: float, error: float | None, digits: int) -> str:
    """A mean and its standard error, where there is one.

    >>> _shown(3.012, 0.18, 2), _shown(0.07, None, 2)
    ('3.01 ± 0.18', '0.07')
    """
    if error is None or np.isnan(error):
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _knowledge_table(
    console: Console,
    tables: list[uci_data.Table],
    engines: list[str],
    splits: int,
    records_file: Path | None,
    before: list,
) -> None:
    scores: list = []
    for table in tables:
        if table.dropped:
            console.print(f"{table.name}: {table.dropped} rows with missing numbers left out")
    with console.status("starting") as status:
        for found in uci.knowledge_table(tables, engines, uci.FRACTIONS, splits, status.update):
            scores += found
            _write(records_file, [*before, *scores])
            row = uci.knowledge_summary(found)[0]
            console.print(
                f"{row['set']}, {row['engine']}, {row['fraction']:.0%} of the rows: "
                f"NLL {row['nll_off']:.3f} without knowledge, {row['nll_on']:.3f} with it"
            )
    if scores:
        console.print(knowledge_rows(scores))
        console.print(
            "Errors on test rows without -> with knowledge, mean over splits; change: paired "
            "difference ± its standard error (below 0: knowledge helps). Draws breaking: share of "
            "functions that break\na rule at fresh points, without knowledge and stored with it. "
            "Acceptance: share of raw draws that obey every rule."
        )


def knowledge_rows(scores: Sequence[uci.KnowledgeScore]) -> Table:
    """One row a set, engine and share of its rows."""
    count = len({score.split for score in scores})
    table = Table(title=f"Knowledge off and on, {count} split(s)", header_style="bold")
    table.add_column("set")
    for heading in (
        "engine",
        "rows",
        "RMSE",
        "change",
        "NLL",
        "change",
        "draws breaking\noff / stored",
        "acceptance",
    ):
        table.add_column(heading, justify="right")
    for row in uci.knowledge_summary(scores):
        table.add_row(
            row["set"],
            row["engine"],
            f"{row['fraction']:.0%}",
            f"{row['rmse_off']:.3f} -> {row['rmse_on']:.3f}",
            _change(row["rmse_change"]),
            f"{row['nll_off']:.3f} -> {row['nll_on']:.3f}",
            _change(row["nll_change"]),
            f"{row['violating_off']:.0%} / {row['stored_draws_violating']:.2%}",
            f"{row['acceptance']:.2f}",
        )
    return table


def _change(change: uci.Mean) -> str:
    error = "" if np.isnan(change.error) else f" ± {change.error:.3f}"
    return f"{change.value:+.3f}{error}"
