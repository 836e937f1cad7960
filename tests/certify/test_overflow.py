"""Numbers that overflow, or are NaN, prove nothing: the enclosure of one is no enclosure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prbnn import MLP, AtLeast, AtMost, DataError, fit
from prbnn.certify import bounds, certify
from prbnn.certify.enclosures.rounding import LARGEST
from tests.certify.made import network, posterior, unit_rows

pytestmark = pytest.mark.light


def test_a_network_whose_outputs_overflow_is_not_proved():
    def cancelling(size: float):
        """y = size relu(size a) - size relu(size a): 0, or no number where the products overflow."""
        return network([([[size], [size]], [0.0, 0.0]), ([[size, -size]], [0.0])])

    draws = posterior([cancelling(size) for size in (1.0, 1e10, 1e20, 3e38)], unit_rows(1))
    places = np.array([[0.3], [0.9]])
    assert np.all(np.isfinite(draws.take(np.arange(2)).functions(places)))
    with pytest.raises(DataError, match="not a finite number"):
        draws.take(np.arange(2, 4)).functions(places)
    # every number obeys; the last two draws are not decided, and take all the seconds
    found = certify(draws, [AtLeast(-1e38, name="floor")], seconds=0.5)["floor"]
    assert found.verdicts[:2] == "PP" and "P" not in found.verdicts[2:]
    ends = bounds(draws, [[0.1]], [[0.9]])
    assert np.all(np.isfinite(ends.lower[:2])) and np.all(np.isfinite(ends.upper[:2]))
    assert np.all(ends.lower[2:] == -np.inf) and np.all(ends.upper[2:] == np.inf)


def test_a_saturating_network_that_overflows_inside_is_not_enclosed():
    # tanh of NaN is NaN, though tanh lies within [-1, 1]
    for weight, known in ((3.0, True), (3e38, False)):
        made = network([([[weight, -weight]], [0.0]), ([[1.0]], [0.0])], "tanh")
        ends = bounds(made, [[2.0, 2.0]], [[3.0, 3.0]])
        assert np.all(np.isfinite([ends.lower, ends.upper])) == known


@pytest.mark.parametrize("activation", ["gelu", "rbf"])
def test_slopes_whose_powers_overflow_are_not_enclosed(activation):
    steep = network([([[1e25]], [0.0]), ([[1.0]], [0.0])], activation)
    slopes = bounds(steep, [[0.1]], [[0.9]], along=0)
    assert np.all(np.isinf(slopes.lower)) and np.all(np.isinf(slopes.upper))


def test_bounds_hold_up_to_the_largest_numbers():
    # just below the limit numbers are as good as any other
    high = network([([[1.0]], [0.0]), ([[float(LARGEST["float32"]) / 4]], [0.0])])
    ends = bounds(high, [[0.25]], [[0.5]])
    assert np.all(np.isfinite(ends.lower)) and np.all(np.isfinite(ends.upper))


def test_construction_proves_nothing_of_draws_that_are_not_numbers():
    x = np.linspace(0, 1, 20)[:, None]
    rules = [AtLeast(0, name="floor"), AtMost("x + 2", name="cap")]
    solution = fit(MLP((4,)), x, x[:, 0] + 0.5, rules, enforce="construction", steps=20, draws=3)
    draws = solution.posterior.draws.copy()
    draws[1] = np.nan
    found = certify(replace(solution.posterior, draws=draws), rules)
    assert [rule.verdicts for rule in found.rules] == ["PUP", "PUP"] and not found.holds
