"""Readers of real landings: small files made by hand, sound and broken, then the public data."""

import csv
import gzip
import json
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from prbnn.errors import DataError
from prbnn_studies.landing import adsb, broadcasts, katl
from prbnn_studies.landing.tracks import miles_per_degree

DATA = Path(__file__).parents[2].parent / "shared" / "data"
with_katl = pytest.mark.skipif(
    not (DATA / "katl_asdex_sherlock").is_dir(), reason="the radar tracks are not at hand"
)
with_paris = pytest.mark.skipif(
    not (DATA / "adsb_paris_quickstart").is_dir(), reason="the broadcasts are not at hand"
)


def approach(samples=15, latitude=33.6495, knots=140.0, end=-84.406, start=0.0, agent=1):
    """Rows (time, agent, latitude, longitude) of a westbound straight line."""
    step = knots * 5 / 3600 / miles_per_degree(33.6495)[1]
    count = np.arange(samples)
    return np.column_stack(
        [
            start + 5 * count,
            np.full(samples, agent),
            np.full(samples, latitude),
            end + step * count[::-1],
        ]
    )


def write_radar(folder, *tracks, day="20190801"):
    folder.mkdir(exist_ok=True)
    with gzip.open(folder / f"true_pos_{day}.csv.gz", "wt") as file:
        np.savetxt(file, np.concatenate(tracks).T, delimiter=",")
    return folder


