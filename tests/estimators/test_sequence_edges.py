"""Edges of sequences: tables read again, odd steps, names and lengths; each was a fault once."""

import jax
import numpy as np
import pandas
import pytest

from prbnn import (
    GRU,
    LSTM,
    AtLeast,
    Combined,
    DataError,
    KnowledgeError,
    PRBNNSequenceRegressor,
    Score,
)
from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.data.scaling import sequence_scaling
from prbnn.data.sequences import LongTable, from_arrays, from_table
from prbnn.rules.regions import Sampling, sample
from prbnn.rules.scoring.binding import bind_all

pytestmark = pytest.mark.filterwarnings("ignore")
G = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "flight": np.repeat(np.arange(30), 6),
        "second": np.tile(np.arange(6), 30),
        "altitude": 1000 + G.normal(size=180).cumsum(),
        "speed": G.normal(size=180),
    }
)
T = {"id": "flight", "time": "second", "history": 3, "ahead": 2}
HOW = LongTable("flight", "second", ("altitude", "speed"), ("altitude",), (), 3, 2)
L = Layout(("a",), 3, (), ("a",), 4)


def small(**k):
    return PRBNNSequenceRegressor(
        GRU(units=3, hidden=()), steps=20, draws=5, points=8, random_state=0, verbose=False, **k
    )


def bind(rule, layout=L):
    rows = np.column_stack([G.normal(size=(9, len(layout.inputs) - 1)), np.ones(9)])
    y = G.normal(size=(9, len(layout.targets)))
    columns = Columns(layout.inputs, layout.targets, rows, y, layout)
    return bind_all([rule], columns, sequence_scaling(layout, rows, y), 8)


def test_columns_of_a_table_are_read_by_name_at_predict():
    model = small(**T).fit(FRAME)
    other = FRAME[["flight", "second", "speed", "altitude"]]
    assert np.array_equal(model.predict(FRAME), model.predict(other))


def test_a_further_column_at_predict_is_no_variable():
    model = small(**T).fit(FRAME)
    assert np.array_equal(model.predict(FRAME), model.predict(FRAME.assign(note=1.0)))


def test_what_is_only_predicted_need_not_be_in_the_table_at_predict():
    how = HOW._replace(variables=("speed",))
    from_table(FRAME.drop(columns="altitude"), how, with_targets=False)


def test_a_missing_time_is_refused():
    frame = FRAME.astype({"second": float})
    frame.loc[1, "second"] = np.nan
    with pytest.raises(DataError):
        from_table(frame, HOW, with_targets=True)


def test_the_time_may_be_a_variable():
    from_table(FRAME, HOW._replace(variables=("second", "altitude")), with_targets=True)


@pytest.mark.parametrize("wrong", [{"ahead": 0}, {"history": 0}, {"history": -2}, {"history": 2.5}])
def test_impossible_steps_of_a_table_are_told(wrong):
    with pytest.raises((DataError, ValueError), match="history|ahead"):
        small(**{**T, **wrong}).fit(FRAME)


def test_seen_may_be_whole_floats():
    x = G.normal(size=(3, 4, 1))
    assert from_arrays(x, seen=np.array([4.0, 3.0, 1.0])).seen.tolist() == [4, 3, 1]


def test_seen_must_be_whole():
    with pytest.raises(DataError):
        from_arrays(G.normal(size=(3, 4, 1)), seen=[4, 2.5, 1])


def test_static_text_is_a_data_error():
    with pytest.raises(DataError):
        from_arrays(G.normal(size=(3, 4, 1)), static=["a", "b", "c"])


@pytest.mark.parametrize("at", [2.5, {}, True])
def test_wrong_steps_are_told_by_rule(at):
    with pytest.raises(KnowledgeError):
        bind(AtLeast(0, of="a", at=at))


def test_numpy_whole_numbers_are_steps():
    bind(AtLeast(0, of="a", at=np.int64(2)))


def test_at_is_refused_where_it_would_be_ignored():
    with pytest.raises(KnowledgeError, match="at= has no meaning"):
        Score(lambda f, x: f(x, "a"), at="last")
    with pytest.raises(KnowledgeError, match="at= has no meaning"):
        Combined([AtLeast(0, of="a")], at="last")
    with pytest.raises(KnowledgeError, match="of= has no meaning"):
        Combined([AtLeast(0)], of="a")


def test_combined_says_at_which_steps_its_parts_hold():
    assert "last" in Combined([AtLeast(0, of="a", at="last")]).label


@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_a_recurrent_network_of_plain_rows_is_refused(kind):
    with pytest.raises(ValueError, match="use PRBNNSequenceRegressor"):
        kind(units=3, hidden=()).build(jax.random.key(0), 3, 1)


def test_units_may_be_numpys_whole_numbers_like_hidden():
    assert LSTM(units=np.int64(3)).units == 3


def test_units_are_no_truth_values():
    with pytest.raises(ValueError, match="units must be a whole number"):
        LSTM(units=True)


def test_an_unknown_activation_names_the_network():
    with pytest.raises(ValueError, match="^GRU"):
        GRU(activation="x")


def test_a_flag_that_does_not_change_is_never_between_its_values():
    layout = Layout(("a",), 2, ("flag",), ("a",), 2)
    rows = np.column_stack([G.normal(size=(40, 2)), np.arange(40) % 2, np.ones(40)])
    y = G.normal(size=(40, 2))
    columns = Columns(layout.inputs, layout.targets, rows, y, layout, categories=("flag",))
    points = sample(Sampling(()), columns, 64)
    assert set(points[:, 2]) <= {0.0, 1.0}


def test_names_may_be_an_index():
    small(variables=FRAME.columns[2:], **T).fit(FRAME)


def test_a_callable_of_what_was_observed_has_its_own_unit():
    layout = Layout(("a",), 3, (), ("a",), 4)
    rows = np.column_stack([G.normal(size=(90, 3)) * 100, np.ones(90)])
    y = G.normal(size=(90, 4)) * 100
    columns = Columns(layout.inputs, layout.targets, rows, y, layout)
    rule = AtLeast(0, of=lambda x, y: y - x["a"][-1])
    unit = bind_all([rule], columns, sequence_scaling(layout, rows, y), 8).units[0]
    assert unit > 50


def test_the_network_given_as_a_class_is_told():
    with pytest.raises(TypeError, match="write LSTM"):
        PRBNNSequenceRegressor(LSTM, verbose=False).fit(
            G.normal(size=(4, 3, 1)), G.normal(size=(4, 2, 1))
        )


def test_an_unknown_variable_is_told_in_a_line():
    with pytest.raises(KnowledgeError, match=r"did you mean 'altitude'") as told:
        small(knowledge=[AtLeast(0, of="altitud")], **T).fit(FRAME)
    assert len(str(told.value)) < 300
