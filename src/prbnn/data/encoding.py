"""Columns of any kind as numbers: learned from one table, said in words, repeated on the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from pydantic import TypeAdapter

from prbnn.data.dates import DATE_PARTS, as_dates, date_format, parts_of
from prbnn.errors import DataError, nearest, shortened

if TYPE_CHECKING:
    import pandas as pd

ColumnKind = Literal["number", "yes/no", "category", "date", "left out"]
Missing = Literal["error", "drop", "impute"]
T = TypeVar("T")
# more texts than this are names of rows, not categories
MOST_CATEGORIES = 20
# a text column is one of numbers with slips where at least this share are numbers
MOSTLY = 0.5
LARGEST = 1e100
YES = {"yes", "true", "y", "t", "on"}
NO = {"no", "false", "n", "f", "off"}


@dataclass(frozen=True)
class Column:
    """One column of the file and the input columns it becomes.

    - `values`: of a category, its texts; of yes/no, (no, yes); of a date, its parts
    - `format`: of a date, how it is written, the same in every file
    - `fill`: what stands for a missing cell where those are imputed
    """

    name: str
    kind: ColumnKind
    values: tuple[str, ...] = ()
    format: str = ""
    fill: float | str | None = None
    because: str = ""

    def __post_init__(self) -> None:
        """Refuse values that make no such column; a record may say anything."""
        right = {
            "yes/no": len(self.values) == 2,
            "category": len(self.values) > 1,
            "date": bool(self.values) and set(self.values) <= set(DATE_PARTS),
        }
        if not right.get(self.kind, True):
            raise ValueError(f"column {self.name!r}: {self.kind} does not go with {self.values!r}")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns it becomes."""
        match self.kind:
            case "category":
                return tuple(f"{self.name}={value}" for value in self.values)
            case "date":
                return tuple(f"{self.name}_{part}" for part in self.values)
            case "left out":
                return ()
        return (self.name,)

    def __str__(self) -> str:
        match self.kind:
            case "number":
                return f"{self.name}: numbers"
            case "yes/no":
                return f"{self.name}: {self.values[1]} is 1, {self.values[0]} is 0"
            case "category":
                return f"{self.name}: one 0/1 column each for {', '.join(self.values)}"
            case "date":
                return f"{self.name}: a date, as {' and '.join(self.inputs)}"
        return f"{self.name}: left out, {self.because}"


@dataclass(frozen=True)
class Encoding:
    """How a file's columns became inputs; the same for every later file."""

    columns: tuple[Column, ...]
    missing: Missing = "error"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input columns, in order."""
        return tuple(name for column in self.columns for name in column.inputs)

    def categories(self, stated: Sequence[str] = ()) -> tuple[str, ...]:
        """Input columns that take only their values: of text and yes/no, and of columns named as such.

        ``stated`` are columns of the file or inputs; numbers among them stay one column each.
        """
        found = {
            name
            for column in self.columns
            if column.kind in ("yes/no", "category")
            for name in column.inputs
        }
        of_file = {column.name: column for column in self.columns}
        for name in stated:
            column = of_file.get(name)
            if column is not None and column.kind in ("date", "left out"):
                raise DataError(f"{name!r} cannot be a category. In the file, {column}")
            if column is None and name not in self.inputs:
                known = (*of_file, *self.inputs)
                raise DataError(f"categories: no input column {name!r}{nearest(name, known)}")
            found.update((name,) if column is None else column.inputs)
        return tuple(name for name in self.inputs if name in found)

    @property
    def used(self) -> tuple[Column, ...]:
        """Columns of the file that are read."""
        return tuple(column for column in self.columns if column.kind != "left out")

    def notes(self) -> list[str]:
        """In words, what was done to columns that are not plain numbers."""
        return [str(column) for column in self.columns if column.kind != "number"]

    def to_plain(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Encoding:
        """Back from a JSON file; a TypeError or ValueError says what is of the wrong kind."""
        columns = tuple(checked(Column, column) for column in plain["columns"])
        return checked(Encoding, {**plain, "columns": columns})


def checked(kind: type[T], plain: Mapping[str, Any]) -> T:
    """A dataclass of plain values, each of the type that it declares; others raise."""
    known = set(kind.__annotations__)
    if not isinstance(plain, Mapping) or not set(plain) <= known:
        raise TypeError(f"{kind.__name__} takes {', '.join(sorted(known))}, got {plain!r:.80}")
    return TypeAdapter(kind).validate_python(dict(plain))


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as numbers: `rows` are the places in the file, `notes` what was done."""

    values: np.ndarray
    names: tuple[str, ...]
    rows: np.ndarray
    notes: list[str] = field(default_factory=list)


