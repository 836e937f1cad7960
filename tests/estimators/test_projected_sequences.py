"""Draws over sequences that break a hard rule are moved: which ones, how far, and what is said and saved.

Walks rise, by less where they are high; some are seen for fewer steps than others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

from prbnn import (
    LSTM,
    MLP,
    AtLeast,
    BayesByBackprop,
    KnowledgeError,
    PRBNNSequenceRegressor,
    Rises,
    Score,
    load,
)
from prbnn.model.weights import unflatten
from prbnn.posterior import readout
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.regions import Sampling, sample

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

HISTORY, AHEAD = 4, 3
FRESH = 512


def walks(count: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observed steps, steps ahead, and the number of steps observed."""
    generator = np.random.default_rng(seed)
    steps = generator.uniform(-0.3, 0.5, (count, HISTORY + AHEAD, 1))
    whole = generator.uniform(0, 3, (count, 1, 1)) + np.cumsum(steps, axis=1)
    return whole[:, :HISTORY], whole[:, HISTORY:], generator.integers(2, HISTORY + 1, count)


def along() -> list[Rule]:
    return [Rises("x0", margin=0.05), AtLeast(0.7, of="x0", at="last", margin=0.02, name="end")]


def estimator(knowledge: list[Rule], **options) -> PRBNNSequenceRegressor:
    settings = {
        "network": LSTM(units=3, hidden=()),
        "inference": BayesByBackprop(draws=2, learning_rate=0.02),
        "steps": 150,
        "points": 16,
        "draws": 60,
        "random_state": 0,
        "verbose": False,
        "enforce": "projection",
    }
    return PRBNNSequenceRegressor(knowledge=knowledge, **{**settings, **options})


@pytest.fixture(scope="module")
def model() -> PRBNNSequenceRegressor:
    x, y, seen = walks()
    return estimator(along()).fit(x, y, seen=seen)


def precision_of(model: PRBNNSequenceRegressor) -> np.ndarray:
    return model.tempering_ / np.asarray(model.solution_.fitted.task.problem.prior_sd) ** 2


def test_stored_draws_obey_at_fresh_sequences(model: PRBNNSequenceRegressor) -> None:
    rules, raw, stored = along(), model.raw_posterior_, model.posterior_
    before = raw.check(rules, raw.bind(rules, FRESH, seed=5000)).broken()
    assert np.all(before.mean(axis=0) > 0.1), "nothing to move"
    after = stored.check(rules, stored.bind(rules, FRESH, seed=5000))
    assert np.mean(after.obeys(1e-2)) > 0.95
    assert len(stored) == 60
    assert model.acceptance_ > 0.95


def test_they_rise_along_walks_that_no_fit_has_seen(model: PRBNNSequenceRegressor) -> None:
    x, _, seen = walks(30, 1)
    ahead = model.sample_functions(x, seen=seen)[..., 0]
    assert np.mean(np.diff(ahead, axis=2) >= -1e-3) > 0.995


def test_draws_that_obey_come_back_bit_for_bit(model: PRBNNSequenceRegressor) -> None:
    raw = model.raw_posterior_
    found = readout.project(raw, along(), precision_of(model))
    assert found.obeys.mean() > 0.95
    stays = ~found.broken.any(axis=1)
    assert 0.01 < stays.mean() < 0.9
    assert np.array_equal(found.posterior.draws[stays], raw.draws[stays])
    # whatever is broken at the first sequences moves, and it is the last layer that does
    assert np.all(found.distance[found.broken.any(axis=1)] > 0)
    last = AHEAD * (3 + 1)
    assert np.array_equal(found.posterior.draws[:, :-last], raw.draws[:, :-last])


def test_draws_move_no_further_than_they_must(model: PRBNNSequenceRegressor, monkeypatch) -> None:
    """After one pass: the nearest of all last layers that obey at its sequences, by another solver."""
    monkeypatch.setattr(readout, "INSIDE", readout.INSIDE[:1])
    monkeypatch.setattr(readout, "ALLOWED", readout.ALLOWED[:1])
    raw, precision = model.raw_posterior_.take(np.arange(40)), precision_of(model)
    found = readout.project(raw, along(), precision, seed=9)
    points = sample(Sampling(()), raw.columns, readout.PASS_SEQUENCES, 9 + readout.LATER)
    rows, seen = hidden_of(raw, raw.columns.rows), hidden_of(raw, points)
    noise, scale = raw.noise / raw.scaling.output_scale, raw.scaling.output_scale[0]
    prior = by_output(precision)
    moved = np.flatnonzero(found.broken.any(axis=1))
    assert len(moved) > 5
    for draw in moved:
        # the distance of each output's row of weights, and the changes of the outputs that obey
        metric = np.zeros((AHEAD, 4, AHEAD, 4))
        for output in range(AHEAD):
            gram = rows[draw].T @ rows[draw] / noise[output] ** 2
            metric[output, :, output] = gram + np.diag(prior[output])
        height = raw.functions(points)[draw]
        needed = [height[:, k] - height[:, k + 1] + 0.05 for k in range(AHEAD - 1)]
        needed = np.concatenate([*needed, 0.72 - height[:, -1]])
        steps = [np.eye(AHEAD)[k + 1] - np.eye(AHEAD)[k] for k in range(AHEAD - 1)]
        change = [np.kron(step, seen[draw] * scale) for step in (*steps, np.eye(AHEAD)[-1])]
        size = AHEAD * 4
        lower = np.linalg.cholesky(metric.reshape(size, size))
        slopes = np.linalg.solve(lower, np.concatenate(change).T)
        # min |v| with slopes^T v >= needed, as least squares with no variable below 0
        table = np.vstack([slopes, needed])
        left = table @ nnls(table, np.append(np.zeros(size), 1.0))[0] - np.append(np.zeros(size), 1)
        wanted = np.linalg.solve(lower.T, -left[:-1] / left[-1]).reshape(AHEAD, 4)
        got = by_output((found.posterior.draws - raw.draws)[draw].astype(float))
        moves = [delta.ravel() for delta in (got, wanted, got - wanted)]
        far, nearest, apart = (np.sqrt(v @ metric.reshape(12, 12) @ v) for v in moves)
        assert far < 1.005 * nearest
        assert apart < 0.1 * nearest