class TestKatl:
    def test_a_landing_keeps_its_last_steps_with_speed_and_course(self, tmp_path):
        track = approach()
        tracks = katl.read(write_radar(tmp_path, track))
        assert tracks.names.tolist() == ["2019-08-01/1"]
        assert tracks.days.tolist() == ["2019-08-01"]
        assert (tracks.seconds, tracks.variables) == (5.0, katl.VARIABLES)
        assert tracks.values.shape == (1, 10, 4)
        np.testing.assert_allclose(tracks.values[0, :, :2], track[-10:, 2:])
        np.testing.assert_allclose(tracks.values[0, :, 2], 140, rtol=1e-6)
        np.testing.assert_allclose(tracks.values[0, :, 3], 270, atol=1e-6)
        assert tracks.dropped == {} and tracks.notes == ()

    def test_the_folder_may_hold_the_folder_of_the_source(self, tmp_path):
        write_radar(tmp_path / katl.FOLDER, approach())
        assert len(katl.read(tmp_path).names) == 1

    def test_every_agent_left_out_is_named_with_its_reason(self, tmp_path):
        gap = np.delete(approach(agent=2), 10, axis=0)
        departure = approach(agent=4, end=-84.5)[4:]
        departure[0, 2:] = 33.6468, -84.43
        eastbound = approach(agent=6)
        eastbound[:, 3] = -84.42 - 0.005 * np.arange(15)[::-1]
        folder = write_radar(
            tmp_path,
            approach(agent=1),
            gap,
            approach(samples=10, agent=3),
            departure,
            approach(agent=5, latitude=33.6468),
            eastbound,
            approach(agent=7, latitude=33.73),
            approach(agent=8, knots=70.0),
            approach(agent=9, end=-84.37),
        )
        tracks = katl.read(folder)
        assert tracks.names.tolist() == ["2019-08-01/1"]
        assert {
            reason: [name[-1] for name in names] for reason, names in tracks.dropped.items()
        } == {
            katl.IMPLAUSIBLE: ["8"],
            katl.GAP: ["2"],
            katl.SHORT: ["3"],
            katl.OTHER: ["5", "6"],
            katl.DEPARTS: ["4"],
            katl.PASSES: ["7", "9"],
        }

    def test_a_jump_of_the_radar_is_left_out(self, tmp_path):
        jump = approach(agent=2)
        jump[9, 3] += 0.004
        tracks = katl.read(write_radar(tmp_path, approach(), jump))
        assert tracks.dropped == {katl.IMPLAUSIBLE: ["2019-08-01/2"]}

    def test_a_go_around_is_no_landing_but_the_landing_after_it_is(self, tmp_path):
        first, second = approach(), approach(start=600.0)
        second[:, 2] += 1e-5
        away = np.column_stack(
            [80 + 5.0 * np.arange(6), np.ones(6), 33.65 + 0.01 * np.arange(6), np.full(6, -84.42)]
        )
        tracks = katl.read(write_radar(tmp_path, first, away, second))
        np.testing.assert_allclose(tracks.values[0, :, 0], 33.64951)
        with pytest.raises(DataError, match=f"Of 1 agents: {katl.PASSES}: 1"):
            katl.read(write_radar(tmp_path, first, away))

    def test_of_two_landings_in_a_day_the_last_is_kept(self, tmp_path):
        second = approach(start=9000.0, knots=120.0)
        tracks = katl.read(write_radar(tmp_path, approach(), second))
        np.testing.assert_allclose(tracks.values[:, :, 2], 120, rtol=1e-6)

    def test_unsorted_and_repeated_times_are_mended_and_counted(self, tmp_path):
        track = approach()
        shuffled = np.concatenate([track[::-1], track[3:5]])
        tracks = katl.read(write_radar(tmp_path, shuffled))
        np.testing.assert_allclose(tracks.values[0, :, :2], track[-10:, 2:])
        assert tracks.notes == (
            "times out of order, sorted: 1 agents",
            "repeated times, the first kept: 2 rows left out",
        )

    def test_an_empty_runway_says_how_many_and_why(self, tmp_path):
        folder = write_radar(tmp_path, approach(latitude=33.6318), approach(samples=5, agent=2))
        with pytest.raises(DataError) as error:
            katl.read(folder)
        assert "Of 2 agents" in str(error.value)
        assert f"{katl.OTHER}: 1 (2019-08-01/1)" in str(error.value)
        assert f"{katl.SHORT}: 1 (2019-08-01/2)" in str(error.value)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is empty"),
            (b"0,5\n1,1\n33.6,33.6\n", "has 3 lines; needed: four lines .* longitude"),
            (b"0,5\n1,1\n33.6,33.6\n-84.4\n", "cannot be read"),
            (b"0,5\n1,1\n33.6,high\n-84.4,-84.4\n", "cannot be read: .*high"),
            (b"0,5\n1,1\n33.6,nan\n-84.4,-84.4\n", "the line of latitude has entries"),
        ],
    )
    def test_broken_files(self, tmp_path, content, message):
        (tmp_path / "true_pos_20190801.csv").write_bytes(content)
        with pytest.raises(DataError, match=message):
            katl.read(tmp_path)

    @pytest.mark.parametrize("keep", [30, -8])
    def test_a_damaged_archive(self, tmp_path, keep):
        file = write_radar(tmp_path, approach()) / "true_pos_20190801.csv.gz"
        file.write_bytes(file.read_bytes()[:keep])
        with pytest.raises(DataError, match="cannot be read"):
            katl.read(tmp_path)

    def test_no_files(self, tmp_path):
        with pytest.raises(DataError, match="no true_pos_.*para-atm-collection"):
            katl.read(tmp_path)

    @with_katl
    def test_the_week_of_august_2019(self):
        tracks = katl.read(DATA)
        days, counts = np.unique(tracks.days, return_counts=True)
        assert dict(zip(days.tolist(), counts.tolist(), strict=True)) == {
            "2019-08-01": 223,
            "2019-08-04": 227,
            "2019-08-05": 246,
            "2019-08-06": 305,
            "2019-08-07": 288,
        }
        assert len(tracks.names) + sum(map(len, tracks.dropped.values())) == 7027
        assert len(set(tracks.names)) == len(tracks.names)
        latitude, longitude, speed, course = np.moveaxis(tracks.values, -1, 0)
        assert abs(np.median(latitude[:, -1]) - katl.THRESHOLD_LATITUDE) < 1e-4
        assert latitude.std(axis=0)[-1] < 5e-5  # all on one line: no second runway among them
        assert (np.diff(longitude, axis=1) < 0).all()
        assert abs(course - 270).max() < 15
        assert 130 < np.median(speed) < 160


