"""The landing study on a small scale: splits, cells by hand, rules on test flights, the command."""

import json
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from prbnn import LSTM, PRBNNSequenceRegressor
from prbnn.cli.main import app
from prbnn.fitting.result import Result
from prbnn_studies.landing import sources, study
from prbnn_studies.tables import landing as tables

pytestmark = pytest.mark.light

DATA = Path(__file__).parents[3] / "shared" / "data"
SMALL = {"network": LSTM(units=4, hidden=(4,)), "steps": 40, "draws": 8, "batch_size": 32}


@pytest.fixture(scope="module")
def source():
    return sources.simulated(300, seed=3)


@pytest.fixture(scope="module")
def pair(source):
    with pytest.MonkeyPatch.context() as patch:
        # so few steps are not enough for hard rules: those that the study then turns to, at once
        patch.setattr(sources.Source, "priced", partialmethod(sources.Source.priced, hard=False))
        (found,) = study.study(source, [60], lambda text: None, **SMALL)
    return found


def test_flights_are_used_once(source):
    parts = [*source.train, *source.calibration, *source.test]
    assert sorted(parts) == list(range(len(source.tracks.values)))
    assert source.observed.shape[1:] == (35, 5)
    assert source.ahead.shape[1:] == (15, 5)


def test_what_does_not_end_on_the_runway_is_set_apart_and_counted(source):
    everything = sources.synthetic.approaches(300, 3)
    dropped = {name for names in source.tracks.dropped.values() for name in names}
    assert dropped | set(source.tracks.names) == set(everything.names)
    assert set(everything.names[everything.kinds == "go-around"]) <= dropped
    assert set(source.strange.kinds) == {"go-around"}
    height = source.tracks.values[:, -1, 2] - sources.synthetic.FIELD_ELEVATION
    assert np.abs(height).max() <= sources.LANDED_WITHIN_FEET


def test_rules_hold_for_what_was_truly_flown(source):
    """Knowledge must be true: of the flown landings, before the radar blurs them."""
    from prbnn.data.columns import Columns
    from prbnn.data.layout import Layout
    from prbnn.data.scaling import sequence_scaling
    from prbnn.rules.scoring.binding import scores_of_values

    flown = source.tracks.truth[source.tracks.kinds == "landing"]
    rows = np.concatenate([flown[:, :35].reshape(len(flown), -1), np.ones((len(flown), 1))], axis=1)
    targets = flown[:, 35:].reshape(len(flown), -1)
    names = source.tracks.variables
    layout = Layout(names, 35, (), names, 15)
    columns = Columns(layout.inputs, layout.targets, rows, targets, layout)
    scaling = sequence_scaling(layout, rows, targets)
    for rule, score in zip(
        source.rules, scores_of_values(source.rules, columns, scaling, rows, targets), strict=True
    ):
        assert score is not None
        assert np.mean(score.min(axis=1) < -1e-6) < 0.01, rule.label


def test_prices_are_those_of_a_standard_deviation_a_flight(source):
    rule = next(rule for rule in source.priced(10) if rule.label == "touchdown speed")
    spread = source.tracks.values[source.train][..., 3].std()
    assert rule.strength.weight == pytest.approx(10 * sources.PRICE / spread)


def test_rules_are_soft_where_too_few_draws_obey_hard_ones(source, monkeypatch):
    asked = []

    def pretend(model, *_):
        hard = any(rule.strength.kind == "hard" for rule in model.knowledge)
        asked.append(hard)
        model.result_ = Result("acceptance too low" if hard else "converged")
        return model

    monkeypatch.setattr(PRBNNSequenceRegressor, "fit", pretend)
    for knowledge in (True, False):
        study.fit(source, 60, knowledge)
    assert asked == [True, False, False]


def test_cells_by_hand(source, pair):
    plain = pair[0]
    scale = np.ptp(source.tracks.values[source.train], axis=(0, 1))
    found = plain.model.predict_all(source.observed[source.test])
    error = (found.mean - source.ahead[source.test]) / scale
    cells = {(cell.scope, cell.variable): cell for cell in plain.cells}
    assert cells["sequence", "overall"].mse == pytest.approx(np.mean(error**2))
    assert cells["last", "altitude"].mse == pytest.approx(np.mean(error[:, -1, 2] ** 2))
    assert cells["last", "speed"].std == pytest.approx(
        np.mean(found.epistemic[:, -1, 3]) / scale[3]
    )
    in_feet = np.sqrt(np.mean((error[:, -1, 2] * scale[2]) ** 2))
    assert cells["last", "altitude"].rmse_in_units == pytest.approx(in_feet)
    assert all(0 <= cell.coverage90 <= 1 for cell in plain.cells)
    assert len(cells) == 12


