"""Every rule through one suite: what it scores, under which transformations, and as a plain value.

Drawn functions are surfaces y = w . (1, x, x^2, z, flag), one row of weights an output, so that
every score has a formula that a reader can check by hand.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import prbnn
from prbnn import (
    MLP,
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
from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling, ScalingKind, scaling_of
from prbnn.enforcement.measure import Measured, measure
from prbnn.rules.along_time import Along
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge, Group, bind_all
from prbnn.rules.scoring.drawn import Drawn, frame_of
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.rules.strengths import Hard, OnAverage, Probable, Soft

pytestmark = pytest.mark.light

POINTS = 64
SCALINGS: tuple[ScalingKind, ...] = ("standard", "minmax", "none")
INPUTS = ("x", "z", "flag")
PLACES = np.array(
    [
        (x, z, flag)
        for x in (0.3, 0.45, 0.6, 0.8, 1.0, 1.2, 1.35, 1.5)
        for z in (-0.7, 0.2, 1.3, 2.6)
        for flag in (0.0, 1.0)
    ]
)


def close(received: Any, expected: Any) -> None:
    """Equal up to float32 rounding, which second differences magnify."""
    np.testing.assert_allclose(np.asarray(received), expected, rtol=1e-4, atol=2e-4)


# --- tables, drawn functions, and the truth about them -------------------------------------


def table(outputs: tuple[str, ...], seed: int = 0, rows: int = 40) -> Columns:
    generator = np.random.default_rng(seed)
    inputs = np.column_stack(
        [
            np.linspace(0, 2, rows),
            generator.uniform(-1, 3, rows),
            generator.permutation(np.arange(rows) % 2),
        ]
    )
    targets = np.array([3.0, -1.0]) + generator.normal(size=(rows, 2)) * [2.5 + seed, 0.4]
    return Columns(INPUTS, outputs, inputs, targets[:, : len(outputs)], categories=("flag",))


def scaled(columns: Columns, kind: ScalingKind) -> Scaling:
    return scaling_of(columns.rows, columns.targets, kind)


class Surface(eqx.Module):
    """A surface stated in the user's units, as a network in network units."""

    weights: jax.Array
    input_shift: jax.Array
    input_scale: jax.Array
    output_shift: jax.Array
    output_scale: jax.Array

    def __call__(self, network_input: jax.Array) -> jax.Array:
        x, z, flag = network_input * self.input_scale + self.input_shift
        outputs = self.weights @ jnp.stack([jnp.ones_like(x), x, x**2, z, flag])
        return (outputs - self.output_shift) / self.output_scale


def surface(weights: Any, scaling: Scaling) -> Surface:
    return Surface(
        jnp.atleast_2d(jnp.asarray(weights, float)),
        jnp.asarray(scaling.input_shift, float),
        jnp.asarray(scaling.input_scale, float),
        jnp.asarray(scaling.output_shift, float),
        jnp.asarray(scaling.output_scale, float),
    )


class Truth:
    """A surface in numpy, float64 and the user's units, at some rows; output 0 is y, 1 is w."""

    def __init__(self, weights: Any, columns: Columns, scaling: Scaling, rows: np.ndarray):
        self.weights = np.atleast_2d(np.asarray(weights, float))
        self.x, self.z, self.flag = rows.T
        self.columns = columns
        self.x_unit, self.z_unit, _ = scaling.input_sd
        self.y_unit, self.w_unit = scaling.output_sd[0], scaling.output_sd[-1]

    def value(self, output: int = 0, x: Any = None, z: Any = None, flag: Any = None) -> np.ndarray:
        constant, along_x, bend_x, along_z, along_flag = self.weights[output]
        x = self.x if x is None else x
        z = self.z if z is None else z
        flag = self.flag if flag is None else flag
        return constant + along_x * x + bend_x * x**2 + along_z * z + along_flag * flag

    def slope(self, output: int = 0) -> np.ndarray:
        return self.weights[output][1] + 2 * self.weights[output][2] * self.x

    def bend(self, output: int = 0) -> np.ndarray:
        return 2 * self.weights[output][2] + 0 * self.x

    def spread(self, of: Callable[[Any, Any, Any], Any]) -> float:
        """Standard deviation over the training rows of a quantity of (x, z, targets)."""
        return float(np.std(of(self.columns.rows[:, 0], self.columns.rows[:, 1], self.targets)))

    @property
    def targets(self) -> np.ndarray:
        return self.columns.targets.T


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

