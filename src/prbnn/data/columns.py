"""The training table: names and values of inputs and outputs, as rules and models read it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from prbnn.data.censoring import Intervals
from prbnn.data.layout import Layout
from prbnn.errors import KnowledgeError, nearest


@dataclass(frozen=True, eq=False)
class Columns:
    """The training table that rules are bound to.

    - `inputs`, `outputs`: names of the columns
    - `rows`: values of the inputs, (rows, inputs); `targets`: values of the outputs, (rows, outputs)
    - `layout`: how a row holds a sequence, where rows are sequences
    - `categories`: inputs that take only the values seen in the rows, because the user or the table says
      so; every other column is a number, whatever its values look like
    - `intervals`: where some targets are censored, the interval that each lies in; `targets` then has the
      recorded end
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: np.ndarray
    targets: np.ndarray
    layout: Layout | None = None
    categories: tuple[str, ...] = ()
    intervals: Intervals | None = None

    @property
    def exact_rows(self) -> np.ndarray:
        """(rows,): whether every target of a row is known, and not only an interval."""
        if self.intervals is None:
            return np.ones(len(self.rows), bool)
        return self.intervals.exact_rows

    @cached_property
    def distinct(self) -> np.ndarray:
        """The distinct rows, sorted."""
        return np.unique(self.rows, axis=0)

    @property
    def subjects(self) -> tuple[str, ...]:
        """What a rule may be about: outputs, or the variables of a trajectory."""
        return self.outputs if self.layout is None else self.layout.outputs

    def index(self, column: str) -> int:
        """Position of an input column; an unknown name raises with the nearest known one."""
        if column not in self.inputs:
            raise KnowledgeError(
                f"no column {column!r}{nearest(column, self.inputs)}", column=column
            )
        return self.inputs.index(column)

    def values(self, index: int) -> np.ndarray | None:
        """The sorted values of the input at ``index`` if it is a category; None for a number."""
        if self.inputs[index] not in self.categories:
            return None
        return np.unique(self.rows[:, index])

    def values_in(self, column: str, low: float, high: float) -> np.ndarray | None:
        """The values of a category from ``low`` to ``high``, possibly none; None for a number."""
        values = self.values(self.index(column))
        return None if values is None else values[(values >= low) & (values <= high)]

    def span(self, column: str) -> tuple[float, float]:
        """Lowest and highest training value of a column."""
        values = self.rows[:, self.index(column)]
        return float(values.min()), float(values.max())
