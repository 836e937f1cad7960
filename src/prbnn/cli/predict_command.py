"""`prbnn predict` and `prbnn watch`: a run applied to the rows of another file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from prbnn.runs.applying import predictions, watched
from prbnn.runs.run import open_run
from prbnn.system.disk import write_whole
from prbnn.system.exits import exiting_on_errors
from prbnn.system.printing import printable, without_formulas
from prbnn.system.terminal import Screen

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10


def predict(
    run: Path, data: Path, out: Path | None, level: float, missing: Any, as_json: bool
) -> None:
    """Write a prediction and its band for every row of ``data`` to the file ``out`` or the terminal.

    ``level`` is the probability of the band; ``missing`` is that of the fit if None.
    """
    with exiting_on_errors():
        found, notes = predictions(open_run(run), data, level, missing)
        _print_notes(notes)
        _write(found, out, as_json)


def watch(
    run: Path,
    data: Path,
    out: Path | None,
    level: float,
    false_alarms: float,
    missing: Any,
    as_json: bool,
) -> None:
    """Compare every row of ``data`` with its prediction; print the anomalous ones, write all to ``out``.

    ``false_alarms`` is the fraction of normal rows that may be flagged; the others are as in `predict`.
    """
    with exiting_on_errors():
        seen = watched(open_run(run), data, level, false_alarms, missing)
        _print_notes(seen.notes)
        if out is not None or as_json:
            _write(seen.table, out, as_json)
    if as_json:
        return
    console = Screen()
    flagged = seen.table[seen.table["flagged"] | (seen.table["broken_rules"] != "")]
    console.print(
        f"{int(seen.table['flagged'].sum())} of {len(seen.table)} rows are flagged; of ordinary rows "
        f"{seen.alarm.false_alarms:.1%} would be (level set on {seen.alarm.calibrated_on} "
        f"{seen.calibrated_on} rows). Rows that break a rule: "
        f"{int((seen.table['broken_rules'] != '').sum())}."
    )
    if len(flagged):
        worst = flagged.sort_values("surprise", ascending=False).head(SHOWN)
        kept = [name for name in worst.columns if not str(name).endswith(("_std", "_epistemic"))]
        console.print(_as_table(worst[kept], f"The most surprising of {len(flagged)}"))


def _print_notes(notes: list[str]) -> None:
    console = Screen(stderr=True)
    for note in notes:
        console.print(f"- {note}")


def _write(table: pd.DataFrame, out: Path | None, as_json: bool) -> None:
    if as_json:
        records = json.loads(str(table.to_json(orient="records")))
        text = json.dumps(records, indent=1, ensure_ascii=False)
    else:
        text = without_formulas(table).to_csv(index=False)
    if out is None:
        # control characters are escaped on a terminal only
        text = text if not sys.stdout.isatty() else printable(text)
        print(text, end="" if text.endswith("\n") else "\n")
        return
    write_whole(out, text.encode())
    Screen().print(f"{len(table)} rows written to {out}")


def _as_table(frame: pd.DataFrame, title: str) -> Table:
    table = Table(title=title, header_style="bold", title_justify="left")
    for name in frame.columns:
        table.add_column(str(name))
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{c:.4g}" if isinstance(c, float) else str(c) for c in row))
    return table
