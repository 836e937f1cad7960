"""A fit that is stopped and begun again ends as if nothing had happened, to the bit, or says why not."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from tests.marks import quick

from prbnn import MLP, AtLeast, CheckpointError, CheckpointWarning, DataError, Score, fit
from prbnn.fitting import train as training
from prbnn.fitting.checkpoints import Checkpoints, Lasting, checkpoints_in
from prbnn.fitting.identity import differences, identity_of
from prbnn.fitting.prepare import prepare
from prbnn.fitting.reached import Budget
from prbnn.fitting.result import Progress, Solution
from prbnn.fitting.task import Task
from prbnn.fitting.tempering import tempering_chosen
from prbnn.fitting.train import train
from prbnn.inference import (
    NUTS,
    SGHMC,
    SVGD,
    BayesByBackprop,
    Conjugate,
    Dropout,
    Ensemble,
    Laplace,
)
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Gaussian
from prbnn.model.priors import Normal
from prbnn.system import disk

pytestmark = pytest.mark.light

ENGINES: dict[str, Engine] = {
    "bbb": BayesByBackprop(draws=2),
    "members": BayesByBackprop(draws=1, members=2, clip=2.0),
    "conjugate": Conjugate(members=2, relevance=True),
    "dropout": Dropout(),
    "svgd": SVGD(particles=4),
    "ensemble": Ensemble(members=2),
    "laplace": Laplace(),
    "sghmc": SGHMC(chains=2, keep=8),
    "nuts": NUTS(chains=2, keep=8, doublings=2),
}
CHUNK, STEPS = 10, 50
X = np.linspace(0, 1, 24)[:, None]
Y = X.ravel() ** 2 - 0.1


class StoppedError(Exception):
    """Stands for whatever ends a process."""


def task_of(engine: Engine, rules: Any = None, y: np.ndarray = Y) -> Task:
    return prepare(
        MLP((3,)),
        X,
        y,
        [AtLeast(0)] if rules is None else rules,
        inference=engine,
        likelihood=Gaussian(),
        prior=Normal(),
        tempering=0.5,
        scaling="standard",
        points=16,
        rejection=None,
        sample_weight=None,
        columns=None,
        outputs=None,
        seed=0,
        enforce="pressure",
    )


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in ENGINES.values():
        monkeypatch.setattr(type(engine), "chunk", CHUNK)


@pytest.fixture(scope="module")
def task() -> Task:
    return task_of(ENGINES["bbb"])


def stopping(after: int) -> Callable[[Progress], None]:
    """A callback that ends the process after so many chunks of steps."""
    calls = []

    def stop(progress: Progress) -> None:
        calls.append(progress)
        if len(calls) == after:
            raise StoppedError

    return stop


def trained(task: Task, folder: Path | None = None, *, seed: int = 0, **options: Any) -> Solution:
    with checkpoints_in(folder, options.pop("every", 0)) as kept:
        kept.claim(identity_of(task, seed, {"steps": STEPS}))
        solution = train(task, STEPS, seed=seed, kept=kept, **options)
        kept.ended = solution.result.status != "interrupted"
    return solution


def stopped(task: Task, folder: Path, after: int, **options: Any) -> list[Path]:
    """Train until ``after`` chunks of steps were made; the checkpoints that are left, oldest first."""
    with pytest.raises(StoppedError):
        trained(task, folder, progress=stopping(after), **options)
    return sorted(folder.glob("checkpoint-*"))


def assert_equal(one: Solution, other: Solution) -> None:
    for name in ("draws", "likelihood_parameters"):
        parts = (getattr(solution.posterior, name) for solution in (one, other))
        assert np.array_equal(*parts), name
    for name in ("step", "elbo", "violation", "broken", "dual"):
        parts = (getattr(solution.history, name) for solution in (one, other))
        assert np.array_equal(*parts, equal_nan=True), name
    assert np.array_equal(one.location, other.location)
    assert one.result == other.result
    assert one.duals == other.duals


@pytest.mark.parametrize("name", quick(ENGINES, "members", "laplace", "sghmc"))
def test_what_is_stopped_and_begun_again_ends_as_what_was_left_alone(
    name: str, tmp_path: Path
) -> None:
    """Stopped twice: in the third chunk, and in the first after going on."""
    task = task_of(ENGINES[name])
    alone = trained(task)
    stopped(task, tmp_path, 3)
    (_, newest) = stopped(task, tmp_path, 2)
    assert newest.name == "checkpoint-000003.safetensors"
    seen: list[Progress] = []
    again = trained(task, tmp_path, progress=seen.append)
    assert [progress.step for progress in seen] == [40, 50]
    assert_equal(alone, again)
    assert not [*tmp_path.iterdir()]


def test_checkpoints_change_nothing(task: Task, tmp_path: Path) -> None:
    assert_equal(trained(task), trained(task, tmp_path))


def test_the_end_of_training_is_kept(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after training begins again from there: no step is repeated."""
    alone = trained(task)

    def stop(*_: object) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(training, "solution_of", stop)
        with pytest.raises(StoppedError):
            trained(task, tmp_path, every=1e9)
    seen: list[Progress] = []
    assert_equal(alone, trained(task, tmp_path, progress=seen.append))
    assert not seen


