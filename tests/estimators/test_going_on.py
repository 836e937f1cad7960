"""Every estimator goes on from its checkpoints, and draws its seed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prbnn import (
    GRU,
    MLP,
    BayesByBackprop,
    CheckpointError,
    Increasing,
    PRBNNClassifier,
    PRBNNRegressor,
    PRBNNSequenceRegressor,
    Rises,
)
from prbnn.fitting.checkpoints import Checkpoints
from tests.marks import quick

pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X = np.linspace(0, 1, 30)[:, None]
WALKS = np.cumsum(np.random.default_rng(0).uniform(0, 1, (24, 5, 1)), axis=1)
FEW: dict[str, Any] = {
    "inference": BayesByBackprop(draws=1),
    "tempering": 0.3,
    "steps": 20,
    "draws": 16,
    "verbose": False,
}


def regressor(**options: Any) -> PRBNNRegressor:
    return PRBNNRegressor(MLP((3,), "tanh"), [Increasing("x")], **{**FEW, **options})


def classifier(**options: Any) -> PRBNNClassifier:
    return PRBNNClassifier(MLP((3,), "tanh"), **{**FEW, **options})


def sequences(**options: Any) -> PRBNNSequenceRegressor:
    few = {**FEW, "enforce": "projection", **options}
    return PRBNNSequenceRegressor(GRU(units=2, hidden=()), [Rises("x0")], **few)


FITS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "numbers": (regressor, (X, X.ravel() ** 2)),
    "classes": (classifier, (X, np.where(X.ravel() > 0.5, "high", "low"))),
    "sequences": (sequences, (WALKS[:, :3], WALKS[:, 3:])),
}


class StoppedError(Exception):
    """Stands for whatever ends a process."""


def stopped_at(patch: pytest.MonkeyPatch, part: str, fit: Callable[[], Any]) -> None:
    keep = Checkpoints.keep

    def once(kept: Checkpoints, name: str, *rest: Any, **how: Any) -> None:
        keep(kept, name, *rest, **how)
        if name == part:
            raise StoppedError

    with patch.context() as context:
        context.setattr(Checkpoints, "keep", once)
        with pytest.raises(StoppedError):
            fit()


@pytest.mark.parametrize("name", quick(FITS, "classes"))
def test_every_estimator_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, data = FITS[name]
    kept = {"checkpoint": tmp_path, "checkpoint_every": 0}
    parts = ["training"] if name == "classes" else ["training", "moving 0"]
    for part in parts:
        stopped_at(monkeypatch, part, lambda: made(random_state=0).fit(*data, checkpoint=tmp_path))
    with pytest.raises(CheckpointError, match="seed is 1 here and 0 there"):
        made(random_state=1).fit(*data, **kept)
    again = made(random_state=0).fit(*data, **kept)
    alone = made(random_state=0).fit(*data)
    assert np.array_equal(alone.posterior_.draws, again.posterior_.draws)
    assert np.array_equal(alone.raw_posterior_.draws, again.raw_posterior_.draws)
    assert alone.result_ == again.result_
    assert not [*tmp_path.iterdir()]


def test_a_seed_that_was_drawn_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = classifier(random_state=None), FITS["classes"][1]
    seeds: list[int] = []
    claim = Checkpoints.claim

    def seen(kept: Checkpoints, identity: dict[str, str]) -> None:
        seeds.append(int(identity["seed"]))
        claim(kept, identity)

    monkeypatch.setattr(Checkpoints, "claim", seen)
    fit = lambda: model.fit(*data, checkpoint=tmp_path)  # noqa: E731
    stopped_at(monkeypatch, "training", fit)
    fit()
    fit()
    assert seeds[0] == seeds[1] != seeds[2]
    assert model.settings_.seed == seeds[2]
