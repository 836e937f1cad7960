"""Reading: the user's table, the weights of its rows, and the order in which rows are trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prbnn.data.censoring import Intervals, read_intervals
from prbnn.data.columns import Columns
from prbnn.data.frames import (
    categories_of,
    check_lengths,
    check_rows,
    read_inputs,
    read_targets,
    read_weights,
)
from prbnn.data.layout import Layout
from prbnn.data.scaling import Scaling, ScalingKind, scaling_of, sequence_scaling
from prbnn.errors import DataError, nearest


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """A table as it was given and as it is trained on, in the user's units.

    - `columns`, `weight`: names, rows and weights in the user's order, without rows of weight 0
    - `x`, `y`, `row_weight`: the same rows in the order of `in_order`
    - `cut`: where targets are censored, the interval that each lies in, in the order of `x`; `y` is then
      the recorded end
    - `observed`: whether there are rows; False where the prior is fitted alone
    """

    columns: Columns
    weight: np.ndarray
    x: np.ndarray
    y: np.ndarray
    row_weight: np.ndarray
    observed: bool
    cut: Intervals | None = None

    @property
    def counted(self) -> float:
        """How many rows the table counts as."""
        return float(np.sum(self.row_weight)) if self.observed else 0.0

    def scaling(self, kind: ScalingKind, *, targets: bool) -> Scaling:
        """How columns become network units; ``targets`` says whether targets are scaled, too."""
        layout = self.columns.layout
        if layout is None:
            found = scaling_of(self.x, self.y, kind, self.row_weight)
        else:
            found = sequence_scaling(layout, self.x, self.y, kind)
        return found if targets else found.for_inputs_alone()

    @property
    def target_sd(self) -> np.ndarray:
        """Standard deviation of each target, whatever the scaling; 1 where it does not vary."""
        mean = np.average(self.y, axis=0, weights=self.row_weight)
        sd = np.sqrt(np.average((self.y - mean) ** 2, axis=0, weights=self.row_weight))
        return np.where(np.ptp(self.y, axis=0) > 0, sd, 1.0)


def read_table(
    x: Any,
    y: Any,
    sample_weight: Any,
    *,
    columns: Sequence[str] | None,
    outputs: Sequence[str] | None,
    categories: Sequence[str],
    layout: Layout | None,
    censored: Any = None,
    upper: Any = None,
) -> TrainingTable:
    """Read and check ``x``, ``y``, ``sample_weight``, ``censored`` and ``upper``.

    The names are for arrays, which have none.
    """
    table, weight = _named_rows(x, y, columns, outputs, sample_weight, censored, upper)
    stated = _categories(x, table.inputs, categories, layout)
    table = replace(table, categories=stated, layout=layout)
    first, weights = in_order(
        table.rows, table.targets, weight, merge=layout is None, cut=table.intervals
    )
    # a negative zero is a zero
    rows, targets = table.rows[first] + 0.0, table.targets[first] + 0.0
    cut = None if table.intervals is None else table.intervals.take(first)
    return TrainingTable(table, weight, rows, targets, weights, y is not None, cut)


def _named_rows(
    x: Any,
    y: Any,
    columns: Sequence[str] | None,
    outputs: Sequence[str] | None,
    sample_weight: Any,
    censored: Any,
    upper: Any,
) -> tuple[Columns, np.ndarray]:
    """The rows that have weight, and their weights; one row of zeros where there are no data."""
    if (x is None) != (y is None):
        raise DataError("give both x and y, or neither to fit the prior under the rules alone")
    if x is None:
        names = tuple(columns or ("x",))
        zeros = np.zeros((1, len(names)))
        targets = tuple(outputs or ("y",))
        return Columns(names, targets, zeros, np.zeros((1, len(targets)))), np.ones(1)
    values, names = read_inputs(x, columns)
    wanted, targets = read_targets(y, outputs)
    check_lengths(values, wanted)
    cut = read_intervals(censored, upper, wanted, targets)
    weight = read_weights(sample_weight, len(values))
    keep = weight > 0
    values, wanted, weight = values[keep], wanted[keep], weight[keep]
    check_rows(values, wanted, targets)
    cut = None if cut is None else cut.take(keep)
    return Columns(names, targets, values, wanted, intervals=cut), weight


def in_order(
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    merge: bool,
    cut: Intervals | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows in an order that depends on their values alone, and their weights.

    ``merge`` makes equal rows one. ``cut`` has the intervals of censored targets: rows are equal only if
    these are, too.

    Sums in float32 depend on their order, and over thousands of steps the differences become visible; the
    fold that a row falls into depends on its position. In one order, a table gives the same bits however
    it is sorted. Equal rows become one row with the sum of their weights, so a row of weight 2 and a row
    that comes twice are the same problem.

    >>> in_order(np.array([[2.0], [1], [2]]), np.array([[5.0], [4], [5]]), np.ones(3), merge=True)
    (array([1, 0]), array([1., 2.]))
    """
    # a negative zero is a zero
    whole = np.column_stack([x, y] if cut is None else [x, cut.low, cut.high]) + 0.0
    order = np.lexsort((weight, *whole.T[::-1]))
    weight, whole = weight[order], whole[order]
    if not merge:
        return order, weight
    first = np.flatnonzero(np.r_[True, np.any(whole[1:] != whole[:-1], axis=1)])
    return order[first], np.add.reduceat(weight, first)


def _categories(
    x: Any, inputs: tuple[str, ...], stated: Sequence[str], layout: Layout | None
) -> tuple[str, ...]:
    """Inputs that the user or the table says are categories; of a sequence variable, all its steps."""
    if isinstance(stated, str):
        raise DataError(f"categories takes a list of columns, such as [{stated!r}], got {stated!r}")
    if x is None:
        if stated:
            raise DataError(
                "the values of categories come from the rows, and there are none without x; name the "
                "values in where instead, such as where=[{'flag': 0}, {'flag': 1}]"
            )
        return ()
    steps: dict[str, tuple[str, ...]] = {}
    if layout is not None:
        steps = {
            name: tuple(inputs[place] for place in layout.observed(name))
            for name in layout.variables
        }
    found = set() if layout is not None else set(categories_of(x, inputs))
    for name in stated:
        if name not in inputs and name not in steps:
            known = (*steps, *layout.static) if layout is not None else inputs
            raise DataError(f"categories: no column {name!r}{nearest(str(name), known)}")
        found.update(steps.get(name, (name,)))
    return tuple(name for name in inputs if name in found)
