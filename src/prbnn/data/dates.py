"""Dates in text: one format per column, found once and kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prbnn.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

DATE_PARTS = ("hour", "day_of_year")
# digits with two separators, or a clock time; a range such as 6-10 is not a date
DATES = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2})?"
OFFSET = r"\s*(Z|[+-]\d{2}:?\d{2})$"
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
_DAYS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
)
FORMATS = (
    "%H:%M",
    "%H:%M:%S",
    *(day + clock for day in _DAYS for clock in _CLOCKS),
    *(day + clock.replace(" ", "T") for day in _DAYS[:1] for clock in _CLOCKS[1:]),
)


def _shape(written: str) -> str:
    """What stands between the numbers of a date or of a format: ``-- :`` of 2026-05-31 12:30."""
    return re.sub(r"\s+", " ", re.sub(r"%\w|\d+", "", written))


# so that a column is compared with three or four formats, and not with all
_SHAPES: dict[str, list[str]] = {}
for _written in FORMATS:
    _SHAPES.setdefault(_shape(_written), []).append(_written)


def date_format(name: str, texts: pd.Series) -> str | None:
    """The format of all dates in the column ``name``; None where ``texts`` are not dates.

    Dates where either the day or the month may come first raise.
    """
    import pandas as pd

    if not texts.str.fullmatch(DATES).all():
        return None
    plain = texts.str.replace(OFFSET, "", regex=True)

    def fits(written: str) -> bool:
        return bool(pd.to_datetime(plain, format=written, errors="coerce").notna().all())

    fitting = [written for written in _SHAPES.get(_shape(str(plain.iloc[0])), ()) if fits(written)]
    if not fitting:
        return None
    days = {written.index("%d") < written.index("%m") for written in fitting if "%m" in written}
    if len(days) > 1:
        raise DataError(
            f"column {name!r} holds dates such as {texts.iloc[0]!r}, where the day or the month may come "
            "first; write them as 2026-05-31, or leave the column out with --drop",
            name,
        )
    return fitting[0]


def as_dates(texts: pd.Series, written: str) -> pd.Series:
    """``texts`` in the format ``written`` as dates, NaT where they do not fit; time zones are ignored."""
    import pandas as pd

    plain = texts.str.replace(OFFSET, "", regex=True)
    return pd.Series(pd.to_datetime(plain, format=written, errors="coerce"), index=texts.index)


def parts_of(dates: pd.Series) -> dict[str, np.ndarray]:
    """Hour of the day and day of the year of each date, by the names in `DATE_PARTS`."""
    when = dates.dt
    return {
        "hour": (when.hour + when.minute / 60 + when.second / 3600).to_numpy(float),
        "day_of_year": when.day_of_year.to_numpy(float),
    }
