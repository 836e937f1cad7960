"""Drawn functions whose scores a reader can check by hand.

They are surfaces y = w . (1, x, x^2, z, flag), one row of weights per output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling, ScalingKind, scaling_of

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
