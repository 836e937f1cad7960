"""The simulated solar plant: physics that must hold whatever the seed, and exact row counts."""

import numpy as np
import pytest

from prbnn_studies.solar import inverter, plant, sky

SEEDS = (0, 1)


@pytest.fixture(scope="module", params=SEEDS)
def made(request):
    return plant.simulate(request.param)


def column(records, name):
    return records.inputs[:, plant.COLUMNS.index(name)]


def peak(records):
    return (records.quarter >= 40) & (records.quarter < 56)


def driven(array=1.05, inlet=40.0, blocked=1.0, allowed=1.0, minutes=300, tripped=False):
    """One day of an inverter under conditions that stay as they are."""
    full = np.full((1, minutes), 1.0)
    return inverter.run(
        array * full, inlet * full, allowed * full, blocked * full, np.full((1, minutes), tripped)
    )


class TestSky:
    @pytest.mark.parametrize("day", [121, 172, 266, 304])
    def test_noon_height_is_that_of_latitude_and_declination(self, day):
        sun = sky.sun_at(np.array([[day]]), np.arange(sky.MINUTES)[None])
        tilt = np.radians(23.45) * np.sin(2 * np.pi * (284 + day) / 365)
        assert np.arcsin(sun.up.max()) == pytest.approx(np.pi / 2 - sky.LATITUDE + tilt, abs=1e-3)
        np.testing.assert_allclose(sun.east**2 + sun.north**2 + sun.up**2, 1)

    def test_the_sun_rises_in_the_east_and_noon_is_late_this_far_west_of_the_clock(self):
        sun = sky.sun_at(np.array([[172]]), np.arange(sky.MINUTES)[None])
        noon = int(np.argmax(sun.up))
        assert 12 * 60 + 20 < noon < 12 * 60 + 35
        assert sun.east[0, noon - 300] > 0.5 > -0.5 > sun.east[0, noon + 300]

    def test_clear_beam_falls_with_the_sun_and_is_none_below_the_horizon(self):
        beam = sky.clear_beam(np.array([-0.2, 0.0, 0.1, 0.5, 1.0]))
        assert beam[0] == 0
        assert (np.diff(beam) >= 0).all()
        assert 900 < beam[-1] < 1000

    def test_clouds_take_light_away_on_average(self):
        day = np.full(200, 172)
        seen = sky.over(day, 2, np.random.default_rng(0))
        light = seen.array.mean(axis=(1, 2))
        assert np.corrcoef(light, seen.cover)[0, 1] < -0.95
        assert seen.array.max() < 1250


class TestInverter:
    def test_output_and_losses_are_one_balance(self):
        array = np.linspace(0, 1.2, 200)
        power = inverter.output(array)
        delivering = power > 0
        np.testing.assert_allclose((power + inverter.losses(power))[delivering], array[delivering])
        assert (power[array <= inverter.STANDING] == 0).all()
        assert 0.975 < power[-1] / array[-1] < 0.985

    def test_energy_taken_is_delivered_or_heat_and_never_more_than_there_is(self):
        run = driven(array=1.1, blocked=2.5)
        np.testing.assert_allclose(run.array, run.power + inverter.losses(run.power))
        assert (run.array <= 1.1 + 1e-12).all()
        assert (run.power <= run.possible + 1e-12).all()

    def test_the_stage_follows_heat_with_its_lag(self):
        run = driven(array=0.5, inlet=20.0)
        rise = run.stage[0] - 20.0
        end = inverter.HEAT_RISE * float(inverter.losses(run.power)[0, 0] / 0.020)
        assert rise[0] == 0
        assert rise[-1] == pytest.approx(end, rel=1e-3)
        assert rise[20] == pytest.approx(end * (1 - np.exp(-1)), rel=0.03)

    def test_derates_only_above_its_threshold_and_lets_go_below_the_lower_one(self):
        run = driven(array=1.1, inlet=37.0, blocked=2.2, minutes=600)
        derating, stage = run.derating[0], run.stage[0]
        starts = np.flatnonzero(~derating[:-1] & derating[1:]) + 1
        ends = np.flatnonzero(derating[:-1] & ~derating[1:]) + 1
        assert len(starts) and (stage[starts] >= inverter.DERATE).all()
        assert (stage[ends] <= inverter.DERATE_RESET).all()
        limited = inverter.plate_limit(stage[derating])
        assert (run.power[0, derating] <= limited + 1e-12).all()
        assert (run.limit[0, ~derating] == 1).all()

    def test_switches_off_above_the_higher_threshold(self):
        run = driven(array=1.1, inlet=45.0, blocked=8.0)
        assert run.off.any() and (run.power[run.off] == 0).all()
        first = int(np.argmax(run.off[0]))
        assert run.stage[0, first] >= inverter.OFF > run.stage[0, first - 1]

    def test_cool_stages_are_never_limited(self):
        run = driven(array=1.1, inlet=30.0)
        assert not (run.derating | run.off).any()
        np.testing.assert_allclose(run.power, 1.0)

    def test_a_limit_above_what_is_possible_costs_nothing(self):
        run = driven(array=0.6, inlet=80.0)
        assert run.derating[0, 1:].all()
        np.testing.assert_allclose(run.power, run.possible)

    def test_a_proof_of_the_trip_stops_it_cold(self):
        assert (driven(tripped=True).power == 0).all()

    def test_hot_modules_give_less_and_wind_cools_them(self):
        one = np.ones((1, 400))
        still, windy = (inverter.module_temperature(900 * one, 35 * one, w * one) for w in (0, 8))
        assert still[0, -1] > windy[0, -1] + 15 > 35
        cool, hot = (inverter.array_power(900 * one, t, one) for t in (windy, still))
        assert (hot[0, -1] < cool[0, -1]).all()