def by_output(vector: np.ndarray) -> np.ndarray:
    """The last layer of a weight vector: (outputs, hidden), biases last."""
    last = vector[-AHEAD * 4 :]
    return np.column_stack([last[: AHEAD * 3].reshape(AHEAD, 3), last[AHEAD * 3 :]])


def hidden_of(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """What the last layer of each draw reads (draws, rows, hidden), a 1 for the biases last."""
    inputs = jnp.asarray(posterior.scaling.inputs(rows), float)

    def one(draw: jax.Array) -> jax.Array:
        network = unflatten(posterior.network, draw)
        present = (
            inputs[:, :HISTORY, None],
            jnp.arange(HISTORY) + 0.5 > HISTORY * (1 - inputs[:, -1:]),
        )
        return jax.vmap(network.cells[0].after)(*present)

    found = np.asarray(jax.jit(jax.vmap(one))(jnp.asarray(posterior.draws)), float)
    return np.concatenate([found, np.ones((*found.shape[:2], 1))], axis=2)


def test_the_report_says_what_was_moved(model: PRBNNSequenceRegressor) -> None:
    """By how much, in the user's units and in standard deviations of the noise, at training walks."""
    raw, rows = model.raw_posterior_, model.posterior_.columns.rows
    found = readout.project(raw, along(), precision_of(model))
    change = found.posterior.functions(rows) - raw.functions(rows)
    by_noise = np.sqrt(np.mean((change / raw.noise) ** 2, axis=(1, 2)))
    for place, line in enumerate(model.knowledge_report_):
        there = found.broken[:, place]
        assert there.mean() > 0.02
        assert line.moves.fraction == pytest.approx(there.mean())
        assert line.moves.distance == pytest.approx(np.median(by_noise[there]), rel=0.05)
        most = np.sqrt(np.mean(change[there] ** 2, axis=1)).max(axis=1)
        assert line.moves.change == pytest.approx(np.median(most), rel=1e-3)
        assert line.stored_share == 0
    assert "were moved to the nearest function" in str(model.knowledge_report_)


def test_training_is_that_of_the_network_without_hard_rules(model: PRBNNSequenceRegressor) -> None:
    x, y, seen = walks()
    plain = estimator([]).fit(x, y, seen=seen)
    assert np.array_equal(plain.raw_posterior_.draws, model.raw_posterior_.draws)


def test_a_saved_model_keeps_how_it_obeys(model: PRBNNSequenceRegressor, tmp_path) -> None:
    model.save(tmp_path / "model.prbnn")
    again = load(tmp_path / "model.prbnn")
    assert again.enforce == "projection"
    assert again.knowledge_report_ == model.knowledge_report_
    assert np.array_equal(again.posterior_.draws, model.posterior_.draws)


def test_auto_is_pressure(monkeypatch) -> None:
    """Also of networks whose draws over tables would be moved."""
    x, y, _ = walks()
    seen = {}

    def trained(task, *_, **__):
        seen[way] = task
        raise KeyboardInterrupt

    monkeypatch.setattr("prbnn.estimators.estimator.train", trained)
    for way in ("auto", "pressure", "projection"):
        with pytest.raises(KeyboardInterrupt):
            estimator(along(), enforce=way, network=MLP((3,), "tanh")).fit(x, y)
    assert {way: task.projects for way, task in seen.items()} == {
        "auto": False,
        "pressure": False,
        "projection": True,
    }
    assert [len(task.rules) for task in seen.values()] == [2, 2, 0]


def test_what_cannot_be_done_raises_before_training() -> None:
    x, y, _ = walks()
    with pytest.raises(ValueError, match="'auto', 'pressure', 'projection', 'construction'"):
        estimator(along(), enforce="moving", steps=10**9).fit(x, y)
    with pytest.raises(KnowledgeError, match="these are sequences"):
        estimator(along()[1:], enforce="construction", steps=10**9).fit(x, y)

    def elsewhere(function, x):
        return function(x, "x0") - function(x.replace(x0=x["x0"] - 1), "x0")

    with pytest.raises(KnowledgeError, match="compares a sequence with others") as caught:
        estimator([Score(elsewhere, name="shifted")], steps=10**9).fit(x, y)
    assert caught.value.rule == "shifted"
    with pytest.raises(KnowledgeError, match="not those of a linear layer"):
        estimator(along(), network=bent, steps=10**9).fit(x, y)


def bent(key, inputs: int, outputs: int):
    """A network whose last layer is followed by something else."""
    import equinox as eqx
    import jax

    class Bent(eqx.Module):
        inner: eqx.Module

        def __call__(self, x):
            return jax.numpy.tanh(self.inner(x))

    return Bent(MLP((3,), "tanh").build(key, inputs, outputs))


@pytest.mark.slow
def test_a_score_of_ones_own_moves_draws() -> None:
    x, y, _ = walks()
    rules = [Score(lambda function, x: function(x, "x0")[-1] - x["x0"][-1] - 0.2, name="own")]
    fitted = estimator(rules, steps=50).fit(x, y)
    assert fitted.knowledge_report_["own"].moves.fraction > 0.5
    assert fitted.knowledge_report_["own"].stored_share == 0
