"""A table from a file as numbers: an encoding learned from one table, and applied to others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from prbnn.data.column_kinds import not_numbers, read_column
from prbnn.data.dates import as_dates, parts_of
from prbnn.data.encoding import Column, Encoding, Missing
from prbnn.errors import DataError, nearest, shortened

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as numbers.

    - `values`: (rows, inputs)
    - `names`: of the inputs
    - `rows`: position in the file of each row, counted from 0
    - `notes`: what was done about missing values
    """

    values: np.ndarray
    names: tuple[str, ...]
    rows: np.ndarray
    notes: list[str] = field(default_factory=list)


def learn_encoding(
    frame: pd.DataFrame, missing: Missing = "error", train: np.ndarray | None = None
) -> Encoding:
    """Decide how each column of ``frame`` is read; a column that cannot be read raises.

    ``missing`` is kept in the encoding. The values of missing cells are computed from the rows where
    the mask ``train`` is True, so that held-out rows do not influence them.
    """
    columns = [read_column(frame[name], str(name)) for name in frame.columns]
    rows = frame if train is None else frame[train]
    filled = tuple(replace(c, fill=_fill(rows[c.name], c)) for c in columns)
    encoding = Encoding(filled, missing)
    if not encoding.inputs:
        listed = "; ".join(map(str, columns))
        raise DataError(f"no input column is left: {listed}")
    return encoding


def encode(
    encoding: Encoding,
    frame: pd.DataFrame,
    what: str = "the table",
    missing: Missing | None = None,
) -> EncodedTable:
    """``frame`` as numbers, as ``encoding`` says; errors call the table ``what``.

    ``missing`` replaces the encoding's own choice for missing cells: raise, drop the row, or impute.
    """
    encoding = replace(encoding, missing=missing or encoding.missing)
    _check_columns(encoding, frame, what)
    raw = {column.name: _cells(frame[column.name], column, what) for column in encoding.used}
    absent = {name: np.isnan(cells).any(axis=1) for name, cells in raw.items()}
    counts = {name: int(gone.sum()) for name, gone in absent.items() if gone.any()}
    rows, notes = np.arange(len(frame)), []
    if counts and encoding.missing == "error":
        raise DataError(missing_text(counts, len(frame), what), _only(counts))
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
    """An error message with the number of missing cells per column, and what can be done."""
    return (
        f"{what} has missing values in {_counts(counts)} of {rows} rows. Fill them, or say --missing "
        "drop to leave those rows out, or --missing impute to fill in the median or most frequent value"
    )


def _only(names: Collection[str]) -> str | None:
    """The column at fault, where it is only one."""
    return next(iter(names)) if len(names) == 1 else None


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name!r}: {count}" for name, count in counts.items())


def _cells(series: pd.Series, column: Column, what: str) -> np.ndarray:
    """The inputs that one column becomes, (rows, inputs), nan where a cell is missing."""
    import pandas as pd

    gone = series.isna().to_numpy()
    if column.kind == "number":
        numbers = pd.to_numeric(series, errors="coerce")
        slips = numbers.isna().to_numpy() & ~gone
        if slips.any():
            texts = series.astype(str)
            right = pd.Series(~slips, index=series.index)
            raise not_numbers(column.name, texts, right, f"{what}: ")
        values = numbers.to_numpy(float, na_value=np.nan)
        check_size(values, f"{what}: column {column.name!r}", column.name)
        return values[:, None]
    if column.kind == "date":
        if not pd.api.types.is_datetime64_any_dtype(series):
            dates = as_dates(series.dropna().astype(str).str.strip(), column.format)
            if dates.isna().any():
                wrong = series[dates.index[dates.isna()][0]]
                raise DataError(
                    f"{what}: column {column.name!r} has {wrong!r}, which does not match the "
                    f"date format of the training file ({column.format}); rewrite it",
                    column.name,
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
            f"seen; it knows {known}",
            column.name,
        )
    if column.kind == "yes/no":
        cells = (texts == column.values[1]).to_numpy(float)[:, None]
    else:
        cells = (texts.to_numpy()[:, None] == np.array(column.values)).astype(float)
    cells[gone] = np.nan
    return cells


def check_size(values: np.ndarray, what: str, column: str) -> None:
    """Raise where ``values`` of a ``column``, called ``what``, are too large to compute with."""
    wrong = np.abs(values) > LARGEST
    if wrong.any():
        raise DataError(
            f"{what} has {int(wrong.sum())} infinite or absurdly large value(s), such as "
            f"{values[wrong][0]:g}",
            column,
        )


def _fill(series: pd.Series, column: Column) -> float | str | None:
    """The median of numbers, the most frequent text; None for dates, which cannot be imputed."""
    import pandas as pd

    present = series.dropna()
    if not len(present):
        return None
    if column.kind == "number":
        # text such as "\x1e4" is a number for some of pandas; `encode` names it
        return float(pd.to_numeric(present, errors="coerce").astype(float).median())
    if column.kind in ("yes/no", "category"):
        return str(present.astype(str).str.strip().mode().iloc[0])
    return None


def _filled(cells: np.ndarray, column: Column) -> np.ndarray:
    gone = np.isnan(cells).any(axis=1)
    if not gone.any():
        return cells
    if column.fill is None:
        raise DataError(
            f"column {column.name!r} has {gone.sum()} missing value(s) which cannot be imputed (it is a "
            "date, or empty in training rows); use --missing drop, or leave it out",
            column.name,
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
            f"{what} lacks {len(absent)} column(s) that the model was fitted with: {hints}",
            _only(absent),
        )


def input_columns(
    frame: pd.DataFrame, target: str, inputs: Sequence[str] = (), drop: Sequence[str] = ()
) -> pd.DataFrame:
    """The columns ``inputs`` of ``frame``, or all but the ``target``, without those in ``drop``."""
    known = [str(name) for name in frame.columns]
    for name in (target, *inputs, *drop):
        if name not in known:
            raise DataError(f"there is no column {name!r}{nearest(name, known)}", name)
    if target in inputs:
        raise DataError(f"{target!r} is the target; it cannot be an input, too", target)
    wanted = list(inputs) or [name for name in known if name != target]
    return frame[[name for name in wanted if name not in drop]]
