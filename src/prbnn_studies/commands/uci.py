"""The UCI study as tables for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from prbnn import DataError
from prbnn.inference import ENGINES
from prbnn.system.terminal import Screen
from prbnn_studies.commands.shared import Files, chosen, screen
from prbnn_studies.tables import uci as tables
from prbnn_studies.uci import data as uci_data
from prbnn_studies.uci import study as uci


def study(
    folder: Path, sets: str | None, splits: int, engines: str, which: str, files: Files
) -> None:
    """Run the tables asked for; files are written after every set, so that none is lost."""
    console = screen()
    names = chosen(sets, uci_data.ALL_SETS, "--sets") if sets else list(uci_data.ALL_SETS)
    methods = chosen(engines, tuple(ENGINES), "--engines")
    standard, known = (
        [name for name in names if name in those and which in (table, "both")]
        for those, table in (
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
    entries: list = []
    _engine_table(console, [read[name] for name in standard], methods, splits, files, entries)
    _knowledge_table(console, [read[name] for name in known], methods, splits, files, entries)
    files.name(console)


def _engine_table(
    console: Screen,
    datasets: list[uci_data.Dataset],
    engines: list[str],
    splits: int,
    files: Files,
    entries: list[Any],
) -> None:
    scores: list[uci.EngineScore] = []
    with console.status("starting") as status:
        for found in uci.engine_table(datasets, engines, splits, status.update):
            scores += found
            entries += found
            files.write(entries, uci.summary(entries))
            errors = uci.summary(found)["errors"][found[0].set][found[0].engine]
            rmse, nll = (tables.pair(errors[name]) for name in ("rmse", "nll"))
            seconds = sum(score.seconds for score in found)
            console.print(
                f"{found[0].set}, {found[0].engine}: {len(found)} splits, RMSE "
                f"{tables.with_error(rmse, tables.digits(rmse))}, NLL {tables.with_error(nll, 2)}, "
                f"{seconds:.0f} s"
            )
    if not scores:
        return
    for table in (tables.rmse, tables.nll):
        console.print(table(uci.summary(scores)).for_terminal())
    console.print(
        "Mean over splits ± standard error, in the target's units and nats. Published columns: "
        "(A) deep ensembles paper (the ± of its MC dropout and deep ensembles look like standard "
        "deviations),\n(B) Gal's longer rerun with searched hyperparameters, (C) Springenberg et "
        "al.; bold is the lowest of a row."
    )


def _knowledge_table(
    console: Screen,
    datasets: list[uci_data.Dataset],
    engines: list[str],
    splits: int,
    files: Files,
    entries: list[Any],
) -> None:
    for dataset in datasets:
        if dataset.dropped:
            console.print(f"{dataset.name}: {dataset.dropped} rows with missing numbers left out")
    scores: list[uci.KnowledgeScore] = []
    with console.status("starting") as status:
        for found in uci.knowledge_table(datasets, engines, uci.FRACTIONS, splits, status.update):
            scores += found
            entries += found
            files.write(entries, uci.summary(entries))
            one = found[0]
            row = uci.knowledge_row(found)
            console.print(
                f"{one.set}, {one.engine}, {one.fraction:.0%} of the rows: "
                f"NLL {row['nll_off']:.3f} without knowledge, {row['nll_on']:.3f} with it"
            )
    if not scores:
        return
    console.print(tables.knowledge(uci.summary(scores)).for_terminal())
    console.print(
        "Errors on test rows without -> with knowledge, mean over splits; change: paired "
        "difference ± its standard error (below 0: knowledge helps). Breaking: fraction of "
        "functions that break\na rule at fresh points, without knowledge and of those stored with "
        "it. Acceptance: fraction of raw draws that obey every rule."
    )
