"""What a run's folder says of a fit that has not ended: whose it is, and when it may be gone on with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prbnn.errors import CheckpointError
from prbnn.runs.folder import MODEL, RECORD, ROWS, RULES, replace_run
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import Prepared, prepare_run
from prbnn.runs.resuming import FIT, KEPT, begin, drop, go_on, is_unfinished


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("plant")
    sun = np.linspace(0, 1, 40)
    rows = "\n".join(f"{s},{s * s}" for s in sun)
    (folder / "plant.csv").write_text(f"sun,power\n{rows}\n")
    (folder / "rules.yaml").write_text("knowledge:\n  - increasing: sun\n")
    plan = RunPlan(str(folder / "plant.csv"), "power", knowledge=str(folder / "rules.yaml"))
    return prepare_run(plan)


def with_plan(prepared: Prepared, **changes: object) -> Prepared:
    return replace(prepared, plan=replace(prepared.plan, **changes))


def saved(folder: Path, prepared: Prepared, result: str) -> None:
    """A run of these settings, as far as a folder says what it is of."""
    record = {
        "schema": 1,
        "plan": prepared.plan.to_plain(),
        "data_sha256": prepared.fingerprint,
        "result": result,
    }
    rules = Path(prepared.plan.knowledge or "").read_text()
    begin(folder, prepared)
    text = f"# of the run 0\n{_written(prepared)}" if rules else ""
    contents = {MODEL: b"", ROWS: b"", RULES: text.encode(), RECORD: json.dumps(record).encode()}
    replace_run(folder, contents)
    drop(folder)


def _written(prepared: Prepared) -> str:
    from prbnn.rules.file.knowledge_file import write_knowledge

    return write_knowledge(list(prepared.rules), dict(prepared.units))


def test_a_fit_that_was_begun_is_gone_on_with(tmp_path: Path, prepared: Prepared) -> None:
    assert not is_unfinished(tmp_path)
    kept = begin(tmp_path, prepared)
    (kept / "model.prbnn").write_bytes(b"kept")
    assert is_unfinished(tmp_path)
    assert go_on(tmp_path, prepared) == kept
    assert (kept / "model.prbnn").exists()
    # begun anew, it starts from nothing
    assert [path.name for path in begin(tmp_path, prepared).iterdir()] == [FIT]
    drop(tmp_path)
    drop(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_where_there_is_nothing_a_fit_begins(tmp_path: Path, prepared: Prepared) -> None:
    kept = go_on(tmp_path, prepared)
    assert kept is not None
    assert is_unfinished(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 3}, "--seed is 3 here and 0 there"),
        ({"held_out": 0.5}, "--held-out is 0.5 here and 0.2 there"),
        ({"engine": "nuts"}, "--engine is 'nuts' here and 'auto' there"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_other_settings_are_refused(
    tmp_path: Path, prepared: Prepared, changes: dict, said: str, finished: bool
) -> None:
    if finished:
        saved(tmp_path, prepared, "converged")
    else:
        begin(tmp_path, prepared)
    with pytest.raises(CheckpointError, match="leave out --resume to fit anew") as caught:
        go_on(tmp_path, with_plan(prepared, **changes))
    assert said in str(caught.value)
    assert is_unfinished(tmp_path) != finished


def test_files_count_by_what_they_hold(tmp_path: Path, prepared: Prepared) -> None:
    kept = begin(tmp_path, prepared)
    assert go_on(tmp_path, with_plan(prepared, data="elsewhere.csv", knowledge="k.yaml")) == kept
    with pytest.raises(CheckpointError, match="the data differs"):
        go_on(tmp_path, replace(prepared, fingerprint="0"))
    with pytest.raises(CheckpointError, match="the knowledge file differs"):
        go_on(tmp_path, replace(prepared, rules=()))


def test_a_finished_run_is_said_to_be(tmp_path: Path, prepared: Prepared) -> None:
    saved(tmp_path, prepared, "converged")
    assert go_on(tmp_path, prepared) is None
    # one that was killed when it had just begun anew
    (tmp_path / KEPT).mkdir()
    assert go_on(tmp_path, prepared) == tmp_path / KEPT


def test_an_interrupted_run_without_checkpoints_begins_anew(
    tmp_path: Path, prepared: Prepared
) -> None:
    saved(tmp_path, prepared, "interrupted: stopped at step 10")
    assert go_on(tmp_path, prepared) == tmp_path / KEPT


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": NaN}'])
def test_a_damaged_record_is_named(tmp_path: Path, prepared: Prepared, text: str) -> None:
    (begin(tmp_path, prepared) / FIT).write_text(text)
    with pytest.raises(CheckpointError, match=f"{FIT} is damaged.*leave out --resume"):
        go_on(tmp_path, prepared)
