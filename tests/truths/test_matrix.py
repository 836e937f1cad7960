"""No fit is called converged that is off: every engine, truth and setting of `matrix.py`, over seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tests.truths.matrix import SEEDS, SETTINGS, TRUTHS, Outcome, cells, outcome
from tests.truths.problems import close

CELLS = [
    pytest.param(*cell, marks=() if cell == ("laplace", "line", "short") else pytest.mark.slow)
    for cell in cells()
]


@pytest.mark.parametrize(("engine", "truth", "setting"), CELLS)
def test_converged_is_said_of_what_is_right(engine: str, truth: str, setting: str) -> None:
    found = {seed: outcome(engine, truth, setting, seed) for seed in SEEDS}
    assert {seed: each for seed, each in found.items() if each.false} == {}
    if setting == "defaults" and truth in ("line", "average", "price"):
        # a status that is never "converged" would be never false
        assert any(each.status == "converged" for each in found.values()), found


def test_every_engine_has_five_settings() -> None:
    assert {len(settings) for settings in SETTINGS.values()} == {5}
    assert len(SEEDS) == 5


def test_the_answers_for_a_line_are_those_stated() -> None:
    means, sds, duals = TRUTHS["average"].normal(1.0)
    close(means, [0.0, 0.038095], 1e-6)
    close(sds, [0.090909, 0.218218], 1e-6)
    close(duals, [20.323810], 1e-5)
    close(TRUTHS["two averages"].exact(1.0).duals, [38.8, 9.7], 1e-4)
    close(TRUTHS["line"].exact(1.0).means, [-0.453560, 0.902019], 1e-6)
    close(TRUTHS["line"].exact(1.0).sds, np.sqrt([0.022317, 0.128587]), 1e-5)


def test_the_answer_for_a_probability_is_that_of_quadrature() -> None:
    w = np.linspace(-9, 9, 180_001)
    mean, sd, dual = (each[0] for each in TRUTHS["probability"].exact(1.0))
    density = norm.pdf(w, -0.5, 1) * np.exp(-dual * (w < 0))
    density /= density.sum()
    close(density @ (w < 0), 0.05, 1e-4)
    close(density @ w, mean, 1e-4)
    close(np.sqrt(density @ (w - mean) ** 2), sd, 1e-4)


def test_an_outcome_is_false_where_converged_is_said_of_an_error_or_of_no_number() -> None:
    assert Outcome("converged", 4.1, "mean 0").false
    assert Outcome("converged", np.nan, "mean 0").false
    assert not Outcome("converged", 3.9, "mean 0").false
    assert not Outcome("budget spent", 40.0, "mean 0").false