def test_a_budget_that_a_plateau_shortened_stays_so(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "plateau", lambda record, task: len(record) == 2)
    alone = trained(task)
    assert alone.steps == 30
    stopped(task, tmp_path, 3)
    # the plateau is not seen again, and is not looked for
    monkeypatch.setattr(training, "plateau", lambda record, task: pytest.fail("it was found"))
    assert_equal(alone, trained(task, tmp_path))


def test_without_due_time_nothing_is_written_before_the_end(task: Task, tmp_path: Path) -> None:
    assert not stopped(task, tmp_path, 4, every=1e9)


def test_ctrl_c_is_kept_whenever_it_comes(task: Task, tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.step == 30:
            raise KeyboardInterrupt

    alone = trained(task)
    with pytest.raises(KeyboardInterrupt):
        trained(task, tmp_path, progress=interrupt, every=1e9)
    seen: list[Progress] = []
    assert_equal(alone, trained(task, tmp_path, progress=seen.append))
    assert [progress.step for progress in seen] == [30, 40, 50]


def test_an_early_end_that_was_asked_for_is_kept(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = trained(task)
    with monkeypatch.context() as patch:
        patch.setattr(training, "asked", lambda: True)
        with checkpoints_in(tmp_path, 1e9) as kept:
            kept.claim(identity_of(task, 0, {"steps": STEPS}))
            cut = train(task, STEPS, seed=0, kept=kept)
            # draws that are moved now are those of a posterior that was cut short
            kept.keep("moving 0", lambda: pytest.fail("it was asked for"), now=True)
    assert cut.result.status == "interrupted"
    assert cut.steps == 10
    assert [*tmp_path.glob("checkpoint-*")]
    assert_equal(alone, trained(task, tmp_path))
    assert not [*tmp_path.iterdir()]


def test_two_checkpoints_are_kept_and_leftovers_removed(task: Task, tmp_path: Path) -> None:
    (tmp_path / ".checkpoint-000007.safetensors.0123.part").write_bytes(b"half")
    files = stopped(task, tmp_path, 5)
    assert [file.name[11:17] for file in files] == ["000003", "000004"]
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in files}


def test_a_damaged_checkpoint_leaves_the_one_before(task: Task, tmp_path: Path) -> None:
    alone = trained(task)
    before, newest = stopped(task, tmp_path, 4)
    newest.write_bytes(newest.read_bytes()[:-20])
    seen: list[Progress] = []
    with pytest.warns(CheckpointWarning, match=f"{newest}.*{before.name}, the one before"):
        again = trained(task, tmp_path, progress=seen.append)
    assert seen[0].step == 30
    assert_equal(alone, again)


def test_the_good_one_stays_where_the_newest_is_damaged(task: Task, tmp_path: Path) -> None:
    before, newest = stopped(task, tmp_path, 4)
    newest.write_bytes(b"nothing")
    with pytest.warns(CheckpointWarning):
        files = stopped(task, tmp_path, 2)
    assert [file.name[11:17] for file in files] == ["000002", "000004"]
    assert before in files


@pytest.mark.parametrize("content", [b"", b"\x80\x04 a pickle", b'{"a": 1}', None])
def test_where_all_are_damaged_they_are_named(
    task: Task, tmp_path: Path, content: bytes | None
) -> None:
    files = stopped(task, tmp_path, 3)
    for file in files:
        whole = file.read_bytes()
        changed = whole[:-1] + bytes([whole[-1] ^ 1])
        file.write_bytes(changed if content is None else content)
    with pytest.raises(CheckpointError, match="cannot be read") as caught:
        trained(task, tmp_path)
    assert all(str(file) in str(caught.value) for file in files)
    assert f"delete {tmp_path}" in str(caught.value)
    assert all(file.exists() for file in files)


def test_another_fit_is_refused_with_what_differs(task: Task, tmp_path: Path) -> None:
    files = stopped(task, tmp_path, 3)
    others = {
        "seed is 1 here and 0 there": (task, 1),
        "data differs": (task_of(ENGINES["bbb"], y=Y + 1e-9), 0),
        "rule 'other' is new": (task_of(ENGINES["bbb"], [AtLeast(0, name="other")]), 0),
        "engine is BayesByBackprop": (task_of(ENGINES["members"]), 0),
    }
    for said, (other, seed) in others.items():
        with pytest.raises(CheckpointError, match="of another fit") as caught:
            trained(other, tmp_path, seed=seed)
        assert said in str(caught.value)
        assert "to fit anew, name another folder" in str(caught.value)
    assert sorted(tmp_path.glob("checkpoint-*")) == files


def test_what_a_rule_captures_belongs_to_it() -> None:
    def limited(most: float) -> Score:
        return Score(lambda function, x: most - function(x), name="limit")

    one, same, other = (
        identity_of(task_of(ENGINES["bbb"], [limited(most)]), 0, {}) for most in (1, 1, 2)
    )
    assert not differences(one, same)
    assert differences(one, other) == ["rule 'limit' differs"]


def test_versions_and_precision_are_part_of_what_is_compared(task: Task) -> None:
    here = identity_of(task, 0, {})
    there = {**here, "jax": "0.0.1", "precision": "float64"}
    assert differences(here, there) == [
        "precision is float32 here and float64 there",
        f"jax is {here['jax']} here and 0.0.1 there",
    ]


@pytest.mark.parametrize("failing", ["sync_file", "sync_folder"])
def test_a_full_disk_is_said_once_and_the_fit_goes_on(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    alone = trained(task)
    (last,) = stopped(task, tmp_path, 2)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, failing, full)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(StoppedError):
                trained(task, tmp_path, progress=stopping(4))
    (one,) = said
    assert one.category is CheckpointWarning
    assert f"no checkpoint could be written in {tmp_path} (No space left on device)" in str(
        one.message
    )
    assert last.exists()
    assert_equal(alone, trained(task, tmp_path))


def test_a_folder_that_cannot_be_made_is_refused_before_training(
    task: Task, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="name another folder"):
        trained(task, tmp_path / "file" / "inside")


def test_two_fits_do_not_share_a_folder(task: Task, tmp_path: Path) -> None:
    with checkpoints_in(tmp_path), pytest.raises(DataError, match="being written by process"):
        trained(task, tmp_path)


@pytest.mark.parametrize("every", [-1, "often", float("nan"), None])
def test_seconds_are_a_number(every: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="checkpoint_every must be a number"),
        checkpoints_in(tmp_path, every),
    ):
        pass


