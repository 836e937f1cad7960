"""The solar study as tables for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table

from prbnn.errors import DataError, InfeasibleError
from prbnn.system.exits import BAD_INPUT, INFEASIBLE
from prbnn.system.terminal import Screen, echo
from prbnn_studies.solar import sources
from prbnn_studies.solar import study as solar

STUDY_WIDTH = 110
# what the paper prints for its own plant, without and with knowledge, in min-max units
PAPER = {
    ("mse", "all"): (0.0018, 0.0011),
    ("mse", "daytime"): (0.0045, 0.0026),
    ("mse", "peak"): (0.0037, 0.0017),
    ("rmse", "all"): (0.0419, 0.0327),
    ("rmse", "daytime"): (0.0672, 0.0505),
    ("rmse", "peak"): (0.0611, 0.0415),
    ("crps", "all"): (0.0186, 0.0114),
    ("crps", "daytime"): (0.0448, 0.0233),
    ("crps", "peak"): (0.0450, 0.0212),
}

Pair = tuple[solar.Outcome, solar.Outcome]


def study(
    name: str, folder: Path | None, share: float, seed: int, records_file: Path | None, out: Path
) -> None:
    """Fit without and with knowledge, print the tables and draw the picture."""
    console = Screen()
    console = Screen(width=max(console.width, STUDY_WIDTH))
    try:
        found = (
            [sources.simulated(seed)] if name == "plant" else sources.recorded(folder, share, seed)
        )
    except DataError as error:
        echo(f"Error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    records: list = []
    fitted = []
    with console.status("starting") as status:
        for source in found:
            for note in source.notes:
                console.print(f"- {note}")
            try:
                pair = solar.study(source, status.update, seed)
            except InfeasibleError as error:
                console.print(f"{source.name}: no table, {error}")
                continue
            fitted.append((source, *pair))
            for outcome in pair:
                records += [*outcome.cells, *outcome.rules]
            if records_file is not None:
                records_file.write_text(json.dumps(solar.as_records(records), indent=1))
            console.print(error_table(source, pair))
            console.print(rules_table(pair))
            console.print(_ended(pair))
    if not fitted:
        raise typer.Exit(INFEASIBLE)
    console.print(
        "MSE, RMSE and CRPS of test rows in min-max units of the training power; in brackets the "
        "paper's, of another plant."
    )
    from prbnn_studies.solar.pictures import draw

    draw(fitted, out)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)
    if records_file is not None:
        console.print(f"Records: {records_file.resolve()}", soft_wrap=True)


def error_table(source: sources.Source, pair: Pair) -> Table:
    """One row a period, one column a measure, without -> with knowledge."""
    table = Table(title=f"BNN -> PR-BNN, {source.name}", header_style="bold")
    table.add_column("period")
    table.add_column("rows", justify="right")
    for measure in ("MSE", "RMSE", "CRPS"):
        table.add_column(measure, justify="right")
    for plain, known in zip(*(outcome.cells for outcome in pair), strict=True):
        row = [plain.period, f"{plain.rows:,}"]
        for measure in ("mse", "rmse", "crps"):
            before, after = getattr(plain, measure), getattr(known, measure)
            text = f"{before:.4f} -> {after:.4f} ({after / before - 1:+.0%})"
            if source.simulation is not None and (measure, plain.period) in PAPER:
                without, with_ = PAPER[measure, plain.period]
                text += f"\n[{without:.4f} -> {with_:.4f}]".replace("[", r"\[")
            row.append(text)
        table.add_row(*row)
    return table


def rules_table(pair: Pair) -> Table:
    """Violations of every rule in its region."""
    table = Table(title="Rules, BNN -> PR-BNN", header_style="bold")
    for heading in ("rule", "points where the mean breaks it", "stored draws that break it"):
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for plain, known in zip(*(outcome.rules for outcome in pair), strict=True):
        table.add_row(
            plain.rule,
            f"{plain.violations_of_mean} -> {known.violations_of_mean} of {plain.points:,}",
            f"{plain.share_of_draws_violating:.1%} -> {known.share_of_draws_violating:.1%}",
        )
    return table


def _ended(pair: Pair) -> str:
    parts: Sequence[str] = [
        f"{name}: {outcome.model.result_}, {outcome.seconds:.0f} s"
        for name, outcome in zip(solar.MODELS, pair, strict=True)
    ]
    kept = pair[1].model.acceptance_
    return "; ".join(parts) + f"; {kept:.0%} of PR-BNN's draws obey every rule and are kept."
