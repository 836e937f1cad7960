"""What rules claim about a function at a point, as intervals that can be laid side by side.

A claim restricts one quantity of a statement: a value, a slope, a curvature, a difference over a step,
or a change in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prbnn.data.columns import Columns
from prbnn.rules.base import Rule, naming
from prbnn.rules.evaluation import at_points
from prbnn.rules.regions import ROUNDING, Region, in_region
from prbnn.rules.spread import spread_of
from prbnn.rules.statements import (
    Bound,
    Change,
    Curvature,
    Ends,
    Quantity,
    Slope,
    Statement,
    Step,
    Subject,
    Value,
)


@dataclass(frozen=True)
class Claim:
    """In a region, a quantity lies in one of some intervals; an end that is None is no limit.

    ``quantity`` names its subject, and of sequences one step ahead. Intervals are widened by ``give``.
    Of a curvature, only points at least ``spacing`` apart are bound.
    """

    quantity: Quantity
    intervals: tuple[Ends, ...]
    region: Region
    give: Bound = 0.0
    spacing: float = 0.0

    def allowed(self, columns: Columns, points: np.ndarray) -> np.ndarray:
        """(points, intervals, 2): ends of the intervals; infinite where the claim does not hold."""
        ends = np.empty((len(points), len(self.intervals), 2))
        ends[..., 0], ends[..., 1] = -np.inf, np.inf
        here = in_region(self.region, columns, points)
        give = at_points(self.give, columns, points[here], "give") if here.any() else 0.0
        for place, (lower, upper) in enumerate(self.intervals):
            if lower is not None and here.any():
                values = at_points(lower, columns, points[here], "lower end")
                ends[here, place, 0] = values - give
            if upper is not None and here.any():
                values = at_points(upper, columns, points[here], "upper end")
                ends[here, place, 1] = values + give
        return ends


def claims_of(rule: Rule, columns: Columns) -> list[Claim]:
    """What a rule claims; nothing for comparisons and scores, which concern a whole function."""
    with naming(rule):
        return [
            claim
            for part in rule.parts
            for statement in part.statements(columns)
            for claim in _claims(_where_data_are(part, statement), columns)
        ]


def _where_data_are(rule: Rule, statement: Statement) -> Statement:
    """The statement of a rule without a region holds within the range of the data, in all columns."""
    if rule.region:
        return statement
    boxes = tuple(replace(box, full=True) for box in statement.region)
    return replace(statement, region=boxes)


def _claims(statement: Statement, columns: Columns) -> Iterator[Claim]:
    quantity = statement.quantity
    if not isinstance(quantity, Value | Slope | Curvature | Step | Change):
        return
    spacing = 0.0
    if isinstance(quantity, Curvature):
        # claims about curvatures over different steps are claims about one quantity
        quantity, spacing = replace(quantity, step=0.0), quantity.step
    if isinstance(quantity, Change) and quantity.at is None:
        # whether the last observed step counts or not, it is the same change
        quantity = replace(quantity, observed=False)
    if statement.avoid:
        unions = [((None, low), (high, None)) for low, high in statement.intervals]
    else:
        unions = [statement.intervals]
    about = subject_of(quantity, columns)
    give = statement.give
    if give is None and columns.layout is not None and not isinstance(about, str):
        return
    if give is None:
        give = spread_of(about, columns) / 100
    for step in (0,) if isinstance(quantity, Change) else steps_of(quantity, columns):
        one = replace(quantity, of=about, at=step or quantity.at)
        for intervals in unions:
            yield Claim(one, intervals, statement.region, give, spacing)


def quantity_text(quantity: Quantity) -> str:
    """A quantity as a message names it."""
    name = quantity.of if isinstance(quantity.of, str) else "the quantity"
    match quantity:
        case Value():
            return name
        case Change():
            return f"change of {name} over {quantity.lag} step(s)"
        case Step():
            return f"change of {name} along {quantity.column} over {quantity.step:g}"
    return f"{quantity.kind} of {name} along {quantity.column}"


def subject_of(quantity: Quantity, columns: Columns) -> Subject:
    """What a quantity is of; the only output may be named or not."""
    if quantity.of is None and len(columns.subjects) == 1:
        return columns.subjects[0]
    return quantity.of


def steps_of(quantity: Quantity, columns: Columns) -> tuple[int, ...]:
    """The steps ahead of a quantity; 0 where there is no time."""
    return (0,) if columns.layout is None else columns.layout.steps(quantity.at)


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
    # inf - inf is NaN; lower <= upper counts it as overlap
    with np.errstate(invalid="ignore"):
        distance = np.where(lower <= upper, 0.0, lower - upper)
    give = ROUNDING * np.maximum(np.abs(lower), np.abs(upper))
    distance = np.where(distance <= np.where(np.isfinite(give), give, 0.0), 0.0, distance)
    return distance.min(axis=1)
