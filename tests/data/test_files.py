"""Files as people save them are read, and those that cannot be are told with a remedy."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas
import pytest

from prbnn.data.encoded_table import encode, learn_encoding
from prbnn.data.files import read_file
from prbnn.errors import DataError

TABLE = pandas.DataFrame({"sun": [1.5, -2.25, 1e-7], "name": ["a b", "ü", "c"], "power": [3, 4, 5]})


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_delimiters_decimals_and_encodings_are_found(
    tmp_path: Path, delimiter: str, decimal: str, encoding: str
) -> None:
    if delimiter == decimal:
        pytest.skip("a comma cannot be both")
    path = tmp_path / "data.csv"
    TABLE.to_csv(path, sep=delimiter, decimal=decimal, index=False, encoding=encoding)
    frame, notes = read_file(path)
    pandas.testing.assert_frame_equal(frame, TABLE, check_dtype=False)
    assert bool(notes) == ((delimiter, decimal) != (",", ".") or encoding == "cp1252")


def test_numbers_come_back_to_the_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(200, 2)) * 10.0 ** np.arange(-9, 0).repeat(2)[:2]
    path = tmp_path / "data.csv"
    pandas.DataFrame(values, columns=["a", "b"]).to_csv(path, index=False)
    assert np.allclose(read_file(path)[0].to_numpy(), values, rtol=1e-15, atol=0)


def test_text_with_delimiters_in_quotes_is_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('a;b\n"1;2";3\n"4;5";6\n')
    assert read_file(path)[0]["a"].tolist() == ["1;2", "4;5"]


def test_row_numbers_saved_with_a_table_are_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    TABLE.to_csv(path)
    frame, notes = read_file(path)
    assert list(frame.columns) == list(TABLE.columns)
    assert "without a name" in notes[0]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("data.csv", "", "is empty"),
        ("data.csv", "a,b\n", "no rows"),
        ("data.csv", "1.5,2\n3,4\n", "add a line of names at the top"),
        ("data.csv", "a,a,b\n1,2,3\n", "columns of the same name: a"),
        ("data.csv", "power\n1\n2\n", "has one column, 'power'"),
        ("data.csv", "a,b\n1,2\n3,4,5,6\n", "as many cells as there are column names"),
        ("data.csv", "PK\0\0sheet", "save it as CSV"),
        ("data.parquet", "a,b\n1,2\n", "Parquet"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=told):
        read_file(path)


def test_a_file_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "plant.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"did you mean .*plant\.csv"):
        read_file(tmp_path / "plnat.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_file(tmp_path)


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the parquet extra")
    TABLE.to_parquet(tmp_path / "data.parquet")
    pandas.testing.assert_frame_equal(read_file(tmp_path / "data.parquet")[0], TABLE)


def test_rows_longer_than_the_line_of_names_are_told(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("b,y\n1,7,1\n2,8,1\n")
    with pytest.raises(DataError, match="as many cells as there are column names"):
        read_file(path)
    path.write_text("b,y\n1,7,\n2,8,\n")
    assert read_file(path)[0]["y"].tolist() == [7, 8]


def test_a_night_of_zeros_does_not_hide_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    rows = ["0;5"] * 3000 + ["12,5;6"] * 10 + ["1.649,75;7"]
    path.write_text("power;x\n" + "\n".join(rows))
    assert read_file(path)[0]["power"].iloc[-2:].tolist() == [12.5, 1649.75]


def test_question_marks_and_dashes_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,?\n-,2\n-3,4\n")
    frame = read_file(path)[0]
    assert frame.isna().sum().tolist() == [1, 1]


HOSTILE = {
    "a cell of 131,073 characters": "x,y\n" + "a" * 131_073 + ",1\n2,3\n",
    "a number of 131,073 digits": "x,y\n" + "1" * 131_073 + ",1\n2,3\n",
    "a name of 131,073 characters": "x" * 131_073 + ",y\n1,2\n",
    "a quote that is not closed": 'x,y\n1,"2\n' + "3,4\n" * 50_000,
    "too many columns": ",".join(f"c{k}" for k in range(12_000)) + "\n" + "1," * 11_999 + "1\n",
    "columns of one name": ",".join(["c"] * 20_000) + "\n",
    "nothing": "",
    "a byte order mark alone": "\ufeff",
    "NUL": "x,y\n\0,1\n",
    "numbers for names": "9" * 9000 + ",1\n2,3\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_that_ask_for_too_much_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HOSTILE[name], encoding="utf-8")
    with pytest.raises(DataError) as told:
        read_file(path)
    assert str(path) in str(told.value)
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("digits", [20, 40, 400, 5000])
def test_whole_numbers_of_any_length_are_numbers_or_refused(tmp_path: Path, digits: int) -> None:
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "9" * digits + ",1\n2,3\n5,4\n")
    if digits < 100:
        frame, _ = read_file(path)
        assert frame["x"].dtype == float
        assert encode(learn_encoding(frame), frame).values[0, 0] == pytest.approx(10.0**digits)
        return
    # versions of pandas refuse it sooner or later
    with pytest.raises(DataError, match="column 'x'|table.csv") as told:
        frame, _ = read_file(path)
        encode(learn_encoding(frame), frame)
    assert len(str(told.value)) < 1000


def test_a_long_whole_number_leaves_gaps_and_text_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"x,y,z\n-{'9' * 20},1,{'9' * 20}\n,3,b\n5,4,7\n")
    frame, _ = read_file(path)
    assert frame["x"].to_numpy() == pytest.approx([-1e20, np.nan, 5], nan_ok=True)
    assert list(frame["z"]) == ["9" * 20, "b", "7"]


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="is a pipe or a device"):
        read_file(tmp_path / "pipe.csv")
