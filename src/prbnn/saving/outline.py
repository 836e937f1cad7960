"""A training table without its rows: names, ranges and the values of categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from prbnn.certify.fingerprints import of_tables
from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.errors import ModelFileError, NotKeptError


class Outline(Columns):
    """Columns with their ranges but without rows.

    That is enough for rules whose region states or sweeps every column; others raise NotKeptError.
    """

    summary: dict[str, Any]

    def __init__(
        self,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        layout: Layout | None,
        categories: tuple[str, ...],
        summary: dict[str, Any],
    ):
        parts = {
            "inputs": inputs,
            "outputs": outputs,
            "layout": layout,
            "categories": categories,
            "summary": summary,
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def __repr__(self) -> str:
        return f"Outline(inputs={self.inputs!r}, outputs={self.outputs!r})"

    @property
    def rows(self) -> np.ndarray:
        """Not in the file: raises."""
        raise _not_kept("rows")

    @property
    def targets(self) -> np.ndarray:
        """Not in the file: raises."""
        raise _not_kept("targets")

    def values(self, index: int) -> np.ndarray | None:
        if self.inputs[index] not in self.categories:
            return None
        return np.array(self.summary["values"][index], np.float64)

    def span(self, column: str) -> tuple[float, float]:
        low, high = self.summary["spans"][self.index(column)]
        return low, high


def summary_of(columns: Columns) -> dict[str, Any]:
    """Count, ranges, values of categories and a hash of the rows of a table."""
    if isinstance(columns, Outline):
        return columns.summary
    found = [columns.values(index) for index in range(len(columns.inputs))]
    return {
        "count": len(columns.rows),
        "sha256": of_tables((columns.rows, columns.targets)),
        "spans": [list(columns.span(name)) for name in columns.inputs],
        "values": [None if values is None else values.tolist() for values in found],
    }


def check_summary(summary: dict[str, Any], inputs: int) -> None:
    """Raise where a summary is not of ``inputs`` columns, or its ranges are not finite numbers."""
    spans, values = summary["spans"], summary["values"]
    ranges = np.array(spans, float).reshape(len(spans), 2) if spans else np.zeros((0, 2))
    if not len(spans) == len(values) == inputs or not np.all(np.isfinite(ranges)):
        raise ModelFileError(f"ranges and values of {inputs} column(s) are needed")
    for few in values:
        if few is not None and np.array(few, float).ndim != 1:
            raise ModelFileError(f"values of a column are a list of numbers, got {few!r:.80}")


def _not_kept(what: str) -> NotKeptError:
    return NotKeptError(
        f"this needs the training {what}, and the model was saved without them (data=False); save it "
        "with data=True, or state the range of every column, as Box(...) does"
    )
