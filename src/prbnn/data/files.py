"""Reads CSV and Parquet files; finds the delimiter, the decimal mark and the text encoding."""

from __future__ import annotations

import csv
import difflib
import re
import warnings
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prbnn.errors import DataError, shortened

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = ",;\t|"
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# how much of a file is examined to find its format
SAMPLE_BYTES, SAMPLE_LINES = 1 << 20, 2000
MOST_COLUMNS = 10_000
# of a Parquet file, which may be far smaller than its table
MOST_CELLS = 100_000_000
# texts for a missing value, beside those that pandas knows
NOTHING = ["?", "-", "--"]
COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+")
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+,\d+")


@dataclass(frozen=True)
class CsvFormat:
    """Delimiter, decimal mark, text encoding and thousands separator of a CSV file."""

    delimiter: str
    decimal: str
    encoding: str
    thousands: str | None = None

    def __str__(self) -> str:
        decimal = ", decimal commas" if self.decimal == "," else ""
        return f"columns separated by {NAMES[self.delimiter]}{decimal}"


def read_file(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The table in the CSV or Parquet file ``path``, and notes on how it was read."""
    path = Path(path)
    _check_there(path)
    # a pipe or device may never end, and cannot be read twice
    if not path.is_file():
        raise DataError(f"{path} is a pipe or a device; save the table as a file first")
    if path.suffix.lower() in (".parquet", ".pq"):
        frame, notes = _parquet(path), []
    else:
        frame, notes = _csv(path)
    _check_shape(path, frame)
    return frame, notes


def _check_there(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a CSV or Parquet file in it")
    if path.exists():
        return
    beside = path.parent if path.parent.is_dir() else Path()
    close = difflib.get_close_matches(path.name, [p.name for p in beside.iterdir()], n=1)
    hint = f"; did you mean {beside / close[0]}?" if close else ""
    raise DataError(f"there is no file {path}{hint}")


def _parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        _check_parquet(path)
        frame = pd.read_parquet(path)
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow; install it with pip install 'prbnn[parquet]', or "
            "save the table as CSV"
        ) from None
    except DataError:
        raise
    except Exception as error:
        said = str(error)[:500]
        raise DataError(f"{path} is not a Parquet file that can be read: {said}") from None
    # what pandas notes in a file may make other things than text of names
    frame.columns = [str(name).strip() for name in frame.columns]
    _check_names(path, list(frame.columns))
    return frame


def _check_parquet(path: Path) -> None:
    """Raise on a file of a few bytes that says a billion times the same."""
    found = import_module("pyarrow.parquet").read_metadata(path)
    if found.num_columns > MOST_COLUMNS:
        raise _too_many(path, found.num_columns)
    cells = found.num_columns * found.num_rows
    if cells > MOST_CELLS:
        raise DataError(
            f"{path} has {found.num_rows:,} rows of {found.num_columns:,} columns, {cells:,} cells; at "
            f"most {MOST_CELLS:,} are read. Take a part of the rows"
        )


def _csv(path: Path) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    text, encoding = _text(path)
    lines = _sample(text)
    if not lines:
        raise DataError(f"{path} is empty; a CSV file needs a line of column names and rows below")
    widest = 1 + max(lines[0].count(mark) for mark in DELIMITERS)
    if widest > MOST_COLUMNS:
        raise _too_many(path, widest)
    try:
        delimiter = _delimiter(lines)
        _check_header(path, lines, delimiter)
        decimal, thousands = _decimal(lines, delimiter)
    except csv.Error as error:
        raise DataError(
            f"{path} cannot be read as a table: {error}. Is there a cell of more than "
            f"{csv.field_size_limit():,} characters, or a quote that is not closed?"
        ) from None
    written = CsvFormat(delimiter, decimal, encoding, thousands)
    try:
        with warnings.catch_warnings():
            # rows longer than the header: pandas would drop their last cells
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                path,
                sep=delimiter,
                decimal=written.decimal,
                thousands=written.thousands,
                encoding=encoding,
                na_values=NOTHING,
                skipinitialspace=True,
                low_memory=False,
                index_col=False,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError, OverflowError) as error:
        said = str(error).strip()
        remedy = (
            "Every line needs as many cells as there are column names; remove lines above the names"
        )
        if "EOF inside string" in said:
            remedy = "There is a quote that is not closed: close it, or take it out"
        raise DataError(
            f"{path} cannot be read as a table with {written}: {said[:500]}. {remedy}"
        ) from None
    frame.columns = [str(name).strip() for name in frame.columns]
    for name, kind in frame.dtypes.items():
        if kind == np.dtype(object) and _holds_large_numbers(frame[name]):
            frame[name] = frame[name].astype(str).astype(float)
    plain = written == CsvFormat(",", ".", "utf-8-sig")
    notes = (
        [] if plain else [f"read as a file with {written}, {encoding.removesuffix('-sig')} text"]
    )
    unnamed = [name for name in frame.columns if name.startswith("Unnamed:")]
    if unnamed:
        frame = frame.drop(columns=unnamed)
        notes.append(
            f"{len(unnamed)} column(s) without a name left out (often row numbers saved with the table)"
        )
    return frame, notes


def _holds_large_numbers(column: pd.Series) -> bool:
    """Numbers only, of which one is too large for 64 bits: pandas 2 reads text, pandas 3 Python's own."""
    cells = column.dropna()
    return bool(len(cells)) and all(NUMBER.fullmatch(str(cell)) for cell in cells)


def _sample(text: str) -> list[str]:
    """The first line and lines spread over the rest: zeros of a night may fill the first thousand."""
    lines = [line for line in text.splitlines() if line.strip()]
    step = max(1, len(lines) // SAMPLE_LINES)
    return lines[:1] + lines[1::step]


def _text(path: Path) -> tuple[str, str]:
    """The first part of a file as text, and its encoding."""
    with path.open("rb") as file:
        piece = start = file.read(SAMPLE_BYTES)
        while piece:
            # pandas would cut a cell there, and say nothing
            if b"\0" in piece:
                raise DataError(
                    f"{path} is not text (a spreadsheet?); save it as CSV, or name a .parquet file"
                )
            piece = file.read(SAMPLE_BYTES)
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            # the last character may be cut in two
            return start.decode(
                encoding, "ignore" if len(start) == SAMPLE_BYTES else "strict"
            ), encoding
        except UnicodeDecodeError:
            continue
    raise DataError(f"{path} is neither UTF-8 nor Windows text; save it as UTF-8")


def _delimiter(lines: list[str]) -> str:
    """The delimiter by which most rows have as many cells as the header."""

    def cells(delimiter: str) -> tuple[int, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        agree = sum(count == counts[0] for count in counts)
        return (agree * (counts[0] > 1), counts[0])

    return max(DELIMITERS, key=cells)


def _decimal(lines: list[str], delimiter: str) -> tuple[str, str | None]:
    """The decimal mark (a comma if a column of numbers has cells like 1,5) and thousands separator."""
    if delimiter == ",":
        return ".", None
    rows = list(csv.reader(lines[1:], delimiter=delimiter))
    width = max((len(row) for row in rows), default=0)
    columns = [[row[k].strip() for row in rows if k < len(row)] for k in range(width)]
    found = [[cell for cell in column if COMMA.fullmatch(cell)] for column in columns]
    if not any(commas and _numeric(cells) for commas, cells in zip(found, columns, strict=True)):
        return ".", None
    grouped = any(THOUSANDS.fullmatch(cell) for cells in found for cell in cells)
    return ",", "." if grouped else None


def _numeric(column: list[str]) -> bool:
    """Whether more than half of the cells are numbers, possibly with decimal commas."""
    cells = [cell for cell in column if cell and cell not in NOTHING]
    return sum(_is_number(cell.replace(".", "")) for cell in cells) > 0.5 * len(cells)


def _check_header(path: Path, lines: list[str], delimiter: str) -> None:
    names = [name.strip() for name in next(csv.reader(lines[:1], delimiter=delimiter))]
    if names and all(_is_number(name) for name in names if name):
        first = ", ".join(name[:40] for name in names[:3])
        raise DataError(
            f"{path}: the first line holds numbers ({first}...), not column names; add a line of names "
            "at the top"
        )
    _check_names(path, names)


def _check_names(path: Path, names: list[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if name and count > 1)
    if twice:
        listed = shortened(", ".join(twice))[1:-1]
        raise DataError(f"{path} has columns of the same name: {listed}; rename one")


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _check_shape(path: Path, frame: pd.DataFrame) -> None:
    if frame.shape[1] < 2:
        raise DataError(
            f"{path} has one column, {str(frame.columns[0])!r}; a fit needs a target and an input. If "
            "it has more, separate them by commas, semicolons, tabs or bars"
            if frame.shape[1]
            else f"{path} has no columns"
        )
    if not len(frame):
        raise DataError(f"{path} has column names and no rows")
    if frame.shape[1] > MOST_COLUMNS:
        raise _too_many(path, frame.shape[1])


def _too_many(path: Path, columns: int) -> DataError:
    return DataError(
        f"{path} has {columns:,} columns or more; at most {MOST_COLUMNS:,} are read. Keep those that "
        "matter"
    )


@contextmanager
def with_path(path: Path) -> Generator[None]:
    """Errors inside about a table get the ``path`` of its file in front of their message."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{path}: {error}", error.column) from None