def test_lasting_checkpoints_stay_until_they_are_removed(task: Task, tmp_path: Path) -> None:
    first = trained(task, Lasting(tmp_path))
    assert len([*tmp_path.glob("checkpoint-*")]) == 2
    seen: list[Progress] = []
    assert_equal(first, trained(task, Lasting(tmp_path), progress=seen.append))
    assert not seen


def test_a_checkpoint_is_a_safetensors_file_with_named_arrays(task: Task, tmp_path: Path) -> None:
    *_, newest = stopped(task, tmp_path, 3)
    with safe_open(newest, framework="np") as file:
        names = set(file.keys())
        assert file.get_tensor("training/steps").tolist() == [10, 20]
        assert file.get_tensor("training/carry/step").shape == ()
    assert {"training/carry/key", "training/carry/engine.parameters"} <= names
    assert {"training/carry/engine.optimiser.mu", "training/looks/means.elbo"} <= names


def test_a_tempering_is_chosen_once(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prbnn.fitting.tempering.STEPS", 20)
    parts = (task.engine, task.problem, task.data, 0, None)
    with checkpoints_in(tmp_path, 1e9) as kept:
        kept.claim({"seed": "0"})
        first = tempering_chosen(*parts, kept)
    monkeypatch.setattr("prbnn.fitting.tempering.choose_tempering", None)
    with checkpoints_in(tmp_path) as kept:
        assert tempering_chosen(*parts, kept) == first


def test_the_functional_layer_goes_on(tmp_path: Path) -> None:
    def one(**options: Any) -> Solution:
        network, rules = MLP((3,)), [AtLeast(0)]
        return fit(network, X, Y, rules, steps=30, draws=10, inference=ENGINES["bbb"], **options)

    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    alone = one()
    with pytest.raises(StoppedError):
        one(progress=stopping(2), **kept)
    seen: list[Progress] = []
    assert_equal(alone, one(progress=seen.append, **kept))
    assert [progress.step for progress in seen] == [20, 30]
    assert not [*(tmp_path / "kept").iterdir()]


def test_a_fit_without_checkpoints_keeps_nothing_in_memory() -> None:
    kept = Checkpoints()
    kept.claim({"seed": "0"})
    kept.keep("training", lambda: pytest.fail("it was asked for"), now=True)
    assert kept.found("training") is None
    assert Budget(30, 10, 3).schedule.settle_start == 20
