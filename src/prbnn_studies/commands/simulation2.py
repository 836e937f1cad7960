"""Commands on simulation 2: the demo and the study, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from prbnn_studies import simulation2 as simulation
from prbnn_studies.commands.shared import Files, screen
from prbnn_studies.tables.grid import Grid
from prbnn_studies.tables.simulation2 import methods as method_table
from prbnn_studies.tables.simulation2 import slashed


def demo(out: Path, seed: int) -> None:
    """A plain network and a constrained one, side by side."""
    console = Console()
    console.print(
        "Simulation 2: a curve from "
        f"{len(simulation.data(seed)[1])} noisy points on [.1, .65], evaluated on [.08, 1].\n"
        f"Known there: y >= 0, y <= {simulation.UPPER}, y never falls.\n"
    )
    fits, curves = _run([seed], ("BNN", "PR-BNN"), console)
    rows = [
        (
            {"BNN": "plain network", "PR-BNN": "with knowledge"}[fit.method],
            f"{fit.mse:.4f}",
            f"{fit.std:.3f}",
            slashed(fit.violations_of_mean),
            f"{fit.stored_draws_violating:.1%}",
            f"{fit.coverage95:.0%}",
        )
        for fit in fits
    ]
    headings = ("", "MSE", "STD", "mean breaks", "draws break", "in band")
    console.print(Grid(headings, rows).for_terminal())
    console.print(
        "MSE of the mean against the truth; STD of the functions; at how many of 200 points the mean "
        "breaks lower/upper/monotone; fraction of functions that break a rule; fraction of the truth "
        "in the 95 % band of the functions.\n"
    )
    known = fits[-1]
    console.print(
        f"With knowledge, {known.raw_draws_violating:.0%} of drawn functions broke a rule and were moved "
        f"to the nearest function that obeys. Of all, {known.acceptance:.0%} then obeyed every rule; the "
        f"others were rejected. Duals found (nats per unit): lower {known.duals[0]:.0f}, "
        f"upper {known.duals[1]:.0f}, monotone {known.duals[2]:.0f}."
    )
    simulation.draw(curves, out, seed)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)


def study(seeds: int, first: int, engines: Sequence[str], files: Files, out: Path) -> None:
    """Every method on every data set, beside the paper's numbers; or the hard rules by engines."""
    console = screen()
    methods = [simulation.by_engine(engine) for engine in engines] or simulation.METHODS
    fits, curves = _run(range(first, first + seeds), methods, console)
    results = simulation.summary(fits)
    table = replace(method_table(results), title=f"Simulation 2, {seeds} data set(s)")
    console.print(table.for_terminal())
    console.print(
        "Medians over data sets; in brackets the paper's numbers. Mean breaks: grid points where the "
        "mean breaks lower/upper/monotone (tolerance 1e-4).\nFixed weights c are 87 c nats: the "
        "paper's OC-BNN with its upper bound fixed. The paper's rows come from a bound that was "
        "broadcast wrongly, so they differ.\nThe BNN row is fitted with the paper's settings, "
        "the others with the estimator's defaults.\nPR-BNN states that rows with y < 0 were left out of "
        "the data (a truncated likelihood); the row above it does not."
    )
    panels = methods if engines else simulation.PANELS
    simulation.draw({name: curves[name] for name in panels}, out, first)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)
    files.write(fits, results)
    files.name(console)


def _run(
    seeds: Iterable[int], methods: Sequence[str], console: Console
) -> tuple[list[simulation.Fit], dict[str, simulation.Curves]]:
    fits, curves = [], {}
    with console.status("starting") as status:
        for fit, curve in simulation.study(
            list(seeds), methods, progress=lambda text: status.update(f"fitting {text}")
        ):
            fits.append(fit)
            curves.setdefault(fit.method, curve)
    return fits, curves
