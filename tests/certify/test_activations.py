"""Ranges and lines of activations against dense deployed values: the ground all bounds stand on."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn.certify.enclosures.activations import ROUNDING, line, range_of, relu_below
from prbnn.model.nonlinearities import ACTIVATIONS

CASES = [
    (name, order) for name in ACTIVATIONS for order in (0, 1, 2) if (name, order) != ("relu", 2)
]


def intervals(count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Of every width and place; points; both sides of 0; where saturation begins."""
    generator = np.random.default_rng(0)
    centre = generator.normal(size=count) * generator.choice([0.1, 1, 5, 30, 1e3, 1e6], count)
    width = generator.choice([0, 1e-15, 1e-9, 9e-7, 1.1e-6, 1e-3, 0.1, 1, 5, 40, 1e4], count)
    width = width * generator.random(count)
    # single points, densely where float32's tanh gives up
    dense = np.linspace(-12, 12, 12_001)
    low = np.concatenate([centre - width / 2, dense, -dense])
    return low, np.concatenate([centre + width / 2, dense, -dense + 1e-7])


def deployed(name: str, order: int, z: np.ndarray, kind: str) -> np.ndarray:
    """The activation or a derivative of it, as jvp of jvp computes it in a precision."""
    with jax.enable_x64(kind == "float64"):
        function = ACTIVATIONS[name]
        for _ in range(order):
            function = lambda z, f=function: jax.jvp(f, (z,), (jnp.ones_like(z),))[1]  # noqa: E731
        return np.asarray(jax.jit(function)(jnp.asarray(z, kind)), np.float64)


def astray(name: str, order: int, kind: str) -> list[str]:
    low, high = intervals()
    rounding = ROUNDING[np.dtype(kind)]
    with jax.disable_jit(), jax.enable_x64(True):
        ends = jnp.asarray(low), jnp.asarray(high)
        least, most = (np.asarray(a) for a in range_of(name, order, *ends, rounding))
        slope, below, above = (np.asarray(a) for a in line(name, order, *ends, rounding))
        under = np.asarray(relu_below(*ends)) if name == "relu" and order == 0 else None
    places = (low + (high - low) * np.linspace(0, 1, 17)[:, None]).astype(kind).astype(np.float64)
    found = []
    for z, value in zip(places, deployed(name, order, places, kind), strict=True):
        keep = (low <= z) & (z <= high)
        # the line is a claim about real numbers; its own product is rounded here
        own = 4 * 2.0**-53 * (np.abs(slope * z) + np.abs(below) + np.abs(above))
        bad = {
            "range": (value < least) | (value > most),
            "line": (value < slope * z + below - own) | (value > slope * z + above + own),
        }
        if under is not None:
            bad["below"] = value < under * z
        for what, wrong in bad.items():
            for k in np.flatnonzero(wrong & keep)[:1]:
                found.append(f"{what}: f({z[k]!r}) = {value[k]!r} over [{low[k]!r}, {high[k]!r}]")
    return found


@pytest.mark.parametrize("kind", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "order"), CASES)
def test_ranges_and_lines_hold_at_every_deployed_value(name: str, order: int, kind: str) -> None:
    assert not astray(name, order, kind)


@pytest.mark.parametrize(("name", "order"), [case for case in CASES if case[0] == "gelu"])
def test_the_same_where_the_compiler_optimises_nothing(name: str, order: int) -> None:
    # XLA's tanh then stays below 1 further out, and gelu's derivatives magnify the difference
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        assert not astray(name, order, "float32")
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
