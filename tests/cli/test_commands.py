"""The commands as a user types them, with a short budget in place of the real fits."""

import json

import pytest
from typer.testing import CliRunner

from prbnn.cli.main import app
from prbnn.posterior import projection
from prbnn_studies import simulation2 as simulation

runner = CliRunner()


@pytest.fixture
def quick(monkeypatch):
    full = simulation.run

    def short(method, seed=0, tempering="auto", **options):
        return full(method, seed, 0.2, steps=150, draws=8, **options)

    monkeypatch.setattr(simulation, "run", short)
    # draws that obey are the subject of other tests
    for name in ("SCOUTING", "SEARCHES"):
        monkeypatch.setattr(projection, name, 1)


def test_help_lists_the_commands():
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output
    assert "study" in result.output


def test_demo_prints_a_table_and_the_path_of_its_picture(quick, tmp_path):
    picture = tmp_path / "picture.png"
    result = runner.invoke(app, ["demo", "--out", str(picture)])
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in result.output.replace("\n", "")
    assert "with knowledge" in result.output


@pytest.mark.slow
def test_study_writes_a_record_a_fit(quick, tmp_path):
    records, picture = tmp_path / "records.json", tmp_path / "picture.png"
    command = [
        "study",
        "simulation2",
        "--seeds",
        "1",
        "--json",
        str(records),
        "--out",
        str(picture),
    ]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    read = json.loads(records.read_text())
    assert [record["method"] for record in read] == list(simulation.METHODS)
    assert {
        "method",
        "seed",
        "mse",
        "std",
        "violation",
        "violations_of_mean",
        "raw_draws_violating",
        "stored_draws_violating",
        "acceptance",
        "duals",
        "coverage95",
        "coverage95_right",
        "noise",
        "seconds_compile",
        "seconds_run",
    } <= set(read[0])
    assert picture.exists()


def test_a_count_of_seeds_below_one_is_refused():
    assert runner.invoke(app, ["study", "simulation2", "--seeds", "0"]).exit_code == 2


@pytest.mark.parametrize("study", ["simulation1", "simulation2"])
def test_an_engine_that_does_not_exist_is_refused(study):
    result = runner.invoke(app, ["study", study, "--engines", "bbb,magic"])
    assert result.exit_code == 2
    assert "--engines" in result.output
