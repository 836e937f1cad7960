"""Text from users' data and rules, made safe to show in a terminal."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """Text without control characters, and without marks that reverse what is read.

    Lines and tabs stay; the others are shown as Python writes them.

    >>> printable("late\\x1b[2J")
    'late\\\\x1b[2J'
    """
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and character not in "\n\t\u200d"
        else character
        for character in text
    )