class TestRecords:
    def test_row_counts_are_the_papers(self, made):
        assert (len(made.train), len(made.test)) == (20_698, 6_505)
        assert len(made.records.power) == 27_203
        assert made.records.inputs.shape[1] == len(plant.COLUMNS) == 10
        assert np.isfinite(made.records.inputs).all()

    def test_days_are_whole_but_one_in_each_part(self, made):
        for rows, left in ((made.train, 58), (made.test, 73)):
            records = made.records.take(rows)
            _, counts = np.unique(records.year * 1000 + records.day, return_counts=True)
            assert sorted(set(counts)) == [left, 96]
            assert np.sum(counts == left) == 1
        assert sum(made.dropped_days.values()) + 284 == 368

    def test_the_full_grid_is_two_summers(self):
        everything = plant.everything(np.random.default_rng(0))
        assert len(everything.power) == 35_328
        assert set(everything.year) == {2019, 2020}

    def test_training_comes_first(self, made):
        stamp = made.records.year * 1000 + made.records.day
        assert stamp[made.train].max() < 2020_183 <= stamp[made.test].min()

    def test_nothing_in_the_dark_never_negative_never_far_above_the_rating(self, made):
        records = made.records
        dark = column(records, "IPOA") == 0
        assert dark.mean() > 0.3
        assert (records.power[dark] == 0).all()
        assert records.power.min() == 0
        most = inverter.RATING * (1 + plant.ERRORS_END * plant.POWER_ERROR)
        assert records.power.max() <= most + plant.POWER_ROUNDS

    def test_flags_depend_on_heat(self, made):
        records = made.records
        derate = column(records, "IGBT_derate") > 0
        assert (records.stage[derate] >= inverter.DERATE_RESET).all()
        cool = (records.stage < inverter.DERATE_RESET) & (column(records, "IGBT_off") == 0)
        assert (records.limit[cool] > 0.5).all()
        assert (records.limit[cool & (records.stage < inverter.OFF_RESET)] == 1).mean() > 0.999
        hot_off = (column(records, "IGBT_off") > 0) & derate
        assert (records.limit[hot_off] <= 0.5).all()

    def test_derating_only_lowers_power(self, made):
        records = made.records
        assert (records.delivered <= records.possible + 1e-6).all()
        idle = (records.limit == 1) & (column(records, "IGBT_off") == 0)
        np.testing.assert_allclose(records.delivered[idle], records.possible[idle])

    def test_derating_is_rare_and_harmless_in_training_and_frequent_and_dear_in_the_test(
        self, made
    ):
        train, test = (made.records.take(rows) for rows in (made.train, made.test))
        early, late = (column(part, "IGBT_derate") > 0 for part in (train, test))
        assert 0 < early.mean() < 0.015
        assert early[peak(train)].mean() < 0.001
        assert late[peak(test)].mean() > 0.5
        lost = (test.possible - test.delivered)[late & peak(test)] / inverter.RATING
        assert np.median(lost) > 0.15

    def test_an_open_feeder_and_a_curtailment_hold_power_down(self, made):
        records = made.records
        open_ = column(records, "Feeder_B") == 0
        curtailed = (column(records, "curtail_on") == 1) & ~open_
        assert open_.any() and curtailed.any()
        # the flag is that of the longer part of a quarter of an hour
        assert (records.delivered[open_] <= 0.5 * inverter.RATING).all()
        share = column(records, "curtail_utility") / plant.FULL
        held = records.delivered <= share * inverter.RATING + 1
        assert held[curtailed].mean() > 0.85

    def test_the_plant_carries_on_without_one_inverter(self, made):
        test = made.records.take(made.test)
        derate = (column(test, "IGBT_derate") > 0) & peak(test)
        others = column(test, "P_watts") - test.delivered / 1e6
        share = test.delivered[derate] / 1e6 / (others[derate] / 19)
        assert np.median(share) < 0.9


class TestSeeds:
    def test_the_same_seed_gives_the_same_bits(self):
        one, two = plant.simulate(5), plant.simulate(5)
        for left, right in zip(one.records, two.records, strict=True):
            np.testing.assert_array_equal(left, right)

    def test_another_seed_gives_other_weather_and_other_gaps(self):
        one, two = plant.simulate(5), plant.simulate(6)
        assert not np.array_equal(one.records.day, two.records.day)
        whole = [plant.everything(np.random.default_rng([s, 0])) for s in (5, 6)]
        assert np.corrcoef(whole[0].power, whole[1].power)[0, 1] < 0.99
