"""Tables of aircraft broadcasts, in whatever format and by whichever of the usual column names."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prbnn import DataError
from prbnn_studies.landing.tracks import VARIABLES

FILE = Path("adsb_paris_quickstart") / "quickstart.json.gz"
ENDINGS = (".csv", ".csv.gz", ".json", ".json.gz", ".parquet")

# meaning: the names it goes by, and what turns the unit that such a column has into s, deg, ft, kt
FEET, KNOTS = 1 / 0.3048, 3600 / 1852  # ft per m; kt per m/s
NAMES = {
    "time": {"timestamp": 1.0, "time": 1.0},
    "latitude": {"latitude": 1.0, "lat": 1.0},
    "longitude": {"longitude": 1.0, "lon": 1.0},
    "altitude": {"altitude": 1.0, "baroaltitude": FEET, "geoaltitude": FEET},
    "speed": {"groundspeed": 1.0, "velocity": KNOTS},
    "course": {"track": 1.0, "heading": 1.0},
}
AIRCRAFT, ON_GROUND = "icao24", ("true", "1", "1.0")
TAXI_SPEED = 60.0  # kt; slower is on the ground, where no column says so


class Broadcasts(NamedTuple):
    """The rows of a file: (rows, time and VARIABLES) in s, deg, ft and kt; NaN where unknown."""

    file: Path
    flights: np.ndarray  # (rows,) str
    rows: np.ndarray
    airborne: np.ndarray  # (rows,) bool
    notes: tuple[str, ...]


def read(path: Path) -> Broadcasts:
    """A file's rows, or those of the one such file in a folder.

    `baroaltitude`, `geoaltitude` and `velocity` are in m and m/s, as OpenSky has them, `altitude`
    and `groundspeed` in ft and kt. Dates without a zone are in UTC.

    >>> read(Path("nowhere.csv"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    prbnn.errors.DataError: no file nowhere.csv; needed: a table of broadcasts...
    """
    file = _file(Path(path))
    columns = {name.strip().lower(): values for name, values in _columns(file).items()}
    names = _chosen(file, columns)
    factors = [NAMES[meaning][name] for meaning, name in names.items()]
    rows = np.column_stack([_numbers(file, name, columns[name]) for name in names.values()])
    rows *= factors
    while np.nanmax(rows[:, 0], initial=0) > 1e11:  # milli-, micro- or nanoseconds
        rows[:, 0] /= 1000
    metric = [name for name, factor in zip(names.values(), factors, strict=True) if factor != 1]
    notes = (f"m and m/s turned into ft and kt: {', '.join(metric)}",) if metric else ()
    signs = [str(sign or "").strip() for sign in columns.get("callsign", [""] * len(rows))]
    named = zip(signs, columns[AIRCRAFT], strict=True)
    flights = np.array([f"{sign}-{aircraft}".lstrip("-") for sign, aircraft in named])
    if "onground" in columns:
        airborne = np.array([str(flag).lower() not in ON_GROUND for flag in columns["onground"]])
    else:
        airborne = rows[:, 1 + VARIABLES.index("speed")] >= TAXI_SPEED
    return Broadcasts(file, flights, rows, airborne, notes)


def _chosen(file: Path, columns: dict[str, Sequence[Any]]) -> dict[str, str]:
    """The column of every meaning."""
    found = {
        meaning: [name for name in synonyms if name in columns]
        for meaning, synonyms in NAMES.items()
    }
    missing = [" or ".join(NAMES[meaning]) for meaning, names in found.items() if not names]
    missing += [AIRCRAFT] if AIRCRAFT not in columns else []
    if missing:
        raise DataError(
            f"{file}: missing columns: {'; '.join(missing)}; found: {', '.join(columns)}"
        )
    if not len(columns[AIRCRAFT]):
        raise DataError(f"{file} has columns and no rows")
    return {meaning: names[0] for meaning, names in found.items()}


def _file(path: Path) -> Path:
    if path.is_file():
        return path
    if (path / FILE).is_file():
        return path / FILE
    found = list(path.glob("*")) if path.is_dir() else []
    found = [file for file in found if file.name.endswith(ENDINGS)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} tables in {path}" if path.is_dir() else f"no file {path}"
    raise DataError(f"{what}; needed: a table of broadcasts, one of {', '.join(ENDINGS)}")


def _columns(file: Path) -> dict[str, Sequence[Any]]:
    """The columns of a file by name, whatever its format."""
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        if file.suffix == ".parquet":
            import pyarrow.parquet  # ty: ignore[import-not-found]

            return pyarrow.parquet.read_table(file).to_pydict()
        with opened(file, "rt", encoding="utf-8-sig", newline="") as lines:
            records = json.load(lines) if ".json" in file.suffixes else list(csv.DictReader(lines))
    except ImportError as error:
        raise DataError(
            f"{file}: parquet needs pyarrow (pip install pyarrow), or use csv"
        ) from error
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise DataError(f"{file} cannot be read: {error}") from error
    if not isinstance(records, list) or not records or not isinstance(records[0], dict):
        raise DataError(f"{file} is empty or no list of records; needed: a record for each message")
    return {str(name): [row.get(name) for row in records] for name in records[0]}


def _numbers(file: Path, name: str, values: Sequence[Any]) -> np.ndarray:
    try:
        return np.array([_number(value) for value in values], float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{file}: column {name!r} has an entry that is no number: {error}"
        ) from error


def _number(value: Any) -> float:
    """A number, or the seconds since 1970 of a date; dates without a zone are in UTC."""
    if value is None or value == "":
        return np.nan
    if isinstance(value, str) and "-" in value[1:] and ":" in value:
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return float(value)
