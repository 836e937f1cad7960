"""`prbnn check`: every stored draw of a run against every rule, at points it was not trained on."""

from __future__ import annotations

import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from prbnn.cli.exits import telling


def run(folder: Path, records: Path | None, quiet: bool) -> None:
    """Try the stored draws at fresh points and say how many break each rule."""
    from prbnn.runs.checking import check
    from prbnn.runs.run import open_run

    began = time.perf_counter()
    with telling():
        opened = open_run(folder)
        console = Console(quiet=quiet)
        with console.status("trying every draw"):
            found = check(opened.model)
    if records is not None:
        text = json.dumps([rule._asdict() for rule in found], indent=1, ensure_ascii=False)
        records.write_text(text, encoding="utf-8")
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
        "break a rule between them.",
        highlight=False,
    )
