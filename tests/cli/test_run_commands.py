"""`prbnn fit`, `predict`, `watch`, `check`, `report` and `data` as a user types them."""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

from prbnn.certify import Certificate, RuleCertificate
from prbnn.cli.main import app
from prbnn.errors import DivergedError
from prbnn.fitting.interruption import asked, graceful
from prbnn.system.disk import locked

runner = CliRunner()
QUICK = ("--hidden", "8", "--steps", "800", "--draws", "50")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, short_race: None) -> Path:
    """A plant's table with semicolons and decimal commas, rules, and a fitted run."""
    made = tmp_path_factory.mktemp("plant")
    generator = np.random.default_rng(0)
    sun = generator.uniform(0, 1000, 120)
    table = pandas.DataFrame({"sun": sun, "power": 0.05 * sun + generator.normal(0, 1, 120)})
    table.to_csv(made / "plant.csv", index=False, sep=";", decimal=",")
    (made / "rules.yaml").write_text(
        "units: {power: kW}\nknowledge:\n  - {name: rising, increasing: sun}\n"
    )
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def command(*words: str, code: int = 0) -> str:
    result = runner.invoke(app, list(words))
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


def fitted(*words: str, code: int = 0) -> str:
    return command("fit", "plant.csv", "--target", "power", *QUICK, *words, code=code)


@pytest.fixture
def run(here: Path) -> Path:
    if not (here / "run").exists():
        told = fitted("--knowledge", "rules.yaml", "--json", "fit.json")
        assert "read as a file with columns separated by semicolons, decimal commas" in told
        assert "prbnn report run" in told
        assert "with knowledge" in told
    return here / "run"


@pytest.mark.light
def test_a_fit_leaves_its_record(run: Path) -> None:
    record = json.loads(Path("fit.json").read_text())
    assert record["rows"] == 120
    assert record["held_out"] == 24
    assert [rule["rule"] for rule in record["rules"]] == ["rising"]
    assert set(record["scores"]) == {"model", "plain"}
    assert record["scores"]["model"]["rmse"] < 4
    assert {p.name for p in run.iterdir()} >= {"model.prbnn", "plain.prbnn", "run.json"}


def test_predictions_go_to_a_file_or_the_terminal(run: Path) -> None:
    command("predict", "run", "plant.csv", "--out", "p.csv")
    table = pandas.read_csv("p.csv")
    assert len(table) == 120
    assert (table["power_low"] < table["power"]).all()
    shown = runner.invoke(app, ["predict", "run", "plant.csv", "--json"])
    # what is said about the file goes to standard error, so that the rest can be piped
    records = json.loads(shown.stdout)
    assert records[0]["power"] == pytest.approx(table["power"][0])


def test_watching(run: Path) -> None:
    told = command("watch", "run", "plant.csv", "--out", "w.csv", "--false-alarms", "0.05")
    assert "of 120 rows are flagged; of ordinary rows 5.0% would be" in told
    assert {"observed", "surprise", "flagged", "broken_rules"} <= set(pandas.read_csv("w.csv"))


@pytest.mark.light
def test_checking(run: Path) -> None:
    told = command("check", "run", "--json", "check.json")
    assert "Proofs hold everywhere in the region" in told
    (record,) = json.loads(Path("check.json").read_text())
    assert record["rule"] == "rising"
    assert record["draws"] == record["proved"] == 50
    assert record["refuted"] == record["undecided"] == record["broken"] == 0
    assert Certificate.load("run/certificate.json").holds


