"""Simulation 2: the authors' data to the digit, the measurements by hand, and the claims over seeds."""

import numpy as np
import pytest

from prbnn_studies import simulation2 as simulation
from prbnn_studies.tables import simulation2 as tables


def test_the_data_are_the_authors():
    x, y = simulation.data(0)
    assert len(x) == len(y) == 87
    assert np.all(y >= 0)
    assert np.all(np.diff(x[:, 0]) > 0)
    np.random.seed(1)
    first = np.sort(np.random.uniform(0.1, 0.65, 100))
    assert set(x[:, 0]) <= set(first)
    np.testing.assert_allclose(np.std(y - simulation.truth(x[:, 0])), 0.09, atol=0.005)


def test_other_seeds_are_other_data():
    assert not np.array_equal(simulation.data(0)[0][:50], simulation.data(1)[0][:50])


def test_broken_counts_points_by_hand():
    x = simulation.grid()
    curve = np.full((1, 200), 0.2)
    assert simulation.broken(curve).tolist() == [[0, 0, 0]]
    low = curve.copy()
    low[0, :3] = -0.01
    assert simulation.broken(low).tolist() == [[3, 0, 0]]
    high = (simulation.upper(x) + 0.01)[None]
    assert simulation.broken(high).tolist() == [[0, 200, 0]]
    falling = np.linspace(0.3, 0.2, 200)[None]
    assert simulation.broken(falling).tolist() == [[0, 0, 199]]


def test_the_truth_itself_obeys():
    assert simulation.broken(simulation.truth(simulation.grid())).tolist() == [0, 0, 0]


def test_weights_of_the_paper_are_87_nats_each():
    rules = simulation.knowledge("soft 1,2,4")
    assert [rule.strength.weight for rule in rules] == [87, 174, 348]
    assert rules[2].over == pytest.approx(0.92 / 49)


@pytest.mark.slow
def test_knowledge_mends_the_plain_network_on_one_data_set():
    plain, _ = simulation.run("BNN", 0, tempering=0.2, steps=2000, draws=60)
    constrained, curves = simulation.run("PR-BNN", 0, tempering=0.2, steps=2000, draws=60)
    assert plain.violations_of_mean[1] > 40
    assert constrained.violations_of_mean == [0, 0, 0]
    assert constrained.stored_draws_violating == 0
    assert constrained.acceptance > 0.7
    assert constrained.mse < 0.0052 < plain.mse
    assert len(curves.mean) == 200


def test_engines_keep_the_hard_rules_and_choose_their_own_tempering(monkeypatch):
    asked = []

    def run(method, seed, tempering="auto", **options):
        asked.append((method, tempering, options.get("inference")))
        return simulation.Fit(method, seed, *[0] * 2, *[[0]] * 2, *[0] * 11), None

    monkeypatch.setattr(simulation, "run", run)
    methods = [simulation.by_engine("bbb"), simulation.by_engine("nuts")]
    records = [record for record, _ in simulation.study([0], methods)]
    assert [record.method for record in records] == methods
    assert asked == [(methods[0], "auto", "bbb"), (methods[1], "auto", "nuts")]
    hard = [rule.strength.kind for rule in simulation.knowledge(methods[1])]
    assert hard == ["hard"] * 3


def fit(method, seed, mse):
    lists = {"violation": [0.0] * 3, "violations_of_mean": [0, seed, 0], "duals": [0.0] * 3}
    numbers = dict.fromkeys(simulation.Fit.__dataclass_fields__, 0.5)
    return simulation.Fit(**{**numbers, **lists, "method": method, "seed": seed, "mse": mse})


def test_results_are_medians_and_worst_cases_over_data_sets():
    results = simulation.summary([fit("PR-BNN", seed, mse) for seed, mse in enumerate((1, 2, 9))])
    row = results["PR-BNN"]
    assert (row["data_sets"], row["mse"], row["worst_mse"]) == (3, 2.0, 9)
    assert (row["violations_of_mean"], row["most_violations_of_mean"]) == ([0, 1, 0], [0, 2, 0])
    assert tables.methods(results).rows[0][:3] == ("PR-BNN", "2.0000 (0.0052)", "9.0000")


@pytest.mark.slow
class TestClaimsOverTenDataSets:
    """With the estimator's defaults; each bar is stated in docs/simulation2.md."""

    @pytest.fixture(scope="class")
    @classmethod
    def records(cls):
        return [record for record, _ in simulation.study(range(10), ("PR-BNN",))]

    def values(self, records, name):
        return np.array([getattr(record, name) for record in records])

    def test_the_mean_never_breaks_a_rule(self, records):
        assert self.values(records, "violations_of_mean").max() == 0

    def test_error(self, records):
        assert np.median(self.values(records, "mse")) <= 0.0020
        assert self.values(records, "mse").max() <= 0.0052

    def test_draws(self, records):
        assert np.median(self.values(records, "raw_draws_violating")) <= 0.15
        assert self.values(records, "stored_draws_violating").max() == 0
        assert self.values(records, "acceptance").min() >= 0.8

    def test_coverage_where_the_data_are_not_truncated(self, records):
        assert np.median(self.values(records, "coverage95_right")) >= 0.9

    def test_noise(self, records):
        ratio = self.values(records, "noise") / self.values(records, "residual_sd")
        assert abs(np.median(ratio) - 1) <= 0.15