def learn(
    frame: pd.DataFrame, missing: Missing = "error", train: np.ndarray | None = None
) -> Encoding:
    """Decide how each column of ``frame`` is read; a column that cannot be is told.

    What stands for missing cells comes from the rows that ``train`` alone.
    """
    columns = [read_column(frame[name], str(name)) for name in frame.columns]
    rows = frame if train is None else frame[train]
    filled = tuple(replace(c, fill=_fill(rows[c.name], c)) for c in columns)
    encoding = Encoding(filled, missing)
    if not encoding.inputs:
        told = "; ".join(map(str, columns))
        raise DataError(f"no input column is left: {told}")
    return encoding


def apply(
    encoding: Encoding,
    frame: pd.DataFrame,
    what: str = "the table",
    missing: Missing | None = None,
) -> EncodedTable:
    """``frame`` as numbers, the way ``encoding`` says; missing cells are told, dropped or filled.

    ``missing`` is what the encoding says unless given.
    """
    encoding = replace(encoding, missing=missing or encoding.missing)
    _check_columns(encoding, frame, what)
    raw = {column.name: _cells(frame[column.name], column, what) for column in encoding.used}
    absent = {name: np.isnan(cells).any(axis=1) for name, cells in raw.items()}
    counts = {name: int(gone.sum()) for name, gone in absent.items() if gone.any()}
    rows, notes = np.arange(len(frame)), []
    if counts and encoding.missing == "error":
        raise DataError(missing_text(counts, len(frame), what))
    if counts and encoding.missing == "drop":
        whole = ~np.any(list(absent.values()), axis=0)
        if not whole.any():
            raise DataError(f"{what}: every row has a missing value; use --missing impute")
        rows = rows[whole]
        notes.append(f"{len(frame) - len(rows)} of {len(frame)} rows with missing values dropped")
    if counts and encoding.missing == "impute":
        raw = {c.name: _filled(raw[c.name], c) for c in encoding.used}
        notes.append(f"missing values filled: {_counts(counts)}")
    values = np.concatenate([raw[column.name][rows] for column in encoding.used], axis=1)
    return EncodedTable(values, encoding.inputs, rows, notes)


def missing_text(counts: dict[str, int], rows: int, what: str) -> str:
    """Missing cells counted by column, and what can be done."""
    return (
        f"{what} has missing values in {_counts(counts)} of {rows} rows. Fill them, or say --missing "
        "drop to leave those rows out, or --missing impute to put the column's middle value in"
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name!r}: {count}" for name, count in counts.items())


def read_column(series: pd.Series, name: str) -> Column:
    """What a column holds and how it is used; text among numbers is refused."""
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
        raise DataError(_not_numbers(name, texts, numbers))
    return _text(name, texts)


