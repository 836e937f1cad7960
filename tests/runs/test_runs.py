"""A run from a file to a folder and back: the same numbers, and every mistake told before a fit."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from safetensors import safe_open
from sklearn.exceptions import ConvergenceWarning

from prbnn import PRBNNRegressor
from prbnn.certify import Certificate
from prbnn.certify.fingerprints import of_draws
from prbnn.errors import (
    CertificateError,
    CollapseWarning,
    DataError,
    InfeasibleError,
    KnowledgeError,
)
from prbnn.fitting.result import Result
from prbnn.report import page
from prbnn.runs.applying import broken_rules, predictions, watched
from prbnn.runs.checking import check_run, earlier_certificate, keep
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import prepare_run
from prbnn.runs.run import Run, fit_run, open_run

RULES = """
units: {sun: W/m2, power: kW}
knowledge:
  - {name: never negative, at_least: 0}
  - {name: plate, at_most: 60, because: printed on it, where: {sun: [0, 1000]}}
  - {name: more sun more power, increasing: sun}
"""


def table(rows: int = 160, seed: int = 0) -> pandas.DataFrame:
    generator = np.random.default_rng(seed)
    sun, derate = generator.uniform(0, 1000, rows), generator.integers(0, 2, rows)
    site = generator.choice(["north", "south"], rows)
    power = 50 * (sun / 1000) * (1 - 0.3 * derate) + 2 + generator.normal(0, 0.5, rows)
    return pandas.DataFrame({"sun": sun, "derate": derate == 1, "site": site, "power": power})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plant")
    table().to_csv(made / "plant.csv", index=False)
    table(40, seed=1).to_csv(made / "new.csv", index=False)
    (made / "rules.yaml").write_text(RULES)
    return made


@pytest.fixture(scope="module")
def plan(folder: Path) -> RunPlan:
    data, rules = str(folder / "plant.csv"), str(folder / "rules.yaml")
    return RunPlan(data, "power", rules, hidden=(8,), steps=800, draws=60)


@pytest.fixture(scope="module")
def run(plan: RunPlan, folder: Path, short_race: None) -> Run:
    done = fit_run(prepare_run(plan), lambda _: None, False)
    done.save(folder / "run")
    return done


@pytest.mark.light
def test_a_run_comes_back_from_its_folder(run: Run, folder: Path, plan: RunPlan) -> None:
    again = open_run(folder / "run")
    inputs, targets, which = again.scored_rows()
    assert which == "held-out"
    assert len(targets) == 32
    assert again.plan == plan
    assert again.scores == run.scores
    assert np.array_equal(again.targets, run.targets)
    rows = again.frame(inputs)
    assert np.array_equal(again.model.sample(rows), run.model.sample(rows))
    assert np.array_equal(again.plain.predict(rows), run.plain.predict(rows))
    record = json.loads((folder / "run" / "run.json").read_text())
    assert record["scores"]["model"]["rmse"] == run.scores["model"]["rmse"]
    assert record["command"] == plan.command(str(folder / "run"))
    assert (record["seed"], record["environment"]) == (plan.seed, run.model.environment_)
    assert "printed on it" in (folder / "run" / "knowledge.yaml").read_text()


@pytest.mark.parametrize(
    "hidden", [CollapseWarning("in the result"), ConvergenceWarning("in the result")]
)
def test_only_warnings_that_the_result_repeats_are_silenced(
    plan: RunPlan, monkeypatch: pytest.MonkeyPatch, hidden: Warning
) -> None:
    def warned(self: PRBNNRegressor, X: object, y: object) -> PRBNNRegressor:
        warnings.warn(hidden, stacklevel=1)
        warnings.warn("of something else", UserWarning, stacklevel=1)
        self.result_ = Result("converged")
        self.tempering_ = 0.1
        self.settings_ = SimpleNamespace(inference="bbb")
        return self

    monkeypatch.setattr(PRBNNRegressor, "fit", warned)
    with pytest.warns(UserWarning) as caught:
        fit_run(prepare_run(plan), lambda _: None, False)
    # of the model and of the plain network
    assert [str(warning.message) for warning in caught] == ["of something else"] * 2


def test_held_out_rows_do_not_train(run: Run) -> None:
    assert len(run.model.posterior_.columns.rows) == 128
    kept = {tuple(row) for row in run.model.posterior_.columns.rows}
    assert not any(tuple(row) in kept for row in run.inputs[run.held_out])


def test_predictions_are_the_models(run: Run, folder: Path) -> None:
    found, _ = predictions(run, folder / "new.csv", level=0.8)
    values = run.frame(
        np.column_stack(
            [
                table(40, 1)["sun"],
                table(40, 1)["derate"],
                table(40, 1)["site"] == "north",
                table(40, 1)["site"] == "south",
            ]
        ).astype(float)
    )
    mean, std = run.model.predict(values, return_std=True)
    low, high = run.model.predict_quantiles(values, (0.1, 0.9))
    for name, wanted in {"": mean, "_std": std, "_low": low, "_high": high}.items():
        assert np.allclose(found[f"power{name}"], wanted, rtol=1e-12)
    assert found["row"].tolist() == list(range(1, 41))


def test_watching_flags_what_rarely_comes_and_names_broken_rules(run: Run, folder: Path) -> None:
    strange = table(40, seed=2)
    strange.loc[3, "power"] = -9.0
    strange.loc[7, "power"] += 30
    strange.loc[9, ["sun", "power"]] = [900.0, 75.0]
    strange.loc[11, "power"] = np.nan
    strange.to_csv(folder / "strange.csv", index=False)
    seen = watched(run, folder / "strange.csv", false_alarms=0.05)
    rows = seen.table.set_index("row")
    assert rows["flagged"][[4, 8, 10]].all()
    assert rows["flagged"].drop([4, 8, 10]).mean() < 0.3
    assert rows["broken_rules"][4] == "never negative"
    assert rows["broken_rules"][10] == "plate"
    assert 12 not in rows.index
    assert any("1 rows without 'power'" in note for note in seen.notes)
    assert seen.alarm.calibrated_on == 32


def test_a_rule_is_broken_inside_its_region_only(run: Run) -> None:
    inputs = np.array([[500.0, 0, 1, 0], [2000.0, 0, 1, 0]])
    assert broken_rules(run, inputs, np.array([99.0, 99.0])) == ["plate", ""]


def test_a_rate_that_few_rows_cannot_show_is_said(run: Run, folder: Path) -> None:
    seen = watched(run, folder / "new.csv", false_alarms=0.001)
    assert any("32 rows cannot show a rate of 0.10%" in note for note in seen.notes)
    assert seen.alarm.false_alarms == pytest.approx(1 / 33)


def test_watching_needs_the_target(run: Run, folder: Path) -> None:
    table(5).drop(columns="power").to_csv(folder / "bare.csv", index=False)
    with pytest.raises(DataError, match="no column 'power'.*prbnn predict"):
        watched(run, folder / "bare.csv")


@pytest.mark.light
def test_every_rule_is_decided_for_every_draw(run: Run) -> None:
    checked, certificate = check_run(run, seconds=30, rows=20)
    found = {rule.rule: rule for rule in checked}
    assert set(found) == {"never negative", "plate", "more sun more power"}
    stored = len(run.model.posterior_)
    assert stored >= 57
    assert all(rule.draws == stored and rule.points >= 4096 for rule in checked)
    assert all(rule.proved + rule.refuted + rule.undecided == stored for rule in checked)
    assert certificate.is_of(run.model.posterior_)
    assert not certificate.is_of(run.plain.posterior_.take(np.arange(3)))
    assert check_run(replace(run, model=run.plain)) == ([], None)


def test_a_check_finds_draws_that_break_a_rule(run: Run) -> None:
    from prbnn.rules.values import AtMost

    solution = replace(run.model.solution_, rules=[AtMost(20, name="too low")])
    model = type("Model", (), {"posterior_": run.model.posterior_, "solution_": solution})
    (found,), _ = check_run(replace(run, model=model), rows=20)
    assert found.broken == found.refuted == 60
    assert 20 < found.worst < 60
    assert "though it is for every draw" in found.verdict
    assert set(found.counterexample) == set(run.model.posterior_.columns.inputs)


def test_a_certificate_of_other_weights_is_told(run: Run, tmp_path: Path) -> None:
    keep(Certificate((), "0" * 64, "0.1.0", 0.0), tmp_path)
    with pytest.raises(CertificateError, match="made for other weights"):
        check_run(replace(run, folder=tmp_path), seconds=1, rows=1)


# ---- mistakes ---------------------------------------------------------------------------------


def mistaken(plan: RunPlan, folder: Path, frame: pandas.DataFrame, **changes: object) -> RunPlan:
    frame.to_csv(folder / "mistake.csv", index=False)
    return replace(plan, **{"data": str(folder / "mistake.csv"), **changes})


def test_a_wrong_target_is_told(plan: RunPlan) -> None:
    with pytest.raises(DataError, match="no column 'powr'; did you mean 'power'"):
        prepare_run(replace(plan, target="powr"))


def test_a_target_that_leaks_is_refused_and_can_be_dropped(plan: RunPlan, folder: Path) -> None:
    frame = table().assign(watts=lambda t: 1000 * t["power"])
    with pytest.raises(DataError, match="watts: a linear function.*--drop watts"):
        prepare_run(mistaken(plan, folder, frame))
    assert (
        "watts" not in prepare_run(mistaken(plan, folder, frame, drop=("watts",))).encoding.inputs
    )
    wanted = mistaken(plan, folder, frame, inputs=("sun", "watts"))
    assert prepare_run(wanted).encoding.inputs == ("sun", "watts")


def test_contradictory_rules_are_told_before_training(plan: RunPlan, folder: Path) -> None:
    (folder / "clash.yaml").write_text(
        "knowledge:\n  - {name: floor, at_least: 9}\n  - {name: roof, at_most: 5}\n"
        "  - {name: bystander, increasing: sun}\n"
    )
    with pytest.raises(InfeasibleError, match="contradict") as told:
        prepare_run(replace(plan, knowledge=str(folder / "clash.yaml")))
    assert set(told.value.rules) == {"floor", "roof"}


def test_a_rule_on_no_column_is_told(plan: RunPlan, folder: Path) -> None:
    (folder / "typo.yaml").write_text("knowledge:\n  - {name: rising, increasing: snu}\n")
    with pytest.raises(KnowledgeError, match="did you mean 'sun'"):
        fit_run(
            prepare_run(replace(plan, knowledge=str(folder / "typo.yaml"))), lambda _: None, False
        )


def test_text_in_the_target_is_told(plan: RunPlan, folder: Path) -> None:
    frame = table().astype({"power": object})
    frame.loc[4, "power"] = "off"
    with pytest.raises(DataError, match="'off' in row 5"):
        prepare_run(mistaken(plan, folder, frame))
    with pytest.raises(DataError, match="160 different texts"):
        prepare_run(mistaken(plan, folder, table().assign(power=[f"row {k}" for k in range(160)])))


def test_rows_without_a_target_are_told_or_dropped(plan: RunPlan, folder: Path) -> None:
    frame = table()
    frame.loc[:9, "power"] = np.nan
    with pytest.raises(DataError, match="'power' is missing in 10 of 160 rows"):
        prepare_run(mistaken(plan, folder, frame))
    done = prepare_run(mistaken(plan, folder, frame, missing="impute"))
    assert len(done.targets) == 150
    assert any("10 rows without 'power' dropped" in note for note in done.notes)


def test_few_rows_are_not_held_out(plan: RunPlan, folder: Path) -> None:
    done = prepare_run(mistaken(plan, folder, table(30)))
    assert not done.held_out.any()
    assert any("fewer than 50 rows (30)" in note for note in done.notes)


def test_a_folder_without_a_run_is_told(folder: Path, run: Run, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="prbnn fit data.csv"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no run\.json"):
        open_run(folder)
    for name in ("model.prbnn", "rows.safetensors"):
        (tmp_path / name).write_bytes((folder / "run" / name).read_bytes())
    for text, told in (("{", "damaged"), ('{"schema": 99}', "newer prbnn")):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(DataError, match=told):
            open_run(tmp_path)


def test_classes_are_fitted_kept_and_watched(plan: RunPlan, folder: Path, short_race: None) -> None:
    frame = table().assign(power=lambda t: np.where(t["sun"] > 500, "high", "low"))
    path = folder / "classes.csv"
    frame.to_csv(path, index=False)
    (folder / "classes.yaml").write_text("knowledge:\n  - {name: sunny, decreasing: sun}\n")
    wanted = replace(plan, data=str(path), knowledge=str(folder / "classes.yaml"), plain=False)
    done = fit_run(prepare_run(wanted), lambda _: None, False)
    done.save(folder / "classes")
    again = open_run(folder / "classes")
    assert again.scores == done.scores
    assert done.scores["model"]["accuracy"] > 0.8
    found, _ = predictions(again, path)
    assert np.allclose(found["power=high"] + found["power=low"], 1)
    frame.loc[0, "power"] = "strange"
    frame.to_csv(path, index=False)
    seen = watched(again, path, false_alarms=0.05)
    assert seen.table["flagged"][0]


def test_equal_rows_are_on_one_side_of_the_split(plan: RunPlan, folder: Path) -> None:
    frame = pandas.concat([table(60)] * 3)
    done = prepare_run(mistaken(plan, folder, frame))
    sides: dict[tuple, set] = {}
    for row, side in zip(done.inputs, done.held_out, strict=True):
        sides.setdefault(tuple(row), set()).add(bool(side))
    assert all(len(side) == 1 for side in sides.values())
    assert 0.15 < done.held_out.mean() < 0.25
    assert any("120 rows repeat another one" in note for note in done.notes)


def test_no_class_is_held_out_whole(plan: RunPlan, folder: Path) -> None:
    for seed in range(8):
        label = np.array(["low"] * 158 + ["azz", "zzz"])
        frame = table().assign(power=label)
        done = prepare_run(mistaken(plan, folder, frame, knowledge=None, seed=seed))
        assert set(done.targets[~done.held_out]) == {"low", "azz", "zzz"}


def test_rows_keep_their_numbers_in_the_file(plan: RunPlan, folder: Path) -> None:
    frame = table()
    frame.loc[:49, "sun"] = np.nan
    done = prepare_run(mistaken(plan, folder, frame, missing="drop"))
    assert done.rows.tolist() == list(range(51, 161))


def test_whole_numbers_as_classes_have_the_same_names_with_holes(
    plan: RunPlan, folder: Path
) -> None:
    from prbnn.runs.preparing import read_target

    whole = pandas.DataFrame({"y": [0, 1, 1]})
    holes = pandas.DataFrame({"y": [0, 1, None]})
    assert read_target(whole, "y", True, "drop")[0].tolist() == ["0", "1", "1"]
    assert read_target(holes, "y", True, "drop")[0].tolist()[:2] == ["0", "1"]


def test_what_became_of_a_column_that_a_rule_names(plan: RunPlan, folder: Path) -> None:
    (folder / "site.yaml").write_text("knowledge:\n  - {name: rising, increasing: site}\n")
    wanted = replace(plan, knowledge=str(folder / "site.yaml"))
    with pytest.raises(KnowledgeError, match="site: one 0/1 column each for north, south"):
        prepare_run(wanted)
    with pytest.raises(KnowledgeError, match="'site' was left out of the inputs"):
        prepare_run(replace(wanted, drop=("site",)))


def test_rules_on_classes_may_not_contradict_each_other(plan: RunPlan, folder: Path) -> None:
    frame = table().assign(power=lambda t: np.where(t["sun"] > 500, "high", "low"))
    (folder / "clash.yaml").write_text("knowledge: [{at_least: 0.9}, {at_most: 0.5}]")
    with pytest.raises(InfeasibleError, match="contradict"):
        prepare_run(mistaken(plan, folder, frame, knowledge=str(folder / "clash.yaml")))


def test_a_damaged_folder_is_told(run: Run, folder: Path, tmp_path: Path) -> None:
    for name in ("model.prbnn", "run.json"):
        (tmp_path / name).write_bytes((folder / "run" / name).read_bytes())
    (tmp_path / "rows.safetensors").write_bytes(b"cut")
    with pytest.raises(DataError, match="damaged"):
        open_run(tmp_path)


def test_rows_far_from_the_training_rows_are_told(run: Run, folder: Path) -> None:
    table(5).assign(sun=5000.0).to_csv(folder / "far.csv", index=False)
    _, notes = predictions(run, folder / "far.csv")
    assert any("5 row(s) lie outside what the fit has seen of 'sun'" in note for note in notes)


def test_few_ordinary_rows_are_flagged(run: Run, folder: Path) -> None:
    table(2000, seed=5).to_csv(folder / "ordinary.csv", index=False)
    seen = watched(run, folder / "ordinary.csv", false_alarms=0.1)
    # calibrated on 32 rows: the rate found is Beta(4, 29) about its mean of .12, and some
    assert 0.01 < seen.table["flagged"].mean() < 0.32


def test_holes_are_filled_from_training_rows_alone(plan: RunPlan, folder: Path) -> None:
    frame = table()
    frame.loc[::7, "sun"] = np.nan
    done = prepare_run(mistaken(plan, folder, frame, missing="impute"))
    train = frame["sun"][~done.held_out]
    assert done.encoding.columns[0].fill == pytest.approx(train.median(), abs=1e-9)
    assert train.median() != frame["sun"].median()


# ---- the files of a run -----------------------------------------------------------------------


@pytest.fixture
def kept(run: Run, tmp_path: Path) -> Path:
    """The run in a folder of its own, to be spoilt."""
    run.save(tmp_path / "kept")
    return tmp_path / "kept"


def test_a_run_that_cannot_be_saved_leaves_the_one_that_was_there(
    run: Run, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in kept.iterdir()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fsync", full)
        replace(run, model=run.plain, plain=None).save(kept)
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert open_run(kept).scores == run.scores
    replace(run, model=run.plain, plain=None).save(kept)
    assert open_run(kept).plain is None
    assert not (kept / "plain.prbnn").exists()


def test_a_model_of_another_run_is_told(run: Run, kept: Path) -> None:
    (kept / "model.prbnn").write_bytes((kept / "plain.prbnn").read_bytes())
    with pytest.raises(DataError, match=r"model\.prbnn does not belong to the run .* fit again"):
        open_run(kept)


def test_every_file_says_of_which_run_it_is(run: Run, kept: Path) -> None:
    record = json.loads((kept / "run.json").read_text())
    identity = hashlib.sha256((kept / "model.prbnn").read_bytes()).hexdigest()
    assert record["run"] == record["files"]["model.prbnn"] == identity
    assert set(record["files"]) == {
        *("model.prbnn", "plain.prbnn", "rows.safetensors", "knowledge.yaml"),
    }
    with safe_open(kept / "rows.safetensors", framework="np") as rows:
        assert rows.metadata() == {"run": identity}
    assert identity in (kept / "knowledge.yaml").read_text()
    again = open_run(kept)
    assert again.identity == identity
    assert again.notes == run.notes
    keep(Certificate((), "0" * 64, "0.1.0", 0.0), kept, again.identity)
    assert json.loads((kept / "certificate.json").read_text())["run"] == identity


def test_rules_that_were_changed_beside_a_run_are_noted(run: Run, kept: Path) -> None:
    (kept / "knowledge.yaml").write_text("knowledge: []\n")
    again = open_run(kept)
    assert any("knowledge.yaml beside the run was changed" in note for note in again.notes)
    assert len(again.model.knowledge) == 3


def test_runs_of_before_files_had_hashes_still_open(run: Run, kept: Path) -> None:
    record = json.loads((kept / "run.json").read_text())
    del record["run"], record["files"]
    (kept / "run.json").write_text(json.dumps(record))
    again = open_run(kept)
    assert again.scores == run.scores
    assert again.plain is not None


def test_a_certificate_of_a_run_that_was_replaced_is_not_kept(run: Run, kept: Path) -> None:
    again = open_run(kept)
    replace(run, model=run.plain, plain=None).save(kept)
    with pytest.raises(DataError, match="another fit has replaced the run"):
        keep(Certificate((), "0" * 64, "0.1.0", 0.0), kept, again.identity)
    assert not (kept / "certificate.json").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1e999}', '{"schema": 1}', "\0" * 9])
def test_a_damaged_certificate_is_said_and_does_not_block(run: Run, kept: Path, text: str) -> None:
    (kept / "certificate.json").write_text(text)
    again = open_run(kept)
    told = earlier_certificate(again)
    assert told is not None
    assert str(kept / "certificate.json") in told
    assert check_run(replace(again, model=run.plain)) == ([], None)


def test_a_certificate_of_another_run_is_told(run: Run, kept: Path) -> None:
    again = open_run(kept)
    own = Certificate((), of_draws(again.model.posterior_), "0.1.0", 0.0)
    keep(own, kept, again.identity)
    assert earlier_certificate(again) is None
    keep(own, kept)
    assert earlier_certificate(again) is None
    plain = json.loads((kept / "certificate.json").read_text())
    (kept / "certificate.json").write_text(json.dumps({**plain, "run": "0" * 64}))
    with pytest.raises(CertificateError, match="made for other weights"):
        earlier_certificate(again)


def test_a_certificate_is_written_whole_or_not_at_all(
    run: Run, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept / "certificate.json").write_text("old")
    (kept / "report.html").write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    certificate = Certificate((), "0" * 64, "0.1.0", 0.0)
    with pytest.raises(OSError, match="No space left"):
        keep(certificate, kept)
    with pytest.raises(OSError, match="No space left"):
        certificate.save(kept / "certificate.json")
    for part in ("findings_of", "pictures_of", "_page"):
        monkeypatch.setattr(page, part, lambda *_: "a page")
    with pytest.raises(OSError, match="No space left"):
        page.write_report(None, kept)
    for name in ("certificate.json", "report.html"):
        assert (kept / name).read_text() == "old"


def test_a_newer_certificate_is_not_replaced(run: Run, kept: Path) -> None:
    (kept / "certificate.json").write_text('{"schema": 99}')
    with pytest.raises(CertificateError, match="newer prbnn"):
        earlier_certificate(open_run(kept))


DAMAGES = (
    {"plan": {"data": 3, "target": "power"}},
    {"plan": {"data": "x", "target": "power", "hidden": "many"}},
    {"plan": {"data": "x", "target": "power", "unknown": 1}},
    {"plan": []},
    {"encoding": {"columns": [{"name": "sun", "kind": "number"}], "missing": "error"}},
    {"encoding": {"columns": [{"name": "sun", "kind": "nothing"}], "missing": "error"}},
    {"encoding": {"columns": {"a": 1}, "missing": "error"}},
    {"encoding": {"columns": [{"name": "sun", "kind": "yes/no"}], "missing": "error"}},
    {"encoding": None},
    {"units": ["a"]},
    {"units": {"power": 5}},
    {"notes": 5},
    {"notes": "text"},
    {"files": {"model.prbnn": 1}},
    {"files": {"/etc/passwd": "0", "model.prbnn": "0", "rows.safetensors": "0"}},
    {"files": None},
    {"schema": "one"},
    {"schema": None},
)


@pytest.mark.parametrize("changes", DAMAGES, ids=lambda changes: str(changes)[:40])
def test_a_record_that_says_something_else_is_told(
    run: Run, kept: Path, changes: dict[str, object]
) -> None:
    record = json.loads((kept / "run.json").read_text())
    (kept / "run.json").write_text(json.dumps({**record, **changes}))
    with pytest.raises(DataError, match=f"{kept}.*damaged"):
        open_run(kept)