every_rule = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_scaling = pytest.mark.parametrize("kind", SCALINGS)


def case_called(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


# --- the programs --------------------------------------------------------------------------

TRACES: list[str] = []


@eqx.filter_jit
def compiled_scores(knowledge: BoundKnowledge, network: Surface) -> list[jax.Array]:
    TRACES.append("scores")
    return knowledge.scores(network)


@eqx.filter_jit
def compiled_measure(knowledge: BoundKnowledge, network: Surface, softness: float) -> Measured:
    return measure(knowledge, network, softness=softness)


def total_violation(network: Callable, knowledge: BoundKnowledge) -> jax.Array:
    return sum(jnp.mean(jnp.minimum(score, 0)) for score in knowledge.scores(network))


@eqx.filter_jit
def scores_and_gradients_of_draws(
    knowledge: BoundKnowledge, network: Surface, weights: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    def one_draw(weights: jax.Array):
        drawn = eqx.tree_at(lambda network: network.weights, network, weights)
        return knowledge.scores(drawn), eqx.filter_grad(total_violation)(drawn, knowledge).weights

    return jax.vmap(one_draw)(weights)


def bound(case: Case, kind: ScalingKind = "standard", **changes: Any) -> BoundKnowledge:
    columns = table(case.outputs)
    return bind_all([replace(case.rule, **changes)], columns, scaled(columns, kind), POINTS)


def network_of(case: Case, weights: Any, kind: ScalingKind = "standard") -> Surface:
    return surface(weights, scaled(table(case.outputs), kind))


def bound_at(rule: Rule, columns: Columns, scaling: Scaling, rows: np.ndarray) -> BoundKnowledge:
    """The rule at rows of one's own choice, instead of points sampled from its region."""
    group = Group(
        jnp.asarray(scaling.inputs(rows), float), (rule.bind(columns, scaling, rows),), (0,)
    )
    return BoundKnowledge((group,), frame_of(columns, scaling), (rule.strength.kind,))


# --- what a rule scores --------------------------------------------------------------------


def concrete_rules(parent: type[Rule] = Rule) -> set[type[Rule]]:
    below = parent.__subclasses__()
    own = {rule for rule in below if rule.__module__.startswith("prbnn.")}
    return {rule for rule in own if not rule.__name__.startswith("_")}.union(
        *(concrete_rules(rule) for rule in below)
    )


def test_every_rule_class_is_in_the_suite_and_public() -> None:
    along_time = {rule for rule in concrete_rules() if issubclass(rule, Along)}
    # those need trajectories: tests/rules/test_along_time.py
    assert {type(case.rule) for case in CASES} == concrete_rules() - along_time
    assert all(hasattr(prbnn, rule.__name__) for rule in concrete_rules() - {Along})


@every_scaling
@every_rule
def test_the_score_is_not_negative_where_the_rule_holds_and_negative_where_not(
    case: Case, kind: ScalingKind
) -> None:
    knowledge = bound(case, kind)
    (obeying,) = compiled_scores(knowledge, network_of(case, case.obeys, kind))
    (breaking,) = compiled_scores(knowledge, network_of(case, case.breaks, kind))
    assert obeying.shape[0] == breaking.shape[0] == POINTS
    assert float(obeying.min()) >= 0
    assert float(breaking.min()) < -CHECK_TOLERANCE


@every_scaling
@every_rule
def test_the_score_times_its_unit_is_the_formula_in_the_users_units(
    case: Case, kind: ScalingKind
) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, kind)
    knowledge = bound_at(case.rule, columns, scaling, PLACES)
    for weights in (case.obeys, case.breaks, np.add(case.breaks, 0.37)):
        (score,) = compiled_scores(knowledge, surface(weights, scaling))
        expected = case.score(Truth(weights, columns, scaling, PLACES)).reshape(POINTS, -1)
        assert score.shape == expected.shape
        close(score * knowledge.units[0], expected)


@pytest.mark.parametrize("kind", ["standard", "minmax"])
@every_rule
def test_the_unit_is_the_spread_of_the_training_data(case: Case, kind: ScalingKind) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, kind)
    close(scaling.input_sd, columns.rows.std(axis=0))
    close(scaling.output_sd, columns.targets.std(axis=0))
    close(bound(case, kind).units, [case.unit(Truth(case.obeys, columns, scaling, PLACES))])


