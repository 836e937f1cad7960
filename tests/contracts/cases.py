"""One case per kind of rule: a surface that obeys it, one that breaks it, and its score by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from prbnn import (
    AtLeast,
    AtMost,
    Between,
    Box,
    Combined,
    Compare,
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Equals,
    Increasing,
    OneOf,
    Outside,
    Periodic,
    Score,
    SlopeBetween,
    Unimodal,
)
from prbnn.rules.base import Rule
from tests.contracts.surfaces import Truth

# --- callables, at the top of the module so that rules that hold them can be pickled --------


def floor_line(rows: Any) -> Any:
    return rows["x"] - 1


def lower_line(rows: Any) -> Any:
    return rows[:, 0] - 2


def ceiling_line(rows: Any) -> Any:
    return 4 + rows["z"]


def column_of_ones(rows: Any) -> Any:
    return np.ones((len(rows), 1))


def beyond_z(x: Any, y: Any) -> Any:
    return y - x["z"]


def times_x(x: Any, y: Any) -> Any:
    return x["x"] * y


def sum_of_outputs(x: Any, y: Any) -> Any:
    return y["y"] + y["w"]


def growth_beats_level(function: Any, x: Any) -> Any:
    return function.slope(x, "x") - 0.5 * function(x)


def level_slope_and_bend(function: Any, x: Any) -> Any:
    later = function(x.replace(z=x["z"] + 1))
    return jnp.stack([later, function.slope(x, "x"), function.bend(x, "x", 0.2)])


def second_above_first(function: Any, x: Any) -> Any:
    return function(x, of="w") - function(x, of="y")


# --- the cases -----------------------------------------------------------------------------

WHERE = {"x": (0.2, 1.8)}
ONE, TWO = ("y",), ("y", "w")


@dataclass(frozen=True)
class Case:
    """A rule with a surface that obeys it, one that breaks it, and its score by hand.

    ``other`` states the same rule with other numbers: nothing may be compiled anew for it.
    """

    name: str
    rule: Rule
    other: Rule
    obeys: Any
    breaks: Any
    score: Callable[[Truth], np.ndarray]
    unit: Callable[[Truth], float] = lambda truth: truth.y_unit
    outputs: tuple[str, ...] = ONE


def slope_unit(truth: Truth) -> float:
    return truth.y_unit / truth.x_unit


def bend_unit(truth: Truth) -> float:
    return truth.y_unit / truth.x_unit**2


def limits(level: Any, lower: Any, upper: Any) -> np.ndarray:
    return (upper - lower) / 2 - np.abs(level - (upper + lower) / 2)


CASES = [
    # values, with bounds as number, text and callable
    Case(
        "at least a number",
        AtLeast(0.5, where=WHERE),
        AtLeast(-0.7, where={"x": (0.1, 1.0)}, margin=0.3),
        obeys=[1, 0.5, 0, 0, 0],
        breaks=[1, -1, 0, 0, 0],
        score=lambda truth: truth.value() - 0.5,
    ),
    Case(
        "at least a text",
        AtLeast("x - 1", where=WHERE),
        AtLeast("z/10 - 3", where=WHERE),
        obeys=[0.5, 1, 0, 0, 0],
        breaks=[0, 0, 0, 0, 0],
        score=lambda truth: truth.value() - (truth.x - 1),
    ),
    Case(
        "at least a callable",
        AtLeast(floor_line, where=WHERE),
        AtLeast(lower_line, where=WHERE),
        obeys=[0.5, 1, 0, 0, 0],
        breaks=[0, 0, 0, 0, 0],
        score=lambda truth: truth.value() - (truth.x - 1),
    ),
    Case(
        "at most a number",
        AtMost(2, where=WHERE),
        AtMost(5, where=WHERE, margin=0.1),
        obeys=[0, 1, 0, 0, 0],
        breaks=[0, 1, 1, 0, 0],
        score=lambda truth: 2 - truth.value(),
    ),
    Case(
        "at most a text",
        AtMost("exp(x) + z", where=Box(x=(0.2, 1.8), z=(-1, 2))),
        AtMost("z + 4", where=Box(x=(0.2, 1.0), z=(0, 2))),
        obeys=[0.5, 0, 0, 1, 0],
        breaks=[0, 0, 0, 2, 1],
        score=lambda truth: np.exp(truth.x) + truth.z - truth.value(),
    ),
    Case(
        "at most a callable",
        AtMost(ceiling_line),
        AtMost(column_of_ones),
        obeys=[0, 1, 0, 1, 0],
        breaks=[0, 1, 0, -3, 0],
        score=lambda truth: 4 + truth.z - truth.value(),
    ),
    Case(
        "between numbers",
        Between(0, 3, where=WHERE),
        Between(-2, 1.5, where=WHERE),
        obeys=[1, 1, 0, 0, 0],
        breaks=[0, 2, 0, 0, 0],
        score=lambda truth: limits(truth.value(), 0.0, 3.0),
    ),
    Case(
        "between a text and a callable",
        Between("-x", ceiling_line),
        Between("-2*x - 5", column_of_ones),
        obeys=[0.5, 1, 0, 0, 0],
        breaks=[-1, 0, 0, 1, 0],
        score=lambda truth: limits(truth.value(), -truth.x, 4 + truth.z),
    ),
    Case(
        "equals within",
        Equals("2*x", within=0.3, where=WHERE),
        Equals("x - 1", within=0.7, where=WHERE),
        obeys=[0.1, 2, 0, 0, 0],
        breaks=[0, 1, 0, 0, 0],
        score=lambda truth: 0.3 - np.abs(truth.value() - 2 * truth.x),
    ),
    Case(
        "equals within a hundredth",
        Equals(1, where=WHERE),
        Equals(2, where=WHERE),
        obeys=[1, 0, 0, 0, 0],
        breaks=[1, 1, 0, 0, 0],
        score=lambda truth: truth.y_unit / 100 - np.abs(truth.value() - 1),
    ),
    Case(
        "one of",
        OneOf([(0, 1), (3, "4 + x")]),
        OneOf([("x", "x + 2"), (lower_line, 6)]),
        obeys=[0.5, 0, 0, 0, 3],
        breaks=[2.2, 0, 0, 0, 0],
        score=lambda truth: np.maximum(
            limits(truth.value(), 0.0, 1.0), limits(truth.value(), 3.0, 4 + truth.x)
        ),
    ),
    Case(
        "outside",
        Outside([(1, 3), (6, "8 + x")]),
        Outside([("-x", 2), (lower_line, 7)]),
        obeys=[0.5, 0, 0, 0, 4],
        breaks=[1.7, 0, 0, 0, 0],
        score=lambda truth: np.minimum(
            -limits(truth.value(), 1.0, 3.0), -limits(truth.value(), 6.0, 8 + truth.x)
        ),
    ),
    # shape
    Case(
        "increasing",
        Increasing("x", where=WHERE),
        Increasing("x", where={"x": (0.5, 1)}, margin=0.2),
        obeys=[0, 1, 0.2, -2, 0],
        breaks=[0, 1, -1, 0, 0],
        score=lambda truth: truth.slope(),
        unit=slope_unit,
    ),
    Case(
        "increasing over a step",
        Increasing("x", over=0.25, where=WHERE),
        Increasing("x", over=0.5),
        obeys=[0, 1, 0.2, -2, 0],
        breaks=[0, 1, -1, 0, 0],
        score=lambda truth: truth.value(x=truth.x + 0.25) - truth.value(),
    ),
    Case(
        "decreasing",
        Decreasing("z"),
        Decreasing("z", where={"z": (0, 1)}, margin=0.1),
        obeys=[0, 3, 1, -0.5, 1],
        breaks=[0, -1, 0, 0.5, 0],
        score=lambda truth: 0 * truth.z - truth.weights[0, 3],
        unit=lambda truth: truth.y_unit / truth.z_unit,
    ),
    Case(
        "decreasing over a step",
        Decreasing("x", over=0.25, where=WHERE),
        Decreasing("x", over=0.5),
        obeys=[0, -1, -0.2, 2, 0],
        breaks=[0, -1, 1, 0, 0],
        score=lambda truth: truth.value() - truth.value(x=truth.x + 0.25),
    ),
    Case(
        "slope between numbers",
        SlopeBetween("x", 0, 2, where=WHERE),
        SlopeBetween("x", -1, 0.5, where=WHERE),
        obeys=[0, 1, 0.2, 0, 0],
        breaks=[0, 1, -1, 0, 0],
        score=lambda truth: limits(truth.slope(), 0.0, 2.0),
        unit=slope_unit,
    ),
    Case(
        "slope above a text",
        SlopeBetween("x", "x - 1", where=WHERE),
        SlopeBetween("x", "-z", where=WHERE),
        obeys=[0, 0, 0.5, 0, 0],
        breaks=[0, 0, 0.1, 0, 0],
        score=lambda truth: truth.slope() - (truth.x - 1),
        unit=slope_unit,
    ),
    Case(
        "slope below a callable",
        SlopeBetween("x", upper=ceiling_line),
        SlopeBetween("x", upper=column_of_ones),
        obeys=[0, 1, 0.2, 0, 0],
        breaks=[0, 3, 1, 0, 0],
        score=lambda truth: 4 + truth.z - truth.slope(),
        unit=slope_unit,
    ),
    Case(
        "convex",
        Convex("x", step=0.2, where=WHERE),
        Convex("x", step=0.1, where=WHERE, margin=0.5),
        obeys=[0, -1, 0.5, 1, 0],
        breaks=[0, -1, -0.5, 1, 0],
        score=lambda truth: truth.bend(),
        unit=bend_unit,
    ),
    Case(
        "convex over a twentieth",
        Convex("x", where=WHERE),
        Convex("x"),
        obeys=[0, -1, 0.5, 1, 0],
        breaks=[0, -1, -0.5, 1, 0],
        score=lambda truth: truth.bend(),
        unit=bend_unit,
    ),
    Case(
        "concave",
        Concave("x", step=0.2, where=WHERE),
        Concave("x", step=0.1, where=WHERE, margin=0.5),
        obeys=[0, -1, -0.5, 1, 0],
        breaks=[0, -1, 0.5, 1, 0],
        score=lambda truth: -truth.bend(),
        unit=bend_unit,
    ),
    Case(
        "curvature between",
        CurvatureBetween("x", -1, "1 + x", step=0.2, where=WHERE),
        CurvatureBetween("x", -2, "2 - x", step=0.3, where=WHERE),
        obeys=[0, 1, 0.3, 0, 0],
        breaks=[0, 1, 1, 0, 0],
        score=lambda truth: limits(truth.bend(), -1.0, 1 + truth.x),
        unit=bend_unit,
    ),
    Case(
        "curvature below a callable",
        CurvatureBetween("x", upper=ceiling_line, step=0.2),
        CurvatureBetween("x", upper=column_of_ones, step=0.2),
        obeys=[0, 1, 0.3, 0, 0],
        breaks=[0, 1, 2, 0, 0],
        score=lambda truth: 4 + truth.z - truth.bend(),
        unit=bend_unit,
    ),
    Case(
        "periodic",
        Periodic("x", 0.5, within=0.4, where=WHERE),
        Periodic("x", 0.6, within=0.3, where=WHERE),
        obeys=[1, 0.5, 0, 2, 0],
        breaks=[1, 2, 0, 0, 0],
        score=lambda truth: 0.4 - np.abs(truth.value(x=truth.x + 0.5) - truth.value()),
    ),
    Case(
        "unimodal",
        Unimodal("x", 1.0, over=0.25, where=WHERE),
        Unimodal("x", 0.8, over=0.2, where=WHERE),
        obeys=[0, 2, -1, 1, 0],
        breaks=[0, -2, 1, 1, 0],
        score=lambda truth: (
            np.where(truth.x > 0.875, -1, 1) * (truth.value(x=truth.x + 0.25) - truth.value())
        ),
    ),
    Case(
        "unimodal between",
        Unimodal("x", (0.9, 1.1), where=WHERE),
        Unimodal("x", (0.7, 1.2), where=WHERE),
        obeys=[0, 2, -1, 1, 0],
        breaks=[0, -2, 1, 1, 0],
        score=lambda truth: np.where(truth.x > 1.0, -1, 1) * truth.slope(),
        unit=slope_unit,
    ),
    # pairs of inputs
    Case(
        "compare below",
        Compare({"flag": 1}, below={"flag": 0}, by=0.5),
        Compare({"flag": 0}, below={"flag": 1}, by=0.2),
        obeys=[0, 1, 0, 1, -1],
        breaks=[0, 1, 0, 1, 1],
        score=lambda truth: truth.value(flag=0) - 0.5 - truth.value(flag=1),
    ),
    Case(
        "compare below by a text",
        Compare({"flag": 1}, below={"flag": 0}, by="0.1*x", where=WHERE),
        Compare({"flag": 1}, below={"flag": 0}, by="0.2*x", where=WHERE),
        obeys=[0, 1, 0, 1, -1],
        breaks=[0, 1, 0, 1, 1],
        score=lambda truth: truth.value(flag=0) - 0.1 * truth.x - truth.value(flag=1),
    ),
    Case(
        "compare above the row itself",
        Compare({"x": "x + 0.2*(2 - x)"}, above={}, by=0.05, where=WHERE),
        Compare({"x": "1.5"}, above={}, by=0.1, where=WHERE),
        obeys=[0, 2, 0, 1, 0],
        breaks=[0, -1, 0, 1, 0],
        score=lambda truth: truth.value(x=truth.x + 0.2 * (2 - truth.x)) - 0.05 - truth.value(),
    ),
    Case(
        "compare within",
        Compare({"z": ceiling_line, "flag": 0}, within={"flag": 1}, by=3),
        Compare({"z": floor_line, "flag": 1}, within={"flag": 0}, by=1),
        obeys=[0, 1, 0, 0.5, 0.5],
        breaks=[0, 1, 0, -1, 1],
        score=lambda truth: 3 - np.abs(truth.value(z=4 + truth.z, flag=0) - truth.value(flag=1)),
    ),
    # what a rule is about, with one output
    Case(
        "of the output by name",
        AtLeast(0, of="y", where=WHERE),
        AtLeast(1, of="y", where=WHERE),
        obeys=[1, 0.5, 0, 0, 0],
        breaks=[1, -1, 0, 0, 0],
        score=lambda truth: truth.value(),
    ),
    Case(
        "of a text",
        AtLeast(0, of="y - 2*z"),
        AtLeast("x", of="y - 2*z"),
        obeys=[0.5, 1, 0, 2, 0],
        breaks=[0.5, 1, 0, 0, 0],
        score=lambda truth: truth.value() - 2 * truth.z,
        unit=lambda truth: truth.spread(lambda x, z, targets: targets[0] - 2 * z),
    ),
    Case(
        "of a callable",
        AtMost(1, of=beyond_z),
        AtMost(column_of_ones, of=beyond_z, margin=1),
        obeys=[0, 0.4, 0, 1, 0],
        breaks=[0, 0, 0, 0, 1],
        score=lambda truth: 1 - (truth.value() - truth.z),
        unit=lambda truth: truth.spread(lambda x, z, targets: targets[0] - z),
    ),
    Case(
        "slope of a text",
        Increasing("x", of="x*y", where=WHERE),
        Increasing("x", of="x*y", where={"x": (0.5, 1)}, margin=0.2),
        obeys=[1, 1, 0, 0, 0],
        breaks=[1, -1, 0, 0, 0],
        score=lambda truth: truth.value() + truth.x * truth.slope(),
        unit=lambda truth: truth.spread(lambda x, z, targets: x * targets[0]) / truth.x_unit,
    ),
    Case(
        "bend of a callable",
        Convex("x", of=times_x, step=0.2, where=WHERE),
        Convex("x", of=times_x, step=0.1, where=WHERE),
        obeys=[1, 1, 0.5, 0, 0],
        breaks=[1, 1, -1, 0, 0],
        score=lambda truth: 2 * truth.weights[0, 1] + 6 * truth.weights[0, 2] * truth.x,
        unit=lambda truth: truth.spread(lambda x, z, targets: x * targets[0]) / truth.x_unit**2,
    ),
    # what a rule is about, with two outputs
    Case(
        "of the second output",
        Between(0, "2 + x", of="w", where=WHERE),
        Between(-1, "1 + x", of="w", where=WHERE),
        obeys=[[-5, 0, 0, 0, 0], [0.5, 1, 0, 0, 0]],
        breaks=[[1, 0, 0, 0, 0], [-1, 1, 0, 0, 0]],
        score=lambda truth: limits(truth.value(1), 0.0, 2 + truth.x),
        unit=lambda truth: truth.w_unit,
        outputs=TWO,
    ),
    Case(
        "slope of the second output",
        Increasing("x", of="w", where=WHERE),
        Increasing("x", of="w", where={"x": (0.5, 1)}),
        obeys=[[1, -1, 0, 0, 0], [0, 1, 0.1, 0, 0]],
        breaks=[[1, 1, 0, 0, 0], [0, 1, -1, 0, 0]],
        score=lambda truth: truth.slope(1),
        unit=lambda truth: truth.w_unit / truth.x_unit,
        outputs=TWO,
    ),
    Case(
        "comparison of the second output",
        Compare({"flag": 1}, below={"flag": 0}, of="w"),
        Compare({"flag": 1}, below={"flag": 0}, of="w", by=0.3),
        obeys=[[1, 0, 0, 0, 1], [0, 1, 0, 0, -0.5]],
        breaks=[[1, 0, 0, 0, -1], [0, 1, 0, 0, 0.5]],
        score=lambda truth: truth.value(1, flag=0) - truth.value(1, flag=1),
        unit=lambda truth: truth.w_unit,
        outputs=TWO,
    ),
    Case(
        "of a text in two outputs",
        OneOf([(0, 1), (2, 3)], of="y - w"),
        OneOf([(0, 2), (3, 4)], of="y - w"),
        obeys=[[0.5, 1, 0, 0, 2], [0, 1, 0, 0, 0]],
        breaks=[[1.6, 1, 0, 0, 0], [0, 1, 0, 0, 0]],
        score=lambda truth: np.maximum(
            limits(truth.value(0) - truth.value(1), 0.0, 1.0),
            limits(truth.value(0) - truth.value(1), 2.0, 3.0),
        ),
        unit=lambda truth: truth.spread(lambda x, z, targets: targets[0] - targets[1]),
        outputs=TWO,
    ),
    Case(
        "of a callable of two outputs",
        Decreasing("x", over=0.25, of=sum_of_outputs, where=WHERE),
        Decreasing("x", over=0.1, of=sum_of_outputs, where=WHERE),
        obeys=[[0, -1, 0, 0, 0], [0, 0.5, 0, 1, 0]],
        breaks=[[0, -1, 0, 0, 0], [0, 1.5, 0, 1, 0]],
        score=lambda truth: sum(
            truth.value(output) - truth.value(output, x=truth.x + 0.25) for output in (0, 1)
        ),
        unit=lambda truth: truth.spread(lambda x, z, targets: targets[0] + targets[1]),
        outputs=TWO,
    ),
    # scores of one's own
    Case(
        "score",
        Score(growth_beats_level, where=WHERE),
        Score(growth_beats_level, where=WHERE, margin=0.2),
        obeys=[0, 1, 0, 0, 0],
        breaks=[2, 1, 0, 0, 0],
        score=lambda truth: truth.slope() - 0.5 * truth.value(),
    ),
    Case(
        "score with several components",
        Score(level_slope_and_bend, unit=2.0, where=WHERE),
        Score(level_slope_and_bend, unit=3.0, where=WHERE),
        obeys=[2, 1, 0.2, 1, 0],
        breaks=[2, 1, -0.5, 1, 0],
        score=lambda truth: np.stack(
            [truth.value(z=truth.z + 1), truth.slope(), truth.bend()], axis=1
        ),
        unit=lambda truth: 2.0,
    ),
    Case(
        "score of two outputs",
        Score(second_above_first, unit=0.5),
        Score(second_above_first, unit=0.1),
        obeys=[[0, 1, 0, 0, 0], [0.5, 1, 0, 0, 0]],
        breaks=[[0, 1, 0, 0, 0], [0.5, 0, 0, 0, 0]],
        score=lambda truth: truth.value(1) - truth.value(0),
        unit=lambda truth: 0.5,
        outputs=TWO,
    ),
    Case(
        "combined",
        Combined([AtLeast(0.5, margin=0.2), Increasing("x", where=WHERE)], weights=[1, 3]),
        Combined([AtLeast(0.1, margin=0.1), Increasing("x", where=WHERE)], weights=[2, 5]),
        obeys=[1, 1, 0, 0, 0],
        breaks=[2, -1, 0, 0, 0],
        score=lambda truth: np.stack(
            [(truth.value() - 0.7) / truth.y_unit, truth.slope() / slope_unit(truth)], axis=1
        ),
        unit=lambda truth: 1.0,
    ),
    Case(
        "combined with a step and a score",
        Combined([Convex("x", step=0.2), Score(growth_beats_level, unit=2)], where=WHERE),
        Combined([Convex("x", step=0.3), Score(growth_beats_level, unit=3)], where=WHERE),
        obeys=[0, 1, 0.1, 0, 0],
        breaks=[0, 1, -0.5, 0, 0],
        score=lambda truth: np.stack(
            [truth.bend() / bend_unit(truth), (truth.slope() - 0.5 * truth.value()) / 2], axis=1
        ),
        unit=lambda truth: 1.0,
    ),
]


def case_called(name: str) -> Case:
    return next(case for case in CASES if case.name == name)
