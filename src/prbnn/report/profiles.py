"""Predictions along one input, the others held; and what rules state along the way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.looks import few_values
from prbnn.errors import KnowledgeError
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.evaluation import at_points
from prbnn.rules.expressions import parse
from prbnn.rules.regions import in_region

POINTS = 90
BAND = 0.9
FUNCTIONS = 24
# a region may reach this many spans of the data beyond them before it is cut
FURTHEST = 1.0


@dataclass(frozen=True, eq=False)
class Profile:
    """Predictions along one column (points, outputs): the mean and central 90 % bands.

    `low` and `high` are of a new observation, `function_low` and `function_high` of the functions.
    """

    column: int
    rows: np.ndarray
    few_values: bool
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    function_low: np.ndarray
    function_high: np.ndarray
    functions: np.ndarray
    seen: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """Values of the column."""
        return self.rows[:, self.column]

    @property
    def spread(self) -> np.ndarray:
        """By how much the mean moves where data were seen, for each output."""
        return np.ptp(self.mean[self.seen], axis=0)


def typical_row(columns: Columns) -> np.ndarray:
    """Medians of the training rows; of columns with few values, the most common one."""
    row = np.median(columns.rows, axis=0)
    for index in range(len(row)):
        if few_values(columns, index) is not None:
            found, count = np.unique(columns.rows[:, index], return_counts=True)
            row[index] = found[np.argmax(count)]
    return row


def path(columns: Columns, rules: Sequence[Rule], column: int) -> np.ndarray:
    """Values to try of a column: its few values, or a grid over the data and the rules' regions."""
    few = few_values(columns, column)
    if few is not None:
        return few
    low, high = columns.span(columns.inputs[column])
    span = max(high - low, np.finfo(float).tiny)
    ends = [end for low_high in stated(rules, columns.inputs[column]) for end in low_high]
    ends = np.clip(ends, low - FURTHEST * span, high + FURTHEST * span)
    # the ends themselves, too, so that a bound is drawn from one end of its region to the other
    grid = np.linspace(min([low, *ends]), max([high, *ends]), POINTS)
    return np.unique(np.concatenate([grid, ends]))


def profile(
    posterior: Posterior, values: np.ndarray, column: int, *, intervals: bool = True
) -> Profile:
    """Predict along ``values`` of a column, the other columns at the typical row.

    Classes have no intervals of a new observation; those of the functions are used instead.
    """
    rows = np.tile(typical_row(posterior.columns), (len(values), 1))
    rows[:, column] = values
    functions = posterior.functions(rows)
    ends = ((1 - BAND) / 2, (1 + BAND) / 2)
    function_low, function_high = np.quantile(functions, ends, axis=0)
    low, high = posterior.quantiles(rows, ends) if intervals else (function_low, function_high)
    observed = posterior.columns.rows[:, column]
    return Profile(
        column=column,
        rows=rows,
        few_values=few_values(posterior.columns, column) is not None,
        mean=functions.mean(axis=0),
        low=low,
        high=high,
        function_low=function_low,
        function_high=function_high,
        functions=functions[:: max(1, len(functions) // FUNCTIONS)][:FUNCTIONS],
        seen=(values >= observed.min()) & (values <= observed.max()),
    )


def stated(rules: Sequence[Rule], name: str) -> list[tuple[float, float]]:
    """Different ranges of a column that regions of rules state, widest first."""
    found = {
        (low, high)
        for rule in rules
        for box in rule.region
        for column, low, high in box.ranges
        if column == name and low < high
    }
    return sorted(found, key=lambda ends: ends[0] - ends[1])


def about(rule: Rule, columns: Columns, output: int) -> bool:
    """Whether a rule is about one output as it is."""
    if rule.of is None:
        return len(columns.outputs) == 1
    return rule.of == columns.outputs[output]


def limits(
    rules: Sequence[Rule], columns: Columns, way: Profile, output: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Lines (values, bound) of bounds that depend on the profile's column only, where they hold.

    ``way`` is the profile, ``output`` the position of the output that it shows; of ``rules``, those about
    that output as it is are drawn.
    """
    lines = []
    for rule in rules:
        held = in_region(rule.region, columns, way.rows, beyond=True)
        if rule.parts != (rule,) or not (about(rule, columns, output) and np.any(held)):
            continue
        for bound in (level for stated in rule.statements(columns) for level in stated.levels):
            if _depends_only_on(bound, columns, way.column):
                # beyond the data a bound without a region may have no value, and no line then
                with suppress(KnowledgeError):
                    line = at_points(bound, columns, way.rows[held], "bound")
                    lines.append((way.values[held], line))
    return lines


def _depends_only_on(bound: Any, columns: Columns, column: int) -> bool:
    if isinstance(bound, str):
        return set(parse(bound, columns.inputs).names) <= {columns.inputs[column]}
    return not callable(bound) or len(columns.inputs) == 1
