"""Probabilities of intervals against scipy, into the far tails, with their gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from prbnn.model.tails import normal_log_mass, poisson_log_mass, student_log_mass

GENERATOR = np.random.default_rng(0)
STARTS = np.float32(GENERATOR.normal(0, 12, 300))
INTERVALS = np.stack([STARTS, STARTS + np.float32(10 ** GENERATOR.uniform(-3, 1.3, 300))])
LAWS: dict[str, tuple] = {
    "normal": (normal_log_mass, stats.norm()),
    "t of 2.5": (lambda *ends: student_log_mass(2.5, *ends), stats.t(2.5)),
    "t of 30": (lambda *ends: student_log_mass(30.0, *ends), stats.t(30)),
}


def log_mass(law, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A difference of the smaller tails, in float64."""
    right = low + high > 0
    first, last = np.where(right, -high, low), np.where(right, -low, high)
    return law.logcdf(last) + np.log(-np.expm1(law.logcdf(first) - law.logcdf(last)))


@pytest.mark.parametrize(("mass", "law"), LAWS.values(), ids=LAWS)
def test_intervals_and_their_gradients(mass, law) -> None:
    def one(mean, scale, low, high):
        return mass(low, high, mean, scale)

    slopes = jax.jit(jax.vmap(jax.value_and_grad(one, (0, 1))))
    ones = np.ones(300, np.float32)
    found, (by_mean, by_scale) = slopes(0 * ones, ones, *INTERVALS)
    low, high = INTERVALS.astype(float)
    with np.errstate(divide="ignore"):
        wanted = log_mass(law, low, high)
    known = np.isfinite(wanted)
    assert known.mean() > 0.8
    size = np.maximum(1, np.abs(wanted))
    assert np.all(np.abs(found - wanted)[known] < 1e-4 * size[known])
    at_low, at_high = (np.exp(law.logpdf(end) - wanted) for end in (low, high))
    for slope, answer in ((by_mean, at_low - at_high), (by_scale, low * at_low - high * at_high)):
        assert np.all(np.isfinite(slope))
        error = np.abs(slope - answer)[known]
        assert np.all(error < 5e-3 * np.maximum(1, np.abs(answer[known])))


@pytest.mark.parametrize(("mass", "law"), LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("end", [-100.0, -30.0, -2.0, 0.0, 5.0, 30.0, 100.0])
def test_open_intervals(mass, law, end: float) -> None:
    here, one = jnp.float32(end), jnp.float32(1)
    above, below = mass(here, jnp.inf, 0 * one, one), mass(-jnp.inf, here, 0 * one, one)
    assert float(below) == pytest.approx(law.logcdf(end), rel=3e-5, abs=1e-6)
    assert float(above) == pytest.approx(law.logcdf(-end), rel=3e-5, abs=1e-6)
    assert float(mass(-jnp.inf, jnp.inf, here, one)) == 0


def test_a_tail_that_float32_does_not_hold() -> None:
    """P(T < -40) of 300 degrees of freedom is 1e-121."""
    found = student_log_mass(300.0, -jnp.inf, jnp.float32(-40), jnp.float32(0), jnp.float32(1))
    assert float(found) == pytest.approx(stats.t.logcdf(-40, 300), rel=1e-4)


@pytest.mark.parametrize("rate", [0.001, 0.3, 7.3, 400.0])
def test_intervals_of_counts_include_both_ends(rate: float) -> None:
    law, counts = stats.poisson(rate), np.arange(0, 1000)
    slope = jax.jit(jax.value_and_grad(poisson_log_mass))
    intervals = [(1, np.inf), (60, np.inf), (-np.inf, 0), (-np.inf, 12), (0, 3), (2, 9), (350, 420)]
    for low, high in intervals:
        inside = counts[(counts >= low) & (counts <= high)]
        wanted = np.logaddexp.reduce(law.logpmf(inside))
        found, by_log_rate = slope(jnp.float32(np.log(rate)), float(low), float(high))
        assert float(found) == pytest.approx(wanted, rel=2e-4, abs=2e-4), (low, high)
        moved = np.logaddexp.reduce(stats.poisson(rate * np.exp(1e-5)).logpmf(inside))
        assert float(by_log_rate) == pytest.approx((moved - wanted) / 1e-5, rel=1e-2, abs=2e-3)
