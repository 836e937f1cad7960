"""The solar study as tables for a terminal."""

from __future__ import annotations

from pathlib import Path

import typer

from prbnn import DataError, InfeasibleError
from prbnn.system.exits import BAD_INPUT, INFEASIBLE
from prbnn.system.terminal import echo
from prbnn_studies.commands.shared import Files, obedience_table, screen
from prbnn_studies.solar import sources
from prbnn_studies.solar import study as solar
from prbnn_studies.tables.grid import Grid
from prbnn_studies.tables.solar import PAPER

Pair = tuple[solar.Outcome, solar.Outcome]


def study(name: str, folder: Path | None, share: float, seed: int, files: Files, out: Path) -> None:
    """Fit without and with knowledge, print the tables and draw the picture."""
    console = screen()
    try:
        found = (
            [sources.simulated(seed)] if name == "plant" else sources.recorded(folder, share, seed)
        )
    except DataError as error:
        echo(f"Error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    entries: list = []
    fitted: list[tuple[sources.Source, solar.Outcome, solar.Outcome]] = []
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
                entries += [*outcome.cells, *outcome.rules]
            files.write(entries, solar.summary(fitted, seed))
            console.print(error_table(source, pair).for_terminal())
            console.print(rules_table(pair).for_terminal())
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
    files.name(console)


def error_table(source: sources.Source, pair: Pair) -> Grid:
    """One row per period, one column per measure, without -> with knowledge."""
    rows = []
    for plain, known in zip(*(outcome.cells for outcome in pair), strict=True):
        row = [plain.period, f"{plain.rows:,}"]
        for measure in ("mse", "rmse", "crps"):
            before, after = getattr(plain, measure), getattr(known, measure)
            text = f"{before:.4f} -> {after:.4f} ({after / before - 1:+.0%})"
            if source.simulation is not None and (measure, plain.period) in PAPER:
                theirs = PAPER[measure, plain.period]
                text += f"\n[{theirs[0]:.4f} -> {theirs[1]:.4f}]"
            row.append(text)
        rows.append(row)
    headings = ("period", "rows", "MSE", "RMSE", "CRPS")
    return Grid(headings, rows, f"BNN -> PR-BNN, {source.name}")


def rules_table(pair: Pair) -> Grid:
    """Violations of every rule in its region."""
    headings = ("rule", "points where the mean breaks it", "stored draws that break it")
    return obedience_table(pair, headings, "Rules, BNN -> PR-BNN")


def _ended(pair: Pair) -> str:
    parts = [
        f"{name}: {outcome.model.result_}, {outcome.seconds:.0f} s"
        for name, outcome in zip(solar.MODELS, pair, strict=True)
    ]
    kept = pair[1].model.acceptance_
    return "; ".join(parts) + f"; {kept:.0%} of PR-BNN's draws obey every rule and are kept."
