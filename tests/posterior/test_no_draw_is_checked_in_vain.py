"""Checking draws takes longer than training: none is checked twice, nor many more than are needed."""

from __future__ import annotations

import numpy as np
import pytest

from prbnn import MLP, AtLeast, Increasing, PRBNNRegressor
from prbnn.posterior.draws import Posterior

DRAWS = 600


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many draws each look at the first set of points was about."""
    found: list[int] = []
    check = Posterior.check

    def counted(self, rules, knowledge=None):
        if knowledge is None and rules:
            found.append(len(self))
        return check(self, rules, knowledge)

    monkeypatch.setattr(Posterior, "check", counted)
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_draws_are_checked_once_and_few_more_than_are_stored(checked: list[int]) -> None:
    x = np.linspace(0, 1, 40)[:, None]
    y = np.sin(3 * x[:, 0]) + np.random.default_rng(0).normal(0, 0.1, 40)
    model = PRBNNRegressor(
        MLP((8,)),
        [AtLeast(0.1), Increasing("x", where={"x": (0.0, 0.4)}).soft(1.0)],
        tempering=0.2,
        rejection=0.3,
        steps=1500,
        draws=DRAWS,
        random_state=0,
    ).fit(x, y)
    assert 0.1 < model.acceptance_ < 1
    assert len(model.posterior_) == DRAWS
    raw, *more, stored = checked
    assert (raw, stored) == (len(model.raw_posterior_), DRAWS)
    missing = DRAWS - round(model.acceptance_ * raw)
    assert sum(more) < 1.5 * missing / model.acceptance_ + 20 < raw
    # those stored are the first that obey, whatever pieces they were checked in
    whole, _ = model.raw_posterior_.condition(model.solution_.rules[:1])
    np.testing.assert_array_equal(model.posterior_.draws[: len(whole)], whole.draws)