@pytest.mark.light
def test_a_certificate_that_is_undecided_is_named_and_so_it_is_on_the_report(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_no_time(rule: RuleCertificate, *_: object) -> RuleCertificate:
        return replace(rule, verdicts="U" + rule.verdicts[1:], left=1.0)

    monkeypatch.setattr("prbnn.runs.checking._refuted", in_no_time)
    words = (
        "the certificate is undecided: 'rising' is neither proved nor refuted for 1 of 50 draws."
    )
    told = command("check", "run")
    assert f"Warning: {words} Likely causes, in order: too little time" in told
    command("report", "run", "--out", "undecided", "--no-pictures")
    page = Path("undecided/report.html").read_text()
    assert "is neither proved nor refuted for 1 of 50 draws" in page
    (run / "certificate.json").unlink()
    command("report", "run", "--out", "undecided", "--no-pictures")
    assert "neither proved nor" not in Path("undecided/report.html").read_text()


def test_doubts_about_a_fit_are_printed_and_recorded(here: Path) -> None:
    words = (
        "--target",
        "power",
        "--hidden",
        "8",
        "--draws",
        "50",
        "--steps",
        "10",
        "--engine",
        "bbb",
    )
    told = command("fit", "plant.csv", *words, "--out", "short", "--json", "short.json")
    assert "budget spent: the fit cannot have left its start" in told
    assert "Warning, the model: the learned noise is still at its start: " in told
    assert "Likely causes, in order: a learning rate too low" in told
    (doubt,) = json.loads(Path("short.json").read_text())["warnings"]
    assert doubt.startswith("the learned noise is still at its start: ")


def test_a_report(run: Path) -> None:
    told = command("report", "run", "--out", "page", "--no-pictures")
    assert "report.html" in told
    page = Path("page/report.html").read_text()
    assert "prbnn fit plant.csv --target power --knowledge rules.yaml" in page
    assert "decimal commas" in page


def test_data_says_how_a_file_is_read(here: Path) -> None:
    told = command("data", "plant.csv", "--json", "data.json")
    assert "120 rows, 2 columns" in told
    assert "prbnn fit plant.csv --target power" in told
    assert [c["kind"] for c in json.loads(Path("data.json").read_text())["columns"]] == [
        "number"
    ] * 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fit", "plnat.csv", "--target", "power"), "did you mean plant.csv"),
        (("fit", "plant.csv", "--target", "powr"), "did you mean 'power'"),
        (("fit", "plant.csv", "--target", "power", "--knowledge", "no.yaml"), "no.yaml"),
        (("fit", "plant.csv", "--target", "power", "--hidden", "a"), "whole numbers such as 64,32"),
        (("fit", "plant.csv", "--target", "power", "--engine", "bbc"), "did you mean 'bbb'"),
        (("fit", "plant.csv", "--target", "power", "--noise", "loud"), "--noise is learned"),
        (("predict", "nowhere", "plant.csv"), "prbnn fit data.csv"),
        (("report", "nowhere"), "prbnn fit data.csv"),
        (("data", "plant.tsv"), "there is no file plant.tsv"),
    ],
)
def test_bad_input_ends_with_code_2(here: Path, words: tuple[str, ...], told: str) -> None:
    assert told in command(*words, code=2)


def test_knowledge_that_contradicts_itself_ends_with_code_3(here: Path) -> None:
    Path("clash.yaml").write_text("knowledge: [{at_least: 9}, {at_most: 5}]")
    assert "contradict each other" in fitted("--knowledge", "clash.yaml", code=3)


def test_a_fit_that_diverges_ends_with_code_4(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_: object) -> None:
        raise DivergedError("numbers stopped being finite")

    monkeypatch.setattr("prbnn.cli.fit_command.fit_run", diverge)
    assert "stopped being finite" in fitted(code=4)


def test_a_posterior_that_collapsed_is_told_by_the_fit_and_its_report(here: Path) -> None:
    generator = np.random.default_rng(4)
    table = {"sun": generator.uniform(0, 1, 240), "power": generator.normal(size=240)}
    pandas.DataFrame(table).to_csv("noise.csv", index=False)
    words = ("--target", "power", "--hidden", "4", "--steps", "1500", "--draws", "20")
    told = command("fit", "noise.csv", *words, "--out", "noise", "--json", "noise.json")
    warning = "the posterior has collapsed onto its prior"
    assert f"Warning, the model: {warning}: it explains" in told
    (recorded,) = json.loads(Path("noise.json").read_text())["warnings"]
    assert recorded.startswith(warning)
    command("report", "noise", "--no-pictures")
    page = Path("noise/report.html").read_text()
    assert f"<h2>Usable with care: {warning}" in page


