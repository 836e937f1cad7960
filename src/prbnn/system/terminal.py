"""Output of commands to a terminal; text from users' files is shown as text (see `printing`)."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from prbnn.system.printing import printable


def echo(text: object, *, err: bool = False) -> None:
    """Print ``text`` as one plain line, on standard error if ``err``."""
    typer.echo(printable(str(text)), err=err)


class Screen(Console):
    """A rich console that shows text literally, also in tables: no markup, no control characters."""

    def __init__(self, **options: Any):
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        """``text`` as it is shown; tables call this for their cells, too."""
        return super().render_str(printable(text), *arguments, **options)
