"""The command on simulation 1: every engine, with and without knowledge, as a table and a picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from prbnn_studies import simulation1 as simulation

WIDTH = 130
HEADINGS = (
    "engine",
    "knowledge",
    "points\nin band",
    "functions\nin band",
    "stored\nin band",
    "mean\nat 0",
    "sd\nat 0",
    "train\nRMSE",
    "stored / draws",
    "seconds\ncompile + run",
    "OC-BNN authors:\npoints / functions / mean (sd)",
)


def study(engines: list[str], records_file: Path | None, out: Path) -> None:
    """Fit, print beside the OC-BNN authors' numbers, draw."""
    console = Console()
    console = Console(width=max(console.width, WIDTH))
    records, curves = [], {}
    with console.status("starting") as status:
        for record, curve in simulation.study(
            engines, progress=lambda text: status.update(f"fitting {text}")
        ):
            records.append(record)
            curves[record.engine, record.strength] = curve
    console.print(_table(records))
    console.print(
        f"Soft: {simulation.WEIGHT:g} nats a unit of mean violation, trained {simulation.MARGIN:g} "
        "inside the band. OC-BNN: the authors' own prior, as published. In band: of the raw draws; "
        "stored: of those kept under a hard rule.\nTheir runs on one core: BBB "
        f"{simulation.PUBLISHED_SECONDS['bbb']:g} s, HMC {simulation.PUBLISHED_SECONDS['nuts']:g} s "
        "(extrapolated); their HMC stands beside NUTS."
    )
    for record in records:
        if record.engine == "nuts":
            console.print(
                f"NUTS, {record.strength}: E y(1.5) - E y(-1.5) = {record.asymmetry:.3f} +- "
                f"{record.asymmetry_error:.3f}"
            )
    simulation.draw(curves, out)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)
    if records_file is not None:
        records_file.write_text(json.dumps([asdict(record) for record in records], indent=1))
        console.print(f"Records: {records_file.resolve()}", soft_wrap=True)


def _table(records: list) -> Table:
    table = Table(title="Simulation 1", header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in HEADINGS[:2] else "right")
    for record in records:
        theirs = simulation.PUBLISHED.get((record.engine, record.strength))
        table.add_row(
            record.engine,
            record.strength,
            f"{record.points_in_band:.3f}",
            f"{record.functions_in_band:.3f}",
            f"{record.stored_functions_in_band:.3f}",
            f"{record.mean_at_zero:.3f}",
            f"{record.sd_at_zero:.3f}",
            f"{record.train_rmse:.3f}",
            f"{record.stored} / {record.draws}",
            f"{record.seconds_compile:.1f} + {record.seconds_run:.1f}",
            ""
            if theirs is None
            else f"{theirs.points_in_band:.3f} / {theirs.functions_in_band:.3f} / "
            f"{theirs.mean_at_zero:.2f} ({theirs.sd_at_zero:.3f})",
        )
    return table
