"""The command `prbnn` and its subcommands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prbnn.cli.knowledge_app import knowledge_app
from prbnn.cli.options import (
    AsJson,
    Categories,
    Censored,
    Classes,
    DataFile,
    Drop,
    JsonFile,
    Level,
    Missing,
    MissingAsFitted,
    Quiet,
    RunFolder,
    Upper,
)
from prbnn.runs.names import COMMAS
from prbnn_studies.commands.app import study_app

app = typer.Typer(
    help="Bayesian neural networks that obey what you know.",
    epilog="Exit codes: 0 done, 2 bad input, 3 infeasible knowledge, 4 diverged.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.add_typer(knowledge_app, name="knowledge")
app.add_typer(study_app, name="study")


@app.callback()
def main() -> None:
    """Bayesian neural networks that obey what you know."""


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("prbnn"))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="File for the picture.")] = Path("prbnn-demo.png"),
    seed: Annotated[int, typer.Option(help="Seed of the data set; 0 is the paper's.")] = 0,
) -> None:
    """Train a plain and a constrained network on simulation 2: a table and a picture.

    Example: prbnn demo --out picture.png
    """
    from prbnn_studies.commands.simulation2 import demo as run

    run(out, seed)


@app.command()
def data(
    file: DataFile,
    json: JsonFile = None,
) -> None:
    """Show how a file would be read: for every column its kind, range and missing values.

    Example: prbnn data plant.csv
    """
    from prbnn.cli.data_command import run

    run(file, json)


@app.command()
def fit(
    file: DataFile,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    knowledge: Annotated[Path | None, typer.Option(help="The knowledge file, YAML.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the models and their record.")] = Path(
        "run"
    ),
    inputs: Annotated[
        str,
        typer.Option(help=f"Input columns, {COMMAS}; all but the target if left out."),
    ] = "",
    drop: Drop = "",
    categories: Categories = "",
    missing: Annotated[
        Missing,
        typer.Option(
            help="Missing values: an error, drop those rows, or impute the median or most frequent."
        ),
    ] = Missing.error,
    classes: Classes = False,
    censored: Censored = None,
    upper: Upper = None,
    truncated: Annotated[
        str | None,
        typer.Option(
            help="Window low:high in which the target was recorded, one end left out if open, such as "
            "0: where rows below 0 are missing from the table."
        ),
    ] = None,
    hidden: Annotated[str, typer.Option(help="Sizes of hidden layers, such as 64,32.")] = "",
    engine: Annotated[
        str,
        typer.Option(
            help="bbb, conjugate, dropout, svgd, ensemble, laplace, sghmc, nuts, or auto: for up to 512 "
            "rows with normal noise conjugate with 4 members and learned scales of inputs, else bbb."
        ),
    ] = "auto",
    noise: Annotated[
        str,
        typer.Option(help="learned, 'by input', or a standard deviation in the target's units."),
    ] = "learned",
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Number of training steps; the engine's default if left out."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Number of functions to store.")] = 500,
    held_out: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.9, help="Fraction of rows held out of training, to score the model."
        ),
    ] = 0.2,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain/--no-plain", help="Also fit the network without rules, for comparison."
        ),
    ] = True,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Store only draws that are proved to obey the hard rules."),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the split, of the network's start and of training.")
    ] = 0,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the fit in --out that was killed or interrupted, from its last checkpoint.",
        ),
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0.0, help="Seconds between two checkpoints of a fit that runs.")
    ] = 30.0,
    quiet: Quiet = False,
    json: JsonFile = None,
) -> None:
    """Fit a network to a table under rules; Ctrl-C stops early and keeps what was learned.

    A fit that was killed or interrupted goes on with the same command and --resume.

    Example: prbnn fit plant.csv --target power --knowledge knowledge.yaml --out run
    """
    from prbnn.cli.fit_command import plan_of, run

    plan = plan_of(
        data=file,
        target=target,
        knowledge=knowledge,
        inputs=inputs,
        drop=drop,
        categories=categories,
        missing=missing.value,
        classes=classes,
        hidden=hidden,
        engine=engine,
        noise=noise,
        steps=steps,
        draws=draws,
        held_out=held_out,
        plain=plain,
        prove=prove,
        seed=seed,
        censored=censored,
        upper=upper,
        truncated=truncated,
    )
    run(plan, out, json, quiet, resume=resume, every=checkpoint_every)


@app.command()
def predict(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(help="New rows, CSV or Parquet.", metavar="DATA")],
    out: Annotated[
        Path | None, typer.Option(help="Write to this file; to the terminal if left out.")
    ] = None,
    level: Level = 0.9,
    missing: MissingAsFitted = None,
    json: AsJson = False,
) -> None:
    """Predict new rows: mean, band, total and epistemic standard deviation.

    Example: prbnn predict run new.csv --out predictions.csv
    """
    from prbnn.cli.predict_command import predict as job

    job(run, file, out, level, None if missing is None else missing.value, json)


@app.command()
def watch(
    run: RunFolder,
    file: Annotated[
        Path, typer.Argument(help="Rows with their target, CSV or Parquet.", metavar="DATA")
    ],
    out: Annotated[Path | None, typer.Option(help="Write every row to this file.")] = None,
    level: Level = 0.9,
    false_alarms: Annotated[
        float,
        typer.Option(min=0.0001, max=0.5, help="Fraction of normal rows that may be flagged."),
    ] = 0.01,
    missing: MissingAsFitted = None,
    json: AsJson = False,
) -> None:
    """Compare rows with their prediction, and flag anomalous ones.

    Example: prbnn watch run today.csv --false-alarms 0.01 --out watched.csv
    """
    from prbnn.cli.predict_command import watch as job

    job(run, file, out, level, false_alarms, None if missing is None else missing.value, json)


@app.command()
def check(
    run: RunFolder,
    json: JsonFile = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Time limit of the proofs, all rules together.")
    ] = 60.0,
    rows: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of training rows at which columns that a rule does not name are held; 0 is all.",
        ),
    ] = 500,
    quiet: Quiet = False,
) -> None:
    """Prove or refute every rule for every stored draw, and write the certificate.

    Example: prbnn check run --json check.json
    """
    from prbnn.cli.check_command import run as job

    job(run, json, seconds, rows or None, quiet)


@app.command()
def report(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page; that of the run if left out.")
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Also write every plot as a PNG file.")
    ] = True,
) -> None:
    """Write one HTML page about a run, which needs no other file.

    Example: prbnn report run
    """
    from prbnn.cli.report_command import run as job

    job(run, out, pictures)
