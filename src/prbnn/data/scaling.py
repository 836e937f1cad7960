"""Shift and scale of every column, between the user's units and the network's, in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from prbnn.data.layout import Layout

ScalingKind = Literal["standard", "minmax", "none"]


@dataclass(frozen=True, eq=False)
class Scaling:
    """``network value = (user value - shift) / scale`` for inputs and outputs.

    `input_sd` and `output_sd` are the standard deviations of the training columns, the unit of
    violations whatever the ``kind`` of scaling.
    """

    input_shift: np.ndarray
    input_scale: np.ndarray
    output_shift: np.ndarray
    output_scale: np.ndarray
    input_sd: np.ndarray
    output_sd: np.ndarray
    kind: ScalingKind = "none"

    def for_inputs_alone(self) -> Scaling:
        """The same, with outputs left in the user's units."""
        return replace(
            self,
            output_shift=np.zeros_like(self.output_shift),
            output_scale=np.ones_like(self.output_scale),
        )

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Inputs ``x`` in network units, float64."""
        return (np.asarray(x, np.float64) - self.input_shift) / self.input_scale

    def outputs(self, y: np.ndarray) -> np.ndarray:
        """Outputs ``y`` in network units, float64."""
        return (np.asarray(y, np.float64) - self.output_shift) / self.output_scale

    def restore(self, y: np.ndarray) -> np.ndarray:
        """Network outputs ``y`` in the user's units."""
        return np.asarray(y, np.float64) * self.output_scale + self.output_shift


def scaling_of(
    x: np.ndarray, y: np.ndarray, kind: ScalingKind = "standard", weight: np.ndarray | None = None
) -> Scaling:
    """The scaling of training data ``x`` and ``y``; a row of ``weight`` 2 counts as two rows.

    >>> scaling_of(np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])).input_shift
    array([1.])
    """
    _check_kind(kind)
    input_shift, input_scale, input_sd = _columns(x, kind, weight)
    output_shift, output_scale, output_sd = _columns(y, kind, weight)
    return Scaling(input_shift, input_scale, output_shift, output_scale, input_sd, output_sd, kind)


def sequence_scaling(
    layout: Layout, x: np.ndarray, y: np.ndarray, kind: ScalingKind = "minmax"
) -> Scaling:
    """One shift and scale per variable, the same at every step, observed or ahead.

    ``x`` and ``y`` have one sequence per row, as ``layout`` describes. Steps that were not observed do
    not count; the fraction of observed steps is not scaled.
    """
    _check_kind(kind)
    seen, ahead = layout.history * len(layout.variables), layout.targets
    columns = np.array([*(name.rpartition("[")[0] for name in layout.inputs[:seen])])
    targets = np.array([name.rpartition("[")[0] if layout.ahead else name for name in ahead])
    first = np.repeat(np.arange(layout.history), len(layout.variables))
    present = first >= np.round(layout.history * (1 - x[:, -1:]))
    inputs, outputs = np.zeros((3, x.shape[1])), np.zeros((3, y.shape[1]))
    inputs[1:] = 1.0
    for name in {*layout.variables, *layout.outputs}:
        here, there = np.flatnonzero(columns == name), np.flatnonzero(targets == name)
        values = np.concatenate([x[:, here][present[:, here]], y[:, there].ravel()])
        found = np.concatenate(_columns(values[:, None], kind, None))[:, None]
        inputs[:, here], outputs[:, there] = found, found
    if layout.static:
        places = np.arange(seen, x.shape[1] - 1)
        inputs[:, places] = np.stack(_columns(x[:, places], kind, None))
    return Scaling(inputs[0], inputs[1], outputs[0], outputs[1], inputs[2], outputs[2], kind)


def _check_kind(kind: ScalingKind) -> None:
    if kind not in get_args(ScalingKind):
        raise ValueError(f"scaling must be 'standard', 'minmax' or 'none', got {kind!r}")


def _columns(
    values: np.ndarray, kind: ScalingKind, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shift, scale and standard deviation of each column; scale and deviation of a constant are 1."""
    width = values.shape[1]
    mean = np.average(values, axis=0, weights=weight)
    spread = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weight))
    sd = np.where(np.ptp(values, axis=0) > 0, spread, 1.0)
    if kind == "none":
        return np.zeros(width), np.ones(width), np.ones(width)
    if kind == "standard":
        return mean, sd, sd
    low, high = values.min(axis=0), values.max(axis=0)
    return low, np.where(high > low, high - low, 1.0), sd
