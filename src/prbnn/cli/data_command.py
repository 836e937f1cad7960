"""`prbnn data`: shows how a file would be read."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from prbnn.data.column_kinds import read_column
from prbnn.data.encoding import Column
from prbnn.data.files import read_file
from prbnn.errors import DataError
from prbnn.runs.records import write_record
from prbnn.system.exits import exiting_on_errors
from prbnn.system.terminal import Screen

if TYPE_CHECKING:
    import pandas as pd


def run(data: Path, records: Path | None) -> None:
    """Print for every column what it holds, how it would be used, and how many cells are missing.

    ``records`` is a file for the same as JSON.
    """
    with exiting_on_errors():
        frame, notes = read_file(data)
        lines = [_line(frame[name], str(name)) for name in frame.columns]
        if records is not None:
            write_record(records, {"rows": len(frame), "columns": lines, "notes": notes})
    console = Screen(soft_wrap=True)
    console.print(f"{data}: {len(frame)} rows, {frame.shape[1]} columns")
    for note in notes:
        console.print(f"- {note}")
    table = Table(header_style="bold")
    for heading in ("column", "kind", "missing", "values", "used as"):
        table.add_column(heading, justify="right" if heading == "missing" else "left")
    for line in lines:
        missing = f"{line['missing']}" if line["missing"] else ""
        cells = (line["column"], line["kind"], missing, line["values"], line["used_as"])
        table.add_row(*cells)
    console.print(table)
    repeated = int(frame.duplicated().sum())
    if repeated:
        console.print(f"{repeated} rows repeat an earlier one.")
    file, target = shlex.quote(str(data)), shlex.quote(str(frame.columns[-1]))
    console.print("Next, with the column you want to predict:")
    console.print(f"  prbnn knowledge new {file} --target {target}")
    console.print(f"  prbnn fit {file} --target {target} --knowledge knowledge.yaml --out run")


def _line(series: pd.Series, name: str) -> dict[str, Any]:
    """What is printed of one column."""
    import pandas as pd

    try:
        column = read_column(series, name)
    except DataError as error:
        column = Column(name, "left out", because=f"fix it: {error}")
    present = series.dropna()
    if column.kind == "number":
        numbers = pd.to_numeric(present, errors="coerce").astype(float)
        with np.errstate(invalid="ignore"):  # between infinities there is no median
            low, middle, high = numbers.min(), numbers.median(), numbers.max()
        values = f"{low:.6g} to {high:.6g}, median {middle:.6g}"
    elif column.kind == "date":
        values = f"from {present.min()} to {present.max()}"
    else:
        found = list(dict.fromkeys(map(str, present)))
        values = ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
    used = ", ".join(column.inputs[:4]) + (" ..." if len(column.inputs) > 4 else "")
    return {
        "column": column.name,
        "kind": column.kind,
        "missing": int(series.isna().sum()),
        "values": values,
        "used_as": used or f"left out: {column.because}",
    }
