"""What is known about each table before any row is seen, each rule with its reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prbnn import AtLeast, Between, Decreasing, Increasing
from prbnn.data.columns import Columns
from prbnn.rules.base import Rule
from prbnn.rules.statements import Slope, Statement, Value

RULES: dict[str, list[Rule]] = {
    "diabetes": [
        Increasing("bmi", because="excess weight worsens diabetes"),
        Increasing("bp", because="high blood pressure worsens diabetes"),
        Increasing("s5", because="raised triglycerides (s5 is their logarithm) worsen diabetes"),
    ],
    "iris": [
        Increasing("petal_length", because="longer petals of a shape are wider"),
        AtLeast(0, because="a width"),
    ],
    "nuclei": [
        Increasing("radius", because="a larger radius encloses more area"),
        AtLeast(0, because="an area"),
    ],
    "auto-mpg": [
        Decreasing("weight", because="moving more mass takes more fuel"),
        Decreasing("horsepower", because="a stronger engine burns more at the same load"),
        Decreasing("displacement", because="a larger engine loses more to friction and throttling"),
        Increasing("year", because="engines of later years are more efficient"),
        AtLeast(0, because="miles per gallon"),
    ],
    "airfoil": [
        Increasing(
            "velocity",
            where={"frequency": (4000, 20_000)},
            because="self-noise grows with a power of the flow's speed, and the peak of its spectrum "
            "moves up: above the peak both raise the level, below it the second lowers it",
        )
    ],
    "boston": [
        Increasing("rooms", because="a larger dwelling costs more at the same place"),
        Decreasing("status", because="prices follow the income of a neighbourhood"),
        AtLeast(0, because="a price"),
    ],
    "concrete": [
        Increasing("cement", because="cement is the binder"),
        Increasing(
            "age",
            where={"age": (1, 90)},
            because="concrete hardens for months; after 90 days other effects are as large",
        ),
        Decreasing("water", because="Abrams' law: strength falls with the water-cement ratio"),
        AtLeast(0, because="a compressive strength"),
    ],
    "energy": [
        Increasing("glazing_area", because="windows lose more heat than walls"),
        Increasing("wall_area", because="a larger outer surface loses more heat"),
        AtLeast(0, because="a heating load"),
    ],
    "kin8nm": [AtLeast(0, because="a distance from the arm's end to a point")],
    "naval": [Between(0.95, 1, because="1 is a new compressor; the simulation ends at 0.95")],
    "power": [
        Decreasing("AT", because="warm air is thin: less mass flows through the gas turbine"),
        Decreasing(
            "V", because="a higher pressure in the condenser leaves the steam less to expand"
        ),
        Increasing("AP", because="denser air: more mass flows through the gas turbine"),
    ],
    "wine": [
        Decreasing("volatile_acidity", because="acetic acid is a fault: it tastes of vinegar"),
        Between(0, 10, because="the ends of the tasters' scale"),
    ],
    "yacht": [
        Increasing("froude", because="resistance grows with speed"),
        AtLeast(0, because="water does not push a hull forward"),
    ],
}


def statement_of(rule: Rule, columns: Columns) -> Statement:
    """The one statement of a rule on a trend or on limits that are numbers; other rules raise."""
    stated = rule.statements(columns)
    trend = isinstance(stated[0].quantity, Slope) and stated[0].direction != 0
    limits = isinstance(stated[0].quantity, Value) and stated[0].limits != (None, None)
    if len(stated) != 1 or not (trend or limits):
        raise ValueError(f"{rule.label}: peers take rules that rise, fall or limit the output")
    return stated[0]


def signs(rules: Sequence[Rule], columns: Columns) -> list[int]:
    """One entry per input: 1 where the output rises with it, -1 where it falls, 0 elsewhere.

    Peers that take signs take them for the whole column, also where a rule holds in a part of it. A rule
    that holds for some values of another column has no sign.
    """
    found = [0] * len(columns.inputs)
    for stated in (statement_of(rule, columns) for rule in rules):
        column = stated.quantity.column
        named = {name for box in stated.region for name, _, _ in box.ranges}
        if column is not None and named <= {column}:
            found[columns.index(column)] = stated.direction
    return found


def limits(rules: Sequence[Rule], columns: Columns) -> tuple[float, float]:
    """The lowest and the highest value that the rules allow the output."""
    low, high = -np.inf, np.inf
    for stated in (statement_of(rule, columns) for rule in rules):
        if stated.quantity.column is None:
            least, most = stated.limits
            low, high = max(low, _or(least, -np.inf)), min(high, _or(most, np.inf))
    return low, high


def _or(value: float | None, instead: float) -> float:
    return instead if value is None else value
