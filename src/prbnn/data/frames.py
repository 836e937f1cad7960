"""Arrays, data frames and dicts of columns, read as checked arrays with column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from prbnn.errors import DataError, NotNumbersError

# weights below this fraction of the largest are lost in float32 sums, and count as 0
NO_WEIGHT = 1e-12
# limits of the largest weight
LEAST_WEIGHT, MOST_WEIGHT = 1e-12, 1e12
# types of columns that are categories
CATEGORIES = (nw.Boolean, nw.Categorical, nw.Enum)


def read_inputs(x: Any, names: Sequence[str] | None = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """A (rows, columns) float64 array and its column names.

    Names come from a data frame, from a dict of columns or from ``names``; columns of an array are
    called x (if there is one) or x0, x1...

    >>> read_inputs([[1, 2], [3, 4]])[1]
    ('x0', 'x1')
    >>> read_inputs({"age": [1, 3], "water": [2, 4]})[1]
    ('age', 'water')
    """
    frame = _as_frame(x)
    if frame is not None:
        values, found = frame
    else:
        values = numbers(x, "X")
        if values.ndim == 1 and names is not None and len(names) == 1:
            values = values[:, None]
        if values.ndim != 2:
            raise DataError(
                f"X must be a table of rows and columns, got {values.ndim} dimension(s). Reshape your "
                "data with x.reshape(-1, 1) if it has one column, or x.reshape(1, -1) if one row"
            )
        count = values.shape[1]
        found = ("x",) if count == 1 else tuple(f"x{k}" for k in range(count))
    if names is not None:
        if len(names) != values.shape[1]:
            raise DataError(f"X has {values.shape[1]} columns but {len(names)} names were given")
        found = tuple(names)
    _check_names(found, "X")
    _check_finite(values, found)
    return values, found


def categories_of(x: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Those ``names`` whose columns of ``x`` are boolean or categorical.

    >>> categories_of({"age": [1, 0], "open": [True, False]}, ("age", "open"))
    ('open',)
    """
    if isinstance(x, Mapping):
        kinds = [_is_truth(column) for column in x.values()]
    else:
        frame = nw.from_native(x, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            kinds = [column.dtype in CATEGORIES for column in frame.iter_columns()]
        else:
            kinds = [_is_truth(x)] * len(names)
    return tuple(name for name, is_one in zip(names, kinds, strict=True) if is_one)


def _is_truth(values: Any) -> bool:
    native = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(native, nw.Series):
        return native.dtype in CATEGORIES
    return np.asarray(values).dtype == bool


def is_named(x: Any) -> bool:
    """Whether a table has names for its columns."""
    return hasattr(x, "columns") or isinstance(x, Mapping)


def read_targets(y: Any, names: Sequence[str] | None = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """A (rows, outputs) float64 array and the names of the outputs.

    Names come from a data frame, a dict, a series or ``names``; otherwise they are y, or y0, y1...
    """
    frame = _as_frame(y)
    if frame is not None:
        values, found = frame
    else:
        values = numbers(y, "y")
        found = (str(getattr(y, "name", None) or "y"),)
        if values.ndim == 1:
            values = values[:, None]
        elif values.ndim == 2:
            found = (
                found if values.shape[1] == 1 else tuple(f"y{k}" for k in range(values.shape[1]))
            )
        else:
            raise DataError(f"y must have one or two dimensions, got {values.ndim}")
    if names is not None:
        if len(names) != values.shape[1]:
            raise DataError(f"y has {values.shape[1]} columns but {len(names)} output names")
        found = tuple(names)
    _check_names(found, "y")
    _check_finite(values, found)
    return values, found


def check_lengths(x: np.ndarray, y: np.ndarray) -> None:
    """Raise where ``x`` and ``y`` differ in their number of rows."""
    if len(x) != len(y):
        raise DataError(
            f"X has {len(x)} rows and y has {len(y)}: inconsistent numbers of samples; "
            "they must come from the same rows"
        )


def check_rows(x: np.ndarray, y: np.ndarray, outputs: tuple[str, ...]) -> None:
    """Raise where a table cannot be fitted: lengths differ, fewer than 2 rows, a constant target."""
    check_lengths(x, y)
    if len(x) < 2:
        raise DataError(f"at least 2 rows are needed to fit, got n_samples = {len(x)}")
    for name, column in zip(outputs, y.T, strict=True):
        if np.ptp(column) == 0:
            raise DataError(
                f"target {name!r} has no variance: every row is {column[0]:g}; "
                "check that the right column was chosen",
                name,
            )


def _of_columns(table: Mapping) -> tuple[np.ndarray, tuple[str, ...]]:
    """Values and names of a dict of columns."""
    names = tuple(str(name) for name in table)
    _check_names(names, "the table")
    columns = [
        numbers(column, f"column {name!r}")
        for name, column in zip(names, table.values(), strict=True)
    ]
    if not columns:
        raise DataError("X has 0 columns; at least one input is needed (0 feature(s) found)")
    shapes = {name: column.shape for name, column in zip(names, columns, strict=True)}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) > 1:
        raise DataError(f"the columns of a table have one length, got shapes {shapes}")
    return np.column_stack(columns), names


def _as_frame(table: Any) -> tuple[np.ndarray, tuple[str, ...]] | None:
    """Values and names of a data frame of any kind or a dict of columns; None for anything else."""
    if isinstance(table, Mapping):
        return _of_columns(table)
    if hasattr(table, "columns"):
        _check_names(tuple(str(column) for column in table.columns), "the table")
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    columns, names = [], []
    for column in frame.iter_columns():
        columns.append(_column(column))
        names.append(str(column.name))
    if not columns:
        raise DataError("X has 0 columns; at least one input is needed (0 feature(s) found)")
    return np.column_stack(columns).astype(np.float64), tuple(names)


def _column(column: nw.Series) -> np.ndarray:
    """A numeric, boolean or categorical column as floats; categories must be numbers."""
    kind = column.dtype
    try:
        if kind.is_numeric() or kind in CATEGORIES:
            return column.cast(nw.Float64).to_numpy()
    except Exception as error:  # each library has its own for text
        if kind.is_numeric() or kind == nw.Boolean:
            raise
        raise not_numeric(column) from error
    raise not_numeric(column)


def not_numeric(column: nw.Series) -> DataError:
    """The error for a column of a type that is not numeric."""
    name = str(column.name)
    return DataError(
        f"column {name!r} holds {column.dtype}, not numbers; encode it (for instance as one boolean "
        "column for each category) or leave it out",
        name,
    )


def _check_names(names: tuple[str, ...], what: str) -> None:
    """Raise where two columns of ``what`` have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{what} has columns of the same name: {', '.join(twice)}; rename one", twice[0]
        )


def read_weights(weight: Any, rows: int) -> np.ndarray:
    """One weight per row; every row has weight 1 where ``weight`` is None.

    A row of weight w counts as w rows. Weights below 1e-12 of the largest count as 0.

    >>> read_weights([1, 2, 1e-300], 3)
    array([1., 2., 0.])
    """
    if weight is None:
        return np.ones(rows)
    values = numbers(weight, "sample_weight").ravel()
    if values.shape != (rows,) or not np.all(np.isfinite(values) & (values >= 0)):
        raise DataError(f"sample_weight must hold one number of 0 or above per row ({rows} rows)")
    largest = values.max(initial=0.0)
    if not largest:
        raise DataError("sample_weight is zero everywhere; at least 2 rows need a weight above 0")
    if not LEAST_WEIGHT <= largest <= MOST_WEIGHT:
        raise DataError(
            f"the largest sample_weight is {largest:g}, and must be from {LEAST_WEIGHT:g} to "
            f"{MOST_WEIGHT:g}: a row of weight w counts as w rows, and these are too "
            f"{'few' if largest < 1 else 'many'} to compute with. Divide the weights by the largest: "
            "sample_weight / sample_weight.max()"
        )
    return np.where(values < NO_WEIGHT * largest, 0.0, values)


def refuse_masked(values: Any, what: str) -> None:
    """Raise on masked cells, whose hidden values numpy would otherwise use; errors call them ``what``."""
    if not isinstance(values, np.ma.MaskedArray):
        if isinstance(values, list | tuple):
            for part in values:
                if isinstance(part, np.ma.MaskedArray):
                    refuse_masked(part, what)
        return
    masked = np.ma.getmaskarray(values)
    if not masked.any():
        return
    where = ""
    if masked.ndim > 1:
        columns = masked.reshape(-1, masked.shape[-1]).sum(axis=0)
        listed = [f"column {k}: {int(count)}" for k, count in enumerate(columns) if count]
        where = f" ({', '.join(listed[:5])}{', ...' if len(listed) > 5 else ''})"
    raise DataError(
        f"{what} has {int(masked.sum())} masked cell(s){where}; drop those rows, or fill them with "
        "values that you choose, such as x.filled(x.mean())"
    )


def numbers(values: Any, what: str) -> np.ndarray:
    """``values`` as a float64 array; text, dates, complex numbers and masked cells raise.

    Errors call them ``what``.
    """
    refuse_masked(values, what)
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise DataError(f"{what} is a sparse matrix; pass a dense one with {what}.toarray()")
    native = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(native, nw.Series):
        # nullable numbers would become objects otherwise
        numeric = native.dtype.is_numeric() or native.dtype == nw.Boolean
        array = (native.cast(nw.Float64) if numeric else native).to_numpy()
    else:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise DataError(f"{what} must hold numbers only: {error}") from None
    if array.dtype.kind in "USMm":
        raise DataError(
            f"{what} must hold numbers only: got {array.dtype}; encode text and dates first"
        )
    if np.iscomplexobj(array):
        raise DataError(f"{what}: Complex data not supported; pass real numbers")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        # scikit-learn expects a TypeError for objects that are not numbers, a ValueError for text
        kind = NotNumbersError if isinstance(error, TypeError) else DataError
        raise kind(f"{what} must hold numbers only: {error}") from None


def _check_finite(values: np.ndarray, names: tuple[str, ...]) -> None:
    """Raise where a table is empty, or a value is NaN or infinite."""
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise DataError(
            f"the table has {values.shape[0]} rows and {values.shape[1]} columns; "
            f"0 sample(s) or 0 feature(s) (shape={values.shape}) while a minimum of 1 is required."
        )
    bad = ~np.isfinite(values)
    if bad.any():
        counts = {
            name: (int(np.isnan(column).sum()), int(np.isinf(column).sum()))
            for name, column in zip(names, values.T, strict=True)
        }
        found = "; ".join(
            f"column {name!r}: {nans} NaN" + (f", {infs} inf (infinity)" if infs else "")
            for name, (nans, infs) in counts.items()
            if nans or infs
        )
        wrong = [name for name, (nans, infs) in counts.items() if nans or infs]
        raise DataError(
            f"the data must be finite, but {found}. Drop or fill those rows first",
            wrong[0] if len(wrong) == 1 else None,
        )
