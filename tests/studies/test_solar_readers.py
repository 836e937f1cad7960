"""Readers of recorded plants: small files made by hand, sound and broken, then the public data."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from prbnn.errors import DataError
from prbnn_studies.solar import plants

DATA = Path(__file__).parents[3] / "shared" / "data"
with_pvops = pytest.mark.skipif(
    not (DATA / plants.PVOPS).is_dir(), reason="pvops' example is not at hand"
)
with_india = pytest.mark.skipif(
    not (DATA / plants.INDIA).is_dir(), reason="the Indian plants are not at hand"
)
HEADER = [
    "date",
    "randid",
    "generated_kW",
    "expected_kW",
    "irrad_poa_Wm2",
    "temp_amb_C",
    "wind_speed_ms",
    "temp_mod_C",
]


def hourly(rows=60, site="R10"):
    return [
        [f"2018-04-{1 + k // 12:02d} {7 + k % 12:02d}:00:00", site, 100 + k, 0, 5 * k, 20, 3, 30]
        for k in range(rows)
    ]


def write_pvops(folder, rows, header=HEADER, zipped=True):
    folder.mkdir(exist_ok=True)
    name = folder / (plants.PVOPS_FILE + (".gz" if zipped else ""))
    with gzip.open(name, "wt", newline="") if zipped else name.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return folder


def write_india(folder, stamps, inverters=22, weather=None, number=1):
    folder.mkdir(exist_ok=True)
    output = [["DATE_TIME", "PLANT_ID", "SOURCE_KEY", "DC_POWER", "AC_POWER"]]
    output += [[stamp, 1, f"key{k}", 10.0, 100.0 + k] for stamp in stamps for k in range(inverters)]
    sensor = [["DATE_TIME", "PLANT_ID", *plants.INDIA_COLUMNS.values()]]
    sensor += [[stamp, 1, 0.5, 30, 45] for stamp in (weather or stamps)]
    for name, table in (("Generation_Data", output), ("Weather_Sensor_Data", sensor)):
        with (folder / f"Plant_{number}_{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(table)
    return folder


def quarters(count=60, form="{day:02d}-05-2020 {hour:02d}:{minute:02d}"):
    return [
        form.format(day=15 + k // 96, hour=k % 96 // 4, minute=15 * (k % 4)) for k in range(count)
    ]


class TestPvops:
    @pytest.mark.parametrize("zipped", [True, False])
    def test_sites_are_apart_and_in_order_of_time(self, tmp_path, zipped):
        rows = hourly(site="R15") + hourly()[::-1]
        sites = plants.pvops(write_pvops(tmp_path, rows, zipped=zipped))
        assert [site.name for site in sites] == ["pvops R10", "pvops R15"]
        for site in sites:
            np.testing.assert_array_equal(site.power, 100 + np.arange(60))
            np.testing.assert_array_equal(site.inputs["irradiance"], 5 * np.arange(60))
            assert (site.minute[:2].tolist(), site.day[-1]) == ([420, 480], 4)
            assert site.inputs["hour"][1] == 8
            assert site.dropped == {}

    def test_what_is_left_out_is_counted(self, tmp_path):
        rows = hourly(64)
        rows[3][5] = ""
        rows[5][2] = -4
        rows[9][0] = rows[8][0]
        (site,) = plants.pvops(write_pvops(tmp_path, rows))
        assert site.dropped == {plants.MISSING: 1, plants.NEGATIVE: 1, plants.REPEATED: 1}
        assert len(site.power) == 61

    def test_a_missing_column_is_named_with_its_file(self, tmp_path):
        header = ["wind" if name == "wind_speed_ms" else name for name in HEADER]
        with pytest.raises(
            DataError, match=rf"{plants.PVOPS_FILE}.gz has no column 'wind_speed_ms'"
        ):
            plants.pvops(write_pvops(tmp_path, hourly(), header))

    @pytest.mark.parametrize(
        ("place", "entry", "told"),
        [
            (4, "bright", "line 4: column 'irrad_poa_Wm2' holds 'bright', not a number"),
            (0, "noon", "line 4: column 'date' holds 'noon', not a time"),
        ],
    )
    def test_an_entry_that_cannot_be_read_is_named(self, tmp_path, place, entry, told):
        rows = hourly()
        rows[2][place] = entry
        with pytest.raises(DataError, match=told):
            plants.pvops(write_pvops(tmp_path, rows))

    def test_a_short_line_is_named(self, tmp_path):
        with pytest.raises(DataError, match="line 62: 3 entries where 8 columns are named"):
            plants.pvops(write_pvops(tmp_path, [*hourly(), [1, 2, 3]]))

    def test_too_few_rows_are_told(self, tmp_path):
        with pytest.raises(DataError, match="pvops R10 has 9 sound rows; at least 50"):
            plants.pvops(write_pvops(tmp_path, hourly(9)))

    def test_an_empty_and_a_torn_file_are_told(self, tmp_path):
        path = tmp_path / (plants.PVOPS_FILE + ".gz")
        path.write_bytes(gzip.compress(b""))
        with pytest.raises(DataError, match="its columns are none"):
            plants.pvops(tmp_path)
        path.write_bytes(gzip.compress(b"date,randid\n" * 900)[:40])
        with pytest.raises(DataError, match="cannot be read"):
            plants.pvops(tmp_path)


class TestIndia:
    @pytest.mark.parametrize(
        "form",
        [
            "{day:02d}-05-2020 {hour:02d}:{minute:02d}",
            "2020-05-{day:02d} {hour:02d}:{minute:02d}:00",
        ],
    )
    def test_a_row_is_the_mean_of_the_inverters(self, tmp_path, form):
        stamps = quarters(form=form)
        for number in plants.INDIA_PLANTS:
            write_india(tmp_path, stamps, number=number)
        first, second = plants.india(tmp_path)
        assert (first.name, second.name) == ("india 1", "india 2")
        np.testing.assert_allclose(first.power, 110.5)
        np.testing.assert_allclose(first.inputs["irradiance"], 500)
        assert first.minute[:3].tolist() == [0, 15, 30]

    def test_gaps_are_counted(self, tmp_path):
        stamps = quarters(70)
        write_india(tmp_path, stamps, weather=stamps[:60], number=1)
        write_india(tmp_path, stamps, inverters=3, number=2)
        with pytest.raises(DataError, match="india 2 has 0 sound rows"):
            plants.india(tmp_path)
        write_india(tmp_path, stamps, number=2)
        assert plants.india(tmp_path)[0].dropped == {plants.NO_WEATHER: 10}

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(DataError, match="no Plant_1_Generation_Data.csv"):
            plants.india(tmp_path)


def test_a_folder_with_neither_is_told(tmp_path):
    with pytest.raises(DataError, match="holds neither"):
        plants.read(tmp_path)


def test_the_folder_of_one_source_will_do(tmp_path):
    folder = write_pvops(tmp_path / plants.PVOPS, hourly())
    assert len(plants.read(tmp_path)) == len(plants.read(folder)) == 1


@with_pvops
def test_pvops_as_published():
    sites = {site.name: site for site in plants.pvops(DATA / plants.PVOPS)}
    assert {name: len(site.power) for name, site in sites.items()} == {
        "pvops R10": 4378,
        "pvops R15": 4376,
    }
    assert sites["pvops R15"].dropped == {plants.MISSING: 1}
    clipped = sites["pvops R10"].power > 0.985 * sites["pvops R10"].power.max()
    assert 0.02 < clipped.mean() < 0.06


@with_india
def test_india_as_published():
    first, second = plants.india(DATA / plants.INDIA)
    for site in (first, second):
        assert site.day[-1] == 33
        assert site.power[site.inputs["irradiance"] == 0].max() < 5
        assert len(site.power) > 3000
    assert first.power.max() < 1420