@every_rule
def test_one_point_in_plain_python_is_scored_as_in_the_compiled_pool(case: Case) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, "standard")
    knowledge = bound_at(case.rule, columns, scaling, PLACES)
    network = surface(case.breaks, scaling)
    (pool,) = compiled_scores(knowledge, network)
    rule, place = knowledge.rule(0), 13
    score = rule.score(
        Drawn(network, knowledge.frame),
        knowledge.groups[0].points[place],
        jax.tree.map(lambda array: array[place], rule.known),
    )
    close(jnp.atleast_1d(score), pool[place])


@every_rule
def test_the_margin_shifts_the_score_by_exactly_the_margin(case: Case) -> None:
    network = network_of(case, case.breaks)
    margin = case.rule.margin + 0.25
    (plain,) = compiled_scores(bound(case), network)
    (strict,) = compiled_scores(bound(case, margin=margin), network)
    close((plain - strict) * bound(case).units[0], np.full(plain.shape, 0.25))


@every_rule
def test_checking_leaves_the_margin_out(case: Case) -> None:
    columns = table(case.outputs)
    scaling = scaled(columns, "standard")
    network = surface(case.breaks, scaling)
    strict = replace(case.rule, margin=0.25)
    received, expected = (
        compiled_scores(bind_all([rule], columns, scaling, POINTS, margins=False), network)[0]
        for rule in (strict, case.rule)
    )
    close(received, expected)


# --- transformations -----------------------------------------------------------------------


@every_rule
def test_draws_can_be_scored_and_differentiated_side_by_side(case: Case) -> None:
    knowledge, network = bound(case), network_of(case, case.obeys)
    draws = jnp.stack([network.weights, network_of(case, case.breaks).weights])
    (scores,), gradients = scores_and_gradients_of_draws(knowledge, network, draws)
    for weights, score in zip((case.obeys, case.breaks), scores, strict=True):
        close(score, compiled_scores(knowledge, network_of(case, weights))[0])
    assert np.all(np.isfinite(gradients))
    assert float(jnp.abs(gradients[1]).max()) > 1e-3


@every_rule
def test_gradients_are_those_of_finite_differences(case: Case) -> None:
    knowledge, network = bound(case), network_of(case, case.breaks)
    direction = jax.random.normal(jax.random.key(1), network.weights.shape)
    _, gradients = scores_and_gradients_of_draws(
        knowledge, network, jnp.stack([network.weights, network.weights])
    )

    def violation(step: float) -> float:
        moved = eqx.tree_at(lambda n: n.weights, network, network.weights + step * direction)
        (score,) = compiled_scores(knowledge, moved)
        return float(np.mean(np.minimum(np.asarray(score, np.float64), 0)))

    difference = (violation(1e-2) - violation(-1e-2)) / 2e-2
    slope = float(jnp.sum(gradients[0] * direction))
    assert slope == pytest.approx(difference, rel=0.05, abs=2e-3)


def test_rules_of_every_class_together_have_finite_gradients_on_a_relu_network() -> None:
    columns = table(ONE)
    rules = {type(case.rule): case.rule for case in CASES if case.outputs == ONE}
    knowledge = bind_all(list(rules.values()), columns, scaled(columns, "standard"), 16)
    network = MLP((8,)).build(jax.random.key(0), len(INPUTS), 1)
    leaves = jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(total_violation))(network, knowledge))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
    assert all(np.any(np.asarray(leaf) != 0) for leaf in leaves)


def variations(case: Case) -> list[tuple[BoundKnowledge, Surface]]:
    """Other bounds, margins, data, points, weights and scalings of the same declaration."""
    here, elsewhere = table(case.outputs), table(case.outputs, seed=7, rows=56)
    stricter = replace(case.rule, margin=case.rule.margin + 0.1)
    return [
        (
            bind_all([rule], columns, scaled(columns, kind), POINTS, seed=seed),
            surface(weights, scaled(columns, kind)),
        )
        for rule, columns, kind, seed, weights in (
            (case.rule, here, "standard", 0, case.obeys),
            (case.other, here, "standard", 0, case.obeys),
            (stricter, here, "standard", 0, case.obeys),
            (case.rule, elsewhere, "standard", 0, case.obeys),
            (case.rule, here, "standard", 5, case.obeys),
            (case.rule, here, "minmax", 0, case.obeys),
            (case.other, elsewhere, "none", 9, case.breaks),
        )
    ]


