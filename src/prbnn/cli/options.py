"""Options and arguments that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from prbnn.runs.names import COMMAS

RunFolder = Annotated[Path, typer.Argument(help="Folder that prbnn fit has written.")]
DataFile = Annotated[Path, typer.Argument(help="A table, CSV or Parquet.", metavar="DATA")]
Drop = Annotated[str, typer.Option(help=f"Columns to leave out, {COMMAS}.")]
Categories = Annotated[
    str,
    typer.Option(
        help=f"Columns of numbers that take only the values seen, {COMMAS}; text always does."
    ),
]
Classes = Annotated[bool, typer.Option("--classes", help="The target's numbers are classes.")]
Censored = Annotated[
    str | None,
    typer.Option(
        help="Column of words that say what the target is in a row: exact, 'at least' (the true "
        "value is that or above), 'at most', or between (from it to the number in --upper)."
    ),
]
Upper = Annotated[
    str | None,
    typer.Option(help="Column with the upper end of the target where a row is between."),
]
Level = Annotated[
    float,
    typer.Option(min=0.01, max=0.999, help="Probability that a new observation lies in the band."),
]
JsonFile = Annotated[Path | None, typer.Option(help="Write the record to this file, as JSON.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of CSV.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]


class Missing(StrEnum):
    """What to do about missing values."""

    error = "error"
    drop = "drop"
    impute = "impute"


MissingAsFitted = Annotated[
    Missing | None, typer.Option(help="Missing values; as at the fit if left out.")
]
