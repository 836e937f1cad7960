"""Sequences at the edge: arrays and long tables become rows, and every fault in them is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import polars
import pytest

from prbnn import DataError
from prbnn.data.layout import Layout
from prbnn.data.scaling import sequence_scaling
from prbnn.data.sequences import LongTable, Sequences, from_arrays, from_table, layout_of


def refusal(make: Any) -> str:
    with pytest.raises(DataError) as caught:
        make()
    return str(caught.value)


def number(sequence: int, step: int, variable: int) -> float:
    """A value that says where it stands: 312.0 is sequence 3, step 1, variable 2."""
    return 100.0 * sequence + 10.0 * step + variable


def counted(sequences: int = 3, steps: int = 4, variables: int = 2) -> np.ndarray:
    places = np.indices((sequences, steps, variables))
    return np.asarray(number(*places))


# --- arrays ------------------------------------------------------------------------------------


def test_arrays_become_rows_step_by_step() -> None:
    x, y = counted(), counted(3, 2, 1) + 0.5
    data = from_arrays(x, y, static=[[7.0, 8.0]] * 3)
    assert data.observed.shape == (3, 4, 2)
    assert data.seen.tolist() == [4, 4, 4]
    rows = data.rows()
    assert rows.shape == (3, 11)
    assert rows[2].tolist() == [200, 201, 210, 211, 220, 221, 230, 231, 7, 8, 1]
    assert data.targets()[2].tolist() == [200.5, 210.5]


def test_rows_and_targets_lie_as_their_layout_says() -> None:
    data = from_arrays(counted(), counted(3, 2, 2), static=np.arange(3.0))
    layout = layout_of(data, ("a", "b"), ("b", "a"), ("s",))
    row = dict(zip(layout.inputs, data.rows()[1], strict=True))
    assert (row["a[-3]"], row["b[-1]"], row["b[0]"], row["s"]) == (100, 121, 131, 1)
    target = dict(zip(layout.targets, data.targets()[1], strict=True))
    assert (target["b[1]"], target["a[1]"], target["b[2]"], target["a[2]"]) == (100, 101, 110, 111)


def test_one_vector_a_sequence_has_no_steps() -> None:
    data = from_arrays(counted(), np.arange(6.0).reshape(3, 2))
    assert data.targets().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert layout_of(data).ahead == 0


def test_lists_are_read_like_arrays() -> None:
    listed = from_arrays(counted().tolist(), counted(3, 2, 1).tolist(), [1, 2, 3], [4, 1, 2])
    arrays = from_arrays(counted(), counted(3, 2, 1), np.arange(1.0, 4), np.array([4, 1, 2]))
    for received, expected in zip(listed, arrays, strict=True):
        assert np.array_equal(received, expected)


def test_steps_that_were_not_seen_repeat_the_first_one_that_was() -> None:
    x = counted()
    x[1, :2] = np.nan
    x[2, :3] = 1e9
    data = from_arrays(x, seen=[4, 2, 1])
    assert data.ahead is None
    assert np.array_equal(data.observed[0], x[0])
    assert data.observed[1, :, 0].tolist() == [120, 120, 120, 130]
    assert data.observed[2, :, 1].tolist() == [231] * 4
    assert data.rows()[:, -1].tolist() == [1, 0.5, 0.25]


@pytest.mark.parametrize("seen", [None, [2, 1, 2]])
def test_sequences_shorter_than_the_history_are_filled_up_at_the_front(seen: Any) -> None:
    x = counted(3, 2, 1)
    data = from_arrays(x, seen=seen, history=5)
    assert data.observed.shape == (3, 5, 1)
    assert data.seen.tolist() == (seen or [2, 2, 2])
    assert data.observed[0, :, 0].tolist() == [0, 0, 0, 0, 10]
    middle = [100.0] * 4 + [110] if seen is None else [110.0] * 5
    assert data.observed[1, :, 0].tolist() == middle
    assert np.allclose(data.rows()[:, -1], np.array(seen or [2, 2, 2]) / 5)


def test_longer_sequences_than_the_history_are_refused() -> None:
    message = refusal(lambda: from_arrays(counted(), history=3))
    assert message == "X has 4 steps, and the model was fitted to 3"


@pytest.mark.parametrize(
    "seen", [[0, 4, 4], [4, 5, 4], [4, 4], [[4, 4, 4]], 4], ids=["none", "more", "few", "2d", "one"]
)
def test_how_many_steps_were_seen_must_be_possible(seen: Any) -> None:
    message = refusal(lambda: from_arrays(counted(), seen=seen))
    assert message == "seen must hold one whole number from 1 to 4 per sequence (3 sequences)"


def test_a_sequence_shorter_than_the_history_has_not_seen_what_was_filled_in() -> None:
    message = refusal(lambda: from_arrays(counted(3, 2, 1), seen=[2, 3, 2], history=5))
    assert message == "seen must hold one whole number from 1 to 2 per sequence (3 sequences)"


@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_missing_values_in_steps_that_were_seen_name_the_first_sequence(gap: float) -> None:
    x = counted(4, 3, 2)
    x[1, 0, 0] = gap  # not seen, so no matter
    x[2, 1, 1] = gap
    x[3, 2, 0] = gap
    message = refusal(lambda: from_arrays(x, seen=[3, 2, 2, 3]))
    assert message.startswith("2 sequence(s) have missing values in steps that were seen, first ")
    assert "number 2;" in message
    assert message.endswith("seen=")


def test_missing_targets_are_counted() -> None:
    y = counted(3, 2, 1)
    y[0, 0], y[2, 1] = np.nan, np.inf
    assert refusal(lambda: from_arrays(counted(), y)) == "y has 2 missing value(s); drop those"


@pytest.mark.parametrize(
    "x", [np.zeros((3, 4)), np.zeros(3), np.zeros((0, 4, 2)), np.zeros((3, 0, 2)), 5.0]
)
def test_inputs_have_three_dimensions_and_something_in_them(x: Any) -> None:
    message = refusal(lambda: from_arrays(x))
    assert message == (
        f"X must be an array (sequences, steps, variables) that is not empty, got {np.shape(x)}"
    )


@pytest.mark.parametrize("x", [[[["a"]]], [[[1.0]], [[1.0], [2.0]]]], ids=["text", "ragged"])
def test_inputs_hold_numbers(x: Any) -> None:
    assert refusal(lambda: from_arrays(x)).startswith("X must hold numbers only: ")


def test_targets_must_be_as_many_as_the_sequences() -> None:
    message = refusal(lambda: from_arrays(counted(3), counted(4)))
    assert message == "X has 3 sequences and y has 4; they must be the same"
    assert refusal(lambda: from_arrays(counted(3), np.zeros(3))).startswith("y must be an array")


@pytest.mark.parametrize(
    "static", [np.zeros((2, 1)), np.zeros((3, 1, 1)), [1, np.nan, 2]], ids=["rows", "3d", "gap"]
)
def test_static_numbers_are_one_row_a_sequence(static: Any) -> None:
    message = refusal(lambda: from_arrays(counted(), static=static))
    assert message.startswith("static must hold finite numbers, one row per sequence (3), got ")


# --- long tables -------------------------------------------------------------------------------

HOW = LongTable("flight", "second", ("altitude", "speed"), ("altitude",), ("weight",), 3, 2)


def long(lengths: dict[str, int] | None = None, **columns: Any) -> pandas.DataFrame:
    """A row a step: altitude is `number(flight, step, 1)`, speed `number(flight, step, 2)`."""
    lengths = lengths or {"AA": 5, "BB": 7, "CC": 3}
    names = np.repeat(list(lengths), list(lengths.values()))
    steps = np.concatenate([np.arange(count) for count in lengths.values()])
    flight = np.repeat(np.arange(len(lengths)), list(lengths.values()))
    return pandas.DataFrame(
        {
            "flight": names,
            "second": steps * 4 + 100,
            "altitude": number(flight, steps, 1),
            "speed": number(flight, steps, 2),
            "weight": flight + 0.5,
            **columns,
        }
    )


def to_polars(frame: pandas.DataFrame) -> polars.DataFrame:
    """Without pyarrow; what is missing is null, not nan."""
    columns = {name: frame[name].astype(object) for name in frame.columns}
    return polars.DataFrame(
        {name: c.where(c.notna(), None).tolist() for name, c in columns.items()}
    )


LIBRARIES = {"pandas": lambda frame: frame, "polars": to_polars}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_last_steps_of_each_sequence_are_taken(library: str) -> None:
    data = from_table(LIBRARIES[library](long()), HOW, with_targets=True)
    assert data.names.tolist() == ["AA", "BB", "CC"]
    assert data.observed.shape == (3, 3, 2)
    assert data.ahead is not None
    assert data.ahead.shape == (3, 2, 1)
    # of seven steps, two lie ahead and the three before them are observed
    assert data.observed[1, :, 0].tolist() == [121, 131, 141]
    assert data.observed[1, :, 1].tolist() == [122, 132, 142]
    assert data.ahead[1, :, 0].tolist() == [151, 161]
    assert data.static.tolist() == [[0.5], [1.5], [2.5]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_fewer_observed_steps_are_filled_up_at_the_front(library: str) -> None:
    data = from_table(LIBRARIES[library](long()), HOW, with_targets=True)
    assert data.seen.tolist() == [3, 3, 1]
    assert data.observed[2, :, 0].tolist() == [201, 201, 201]
    assert data.ahead is not None
    assert data.ahead[2, :, 0].tolist() == [211, 221]
    assert np.allclose(data.rows()[:, -1], [1, 1, 1 / 3])


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_targets_the_last_steps_are_the_observed_ones(library: str) -> None:
    frame = long({"AA": 2, "BB": 7, "CC": 1})
    data = from_table(LIBRARIES[library](frame), HOW, with_targets=False)
    assert data.ahead is None
    assert data.seen.tolist() == [2, 3, 1]
    assert data.observed[0, :, 0].tolist() == [1, 1, 11]
    assert data.observed[1, :, 0].tolist() == [141, 151, 161]


def test_a_table_says_what_arrays_say() -> None:
    frame = long({"AA": 5, "BB": 5, "CC": 5})
    table = from_table(frame, HOW, with_targets=True)
    values = frame[["altitude", "speed"]].to_numpy().reshape(3, 5, 2)
    arrays = from_arrays(values[:, :3], values[:, 3:, :1], [0.5, 1.5, 2.5])
    assert np.array_equal(table.rows(), arrays.rows())
    assert np.array_equal(table.targets(), arrays.targets())


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_order_of_the_rows_does_not_matter(library: str) -> None:
    frame = long()
    shuffled = frame.sample(frac=1, random_state=3).reset_index(drop=True)
    assert not frame.equals(shuffled)
    wanted = from_table(frame, HOW, with_targets=True)
    found = from_table(LIBRARIES[library](shuffled), HOW, with_targets=True)
    for received, expected in zip(found, wanted, strict=True):
        assert np.array_equal(received, expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_times_may_be_dates(library: str) -> None:
    frame = long()
    frame["second"] = pandas.to_datetime(frame["second"], unit="s")
    frame = frame.sample(frac=1, random_state=3).reset_index(drop=True)
    found = from_table(LIBRARIES[library](frame), HOW, with_targets=True)
    assert np.array_equal(found.observed, from_table(long(), HOW, with_targets=True).observed)


def test_numbered_sequences_keep_their_numbers_as_names() -> None:
    frame = long({"AA": 5, "BB": 5})
    frame["flight"] = np.repeat([10, 9], 5)
    data = from_table(frame, HOW, with_targets=True)
    by_name = dict(zip(data.names.tolist(), data.static[:, 0], strict=True))
    assert by_name == {"10": 0.5, "9": 1.5}


def test_columns_that_are_not_asked_for_may_hold_anything() -> None:
    frame = long(remark="fine", wind=np.nan)
    assert from_table(frame, HOW, with_targets=True).observed.shape == (3, 3, 2)


def test_truth_values_are_numbers() -> None:
    frame = long()
    frame["speed"] = frame["altitude"] > 100
    data = from_table(frame, HOW, with_targets=True)
    assert data.observed[:, :, 1].tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_time_that_appears_twice_names_the_sequence(library: str) -> None:
    frame = long()
    frame.loc[frame.index[6], "second"] = 100  # BB has two steps at its first second now
    message = refusal(lambda: from_table(LIBRARIES[library](frame), HOW, with_targets=True))
    assert message == "1 sequence(s) hold a time twice: BB; drop the repeated rows"


def test_short_sequences_are_named() -> None:
    message = refusal(lambda: from_table(long({"AA": 5, "BB": 2, "CC": 1}), HOW, with_targets=True))
    assert message == "2 sequence(s) have fewer than 3 steps: BB, CC; drop them"


def test_of_many_short_sequences_some_are_named() -> None:
    frame = long({f"F{k}": 1 for k in range(8)})
    message = refusal(lambda: from_table(frame, HOW, with_targets=True))
    assert message.startswith("8 sequence(s) have fewer than 3 steps: F0, F1, F2, F3, F4, ...;")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_static_column_that_changes_names_itself_and_the_sequence(library: str) -> None:
    frame = long()
    frame.loc[8, "weight"] = 9.0  # a step of BB
    message = refusal(lambda: from_table(LIBRARIES[library](frame), HOW, with_targets=True))
    assert message == (
        "static column 'weight' changes along sequence 'BB'; make it one of variables"
    )


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("id", "fligt"),
        ("time", "secnd"),
        ("variables", ("altitude", "spede")),
        ("outputs", ("altitud",)),
        ("static", ("weigth",)),
    ],
)
def test_a_missing_column_names_the_nearest(field: str, name: Any) -> None:
    how = HOW._replace(**{field: name})
    message = refusal(lambda: from_table(long(), how, with_targets=True))
    meant = {"id": "flight", "time": "second", "variables": "speed", "outputs": "altitude"}
    wrong = name if isinstance(name, str) else name[-1]
    assert message == f"no column {wrong!r}; did you mean {meant.get(field, 'weight')!r}?"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("column", ["altitude", "speed", "weight"])
def test_missing_values_name_the_column(library: str, column: str) -> None:
    frame = long()
    frame.loc[[3, 4], column] = np.nan
    message = refusal(lambda: from_table(LIBRARIES[library](frame), HOW, with_targets=True))
    assert message == f"column {column!r} has 2 missing value(s)"


@pytest.mark.parametrize("library", LIBRARIES)
def test_text_is_refused_with_its_column(library: str) -> None:
    frame = long()
    frame["speed"] = "fast"
    message = refusal(lambda: from_table(LIBRARIES[library](frame), HOW, with_targets=True))
    assert message.startswith("column 'speed' holds String, not numbers; encode it")


# --- scaling -----------------------------------------------------------------------------------


def scaled(
    kind: Any, static: bool = True
) -> tuple[Any, Layout, np.ndarray, np.ndarray, list[np.ndarray]]:
    """A scaling, and by hand every value of a and of b that was seen or came after."""
    generator = np.random.default_rng(0)
    x = generator.normal(0, 1, (20, 4, 2)) * [3, 50] + [5, -200]
    y = generator.normal(0, 1, (20, 2, 1)) * 40 - 300
    seen = generator.integers(1, 5, 20)
    present = np.arange(4)[None, :] >= 4 - seen[:, None]
    both = [x[present][:, 0], np.concatenate([x[present][:, 1], y.ravel()])]
    x[~present] = 1e6
    data = from_arrays(x, y, generator.uniform(7, 9, 20) if static else None, seen)
    # rows as they come from elsewhere: garbage where nothing was seen
    data = Sequences(data.names, x, data.seen, data.static, data.ahead)
    layout = layout_of(data, ("a", "b"), ("b",), ("s",) if static else None)
    rows, targets = data.rows(), data.targets()
    return sequence_scaling(layout, rows, targets, kind), layout, rows, targets, both


@pytest.mark.parametrize("static", [True, False])
def test_a_variable_is_scaled_alike_at_every_step_observed_or_ahead(static: bool) -> None:
    for kind in ("standard", "minmax"):
        scaling, layout, *_, (a, b) = scaled(kind, static)
        for values, name in ((a, "a"), (b, "b")):
            shift, scale = (
                (values.mean(), values.std())
                if kind == "standard"
                else (values.min(), np.ptp(values))
            )
            places = list(layout.observed(name))
            assert np.allclose(scaling.input_shift[places], shift)
            assert np.allclose(scaling.input_scale[places], scale)
            assert np.allclose(scaling.input_sd[places], values.std())
            if name == "b":
                assert np.allclose(scaling.output_shift, shift)
                assert np.allclose(scaling.output_scale, scale)
                assert np.allclose(scaling.output_sd, values.std())


def test_static_columns_have_a_scaling_of_their_own_and_the_share_none() -> None:
    scaling, layout, rows, *_ = scaled("minmax")
    place = layout.inputs.index("s")
    assert scaling.input_shift[place] == rows[:, place].min()
    assert scaling.input_scale[place] == np.ptp(rows[:, place])
    assert (scaling.input_shift[-1], scaling.input_scale[-1]) == (0, 1)
    assert np.array_equal(scaling.inputs(rows)[:, -1], rows[:, -1])


def test_without_scaling_the_network_sees_the_users_units() -> None:
    scaling, _, rows, targets, _ = scaled("none")
    assert np.array_equal(scaling.inputs(rows), rows)
    assert np.array_equal(scaling.outputs(targets), targets)


@pytest.mark.parametrize("kind", ["standard", "minmax", "none"])
def test_what_was_scaled_is_restored(kind: str) -> None:
    scaling, _, _, targets, _ = scaled(kind)
    assert np.allclose(scaling.restore(scaling.outputs(targets)), targets)


def test_one_vector_a_sequence_is_scaled_output_by_output() -> None:
    generator = np.random.default_rng(0)
    y = generator.normal(0, 1, (20, 2)) * [3, 50]
    data = from_arrays(generator.normal(size=(20, 4, 1)), y)
    scaling = sequence_scaling(layout_of(data), data.rows(), data.targets(), "standard")
    assert np.allclose(scaling.output_scale, y.std(axis=0))
    assert np.allclose(scaling.output_shift, y.mean(axis=0))


def test_a_variable_that_never_changes_is_left_as_wide_as_it_is() -> None:
    data = from_arrays(np.full((5, 3, 1), 4.0), np.full((5, 2, 1), 4.0), np.full(5, 2.0))
    scaling = sequence_scaling(layout_of(data), data.rows(), data.targets(), "minmax")
    assert np.all(scaling.input_scale == 1)
    assert np.all(scaling.output_scale == 1)


def test_an_unknown_kind_of_scaling_is_refused() -> None:
    data = from_arrays(counted(), counted(3, 2, 1))
    with pytest.raises(ValueError, match="'standard', 'minmax' or 'none', got 'robust'"):
        sequence_scaling(layout_of(data), data.rows(), data.targets(), "robust")  # ty: ignore


# --- names -------------------------------------------------------------------------------------


def test_what_has_no_name_is_numbered() -> None:
    data = from_arrays(counted(3, 4, 2), counted(3, 2, 1), np.zeros((3, 2)))
    assert layout_of(data) == Layout(("x0", "x1"), 4, ("s0", "s1"), ("y0",), 2)


def test_outputs_as_many_as_the_variables_are_the_variables_to_come() -> None:
    data = from_arrays(counted(3, 4, 2), counted(3, 2, 2))
    assert layout_of(data).outputs == ("x0", "x1")
    assert layout_of(data, ("a", "b")).outputs == ("a", "b")
    vector = from_arrays(counted(3, 4, 2), np.zeros((3, 2)))
    assert layout_of(vector, ("a", "b")).outputs == ("y0", "y1")


def test_given_names_are_kept() -> None:
    data = from_arrays(counted(3, 4, 2), counted(3, 2, 1), np.zeros(3))
    layout = layout_of(data, ["a", "b"], ["b"], ["s"])
    assert layout == Layout(("a", "b"), 4, ("s",), ("b",), 2)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"variables": ["a"]}, "2 variables in the data, but 1 names: a"),
        ({"outputs": ["a", "b"]}, "1 outputs in the data, but 2 names: a, b"),
        ({"static": ["s", "t"]}, "1 static names in the data, but 2 names: s, t"),
        ({"variables": ["a", "a"]}, "names must differ; given twice: a"),
        ({"variables": ["a", "s"], "static": ["s"]}, "names must differ; given twice: s"),
    ],
    ids=["variables", "outputs", "static", "twice", "twice across"],
)
def test_names_that_do_not_fit_are_refused(names: dict, told: str) -> None:
    data = from_arrays(counted(3, 4, 2), counted(3, 2, 1), np.zeros(3))
    assert refusal(lambda: layout_of(data, **names)) == told


def test_an_output_named_twice_is_refused() -> None:
    data = from_arrays(counted(3, 4, 2), counted(3, 2, 2))
    assert "given twice: an output" in refusal(lambda: layout_of(data, outputs=["b", "b"]))


def test_masked_and_complex_numbers_are_refused() -> None:
    masked = np.ma.array(counted(), mask=False)
    masked[1, 2, 1] = np.ma.masked
    assert "X has 1 masked cell(s) (column 1: 1)" in refusal(lambda: from_arrays(masked))
    assert "y has 1 masked" in refusal(lambda: from_arrays(counted(), masked))
    some = np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False])
    assert "static has 1 masked" in refusal(lambda: from_arrays(counted(), static=some))
    assert "seen has 1 masked" in refusal(lambda: from_arrays(counted(), seen=some.astype(int)))
    assert "Complex" in refusal(lambda: from_arrays(counted() * 1j))