@every_rule
def test_other_numbers_compile_nothing_anew(case: Case) -> None:
    first, *others = variations(case)
    compiled_scores(*first)
    traces = len(TRACES)
    for knowledge, network in others:
        compiled_scores(knowledge, network)
    assert len(TRACES) == traces


def test_another_number_of_points_is_noticed_by_the_counter_of_compilations() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    network = surface(CASES[0].obeys, scaling)
    traces = len(TRACES)
    compiled_scores(bind_all([CASES[0].rule], columns, scaling, 3), network)
    assert len(TRACES) == traces + 1


# --- a rule is a plain value ---------------------------------------------------------------


@every_rule
def test_declarations_pickle_copy_and_compare(case: Case) -> None:
    for rule in (case.rule, case.rule.soft(2.0), replace(case.rule, name="a", because="b")):
        assert pickle.loads(pickle.dumps(rule)) == rule
        assert copy.deepcopy(rule) == rule
        assert replace(rule) == rule
    assert case.rule != case.other
    assert case.rule != case.rule.soft(2.0)
    assert case.rule != replace(case.rule, margin=case.rule.margin + 0.1)


@every_rule
def test_declarations_print_what_they_hold(case: Case) -> None:
    text = repr(replace(case.rule, name="my rule", because="physics"))
    assert text.startswith(f"{type(case.rule).__name__}(name='my rule'")
    assert "because='physics'" in text
    assert replace(case.rule, name="my rule").label == "my rule"
    assert case.rule.label == case.rule.describe() != ""
    if "<function" not in text:
        names = {**vars(prbnn), "Hard": Hard}
        assert eval(repr(case.rule), names) == case.rule


STRENGTHS: list[tuple[Callable[[Rule], Rule], Any, str]] = [
    (lambda rule: rule.soft(3.0), Soft(3.0, 1.0), "soft"),
    (lambda rule: rule.soft(3.0, power=2), Soft(3.0, 2), "soft"),
    (lambda rule: rule.hard(), Hard(None), "hard"),
    (lambda rule: rule.hard(0.1), Hard(0.1), "hard with a tolerance"),
    (lambda rule: rule.probably(0.9), Probable(0.9, "functions"), "probable functions"),
    (lambda rule: rule.probably(0.9, of="points"), Probable(0.9, "points"), "probable points"),
    (lambda rule: rule.on_average(), OnAverage(0.0), "average"),
    (lambda rule: rule.on_average(0.2), OnAverage(0.2), "average"),
]


@every_rule
def test_a_strength_makes_a_new_rule_that_keeps_the_rest(case: Case) -> None:
    rule = replace(case.rule, name="kept", because="kept too")
    for strengthen, strength, kind in STRENGTHS:
        strengthened = strengthen(rule)
        assert strengthened.strength == strength
        assert strengthened.strength.kind == kind
        assert rule.strength == Hard()
        assert type(strengthened) is type(rule)
        assert replace(strengthened, strength=Hard()) == rule


# --- measuring -----------------------------------------------------------------------------


def measured_by_hand(
    score: np.ndarray, strength: Any, weights: np.ndarray | None, softness: float
) -> tuple[float, float]:
    """f and broken, as `measure` documents them, from scores of shape (points, components)."""
    if isinstance(strength, Probable):
        counted = score.min(axis=1) if strength.of == "points" else score.min().reshape(1)
        surrogate = 1 / (1 + np.exp(counted / softness))
        return -surrogate.mean(), np.mean(counted < 0)
    kept = score if isinstance(strength, OnAverage) else np.minimum(score, 0)
    at_points = kept.mean(axis=1) if weights is None else (kept * weights).sum(axis=1)
    return at_points.mean(), float(score.min() < -CHECK_TOLERANCE)


@pytest.mark.parametrize(
    "name",
    [
        "at least a number",
        "slope of the second output",
        "score with several components",
        "combined with a step and a score",
    ],
)
def test_measuring_follows_its_formula_for_every_strength(name: str) -> None:
    case = case_called(name)
    rule = case.rule
    rules = [
        rule.soft(2.0),
        rule.hard(),
        rule.hard(0.1),
        rule.probably(0.9),
        rule.probably(0.9, of="points"),
        rule.on_average(0.3),
    ]
    columns = table(case.outputs)
    knowledge = bind_all(rules, columns, scaled(columns, "standard"), POINTS)
    weights = np.array(rule.each_weight) if isinstance(rule, Combined) else None
    for surface_weights in (case.obeys, case.breaks):
        network = network_of(case, surface_weights)
        measured = compiled_measure(knowledge, network, 0.3)
        score = np.asarray(compiled_scores(bound(case), network)[0], np.float64)
        expected = [measured_by_hand(score, rule.strength, weights, 0.3) for rule in rules]
        close(measured.f, [f for f, _ in expected])
        close(measured.broken, [broken for _, broken in expected])


