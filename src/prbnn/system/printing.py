"""Text from users' data and rules, made safe to show in a terminal and to open in a spreadsheet.

A name, label or path may hold an escape sequence that moves the cursor or changes a title, or a formula
that a spreadsheet would run.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# a spreadsheet takes a cell that begins with one of these for a formula
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def printable(text: str) -> str:
    """``text`` without control characters, marks of text direction, and codes that are no characters.

    Line ends and tabs stay; the others become the escapes that Python writes for them.

    >>> printable("late\\x1b[2J")
    'late\\\\x1b[2J'
    """
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if character not in "\n\t\u200d"
        and (
            unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
            or ord(character) & 0xFFFE == 0xFFFE
            or "\ufdd0" <= character <= "\ufdef"
        )
        else character
        for character in text
    )


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """A copy of ``table`` with an apostrophe before every text that a spreadsheet would run.

    Headings and cells of text are changed; numbers stay as they are, whatever their sign.
    """

    def safe(value: Any) -> Any:
        if isinstance(value, str) and value.startswith(FORMULA):
            return f"'{value}"
        return value

    safer = table.copy()
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if column.dtype.kind not in "biufc":
            safer.isetitem(place, column.map(safe))
    safer.columns = [safe(name) for name in table.columns]
    return safer
