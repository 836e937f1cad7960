"""What commands write to a terminal and to CSV files: text from users' files stays text there.

A name, label or path may hold an escape sequence that moves the cursor or changes a title, a tag that
rich would read as markup, or a formula that a spreadsheet would run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from prbnn.system.printing import printable

if TYPE_CHECKING:
    import pandas as pd

# a spreadsheet takes a cell that begins so for a formula
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def echo(text: object, *, err: bool = False) -> None:
    """A line of plain text."""
    typer.echo(printable(str(text)), err=err)


class Screen(Console):
    """A console that shows texts as they are: no markup, no control characters, in tables too."""

    def __init__(self, **options: Any):
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        """Text as it is shown; tables render their cells by this, too."""
        return super().render_str(printable(text), *arguments, **options)


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before every text that a spreadsheet would run as a formula.

    Text alone, in headings and cells: a number is a number, whatever its sign.
    """

    def safe(value: Any) -> Any:
        if isinstance(value, str) and value.startswith(FORMULA):
            return f"'{value}"
        return value

    safer = table.copy()
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        # numbers need no look
        if column.dtype.kind not in "biufc":
            safer.isetitem(place, column.map(safe))
    safer.columns = [safe(name) for name in table.columns]
    return safer
