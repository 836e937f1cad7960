"""Webs of points along a column, on which rules together are a linear program.

The unknowns are the function's values at the points of a web. What each rule claims about a function
becomes inequalities in them that every function that obeys the rule must meet. If they have no
solution, no function obeys all the rules. Unions of intervals count as the interval around them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.rules.base import Rule, naming
from prbnn.rules.conflicts.claims import (
    Claim,
    claims_of,
    steps_of,
    subject_of,
)
from prbnn.rules.evaluation import changed
from prbnn.rules.regions import ROUNDING, in_boxes, in_region
from prbnn.rules.spread import spread_of
from prbnn.rules.statements import Curvature, Custom, Difference, Slope, Statement, Step, Value

GRID, LONGEST_CHAIN, ON_THE_WAY = 17, 20, 5
# what the solver may leave unmet, in standard deviations of the output
SLACK = 1e-6


Key = tuple[float, ...]


@dataclass
class Program:
    """Inequalities ``sum of factor * unknown <= limit``, each with the rule it comes from.

    ``units`` are the sizes of what rules are about: unknowns and limits are counted in them.
    """

    units: Mapping[Any, float]
    unknowns: dict[tuple, int] = field(default_factory=dict)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    rules: list[int] = field(default_factory=list)

    def add(self, terms: Mapping[tuple, float], lower: float, upper: float, rule: int) -> None:
        """``lower <= sum of terms <= upper``, scaled so that the largest coefficient is 1."""
        size = max(abs(factor) for factor in terms.values())
        unit = self.units[next(iter(terms))[0]]
        for sign, limit in ((-1.0, -lower), (1.0, upper)):
            if not np.isfinite(limit):
                continue
            for unknown, factor in terms.items():
                place = self.unknowns.setdefault(unknown, len(self.unknowns))
                self.entries.append((len(self.limits), place, sign * factor / size))
            self.limits.append(limit / size / unit)
            self.rules.append(rule)

    def feasible(self, rules: Collection[int]) -> bool:
        """Whether the inequalities of some rules have a solution."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix

        kept = np.flatnonzero(np.isin(self.rules, list(rules)))
        if not len(kept):
            return True
        rows, places, factors = np.array(self.entries).T
        shape = (len(self.limits), len(self.unknowns))
        matrix = csr_matrix((factors, (rows.astype(int), places.astype(int))), shape)[kept]
        limits = np.array(self.limits)[kept]
        give = SLACK + ROUNDING * np.abs(limits)
        found = linprog(
            np.zeros(len(self.unknowns)), matrix, limits + give, bounds=(None, None), method="highs"
        )
        return found.status != 2

    def smallest(self, rules: Collection[int]) -> tuple[int, ...]:
        """Rules that have no solution together, of which none can be left out.

        Left out are the first that can be. Half of those left are removed at a time: what can be left out
        together can be left out one by one, and most rules of many are bystanders.
        """
        kept, waiting = list(rules), [list(rules)]
        while waiting:
            part = waiting.pop()
            fewer = [other for other in kept if other not in part]
            if not self.feasible(fewer):
                kept = fewer
            elif len(part) > 1:
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
        return tuple(sorted(kept))


def web(rules: Sequence[Rule], columns: Columns, column: str, row: np.ndarray) -> Program:
    """What rules require of values along ``column`` through ``row``, and where comparisons lead to."""
    line = np.repeat(row[None], len(grid := _grid(rules, columns, column)), axis=0)
    line[:, columns.index(column)] = grid
    units: dict[Any, float] = {}
    points = [line]
    pairs: list[tuple[int, Statement, np.ndarray, np.ndarray]] = []
    for place, rule in enumerate(rules):
        with naming(rule):
            for statement in rule.statements(columns):
                quantity = statement.quantity
                if not isinstance(quantity, Custom):
                    subject = subject_of(quantity, columns)
                    whole = isinstance(subject, str) or columns.layout is None
                    # a callable on sequences is called with one sequence, and there is none here
                    units.setdefault(subject, spread_of(subject, columns) if whole else 1.0)
                if isinstance(quantity, Difference):
                    here = line[in_region(statement.region, columns, line)]
                    first, second = (
                        changed(c, columns, here) for c in (quantity.first, quantity.second)
                    )
                    points += [first, second]
                    pairs.append((place, statement, first, second))
    program = Program(units)
    every = {_key(point): point for point in np.concatenate(points)}
    for place, statement, first, second in pairs:
        _compare(program, place, statement, columns, first, second)
    for place, rule in enumerate(rules):
        with naming(rule):
            for claim in claims_of(rule, columns):
                _claim(program, place, claim, columns, every)
    return program


def _grid(rules: Sequence[Rule], columns: Columns, column: str) -> np.ndarray:
    """Values of a column: its range evenly, every end of a region, and steps as long as rules take."""
    low, high = columns.span(column)
    ranges = [
        (start, end)
        for rule in rules
        for box in rule.region
        for name, start, end in box.ranges
        if name == column
    ]
    low, high = min([low, *(r[0] for r in ranges)]), max([high, *(r[1] for r in ranges)])
    seen = columns.values(columns.index(column))
    if seen is not None:
        # a range of a category means its values; a single number is one, seen or not
        ranges = [(start, end) for start, end in ranges if start == end]
    values = [np.linspace(low, high, GRID) if seen is None else seen, np.ravel(ranges)]
    for quantity in {claim.quantity for rule in rules for claim in claims_of(rule, columns)}:
        if isinstance(quantity, Step) and quantity.column == column:
            # several steps at once where steps are short: what holds for one adds up
            width = quantity.step * max(1, int((high - low) / quantity.step / LONGEST_CHAIN))
            for start in {low, *np.ravel(ranges)}:
                first = start - width * np.floor((start - low) / width + ROUNDING)
                values.append(np.arange(first, high + ROUNDING * (high - low), width))
    return _apart(np.sort(np.concatenate(values)), high - low)


