"""Synthetic approaches: flights that could be flown, and a radar that errs as it says."""

import numpy as np
import pytest

from prbnn_studies.landing import flight_plans, synthetic
from prbnn_studies.landing.tracks import UNITS, VARIABLES, Tracks

LATITUDE, LONGITUDE, ALTITUDE, SPEED, COURSE = range(5)
OBSERVED = 35  # seconds before the last fifteen, in which no landing flares
# ground speeds (kt) before the flare: the mean of a class, and what no flight of it leaves
GROUND_SPEEDS = {
    "turboprop": (114, 90, 140),
    "regional jet": (126, 100, 152),
    "narrow-body": (132, 104, 160),
    "wide-body": (140, 112, 168),
}


@pytest.fixture(scope="module")
def tracks() -> Tracks:
    return synthetic.approaches()


def truth_of(tracks: Tracks, kind: str) -> np.ndarray:
    assert tracks.truth is not None
    return tracks.truth[tracks.kinds == kind]


def past_threshold(truth: np.ndarray) -> np.ndarray:
    """Feet along the runway."""
    west = synthetic.THRESHOLD_LONGITUDE - truth[..., LONGITUDE]
    return west * synthetic.LONGITUDE_DEGREE


def off_centreline(truth: np.ndarray) -> np.ndarray:
    north = truth[..., LATITUDE] - synthetic.THRESHOLD_LATITUDE
    return north * synthetic.LATITUDE_DEGREE


def glide_degrees(truth: np.ndarray) -> np.ndarray:
    """Of the straight line through the first seconds of each flight."""
    x, height = past_threshold(truth)[:, :OBSERVED], truth[:, :OBSERVED, ALTITUDE]
    x = x - x.mean(axis=1, keepdims=True)
    return np.degrees(np.arctan(-np.sum(x * height, axis=1) / np.sum(x**2, axis=1)))


class TestTracks:
    def test_shapes_and_names(self, tracks):
        assert tracks.values.shape == tracks.truth.shape == (7542, 50, 5)
        assert tracks.values.dtype == np.float64
        assert tracks.variables == VARIABLES == tuple(UNITS)
        assert tracks.seconds == 1
        assert len(set(tracks.names)) == 7542
        assert np.isfinite(tracks.values).all()

    def test_taking_rows_takes_them_from_every_array(self, tracks):
        rows = np.flatnonzero(tracks.kinds == "go-around")
        some = tracks.take(rows)
        assert set(some.kinds) == {"go-around"}
        np.testing.assert_array_equal(some.names, tracks.names[rows])
        np.testing.assert_array_equal(some.values, tracks.values[rows])
        np.testing.assert_array_equal(some.truth, tracks.truth[rows])

    def test_days_are_taken_too_where_known(self, tracks):
        dated = tracks._replace(days=tracks.names)
        np.testing.assert_array_equal(dated.take(slice(3, 5)).days, tracks.names[3:5])


class TestSeeds:
    def test_the_same_seed_gives_the_same_bits(self):
        one, two = synthetic.approaches(20, seed=3), synthetic.approaches(20, seed=3)
        np.testing.assert_array_equal(one.values, two.values)
        np.testing.assert_array_equal(one.truth, two.truth)
        np.testing.assert_array_equal(one.names, two.names)

    def test_another_seed_gives_other_flights(self):
        one, two = synthetic.approaches(20, seed=3), synthetic.approaches(20, seed=4)
        assert not np.isclose(one.truth[:, 0, SPEED], two.truth[:, 0, SPEED]).any()

    def test_a_flight_does_not_depend_on_how_many_there_are(self, tracks):
        few = synthetic.approaches(700)
        np.testing.assert_array_equal(few.values, tracks.values[:700])
        np.testing.assert_array_equal(few.kinds, tracks.kinds[:700])

    def test_no_flight_occurs_twice(self, tracks):
        assert len(np.unique(tracks.truth[:, 0, SPEED])) == len(tracks.truth)

    @pytest.mark.parametrize(("flights", "steps"), [(0, 50), (5, 1)])
    def test_nothing_to_fly_is_said(self, flights, steps):
        with pytest.raises(ValueError, match=f"received {flights} and {steps}"):
            synthetic.approaches(flights, steps=steps)


