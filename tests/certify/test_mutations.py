"""The checks can fail: each mistake below, made on purpose, is found by them.

Everything runs operation by operation (no compiled program is kept), so that a mistake is seen at once.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn.certify.enclosures import (
    activations,
    crown,
    curves,
    forms,
    layered,
    operations,
    rounding,
)
from prbnn.model.networks import Dense, Layers
from tests.certify import test_activations, test_programs
from tests.certify.sampled import Trial, deployed, enclosed, network_of, points_of, strays
from tests.certify.test_network_bounds import hunted
from tests.marks import quick

pytestmark = pytest.mark.light

Patch = pytest.MonkeyPatch


def at_points(network: Layers, order: int = 0) -> str:
    """Point boxes: exact arithmetic leaves no room at all, so every rounding shows."""
    inputs = network.layers[0].weight.shape[1]
    low = np.random.default_rng(0).normal(size=(64, inputs)) * 3
    limits = enclosed(network, low, low, order, eager=True)
    return strays(limits, deployed(network, low[:, None])[order])


def wide_relu(kind: str = "float32") -> Layers:
    """Sums of many terms that cancel: float32 rounds far more than they leave."""
    trial = Trial(5.0, cancelling=True)
    return network_of(np.random.default_rng(0), (3, 64, 64, 2), "relu", trial, kind)


def through(activation: str) -> Layers:
    """One activation as it is: nothing but its own rounding."""
    one, none = jnp.ones((1, 1), "float32"), jnp.zeros(1, "float32")
    return Layers((Dense(one, none), Dense(one, none)), activation)


def at_boxes(activation: str, order: int, seed: int = 0) -> str:
    """Wide boxes, corners and insides."""
    generator = np.random.default_rng(seed)
    network = network_of(generator, (2, 8, 8, 2), activation, Trial(2.0), "float32")
    centre = generator.normal(size=(32, 2))
    low, high = centre - 0.4, centre + 0.4
    values = deployed(network, points_of(generator, low, high, 2000), exact=True)[order]
    return strays(enclosed(network, low, high, order, eager=True), values)


def no_unit(patch: Patch) -> Any:
    patch.setitem(rounding.UNIT, "float32", 0.0)
    return at_points(wide_relu())


def small_unit(patch: Patch) -> Any:
    patch.setitem(rounding.UNIT, "float32", rounding.UNIT["float32"] / 4)
    network = network_of(np.random.default_rng(0), (1, 64), "relu", Trial(1.0), "float32")
    return at_points(network)


def no_unit_in_float64(patch: Patch) -> Any:
    patch.setitem(rounding.UNIT, "float64", 0.0)
    for module in (layered, crown, rounding):
        patch.setattr(module, "OWN", 0.0)
    return at_points(wide_relu("float64"))


def no_rounding_of_inputs(patch: Patch) -> Any:
    patch.setattr(layered, "entering", lambda x, precision: x)
    one, none = jnp.ones((1, 1), "float32"), jnp.zeros(1, "float32")
    patch.setitem(rounding.UNIT, "float32", rounding.UNIT["float32"] / 8)
    return at_points(Layers((Dense(one, none),), "relu"))


def no_rounding_of_activations(patch: Patch) -> Any:
    patch.setitem(activations.ROUNDING, np.dtype("float32"), 0.0)
    return test_activations.astray("tanh", 1, "float32")


def small_rounding_of_activations(patch: Patch) -> Any:
    patch.setitem(activations.ROUNDING, np.dtype("float32"), 1e-7)
    return test_activations.astray("tanh", 1, "float32")


def no_rounding_in_a_network(patch: Patch) -> Any:
    patch.setitem(activations.ROUNDING, np.dtype("float32"), 0.0)
    low = np.linspace(-6, -4, 4096)[:, None]
    limits = enclosed(through("gelu"), low, low, 1, eager=True)
    return strays(limits, deployed(through("gelu"), low[:, None])[1])


def gelu_like_the_others(patch: Patch) -> Any:
    patch.setattr(activations, "MAGNIFIED", {})
    return test_activations.astray("gelu", 2, "float32")


def relu_above_too_low(patch: Patch) -> Any:
    plain = activations.line

    def wrong(activation: str, order: int, low: Any, high: Any, rounding: float) -> Any:
        slope, below, above = plain(activation, order, low, high, rounding)
        return slope, below, 0.7 * above

    for module in (layered, crown):
        patch.setattr(module, "line", wrong)
    return at_boxes("relu", 0)


def relu_above_too_steep(patch: Patch) -> Any:
    plain = activations.line

    def wrong(activation: str, order: int, low: Any, high: Any, rounding: float) -> Any:
        slope, below, above = plain(activation, order, low, high, rounding)
        return jnp.where((low < 0) & (high > 0), 0.8 * slope, slope), below, above

    for module in (layered, crown):
        patch.setattr(module, "line", wrong)
    return at_boxes("relu", 0)


def relu_below_too_high(patch: Patch) -> Any:
    patch.setattr(crown, "relu_below", lambda low, high: jnp.where(high <= 0, 0.0, 1.3))
    return at_boxes("relu", 0)


def relu_with_one_slope_at_its_kink(patch: Patch) -> Any:
    plain = activations._relu_range

    def wrong(order: int, low: Any, high: Any) -> Any:
        if order == 1:
            return (low > 0).astype(float), (low >= 0).astype(float)
        return plain(order, low, high)

    patch.setattr(activations, "_relu_range", wrong)
    return at_boxes("relu", 1)


def a_line_without_the_bend_between(patch: Patch) -> Any:
    patch.setattr(activations, "largest", lambda activation, order: 0.0)
    return test_activations.astray("tanh", 0, "float64")


def a_line_compared_at_its_ends_alone(patch: Patch) -> Any:
    patch.setattr(activations, "PIECES", 1)
    patch.setattr(activations, "largest", lambda activation, order: 0.05)
    return hunted(np.random.default_rng(0), (2, 8, 1), "tanh", Trial(3.0))


def turning_points_dropped(patch: Patch) -> Any:
    patch.setattr(activations, "turning_points", lambda activation, order: ())
    return test_activations.astray("rbf", 0, "float64")


def a_slope_without_its_turning_point(patch: Patch) -> Any:
    patch.setattr(activations, "turning_points", lambda activation, order: ())
    return test_activations.astray("tanh", 1, "float64")


def products_without_remainder(patch: Patch) -> Any:
    def wrong(one: Any, other: Any) -> Any:
        here, there = one.middle, other.middle
        return forms.add(
            forms.add(forms.scale(one, there), forms.scale(other, here)),
            forms.constant(-here * there, one.directions),
        )

    patch.setattr(forms, "times", wrong)
    low, high = [-1.0, 0.0], [2.0, 3.0]
    found = test_programs.over(lambda x: x[0] * x[1], low, high)
    return test_programs.outside(found, lambda x: x[0] * x[1], low, high)


def squares_without_room(patch: Patch) -> Any:
    plain = forms.square

    def wrong(one: Any) -> Any:
        found = plain(one)
        return forms.form(
            found.slope, found.low, 0.5 * (found.low + found.high), found.least, found.most
        )

    patch.setattr(forms, "square", wrong)
    return test_programs.outside(
        test_programs.over(lambda x: x[0] ** 2.0, [-1.0], [2.0]), lambda x: x[0] ** 2, [-1.0], [2.0]
    )


def own_rounding_dropped(patch: Patch) -> Any:
    """Sums in float64 against fractions, which do not round."""
    for module in (forms, curves, operations):
        if hasattr(module, "OWN"):
            patch.setattr(module, "OWN", 0.0)
    return own_rounding()


def own_rounding() -> str:
    with jax.enable_x64(True), jax.disable_jit():
        one, other = (forms.constant(jnp.asarray(v), 1) for v in (0.1, 0.2))
        for found, exact in (
            (forms.add(one, other), Fraction(0.1) + Fraction(0.2)),
            (forms.times(one, other), Fraction(0.1) * Fraction(0.2)),
            (forms.scale(one, jnp.asarray(0.3)), Fraction(0.1) * Fraction(0.3)),
            (forms.shift(one, jnp.asarray(0.7)), Fraction(0.1) + Fraction(0.7)),
            (forms.square(one), Fraction(0.1) ** 2),
        ):
            if not Fraction(float(found.least)) <= exact <= Fraction(float(found.most)):
                return f"{exact} not in [{found.least}, {found.most}]"
    return ""


def libm_without_rounding(patch: Patch) -> Any:
    patch.setattr(curves, "ROUND", 0.0)
    patch.setattr(forms, "OWN", 0.0)
    values = np.linspace(0.1, 3, 200)
    with jax.enable_x64(True), jax.disable_jit():
        found = curves.curve(forms.constant(jnp.asarray(values), 1), curves.CURVES["exp"])
    exact = np.exp(values.astype(np.longdouble))
    least, most = np.asarray(found.least), np.asarray(found.most)
    return "outside" if np.any((exact < least) | (exact > most)) else ""


def a_curve_without_its_places(patch: Patch) -> Any:
    patch.setitem(curves.CURVES, "exp", curves.Curve(jnp.exp, lambda s: ()))
    low, high = [-1.0], [2.0]
    found = test_programs.over(lambda x: jnp.exp(x[0]), low, high)
    return test_programs.outside(found, lambda x: np.exp(x[0]), low, high)


def a_curve_without_its_turn(patch: Patch) -> Any:
    patch.setitem(curves.CURVES, "abs", curves.Curve(jnp.abs, lambda s: (jnp.zeros_like(s),)))
    low, high = [-1.0], [2.0]
    found = test_programs.over(lambda x: jnp.abs(x[0]), low, high)
    return test_programs.outside(found, lambda x: np.abs(x[0]), low, high)


def a_choice_that_is_sure_of_itself(patch: Patch) -> Any:
    patch.setattr(curves, "hull", lambda one, other: one)
    low, high = [-1.0], [2.0]
    found = test_programs.over(lambda x: jnp.where(x[0] > 0, 5.0, -5.0) * 1.0, low, high)
    return test_programs.outside(found, lambda x: np.where(x[0] > 0, 5.0, -5.0), low, high)


MUTATIONS: dict[str, Callable[[Patch], Any]] = {
    mutation.__name__: mutation
    for mutation in (
        no_unit,
        small_unit,
        no_unit_in_float64,
        no_rounding_of_inputs,
        no_rounding_of_activations,
        small_rounding_of_activations,
        no_rounding_in_a_network,
        gelu_like_the_others,
        relu_above_too_low,
        relu_above_too_steep,
        relu_below_too_high,
        relu_with_one_slope_at_its_kink,
        a_line_without_the_bend_between,
        a_line_compared_at_its_ends_alone,
        turning_points_dropped,
        a_slope_without_its_turning_point,
        products_without_remainder,
        squares_without_room,
        own_rounding_dropped,
        libm_without_rounding,
        a_curve_without_its_places,
        a_curve_without_its_turn,
        a_choice_that_is_sure_of_itself,
    )
}


# a check that is known to fail of one mistake need not fail of another one every time
LONG = {
    "a_line_compared_at_its_ends_alone",
    "a_slope_without_its_turning_point",
    "no_rounding_in_a_network",
    "no_rounding_of_activations",
    "no_unit",
    "no_unit_in_float64",
    "relu_above_too_low",
    "relu_above_too_steep",
    "relu_with_one_slope_at_its_kink",
    "small_rounding_of_activations",
    "squares_without_room",
}


class Untouched:
    """Patches nothing: the same checks on what is there."""

    def setattr(self, *_: Any) -> None: ...

    def setitem(self, *_: Any) -> None: ...


@pytest.mark.parametrize("name", quick(MUTATIONS, *(set(MUTATIONS) - LONG)))
def test_a_mistake_made_on_purpose_is_found(name: str, monkeypatch: Patch) -> None:
    assert MUTATIONS[name](monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_same_check_is_content_without_the_mistake(name: str) -> None:
    assert not MUTATIONS[name](Untouched())
