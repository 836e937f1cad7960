"""Sequences from arrays or from a long table, turned into rows with a layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from prbnn.data.frames import not_numeric, numbers, refuse_masked
from prbnn.data.layout import Layout
from prbnn.errors import DataError, nearest


class Sequences(NamedTuple):
    """Sequences of equal length, in the user's units.

    - `names`: of the sequences
    - `observed`: (sequences, steps, variables), padded at the front where fewer steps were seen
    - `seen`: number of steps that were seen, per sequence
    - `static`: (sequences, static columns)
    - `ahead`: (sequences, steps, outputs), None where it is to be predicted
    """

    names: np.ndarray
    observed: np.ndarray
    seen: np.ndarray
    static: np.ndarray
    ahead: np.ndarray | None

    def rows(self) -> np.ndarray:
        """One row per sequence, as a `Layout` describes it."""
        count, steps = self.observed.shape[:2]
        flat = self.observed.reshape(count, -1)
        return np.concatenate([flat, self.static, self.seen[:, None] / steps], axis=1)

    def targets(self) -> np.ndarray:
        """The steps ahead, one row per sequence."""
        assert self.ahead is not None
        return self.ahead.reshape(len(self.ahead), -1)


def from_arrays(
    x: Any, y: Any = None, static: Any = None, seen: Any = None, history: int | None = None
) -> Sequences:
    """Sequences from arrays.

    ``x`` is (sequences, steps, variables); ``y`` is (sequences, steps, outputs) or (sequences, outputs),
    ``static`` (sequences, static columns). ``seen`` is how many of the last steps of each sequence were
    observed; earlier ones are ignored. Sequences shorter than ``history`` are padded at the front.
    """
    observed = _array(x, "X", (3,))
    count, steps, _ = observed.shape
    if history is not None and steps != history:
        if steps > history:
            raise DataError(f"X has {steps} steps, and the model was fitted to {history}")
        observed = np.pad(observed, ((0, 0), (history - steps, 0), (0, 0)))
        seen = np.full(count, steps) if seen is None else seen
    wide = observed.shape[1]
    refuse_masked(seen, "seen")
    lengths = np.full(count, wide) if seen is None else np.asarray(seen)
    whole = lengths.dtype.kind in "iuf" and np.all(lengths == np.round(lengths))
    within = whole and np.all((lengths >= 1) & (lengths <= min(steps, wide)))
    if lengths.shape != (count,) or not within:
        raise DataError(
            f"seen must hold one whole number from 1 to {steps} per sequence ({count} sequences)"
        )
    lengths = lengths.astype(int)
    absent = np.arange(wide)[None, :] < (wide - lengths)[:, None]
    _refuse_gaps(observed, absent)
    # unseen steps repeat the first seen one: the network skips them, plots show a constant
    first = observed[np.arange(count), wide - lengths]
    observed = np.where(absent[..., None], first[:, None], observed)
    ahead = None if y is None else _array(y, "y", (2, 3))
    if ahead is not None and len(ahead) != count:
        raise DataError(f"X has {count} sequences and y has {len(ahead)}; they must be the same")
    return Sequences(np.arange(count).astype(str), observed, lengths, _static(static, count), ahead)


def _refuse_gaps(observed: np.ndarray, absent: np.ndarray) -> None:
    """Raise on missing values in steps that are not ``absent`` (sequences, steps)."""
    wrong = np.any(~np.isfinite(observed) & ~absent[..., None], axis=(1, 2))
    if wrong.any():
        raise DataError(
            f"{int(wrong.sum())} sequence(s) have missing values in steps that were seen, first "
            f"number {int(np.flatnonzero(wrong)[0])}; fill or drop them, or say how many of the last "
            "steps were seen with seen="
        )


def _array(values: Any, what: str, dimensions: tuple[int, ...]) -> np.ndarray:
    array = numbers(values, what)
    if array.ndim not in dimensions or not array.size:
        shape = "(sequences, steps, variables)"
        raise DataError(f"{what} must be an array {shape} that is not empty, got {array.shape}")
    if what == "y" and not np.all(np.isfinite(array)):
        raise DataError(f"y has {int(np.sum(~np.isfinite(array)))} missing value(s); drop those")
    return array


def _static(static: Any, count: int) -> np.ndarray:
    if static is None:
        return np.zeros((count, 0))
    table = numbers(static, "static")
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != count or not np.all(np.isfinite(table)):
        raise DataError(
            f"static must hold finite numbers, one row per sequence ({count}), got {table.shape}"
        )
    return table


class LongTable(NamedTuple):
    """How to read a table with one row per step.

    `id` and `time` are the columns that name a sequence and order its steps, `variables`, `outputs` and
    `static` lists of columns; `history` and `ahead` are the numbers of steps observed and to predict.
    """

    id: str
    time: str
    variables: tuple[str, ...]
    outputs: tuple[str, ...]
    static: tuple[str, ...]
    history: int
    ahead: int


def from_table(frame: Any, how: LongTable, *, with_targets: bool) -> Sequences:
    """The last ``history + ahead`` steps of each id in ``frame``; ``history`` without targets.

    A sequence needs ``ahead + 1`` steps, others raise; it is padded where it has fewer than ``history``
    observed ones.
    """
    table = nw.from_native(frame, eager_only=True)
    outputs = how.outputs if with_targets else ()
    used = dict.fromkeys((*how.variables, *outputs, *how.static))
    for name in (how.id, how.time, *used):
        if name not in table.columns:
            raise DataError(f"no column {name!r}{nearest(name, table.columns)}", name)
    for name in (how.id, how.time):
        absent = int(table[name].null_count()) + int(_is_nan(table[name]).sum())
        if absent:
            raise DataError(f"column {name!r} has {absent} missing value(s); drop those rows", name)
    ids = table[how.id].to_numpy()
    ids = ids.astype(str) if ids.dtype.kind not in "iuf" else ids
    order = np.lexsort((table[how.time].to_numpy(), ids))
    ids, times = ids[order], table[how.time].to_numpy()[order]
    same = (ids[1:] == ids[:-1]) & (times[1:] == times[:-1])
    if same.any():
        wrong = sorted(set(ids[1:][same]))
        raise DataError(
            f"{len(wrong)} sequence(s) hold a time twice: {_some(wrong)}; drop the repeated rows"
        )
    columns = {name: _column(table, name)[order] for name in used}
    names, starts, counts = np.unique(ids, return_index=True, return_counts=True)
    ahead = how.ahead if with_targets else 0
    short = names[counts < ahead + 1]
    if len(short):
        raise DataError(
            f"{len(short)} sequence(s) have fewer than {ahead + 1} steps: {_some(short.tolist())}; "
            "drop them"
        )
    seen = np.minimum(counts - ahead, how.history)
    ends = starts + counts
    back = np.arange(-how.history, 0)[None, :] + (ends - ahead)[:, None]
    places = np.maximum(back, (ends - ahead - seen)[:, None])
    observed = np.stack([columns[name][places] for name in how.variables], axis=-1)
    targets = None
    if with_targets:
        later = np.arange(ahead)[None, :] + (ends - ahead)[:, None]
        targets = np.stack([columns[name][later] for name in outputs], axis=-1)
    static = np.zeros((len(names), 0))
    if how.static:
        static = np.stack([_constant(columns[n], starts, counts, names, n) for n in how.static], 1)
    return Sequences(names.astype(str), observed, seen, static, targets)


def _is_nan(column: nw.Series) -> np.ndarray:
    values = column.to_numpy()
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def _column(table: Any, name: str) -> np.ndarray:
    column = table[name]
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        raise not_numeric(column)
    values = column.cast(nw.Float64).to_numpy()
    if not np.all(np.isfinite(values)):
        raise DataError(
            f"column {name!r} has {int(np.sum(~np.isfinite(values)))} missing value(s)", name
        )
    return values


def _constant(
    values: np.ndarray, starts: np.ndarray, counts: np.ndarray, names: np.ndarray, name: str
) -> np.ndarray:
    first = values[starts]
    moves = np.flatnonzero(values != np.repeat(first, counts))
    if len(moves):
        owner = str(names[np.searchsorted(starts, moves[0], side="right") - 1])
        raise DataError(
            f"static column {name!r} changes along sequence {owner!r}; make it one of variables",
            name,
        )
    return first


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")


def given_names(names: Any) -> tuple[str, ...] | None:
    """Names from a list, array or index as a tuple of texts; None where there are none.

    >>> given_names(["a", "b"]), given_names(None)
    (('a', 'b'), None)
    """
    return None if names is None else tuple(map(str, names)) or None


def layout_of(
    data: Sequences,
    variables: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    static: Sequence[str] | None = None,
) -> Layout:
    """The layout of ``data``; what has no names is called x0, x1, ..., y0, ..., s0, ...

    Outputs at steps ahead have the names of the variables where there are as many.
    """
    width = data.observed.shape[2]
    names = given_names(variables) or tuple(f"x{k}" for k in range(width))
    assert data.ahead is not None
    steps = data.ahead.shape[1] if data.ahead.ndim == 3 else 0
    count = data.ahead.shape[-1]
    shared = names if steps and count == width else tuple(f"y{k}" for k in range(count))
    wanted = given_names(outputs) or shared
    fixed = given_names(static) or tuple(f"s{k}" for k in range(data.static.shape[1]))
    for what, given, need in (
        ("variables", names, width),
        ("outputs", wanted, count),
        ("static names", fixed, data.static.shape[1]),
    ):
        if len(given) != need:
            raise DataError(
                f"{need} {what} in the data, but {len(given)} names: {', '.join(given)}"
            )
    twice = {n for n in (*names, *fixed) if (*names, *fixed).count(n) > 1}
    if twice or len(set(wanted)) < len(wanted):
        raise DataError(
            f"names must differ; given twice: {', '.join(sorted(twice)) or 'an output'}"
        )
    return Layout(names, data.observed.shape[1], fixed, wanted, steps)
