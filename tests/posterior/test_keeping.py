"""Draws on their way to functions that obey: stopped after any round and gone on with, the same bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from tests.marks import quick

from prbnn import MLP, AtLeast, Increasing, Rises, fit
from prbnn.data.layout import Layout
from prbnn.fitting.prepare import prepare
from prbnn.fitting.train import train
from prbnn.model.likelihoods import Gaussian
from prbnn.model.priors import Normal
from prbnn.posterior import projection, readout
from prbnn.posterior.draws import Posterior
from prbnn.posterior.projection import Projected

Arrays = Mapping[str, np.ndarray]


class StoppedError(Exception):
    """Stands for whatever ends a process."""


class Kept:
    """Keeps the arrays of the last round, as a file would: what changes later changes nothing here."""

    def __init__(self, stopping: bool) -> None:
        self.stopping = stopping
        self.last: dict[str, np.ndarray] | None = None
        self.rounds = 0

    def found(self) -> Arrays | None:
        return self.last

    def keep(self, arrays: Callable[[], Arrays], *, now: bool = False) -> None:
        self.last = {name: np.array(array) for name, array in arrays().items()}
        self.rounds += 1
        if self.stopping:
            raise StoppedError


def assert_equal(one: Projected, other: Projected) -> None:
    assert np.array_equal(one.posterior.draws, other.posterior.draws)
    assert one.posterior.draws.dtype == other.posterior.draws.dtype
    for name in ("obeys", "broken", "distance", "change"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def check(project: Callable[[Kept | None], Projected], least: int) -> None:
    """Left alone, kept, and stopped after every round: the same; and there were rounds enough."""
    alone, quiet, stopping = project(None), Kept(stopping=False), Kept(stopping=True)
    assert_equal(alone, project(quiet))
    assert quiet.rounds >= least
    while not projection.is_done(stopping.last or {}):
        with pytest.raises(StoppedError):
            project(stopping)
    assert stopping.rounds == quiet.rounds
    assert_equal(alone, project(stopping))
    assert stopping.rounds == quiet.rounds, "what is done was done again"


@pytest.mark.light
@pytest.mark.parametrize("inputs", quick((1, 2), 1))
def test_a_projection_goes_on_after_any_round(inputs: int) -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 1, (30, inputs))
    posterior = fit(MLP((4,), "tanh"), x, x[:, 0], steps=1, draws=40).posterior
    spread = 0.5 * generator.standard_normal(posterior.draws.shape)
    posterior = posterior.with_draws(spread.astype(posterior.draws.dtype))
    rules = [Increasing(posterior.columns.inputs[0]), AtLeast(-0.4)]
    precision = np.ones(posterior.draws.shape[1])

    def project(kept: Kept | None) -> Projected:
        return projection.project(posterior, rules, precision, kept=kept)

    found = project(None)
    assert found.broken.any(axis=1).mean() > 0.2
    assert found.obeys.mean() > 0.5
    check(project, least=4)


def sequences() -> Posterior:
    layout = Layout(("h",), 3, (), ("h",), 2)
    generator = np.random.default_rng(1)
    walks = np.cumsum(generator.uniform(-0.3, 0.5, (24, 5)), axis=1)
    task = prepare(
        MLP((4,), "tanh"),
        np.column_stack([walks[:, :3], np.full(24, 3.0)]),
        walks[:, 3:],
        [],
        inference="bbb",
        likelihood=Gaussian(),
        prior=Normal(),
        tempering=0.3,
        scaling="minmax",
        points=16,
        rejection=None,
        sample_weight=None,
        columns=layout.inputs,
        outputs=layout.targets,
        seed=0,
        layout=layout,
        enforce="pressure",
    )
    posterior = train(task, 1, draws=40).posterior
    spread = 0.5 * generator.standard_normal(posterior.draws.shape)
    return posterior.with_draws(spread.astype(posterior.draws.dtype))


@pytest.mark.slow
def test_a_projection_of_trajectories_goes_on_after_any_pass() -> None:
    posterior = sequences()
    rules = [Rises("h", margin=0.02)]
    precision = np.ones(posterior.draws.shape[1])

    def project(kept: Kept | None) -> Projected:
        return readout.project(posterior, rules, precision, kept=kept)

    assert project(None).broken.any()
    check(project, least=3)
