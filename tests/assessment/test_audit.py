"""The audit before training: planted bad rows are listed and no others, at the stated rate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import prbnn
from prbnn import (
    MLP,
    AtLeast,
    Between,
    Combined,
    Compare,
    Convex,
    DataError,
    Decreasing,
    Increasing,
    PRBNNClassifier,
    PRBNNRegressor,
    SlopeBetween,
)
from prbnn.assessment.audit import Audit
from prbnn.assessment.neighbours import noise_of

NOISE = 0.1
ROWS = 300


def table(seed: int, rows: int = ROWS, noise: float = NOISE) -> tuple[np.ndarray, np.ndarray]:
    """A column that lifts, one of two values that costs 1, and one that says nothing."""
    generator = np.random.default_rng(seed)
    x = np.column_stack(
        [
            generator.uniform(0, 4, rows),
            generator.integers(0, 2, rows),
            generator.integers(0, 3, rows),
        ]
    )
    y = np.maximum(x[:, 0] - 1, 0) - x[:, 1] + generator.normal(0, noise, rows)
    return x, y


def audit(x: np.ndarray, y: np.ndarray, *rules, noise: float | None = NOISE) -> Audit:
    return prbnn.audit(x, y, rules, noise=noise, columns=["lift", "cost", "idle"])


FLOOR = AtLeast("-cost", name="floor")
RISING = Increasing("lift", name="rising")
COSTS = Compare({"cost": 1}, below={"cost": 0}, by=1.0, name="costs")


@pytest.mark.parametrize("noise", [NOISE, None], ids=["stated", "estimated"])
class TestPlanted:
    def test_exactly_the_bad_rows_are_listed_with_how_bad_they_are(self, noise) -> None:
        x, y = table(0)
        bad = {11: 1.3, 200: 0.9, 42: 2.0}
        for row, depth in bad.items():
            y[row] = -x[row, 1] - depth
        (found,) = audit(x, y, FLOOR, noise=noise)
        assert found.rows == (42, 11, 200)
        assert found.by == pytest.approx((2.0, 1.3, 0.9), abs=1e-4)
        used = audit(x, y, FLOOR, noise=noise).noise[0]
        assert found.deviations == pytest.approx(np.array(found.by) / used)
        assert found.tried == ROWS

    def test_rows_against_a_trend(self, noise) -> None:
        x, y = table(1)
        order = np.argsort(x[:, 0])
        high, low = order[40], order[-40]
        y[high], y[low] = 6.0, -4.0
        (found,) = audit(x, y, RISING, noise=noise)
        assert set(found.rows) == {high, low}
        assert all({high, low} & set(pair) for pair in found.pairs)

    def test_rows_against_a_comparison(self, noise) -> None:
        x, y = table(2, 3000)
        bad = np.flatnonzero((x[:, 1] == 1) & (x[:, 0] > 2))[5]
        y[bad] += 3.0
        (found,) = audit(x, y, COSTS, noise=noise)
        assert found.rows == (bad,)


class TestClean:
    SEEDS = 200

    def alarms(self, rule, noise: float | None, **options) -> int:
        return sum(
            bool(audit(*table(seed, **options), rule, noise=noise).rows)
            for seed in range(self.SEEDS)
        )

    def test_rows_at_their_bound_are_listed_at_the_stated_rate(self) -> None:
        """A quarter of the rows lie on the floor itself, where noise alone decides."""
        assert self.alarms(FLOOR, NOISE) <= binom.ppf(0.999, self.SEEDS, 0.01)

    def test_so_with_estimated_noise(self) -> None:
        assert self.alarms(FLOOR, None) <= binom.ppf(0.999, self.SEEDS, 0.01)

    def test_rows_of_a_rule_that_binds_everywhere(self) -> None:
        """All rows on the bound: the rate is met, not only kept below."""
        rule = AtLeast(0, name="zero")
        count, seeds = 0, 2000
        for seed in range(seeds):
            y = np.random.default_rng(seed).normal(0, NOISE, 40)
            count += bool(
                prbnn.audit(np.arange(40.0)[:, None] % 2, y, [rule], noise=NOISE, rate=0.2).rows
            )
            if seed == 199:
                break
        low, high = binom.ppf([0.001, 0.999], 200, 1 - (1 - 0.2 / 40) ** 40)
        assert low <= count <= high

    @pytest.mark.parametrize("noise", [NOISE, None], ids=["stated", "estimated"])
    @pytest.mark.parametrize("rule", [RISING, COSTS], ids=["trend", "comparison"])
    def test_pairs_are_no_cause_for_alarm(self, rule, noise) -> None:
        """Below 1, the truth is flat: noise alone decides there, too."""
        assert self.alarms(rule, noise) <= binom.ppf(0.999, self.SEEDS, 0.01)


class TestNoise:
    @pytest.mark.parametrize("size", [0.02, 0.1, 0.5])
    def test_it_is_found_in_clean_data(self, size: float) -> None:
        found = [noise_of(x, y[:, None])[0] for x, y in (table(s, 1000, size) for s in range(10))]
        assert np.mean(found) == pytest.approx(size, rel=0.1)

    def test_a_few_bad_rows_hardly_move_it(self) -> None:
        x, y = table(0, 1000)
        before = noise_of(x, y[:, None])[0]
        y[:20] += 50.0
        assert noise_of(x, y[:, None])[0] < 1.6 * before

    def test_the_audit_says_which_it_used(self) -> None:
        assert "noise stated: 0.1" in str(audit(*table(0), FLOOR))
        assert "estimated from the differences of neighbouring rows" in str(
            audit(*table(0), FLOOR, noise=None)
        )

    def test_none_at_all_lists_whatever_is_beyond(self) -> None:
        x = np.tile(np.arange(20.0), 2)[:, None]
        y = np.where(np.arange(40) == 5, -0.01, 1.0)
        found = prbnn.audit(x, y, [AtLeast(0)])
        assert found.noise == (0.0,)
        assert found.rows == (5,)
        assert found.findings[0].deviations == (np.inf,)

    def test_it_must_be_above_nothing(self) -> None:
        with pytest.raises(DataError, match="noise must be above 0"):
            audit(*table(0), FLOOR, noise=-1.0)


class TestWhatRowsCannotTell:
    def test_no_two_rows_that_agree(self) -> None:
        generator = np.random.default_rng(0)
        x = generator.normal(size=(12, 6)) * 10
        (found,) = prbnn.audit(x, x[:, 0], [Increasing("x0")], noise=0.1)
        assert found.tried is None
        assert "no two rows agree in all other columns" in found.words

    def test_a_bend(self) -> None:
        (found,) = audit(*table(0), Convex("lift"))
        assert found.tried is None
        assert found.words == "cannot be checked on rows"

    def test_a_region_without_rows(self) -> None:
        (found,) = audit(*table(0), AtLeast(0, where={"lift": (10, 20)}))
        assert found.words == "no row is in its region"


class TestRules:
    def test_only_rows_in_the_region_are_asked(self) -> None:
        x, y = table(0)
        inside, outside = np.argsort(x[:, 0])[[-1, 0]]
        y[[inside, outside]] = -9.0
        (found,) = audit(x, y, AtLeast(-2, where={"lift": (2, 4)}))
        assert found.rows == (inside,)
        assert found.tried == np.sum(x[:, 0] >= 2)

    def test_noise_of_a_difference_of_outputs_is_both_of_theirs(self) -> None:
        x = np.zeros((100, 1))
        y = np.zeros((100, 2))
        y[50] = (1.0, 1.0)
        y[3] = (0.0, 0.5)
        rule = AtLeast(0, of="a - b", name="above")
        both = prbnn.audit(x, y, [rule], noise=[0.06, 0.08], outputs=["a", "b"])
        (found,) = both
        assert found.rows == (3,)
        assert found.deviations == pytest.approx((5.0,), rel=1e-3)
        wider = prbnn.audit(x, y, [rule], noise=[0.06, 0.2], outputs=["a", "b"])
        assert wider.rows == ()

    def test_slopes_have_limits_either_side(self) -> None:
        x = np.repeat(np.linspace(0, 1, 30), 2)[:, None]
        y = 2 * x[:, 0]
        y[20] = 5.0
        steep = SlopeBetween("x", upper=2.5, name="steep")
        falls = Decreasing("x", name="falls")
        found = prbnn.audit(x, y, [steep, falls], noise=0.02)
        assert found.findings[0].rows == (20,)
        assert len(found.findings[1].rows) > 30

    def test_parts_of_a_combined_rule_are_named_one_by_one(self) -> None:
        x, y = table(0)
        y[7] = -9.0
        (found,) = audit(x, y, Combined([FLOOR, AtLeast(-20)], name="both"))
        assert found.rule == "both"
        assert found.rows == (7,)
        assert "output >= -20: no violation beyond noise in 300 rows" in found.words

    def test_both_ends(self) -> None:
        x, y = table(0)
        y[3], y[4] = 9.0, -9.0
        assert audit(x, y, Between(-1, 3)).rows == (3, 4)


@pytest.mark.light
class TestEstimators:
    def fit(self, x, y, weight=None, **options):
        return PRBNNRegressor(
            MLP((4,)), [FLOOR], tempering=0.2, steps=20, draws=20, random_state=0, **options
        ).fit(dict(zip(("lift", "cost", "idle"), x.T, strict=True)), y, sample_weight=weight)

    @pytest.mark.filterwarnings("ignore")
    def test_a_model_has_its_audit(self) -> None:
        x, y = table(0)
        y[7] = -9.0
        stated, learned = self.fit(x, y, noise=NOISE).audit_, self.fit(x, y).audit_
        assert stated.rows == learned.rows == (7,)
        assert (stated.source, stated.noise) == ("stated", (NOISE,))
        assert learned.source == "estimated"
        assert stated["floor"].deviations == pytest.approx(((9 - x[7, 1]) / NOISE,), rel=1e-3)

    @pytest.mark.filterwarnings("ignore")
    def test_rows_without_weight_are_not_asked_and_numbers_stay(self) -> None:
        x, y = table(0)
        y[[3, 7]] = -9.0
        weight = np.ones(ROWS)
        weight[3] = 0
        assert self.fit(x, y, weight, noise=NOISE).audit_.rows == (7,)

    def test_before_a_fit_there_is_none(self) -> None:
        assert not hasattr(PRBNNRegressor(), "audit_")

    @pytest.mark.filterwarnings("ignore")
    def test_labels_say_nothing_against_probabilities(self) -> None:
        x, y = table(0)
        rule = AtLeast(0.2, name="floor")
        model = PRBNNClassifier(MLP((4,)), [rule], tempering=0.2, steps=20, draws=20)
        found = model.fit(x, y > 0).audit_
        assert found["floor"].words == (
            "cannot be checked on rows: the rule is about probabilities, the rows have labels"
        )
        assert found.rows == ()