class TestKinds:
    def test_shares(self, tracks):
        for kind, share in (("go-around", 0.01), ("outlier", 0.01), ("landing", 0.98)):
            sd = np.sqrt(share * (1 - share) / len(tracks.kinds))
            assert np.mean(tracks.kinds == kind) == pytest.approx(share, abs=3 * sd)

    @pytest.mark.parametrize("steps", [2, 20, 50, 120])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_every_record_is_full_and_goes_west(self, seed, steps):
        tracks = synthetic.approaches(1024, seed, steps)
        metres = -np.diff(tracks.truth[..., LONGITUDE]) * 92_790
        assert metres.min() > 40
        assert metres.max() < 100

    def test_go_arounds_turn_from_descent_to_climb(self, tracks):
        truth = truth_of(tracks, "go-around")
        altitude = truth[..., ALTITUDE]
        assert (altitude[:, 20] < altitude[:, 0]).all()
        feet_per_minute = 20 * (altitude[:, -1] - altitude[:, -4])
        assert feet_per_minute.mean() == pytest.approx(2000, abs=100)
        assert feet_per_minute.min() > 1400
        assert (truth[:, -1, SPEED] > truth[:, 20, SPEED] + 5).all()
        assert altitude.min() > synthetic.FIELD_ELEVATION + 40

    def test_go_arounds_begin_at_different_moments(self, tracks):
        lowest = 49 - truth_of(tracks, "go-around")[..., ALTITUDE].argmin(axis=1)
        assert lowest.min() >= 10
        assert lowest.max() <= 25
        assert lowest.std() > 2

    def test_every_outlier_is_odd_in_one_way_and_every_way_occurs(self, tracks):
        rows = tracks.kinds == "outlier"
        truth, error = tracks.truth[rows], (tracks.values - tracks.truth)[rows]
        feet = error[:, -1, :2] * [synthetic.LATITUDE_DEGREE, synthetic.LONGITUDE_DEGREE]
        odd = np.stack(
            [
                np.linalg.norm(feet, axis=1) > 400,
                np.abs(error[..., ALTITUDE]).mean(axis=1) > 100,
                glide_degrees(truth) > 3.7,
                np.ptp(truth[:, 15:, COURSE], axis=1) > 3,
            ]
        )
        assert (odd.sum(axis=0) == 1).all()
        assert (odd.sum(axis=1) >= 5).all()


