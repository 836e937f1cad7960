"""Tables at the edge: the same numbers whatever the library, and errors that name the column."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pytest
from scipy import sparse

from prbnn.data.frames import check_lengths, check_rows, read_inputs, read_targets, read_weights
from prbnn.errors import DataError

NUMBERS = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
NAMES = ("dose", "wind speed")


def as_pandas(values: np.ndarray = NUMBERS, names=NAMES) -> pandas.DataFrame:
    return pandas.DataFrame(values, columns=list(names))


def as_polars(values: np.ndarray = NUMBERS, names=NAMES) -> polars.DataFrame:
    return polars.DataFrame(values, schema=list(names))


def as_dict(values: np.ndarray = NUMBERS, names=NAMES) -> dict:
    return dict(zip(names, values.T, strict=True))


@pytest.mark.parametrize(
    "table", [as_pandas(), as_polars(), as_dict()], ids=["pandas", "polars", "dict"]
)
def test_a_frame_gives_its_numbers_and_names(table) -> None:
    values, names = read_inputs(table)
    assert values.dtype == np.float64
    assert np.array_equal(values, NUMBERS)
    assert names == NAMES


@pytest.mark.parametrize(
    "table",
    [NUMBERS, NUMBERS.tolist(), NUMBERS.astype(np.float32), NUMBERS.astype(object)],
    ids=["float64", "lists", "float32", "objects that are numbers"],
)
def test_a_bare_table_gets_numbered_names(table) -> None:
    values, names = read_inputs(table)
    assert values.dtype == np.float64
    assert np.array_equal(values, NUMBERS)
    assert names == ("x0", "x1")


def test_a_bare_column_is_called_x() -> None:
    assert read_inputs(NUMBERS[:, :1])[1] == ("x",)


def test_given_names_replace_found_ones() -> None:
    assert read_inputs(as_pandas(), ["a", "b"])[1] == ("a", "b")
    assert read_inputs(NUMBERS[:, 0], ["a"])[0].shape == (3, 1)


@pytest.mark.parametrize(
    "column",
    [
        pandas.array([1, 2, 3], dtype="Int64"),
        np.array([1, 2, 3], dtype=np.int8),
        np.array([1, 2, 3], dtype=np.uint16),
        np.array([1, 2, 3], dtype=np.float32),
    ],
    ids=["nullable", "int8", "uint16", "float32"],
)
def test_every_kind_of_number_is_read_as_float64(column) -> None:
    values, _ = read_inputs(pandas.DataFrame({"dose": column}))
    assert values.dtype == np.float64
    assert values.ravel().tolist() == [1.0, 2.0, 3.0]


def test_true_and_false_are_one_and_zero() -> None:
    flags = [True, False, True]
    for table in (pandas.DataFrame({"on": flags}), polars.DataFrame({"on": flags})):
        assert read_inputs(table)[0].ravel().tolist() == [1.0, 0.0, 1.0]


def test_columns_called_by_numbers_are_read() -> None:
    """pandas calls them 0, 1... where nobody names them."""
    values, names = read_inputs(pandas.DataFrame(NUMBERS))
    assert np.array_equal(values, NUMBERS)
    assert names == ("0", "1")


def test_the_callers_table_is_left_as_it_was() -> None:
    table = NUMBERS.copy()
    values, _ = read_inputs(table)
    values[:] = 0
    assert np.array_equal(table, NUMBERS)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (NUMBERS[:, 0], "y"),
        (NUMBERS[:, :1], "y"),
        (NUMBERS[:, 0].tolist(), "y"),
        (pandas.Series(NUMBERS[:, 0], name="power"), "power"),
        (pandas.Series(NUMBERS[:, 0]), "y"),
        (polars.Series("power", NUMBERS[:, 0]), "power"),
        (as_pandas(NUMBERS[:, :1], ["power"]), "power"),
        (as_polars(NUMBERS[:, :1], ["power"]), "power"),
    ],
    ids=[
        "array",
        "one column",
        "list",
        "pandas series",
        "nameless series",
        "polars series",
        "pandas frame",
        "polars frame",
    ],
)
def test_one_target_is_one_named_column(target, name: str) -> None:
    values, names = read_targets(target)
    assert values.dtype == np.float64
    assert values.ravel().tolist() == [1.0, 2.0, 3.0]
    assert values.shape == (3, 1)
    assert names == (name,)


def test_several_targets_have_names() -> None:
    assert read_targets(NUMBERS)[1] == ("y0", "y1")
    assert read_targets(as_pandas())[1] == NAMES
    assert read_targets(as_polars())[1] == NAMES
    assert read_targets(NUMBERS, ["up", "down"])[1] == ("up", "down")


def broken(value: float) -> np.ndarray:
    values = NUMBERS.copy()
    values[1, 1] = value
    return values


@pytest.mark.parametrize("frame", [as_pandas, as_polars], ids=["pandas", "polars"])
@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "1 NaN"), (np.inf, "1 inf"), (-np.inf, "1 inf")]
)
def test_a_number_that_is_not_finite_names_its_column(frame, value: float, word: str) -> None:
    with pytest.raises(DataError, match=rf"'wind speed'.*{word}") as caught:
        read_inputs(frame(broken(value)))
    assert "dose" not in str(caught.value)
    with pytest.raises(DataError, match=rf"'x1'.*{word}"):
        read_inputs(broken(value))
    with pytest.raises(DataError, match=rf"'wind speed'.*{word}"):
        read_targets(frame(broken(value)))


@pytest.mark.parametrize(
    "table",
    [
        pandas.DataFrame({"dose": pandas.array([1.0, None, 3.0], dtype="Float64")}),
        polars.DataFrame({"dose": [1.0, None, 3.0]}),
        pandas.DataFrame({"dose": pandas.array([1, None, 3], dtype="Int64")}),
    ],
    ids=["pandas nullable", "polars null", "pandas nullable whole numbers"],
)
def test_a_missing_value_is_a_missing_value_in_every_library(table) -> None:
    with pytest.raises(DataError, match="'dose': 1 NaN"):
        read_inputs(table)


@pytest.mark.parametrize(
    "column",
    [["a", "b", "c"], pandas.Categorical(["a", "b", "a"]), pandas.date_range("2020", periods=3)],
    ids=["text", "categories", "dates"],
)
def test_a_column_that_is_not_numbers_is_named(column) -> None:
    with pytest.raises(DataError, match=r"column 'kind' holds .*, not numbers"):
        read_inputs(pandas.DataFrame({"dose": [1.0, 2.0, 3.0], "kind": column}))


def test_text_is_refused_even_where_it_could_be_read_as_numbers() -> None:
    """As in a data frame: a column of text is nearly always the wrong column."""
    for text in (np.array([["a"], ["b"]]), np.array([["1"], ["2"]])):
        with pytest.raises(DataError, match="X must hold numbers"):
            read_inputs(text)
    with pytest.raises(DataError, match="y must hold numbers"):
        read_targets(["one", "two"])


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match=r"(?s)same name.*dose"):
        read_inputs(as_pandas(names=["dose", "dose"]))
    with pytest.raises(DataError, match=r"same name.*dose"):
        read_inputs(NUMBERS, ["dose", "dose"])
    with pytest.raises(DataError, match=r"same name.*up"):
        read_targets(NUMBERS, ["up", "up"])


def test_a_single_dimension_says_how_to_reshape() -> None:
    with pytest.raises(DataError, match=r"reshape\(-1, 1\)"):
        read_inputs(NUMBERS[:, 0])
    with pytest.raises(DataError, match="3"):
        read_targets(NUMBERS[None])


def test_names_must_be_as_many_as_columns() -> None:
    with pytest.raises(DataError, match="2 columns but 1 names"):
        read_inputs(NUMBERS, ["dose"])
    with pytest.raises(DataError, match="2 columns but 3 output names"):
        read_targets(NUMBERS, ["a", "b", "c"])


@pytest.mark.parametrize(
    "table", [NUMBERS[:0], NUMBERS[:, :0], as_pandas()[:0], as_pandas()[[]], as_polars()[:0]]
)
def test_an_empty_table_is_refused(table) -> None:
    with pytest.raises(DataError, match=r"0 rows|0 columns"):
        read_inputs(table)


def test_sparse_and_complex_tables_are_refused_with_the_remedy() -> None:
    with pytest.raises(DataError, match="toarray"):
        read_inputs(sparse.csr_matrix(NUMBERS))
    with pytest.raises(DataError, match="real numbers"):
        read_inputs(NUMBERS * 1j)


def test_rows_of_both_tables_must_agree() -> None:
    with pytest.raises(DataError, match="X has 3 rows and y has 2"):
        check_lengths(NUMBERS, NUMBERS[:2, :1])
    check_lengths(NUMBERS, NUMBERS[:, :1])


def test_one_row_is_too_few() -> None:
    with pytest.raises(DataError, match="at least 2 rows"):
        check_rows(NUMBERS[:1], NUMBERS[:1, :1], ("power",))


def test_a_constant_target_is_named() -> None:
    targets = np.column_stack([[1.0, 2.0, 3.0], [7.0, 7.0, 7.0]])
    with pytest.raises(DataError, match=r"'down' has no variance.*7"):
        check_rows(NUMBERS, targets, ("up", "down"))
    check_rows(NUMBERS, NUMBERS, ("up", "down"))


def test_columns_of_a_dict_are_one_length_and_numbers() -> None:
    for broken in ({"a": [1, 2], "b": [1, 2, 3]}, {"a": [[1], [2]]}):
        with pytest.raises(DataError, match="one length, got shapes"):
            read_inputs(broken)
    with pytest.raises(DataError, match="column 'wind' must hold numbers"):
        read_inputs({"wind": ["calm", "strong"]})
    with pytest.raises(DataError, match="0 columns"):
        read_inputs({})


def test_an_estimator_checks_the_names_of_a_dict() -> None:
    from prbnn import MLP, PRBNNRegressor

    table = {"a": np.linspace(0, 1, 12), "b": np.linspace(1, 0, 12) ** 2}
    model = PRBNNRegressor(MLP((2,)), tempering=1.0, steps=3, draws=3, random_state=0)
    with pytest.warns(UserWarning):
        model.fit(table, table["a"])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.predict(table).shape == (12,)
    with pytest.raises(DataError, match="same order"):
        model.predict({"b": table["b"], "a": table["a"]})


# --- values that are not there, and weights ----------------------------------------------------

MASK = np.array([[False, True], [False, False], [False, True]])


def test_masked_cells_are_refused_by_column_and_count() -> None:
    masked = np.ma.array(NUMBERS, mask=MASK)
    with pytest.raises(DataError, match=r"X has 2 masked cell\(s\) \(column 1: 2\).*filled"):
        read_inputs(masked)
    with pytest.raises(DataError, match=r"column 'dose' has 2 masked cell"):
        read_inputs({"dose": masked[:, 1], "wind": NUMBERS[:, 0]})
    with pytest.raises(DataError, match="X has 2 masked"):
        read_inputs(list(masked.T[1:]))
    with pytest.raises(DataError, match=r"y has 2 masked cell\(s\);"):
        read_targets(masked[:, 1])
    with pytest.raises(DataError, match="sample_weight has 2 masked"):
        read_weights(masked[:, 1], 3)


def test_a_mask_that_hides_nothing_is_no_fault() -> None:
    assert np.array_equal(read_inputs(np.ma.array(NUMBERS))[0], NUMBERS)
    assert np.array_equal(read_weights(np.ma.array([1.0, 2.0]), 2), [1, 2])


@pytest.mark.parametrize(
    "absent",
    [
        pandas.DataFrame({"dose": pandas.array([1, None, 3], dtype="Int64")}),
        pandas.DataFrame({"dose": pandas.array([1.0, None, 3.0], dtype="Float64")}),
        polars.DataFrame({"dose": [1, None, 3]}),
        {"dose": pandas.Series(pandas.array([1, None, 3], dtype="Int64"))},
        {"dose": polars.Series([1.0, None, 3.0])},
        {"dose": np.array([1.0, None, 3.0], dtype=object)},
    ],
    ids=["Int64", "Float64", "polars", "series", "polars series", "object"],
)
def test_absent_values_of_every_library_are_counted(absent) -> None:
    with pytest.raises(DataError, match="column 'dose': 1 NaN"):
        read_inputs(absent)


@pytest.mark.parametrize(
    "weight",
    [np.array([1 + 1j, 2, 3]), ["1", "2", "3"], sparse.csr_matrix([[1.0, 2.0, 3.0]])],
    ids=["complex", "text", "sparse"],
)
def test_weights_are_real_numbers(weight) -> None:
    with pytest.raises(DataError, match="sample_weight"):
        read_weights(weight, 3)


@pytest.mark.parametrize("size", [1e-300, 5e-324, 1e-30, 1e30, 1e300])
def test_weights_too_small_or_large_to_compute_with_are_refused(size: float) -> None:
    with pytest.raises(DataError, match=r"largest sample_weight is .*must be from 1e-12 to 1e\+12"):
        read_weights(np.full(3, size), 3)


def test_weights_that_float32_cannot_see_beside_others_count_as_none() -> None:
    assert read_weights([1.0, 1e-300, 1e-13, 1e-11], 4).tolist() == [1, 0, 0, 1e-11]
    assert read_weights(None, 2).tolist() == [1, 1]
