"""Flights: sequences whose rules are scored by hand.

A flight is observed for three steps and predicted for four. Its outputs come in another order than
its observed variables, one variable is observed only, and some rows saw fewer steps: what is read
from the wrong place is a number of another size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import KnowledgeError
from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.data.scaling import Scaling, ScalingKind, sequence_scaling
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all

FLIGHT = Layout(("altitude", "heading", "speed"), 3, ("weight",), ("speed", "altitude"), 4)
SCALINGS: tuple[ScalingKind, ...] = ("standard", "minmax", "none")
POINTS = 16


def flights(layout: Layout = FLIGHT, seed: int = 0, rows: int = 20) -> Columns:
    """Altitudes about 1000, headings about 5, speeds about 70."""
    generator = np.random.default_rng(seed)
    size = {"altitude": (1000, 80), "heading": (5, 1), "speed": (70, 6), "weight": (30, 4)}
    bare = [name.partition("[")[0] for name in (*layout.inputs[:-1], *layout.targets)]
    values = np.stack([generator.normal(*size[name], rows) for name in bare], axis=1)
    wide = len(layout.inputs) - 1
    seen = generator.integers(1, layout.history + 1, rows) / layout.history
    inputs = np.column_stack([values[:, :wide], seen])
    return Columns(layout.inputs, layout.targets, inputs, values[:, wide:], layout)


def bound(
    rule: Rule, kind: ScalingKind = "minmax", columns: Columns | None = None
) -> tuple[BoundKnowledge, Scaling]:
    columns = columns or flights()
    assert columns.layout is not None
    scaling = sequence_scaling(columns.layout, columns.rows, columns.targets, kind)
    return bind_all([rule], columns, scaling, POINTS), scaling


def fixed(trajectory: dict[str, Any], scaling: Scaling) -> Callable:
    """A function that predicts the same trajectory wherever it is asked."""
    steps = [[trajectory[name][step] for name in FLIGHT.outputs] for step in range(4)]
    values = jnp.asarray(scaling.outputs(np.ravel(steps)), float)
    return lambda x: values + 0 * jnp.sum(x)


def score(rule: Rule, kind: ScalingKind = "minmax", **trajectory: list[float]) -> np.ndarray:
    """Scores (points, components) of a trajectory, in the user's units."""
    knowledge, scaling = bound(rule, kind)
    whole = {"altitude": [1000.0] * 4, "speed": [70.0] * 4, **trajectory}
    (found,) = knowledge.scores(fixed(whole, scaling))
    return np.asarray(found, np.float64) * knowledge.units[0]


def points(rule: Rule) -> dict[str, np.ndarray]:
    """Where a rule is tried, by column, in the user's units."""
    knowledge, scaling = bound(rule, "none")
    table = np.asarray(knowledge.groups[0].points, np.float64)
    assert np.array_equal(scaling.input_scale, np.ones(len(FLIGHT.inputs)))
    return dict(zip(FLIGHT.inputs, table.T, strict=True))


def close(received: Any, expected: Any) -> None:
    """Equal up to float32 rounding of numbers of about 1000."""
    expected = np.broadcast_to(np.asarray(expected, float), np.shape(received))
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=2e-3)


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(KnowledgeError) as caught:
        make()
    return str(caught.value)