class TestLandings:
    def test_they_end_on_the_runway(self, tracks):
        end = truth_of(tracks, "landing")[:, -1]
        np.testing.assert_allclose(end[:, ALTITUDE], synthetic.FIELD_ELEVATION, atol=1)
        assert past_threshold(end).min() > 300
        assert past_threshold(end).max() < 3000  # the zone marked for touchdowns
        assert np.abs(off_centreline(end)).max() < 75  # half of its width

    def test_touchdowns_are_dispersed(self, tracks):
        assert 150 < past_threshold(truth_of(tracks, "landing")[:, -1]).std() < 450

    def test_reported_touchdowns_are_within_tens_of_feet(self, tracks):
        end = tracks.values[tracks.kinds == "landing", -1, ALTITUDE]
        assert np.abs(end - synthetic.FIELD_ELEVATION).max() <= 50

    def test_glide_angles(self, tracks):
        degrees = glide_degrees(truth_of(tracks, "landing"))
        assert degrees.mean() == pytest.approx(3, abs=0.02)
        assert 0.05 < degrees.std() < 0.15
        assert degrees.min() > 2.5
        assert degrees.max() < 3.6

    def test_altitude_falls_over_any_three_seconds(self, tracks):
        altitude = truth_of(tracks, "landing")[..., ALTITUDE]
        assert (altitude[:, 3:] < altitude[:, :-3]).all()

    def test_the_flare_takes_the_sink_rate_to_a_soft_touch(self, tracks):
        sink = -np.diff(truth_of(tracks, "landing")[..., ALTITUDE])
        assert sink[:, 20:40].mean() == pytest.approx(11.6, abs=0.5)  # 3 degrees at 131 kt
        assert 1.5 < sink[:, -1].mean() < 3
        assert sink[:, -1].min() > 0.5
        assert sink[:, -1].max() < 6
        assert np.abs(np.diff(sink)).max() < 8  # a quarter of g

    def test_pilots_of_one_class_flare_differently(self, tracks):
        """Heights in the midst of the flare; they would spread by 3.6 ft if gusts alone did it."""
        rows = np.char.endswith(tracks.names, "narrow-body") & (tracks.kinds == "landing")
        assert 4.3 < tracks.truth[rows, -5, ALTITUDE].std() < 8

    @pytest.mark.parametrize("name", GROUND_SPEEDS)
    def test_ground_speeds_of_classes(self, tracks, name):
        of_class = np.char.endswith(tracks.names, name)
        assert of_class.mean() == pytest.approx(flight_plans.CLASSES[name].fraction, abs=0.02)
        speed = tracks.truth[of_class & (tracks.kinds == "landing"), :, SPEED]
        mean, least, most = GROUND_SPEEDS[name]
        assert speed[:, :OBSERVED].mean() == pytest.approx(mean, abs=2)
        assert speed[:, :OBSERVED].min() > least
        assert speed[:, :OBSERVED].max() < most
        lost = speed[:, -8] - speed[:, -1]
        assert 1 < lost.mean() < 8

    def test_speed_and_course_are_those_of_the_positions(self, tracks):
        """Mean velocities between steps, from positions and from the reported motion."""
        truth = truth_of(tracks, "landing")
        knots = truth[..., SPEED] * np.exp(1j * np.radians(truth[..., COURSE] - 270))
        feet = past_threshold(truth) + 1j * off_centreline(truth)
        between = (knots[:, 1:] + knots[:, :-1]) / 2
        np.testing.assert_allclose(np.diff(feet) / synthetic.KNOT, between, atol=1.5)

    def test_offsets_are_corrected(self, tracks):
        offset = off_centreline(truth_of(tracks, "landing"))
        assert offset[:, 0].std() > 2 * offset[:, 30].std()
        assert 0.25 < truth_of(tracks, "landing")[:, 20:, COURSE].std() < 1

    def test_the_end_is_learnable_but_not_given(self, tracks):
        """A line from the truth of the first seconds explains much of the last speed, not all."""
        truth = truth_of(tracks, "landing")
        inputs = truth[:, :OBSERVED:2].reshape(len(truth), -1)
        inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
        inputs = np.column_stack([inputs, np.ones(len(inputs))])
        for step, variable in ((-1, SPEED), (-8, ALTITUDE)):
            target = truth[:, step, variable]
            weights = np.linalg.lstsq(inputs[:5000], target[:5000], rcond=None)[0]
            left = np.var(target[5000:] - inputs[5000:] @ weights) / np.var(target[5000:])
            assert 0.02 < left < 0.6


class TestRadar:
    def test_reports_are_rounded(self, tracks):
        for variable, step in ((ALTITUDE, 25), (SPEED, 1), (COURSE, 1)):
            values = tracks.values[..., variable]
            np.testing.assert_array_equal(values, step * np.round(values / step))
        for variable in (LATITUDE, LONGITUDE):
            values = 1e5 * tracks.values[..., variable]
            np.testing.assert_allclose(values, np.round(values), atol=1e-6)

    def test_truth_is_not_rounded(self, tracks):
        assert (tracks.truth[..., ALTITUDE] % 1 > 0.01).mean() > 0.9

    def test_errors_are_as_stated(self, tracks):
        rows = tracks.kinds != "outlier"
        error = (tracks.values - tracks.truth)[rows]
        metres = error[..., :2] * [110_922, 92_790]
        np.testing.assert_allclose(metres.std(axis=(0, 1)), 5, rtol=0.02)
        # the flight's own error, noise, and a rounding uniform over 25 ft
        altitude = np.sqrt(10**2 + 5**2 + 25**2 / 12)
        assert error[..., ALTITUDE].std() == pytest.approx(altitude, rel=0.03)
        assert 1 < error[..., SPEED].std() < 1.5
        assert 0.5 < error[..., COURSE].std() < 0.8
        assert np.abs(error.mean(axis=(0, 1)) / error.std(axis=(0, 1))).max() < 0.1

    def test_errors_of_position_are_correlated_in_time(self, tracks):
        rows = tracks.kinds != "outlier"
        error = (tracks.values - tracks.truth)[rows, :, LATITUDE]
        correlation = np.corrcoef(error[:, 1:].ravel(), error[:, :-1].ravel())[0, 1]
        assert correlation == pytest.approx(0.5, abs=0.03)

    def test_longitude_falls_in_the_reports_too(self, tracks):
        landings = tracks.values[tracks.kinds == "landing"]
        assert (np.diff(landings[..., LONGITUDE]) < 0).all()
