"""One table as text, for a terminal and for a Markdown page alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

BOLD = "**"


@dataclass(frozen=True)
class Grid:
    """Headings and rows of text; a cell between two ``**`` is bold. Numbers are aligned to the right.

    >>> print(Grid(("method", "MSE"), [("BNN", "0.1571"), ("PR-BNN", "**0.0018**")]).markdown())
    | method | MSE |
    |---|---|
    | BNN | 0.1571 |
    | PR-BNN | **0.0018** |
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    # how many columns, counted from the left, are words
    words: int = 1

    def markdown(self) -> str:
        """The table for a page; the title is left out."""
        lines = [self.headings, *self.rows]
        texts = [f"| {' | '.join(cells)} |" for cells in lines]
        return "\n".join([texts[0], "|" + "---|" * len(self.headings), *texts[1:]])

    def for_terminal(self) -> Table:
        """The table for rich."""
        table = Table(title=self.title or None, header_style="bold")
        for place, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if place < self.words else "right")
        for row in self.rows:
            table.add_row(*map(_styled, row))
        return table


def _styled(cell: str) -> Text:
    bold = cell.startswith(BOLD) and cell.endswith(BOLD) and len(cell) > 2 * len(BOLD)
    return Text(cell.removeprefix(BOLD).removesuffix(BOLD), "bold") if bold else Text(cell)
