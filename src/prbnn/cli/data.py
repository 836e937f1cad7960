"""`prbnn data`: how a file would be read, before anything is fitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from prbnn.cli.exits import telling

if TYPE_CHECKING:
    import pandas as pd


def run(data: Path, records: Path | None) -> None:
    """Every column: what it holds, how it would be used, what is missing."""
    from prbnn.tables.encoding import learn
    from prbnn.tables.files import read_file

    with telling():
        frame, notes = read_file(data)
        encoding = learn(frame, "drop")
    lines = [_line(frame[column.name], column) for column in encoding.columns]
    if records is not None:
        record = {"rows": len(frame), "columns": lines, "notes": notes}
        records.write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
    console = Console()
    console.print(f"{data}: {len(frame)} rows, {frame.shape[1]} columns", highlight=False)
    for note in notes:
        console.print(f"- {note}", highlight=False, markup=False)
    table = Table(header_style="bold")
    for heading in ("column", "kind", "missing", "values", "used as"):
        table.add_column(heading, justify="right" if heading == "missing" else "left")
    for line in lines:
        missing = f"{line['missing']}" if line["missing"] else ""
        table.add_row(line["column"], line["kind"], missing, line["values"], line["used_as"])
    console.print(table)
    repeated = int(frame.duplicated().sum())
    if repeated:
        console.print(f"{repeated} rows repeat an earlier one.", highlight=False)
    target = str(frame.columns[-1])
    console.print("Next, with the column you want to predict:", highlight=False)
    console.print(f"  prbnn knowledge new {data} --target {target!r}", highlight=False)
    console.print(
        f"  prbnn fit {data} --target {target!r} --knowledge knowledge.yaml --out run",
        highlight=False,
    )


def _line(series: pd.Series, column: Any) -> dict[str, Any]:
    present = series.dropna()
    if column.kind == "number":
        low, middle, high = (present.quantile(q) for q in (0, 0.5, 1))
        values = f"{low:.6g} to {high:.6g}, half below {middle:.6g}"
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
