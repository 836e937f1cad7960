"""What a column of a file holds: numbers, yes/no, categories, dates, or nothing of use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prbnn.data.dates import DATE_PARTS, as_dates, date_format, parts_of
from prbnn.data.encoding import Column
from prbnn.errors import DataError, shortened

if TYPE_CHECKING:
    import pandas as pd

# more different texts than this are names of rows, not categories
MOST_CATEGORIES = 20
# a text column with at least this fraction of numbers is a column of numbers with mistakes
MOSTLY = 0.5
YES = {"yes", "true", "y", "t", "on"}
NO = {"no", "false", "n", "f", "off"}


def read_column(series: pd.Series, name: str) -> Column:
    """What the column ``name`` holds and how it is used; text among numbers raises."""
    import pandas as pd

    present = series.dropna()
    if not len(present):
        return Column(name, "left out", because="it is empty")
    if pd.api.types.is_bool_dtype(present):
        return Column(name, "yes/no", ("False", "True"))
    if pd.api.types.is_datetime64_any_dtype(present):
        return _date(name, present, "")
    if pd.api.types.is_numeric_dtype(present):
        return Column(name, "number")
    texts = present.astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce").notna()
    if numbers.all():
        return Column(name, "number")
    if numbers.mean() >= MOSTLY:
        raise not_numbers(name, texts, numbers)
    return _text(name, texts)


def not_numbers(name: str, texts: pd.Series, numbers: pd.Series, where: str = "") -> DataError:
    """The error for a column of numbers with text in the rows where ``numbers`` is False."""
    wrong = texts[~numbers]
    shown = ", ".join(
        f"{shortened(text, 60)} in row {place + 1}" for place, text in list(wrong.items())[:3]
    )
    first = list(wrong.index) == [0]
    units = " That looks like a line of units: delete it." if first and len(texts) > 2 else ""
    return DataError(
        f"{where}column {name!r} holds numbers, and text in {len(wrong)} row(s): {shown}.{units} Fix "
        "those cells (leave a missing value empty), or leave the column out of the fit with --drop",
        name,
    )


def _text(name: str, texts: pd.Series) -> Column:
    written = date_format(name, texts)
    if written is not None:
        return _date(name, as_dates(texts, written), written)
    found = sorted(texts.unique())
    low = {text.lower() for text in found}
    if len(found) == 2 and len(low & YES) == len(low & NO) == 1:
        return Column(name, "yes/no", tuple(sorted(found, key=lambda text: text.lower() in YES)))
    if len(found) == 1:
        return Column(name, "left out", because=f"every row is {found[0]!r}")
    odd = texts[texts.str.fullmatch(r"[-+]?[\d.,]*\d ?(%|[a-zA-Z°/]+)?")]
    if len(found) > MOST_CATEGORIES and len(odd) > MOSTLY * len(texts):
        raise DataError(
            f"column {name!r} looks like numbers that cannot be read, such as "
            f"{shortened(odd.iloc[0], 60)}; write plain numbers, without units, percent signs or blanks",
            name,
        )
    if len(found) > MOST_CATEGORIES:
        return Column(
            name, "left out", because=f"{len(found)} different texts are names, not categories"
        )
    return Column(name, "category", tuple(found))


def _date(name: str, dates: pd.Series, written: str) -> Column:
    parts = parts_of(dates)
    kept = tuple(part for part in DATE_PARTS if np.ptp(parts[part]) > 0)
    if not kept:
        return Column(name, "left out", because="all its dates are the same")
    return Column(name, "date", kept, written)
