"""`prbnn`: one command a job."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from prbnn.cli.knowledge_app import knowledge_app
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

Run = Annotated[Path, typer.Argument(help="Folder that prbnn fit has written.")]
Level = Annotated[
    float, typer.Option(min=0.01, max=0.999, help="Share of new observations the band is to hold.")
]
Json = Annotated[Path | None, typer.Option(help="Write the record to this file, for machines.")]


class Missing(StrEnum):
    """What to do about missing values."""

    error = "error"
    drop = "drop"
    impute = "impute"


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
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("prbnn-demo.png"),
    seed: Annotated[int, typer.Option(help="Data set; 0 is the paper's.")] = 0,
) -> None:
    """Train a plain and a constrained network on simulation 2: a table and a picture.

    Example: prbnn demo --out picture.png
    """
    from prbnn_studies.commands.simulation2 import demo as run

    run(out, seed)


@app.command()
def data(
    file: Annotated[Path, typer.Argument(help="A table, CSV or Parquet.")],
    json: Json = None,
) -> None:
    """How a file would be read: every column, its kind, its range, what is missing.

    Example: prbnn data plant.csv
    """
    from prbnn.cli.data_command import run

    run(file, json)


@app.command()
def fit(
    file: Annotated[Path, typer.Argument(help="A table, CSV or Parquet.", metavar="DATA")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    knowledge: Annotated[Path | None, typer.Option(help="The knowledge file, YAML.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the models and their record.")] = Path(
        "run"
    ),
    inputs: Annotated[
        str,
        typer.Option(help=f"Input columns, {COMMAS}; all but the target if left out."),
    ] = "",
    drop: Annotated[str, typer.Option(help=f"Columns to leave out, {COMMAS}.")] = "",
    categories: Annotated[
        str,
        typer.Option(
            help=f"Columns of numbers that take only the values seen, {COMMAS}; text always does."
        ),
    ] = "",
    missing: Annotated[
        Missing, typer.Option(help="Missing values: tell, drop those rows, or fill in the middle.")
    ] = Missing.error,
    classes: Annotated[
        bool, typer.Option("--classes", help="The target's numbers are classes.")
    ] = False,
    hidden: Annotated[str, typer.Option(help="Sizes of hidden layers, such as 64,32.")] = "",
    engine: Annotated[
        str, typer.Option(help="bbb, dropout, svgd, ensemble, laplace, sghmc or nuts.")
    ] = "bbb",
    noise: Annotated[
        str,
        typer.Option(help="learned, 'by input', or a standard deviation in the target's units."),
    ] = "learned",
    steps: Annotated[int | None, typer.Option(min=1, help="Training budget.")] = None,
    draws: Annotated[int, typer.Option(min=1, help="How many functions are stored.")] = 1000,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of rows that judge, and do not train.")
    ] = 0.2,
    plain: Annotated[
        bool, typer.Option("--plain/--no-plain", help="Fit the network without rules beside it.")
    ] = True,
    prove: Annotated[
        bool, typer.Option("--prove", help="Store only draws that are proved to obey.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another start and split.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    json: Json = None,
) -> None:
    """Fit a network to a table under rules; Ctrl-C keeps what was learned so far.

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
    )
    run(plan, out, json, quiet)


@app.command()
def predict(
    run: Run,
    file: Annotated[Path, typer.Argument(help="New rows, CSV or Parquet.", metavar="DATA")],
    out: Annotated[
        Path | None, typer.Option(help="Write to this file; to the terminal if left out.")
    ] = None,
    level: Level = 0.9,
    missing: Annotated[
        Missing | None, typer.Option(help="Missing values; as at the fit if left out.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of CSV.")] = False,
) -> None:
    """Predict new rows: mean, band, and how much of the spread more data would lessen.

    Example: prbnn predict run new.csv --out predictions.csv
    """
    from prbnn.cli.predict_command import predict as job

    job(run, file, out, level, None if missing is None else missing.value, json)


@app.command()
def watch(
    run: Run,
    file: Annotated[Path, typer.Argument(help="Rows with their target.", metavar="DATA")],
    out: Annotated[Path | None, typer.Option(help="Write every row to this file.")] = None,
    level: Level = 0.9,
    false_alarms: Annotated[
        float, typer.Option(min=0.0001, max=0.5, help="Share of ordinary rows that may be flagged.")
    ] = 0.01,
    missing: Annotated[
        Missing | None, typer.Option(help="Missing values; as at the fit if left out.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of CSV.")] = False,
) -> None:
    """Compare rows with what was expected of them; flag those that would rarely come.

    Example: prbnn watch run today.csv --false-alarms 0.01 --out watched.csv
    """
    from prbnn.cli.predict_command import watch as job

    job(run, file, out, level, false_alarms, None if missing is None else missing.value, json)


@app.command()
def check(
    run: Run,
    json: Json = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="How long to look for proofs, all rules together.")
    ] = 60.0,
    rows: Annotated[
        int,
        typer.Option(
            min=0, help="Training rows at which other columns are held; 0 is all of them."
        ),
    ] = 500,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
) -> None:
    """Prove or refute every rule for every stored draw, and write the certificate.

    Example: prbnn check run --json check.json
    """
    from prbnn.cli.check_command import run as job

    job(run, json, seconds, rows or None, quiet)


@app.command()
def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Another folder for the page.")] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="PNG files beside the page.")
    ] = True,
) -> None:
    """Write one page about a run, to open in any browser and to show around.

    Example: prbnn report run
    """
    from prbnn.cli.report_command import run as job

    job(run, out, pictures)