def test_a_block_of_points_is_measured_like_the_pool() -> None:
    case = case_called("combined with a step and a score")
    knowledge, network = bound(case), network_of(case, case.breaks)
    (pool,) = compiled_scores(knowledge, network)

    @eqx.filter_jit
    def of_block(start: jax.Array) -> tuple[list[jax.Array], Measured]:
        return knowledge.scores(network, start, 24), measure(knowledge, network, start, 24)

    for start in (0, 16, 40):
        (block,), measured = of_block(jnp.asarray(start))
        close(block, pool[start : start + 24])
        weights = np.array(case.rule.each_weight)
        f, broken = measured_by_hand(np.asarray(block), Hard(), weights, 0.02)
        close(measured.f, [f])
        close(measured.broken, [broken])


def test_rules_are_measured_in_the_order_the_user_gave() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    cases = [case for case in CASES if case.outputs == ONE][::-6]
    rules = [case.rule for case in cases]
    network = surface(cases[0].breaks, scaling)
    together = bind_all(rules, columns, scaling, POINTS)
    alone = [bind_all([rule], columns, scaling, POINTS) for rule in rules]
    close(together.units, [knowledge.units[0] for knowledge in alone])
    assert len({len(group.places) for group in together.groups}) > 1, "some should share points"
    for received, knowledge in zip(together.scores(network), alone, strict=True):
        close(received, compiled_scores(knowledge, network)[0])


def test_checking_leaves_the_margins_of_combined_parts_out() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    received, expected = (
        bind_all([Combined([AtLeast(0, margin=margin)])], columns, scaling, 4, margins=False)
        for margin in (5.0, 0.0)
    )
    network = surface([1, 0, 0, 0, 0], scaling)
    close(received.scores(network)[0], expected.scores(network)[0])


def test_the_default_step_of_a_combined_part_fits_the_region_of_the_whole() -> None:
    columns = table(ONE)
    narrow = {"x": (0.5, 0.6)}
    whole, part = Combined([Convex("x")], where=narrow), Convex("x", where=narrow)
    assert whole.sampling(columns) == part.sampling(columns)


def test_a_combined_part_counts_the_mean_of_its_components() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    rule = Score(level_slope_and_bend, where=WHERE)
    network = surface(case_called("score with several components").breaks, scaling)
    alone, whole = (
        measure(bind_all([rule], columns, scaling, POINTS), network).f
        for rule in (rule, Combined([rule], where=WHERE))
    )
    close(whole, alone)


def value_under_a_condition(function: Any, x: Any) -> Any:
    return jax.lax.cond(x["x"] > 1, lambda: function(x), lambda: 0.0)


def test_a_score_may_call_the_function_inside_a_jax_transformation() -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    rules = [Score(value_under_a_condition), AtLeast(0)]
    network = surface([0, 1, 0, 0, 0], scaling)
    conditional, plain = bind_all(rules, columns, scaling, 8).scores(network)
    assert np.all(np.asarray(plain) > 0)
    assert np.any(np.asarray(conditional) == 0)
    assert np.any(np.asarray(conditional) > 0)


@pytest.mark.parametrize("of", ["functions", "points"])
def test_rounding_does_not_break_a_rule_of_any_strength(of: Any) -> None:
    columns = table(ONE)
    scaling = scaled(columns, "standard")
    rules = [Convex("x"), Convex("x").probably(0.9, of=of)]
    line = surface([1, 0.3, 0, 0, 0], scaling)
    measured = measure(bind_all(rules, columns, scaling, POINTS), line)
    assert measured.broken.tolist() == [0, 0]


def test_an_output_and_a_text_that_equals_it_have_the_same_unit_under_every_scaling() -> None:
    columns = table(ONE)
    for kind in SCALINGS:
        units = bind_all(
            [AtLeast(0), AtLeast(0, of="y + 0")], columns, scaled(columns, kind), POINTS
        ).units
        close(units[0], units[1])
