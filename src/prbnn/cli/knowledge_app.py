"""`prbnn knowledge`: the commands around the knowledge file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prbnn.cli.options import Categories, Censored, Classes, Drop, JsonFile, Upper
from prbnn.runs.names import parse_names

knowledge_app = typer.Typer(
    help="Start a knowledge file, check it against data, or print its schema.", no_args_is_help=True
)


Target = Annotated[
    list[str] | None, typer.Option(help="Column to predict; the last one if left out.")
]


@knowledge_app.command()
def check(
    knowledge: Annotated[Path, typer.Argument(help="The knowledge file, YAML.")],
    data: Annotated[Path, typer.Argument(help="The table to check it against, CSV or Parquet.")],
    target: Target = None,
    drop: Drop = "",
    categories: Categories = "",
    classes: Classes = False,
    noise: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the target's noise; estimated if left out."),
    ] = None,
    censored: Censored = None,
    upper: Upper = None,
    json: JsonFile = None,
) -> None:
    """Show every rule in words, whether the data agree with it, rows that break it by more than noise
    explains, and rules that contradict each other.

    Exit code: 0 no mistakes, 2 bad input, 3 rules contradict each other.

    Example: prbnn knowledge check knowledge.yaml data.csv --target power
    """
    from prbnn.cli.knowledge_commands import check as run

    run(
        knowledge,
        data,
        target or [],
        parse_names(drop),
        json,
        noise,
        classes=classes,
        categories=parse_names(categories),
        censored=censored,
        upper=upper,
    )


@knowledge_app.command()
def new(
    data: Annotated[Path, typer.Argument(help="A table, CSV or Parquet.")],
    target: Target = None,
    drop: Drop = "",
    classes: Classes = False,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("knowledge.yaml"),
) -> None:
    """Write a knowledge file to start from: the columns of a table, and rules to choose from.

    Example: prbnn knowledge new data.csv --target power --out knowledge.yaml
    """
    from prbnn.cli.knowledge_commands import new as run

    run(data, target or [], parse_names(drop), out, classes=classes)


@knowledge_app.command()
def schema(
    out: Annotated[
        Path | None, typer.Option(help="File to write; the terminal if left out.")
    ] = None,
) -> None:
    """Print the JSON schema of the knowledge file, for editors.

    Example: prbnn knowledge schema --out knowledge.schema.json
    """
    from prbnn.cli.knowledge_commands import schema as run

    run(out)
