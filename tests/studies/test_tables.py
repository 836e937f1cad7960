"""The study of public tables: scores by closed forms, splits, rules, peers, and its command."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scoringrules
from scipy.stats import norm
from typer.testing import CliRunner

from prbnn import (
    MLP,
    AtLeast,
    Between,
    Convex,
    DataError,
    Decreasing,
    Increasing,
    PRBNNRegressor,
    audit,
)
from prbnn.cli.main import app
from prbnn.posterior.checks import Check
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn_studies.peers import breaking, data, knowledge, methods, own, study
from prbnn_studies.peers.predictive import Predictive, around, scores
from prbnn_studies.records import read_record
from prbnn_studies.tables import peers as grids

FILES = Path(__file__).parents[2].parent / "shared" / "data"
with_files = pytest.mark.skipif(
    not (FILES / "uci_splits").is_dir(), reason="the UCI tables are not beside the repository"
)
runner = CliRunner()
RULES = (Increasing("a"), AtLeast(0))
NOISE = 0.1


def made_up(rows=150, rules=RULES):
    """A table that rises with its first column, and falls with its second."""
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 1, (rows, 2))
    y = 1 + 2 * x[:, 0] - x[:, 1] + generator.normal(0, NOISE, rows)
    return data.PublicTable("made-up", ("a", "b"), x, y, tuple(rules))


class TestScores:
    y = np.array([0.3, -1.0, 2.5, 0.0])

    def test_a_single_normal(self):
        means, deviations = np.array([0.0, 1.0, 2.0, 0.5]), np.array([1.0, 0.5, 2.0, 0.1])
        found = scores(Predictive(means[None], deviations[None]), self.y)
        assert found.crps == pytest.approx(
            np.mean(scoringrules.crps_normal(self.y, means, deviations)), rel=1e-3
        )
        assert found.nll == pytest.approx(-np.mean(norm.logpdf(self.y, means, deviations)))
        assert found.rmse == pytest.approx(np.sqrt(np.mean((self.y - means) ** 2)))

    def test_a_mixture(self):
        generator = np.random.default_rng(1)
        means = generator.normal(0, 1, (300, 4))
        deviations = generator.uniform(0.2, 1.5, (300, 4))
        found = scores(Predictive(means, deviations), self.y)
        exact = scoringrules.crps_mixnorm(self.y, means.T, deviations.T)
        assert found.crps == pytest.approx(np.mean(exact), rel=5e-3)
        density = np.mean(norm.pdf(self.y, means, deviations), axis=0)
        assert found.nll == pytest.approx(-np.mean(np.log(density)))

    def test_the_band_holds_what_lies_between_its_two_quantiles(self):
        predictive = Predictive(np.zeros((1, 4)), np.ones((1, 1)))
        y = norm.ppf([0.04, 0.06, 0.94, 0.96])
        assert scores(predictive, y).coverage == 0.5

    def test_residuals_are_a_kernel_density_around_the_prediction(self):
        residuals = np.random.default_rng(2).normal(0.5, 2.0, 50)
        found = around(np.array([10.0, 20.0]), residuals)
        np.testing.assert_allclose(found.means.mean(axis=0), [10.0, 20.0])
        variance = found.means.var(axis=0) + float(found.deviations[0, 0]) ** 2
        np.testing.assert_allclose(variance, np.var(residuals))

    def test_kernels_are_as_wide_as_the_residuals_say(self):
        generator = np.random.default_rng(3)
        normal = generator.normal(0, 1, 400)
        two = np.where(np.arange(400) < 200, -1.0, 1.0) + 0.1 * normal
        truth, y = 0.5 * norm.pdf(two, -1, 0.1) + 0.5 * norm.pdf(two, 1, 0.1), np.zeros(400)
        assert scores(around(y, two), two).nll < -np.mean(np.log(truth)) + 0.2
        assert scores(around(y, normal), normal).nll == pytest.approx(norm.entropy(), abs=0.1)
        # residuals that lie far out have wide kernels: rows between them are not improbable
        far = np.append(generator.normal(0, 1, 40), [15.0, -18.0])
        assert scores(around(np.zeros(1), far), np.array([8.0])).nll < 15

    def test_residuals_of_a_perfect_fit_have_a_density(self):
        assert np.isfinite(scores(around(np.ones(3), np.zeros(20)), np.ones(3)))[1]


class TestData:
    def test_training_and_test_rows_do_not_overlap_and_small_sizes_are_part_of_large_ones(self):
        table = replace(made_up(), x=np.arange(300.0).reshape(150, 2))
        for split in range(10):
            sizes = [data.rows_of(table, size, split, 2000) for size in ("60", "30%", "all")]
            assert [len(rows.y) for rows in sizes] == [60, 36, 120]
            for rows in sizes:
                assert set(rows.x[:, 0]).isdisjoint(rows.test_x[:, 0])
                assert len(rows.test_y) == 30
                assert set(rows.x[:, 0]) <= set(sizes[-1].x[:, 0])
        first, other = (data.rows_of(table, "all", 0, 2000, seed) for seed in (0, 1))
        assert set(first.test_x[:, 0]) != set(other.test_x[:, 0])

    def test_large_tables_are_capped(self):
        rows = data.rows_of(made_up(8000), "all", 0, 500)
        assert (len(rows.y), len(rows.test_y)) == (500, 1000)
        assert len(data.rows_of(made_up(8000), "30%", 0, 500).y) == 150

    @pytest.mark.parametrize("size", ["", "none", "0", "-3", "0%", "101%", "5", "nan%"])
    def test_what_is_no_size_is_refused(self, size):
        with pytest.raises(ValueError, match="a size is"):
            data.count_of(size, 100)

    @pytest.mark.parametrize(
        "name",
        [*data.SHIPPED, *(pytest.param(name, marks=with_files) for name in data.FROM_FILES)],
    )
    def test_the_rows_agree_with_the_rules(self, name):
        table = data.read(name, FILES)
        assert all(rule.because for rule in table.rules)
        few = slice(0, 1500)
        frame = pd.DataFrame(table.x[few], columns=list(table.columns))
        found = audit(frame, table.y[few], table.rules)
        assert len(found.rows) <= 0.005 * len(frame)

    def test_columns_without_a_second_value_and_race_are_left_out(self, monkeypatch):
        x = np.column_stack([np.arange(9.0), np.ones(9), np.arange(9.0)])
        read = data.uci_data.Dataset("boston", ("rooms", "constant", "black"), x, x[:, 0], [])
        monkeypatch.setattr(data.uci_data, "check", lambda folder, names: None)
        monkeypatch.setattr(data.uci_data, "read", lambda folder, name: read)
        assert data.read("boston", FILES).columns == ("rooms",)

    def test_there_are_eight_tables_and_some_need_no_files(self):
        assert len(data.TABLES) >= 8
        assert set(data.missing(data.TABLES, None)) == set(data.FROM_FILES)


class TestKnowledge:
    def test_signs_and_limits(self):
        columns = data.rows_of(made_up(), "all", 0, 2000).training
        rules = [Decreasing("b", where={"b": (0, 0.5)}), Between(0, 10), AtLeast(-5)]
        # no sign for a rule that holds for some values of another column
        rules.append(Increasing("a", where={"b": (0, 0.5)}))
        assert knowledge.signs(rules, columns) == [0, -1]
        assert knowledge.limits(rules, columns) == (0, 10)
        assert knowledge.limits([], columns) == (-np.inf, np.inf)

    def test_other_rules_are_refused(self):
        columns = data.rows_of(made_up(), "all", 0, 2000).training
        with pytest.raises(ValueError, match="peers take rules"):
            knowledge.signs([Convex("a")], columns)


class TestBreaking:
    columns = data.rows_of(made_up(), "all", 0, 2000).training

    def found(self, function, *rules):
        return breaking.of_functions([function], rules, self.columns, 4000)

    def test_a_function_that_obeys(self):
        assert self.found(lambda x: x[:, 0] - x[:, 1], Increasing("a"), AtLeast(-1)) == (0, 0, 0)

    def test_a_short_fall_is_found(self):
        def falls(x):
            return x[:, 0] - 0.05 * (x[:, 0] > 0.5)

        found = self.found(falls, Increasing("a"), AtLeast(-1))
        assert found.functions == 1
        assert 0 < found.points < 0.05
        unit = np.std(self.columns.targets)
        # over the shortest step, 1/100 of the range, the function rises by 0.01
        assert found.worst == pytest.approx(0.04 / unit, rel=0.05)

    def test_limits_are_evaluated_over_the_region(self):
        found = self.found(lambda x: x[:, 0] - 0.5, AtLeast(0, where={"a": (0, 1)}))
        assert found.points == pytest.approx(0.5, abs=0.01)
        assert found.worst == pytest.approx(0.5 / np.std(self.columns.targets), rel=0.01)
        assert self.found(lambda x: x[:, 0], Between(0, 0.5, where={"a": (0, 0.5)})) == (0, 0, 0)

    def test_a_trend_is_not_evaluated_beyond_its_region(self):
        def falls_late(x):
            return -np.maximum(x[:, 0] - 0.5, 0)

        assert self.found(falls_late, Increasing("a", where={"a": (0, 0.5)})) == (0, 0, 0)
        assert self.found(falls_late, Increasing("a")).functions == 1

        def falls_early(x):
            return -np.minimum(x[:, 0], 0.5)

        assert self.found(falls_early, Increasing("a", where={"a": (0.5, 1)})) == (0, 0, 0)

    def test_members_are_counted_one_by_one(self):
        members = [lambda x: x[:, 0], lambda x: -x[:, 0]]
        found = breaking.of_functions(members, [Increasing("a")], self.columns, 500)
        assert (found.functions, found.points) == (0.5, 0.5)


class ThreeDraws:
    """Stands for a posterior: the first draw breaks the rule in the first block, and so on."""

    def __len__(self):
        return 3

    def take(self, places):
        assert list(places) == [0, 1, 2]
        return self

    def bind(self, rules, points, seed):
        return points, seed - breaking.FRESH_SEED

    def check(self, rules, fresh):
        points, block = fresh
        assert points == breaking.BLOCK
        worst = np.where(np.arange(3) == block, -0.5 / (1 + block), 0.5)[:, None]
        return Check(worst, worst, worst, np.where(worst < 0, 0.3, 0.0))


def test_a_draw_that_breaks_a_rule_in_one_block_is_counted():
    found = breaking.of_draws(ThreeDraws(), [Increasing("a")], 2 * breaking.BLOCK)
    assert found == pytest.approx((2 / 3, 0.1, 0.5))


@pytest.fixture(scope="module")
def network():
    """A network without rules that hardly trained, and its rows."""
    rows = data.rows_of(made_up(), "all", 0, 2000)
    model = PRBNNRegressor(MLP((8,)), tempering=0.1, steps=50, draws=32, random_state=0)
    with pytest.warns(UserWarning):
        model.fit(rows.frame, rows.y)
    return model, rows


@pytest.mark.light
class TestOwn:
    def test_the_mixture_is_what_the_posterior_predicts(self, network):
        model, rows = network
        found = own.mixture(model.posterior_, rows.test_x)
        np.testing.assert_allclose(
            found.means.mean(axis=0), model.predict(rows.test_x), rtol=1e-5, atol=1e-6
        )
        density = model.posterior_.log_density(rows.test_x, rows.test_y)
        assert scores(found, rows.test_y).nll == pytest.approx(-np.mean(density), rel=1e-4)

    def test_draws_break_rules_where_their_slopes_do(self, network, monkeypatch):
        monkeypatch.setattr(breaking, "BLOCK", 250)
        model, _ = network
        rules = [Increasing("a"), AtLeast(0)]
        found = breaking.of_draws(model.posterior_, rules, 1000)
        posterior = model.posterior_
        checks = [
            posterior.check(rules, posterior.bind(rules, 250, seed=breaking.FRESH_SEED + number))
            for number in range(4)
        ]
        worst = np.min([check.worst for check in checks], axis=0)
        assert found.functions == np.mean(np.any(worst < -CHECK_TOLERANCE, axis=1)) > 0
        assert found.worst == pytest.approx(-worst.min())


def measure(table, method, size="all"):
    rows = data.rows_of(table, size, 0, 2000)
    return study.measure(rows, size, 0, method, study.Settings(points=500))


class TestPeers:
    @pytest.mark.parametrize("peer", ["hist", "gp", "ensemble"])
    def test_a_peer_learns_the_table_and_its_noise(self, peer):
        found = measure(made_up(250), peer)
        assert NOISE * 0.8 < found.rmse < NOISE * 1.7
        assert found.nll < norm(0, NOISE).entropy() + 0.5
        assert 0.75 < found.coverage <= 1.0

    def test_boosted_trees_obey_signs_that_the_data_contradict(self):
        found = measure(made_up(rules=[Increasing("b"), AtLeast(2)]), "hist", "60")
        assert (found.functions_breaking, found.points_breaking, found.worst) == (0, 0, 0)
        assert measure(made_up(rules=[Increasing("b")]), "gp", "60").points_breaking > 0.9

    @pytest.mark.parametrize("name", ["xgboost", "lightgbm", "ngboost"])
    def test_libraries_of_the_extra(self, name):
        pytest.importorskip(name)
        found = measure(made_up(), name, "60")
        assert found.rmse < 0.5
        assert found.functions_breaking == (name == "ngboost")

    def test_what_is_not_installed_has_no_numbers_and_is_not_remembered(
        self, monkeypatch, tmp_path
    ):
        monkeypatch.setattr(methods, "find_spec", lambda name: None)
        entry = measure(made_up(), "xgboost", "60")
        assert (entry.crps, entry.note) == (None, "not installed")
        cache = study.Cache(tmp_path / "cache", study.Settings())
        cache.add(made_up(), entry)
        assert not (tmp_path / "cache").exists()
        row = grids.crps(study.summary([entry])).rows[0]
        assert row == ("made-up", "60", "not installed")
        assert grids.overview(study.summary([entry])).rows[0][:4] == (
            "xgboost",
            "60",
            "0",
            "not installed",
        )


def test_a_fit_that_fails_has_no_numbers_and_says_why(monkeypatch):
    def fail(rows):
        raise DataError("column 'a' is constant\nmore")

    monkeypatch.setattr(study, "method_of", lambda name, steps: fail)
    found = measure(made_up(), "with-rules")
    assert (found.crps, found.note) == (None, "column 'a' is constant")
    assert found.seconds >= 0


def entry(method, split=0, crps=1.0, **others):
    numbers = {metric: crps for metric in study.METRICS}
    return study.Entry("yacht", "60", split, method, 60, 30, **{**numbers, **others})


class TestSummary:
    def test_differences_are_paired_by_split(self):
        entries = [
            *(entry("plain", split, value) for split, value in enumerate([1.0, 5.0])),
            *(entry("with-rules", split, value) for split, value in enumerate([0.5, 4.0])),
            *(entry("hist", split, value) for split, value in enumerate([0.4, 4.4, 9.0])),
        ]
        found = study.summary(entries)["tables"]["yacht"]["60"]["methods"]
        assert found["plain"]["crps"] == {"mean": 3.0, "error": 2.0}
        assert found["with-rules"]["less_plain"]["crps"] == {
            "mean": -0.75,
            "error": 0.25,
            "of": 3.0,
        }
        assert found["plain"]["rules_less"]["nll"]["error"] == 0.25
        # the third split has no network: it counts neither in the difference nor in what it is of
        assert found["hist"]["rules_less"]["crps"]["of"] == pytest.approx(2.4)
        assert found["hist"]["rules_less"]["crps"]["mean"] == pytest.approx(-0.15)
        assert found["hist"]["rules_less"]["crps"]["error"] == pytest.approx(0.25)

    def test_tables(self):
        entries = [entry("plain", 0, 2.0), entry("plain", 1, 4.0)]
        entries += [entry("with-rules", 0, 1.0), entry("with-rules", 1, 2.0, note="budget spent")]
        results = study.summary(entries)
        assert grids.crps(results).rows == [("yacht", "60", "3.00 ± 1.00", "**1.50 ± 0.50**")]
        assert grids.changes(results).rows == [("yacht", "60", "-50.0 ± 16.7 %")]
        assert grids.overview(results).rows[0][3:6] == ("1.000", "1.000", "+0.00")
        assert grids.overview(results).rows[1][:5] == ("with-rules", "60", "1", "0.500", "0.500")
        assert results["tables"]["yacht"]["60"]["methods"]["with-rules"]["notes"] == {
            "budget spent": 1
        }
        assert "plain 3.00 ± 1.00" in grids.line(results)

    def test_without_a_fit_there_are_no_differences(self):
        failed = study.Entry("yacht", "60", 0, "with-rules", 60, 30, note="infeasible")
        results = study.summary([entry("plain"), failed])
        assert results["tables"]["yacht"]["60"]["methods"]["plain"]["rules_less"]["crps"] is None
        assert grids.changes(results).rows == [("yacht", "60", "-")]


class TestCache:
    settings = study.Settings(points=100)
    table = replace(made_up(), name="yacht")

    def test_measurements_are_read_back_and_a_line_cut_short_is_not(self, tmp_path):
        path = tmp_path / "cache.jsonl"
        study.Cache(path, self.settings).add(self.table, entry("plain"))
        whole = path.read_text()
        path.write_text(whole + whole[: len(whole) // 2])
        cache = study.Cache(path, self.settings)
        assert cache.find(self.table, "60", 0, "plain") == entry("plain")
        assert cache.find(self.table, "60", 1, "plain") is None
        cache.add(self.table, entry("hist"))
        assert len(study.Cache(path, self.settings).known) == 2

    def test_other_settings_and_other_rules_are_measured_anew(self, tmp_path):
        path = tmp_path / "cache.jsonl"
        study.Cache(path, self.settings).add(self.table, entry("plain"))
        assert study.Cache(path, study.Settings(points=200)).known == {}
        other = replace(self.table, rules=(Increasing("a", where={"a": (0, 0.5)}), AtLeast(0)))
        assert study.Cache(path, self.settings).find(other, "60", 0, "plain") is None

    def test_what_is_known_is_not_measured_again(self, tmp_path, monkeypatch):
        calls = []
        monkeypatch.setattr(study, "method_of", lambda name, steps: calls.append(name) or None)
        path = tmp_path / "cache.jsonl"
        study.Cache(path, self.settings).add(self.table, entry("plain"))
        cache = study.Cache(path, self.settings)
        asked = ([self.table], ["60"], 1, ["plain", "hist"], self.settings, cache)
        (found,) = study.measured(*asked, say=lambda text: None)
        assert calls == ["hist"]
        assert [one.method for one in found] == ["plain", "hist"]


@pytest.mark.parametrize(
    "options",
    [
        ["--tables", "moon"],
        ["--methods", "magic"],
        ["--sizes", "60,none"],
        ["--sizes", ""],
        ["--tables", "yacht"],
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(options):
    result = runner.invoke(app, ["study", "tables", *options])
    assert result.exit_code == 2, result.output


@pytest.mark.light
def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "find_spec", lambda name: name == "sklearn" or None)
    monkeypatch.setattr(data, "read", lambda name, folder: replace(made_up(), name=name))
    quick = partial(PRBNNRegressor, MLP((8,)), tempering=0.2, draws=40)
    monkeypatch.setattr(own, "PRBNNRegressor", quick)
    monkeypatch.setattr("prbnn.posterior.checks.CHECK_POINTS", 256)
    files = {name: tmp_path / f"{name}.json" for name in ("json", "record", "cache")}
    command = ["study", "tables", "--tables", "iris,yacht", "--sizes", "60", "--splits", "1"]
    command += ["--methods", "plain,with-rules,hist,xgboost", "--steps", "100", "--points", "200"]
    for name, path in files.items():
        command += [f"--{name}", str(path)]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    for expected in (
        "yacht skipped",
        "xgboost: not installed",
        "Over all tables",
        "iris, 60: CRPS",
    ):
        assert expected in result.output
    entries = json.loads(files["json"].read_text())
    assert [one["method"] for one in entries] == ["plain", "with-rules", "hist", "xgboost"]
    assert all(one["crps"] > 0 and one["rows"] == 60 for one in entries[:3])
    assert len(files["cache"].read_text().splitlines()) == 3
    record = read_record(files["record"])
    assert set(record.results) == {"splits", "takes", "tables"}
    monkeypatch.setattr(study, "measure", lambda *given: pytest.fail("measured again"))
    again = runner.invoke(app, [*command, "--methods", "plain,with-rules,hist"])
    assert again.exit_code == 0, again.output