def landing(name="AFR1", seconds=80, origin=(48.9, 2.5), course=265.0, knots=140.0, ground=-100.0):
    """Messages, one a second, of a three-degree glide to the ground."""
    before = np.arange(seconds)[::-1]
    miles = knots / 3600 * before
    north, east = np.cos(np.radians(course)), np.sin(np.radians(course))
    per_latitude, per_longitude = miles_per_degree(origin[0])
    return [
        {
            "timestamp": 1_600_000_000 + int(second),
            "icao24": f"id{name.lower()}",
            "callsign": name,
            "latitude": origin[0] - gone * north / per_latitude,
            "longitude": origin[1] - gone * east / per_longitude,
            "altitude": ground + 318 * gone,
            "groundspeed": knots,
            "track": course,
            "onground": False,
        }
        for second, gone in zip(range(seconds), miles, strict=True)
    ]


def renamed(messages, **names):
    return [{names.get(key, key): value for key, value in row.items()} for row in messages]


def write(folder, messages, name="table.csv"):
    file = folder / name
    if name.endswith(".csv"):
        with file.open("w", newline="") as lines:
            writer = csv.DictWriter(lines, messages[0])
            writer.writeheader()
            writer.writerows(messages)
    elif name.endswith(".gz"):
        file.write_bytes(gzip.compress(json.dumps(messages).encode()))
    else:
        file.write_text(json.dumps(messages))
    return file


@pytest.fixture
def far_from_greenwich(monkeypatch):
    with monkeypatch.context() as context:
        context.setenv("TZ", "FAR+13")
        time.tzset()
        yield
    time.tzset()


