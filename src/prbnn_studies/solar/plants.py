"""Readers of real plants: hourly records of two American sites, 15-minute records of two Indian ones.

Every row that is left out is counted with its reason; a file that cannot be read raises an error that
names its column and what was found there.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from prbnn import DataError

PVOPS, PVOPS_FILE = "pv_pvops_sandia", "example_prod_with_covariates.csv"
PVOPS_COLUMNS = {
    "irradiance": "irrad_poa_Wm2",
    "air": "temp_amb_C",
    "wind": "wind_speed_ms",
    "module": "temp_mod_C",
}
PVOPS_POWER = "generated_kW"

INDIA, INDIA_PLANTS = "pv_india_kaggle", (1, 2)
INDIA_COLUMNS = {
    "irradiance": "IRRADIATION",
    "air": "AMBIENT_TEMPERATURE",
    "module": "MODULE_TEMPERATURE",
}
INDIA_POWER = "AC_POWER"
FEWEST_INVERTERS = 11  # of 22: a mean over fewer is of another plant

TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%d-%m-%Y %H:%M")
FEWEST_ROWS = 50

MISSING, NEGATIVE, REPEATED = "an entry is missing", "power below 0", "time recorded twice"
NO_WEATHER, FEW_INVERTERS = "no weather recorded", "too few inverters report"


class Site(NamedTuple):
    """Rows of one plant in order of time: inputs by name, power in kW, and what was left out."""

    name: str
    inputs: dict[str, np.ndarray]
    power: np.ndarray
    day: np.ndarray  # whole days since the first record
    minute: np.ndarray  # of the day
    dropped: dict[str, int]


def read(folder: Path) -> list[Site]:
    """Every plant that a folder holds.

    >>> read(Path("nowhere"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    prbnn.errors.DataError: nowhere holds neither pv_pvops_sandia nor pv_india_kaggle...
    """
    readers: dict[str, Callable[[Path], list[Site]]] = {PVOPS: pvops, INDIA: india}
    sites = [
        site
        for name, reader in readers.items()
        for place in (folder / name, folder if folder.name == name else folder / name / "none")
        if place.is_dir()
        for site in reader(place)
    ]
    if not sites:
        raise DataError(
            f"{folder} holds neither {PVOPS} nor {INDIA}; give the folder they lie in, or one of them"
        )
    return sites


def pvops(folder: Path) -> list[Site]:
    """The sites of pvops' example, each apart."""
    path = _file(folder, PVOPS_FILE)
    wanted = ("date", "randid", PVOPS_POWER, *PVOPS_COLUMNS.values())
    table = _table(path, wanted)
    times = _times(path, "date", table["date"])
    numbers = {
        name: _numbers(path, column, table[column])
        for name, column in {**PVOPS_COLUMNS, "power": PVOPS_POWER}.items()
    }
    names = np.array(table["randid"])
    return [
        _site(
            f"pvops {name}",
            path,
            times[names == name],
            {key: values[names == name] for key, values in numbers.items()},
            {},
            a_year=True,
        )
        for name in sorted(set(names))
    ]


def india(folder: Path) -> list[Site]:
    """Both plants; a row is the mean of the inverters that report in a quarter of an hour."""
    return [_indian(folder, number) for number in INDIA_PLANTS]


def _indian(folder: Path, number: int) -> Site:
    made = _file(folder, f"Plant_{number}_Generation_Data.csv")
    seen = _file(folder, f"Plant_{number}_Weather_Sensor_Data.csv")
    output = _table(made, ("DATE_TIME", "SOURCE_KEY", INDIA_POWER))
    weather = _table(seen, ("DATE_TIME", *INDIA_COLUMNS.values()))
    power = _numbers(made, INDIA_POWER, output[INDIA_POWER])
    stamps, place = np.unique(_times(made, "DATE_TIME", output["DATE_TIME"]), return_inverse=True)
    count = np.bincount(place)
    mean = np.bincount(place, weights=power) / count
    few = count < FEWEST_INVERTERS
    seen_at = _times(seen, "DATE_TIME", weather["DATE_TIME"])
    at = {stamp: row for row, stamp in enumerate(seen_at.tolist())}
    row = np.array([at.get(stamp, -1) for stamp in stamps.tolist()])
    left = {FEW_INVERTERS: int(few.sum()), NO_WEATHER: int(((row < 0) & ~few).sum())}
    keep = ~few & (row >= 0)
    numbers = {
        name: _numbers(seen, column, weather[column])[row[keep]]
        for name, column in INDIA_COLUMNS.items()
    }
    numbers["irradiance"] = 1000 * numbers["irradiance"]  # recorded in kW/m2
    return _site(f"india {number}", made, stamps[keep], {**numbers, "power": mean[keep]}, left)


def _site(
    name: str,
    path: Path,
    times: np.ndarray,
    numbers: dict[str, np.ndarray],
    dropped: dict[str, int],
    a_year: bool = False,
) -> Site:
    """Sort, and leave out rows with gaps, times recorded twice and powers below 0.

    Day and hour are inputs where ``a_year`` is on record; a few weeks do not show seasons.
    """
    order = np.argsort(times, kind="stable")
    times, numbers = times[order], {key: values[order] for key, values in numbers.items()}
    gap = ~np.all([np.isfinite(values) for values in numbers.values()], axis=0)
    below = ~gap & (np.nan_to_num(numbers["power"]) < 0)
    twice = ~(gap | below)
    twice[twice] = np.r_[False, np.diff(times[twice]) == 0]
    keep = ~(gap | below | twice)
    if keep.sum() < FEWEST_ROWS:
        raise DataError(
            f"{path}: {name} has {int(keep.sum())} sound rows; at least {FEWEST_ROWS} are needed"
        )
    reasons = {MISSING: gap.sum(), NEGATIVE: below.sum(), REPEATED: twice.sum()}
    dropped = {**dropped, **{reason: int(count) for reason, count in reasons.items()}}
    times = times[keep]
    day, minute = times // 1440, times % 1440
    inputs = {key: values[keep] for key, values in numbers.items() if key != "power"}
    return Site(
        name,
        inputs | ({"day": (day - day[0]).astype(float), "hour": minute / 60} if a_year else {}),
        numbers["power"][keep],
        day - day[0],
        minute,
        {reason: count for reason, count in dropped.items() if count},
    )


def _file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise DataError(f"{folder} has no {name} and no {name}.gz")


def _open(path: Path) -> TextIO:
    return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="")


def _table(path: Path, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The wanted columns of a file, as text."""
    try:
        with _open(path) as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = list(reader)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    missing = [name for name in wanted if name not in header]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]!r}; its columns are {', '.join(header) or 'none'}"
        )
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {number}: {len(row)} entries where {len(header)} columns are named"
            )
    return {name: [row[header.index(name)] for row in rows] for name in wanted}


def _numbers(path: Path, column: str, entries: Sequence[str]) -> np.ndarray:
    """An empty entry is missing; anything else must be a number."""
    found = np.empty(len(entries))
    for row, entry in enumerate(entries):
        try:
            found[row] = float(entry) if entry.strip() else np.nan
        except ValueError:
            raise DataError(
                f"{path}, line {row + 2}: column {column!r} holds {entry!r}, not a number"
            ) from None
    return found


def _times(path: Path, column: str, entries: Sequence[str]) -> np.ndarray:
    """Minutes since 1970, in one of the ways the files write them."""
    form = next((form for form in TIMES if entries and _parsed(entries[0], form) is not None), "")
    known = {entry: _parsed(entry, form) for entry in set(entries)}
    for row, entry in enumerate(entries):
        if known[entry] is None:
            raise DataError(
                f"{path}, line {row + 2}: column {column!r} holds {entry!r}, not a time"
            )
    return np.array([known[entry] for entry in entries], int)


def _parsed(entry: str, form: str) -> int | None:
    try:
        return int((datetime.strptime(entry, form) - datetime(1970, 1, 1)).total_seconds() // 60)
    except ValueError:
        return None
