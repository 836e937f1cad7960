"""OC-BNN's smooth forbidden intervals: which way round, and the same in any unit of the target."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import Outside
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.rules.scoring.binding import bind_all

X = np.linspace(0, 1, 20)[:, None]


def score(value: float, scaling: str = "none", intervals=((-1e3, 2.5), (3.0, 1e3))) -> float:
    """Of a function that is ``value`` everywhere, in the user's units."""
    y = np.linspace(-4, 6, 20)[:, None]
    scale = scaling_of(X, y, scaling)
    rule = Outside(list(intervals), smooth=(15.0, 2.0)).in_prior(1e4)
    knowledge = bind_all([rule], Columns(("x",), ("y",), X, y), scale, 16)
    level = (value - scale.output_shift) / scale.output_scale
    found = knowledge.scores(lambda x: jnp.asarray(level, float))[0]
    assert knowledge.units.tolist() == [1.0]
    return float(found.mean())


def c(z: float) -> float:
    """As published."""
    return (np.tanh(-15 * z) + 1) * (np.tanh(-2 * z) + 1) / 4


@pytest.mark.parametrize("value", [-3.0, 2.0, 2.49, 2.5, 2.75, 3.0, 3.01, 3.4, 6.0])
@pytest.mark.parametrize("scaling", ["none", "standard", "minmax"])
def test_the_formula(value: float, scaling: str) -> None:
    intervals = [(-1e3, 2.5), (3.0, 1e3)]
    exact = -sum(c(value - high) * c(low - value) for low, high in intervals)
    assert score(value, scaling) == pytest.approx(exact, abs=2e-4)


def test_it_is_minus_one_well_inside_an_interval_and_nothing_outside() -> None:
    assert score(-3.0) == pytest.approx(-1, abs=1e-3)
    assert score(6.0) == pytest.approx(-1, abs=1e-3)
    assert score(0.0, intervals=[(3.0, 5.0)]) == pytest.approx(0, abs=1e-3)
    assert score(2.75) > -0.1