def _apart(values: np.ndarray, span: float) -> np.ndarray:
    """Sorted values without those that differ by rounding alone."""
    return values[np.concatenate([[True], np.diff(values) > ROUNDING * max(span, ROUNDING)])]


def _key(point: np.ndarray) -> Key:
    """A point as a name: equal up to rounding, whichever way it was computed."""
    return tuple(float(f"{value:.9g}") + 0.0 for value in point)


def _compare(
    program: Program,
    place: int,
    statement: Statement,
    columns: Columns,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    quantity = statement.quantity
    subject = subject_of(quantity, columns)
    lower, upper = statement.limits
    if (lower, upper) == (None, None):
        # a bound in text is not below 0 anywhere; counted as 0, it claims less than it says
        low, high = statement.intervals[0]
        lower, upper = (
            (None, None)
            if low is not None and high is not None
            else (None if low is None else 0.0, None if high is None else 0.0)
        )
    ends = -np.inf if lower is None else lower, np.inf if upper is None else upper
    for step in steps_of(quantity, columns):
        for left, right in zip(first, second, strict=True):
            names = (subject, step, _key(left)), (subject, step, _key(right))
            if names[0] != names[1]:
                program.add({names[0]: 1.0, names[1]: -1.0}, *ends, place)


def _claim(
    program: Program, place: int, claim: Claim, columns: Columns, points: Mapping[Key, np.ndarray]
) -> None:
    quantity = claim.quantity
    step = quantity.at if columns.layout is not None else 0
    names = [(quantity.of, step, key) for key in points]
    every = np.array(list(points.values()))
    if isinstance(quantity, Value):
        for name, (lower, upper) in zip(names, _hull(claim, columns, every), strict=True):
            program.add({name: 1.0}, lower, upper, place)
    elif quantity.column is not None:
        index = columns.index(quantity.column)
        boxes = in_boxes(claim.region, columns, every)
        chosen = [
            tuple(line[list(stretch)])
            for line in _lines(list(points), every[:, index], index)
            for stretch in _stretches(claim, every[line, index])
            if boxes[line[list(stretch)]].all(axis=0).any()
        ]
        for stretch, (lower, upper) in zip(
            chosen, _limits(claim, columns, every, chosen), strict=True
        ):
            factors, size = _factors(claim, every[list(stretch), index])
            terms = {names[k]: factor for k, factor in zip(stretch, factors, strict=True)}
            program.add(terms, lower * size, upper * size, place)


def _limits(
    claim: Claim, columns: Columns, every: np.ndarray, chosen: Sequence[tuple[int, ...]]
) -> np.ndarray:
    """The widest limits of each stretch, since a limit may change on the way from end to end."""
    if not chosen:
        return np.zeros((0, 2))
    first, last = (every[[stretch[end] for stretch in chosen]] for end in (0, -1))
    way = np.linspace(0, 1, ON_THE_WAY)[:, None, None]
    points = (first + way * (last - first)).reshape(-1, every.shape[1])
    limits = _hull(claim, columns, points).reshape(ON_THE_WAY, len(chosen), 2)
    return np.stack([limits[..., 0].min(axis=0), limits[..., 1].max(axis=0)], axis=1)


def _hull(claim: Claim, columns: Columns, points: np.ndarray) -> np.ndarray:
    allowed = claim.allowed(columns, points)
    return np.stack([allowed[..., 0].min(axis=1), allowed[..., 1].max(axis=1)], axis=1)


def _lines(keys: Sequence[Key], values: np.ndarray, index: int) -> Iterator[np.ndarray]:
    """Positions of points that differ in one column alone, in its order."""
    lines: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        lines.setdefault((*key[:index], *key[index + 1 :]), []).append(place)
    for line in lines.values():
        yield np.array(line)[np.argsort(values[line])]


def _stretches(claim: Claim, x: np.ndarray) -> Iterator[tuple[int, ...]]:
    """Which points of a line a claim binds together."""
    match claim.quantity:
        case Slope():
            yield from ((k, k + 1) for k in range(len(x) - 1))
        case Curvature():
            apart = claim.spacing * (1 - ROUNDING)
            for k in range(1, len(x) - 1):
                before = np.flatnonzero(x <= x[k] - apart)
                after = np.flatnonzero(x >= x[k] + apart)
                if len(before) and len(after):
                    yield int(before[-1]), k, int(after[0])
        case Step(step=step):
            for first in range(len(x)):
                times = (x[first + 1 :] - x[first]) / step
                whole = np.abs(times - np.round(times)) < ROUNDING * np.maximum(1, times)
                whole &= np.round(times) >= 1
                yield from ((first, first + 1 + int(k)) for k in np.flatnonzero(whole))


def _factors(claim: Claim, x: np.ndarray) -> tuple[list[float], float]:
    """Coefficients of the values, and what the claim's limits are multiplied by."""
    match claim.quantity:
        case Slope():
            return [-1.0, 1.0], x[1] - x[0]
        case Step(step=step):
            # what holds for one step adds up over several
            return [-1.0, 1.0], float(np.round((x[1] - x[0]) / step))
    before, after = x[1] - x[0], x[2] - x[1]
    # twice the divided difference, times a size that keeps the coefficients near 1
    fraction = after / (before + after)
    return [fraction, -1.0, 1 - fraction], before * after / 2
