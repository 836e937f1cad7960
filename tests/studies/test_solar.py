"""The solar study on a small scale: splits, true rules, cells by hand, the command."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.studies.test_solar_readers import hourly, write_pvops
from typer.testing import CliRunner

from prbnn import MLP, PRBNNRegressor
from prbnn.cli.main import app
from prbnn.errors import InfeasibleError
from prbnn.fitting.result import Result
from prbnn.rules.expressions import parse
from prbnn_studies.solar import inverter, plant, sources, study
from prbnn_studies.tables import solar as tables

DATA = Path(__file__).parents[3] / "shared" / "data"
SMALL = {"network": MLP((4,)), "steps": 30, "draws": 20, "batch_size": 64, "tempering": 0.2}


simulated = cache(sources.simulated)


@pytest.fixture(scope="module")
def source():
    whole = sources.simulated(3)
    return replace(whole, train=whole.train[::20], test=whole.test[::10])


@pytest.fixture(scope="module")
def pair(source):
    return study.study(source, lambda text: None, **SMALL)


def test_inputs_and_rows_are_the_papers():
    source = simulated(0)
    flags = ("IGBT_derate", "IGBT_off", "curtail_utility", "curtail_on", "P_watts", "Feeder_B")
    assert source.columns == (*flags, "WS", "IPOA", "day_label", "time_label")
    assert (len(source.train), len(source.test)) == (20_698, 6_505)
    assert source.table(source.test)["IPOA"].shape == (6_505,)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_the_plate_says_is_true_of_the_plant(seed):
    """Knowledge must be true: beside what would have been delivered without the limit."""
    records = simulated(seed).simulation.records
    columns = dict(zip(plant.COLUMNS, records.inputs.T, strict=True))
    derated = (columns["IGBT_derate"] > 0) & (columns["IGBT_off"] == 0)
    lost = records.possible - records.delivered
    by = parse(sources.DERATE_COSTS).evaluate(columns)
    asked = derated & (by > 0)
    assert asked.sum() > 300
    assert np.mean(lost[asked] >= by[asked]) > 0.97
    off = columns["IGBT_off"] > 0
    least = np.minimum(records.possible, inverter.LIMIT_AT_OFF * inverter.RATING)
    assert np.mean(least[off] >= parse(sources.OFF_COSTS).evaluate(columns)[off]) > 0.97


def test_the_papers_rules_say_the_sign_alone():
    assert [rule.by for rule in sources.comparisons(by_plate=False)] == [0.0, 0.0]
    assert [rule.label for rule in sources.comparisons()] == [
        "derating lowers power",
        "off lowers power",
        "off takes no power",
    ]


def test_periods_are_the_papers_hours(source):
    found = study.periods(source)
    hour = source.minute[source.test] / 60
    assert (hour[found["daytime"]].min(), hour[found["daytime"]].max()) == (9.5, 16.75)
    assert (hour[found["peak"]].min(), hour[found["peak"]].max()) == (10, 13.75)
    flags = source.inputs[source.test][:, :2].sum(axis=1) > 0
    np.testing.assert_array_equal(found["derated"], flags)
    np.testing.assert_array_equal(found["normal"], ~flags)


def test_cells_by_hand(source, pair):
    plain = pair[0]
    truth, scale = source.power[source.test], np.ptp(source.power[source.train])
    cells = {cell.period: cell for cell in plain.cells}
    assert list(cells) == ["all", "daytime", "peak", "derated", "normal"]
    peak = study.periods(source)["peak"]
    wanted = np.mean(((plain.mean - truth)[peak] / scale) ** 2)
    assert cells["peak"].mse == pytest.approx(wanted)
    assert cells["peak"].rmse == pytest.approx(wanted**0.5)
    assert cells["peak"].rows == peak.sum()
    assert cells["derated"].rows + cells["normal"].rows == cells["all"].rows
    assert all(0 < cell.crps < 2 for cell in plain.cells)


def test_every_rule_is_measured_for_both_models(source, pair):
    for outcome, name in zip(pair, study.MODELS, strict=True):
        assert [rule.rule for rule in outcome.rules] == [rule.label for rule in source.rules]
        assert {rule.model for rule in outcome.rules} == {name}
        assert all(0 <= rule.violations_of_mean <= rule.points for rule in outcome.rules)
    # thirty steps teach a plain network little about what a flag costs
    assert pair[0].rules[1].share_of_draws_violating > 0.5


def test_the_tables_show_what_knowledge_changes(source, pair):
    results = study.summary([(source, *pair)], seed=3)
    found = results["plants"]["plant"]
    before, after = (outcome.cells[0].mse for outcome in pair)
    assert found["change"]["all"]["mse"] == pytest.approx(after / before - 1)
    table = tables.errors_by_seed(results, results)
    assert table.headings[1:3] == ("seed 3", "seed 3")
    assert table.rows[0][1].startswith(f"{before:.4f} -> {after:.4f}")
    change = 100 * found["change"]["all"]["mse"]
    assert tables.changes(results).rows[0][1].startswith(f"{change:+.1f} / ")


def test_a_plain_model_knows_no_rules(source, pair):
    assert len(pair[0].model.knowledge_report_) == 0
    assert len(pair[1].model.knowledge_report_) == len(source.rules)


def test_a_fit_whose_draws_break_the_rules_is_tried_again_under_more_pressure(source, monkeypatch):
    """Only where no share was asked for, and no longer than needed."""
    asked = []

    def pretend(model, *_):
        asked.append(model.rejection)
        few = model.rejection is not None and model.rejection > 0.3
        model.result_ = Result("acceptance too low" if few else "converged")
        return model

    monkeypatch.setattr(PRBNNRegressor, "fit", pretend)
    recorded = replace(source, rejections=(0.5, 0.3, 0.12))
    study.fit(recorded, True)
    study.fit(recorded, True, rejection=0.4)
    study.fit(recorded, False)
    assert asked == [0.5, 0.3, 0.4, None]


def test_recorded_plants_split_by_days(tmp_path):
    write_pvops(tmp_path / "pv_pvops_sandia", hourly(240))
    (whole,), (tenth,) = (sources.recorded(tmp_path, share, 0) for share in (1.0, 0.2))
    assert not set(whole.day[whole.train]) & set(whole.day[whole.test])
    np.testing.assert_array_equal(whole.test, tenth.test)
    assert set(tenth.train) < set(whole.train)
    assert (len(whole.train), len(tenth.train)) == (180, 36)
    assert whole.derated is None
    assert "derated" not in study.periods(whole)


def test_where_rows_are_many_both_networks_train_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MANY_ROWS", 100)
    write_pvops(tmp_path / "pv_pvops_sandia", hourly(240))
    (whole,), (tenth,) = (sources.recorded(tmp_path, share, 0) for share in (1.0, 0.2))
    assert (whole.steps, tenth.steps) == (sources.MANY_STEPS, None)
    asked = []
    monkeypatch.setattr(PRBNNRegressor, "fit", lambda self, *_: asked.append(self.steps))
    monkeypatch.setattr(PRBNNRegressor, "result_", Result("converged"), raising=False)
    for knowledge in (False, True):
        study.fit(whole, knowledge)
    assert asked == [sources.MANY_STEPS] * 2


class TestCommand:
    @pytest.fixture
    def quick(self, monkeypatch):
        fit = study.fit
        monkeypatch.setattr(study, "fit", lambda *args, **options: fit(*args, **SMALL))

    def check(self, result, records, picture):
        assert result.exit_code == 0, result.output
        read = json.loads(records.read_text(), parse_constant=pytest.fail)
        errors = [record for record in read if record["table"] == "errors"]
        rules = [record for record in read if record["table"] == "rules"]
        assert {"source", "model", "period", "rows", "mse", "rmse", "crps"} <= set(errors[0])
        assert {"rule", "violations_of_mean", "share_of_draws_violating"} <= set(rules[0])
        assert {record["model"] for record in read} == {"BNN", "PR-BNN"}
        assert picture.stat().st_size > 20_000
        return errors

    def test_the_simulated_plant(self, quick, monkeypatch, tmp_path, source):
        monkeypatch.setattr(sources, "simulated", lambda seed: source)
        records, picture = tmp_path / "records.json", tmp_path / "solar.png"
        command = ["study", "solar", "--json", str(records), "--out", str(picture)]
        result = CliRunner().invoke(app, command)
        errors = self.check(result, records, picture)
        assert {r["period"] for r in errors} == {"all", "daytime", "peak", "derated", "normal"}
        for expected in ("[0.0037 -> 0.0017]", "[0.0450 -> 0.0212]", "off lowers power"):
            assert expected in result.output

    @pytest.mark.slow
    def test_recorded_plants(self, quick, tmp_path):
        rows = hourly(240)
        for row in rows:
            row[2] = 15 * row[4]
        write_pvops(tmp_path / "pv_pvops_sandia", rows)
        records, picture = tmp_path / "records.json", tmp_path / "solar.png"
        command = ["study", "solar", "--source", "csv", "--data", str(tmp_path), "--share", "0.5"]
        result = CliRunner().invoke(app, [*command, "--json", str(records), "--out", str(picture)])
        errors = self.check(result, records, picture)
        assert {record["source"] for record in errors} == {"pvops R10"}
        assert "more sun, more power" in result.output

    def test_what_is_missing_is_told(self, tmp_path):
        runner = CliRunner()
        assert "--data" in runner.invoke(app, ["study", "solar", "--source", "csv"]).output
        command = ["study", "solar", "--source", "csv", "--data", str(tmp_path)]
        result = runner.invoke(app, command)
        assert result.exit_code == 2
        assert "holds neither" in result.output
        assert runner.invoke(app, ["study", "solar", "--share", "0"]).exit_code == 2

    def test_a_plant_whose_rules_cannot_be_met_is_told(self, monkeypatch, tmp_path):
        def refuse(*_):
            raise InfeasibleError("infeasible: pressure grew")

        monkeypatch.setattr("prbnn_studies.solar.study.study", refuse)
        result = CliRunner().invoke(app, ["study", "solar", "--out", str(tmp_path / "solar.png")])
        assert result.exit_code == 3
        assert "plant: no table, infeasible" in result.output


@pytest.mark.skipif(not (DATA / "pv_pvops_sandia").is_dir(), reason="no recorded plants at hand")
def test_rules_name_columns_that_are_there_and_hold_for_most_records():
    for source in sources.recorded(DATA, 0.1, 0):
        assert {"irradiance", "module"} <= set(source.columns)
        most = sources.RATINGS[source.name]
        assert 0.6 * most < source.power.max() <= most
        dark = source.irradiance <= 0
        assert (source.power[dark] <= sources.DUSK * most).all()