def test_violations_of_the_mean_by_hand(source, pair):
    mean = pair[0].model.predict(source.observed[source.test])
    counts = {rule.rule: rule.violations_of_mean for rule in pair[0].rules}
    altitude, field = mean[..., 2], sources.synthetic.FIELD_ELEVATION
    assert counts["touchdown altitude"] == np.sum(np.abs(altitude[:, -1] - field) > 15)
    assert counts["altitude falls"] == np.sum(altitude[:, 3:] > altitude[:, :-3])
    assert [rule.knowledge for rule in pair[1].rules] == [True] * len(source.rules)


def test_warnings_are_calibrated_on_flights_that_neither_trained_nor_tested(source, pair):
    found = study.alarm_rates(source, pair[1].model)
    assert found.calibrated_on == len(source.calibration)
    assert found.strange == len(source.strange.values)
    assert found.rule_breaking_strange == 1.0


def test_the_table_shows_the_overall_errors_of_a_pair(source, pair):
    results = study.summary([pair])
    (flights,) = results["by_flights"]
    assert flights == "60"
    plain, known = (outcome.overall("last").crps for outcome in pair)
    for table in (tables.by_flights(results), tables.without_and_with(results)):
        cells = {row[0]: row[1] for row in table.rows}
        assert cells["CRPS, last point"] == f"{plain:.2e} -> {known:.2e}"
        assert cells["rules with knowledge"] in ("3 hard", "all soft")


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_records(monkeypatch, tmp_path):
    fit = study.fit
    monkeypatch.setattr(study, "fit", lambda *args, **options: fit(*args, **SMALL))
    records, picture = tmp_path / "records.json", tmp_path / "landing.png"
    command = ["study", "landing", "--flights", "200", "--sizes", "50,all"]
    result = CliRunner().invoke(app, [*command, "--json", str(records), "--out", str(picture)])
    assert result.exit_code == 0, result.output
    for expected in ("MSE, synthetic", "CRPS, synthetic", "touchdown altitude", "Warnings: level"):
        assert expected in result.output
    read = json.loads(records.read_text(), parse_constant=pytest.fail)
    wanted = {"source", "flights", "knowledge", "scope", "variable", "mse", "std", "crps"}
    assert wanted | {"coverage90"} <= set(read[0])
    rules = [record for record in read if record["table"] == "rules"]
    assert {"rule", "violations_of_mean", "share_of_draws_violating"} <= set(rules[0])
    assert {record["flights"] for record in rules} == {50, read[-2]["flights"]}
    assert picture.stat().st_size > 20_000


def test_sources_that_need_a_folder_say_so():
    result = CliRunner().invoke(app, ["study", "landing", "--source", "katl"])
    assert result.exit_code == 2
    assert "--data" in result.output
    for sizes in ("many", "0", "50,-1"):
        wrong = CliRunner().invoke(app, ["study", "landing", "--sizes", sizes])
        assert wrong.exit_code == 2
        assert "whole numbers from 10" in wrong.output


@pytest.mark.skipif(not DATA.exists(), reason="the tracks are not part of the project")
class TestRealTracks:
    def test_radar_trains_on_the_first_days(self):
        source = sources.radar(DATA)
        assert max(source.tracks.days[source.train]) <= "2019-08-06"
        assert set(source.tracks.days[source.test]) == {"2019-08-07"}
        assert source.observed.shape[1:] == (7, 4)
        assert source.ahead.shape[1:] == (3, 4)

    def test_broadcasts_are_turned_to_their_own_course(self):
        source = sources.broadcast(DATA)
        last = dict(zip(source.tracks.variables, source.observed[:, -1].T, strict=True))
        np.testing.assert_allclose([last["along"], last["across"]], 0, atol=1e-9)

    @pytest.mark.parametrize("read", [sources.radar, sources.broadcast])
    def test_rules_name_variables_that_exist(self, read):
        source = read(DATA)
        subjects = {str(getattr(rule, "variable", rule.of)) for rule in source.rules}
        assert subjects <= set(source.tracks.variables)
        assert set(source.tracks.variables) <= set(source.units)
