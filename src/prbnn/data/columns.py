"""The training table: names and values of inputs and outputs, as rules and models read it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from prbnn.data.layout import Layout
from prbnn.errors import KnowledgeError, nearest


@dataclass(frozen=True, eq=False)
class Columns:
    """The training table a rule is read against: names and values of inputs and outputs.

    `layout` says how sequences lie in its rows, where they are sequences. `categories` are the inputs
    that take only the values seen in the rows, because the user or the table says so; every other
    column is a number, whatever its values look like.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: np.ndarray
    targets: np.ndarray
    layout: Layout | None = None
    categories: tuple[str, ...] = ()

    @cached_property
    def distinct(self) -> np.ndarray:
        """The rows, each once, in an order that depends on what they hold alone."""
        return np.unique(self.rows, axis=0)

    @property
    def subjects(self) -> tuple[str, ...]:
        """What rules may speak of: outputs, or the variables of a trajectory."""
        return self.outputs if self.layout is None else self.layout.outputs

    def index(self, column: str) -> int:
        """Position of an input column, or an error that suggests the nearest name."""
        if column not in self.inputs:
            raise KnowledgeError(f"no column {column!r}{nearest(column, self.inputs)}")
        return self.inputs.index(column)

    def values(self, index: int) -> np.ndarray | None:
        """The values of a category, in order; None for a number."""
        if self.inputs[index] not in self.categories:
            return None
        return np.unique(self.rows[:, index])

    def values_in(self, column: str, low: float, high: float) -> np.ndarray | None:
        """The values of a category from ``low`` to ``high``, perhaps none; None for a number."""
        values = self.values(self.index(column))
        return None if values is None else values[(values >= low) & (values <= high)]

    def span(self, column: str) -> tuple[float, float]:
        """Lowest and highest training value of a column."""
        values = self.rows[:, self.index(column)]
        return float(values.min()), float(values.max())
