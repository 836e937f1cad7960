"""Fits that must be called converged, and fits that must not: the law on their courses, and on fits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from tests.marks import quick

from prbnn import MLP, BayesByBackprop, Dropout, Ensemble, Laplace, PRBNNRegressor, fit
from prbnn.fitting.at_rest import LARGEST_GAIN, LEAST_REACH, Drift, drift, extrapolated, gain_ahead
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine
from prbnn_studies import simulation2

# (objective per row after every 250 steps, learning rate), as measured by four members at tempering 0.2
# unless said otherwise; predictions stay as they are over three times as many steps
GOOD: dict[str, tuple[str, float]] = {
    "README, 80 rows": (
        "-4.851 -3.576 -2.784 -2.071 -1.486 -1.142 -1.017 -0.937 -0.897 -0.868 -0.851 -0.829 "
        "-0.819 -0.802 -0.797 -0.788 -0.785 -0.774 -0.761 -0.762 -0.757 -0.755 -0.75 -0.752",
        0.003,
    ),
    "diabetes, 60 rows, tempering 0.4": (
        "-33.04 -25.32 -19.066 -13.115 -7.646 -3.568 -1.883 -1.584 -1.55 -1.535 -1.53 -1.523 "
        "-1.524 -1.518 -1.517 -1.515 -1.523 -1.511 -1.509 -1.502 -1.494 -1.494 -1.49 -1.485",
        0.003,
    ),
    "sine, 20 rows": (
        "-12.912 -9.713 -7.305 -5.28 -3.738 -2.832 -2.404 -2.175 -2.011 -1.926 -1.847 -1.783 "
        "-1.737 -1.683 -1.649 -1.603 -1.59 -1.554 -1.527 -1.509 -1.486 -1.48 -1.481 -1.476",
        0.003,
    ),
    "sine, 100 rows": (
        "-3.03 -1.819 -1.295 -0.978 -0.776 -0.673 -0.615 -0.547 -0.511 -0.481 -0.454 -0.429 "
        "-0.407 -0.377 -0.365 -0.34 -0.333 -0.319 -0.301 -0.285 -0.265 -0.259 -0.254 -0.249",
        0.003,
    ),
    "a law and a noise of the user's own, 20 rows, tempering 1": (
        "-19.85 -9.59 -6.05 -3.99 -2.67 -2.38 -2.38 -2.44 -2.5 -2.42 -2.3 -2.23 -2.17 -2.15 "
        "-2.08 -2.1 -2.09 -2.09 -2.13 -2.1 -2.07 -2.06 -2.04 -2.04",
        0.003,
    ),
    "README, dropout": (
        "-0.926 -0.526 -0.453 -0.409 -0.381 -0.363 -0.348 -0.34 -0.334 -0.329 -0.325 -0.324 "
        "-0.323 -0.322 -0.32 -0.323 -0.323 -0.32 -0.32 -0.319",
        0.005,
    ),
    "README, ensemble": (
        "-0.811 -0.488 -0.411 -0.368 -0.343 -0.327 -0.317 -0.311 -0.306 -0.303 -0.301 -0.3 "
        "-0.299 -0.299 -0.298 -0.298",
        0.005,
    ),
}
# with these, three times as many steps give another objective, another spread or another prediction
BAD: dict[str, tuple[str, float]] = {
    "README, learning rate 1e-5": (
        "-18.36 -16.816 -15.438 -14.206 -13.104 -12.118 -11.237 -10.449 -9.748 -9.124 -8.571 "
        "-8.082 -7.652 -7.276 -6.947 -6.661 -6.414 -6.208 -6.047 -5.929 -5.849 -5.801 -5.778 "
        "-5.77",
        1e-05,
    ),
    "diabetes, learning rate 1e-5": (
        "-45.569 -44.233 -43.145 -42.254 -41.521 -40.917 -40.415 -39.996 -39.643 -39.343 "
        "-39.085 -38.86 -38.662 -38.484 -38.323 -38.176 -38.039 -37.917 -37.814 -37.733 "
        "-37.675 -37.639 -37.621 -37.616",
        1e-05,
    ),
    "README, 2,000 steps": (
        "-4.851 -3.576 -2.784 -2.071 -1.486 -1.142 -1.019 -0.967",
        0.003,
    ),
    "sine, 20 rows, 2,000 steps": (
        "-12.912 -9.713 -7.305 -5.28 -3.738 -2.833 -2.433 -2.301",
        0.003,
    ),
    "sine, 100 rows, 2,000 steps": (
        "-3.03 -1.819 -1.295 -0.978 -0.776 -0.672 -0.605 -0.551",
        0.003,
    ),
    "README, dropout, 1,000 steps": (
        "-0.926 -0.526 -0.453 -0.416",
        0.005,
    ),
    "README, ensemble, 1,000 steps": (
        "-0.811 -0.488 -0.411 -0.377",
        0.005,
    ),
    "README, Laplace, 1,000 steps": (
        "-0.836 -0.508 -0.435 -0.397",
        0.005,
    ),
    "an average far from the data, 6,000 steps": (
        "-1.853 -0.759 -0.575 -0.471 -0.407 -0.366 -0.373 -2.221 -3.044 -1.711 -1.49 -1.392 "
        "-1.309 -1.232 -1.174 -1.119 -1.08 -1.054 -1.04 -1.031 -1.025 -1.021 -1.02 -1.022",
        0.003,
    ),
    "the same, disturbed while it settled": (
        "-1.49 -1.392 -1.309 -1.232 -1.174 -1.119 -1.08 -1.054 -1.039 -1.03 -1.023 -1.016 "
        "-1.012 -1.009 -1.005 -1.007 -1.005 -1.007 -1.015 -1.055 -1.223 -1.858 -1.741 -1.467 "
        "-1.371 -1.328 -1.315 -1.315",
        0.003,
    ),
}


def drift_of(course: str, rate: float, rows: float = 40.0) -> Drift:
    """The drift of a fit of this course, whose learning rate fell over its last third."""
    objective = [float(value) for value in course.split()]
    record: Any = [
        (250 * (place + 1), SimpleNamespace(log_likelihood=rows * value + 3.0, cost=30.0))
        for place, value in enumerate(objective)
    ]
    task: Any = SimpleNamespace(
        engine=SimpleNamespace(learning_rate=rate), rows=rows, tempering=0.1
    )
    return drift(task, record, 250 * len(objective) // 3)


@pytest.mark.parametrize("name", GOOD)
def test_a_fit_that_has_settled_is_said_to_have(name: str) -> None:
    assert drift_of(*GOOD[name]).settled


@pytest.mark.parametrize("name", BAD)
def test_a_fit_that_has_not_is_not(name: str) -> None:
    assert not drift_of(*BAD[name]).settled


@pytest.mark.parametrize("name", [name for name in BAD if "1e-5" in name])
def test_a_learning_rate_that_is_too_low_shows_twice(name: str) -> None:
    found = drift_of(*BAD[name])
    assert found.ahead > LARGEST_GAIN
    assert found.reach < LEAST_REACH / 10


def test_a_fit_that_falls_while_it_settles_is_not_at_rest() -> None:
    found = drift_of(*BAD["the same, disturbed while it settled"])
    assert abs(found.ahead) < LARGEST_GAIN < found.fallen


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_the_gain_ahead_of_an_exponential_approach(speed: float) -> None:
    """From the mean of the last quarter to that of the last of four more."""
    time = np.linspace(0, 4, 400, endpoint=False) * speed
    parts = -np.exp(-time).reshape(4, 100).mean(axis=1)
    later = -np.exp(-(time + 4 * speed)).reshape(4, 100).mean(axis=1)[-1]
    assert extrapolated(-np.exp(-time), 400) == pytest.approx(later - parts[-1], rel=1e-6)
    assert gain_ahead(-np.exp(-time)) <= later - parts[-1]


def test_a_course_at_rest_has_no_gain_ahead_but_noise() -> None:
    generator = np.random.default_rng(0)
    found = [gain_ahead(0.01 * generator.normal(size=16)) for _ in range(200)]
    assert np.max(np.abs(found)) < LARGEST_GAIN


@pytest.mark.parametrize("chunks", [0, 1])
def test_of_too_few_steps_nothing_is_said(chunks: int) -> None:
    found = Drift(gain_ahead(np.zeros(chunks)), 0.0, np.inf)
    assert np.isnan(found.ahead)
    assert not found.settled


# --- the same of fits --------------------------------------------------------------------------


def sine(rows: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    x = generator.uniform(0, 1, (rows, 1))
    return x, np.sin(6 * x[:, 0]) + 0.1 * generator.normal(size=rows)


def fitted(engine: Engine, steps: int | None = None) -> Solution:
    network = MLP((10,), "gelu")
    return fit(
        network,
        *sine(40),
        inference=engine,
        scaling="standard",
        tempering=0.2,
        steps=steps,
        draws=10,
    )


ENDS: dict[str, tuple[Engine, int | None, str]] = {
    "bbb": (BayesByBackprop(draws=2), None, ""),
    "bbb, too few steps": (BayesByBackprop(draws=2), 1000, "objective was still moving"),
    "bbb, hardly any steps": (BayesByBackprop(draws=2), 250, "cannot have left its start"),
    "bbb, low rate": (BayesByBackprop(learning_rate=1e-5), None, "cannot have left its start"),
    "bbb, lower rate": (BayesByBackprop(learning_rate=1e-8), None, "cannot have left its start"),
    "dropout": (Dropout(), None, ""),
    "dropout, too few steps": (Dropout(), 1000, "objective was still moving"),
    "ensemble": (Ensemble(members=3), None, ""),
    "ensemble, too few steps": (Ensemble(members=3), 750, "objective was still moving"),
    "laplace": (Laplace(), None, ""),
    "laplace, too few steps": (Laplace(), 750, "objective was still moving"),
}
EVERY_TIME = ("bbb", "bbb, too few steps", "bbb, hardly any steps", "bbb, lower rate")


@pytest.mark.parametrize("name", quick(ENDS, *EVERY_TIME))
def test_how_a_fit_ended_is_said(name: str) -> None:
    engine, steps, why = ENDS[name]
    result = fitted(engine, steps).result
    assert result.status == ("budget spent" if why else "converged")
    assert why in result.message
    assert ("Likely causes, in order" in result.message) == bool(why)


def readme() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = np.column_stack([generator.uniform(1, 60, 80), generator.uniform(120, 220, 80)])
    y = 12 * np.log1p(x[:, 0]) - 0.1 * (x[:, 1] - 120) + generator.normal(0, 3, 80)
    return x, y


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_diabetes(return_X_y=True)
    few = np.random.default_rng(1).permutation(len(y))[:60]
    return x[few], y[few]


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "README": readme,
    "diabetes": diabetes,
    "simulation 2": simulation2.data,
    "sine, 20 rows": lambda: sine(20),
}
MIXED = {"draws": 2, "members": 4}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", TABLES)
def test_default_fits_converge_and_shorter_or_slower_ones_do_not(name: str) -> None:
    rows = TABLES[name]()
    ends = []
    for steps, rate in ((None, 0.003), (2000, 0.003), (None, 1e-5)):
        engine = BayesByBackprop(learning_rate=rate, **MIXED)
        model = PRBNNRegressor(
            inference=engine, tempering=0.2, steps=steps, draws=50, random_state=0
        )
        ends.append(model.fit(*rows).result_.status)
    assert ends == ["converged", "budget spent", "budget spent"]