class TestAdsb:
    @pytest.mark.parametrize("name", ["table.csv", "table.json", "table.json.gz"])
    def test_a_landing_in_every_format(self, tmp_path, name):
        messages = landing()
        tracks = adsb.read(write(tmp_path, messages, name))
        assert tracks.names.tolist() == ["AFR1-idafr1"]
        assert tracks.values.shape == (1, 50, 5)
        assert (tracks.days.tolist(), tracks.notes) == (["2020-09-13"], ())
        # the roll is cut where altitude is level with its end: 25 ft are two seconds here
        last = messages[-3]
        np.testing.assert_allclose(
            tracks.values[0, -1],
            [last[key] for key in ("latitude", "longitude", "altitude", "groundspeed", "track")],
        )

    def test_a_folder_with_one_table(self, tmp_path):
        write(tmp_path, landing())
        assert len(adsb.read(tmp_path).names) == 1
        write(tmp_path, landing(), "second.json")
        with pytest.raises(DataError, match="2 tables in"):
            adsb.read(tmp_path)

    def test_a_roll_and_taxi_are_cut_with_and_without_their_flag(self, tmp_path):
        messages = landing()
        airborne = adsb.read(write(tmp_path, messages)).values
        for second in range(1, 60):
            speed = max(140.0 - 4 * second, 10.0)
            roll = dict(messages[-1]) | {"onground": speed < 100, "groundspeed": speed}
            roll["timestamp"] += second
            roll["longitude"] -= second * 1e-4
            roll["altitude"] -= 60.0 if speed < 60 else 0.0  # aprons are not level with runways
            messages.append(roll)
        np.testing.assert_allclose(adsb.read(write(tmp_path, messages)).values, airborne)
        for row in messages:
            del row["onground"]
        np.testing.assert_allclose(adsb.read(write(tmp_path, messages)).values, airborne)

    def test_of_two_landings_of_a_flight_the_last_is_kept(self, tmp_path):
        second = [row | {"timestamp": row["timestamp"] + 900} for row in landing(knots=120.0)]
        tracks = adsb.read(write(tmp_path, landing() + second))
        assert (tracks.values[:, :, 3] == 120).all()

    def test_names_and_units_of_opensky(self, tmp_path):
        expected = adsb.read(write(tmp_path, landing())).values
        messages = renamed(
            landing(),
            timestamp="time",
            latitude="lat",
            longitude="lon",
            altitude="baroaltitude",
            groundspeed="velocity",
            track="heading",
        )
        for row in messages:
            row["baroaltitude"] *= 0.3048
            row["velocity"] *= 1852 / 3600
        tracks = adsb.read(write(tmp_path, messages))
        np.testing.assert_allclose(tracks.values, expected)
        assert tracks.notes == ("m and m/s turned into ft and kt: baroaltitude, velocity",)

    @pytest.mark.parametrize(
        "stamp",
        [
            lambda second: second * 1000,
            lambda second: second * 10**9,
            lambda second: f"{np.datetime64(second, 's')}",
            lambda second: f"{np.datetime64(second, 's')}Z",
        ],
    )
    def test_stamps_of_time(self, tmp_path, stamp, far_from_greenwich):
        expected = adsb.read(write(tmp_path, landing()))
        messages = [row | {"timestamp": stamp(row["timestamp"])} for row in landing()]
        tracks = adsb.read(write(tmp_path, messages))
        np.testing.assert_allclose(tracks.values, expected.values)
        assert tracks.days.tolist() == expected.days.tolist()

    def test_short_gaps_are_bridged_and_long_ones_named(self, tmp_path):
        whole = landing("AFR1", course=359.9)
        short, long = landing("AFR2", course=359.9), landing("AFR3")
        del short[50:54], long[50:55]
        tracks = adsb.read(write(tmp_path, whole + short + long))
        assert tracks.names.tolist() == ["AFR1-idafr1", "AFR2-idafr2"]
        np.testing.assert_allclose(tracks.values[0], tracks.values[1], rtol=1e-7)
        assert tracks.dropped == {adsb.GAP: ["AFR3-idafr3"]}

    def test_repeated_positions_are_a_gap(self, tmp_path):
        frozen = landing("AFR2")
        for row in frozen[51:60]:
            row |= {"latitude": frozen[50]["latitude"], "longitude": frozen[50]["longitude"]}
        tracks = adsb.read(write(tmp_path, landing() + frozen))
        assert tracks.dropped == {adsb.GAP: ["AFR2-idafr2"]}
        assert tracks.notes == ("repeated positions in the air, the first kept: 9 rows left out",)

    def test_course_is_bridged_across_north(self, tmp_path):
        messages = landing(course=0.0)
        for second, row in enumerate(messages):
            row["track"] = 359.0 if second < 50 else 1.0
        del messages[50]
        course = adsb.read(write(tmp_path, messages)).values[0, :, 4]
        assert (np.minimum(course, 360 - course) <= 1).all()

    def test_unsorted_and_repeated_times_are_mended_and_counted(self, tmp_path):
        messages = landing()
        expected = adsb.read(write(tmp_path, messages)).values
        tracks = adsb.read(write(tmp_path, messages[40:] + messages[:40] + messages[5:8]))
        np.testing.assert_allclose(tracks.values, expected)
        assert tracks.notes == (
            "times out of order, sorted: 1 flights",
            "repeated times, the first kept: 3 rows left out",
        )

    @pytest.mark.parametrize("factor", [0.3048, 1 / 0.3048])
    def test_metres_among_feet_are_named(self, tmp_path, factor):
        mixed = [row | {"altitude": row["altitude"] * factor} for row in landing("AFR2")]
        tracks = adsb.read(write(tmp_path, landing() + mixed))
        assert tracks.dropped == {adsb.SLOPE_UNIT: ["AFR2-idafr2"]}
        with pytest.raises(DataError, match="metres for feet"):
            adsb.read(write(tmp_path, mixed))

    def test_metres_from_the_middle_of_a_track_are_named(self, tmp_path):
        mixed = landing("AFR2", ground=400.0)
        for row in mixed[60:]:
            row["altitude"] *= 0.3048
        tracks = adsb.read(write(tmp_path, landing(ground=400.0) + mixed))
        assert tracks.dropped == {adsb.JUMPS: ["AFR2-idafr2"]}

    @pytest.mark.parametrize("factor", [1852 / 3600, 3600 / 1852])
    def test_metres_a_second_among_knots_are_named(self, tmp_path, factor):
        mixed = [row | {"groundspeed": row["groundspeed"] * factor} for row in landing("AFR2")]
        tracks = adsb.read(write(tmp_path, landing() + mixed))
        assert tracks.dropped == {adsb.SPEED_UNIT: ["AFR2-idafr2"]}

    def test_other_flights_are_named_with_their_reason(self, tmp_path):
        climbing = [row | {"altitude": 200 - row["altitude"]} for row in landing("AFR2")]
        high = [row | {"altitude": row["altitude"] + 400} for row in landing("AFR3")]
        parked = [row | {"onground": True} for row in landing("AFR6")]
        slow = landing("AFR5", knots=76.0)
        shallow = [row | {"altitude": row["altitude"] / 2} for row in landing("AFR7", knots=85.0)]
        messages = (
            landing() + climbing + high + landing("AFR4", seconds=45) + slow + parked + shallow
        )
        tracks = adsb.read(write(tmp_path, messages))
        assert tracks.names.tolist() == ["AFR1-idafr1"]
        assert tracks.dropped == {
            adsb.SPEED: ["AFR5-idafr5"],
            adsb.SHORT: ["AFR4-idafr4"],
            adsb.STAYS_UP: ["AFR2-idafr2", "AFR3-idafr3", "AFR7-idafr7"],
            adsb.GROUNDED: ["AFR6-idafr6"],
        }

    def test_an_empty_runway_says_how_many_and_why(self, tmp_path):
        level = [row | {"altitude": 5000.0} for row in landing()]
        with pytest.raises(DataError) as error:
            adsb.read(write(tmp_path, level))
        assert f"among 1 flights: {adsb.STAYS_UP}: 1 (AFR1-idafr1)" in str(error.value)
        parked = [row | {"onground": True} for row in landing()]
        with pytest.raises(DataError, match="never in the air"):
            adsb.read(write(tmp_path, parked))

    def test_missing_columns_are_told_with_those_found(self, tmp_path):
        messages = renamed(landing(), altitude="height", icao24="address")
        with pytest.raises(DataError) as error:
            adsb.read(write(tmp_path, messages))
        assert "missing columns: altitude or baroaltitude or geoaltitude; icao24" in str(
            error.value
        )
        assert "found: timestamp, address, callsign, latitude, longitude, height" in str(
            error.value
        )

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("table.csv", b"", "is empty"),
            ("table.csv", b"timestamp,icao24\n", "is empty"),
            ("table.json", b"[]", "is empty or no list of records"),
            ("table.json", b'{"time": 1, "states": []}', "no list of records"),
            ("table.json", b"[{", "cannot be read"),
            ("table.json.gz", b"no archive", "cannot be read"),
            ("table.json.gz", gzip.compress(b"[]" * 500, mtime=0)[:-12], "cannot be read"),
            ("table.csv", b"\xff\xfe\xfa", "cannot be read"),
        ],
    )
    def test_broken_files(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            adsb.read(tmp_path / name)

    def test_words_for_numbers_name_their_column(self, tmp_path):
        messages = landing()
        messages[3]["altitude"] = "ground"
        with pytest.raises(DataError, match="column 'altitude' .*ground"):
            adsb.read(write(tmp_path, messages))

    def test_a_table_without_any_time(self, tmp_path):
        with pytest.raises(DataError, match="never in the air"):
            adsb.read(write(tmp_path, [row | {"timestamp": ""} for row in landing()]))

    def test_parquet_without_its_reader(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (tmp_path / "table.parquet").write_bytes(b"PAR1")
        with pytest.raises(DataError, match="parquet needs pyarrow"):
            adsb.read(tmp_path)

    def test_parquet_by_its_reader(self, tmp_path, monkeypatch):
        messages = landing()
        columns = {name: [row[name] for row in messages] for name in messages[0]}
        table = types.SimpleNamespace(to_pydict=lambda: columns)
        package, reader = types.ModuleType("pyarrow"), types.ModuleType("pyarrow.parquet")
        monkeypatch.setattr(reader, "read_table", lambda file: table, raising=False)
        monkeypatch.setattr(package, "parquet", reader, raising=False)
        monkeypatch.setitem(sys.modules, "pyarrow", package)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", reader)
        (tmp_path / "table.parquet").touch()
        assert len(adsb.read(tmp_path).names) == 1
        columns.update({name: [] for name in columns})
        with pytest.raises(DataError, match="no rows"):
            adsb.read(tmp_path)

    @with_paris
    def test_an_afternoon_over_paris(self):
        tracks = adsb.read(DATA)
        dropped = {reason: len(names) for reason, names in tracks.dropped.items()}
        assert len(tracks.names) == 57
        assert dropped == {
            adsb.SPEED: 2,
            adsb.JUMPS: 3,
            adsb.GAP: 33,
            adsb.STAYS_UP: 138,
            adsb.GROUNDED: 3,
        }
        assert set(tracks.days.tolist()) == {"2021-10-07"}
        latitude, _, altitude, speed, _ = np.moveaxis(tracks.values, -1, 0)
        assert ((latitude > 48.7) & (latitude < 49.03)).all()
        assert (altitude[:, 0] - altitude[:, -1] >= 200).all()
        assert altitude[:, -1].max() <= 325
        assert speed.min() >= 80 and speed.max() <= 200


class TestAligned:
    def read(self, folder):
        east = landing("AFR2", course=85.0, origin=(49.0, 2.4))
        return adsb.read(write(folder, landing() + east))

    def test_straight_landings_on_different_runways_coincide(self, tmp_path):
        tracks = adsb.aligned(self.read(tmp_path), 35)
        assert tracks.variables == ("along", "across", "altitude", "speed", "course")
        assert set(tracks.variables) <= set(adsb.ALIGNED_UNITS)
        along, across, _, _, turn = np.moveaxis(tracks.values, -1, 0)
        np.testing.assert_allclose(along[:, 34], 0, atol=1e-12)
        expected = 140 / 3600 * (np.arange(50) - 34)
        np.testing.assert_allclose(along, np.stack([expected, expected]), atol=1e-3)
        np.testing.assert_allclose(across, 0, atol=1e-3)
        np.testing.assert_allclose(turn, 0, atol=1e-9)

    def test_right_is_positive(self, tmp_path):
        tracks = self.read(tmp_path)
        right_of_west = tracks.values[:1].copy()
        right_of_west[0, -1, 0] += 0.01
        moved = adsb.aligned(tracks.take([0])._replace(values=right_of_west), 35)
        assert moved.values[0, -1, 1] > 0.5

    def test_no_step_after_the_last_observed_is_used(self, tmp_path):
        tracks = self.read(tmp_path)
        changed = tracks.values.copy()
        changed[:, 35:] += 1.0
        after = adsb.aligned(tracks._replace(values=changed), 35).values
        np.testing.assert_array_equal(after[:, :35], adsb.aligned(tracks, 35).values[:, :35])

    @pytest.mark.parametrize("observed", [0, 51])
    def test_the_last_observed_step_is_one_of_the_steps(self, tmp_path, observed):
        with pytest.raises(DataError, match="from 1 to 50"):
            adsb.aligned(self.read(tmp_path), observed)

    def test_truth_turns_with_what_was_reported(self, tmp_path):
        tracks = self.read(tmp_path)
        turned = adsb.aligned(tracks._replace(truth=tracks.values.copy()), 35)
        np.testing.assert_array_equal(turned.truth, turned.values)


def test_every_meaning_has_a_column_of_the_tracks():
    assert tuple(broadcasts.NAMES)[1:] == adsb.VARIABLES
