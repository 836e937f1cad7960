"""The landing study as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from prbnn import DataError
from prbnn_studies.commands.shared import Files, obedience_table, screen
from prbnn_studies.landing import study as landing
from prbnn_studies.landing.sources import SOURCES, Source
from prbnn_studies.tables.grid import Grid
from prbnn_studies.tables.landing import MEASURES, PAPER, SCOPES

Pair = tuple[landing.Outcome, landing.Outcome]


def study(
    name: str,
    folder: Path | None,
    flights: int,
    seed: int,
    sizes: Sequence[int | None] | None,
    files: Files,
    out: Path,
) -> None:
    """Fit without and with knowledge for every size, then print the tables and draw the picture."""
    console = screen()
    try:
        source = SOURCES[name](folder, flights, seed)
    except DataError as error:
        raise typer.BadParameter(str(error)) from None
    for note in source.notes:
        console.print(f"- {note}")
    entries: list = []
    pairs: list[Pair] = []
    with console.status("starting") as status:
        for pair in landing.study(source, sizes or landing.sizes_of(source), status.update):
            pairs.append(pair)
            entries += [entry for outcome in pair for entry in (*outcome.cells, *outcome.rules)]
            files.write(entries, landing.summary(pairs))
            console.print(_progress(pair))
        last = pairs[-1]
        status.update("calibrating the warning level")
        rates = landing.alarm_rates(source, last[1].model)
        entries.append(rates)
        files.write(entries, landing.summary(pairs, rates))
    for measure in MEASURES:
        console.print(error_table(source, last, measure).for_terminal())
    console.print(
        "Without -> with knowledge on test flights, in min-max units (ranges of the training "
        "flights); in brackets the paper's overall numbers, of other data.\nIn units: "
        + _in_units(source, last)
    )
    console.print(rules_table(last).for_terminal())
    console.print(_warnings(rates))
    from prbnn_studies.landing.pictures import draw

    cells = [cell for pair in pairs for outcome in pair for cell in outcome.cells]
    draw(source, *last, cells, out)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)
    files.name(console)


def _progress(pair: Pair) -> str:
    plain, known = (outcome.overall("last") for outcome in pair)
    broken = [outcome.violations_of_mean for outcome in pair]
    return (
        f"{plain.flights} flights, {pair[1].strengths}: last-point CRPS {plain.crps:.2e} -> "
        f"{known.crps:.2e}, mean breaks rules at {broken[0]} -> {broken[1]} steps, 90 % band holds "
        f"{known.coverage90:.0%} ({pair[0].seconds:.0f} s and {pair[1].seconds:.0f} s)"
    )


def error_table(source: Source, pair: Pair, measure: str) -> Grid:
    """One row per variable and one overall, one column per scope."""
    rows = []
    for variable in (*source.tracks.variables, "overall"):
        row = [variable]
        for scope in SCOPES:
            plain, known = (getattr(outcome.cell(variable, scope), measure) for outcome in pair)
            text = f"{plain:.2e} -> {known:.2e} ({known / plain - 1:+.0%})"
            if variable == "overall":
                theirs = PAPER[measure, scope]
                text += f" [{theirs[0]:.2e} -> {theirs[1]:.2e}]"
            row.append(text)
        rows.append(row)
    flights = pair[0].cells[0].flights
    title = f"{measure.upper()}, {source.name}, {flights} flights"
    return Grid(("variable", *SCOPES.values()), rows, title)


def _in_units(source: Source, pair: Pair) -> str:
    parts = []
    for plain, known in zip(*(outcome.cells for outcome in pair), strict=True):
        if plain.scope == "last" and plain.rmse_in_units is not None:
            unit = source.units[plain.variable]
            parts.append(
                f"{plain.variable} RMSE {plain.rmse_in_units:.3g} -> {known.rmse_in_units:.3g} {unit}"
            )
    return "; ".join(parts) + " at the last point."


def rules_table(pair: Pair) -> Grid:
    """Violations of every rule on the test flights."""
    headings = ("rule", "steps at which the mean breaks it", "drawn trajectories that break it")
    title = "Rules on test flights, without -> with knowledge"
    return obedience_table(pair, headings, title)


def _warnings(rates: landing.AlarmRates) -> str:
    text = (
        f"Warnings: level set for {rates.false_alarms_stated:.1%} false alarms on "
        f"{rates.calibrated_on} held-out flights; {rates.false_alarms_found:.1%} of test flights "
        f"reach it, {rates.rule_breaking_landings:.0%} of them report a broken rule."
    )
    if rates.strange:
        text += (
            f" Of {rates.strange} go-arounds it finds {rates.strange_found:.0%}; area under the ROC "
            f"curve {rates.area_under_roc:.3f}; {rates.rule_breaking_strange:.0%} break a rule."
        )
    return text