def _not_numbers(name: str, texts: pd.Series, numbers: pd.Series) -> str:
    wrong = texts[~numbers]
    shown = ", ".join(
        f"{shortened(text, 60)} in row {place + 1}" for place, text in list(wrong.items())[:3]
    )
    first = list(wrong.index) == [0]
    units = " That looks like a line of units: delete it." if first and len(texts) > 2 else ""
    return (
        f"column {name!r} holds numbers, and text in {len(wrong)} row(s): {shown}.{units} Mend those "
        "cells (leave a missing value empty), or leave the column out of the fit with --drop"
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
            f"{shortened(odd.iloc[0], 60)}; write plain numbers, without units, percent signs or blanks"
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
        return Column(name, "left out", because="all its dates are one")
    return Column(name, "date", kept, written)


def _cells(series: pd.Series, column: Column, what: str) -> np.ndarray:
    """(rows, inputs) of one column, nan where a cell is missing."""
    import pandas as pd

    gone = series.isna().to_numpy()
    if column.kind == "number":
        numbers = pd.to_numeric(series, errors="coerce")
        slips = numbers.isna().to_numpy() & ~gone
        if slips.any():
            texts = series.astype(str)
            right = pd.Series(~slips, index=series.index)
            raise DataError(f"{what}: {_not_numbers(column.name, texts, right)}")
        values = numbers.to_numpy(float, na_value=np.nan)
        check_size(values, f"{what}: column {column.name!r}")
        return values[:, None]
    if column.kind == "date":
        if not pd.api.types.is_datetime64_any_dtype(series):
            dates = as_dates(series.dropna().astype(str).str.strip(), column.format)
            if dates.isna().any():
                wrong = series[dates.index[dates.isna()][0]]
                raise DataError(
                    f"{what}: column {column.name!r} has {wrong!r}, which is no date as the fit has "
                    f"seen them ({column.format})"
                )
            series = dates.reindex(series.index)
        parts = parts_of(series)
        return np.column_stack([parts[part] for part in column.values])
    texts = series.astype(str).str.strip()
    strange = sorted(set(texts[~gone]) - set(column.values))
    if strange:
        known = ", ".join(map(repr, column.values))
        raise DataError(
            f"{what}: column {column.name!r} has {shortened(strange[0], 60)}, which the fit has not "
            f"seen; it knows {known}"
        )
    if column.kind == "yes/no":
        cells = (texts == column.values[1]).to_numpy(float)[:, None]
    else:
        cells = (texts.to_numpy()[:, None] == np.array(column.values)).astype(float)
    cells[gone] = np.nan
    return cells


def check_size(values: np.ndarray, what: str) -> None:
    """Refuse numbers that no network can work with."""
    wrong = np.abs(values) > LARGEST
    if wrong.any():
        raise DataError(
            f"{what} has {int(wrong.sum())} infinite or absurdly large value(s), such as "
            f"{values[wrong][0]:g}"
        )


def _fill(series: pd.Series, column: Column) -> float | str | None:
    """The median of numbers, the most frequent of texts; a date cannot be made up."""
    present = series.dropna()
    if not len(present):
        return None
    if column.kind == "number":
        return float(present.astype(float).median())
    if column.kind in ("yes/no", "category"):
        return str(present.astype(str).str.strip().mode().iloc[0])
    return None


def _filled(cells: np.ndarray, column: Column) -> np.ndarray:
    gone = np.isnan(cells).any(axis=1)
    if not gone.any():
        return cells
    if column.fill is None:
        raise DataError(
            f"column {column.name!r} has {gone.sum()} missing value(s) which cannot be made up (a "
            "date, or nothing to go by); use --missing drop, or leave it out"
        )
    cells = cells.copy()
    if column.kind == "number":
        cells[gone] = float(column.fill)
    elif column.kind == "yes/no":
        cells[gone] = float(column.fill == column.values[1])
    else:
        cells[gone] = [float(column.fill == value) for value in column.values]
    return cells


def _check_columns(encoding: Encoding, frame: pd.DataFrame, what: str) -> None:
    known = [str(name) for name in frame.columns]
    absent = [column.name for column in encoding.used if column.name not in known]
    if absent:
        hints = "; ".join(f"{name!r}{nearest(name, known)}" for name in absent)
        raise DataError(
            f"{what} lacks {len(absent)} column(s) that the model was fitted with: {hints}"
        )


def chosen(
    frame: pd.DataFrame, target: str, inputs: Sequence[str] = (), drop: Sequence[str] = ()
) -> pd.DataFrame:
    """The input columns of a table: those asked for, or all but the target and those dropped."""
    known = [str(name) for name in frame.columns]
    for name in (target, *inputs, *drop):
        if name not in known:
            raise DataError(f"there is no column {name!r}{nearest(name, known)}")
    if target in inputs:
        raise DataError(f"{target!r} is the target; it cannot be an input, too")
    wanted = list(inputs) or [name for name in known if name != target]
    return frame[[name for name in wanted if name not in drop]]
