"""Columns of every kind become numbers the same way twice; missing values are never overlooked."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pandas
import pytest

from prbnn.data.encoded_table import encode, input_columns, learn_encoding
from prbnn.data.encoding import Encoding
from prbnn.errors import DataError

TABLE = pandas.DataFrame(
    {
        "sun": [1.0, 2.0, 3.0, 4.0],
        "on": [True, False, True, True],
        "open": ["yes", "No", "yes", "No"],
        "site": ["north", "south", "north", "west"],
        "when": ["2026-05-01 06:30", "2026-05-02 12:00", "2026-05-02 18:00", "2026-06-01 00:00"],
        "rating": [5, 5, 5, 5],
        "note": ["only", "only", "only", "only"],
    }
)


def numbers(frame: pandas.DataFrame, encoding: Encoding) -> dict[str, list[float]]:
    found = encode(encoding, frame)
    return dict(zip(found.names, found.values.T.tolist(), strict=True))


def test_every_kind_of_column() -> None:
    assert numbers(TABLE, learn_encoding(TABLE)) == {
        "sun": [1, 2, 3, 4],
        "on": [1, 0, 1, 1],
        "open": [1, 0, 1, 0],
        "site=north": [1, 0, 1, 0],
        "site=south": [0, 1, 0, 0],
        "site=west": [0, 0, 0, 1],
        "when_hour": [6.5, 12, 18, 0],
        "when_day_of_year": [121, 122, 122, 152],
        "rating": [5, 5, 5, 5],
    }


def test_what_was_done_is_said() -> None:
    notes = "\n".join(learn_encoding(TABLE).notes())
    assert "open: yes is 1, No is 0" in notes
    assert "site: one 0/1 column each for north, south, west" in notes
    assert "when: a date, as when_hour and when_day_of_year" in notes
    assert "note: left out, every row is 'only'" in notes
    assert "sun" not in notes


def test_the_encoding_survives_json_and_works_on_other_rows() -> None:
    encoding = learn_encoding(TABLE)
    again = Encoding.from_plain(json.loads(json.dumps(encoding.to_plain())))
    assert again == encoding
    one = TABLE.iloc[[3]]
    assert numbers(one, again)["site=west"] == [1.0]
    assert numbers(one, again)["when_day_of_year"] == [152.0]


def test_a_category_never_seen_is_told() -> None:
    other = TABLE.assign(site="east")
    with pytest.raises(DataError, match="column 'site' has 'east', which the fit has not seen"):
        encode(learn_encoding(TABLE), other)


def test_a_column_that_is_not_there_is_told() -> None:
    other = TABLE.rename(columns={"sun": "snu"})
    with pytest.raises(DataError, match="'sun'; did you mean 'snu'"):
        encode(learn_encoding(TABLE), other)
    # what was left out need not be there
    assert encode(learn_encoding(TABLE), TABLE.drop(columns="note")).values.shape == (4, 9)


def test_text_among_numbers_is_told_with_its_row() -> None:
    mixed = pandas.DataFrame({"sun": ["1", "2", "n/a?", "4"], "b": [1, 2, 3, 4]})
    with pytest.raises(DataError, match=r"column 'sun' holds numbers, and text in 1 row.*row 3"):
        learn_encoding(mixed)
    fine = mixed.assign(sun=[1.0, 2, 3, 4])
    with pytest.raises(DataError, match=r"text in 1 row.*'n/a\?' in row 3"):
        encode(learn_encoding(fine), mixed)


def test_many_texts_are_names_and_are_left_out() -> None:
    frame = pandas.DataFrame({"id": [f"row {k}" for k in range(30)], "x": range(30)})
    assert "30 different texts are names" in str(learn_encoding(frame).columns[0])
    with pytest.raises(DataError, match="no input column is left"):
        learn_encoding(frame[["id"]])


HOLES = TABLE.assign(
    sun=[1.0, np.nan, 3.0, 9.0],
    site=["north", "south", None, "north"],
    open=["yes", "yes", "No", None],
)


def test_missing_values_are_counted_by_column() -> None:
    with pytest.raises(
        DataError, match=r"'sun': 1, 'open': 1, 'site': 1 of 4 rows.*--missing drop"
    ):
        encode(learn_encoding(HOLES), HOLES)


def test_rows_with_missing_values_can_be_dropped() -> None:
    found = encode(learn_encoding(HOLES, "drop"), HOLES)
    assert found.rows.tolist() == [0]
    assert "3 of 4 rows with missing values dropped" in found.notes


def test_missing_values_can_be_filled_as_the_fit_learned() -> None:
    encoding = learn_encoding(HOLES, "impute")
    filled = numbers(HOLES, encoding)
    assert filled["sun"] == [1, 3, 3, 9]
    assert filled["site=north"] == [1, 0, 1, 1]
    assert filled["open"] == [1, 1, 0, 1]
    # not the new table's middle, but the fit's
    assert numbers(HOLES.iloc[[1]], encoding)["sun"] == [3]
    again = Encoding.from_plain(json.loads(json.dumps(encoding.to_plain())))
    assert numbers(HOLES, again) == filled


def test_a_missing_date_cannot_be_made_up() -> None:
    frame = TABLE.assign(when=[None, *TABLE["when"][1:]])
    with pytest.raises(DataError, match="column 'when' has 1 missing value.*a date"):
        encode(learn_encoding(frame, "impute"), frame)


def test_infinite_numbers_are_refused() -> None:
    frame = TABLE.assign(sun=[1, np.inf, 2, 3])
    with pytest.raises(DataError, match="column 'sun' has 1 infinite"):
        encode(learn_encoding(frame), frame)


def test_inputs_are_chosen_by_name() -> None:
    assert list(input_columns(TABLE, "rating", (), ("note", "on")).columns) == [
        "sun",
        "open",
        "site",
        "when",
    ]
    assert list(input_columns(TABLE, "rating", ("site", "sun")).columns) == ["site", "sun"]
    with pytest.raises(DataError, match="no column 'snu'; did you mean 'sun'"):
        input_columns(TABLE, "rating", ("snu",))
    with pytest.raises(DataError, match="'rating' is the target"):
        input_columns(TABLE, "rating", ("rating",))


def dated(*texts: str) -> pandas.DataFrame:
    return pandas.DataFrame({"when": texts, "x": range(len(texts))})


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (("13/01/2025", "03/05/2025"), [13, 123]),
        (("01/13/2025", "05/03/2025"), [13, 123]),
        (("13.01.2025 08:30", "03.05.2025 09:00"), [13, 123]),
        (("2025-01-13T08:30:00+01:00", "2025-05-03T08:30:00+02:00"), [13, 123]),
    ],
)
def test_dates_are_read_the_way_the_whole_column_is_written(
    texts: tuple[str, ...], days: list[float]
) -> None:
    encoding = learn_encoding(dated(*texts))
    assert numbers(dated(*texts), encoding)["when_day_of_year"] == days
    # one row alone could be read either way; the fit has settled it
    assert numbers(dated(texts[1]), encoding)["when_day_of_year"] == days[1:]


def test_dates_that_could_be_read_either_way_are_told() -> None:
    with pytest.raises(DataError, match="the day or the month may come first"):
        learn_encoding(dated("03/05/2025", "04/06/2025"))
    encoding = learn_encoding(dated("2025-01-13", "2025-02-01"))
    with pytest.raises(DataError, match="'13.02.2025', which does not match the date format"):
        encode(encoding, dated("13.02.2025"))


def test_ranges_are_categories_and_clock_times_are_hours() -> None:
    frame = pandas.DataFrame(
        {"bin": ["1-5", "6-10", "11-20"], "clock": ["08:30", "09:00", "10:15"]}
    )
    assert learn_encoding(frame).inputs == ("bin=1-5", "bin=11-20", "bin=6-10", "clock_hour")
    assert numbers(frame, learn_encoding(frame))["clock_hour"] == [8.5, 9.0, 10.25]


def test_numbers_that_cannot_be_read_are_told_and_not_left_out() -> None:
    frame = pandas.DataFrame({"share": [f"{k},5 %" for k in range(30)], "x": range(30)})
    with pytest.raises(DataError, match="'share' looks like numbers that cannot be read"):
        learn_encoding(frame)


def test_what_fills_holes_comes_from_training_rows_alone() -> None:
    frame = pandas.DataFrame({"sun": [1.0, 2.0, 3.0, 900.0, np.nan]})
    train = np.array([True, True, True, False, False])
    assert numbers(frame, learn_encoding(frame, "impute", train))["sun"][-1] == 2.0


def test_how_missing_values_are_treated_can_be_chosen_anew() -> None:
    encoding = learn_encoding(TABLE)
    assert encode(encoding, HOLES, missing="impute").values.shape == (4, 9)
    assert encode(encoding, HOLES, missing="drop").rows.tolist() == [0]


def _column_at_fault(call: Callable[[], object]) -> str | None:
    with pytest.raises(DataError) as caught:
        call()
    return caught.value.column


def test_errors_carry_the_column_at_fault() -> None:
    text = pandas.DataFrame({"sun": ["1", "2", "3", "calm"], "wind": [1.0, 2.0, 3.0, 4.0]})
    fitted = learn_encoding(pandas.DataFrame({"sun": [1.0, 2.0], "wind": [1.0, 2.0]}))
    holes = pandas.DataFrame({"sun": [1.0, None], "wind": [1.0, 2.0]})
    assert _column_at_fault(lambda: learn_encoding(text)) == "sun"
    assert _column_at_fault(lambda: encode(fitted, text)) == "sun"
    assert _column_at_fault(lambda: encode(fitted, text[["wind"]])) == "sun"
    assert _column_at_fault(lambda: encode(fitted, holes)) == "sun"
    assert _column_at_fault(lambda: encode(fitted, holes.assign(wind=None))) is None
    assert _column_at_fault(lambda: input_columns(text, "power")) == "power"
    assert _column_at_fault(lambda: fitted.categories(["sunn"])) == "sunn"
