"""A drawn function answers in the user's units and asks the network once a point."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.rules.scoring.drawn import Drawn, Point, frame_of

INPUTS = np.array([[0.0, 10.0], [2.0, 30.0], [4.0, 80.0]])
OUTPUTS = np.array([[5.0, 1.0], [7.0, 9.0], [12.0, 2.0]])
SCALING = scaling_of(INPUTS, OUTPUTS)
FRAME = frame_of(Columns(("x", "z"), ("y", "w"), INPUTS, OUTPUTS), SCALING)
USER = np.array([1.5, 20.0])


def close(received: object, expected: float) -> None:
    assert float(received) == pytest.approx(expected, rel=1e-4)  # type: ignore[arg-type]


def drawn(calls: list[str] | None = None) -> Drawn:
    """y = x^2 + 3 z and w = x z, in the user's units; every call of the network is noted."""

    def network(network_input: jax.Array) -> jax.Array:
        if calls is not None:
            calls.append("call")
        x, z = network_input * SCALING.input_scale + SCALING.input_shift
        outputs = jnp.stack([x**2 + 3 * z, x * z])
        return (outputs - SCALING.output_shift) / SCALING.output_scale

    return Drawn(network, FRAME)


def point() -> Point:
    return Point(jnp.asarray(SCALING.inputs(USER), float), FRAME)


def test_values_slopes_and_bends_are_in_the_users_units() -> None:
    function, x = drawn(), point()
    close(x["x"], 1.5)
    close(x["z"], 20)
    close(function(x, of="y"), 1.5**2 + 60)
    close(function(x, of="w"), 30)
    close(function.slope(x, "x", of="y"), 3)
    close(function.slope(x, "z", of="y"), 3)
    close(function.slope(x, "x", of="w"), 20)
    close(function.bend(x, "x", 1.0, of="y"), 2)


def test_a_point_can_be_moved_in_the_users_units() -> None:
    function, x = drawn(), point()
    moved = x.replace(x=3.0, z=x["z"] + 5)
    close(moved["x"], 3)
    close(moved["z"], 25)
    close(function(moved, of="w"), 75)
    close(x["x"], 1.5)


@pytest.mark.parametrize(
    ("ask", "calls"),
    [
        (lambda function, x: [function(x, of="y"), function(x, of="w"), function(x, of="y")], 1),
        (lambda function, x: [function.slope(x, c, of="y") for c in ("x", "z", "x", "z")], 1),
        (lambda function, x: [function.slope(x, "x", of="y"), function(x, of="w")], 1),
        (lambda function, x: [function(x, of="w"), function(x.replace(x=0.0), of="w")], 2),
    ],
    ids=["values", "slopes", "slope then value", "two points"],
)
def test_the_network_is_asked_once_a_point(ask: Callable, calls: int) -> None:
    noted: list[str] = []
    ask(drawn(noted), point())
    assert len(noted) == calls


def test_points_that_are_gone_are_not_mistaken_for_new_ones() -> None:
    function = drawn()
    for value in range(200):
        close(function(point().replace(x=float(value), z=1.0), of="y"), value**2 + 3)
