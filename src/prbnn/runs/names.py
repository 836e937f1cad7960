"""Lists of column names on a command line: separated by commas, in quotes if a name has a comma."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

COMMAS = "with commas between (quotes around a name that holds one)"


def parse_names(text: str) -> tuple[str, ...]:
    """The names in ``text``, each once.

    >>> parse_names('wind, "flow, raw",wind')
    ('wind', 'flow, raw')
    """
    read = next(csv.reader([text], skipinitialspace=True), [])
    return tuple(dict.fromkeys(name.strip() for name in read if name.strip()))


def join_names(names: Iterable[object]) -> str:
    """``names`` as a text that `parse_names` reads back.

    >>> join_names(["wind", "flow, raw"])
    'wind,"flow, raw"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()
