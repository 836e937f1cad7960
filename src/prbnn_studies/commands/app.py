"""`prbnn study`: one command per study."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from prbnn_studies.commands.shared import COMMAS, Files, Folder, Json, Picture, RecordFile, chosen

study_app = typer.Typer(
    help="Reproduce a study and print it beside published numbers.", no_args_is_help=True
)


@study_app.command()
def simulation1(
    engines: Annotated[str, typer.Option(help=f"Engines to run, {COMMAS}; all by default.")] = "",
    json: Json = None,
    record: RecordFile = None,
    out: Picture = Path("simulation1.png"),
) -> None:
    """Simulation 1: every engine with and without knowledge, beside OC-BNN's published draws.

    Example: prbnn study simulation1 --engines bbb,nuts --json records.json
    """
    from prbnn_studies.commands.simulation1 import study as run
    from prbnn_studies.simulation1 import ENGINES

    run(_engines(engines, list(ENGINES)), Files(json, record), out)


@study_app.command()
def simulation2(
    seeds: Annotated[
        int, typer.Option(min=1, help="How many data sets; the first is the paper's.")
    ] = 1,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first data set.")] = 0,
    engines: Annotated[
        str, typer.Option(help=f"Fit PR-BNN by these engines and nothing else, {COMMAS}.")
    ] = "",
    json: Json = None,
    record: RecordFile = None,
    out: Picture = Path("simulation2.png"),
) -> None:
    """Simulation 2: BNN, fixed weights and PR-BNN, beside the paper's table.

    Example: prbnn study simulation2 --seeds 10 --json records.json
    """
    from prbnn_studies.commands.simulation2 import study as run

    run(seeds, first, _engines(engines, []), Files(json, record), out)


def _engines(text: str, default: list[str]) -> list[str]:
    from prbnn.inference import ENGINES

    return chosen(text, tuple(ENGINES), "--engines") if text else default


class UciTables(StrEnum):
    """Which tables of the UCI study to run."""

    both = "both"
    uci = "uci"
    knowledge = "knowledge"


@study_app.command()
def uci(
    data: Annotated[Path, typer.Option(help="Folder that holds uci_splits, auto_mpg and airfoil.")],
    sets: Annotated[
        str | None, typer.Option(help=f"Names of sets, {COMMAS}; all sets by default.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, max=20, help="How many of the 20 splits.")] = 20,
    engines: Annotated[str, typer.Option(help=f"Engines, {COMMAS}.")] = "bbb,ensemble,sghmc",
    tables: Annotated[UciTables, typer.Option(help="Which tables to run.")] = UciTables.both,
    json: Json = None,
    record: RecordFile = None,
) -> None:
    """UCI regression on the standard splits, beside published numbers; and what knowledge adds.

    Example: prbnn study uci --data data --sets yacht,boston --splits 2
    """
    from prbnn_studies.commands.uci import study as run

    run(data, sets, splits, engines, tables.value, Files(json, record))


@study_app.command()
def tables(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the UCI study; without it, tables that scikit-learn ships."),
    ] = None,
    tables: Annotated[
        str | None, typer.Option(help=f"Names of tables, {COMMAS}; all by default.")
    ] = None,
    sizes: Annotated[
        str, typer.Option(help=f"Numbers of training rows, percentages or 'all', {COMMAS}.")
    ] = "60,30%,all",
    splits: Annotated[int, typer.Option(min=1, help="How many splits.")] = 10,
    methods: Annotated[
        str | None, typer.Option(help=f"Names of methods, {COMMAS}; all by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of splits and training.")] = 0,
    points: Annotated[
        int, typer.Option(min=100, help="Fresh points per rule at which functions are evaluated.")
    ] = 100_000,
    most_rows: Annotated[
        int, typer.Option(min=20, help="'all' is this many training rows at most.")
    ] = 2000,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Training steps of prbnn; its default if not given.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="File of JSON lines; measurements in it are not made again."),
    ] = None,
    json: Json = None,
    record: RecordFile = None,
) -> None:
    """Public tables with true rules: networks with and without them beside other libraries.

    Example: prbnn study tables --tables diabetes --sizes 60 --splits 2 --cache tables.jsonl
    """
    from prbnn_studies.commands.tables import study as run
    from prbnn_studies.peers.study import Settings

    settings = Settings(seed, points, most_rows, steps)
    run(data, tables, sizes, splits, methods, settings, cache, Files(json, record))


# with fewer training flights the network learns nothing
FEWEST_FLIGHTS = 10


class LandingSource(StrEnum):
    """Where the flights of the landing study come from."""

    synthetic = "synthetic"
    katl = "katl"
    adsb = "adsb"


@study_app.command()
def landing(
    source: Annotated[
        LandingSource, typer.Option(help="Simulated flights, radar or ADS-B tracks.")
    ] = LandingSource.synthetic,
    data: Folder = None,
    flights: Annotated[int, typer.Option(min=50, help="How many flights to simulate.")] = 7542,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated flights.")] = 0,
    sizes: Annotated[
        str, typer.Option(help=f"Numbers of training flights, {COMMAS}; 'all' is one.")
    ] = "",
    json: Json = None,
    record: RecordFile = None,
    out: Picture = Path("landing.png"),
) -> None:
    """Landing: the last seconds of an approach from those before, with and without knowledge.

    Example: prbnn study landing --sizes 200,all --json records.json
    """
    from prbnn_studies.commands.landing import study as run

    try:
        wanted = [None if part.strip() == "all" else int(part) for part in sizes.split(",") if part]
    except ValueError:
        wanted = [0]
    if any(size is not None and size < FEWEST_FLIGHTS for size in wanted):
        raise typer.BadParameter(
            f"--sizes takes whole numbers from {FEWEST_FLIGHTS} on and 'all', {COMMAS}; "
            f"got {sizes!r}"
        )
    run(source.value, data, flights, seed, wanted or None, Files(json, record), out)


class SolarSource(StrEnum):
    """Where the records of the solar study come from."""

    plant = "plant"
    csv = "csv"


@study_app.command()
def solar(
    source: Annotated[
        SolarSource, typer.Option(help="A simulated plant, or recorded ones.")
    ] = SolarSource.plant,
    data: Folder = None,
    share: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Fraction of csv's training days to train on.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of plant, split and training.")] = 0,
    json: Json = None,
    record: RecordFile = None,
    out: Picture = Path("solar.png"),
) -> None:
    """Solar: AC power of an inverter that derates when hot, with and without knowledge.

    Example: prbnn study solar --seed 1 --json records.json
    """
    from prbnn_studies.commands.solar import study as run

    run(source.value, data, share, seed, Files(json, record), out)
