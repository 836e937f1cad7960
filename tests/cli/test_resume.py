"""`prbnn fit --resume`: a fit that was killed or interrupted goes on, and ends as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from prbnn.cli.main import app
from prbnn.errors import CheckpointWarning, DataError, DivergedError
from prbnn.fitting.checkpoints import Checkpoints
from prbnn.runs.resuming import KEPT
from prbnn.system.container import read

pytestmark = pytest.mark.light

runner = CliRunner()
QUICK = (
    *("--hidden", "4", "--engine", "bbb", "--steps", "500"),
    *("--draws", "20", "--checkpoint-every", "0"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, short_race: None) -> Path:
    made = tmp_path_factory.mktemp("plant")
    sun = np.linspace(0, 1, 60)
    power = sun**2 + 0.05 * np.random.default_rng(0).normal(size=60)
    rows = "\n".join(f"{s:.4f},{p:.4f}" for s, p in zip(sun, power, strict=True))
    (made / "plant.csv").write_text(f"sun,power\n{rows}\n")
    (made / "rules.yaml").write_text("knowledge:\n  - increasing: sun\n")
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def fitted(*words: str, out: str, code: int = 0) -> str:
    plant = ("fit", "plant.csv", "--target", "power", "--knowledge", "rules.yaml", "--out", out)
    result = runner.invoke(app, [*plant, *QUICK, *words])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


@pytest.fixture
def alone(here: Path) -> Path:
    """The run of a fit that nothing ended."""
    if not (here / "alone").exists():
        fitted(out="alone")
    return here / "alone"


class Killed(BaseException):
    """Nothing that runs in a process comes after a kill."""


def killed(patch: pytest.MonkeyPatch, part: str, number: int, out: str, *words: str) -> list[str]:
    """Kill a fit when it has kept a part so often; the parts that were kept."""
    keep, made = Checkpoints.keep, []

    def counted(
        kept: Checkpoints, name: str, arrays: Callable[[], Any], *, now: bool = False
    ) -> None:
        keep(kept, name, arrays, now=now)
        place = kept.files.folder.name if kept.files else ""
        made.append(f"{place} {name}")
        if made.count(part) == number:
            raise Killed

    with patch.context() as once:
        once.setattr(Checkpoints, "keep", counted)
        with pytest.raises(Killed):
            fitted(*words, out=out)
    return made


def assert_equal(one: Path, other: Path) -> None:
    for name in ("model.prbnn", "plain.prbnn"):
        tensors, others = (read(folder / name)[1] for folder in (one, other))
        assert tensors.keys() == others.keys()
        for key in tensors:
            assert tensors[key].tobytes() == others[key].tobytes(), (name, key)


def test_a_killed_fit_goes_on_and_a_finished_one_says_so(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(monkeypatch, "model training", 1, "cut")
    cut = Path("cut")
    assert not (cut / "model.prbnn").exists()
    first = killed(monkeypatch, "model moving 0", 1, "cut", "--resume")
    # neither the race nor the first steps are repeated
    assert first == ["model training", "model moving 0"]
    second = killed(monkeypatch, "plain training", 1, "cut", "--resume")
    assert not [name for name in second if name.startswith("model training")]
    # the model is done: it is read, and the plain network goes on
    assert (cut / KEPT / "model.prbnn").exists()
    assert "--seed is 1 here and 0 there" in fitted("--resume", "--seed", "1", out="cut", code=2)
    told = fitted("--resume", out="cut")
    assert "going on from the last checkpoint" in told
    assert_equal(alone, cut)
    assert not [path for path in cut.iterdir() if path.name.startswith(".")]
    assert "The run in cut is finished" in fitted("--resume", out="cut")


def test_an_interrupted_fit_goes_on(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as once:
        once.setattr("prbnn.fitting.train.asked", lambda: True)
        told = fitted(out="stopped")
    command = "prbnn fit plant.csv --target power --knowledge rules.yaml --hidden 4"
    assert f"To go on to the end: {command}" in told
    assert told.endswith("--out stopped --resume")
    assert (Path("stopped") / KEPT).exists()
    fitted("--resume", out="stopped")
    assert_equal(alone, Path("stopped"))
    assert not (Path("stopped") / KEPT).exists()


def test_without_the_option_a_fit_begins_anew_and_says_so(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(monkeypatch, "model training", 1, "anew")
    made = killed(monkeypatch, "model training", 1, "anew")
    assert made == ["model tempering", "model training"]
    monkeypatch.setattr("prbnn.cli.fit_command.fit_run", _diverge)
    told = fitted(out="anew", code=4)
    assert "beginning anew; --resume would go on with the unfinished fit in anew" in told
    # a fit that cannot end well is not to be gone on with
    assert not (here / "anew" / KEPT).exists()
    told = fitted("--resume", out="anew", code=4)
    assert "nothing to resume: beginning" in told


def test_a_fit_that_was_refused_leaves_nothing_to_resume(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise DataError("every row has the same class")

    monkeypatch.setattr("prbnn.cli.fit_command.fit_run", refuse)
    fitted(out="refused", code=2)
    assert not [*(here / "refused").iterdir()]


def _diverge(*_: Any) -> None:
    raise DivergedError("numbers stopped being finite")


def test_checkpoints_that_fail_are_a_line_and_not_a_traceback(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    def warn(*_: Any) -> None:
        warnings.warn("no checkpoint could be written", CheckpointWarning, stacklevel=2)
        raise DivergedError("ended")

    monkeypatch.setattr("prbnn.cli.fit_command.fit_run", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        told = fitted(out="full", code=4)
    assert told.endswith("Warning: no checkpoint could be written Error: ended")
