"""Censored targets: rows of which only an interval is known that holds the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from prbnn.data.frames import numbers
from prbnn.errors import DataError, nearest

EXACT, AT_LEAST, AT_MOST, BETWEEN = WORDS = ("exact", "at least", "at most", "between")
LISTED = "'exact', 'at least', 'at most' or 'between'"


def from_zero(row: int) -> str:
    """What errors call a row of a table in memory."""
    return f"row {row} (from 0)"


@dataclass(frozen=True, eq=False)
class Intervals:
    """Ends of the interval that each target lies in, (rows, outputs), in the user's units.

    They are equal where the target is exact, and infinite where the interval is open.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        """(rows, outputs): whether the target itself is known."""
        return self.low == self.high

    @property
    def exact_rows(self) -> np.ndarray:
        """(rows,): whether every target of a row is known."""
        return np.all(self.exact, axis=1)

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """The words (rows, outputs) that say so, and the upper ends."""
        words = np.select(
            [self.exact, np.isposinf(self.high), np.isneginf(self.low)],
            [EXACT, AT_LEAST, AT_MOST],
            BETWEEN,
        )
        return words, self.high

    def take(self, rows: np.ndarray) -> Intervals:
        """The intervals of some rows, by positions or by a mask."""
        return Intervals(self.low[rows], self.high[rows])


def read_intervals(
    censored: Any,
    upper: Any,
    targets: np.ndarray,
    outputs: Sequence[str],
    called: Callable[[int], str] = from_zero,
) -> Intervals | None:
    """The intervals that words say targets lie in; None where there are no words.

    - ``censored``: words, one per row, or (rows, outputs), or a table with a column per censored output
    - ``upper``: upper ends of what is "between", of the same shape; other entries are not read
    - ``targets``: (rows, outputs), finite; the lower ends of what is "between"
    - ``called``: what errors call a row, by its position

    >>> found = read_intervals(["exact", "at least"], None, np.array([[1.0], [2.0]]), ("y",))
    >>> found.low.tolist(), found.high.tolist()
    ([[1.0], [2.0]], [[1.0], [inf]])
    """
    if censored is None:
        if upper is not None:
            raise DataError(
                "upper holds the upper ends of rows that are 'between'; also give censored, with one "
                f"word per row: {LISTED}"
            )
        return None
    words = _per_output(censored, "censored", targets.shape, outputs, EXACT)
    ends = None if upper is None else _per_output(upper, "upper", targets.shape, outputs, np.nan)
    low, high = targets.copy(), targets.copy()
    for place, name in enumerate(outputs):
        kinds = _kinds(words[:, place], name, called)
        high[kinds == AT_LEAST, place] = np.inf
        low[kinds == AT_MOST, place] = -np.inf
        between = np.flatnonzero(kinds == BETWEEN)
        if len(between):
            column = None if ends is None else ends[:, place]
            high[between, place] = _upper_ends(column, between, targets[:, place], name, called)
    return Intervals(low, high)


def _kinds(words: np.ndarray, name: str, called: Callable[[int], str]) -> np.ndarray:
    """The words of one output in their usual spelling; anything else raises and names the row."""
    found = np.empty(len(words), object)
    for row, word in enumerate(words):
        text = " ".join(word.lower().replace("_", " ").split()) if isinstance(word, str) else None
        if text not in WORDS:
            missing = word is None or word != word or text == ""
            hint = "" if text is None else nearest(text, WORDS)
            raise DataError(
                f"censored: {called(row)} of {name!r} "
                + (f"has no word{hint}" if missing else f"is {word!r}{hint}")
                + f"; write {LISTED}",
                name,
            )
        found[row] = text
    return found


def _upper_ends(
    column: np.ndarray | None,
    rows: np.ndarray,
    lower: np.ndarray,
    name: str,
    called: Callable[[int], str],
) -> np.ndarray:
    """Upper ends of the ``rows`` that are between; a missing one, or one not above the lower, raises."""
    if column is None:
        raise DataError(
            f"censored: {called(int(rows[0]))} of {name!r} is 'between', and there is no upper; give "
            "upper, with the upper end of each such row",
            name,
        )
    found = numbers(column[rows], "upper")
    for row, end in zip(rows, found, strict=True):
        if not np.isfinite(end):
            raise DataError(
                f"censored: {called(row)} of {name!r} is 'between', and its upper end is {end}; "
                "fill it in, or write 'at least' if nothing is known above",
                name,
            )
        if not end > lower[row]:
            raise DataError(
                f"censored: {called(row)} of {name!r} is 'between' {lower[row]:g} and {end:g}; the upper "
                f"end must be above the lower, which is the target. Write 'exact' if they are the same",
                name,
            )
    return found


def _per_output(
    values: Any, what: str, shape: tuple[int, ...], outputs: Sequence[str], rest: Any
) -> np.ndarray:
    """``values`` as an array of objects (rows, outputs); outputs without a column have ``rest``."""
    table = _columns(values)
    if table is not None:
        strange = [name for name in table if name not in outputs]
        if strange and not (len(table) == 1 and len(outputs) == 1):
            raise DataError(
                f"{what} has a column {strange[0]!r}{nearest(strange[0], outputs)}; its columns have the "
                f"names of targets: {', '.join(map(repr, outputs))}",
                strange[0],
            )
        if len(outputs) == 1:
            table = {outputs[0]: next(iter(table.values()))}
        found = np.full(shape, rest, object)
        for place, name in enumerate(outputs):
            if name in table:
                column = np.asarray(table[name], object)
                if column.shape != shape[:1]:
                    raise _wrong_shape(what, column.shape, shape)
                found[:, place] = column
        return found
    native = nw.from_native(values, series_only=True, pass_through=True)
    array = np.asarray(native.to_numpy() if isinstance(native, nw.Series) else values, object)
    if array.ndim == 1 and shape[1] == 1:
        array = array[:, None]
    if array.shape != shape:
        raise _wrong_shape(what, array.shape, shape)
    return array


def _columns(values: Any) -> dict[str, Any] | None:
    """The columns of a data frame or a dict by name; None for anything else."""
    if isinstance(values, Mapping):
        return {str(name): column for name, column in values.items()}
    frame = nw.from_native(values, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    return {str(column.name): column.to_numpy() for column in frame.iter_columns()}


def _wrong_shape(what: str, got: tuple[int, ...], wanted: tuple[int, ...]) -> DataError:
    rows, outputs = wanted
    needed = f"one entry per row ({rows} rows)" if outputs == 1 else f"the shape {wanted} of y"
    return DataError(f"{what} has shape {got}, and needs {needed}")
