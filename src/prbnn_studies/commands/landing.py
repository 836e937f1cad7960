"""The landing study as tables for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table

from prbnn.errors import DataError
from prbnn.rules.strengths import Kind
from prbnn.system.terminal import Screen
from prbnn_studies.landing import study as landing
from prbnn_studies.landing.sources import SOURCES, Source

STUDY_WIDTH = 120
# overall cells the paper prints, without and with knowledge, in min-max units of its own data
PAPER = {
    ("mse", "sequence"): (3.03e-4, 2.85e-4),
    ("mse", "last"): (3.17e-4, 2.49e-4),
    ("std", "sequence"): (4.99e-3, 3.61e-3),
    ("std", "last"): (6.20e-3, 3.18e-3),
    ("crps", "sequence"): (1.80e-2, 1.07e-2),
    ("crps", "last"): (1.55e-2, 1.00e-2),
}


def study(
    name: str,
    folder: Path | None,
    flights: int,
    seed: int,
    sizes: Sequence[int | None] | None,
    records_file: Path | None,
    out: Path,
) -> None:
    """Fit without and with knowledge for every size, then print the tables and draw the picture."""
    console = Screen()
    console = Screen(width=max(console.width, STUDY_WIDTH))
    try:
        source = SOURCES[name](folder, flights, seed)
    except DataError as error:
        raise typer.BadParameter(str(error)) from None
    for note in source.notes:
        console.print(f"- {note}")
    records: list = []
    cells: list = []
    pair = None
    with console.status("starting") as status:
        for pair in landing.study(source, sizes or landing.sizes_of(source), status.update):
            for outcome in pair:
                cells += outcome.cells
                records += [*outcome.cells, *outcome.rules]
            _write(records_file, records)
            console.print(_progress(pair))
        assert pair is not None
        status.update("calibrating the warning level")
        warned = landing.warnings_of(source, pair[1].model)
        records.append(warned)
        _write(records_file, records)
    for measure in ("mse", "std", "crps"):
        console.print(error_table(source, pair, measure))
    console.print(
        "Without -> with knowledge on test flights, in min-max units (ranges of the training "
        "flights); in brackets the paper's overall cells, of other data.\nIn units: "
        + _in_units(source, pair)
    )
    console.print(rules_table(pair))
    console.print(_warned(warned))
    from prbnn_studies.landing.pictures import draw

    draw(source, *pair, cells, out)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)
    if records_file is not None:
        console.print(f"Records: {records_file.resolve()}", soft_wrap=True)


def _write(records_file: Path | None, records: Sequence) -> None:
    if records_file is not None:
        records_file.write_text(json.dumps(landing.as_records(records), indent=1))


def _overall(outcome: landing.Outcome, scope: str) -> landing.Cell:
    return next(c for c in outcome.cells if (c.variable, c.scope) == ("overall", scope))


def _progress(pair: tuple[landing.Outcome, landing.Outcome]) -> str:
    plain, known = (_overall(outcome, "last") for outcome in pair)
    broken = [sum(rule.violations_of_mean for rule in outcome.rules) for outcome in pair]
    soft = all(rule.strength.kind == Kind.SOFT for rule in pair[1].model.knowledge)
    told = ", all rules soft" if soft else ""
    return (
        f"{plain.flights} flights{told}: last-point CRPS {plain.crps:.2e} -> {known.crps:.2e}, "
        f"mean breaks rules at {broken[0]} -> {broken[1]} steps, 90 % band holds {known.coverage90:.0%} "
        f"({pair[0].seconds:.0f} s and {pair[1].seconds:.0f} s)"
    )


def error_table(
    source: Source, pair: tuple[landing.Outcome, landing.Outcome], measure: str
) -> Table:
    """One row a variable and overall, one column a scope."""
    flights = pair[0].cells[0].flights
    table = Table(title=f"{measure.upper()}, {source.name}, {flights} flights", header_style="bold")
    table.add_column("variable")
    for heading in ("sequence", "last point"):
        table.add_column(heading, justify="right")
    for variable in (*source.tracks.variables, "overall"):
        row = [variable]
        for scope in ("sequence", "last"):
            values = [
                getattr(cell, measure)
                for outcome in pair
                for cell in outcome.cells
                if (cell.variable, cell.scope) == (variable, scope)
            ]
            text = f"{values[0]:.2e} -> {values[1]:.2e} ({values[1] / values[0] - 1:+.0%})"
            if variable == "overall":
                without, known = PAPER[measure, scope]
                text += f" [{without:.2e} -> {known:.2e}]"
            row.append(text)
        table.add_row(*row)
    return table


def _in_units(source: Source, pair: tuple[landing.Outcome, landing.Outcome]) -> str:
    parts = []
    for plain, known in zip(*(outcome.cells for outcome in pair), strict=True):
        if plain.scope == "last" and plain.rmse_in_units is not None:
            unit = source.units[plain.variable]
            parts.append(
                f"{plain.variable} RMSE {plain.rmse_in_units:.3g} -> {known.rmse_in_units:.3g} {unit}"
            )
    return "; ".join(parts) + " at the last point."


def rules_table(pair: tuple[landing.Outcome, landing.Outcome]) -> Table:
    """Violations of every rule on the test flights."""
    table = Table(title="Rules on test flights, without -> with knowledge", header_style="bold")
    for heading in (
        "rule",
        "steps at which the mean breaks it",
        "drawn trajectories that break it",
    ):
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for plain, known in zip(*(outcome.rules for outcome in pair), strict=True):
        table.add_row(
            plain.rule,
            f"{plain.violations_of_mean} -> {known.violations_of_mean}",
            f"{plain.share_of_draws_violating:.1%} -> {known.share_of_draws_violating:.1%}",
        )
    return table


def _warned(found: landing.Warnings) -> str:
    text = (
        f"Warnings: level set for {found.false_alarms_stated:.1%} false alarms on "
        f"{found.calibrated_on} held-out flights; {found.false_alarms_found:.1%} of test flights "
        f"reach it, {found.rule_breaking_landings:.0%} of them report a broken rule."
    )
    if found.strange:
        text += (
            f" Of {found.strange} go-arounds it finds {found.strange_found:.0%}; area under the ROC "
            f"curve {found.area_under_roc:.3f}; {found.rule_breaking_strange:.0%} break a rule."
        )
    return text
