"""The slope of an output along a column, estimated from the rows before any network is fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prbnn.data.columns import Columns

# a slope differs clearly from a value if it is at least this many standard errors away
CLEAR = 3.0


@dataclass(frozen=True)
class Association:
    """How an output changes with a column.

    `slope` is from least squares on all columns, `error` its standard error; `rank` is the rank
    correlation (Spearman) of the two alone.
    """

    slope: float
    error: float
    rank: float

    @property
    def clear(self) -> bool:
        """Whether the slope is clearly not zero."""
        return abs(self.slope) > CLEAR * self.error

    def __str__(self) -> str:
        slope = f"least squares slope {self.slope:.3g} ± {self.error:.2g}"
        return f"{slope}, rank correlation {self.rank:.2f}"


def association(
    columns: Columns, column: str, output: int = 0, rows: np.ndarray | None = None
) -> Association | None:
    """The association of ``output`` with ``column`` in the rows of the mask ``rows``.

    It is None where there are too few rows, or the column or output is constant.

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> round(association(Columns(("x",), ("y",), x, 3 * x), "x").slope, 6)
    3.0
    """
    chosen = np.ones(len(columns.rows), bool) if rows is None else rows
    inputs, target = columns.rows[chosen], columns.targets[chosen, output]
    varying = np.flatnonzero(np.ptp(inputs, axis=0) > 0) if len(inputs) else np.array([], int)
    index = columns.index(column)
    if index not in varying or np.ptp(target) == 0 or len(inputs) < len(varying) + 3:
        return None
    centred = inputs[:, varying] - inputs[:, varying].mean(axis=0)
    scale = centred.std(axis=0)
    design = np.column_stack([np.ones(len(centred)), centred / scale])
    found, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
    rest = target - design @ found
    variance = rest @ rest / max(1, len(target) - rank)
    spread = np.sqrt(np.diag(np.linalg.pinv(design.T @ design)) * variance)
    place = 1 + int(np.flatnonzero(varying == index)[0])
    size = scale[place - 1]
    return Association(
        float(found[place] / size), float(spread[place] / size), _rank(inputs[:, index], target)
    )


def _rank(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation; ties get their mean rank."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        return (last - (counts - 1) / 2)[group]

    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])
