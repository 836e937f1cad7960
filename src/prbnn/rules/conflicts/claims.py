"""What rules claim about a function at a point, as intervals that can be laid side by side.

A claim restricts one *quantity*: a value, a slope, a bend, a change over a step, or a change in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError
from prbnn.rules import along_time as sequence
from prbnn.rules import own, shape
from prbnn.rules import values as bounds
from prbnn.rules.base import Bound, Rule, naming
from prbnn.rules.evaluation import at_points
from prbnn.rules.expressions import ExpressionError, parse
from prbnn.rules.regions import Region, Sweep

ROUNDING = 1e-9


@dataclass(frozen=True)
class Quantity:
    """Something about the function that has one value a point.

    ``subject`` is an output, a text or a callable; ``step`` the step ahead, of sequences.
    """

    kind: Literal["value", "slope", "bend", "change", "rate"]
    subject: Any
    step: int = 0
    column: str | None = None
    width: float | None = None

    def __str__(self) -> str:
        name = self.subject if isinstance(self.subject, str) else "the quantity"
        if self.kind == "value":
            return name
        if self.kind == "rate":
            return f"change of {name} over {self.width:g} step(s)"
        over = f" over {self.width:g}" if self.kind == "change" else ""
        return f"{self.kind} of {name} along {self.column}{over}"


@dataclass(frozen=True)
class Claim:
    """In a region, a quantity lies in one of some intervals; an end that is None is endless.

    Intervals are widened by ``give``. Of a bend, only points at least ``spacing`` apart are bound.
    """

    quantity: Quantity
    intervals: tuple[tuple[Bound | None, Bound | None], ...]
    region: Region
    give: float = 0.0
    spacing: float = 0.0

    def allowed(self, columns: Columns, points: np.ndarray) -> np.ndarray:
        """(points, intervals, 2): ends of the intervals; endless where the claim does not hold."""
        ends = np.empty((len(points), len(self.intervals), 2))
        ends[..., 0], ends[..., 1] = -np.inf, np.inf
        here = inside(self.region, columns, points).any(axis=1)
        for place, (lower, upper) in enumerate(self.intervals):
            if lower is not None and here.any():
                values = at_points(lower, columns, points[here], "lower end")
                ends[here, place, 0] = values - self.give
            if upper is not None and here.any():
                values = at_points(upper, columns, points[here], "upper end")
                ends[here, place, 1] = values + self.give
        return ends


def inside(region: Region, columns: Columns, points: np.ndarray) -> np.ndarray:
    """(points, boxes): which points are in which box of a region.

    A region that is not stated is the range of the data.
    """
    boxes = region or (Sweep(full=True),)
    held = np.ones((len(points), len(boxes)), bool)
    for place, box in enumerate(boxes):
        ranges = {column: (low, high) for column, low, high in box.ranges}
        if box.full:
            ranges = {**{column: columns.span(column) for column in columns.inputs}, **ranges}
        for column, (low, high) in ranges.items():
            values = points[:, columns.index(column)]
            give = ROUNDING * max(abs(low), abs(high), high - low)
            held[:, place] &= (values >= low - give) & (values <= high + give)
    return held


def claims_of(rule: Rule, columns: Columns) -> list[Claim]:
    """What a rule claims; nothing for comparisons and scores, which speak of a whole function."""
    if isinstance(rule, own.Combined):
        return [claim for part in rule.parts for claim in claims_of(part, columns)]
    if isinstance(rule, sequence.Along):
        return _along(rule)
    with naming(rule):
        return [
            Claim(quantity, intervals, rule.region, _give(rule, columns), _spacing(rule, columns))
            for step in steps_of(rule, columns)
            for quantity, intervals in _said(rule, subject_of(rule, columns), step)
        ]


def subject_of(rule: Rule, columns: Columns) -> Any:
    """What a rule is about; the only output may be named or not."""
    if rule.of is None and len(columns.subjects) == 1:
        return columns.subjects[0]
    return rule.of


def steps_of(rule: Rule, columns: Columns) -> tuple[int, ...]:
    """The steps ahead a rule speaks of; 0 where there is no time."""
    return (0,) if columns.layout is None else columns.layout.steps(rule.at)


def _said(rule: Any, subject: Any, step: int) -> Iterator[tuple[Quantity, tuple]]:
    def along(kind: Literal["slope", "bend", "change"], width: float | None = None) -> Quantity:
        return Quantity(kind, subject, step, rule.column, width)

    value = Quantity("value", subject, step)
    match rule:
        case bounds.AtLeast():
            yield value, ((rule.bound, None),)
        case bounds.AtMost():
            yield value, ((None, rule.bound),)
        case bounds.Between():
            yield value, ((rule.lower, rule.upper),)
        case bounds.Equals():
            yield value, ((rule.value, rule.value),)
        case bounds.OneOf():
            yield value, tuple(rule.intervals)
        case bounds.Outside(smooth=None):
            for low, high in rule.intervals:
                yield value, ((None, low), (high, None))
        case shape.Increasing() | shape.Decreasing():
            quantity = along("slope") if rule.over is None else along("change", rule.over)
            rises = isinstance(rule, shape.Increasing)
            yield quantity, ((0.0, None) if rises else (None, 0.0),)
        case shape.SlopeBetween():
            yield along("slope"), ((rule.lower, rule.upper),)
        case shape.Convex():
            yield along("bend"), ((0.0, None),)
        case shape.Concave():
            yield along("bend"), ((None, 0.0),)
        case shape.CurvatureBetween():
            yield along("bend"), ((rule.lower, rule.upper),)


def _along(rule: Any) -> list[Claim]:
    ends: dict[type, Any] = {
        sequence.Falls: lambda: (None, 0.0),
        sequence.Rises: lambda: (0.0, None),
        sequence.RateBetween: lambda: (rule.lower, rule.upper),
    }
    if type(rule) not in ends:
        return []
    quantity = Quantity("rate", rule.variable, width=rule.lag)
    return [Claim(quantity, (ends[type(rule)](),), rule.region)]


def _give(rule: Rule, columns: Columns) -> float:
    """How far beside its value `Equals` may be."""
    if not isinstance(rule, bounds.Equals):
        return 0.0
    if rule.within is not None:
        return rule.within
    return spread_of(subject_of(rule, columns), columns) / 100


def _spacing(rule: Rule, columns: Columns) -> float:
    bends = shape.Convex | shape.Concave | shape.CurvatureBetween
    return shape.bend_step(rule, columns) if isinstance(rule, bends) else 0.0


def spread_of(subject: Any, columns: Columns) -> float:
    """Standard deviation in the data of what a rule is about; endless where it cannot be told."""
    if not isinstance(subject, str):
        return np.inf
    if columns.layout is not None and subject in columns.subjects:
        return float(np.std(columns.targets[:, np.array(columns.layout.positions(subject))]))
    outputs = dict(zip(columns.outputs, columns.targets.T, strict=True))
    table = {**dict(zip(columns.inputs, columns.rows.T, strict=True)), **outputs}
    try:
        values = (
            outputs[subject] if subject in outputs else parse(subject, tuple(table)).evaluate(table)
        )
    except ExpressionError as error:
        raise KnowledgeError(f"of={subject!r}: {error}") from None
    spread = float(np.std(values))
    return spread if np.isfinite(spread) else np.inf


def meet(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Intervals that lie in both of two unions, point by point; those with low above high are empty."""
    lower = np.maximum(first[:, :, None, 0], second[:, None, :, 0])
    upper = np.minimum(first[:, :, None, 1], second[:, None, :, 1])
    return np.stack([lower, upper], axis=-1).reshape(len(first), -1, 2)


def have_common(unions: Sequence[np.ndarray]) -> np.ndarray:
    """At which points some unions of intervals have a value in common."""
    common = unions[0]
    for union in unions[1:]:
        common = meet(common, union)
        # empty ones go last and, where they are at every point, away: products stay small
        empty = common[..., 0] > common[..., 1]
        most = max(1, int((~empty).sum(axis=1).max()))
        if most < common.shape[1]:
            order = np.argsort(empty, axis=1, kind="stable")[:, :most]
            common = np.take_along_axis(common, order[..., None], axis=1)
    return np.any(common[..., 0] <= common[..., 1], axis=1)


def gaps(unions: Sequence[np.ndarray]) -> np.ndarray:
    """How far, at each point, some unions of intervals are from having a value in common."""
    common = unions[0]
    for union in unions[1:]:
        common = meet(common, union)
    lower, upper = common[..., 0], common[..., 1]
    # two ends at the same infinity are far from apart
    with np.errstate(invalid="ignore"):
        distance = np.where(lower <= upper, 0.0, lower - upper)
    give = ROUNDING * np.maximum(np.abs(lower), np.abs(upper))
    distance = np.where(distance <= np.where(np.isfinite(give), give, 0.0), 0.0, distance)
    return distance.min(axis=1)
