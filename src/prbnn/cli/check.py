"""`prbnn check`: every stored draw of a run against every rule, at points it was not trained on."""

from __future__ import annotations

import time
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from prbnn.cli.exits import INFEASIBLE, telling


def run(folder: Path, records: Path | None, quiet: bool) -> None:
    """Try the stored draws at fresh points and say how many break each rule; 3 where one must not."""
    from prbnn.runs.checking import check
    from prbnn.runs.records import write_record
    from prbnn.runs.run import open_run

    began = time.perf_counter()
    with telling():
        opened = open_run(folder)
        console = Console(quiet=quiet, markup=False, highlight=False, soft_wrap=True)
        with console.status("trying every draw"):
            found = check(opened.model)
        if records is not None:
            write_record(records, [rule._asdict() for rule in found])
    if not found:
        console.print("The run was fitted without rules; there is nothing to check.")
        return
    table = Table(header_style="bold")
    for heading in ("rule", "draws", "draws that break it", "worst", "points tried", "verdict"):
        table.add_column(heading, justify="left" if heading in ("rule", "verdict") else "right")
    for rule in found:
        table.add_row(
            rule.rule,
            str(rule.draws),
            str(rule.broken),
            f"{rule.worst:.2g}",
            str(rule.points),
            rule.verdict,
        )
    console.print(table)
    console.print(
        f"At points drawn anew, {time.perf_counter() - began:.1f} s. Points are no proof: a draw may "
        "break a rule between them."
    )
    if any(rule.broken for rule in found if rule.for_every_draw):
        raise typer.Exit(INFEASIBLE)
