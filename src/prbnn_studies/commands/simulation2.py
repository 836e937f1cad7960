"""Commands on simulation 2: the demo and the study, as tables for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from prbnn_studies import simulation2 as simulation

# the study's table needs this many columns; a narrower terminal would break its numbers
STUDY_WIDTH = 150


def demo(out: Path, seed: int) -> None:
    """A plain network and a constrained one, side by side."""
    console = Console()
    console.print(
        "Simulation 2: a curve from "
        f"{len(simulation.data(seed)[1])} noisy points on [.1, .65], tried on [.08, 1].\n"
        f"Known there: y >= 0, y <= {simulation.UPPER}, y never falls.\n"
    )
    records, curves = _run([seed], ("BNN", "PR-BNN"), console)
    table = Table(header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("MSE", "STD", "mean breaks", "draws break", "in band"):
        table.add_column(heading, justify="right", no_wrap=True)
    for record in records:
        table.add_row(
            {"BNN": "plain network", "PR-BNN": "with knowledge"}[record.method],
            f"{record.mse:.4f}",
            f"{record.std:.3f}",
            _counts(record.violations_of_mean),
            f"{record.stored_draws_violating:.1%}",
            f"{record.coverage95:.0%}",
        )
    console.print(table)
    console.print(
        "MSE of the mean against the truth; STD of the functions; at how many of 200 points the mean "
        "breaks lower/upper/monotone; share of functions that break anything; truth in the 95 % "
        "band of the functions.\n"
    )
    record = records[-1]
    console.print(
        f"With knowledge, {record.acceptance:.0%} of drawn functions obeyed everything; the others "
        f"were rejected. Prices found (nats per unit): lower {record.duals[0]:.0f}, "
        f"upper {record.duals[1]:.0f}, monotone {record.duals[2]:.0f}."
    )
    simulation.draw(curves, out, seed)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)


def study(
    seeds: int, first: int, engines: Sequence[str], records_file: Path | None, out: Path
) -> None:
    """Every method on every data set, beside the paper's numbers; or the hard rules by engines."""
    console = Console()
    console = Console(width=max(console.width, STUDY_WIDTH))
    methods = [simulation.by_engine(engine) for engine in engines] or simulation.METHODS
    records, curves = _run(range(first, first + seeds), methods, console)
    console.print(_study_table(records, seeds))
    console.print(
        "Medians over data sets; in brackets the paper's. n: grid points where the mean breaks "
        "lower, upper, monotone (tolerance 1e-4).\nFixed weights c are 87 c nats: the paper's "
        "OC-BNN with its upper bound mended. The printed rows come from a bound that was "
        "broadcast wrongly, so they differ.\nThe BNN row is fitted with the paper's settings, "
        "the others with the estimator's defaults."
    )
    panels = methods if engines else simulation.PANELS
    simulation.draw({name: curves[name] for name in panels}, out, first)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)
    if records_file is not None:
        records_file.write_text(json.dumps([asdict(record) for record in records], indent=1))
        console.print(f"Records: {records_file.resolve()}", soft_wrap=True)


def _run(seeds, methods, console: Console):
    records, curves = [], {}
    with console.status("starting") as status:
        for record, curve in simulation.study(
            seeds, methods, progress=lambda text: status.update(f"fitting {text}")
        ):
            records.append(record)
            curves.setdefault(record.method, curve)
    return records, curves


def _study_table(records: list, seeds: int) -> Table:
    table = Table(title=f"Simulation 2, {seeds} data set(s)", header_style="bold")
    for heading in (
        "method",
        "MSE",
        "worst",
        "STD",
        "n",
        "draws breaking\nraw / stored",
        "acceptance",
        "coverage 95 %\nall / x > .4",
        "noise /\nresidual sd",
        "tempering",
        "seconds",
    ):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for row in simulation.summary(records):
        mse, std, counts = simulation.PAPER[row["method"].split(", ")[0]]
        table.add_row(
            row["method"],
            f"{row['mse']:.4f} ({mse:g})",
            f"{row['worst_mse']:.4f}",
            f"{row['std']:.3f} ({std:g})",
            f"{_counts(row['violations_of_mean'])} ({_counts(counts)})",
            f"{row['raw_draws_violating']:.0%} / {row['stored_draws_violating']:.0%}",
            f"{row['acceptance']:.2f}",
            f"{row['coverage95']:.0%} / {row['coverage95_right']:.0%}",
            f"{row['noise_ratio']:.2f}",
            f"{row['tempering']:g}",
            f"{row['seconds']:.1f}",
        )
    return table


def _counts(counts) -> str:
    return "/".join(str(int(count)) for count in counts)