def test_held_out_rows_are_scored_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = []

    def counted(*arguments: object) -> dict[str, float]:
        scored.append(arguments)
        return {"rmse": 1.0, "crps": 1.0, "coverage90": 0.9}

    monkeypatch.setattr("prbnn.runs.run._scores", counted)
    fitted("--knowledge", "rules.yaml", "--out", "once", "--json", "once.json")
    assert len(scored) == 2  # the model and the plain network


def test_an_interrupted_fit_is_kept_and_says_how_to_go_on(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prbnn.fitting.train.asked", lambda: True)
    told = fitted("--knowledge", "rules.yaml", "--out", "cut")
    assert "interrupted: stopped at step" in told
    assert "To go on to the end: prbnn fit plant.csv --target power" in told
    assert (here / "cut" / "model.prbnn").exists()
    assert "power" in command("predict", "cut", "plant.csv")


def test_one_interrupt_asks_and_a_second_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    # a shell starts what runs in the background without it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    with graceful("stopping", "left"):
        assert not asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert asked()
        assert not left
        os.kill(os.getpid(), signal.SIGINT)
        assert left == [130]
    assert not asked()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_a_plain_network_that_was_interrupted_is_left_out(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the model's 800 steps are looked at after each 50
    stops = iter([False] * 16 + [True] * 99)
    monkeypatch.setattr("prbnn.fitting.train.asked", lambda: next(stops))
    told = fitted("--knowledge", "rules.yaml", "--out", "half")
    assert "the plain network was interrupted" in told
    assert not (here / "half" / "plain.prbnn").exists()


def test_a_place_that_cannot_be_written_is_told_before_the_fit(here: Path) -> None:
    Path("taken").write_text("")
    assert "taken" in fitted("--out", "taken", code=2)
    assert "nowhere" in fitted("--json", "nowhere/fit.json", code=2)


def test_names_are_shown_as_they_are(here: Path) -> None:
    Path("odd.csv").write_text("Druck [bar],P [/h],y\n1,2,3\n2,3,4\n")
    told = command("data", "odd.csv")
    assert "Druck [bar]" in told
    assert "P [/h]" in told


def test_two_fits_into_one_folder_are_kept_apart(here: Path) -> None:
    with locked(Path("busy")):
        told = fitted("--out", "busy", code=2)
    assert f"being written by process {os.getpid()}" in told
    assert not list(Path("busy").iterdir())


@pytest.mark.light
def test_an_empty_certificate_does_not_block_a_check(run: Path) -> None:
    (run / "certificate.json").write_bytes(b"")
    told = command("check", "run")
    assert "certificate.json cannot be read and is replaced" in told
    assert Certificate.load("run/certificate.json").holds


def test_a_certificate_of_another_run_ends_with_code_2(run: Path) -> None:
    Certificate((), "0" * 64, "0.1.0", 0.0).save(run / "certificate.json")
    assert "made for other weights" in command("check", "run", code=2)
    (run / "certificate.json").unlink()


def test_results_are_written_whole_or_not_at_all(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every file that a command writes over, the old one stays where the disk is full."""
    places = ("p.csv", "w.csv", "d.json")
    for place in places:
        Path(place).write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for words in (
        ("predict", "run", "plant.csv", "--out", "p.csv"),
        ("watch", "run", "plant.csv", "--out", "w.csv"),
        ("data", "plant.csv", "--json", "d.json"),
    ):
        assert "No space left" in command(*words, code=2)
    assert [Path(place).read_text() for place in places] == ["old"] * len(places)
    assert not [path for path in Path().rglob(".*.part")]
