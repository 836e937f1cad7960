"""The estimator for sequences: shapes, tables, knowledge along time, engines, and errors.

Walks rise by a rate of their own, and their load is what is left of ten. Fits share their shapes,
so that most of them find their programs compiled.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from prbnn import (
    GRU,
    LSTM,
    MLP,
    AtLeast,
    AtMost,
    BayesByBackprop,
    Between,
    Continues,
    DataError,
    Falls,
    KnowledgeError,
    PRBNNSequenceRegressor,
    RateBetween,
    Rises,
    Score,
)
from prbnn.data.layout import Layout
from prbnn.inference import ENGINES
from prbnn.model.recurrent import Recurrent
from prbnn.rules.base import Rule
from tests.compiling import compilations

# short fits say that their budget was spent, and are right
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

HISTORY, AHEAD, TRAINED, DRAWS = 4, 3, 80, 50
TABLE = {"id": "walk", "time": "second", "history": HISTORY, "ahead": AHEAD}


class Walks(NamedTuple):
    """Sequences (walks, steps, (height, load)), and the rate of each."""

    whole: np.ndarray
    rate: np.ndarray

    @property
    def x(self) -> np.ndarray:
        return self.whole[:, :HISTORY]

    @property
    def y(self) -> np.ndarray:
        return self.whole[:, HISTORY:]

    def frame(self, steps: int = HISTORY + AHEAD) -> pandas.DataFrame:
        """A row a step, of the first so many steps; names sort as the arrays do."""
        count = len(self.whole)
        return pandas.DataFrame(
            {
                "walk": np.repeat([f"w{k:03}" for k in range(count)], steps),
                "second": np.tile(np.arange(steps), count),
                "height": self.whole[:, :steps, 0].ravel(),
                "load": self.whole[:, :steps, 1].ravel(),
                "rate": np.repeat(self.rate, steps),
            }
        )


def walks(count: int = TRAINED, seed: int = 0) -> Walks:
    generator = np.random.default_rng(seed)
    rate = generator.uniform(0, 0.4, count)
    steps = rate[:, None] * generator.uniform(0, 2, (count, HISTORY + AHEAD))
    height = generator.uniform(0, 5, (count, 1)) + np.cumsum(steps, axis=1)
    load = 10 - height + generator.normal(0, 0.3, height.shape)
    return Walks(np.stack([height, load], axis=-1), rate)


def small(knowledge: Any = (), **options: Any) -> PRBNNSequenceRegressor:
    settings = {
        "network": GRU(units=3, hidden=()),
        "inference": BayesByBackprop(draws=2, learning_rate=0.02),
        "variables": ("height", "load"),
        "static": ("rate",),
        "steps": 400,
        "points": 16,
        "draws": DRAWS,
        "random_state": 0,
        "verbose": False,
    }
    return PRBNNSequenceRegressor(knowledge=knowledge, **{**settings, **options})


def hard(least: float = 10.2) -> list[Rule]:
    """One that is true of the walks, and one that the data contradict a little."""
    return [
        Rises("height", margin=0.05, name="rises"),
        AtLeast(least, of="height + load", at="last", margin=0.1, name="sum"),
    ]


def weighed(price: float = 2000.0) -> list[Rule]:
    return [
        RateBetween("height", upper=0.2, name="slow").soft(price),
        AtLeast(10.1, of="height + load", at=[2, 3], name="sum").probably(0.9),
    ]


def explained(model: PRBNNSequenceRegressor, others: Walks) -> np.ndarray:
    """Share of each output's variance."""
    residual = model.predict(others.x, static=others.rate) - others.y
    return 1 - np.mean(residual**2, axis=(0, 1)) / np.var(others.y, axis=(0, 1))


@pytest.fixture(scope="module")
def known() -> Walks:
    return walks()


@pytest.fixture(scope="module")
def fresh() -> Walks:
    """Walks that no fit has seen."""
    return walks(60, 1)


@pytest.fixture(scope="module")
def plain(known: Walks) -> PRBNNSequenceRegressor:
    return small().fit(known.x, known.y, static=known.rate)


@pytest.fixture(scope="module")
def obedient(known: Walks) -> PRBNNSequenceRegressor:
    return small(hard(), steps=2500).fit(known.x, known.y, static=known.rate)


@pytest.fixture(scope="module")
def priced(known: Walks) -> PRBNNSequenceRegressor:
    return small(weighed(), steps=1500).fit(known.x, known.y, static=known.rate)


# --- shapes ------------------------------------------------------------------------------------


def test_trajectories_are_predicted_with_their_spread(
    plain: PRBNNSequenceRegressor, fresh: Walks
) -> None:
    mean, deviation = plain.predict(fresh.x, return_std=True, static=fresh.rate)
    assert mean.shape == deviation.shape == (60, AHEAD, 2)
    assert np.array_equal(mean, plain.predict(fresh.x, static=fresh.rate))
    parts = plain.predict_all(fresh.x, static=fresh.rate)
    assert np.allclose(deviation**2, parts.epistemic**2 + parts.aleatoric**2)
    assert np.all(parts.epistemic > 0)
    assert np.all(parts.aleatoric > 0)


def test_steps_and_outputs_are_where_they_belong(
    plain: PRBNNSequenceRegressor, fresh: Walks
) -> None:
    """Heights and loads are far apart, and so are walks: what is swapped explains nothing."""
    assert np.all(explained(plain, fresh) > 0.85)
    assert plain.layout_ == Layout(
        ("height", "load"), HISTORY, ("rate",), ("height", "load"), AHEAD
    )
    assert plain.output_names_[:3] == ("height[1]", "load[1]", "height[2]")


def test_the_network_reads_one_step_after_another(plain: PRBNNSequenceRegressor) -> None:
    network = plain.posterior_.network
    assert isinstance(network, Recurrent)
    assert network.history == HISTORY
    assert network.cells[0].reads.shape == (3 * 3, 2)


def test_a_variable_is_scaled_alike_at_every_step(
    plain: PRBNNSequenceRegressor, known: Walks
) -> None:
    scaling = plain.posterior_.scaling
    for place, values in enumerate(np.moveaxis(known.whole, -1, 0)):
        steps = scaling.input_shift[place : 2 * HISTORY : 2], scaling.output_shift[place::2]
        assert np.allclose(np.concatenate(steps), values.min())


def test_draws_have_an_axis_of_their_own(plain: PRBNNSequenceRegressor, fresh: Walks) -> None:
    functions = plain.sample_functions(fresh.x, static=fresh.rate)
    assert functions.shape == (DRAWS, 60, AHEAD, 2)
    assert np.allclose(functions.mean(axis=0), plain.predict(fresh.x, static=fresh.rate))
    noisy = plain.sample(fresh.x, static=fresh.rate)
    assert noisy.shape == functions.shape
    assert np.array_equal(noisy, plain.sample(fresh.x, 0, static=fresh.rate))
    assert not np.array_equal(noisy, plain.sample(fresh.x, 1, static=fresh.rate))
    noise = plain.predict_all(fresh.x, static=fresh.rate).aleatoric.mean(axis=0)
    assert np.allclose((noisy - functions).std(axis=(0, 1)), noise, rtol=0.15)


def test_quantiles_are_ordered_and_cover(plain: PRBNNSequenceRegressor, fresh: Walks) -> None:
    found = plain.predict_quantiles(fresh.x, static=fresh.rate)
    assert found.shape == (3, 60, AHEAD, 2)
    assert np.all(np.diff(found, axis=0) > 0)
    inside = np.mean((found[0] < fresh.y) & (fresh.y < found[2]))
    assert 0.8 < inside < 0.98
    narrow = plain.predict_quantiles(fresh.x, (0.1, 0.9), noise=False, static=fresh.rate)
    assert narrow.shape == (2, 60, AHEAD, 2)
    assert np.all(narrow[1] - narrow[0] < found[2] - found[0])


@pytest.fixture(scope="module")
def vector(known: Walks) -> PRBNNSequenceRegressor:
    """Where each walk ends, and how fast it went."""
    ends = np.column_stack([known.whole[:, -1, 0], 100 * known.rate])
    rule = AtMost(60, of="speed", at="last").soft(1.0)
    return small([rule], outputs=("end", "speed"), static=None).fit(known.x, ends)


def test_one_vector_a_sequence_has_no_axis_of_steps(
    vector: PRBNNSequenceRegressor, fresh: Walks
) -> None:
    mean, deviation = vector.predict(fresh.x, return_std=True)
    assert mean.shape == deviation.shape == (60, 2)
    assert vector.sample_functions(fresh.x).shape == (DRAWS, 60, 2)
    assert vector.sample(fresh.x).shape == (DRAWS, 60, 2)
    assert vector.predict_quantiles(fresh.x).shape == (3, 60, 2)
    assert vector.layout_.ahead == 0
    assert vector.output_names_ == ("end", "speed")
    ends = fresh.whole[:, -1, 0]
    assert np.var(mean[:, 0] - ends) < 0.2 * np.var(ends)


# --- what is read ------------------------------------------------------------------------------


def test_static_inputs_count(plain: PRBNNSequenceRegressor, fresh: Walks) -> None:
    slow = plain.predict(fresh.x, static=np.zeros(60))
    fast = plain.predict(fresh.x, static=np.full(60, 0.4))
    climbed = (fast - slow)[:, -1, 0]
    assert np.all(climbed != 0)
    assert climbed.mean() > 0.1


def test_steps_that_were_not_seen_change_nothing(
    plain: PRBNNSequenceRegressor, fresh: Walks
) -> None:
    spoiled = fresh.x.copy()
    spoiled[:, :2] = np.nan
    seen = np.full(60, 2)
    wanted = plain.predict(fresh.x, static=fresh.rate, seen=seen)
    assert np.array_equal(plain.predict(spoiled, static=fresh.rate, seen=seen), wanted)
    assert np.array_equal(plain.predict(fresh.x[:, 2:], static=fresh.rate), wanted)
    assert not np.array_equal(plain.predict(fresh.x, static=fresh.rate), wanted)
    for draw in (plain.sample_functions, plain.sample, plain.predict_quantiles):
        assert np.array_equal(
            draw(spoiled, static=fresh.rate, seen=seen), draw(fresh.x[:, 2:], static=fresh.rate)
        )


def test_a_fit_ignores_steps_that_were_not_seen(
    plain: PRBNNSequenceRegressor, known: Walks, fresh: Walks
) -> None:
    seen = 1 + np.arange(TRAINED) % HISTORY
    spoiled = known.x.copy()
    spoiled[np.arange(HISTORY)[None, :] < HISTORY - seen[:, None]] = 1e3
    first, second = (
        small().fit(x, known.y, known.rate, seen).predict(fresh.x, static=fresh.rate)
        for x in (known.x, spoiled)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, plain.predict(fresh.x, static=fresh.rate))


LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: polars.DataFrame({c: frame[c].tolist() for c in frame.columns}),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_arrays_and_a_long_table_give_the_same_predictions(
    library: str, plain: PRBNNSequenceRegressor, known: Walks, fresh: Walks
) -> None:
    shuffled = known.frame().sample(frac=1, random_state=0).reset_index(drop=True)
    model = small(**TABLE).fit(LIBRARIES[library](shuffled))
    assert model.layout_ == plain.layout_
    wanted = plain.predict(fresh.x, static=fresh.rate)
    assert np.array_equal(model.predict(LIBRARIES[library](fresh.frame(HISTORY))), wanted)
    assert np.array_equal(model.predict(fresh.x, static=fresh.rate), wanted)


def test_what_is_not_named_in_a_table_is_a_variable(known: Walks, fresh: Walks) -> None:
    model = small(**TABLE, variables=None, steps=20).fit(known.frame())
    assert model.layout_.variables == ("height", "load")
    assert model.layout_.static == ("rate",)
    assert model.predict(fresh.frame(HISTORY)).shape == (60, AHEAD, 2)


def test_short_sequences_of_a_table_are_predicted_from_what_they_have(
    plain: PRBNNSequenceRegressor, known: Walks, fresh: Walks
) -> None:
    model = small(**TABLE).fit(known.frame())
    frame = fresh.frame(HISTORY)
    short = frame[(frame["second"] >= 2) | (frame["walk"] >= "w010")]
    seen = np.where(np.arange(60) < 10, 2, HISTORY)
    wanted = plain.predict(fresh.x, static=fresh.rate, seen=seen)
    assert np.array_equal(model.predict(short), wanted)


# --- knowledge ---------------------------------------------------------------------------------


def rises(functions: np.ndarray) -> np.ndarray:
    """Whether each draw's heights rise at every step of every walk."""
    return np.all(np.diff(functions[..., 0], axis=2) >= 0, axis=(1, 2))


def test_draws_obey_hard_rules_on_walks_that_no_fit_has_seen(
    plain: PRBNNSequenceRegressor, obedient: PRBNNSequenceRegressor, fresh: Walks
) -> None:
    unruled = plain.sample_functions(fresh.x, static=fresh.rate)
    assert np.mean(rises(unruled)) < 0.5
    functions = obedient.sample_functions(fresh.x, static=fresh.rate)
    assert functions.shape == (DRAWS, 60, AHEAD, 2)
    assert np.all(rises(functions))
    assert np.all(functions[:, :, -1].sum(axis=-1) >= 10.2)


def test_the_report_says_that_they_obey(
    plain: PRBNNSequenceRegressor, obedient: PRBNNSequenceRegressor
) -> None:
    assert obedient.acceptance_ > 0.5
    assert [rule.name for rule in obedient.knowledge_report_] == ["rises", "sum"]
    for rule in obedient.knowledge_report_:
        assert rule.verdict == "obeyed by every stored draw"
        assert rule.stored_share == 0
    # neither of them would have been kept without being told
    assert np.all(np.mean(plain.posterior_.check(hard()).broken(), axis=0) > 0.5)


def test_a_rule_that_is_true_costs_nothing(obedient: PRBNNSequenceRegressor, fresh: Walks) -> None:
    assert explained(obedient, fresh)[0] > 0.85


@pytest.mark.slow
def test_a_soft_rule_is_kept_the_more_it_weighs(
    priced: PRBNNSequenceRegressor, known: Walks, fresh: Walks
) -> None:
    cheap = small(weighed(price=0.01), steps=1500).fit(known.x, known.y, static=known.rate)
    excess = [
        np.mean(np.maximum(np.diff(functions[..., 0], axis=2) - 0.2, 0))
        for functions in (
            model.sample_functions(fresh.x, static=fresh.rate) for model in (priced, cheap)
        )
    ]
    assert excess[0] < 0.3 * excess[1]
    slow = [model.knowledge_report_["slow"] for model in (priced, cheap)]
    assert slow[0].violation < 0.3 * slow[1].violation
    assert slow[0].strength == "soft 2000"


@pytest.mark.slow
def test_a_rule_that_probably_holds_is_kept_by_its_share_of_draws(
    plain: PRBNNSequenceRegressor, priced: PRBNNSequenceRegressor
) -> None:
    rule = weighed()[1]
    assert np.mean(plain.posterior_.check([rule]).broken()) > 0.5
    # nine of ten, give or take what fifty draws can show
    assert np.mean(priced.raw_posterior_.check([rule]).broken()) < 0.25
    assert priced.knowledge_report_["sum"].strength == "probably 0.9 of functions"


def test_mistakes_in_rules_are_told_before_training(known: Walks) -> None:
    wrong: dict[str, Rule] = {
        "did you mean 'height'?": Rises("hieght"),
        "from 1 to 3": AtMost(9, of="height", at=4),
        "lag=3 is too long for 3 step": Falls("load", lag=3),
        "say which one with of=": AtLeast(0),
        "names no output": Rises("rate"),
    }
    for told, rule in wrong.items():
        with pytest.raises(KnowledgeError) as caught:
            small([rule]).fit(known.x, known.y, static=known.rate)
        assert told in str(caught.value)
        assert str(caught.value).startswith(f"rule {rule.label!r}: ")


def test_rules_along_time_need_steps_ahead(known: Walks) -> None:
    with pytest.raises(KnowledgeError, match="needs a sequence model with steps ahead"):
        small([Rises("end")], outputs=("end",), static=None).fit(known.x, known.whole[:, -1, :1])


# --- one seed, one program ---------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits(
    plain: PRBNNSequenceRegressor, known: Walks, fresh: Walks
) -> None:
    same, other = (
        small(random_state=seed).fit(known.x, known.y, static=known.rate) for seed in (0, 1)
    )
    wanted = plain.sample_functions(fresh.x, static=fresh.rate)
    assert np.array_equal(same.sample_functions(fresh.x, static=fresh.rate), wanted)
    assert not np.array_equal(other.sample_functions(fresh.x, static=fresh.rate), wanted)


def test_a_second_fit_of_the_same_shapes_compiles_nothing(
    plain: PRBNNSequenceRegressor, fresh: Walks
) -> None:
    plain.predict(fresh.x, static=fresh.rate)
    other = walks(TRAINED, 7)
    with compilations() as names:
        arrays = small(random_state=3, steps=500).fit(other.x, other.y, static=other.rate)
        arrays.predict(fresh.x[:7], static=fresh.rate[:7])
        table = small(**TABLE, tempering=0.5).fit(other.frame())
        table.predict(fresh.frame(HISTORY))
    assert names == []


def test_a_second_fit_with_other_numbers_in_its_rules_compiles_nothing(
    obedient: PRBNNSequenceRegressor,
) -> None:
    other = walks(TRAINED, 7)
    with compilations() as names:
        model = small(hard(10.1), steps=2500, random_state=1)
        model.fit(other.x, other.y, static=other.rate)
    assert names == []


def test_a_pickle_predicts_the_same_bits(obedient: PRBNNSequenceRegressor, fresh: Walks) -> None:
    copy = pickle.loads(pickle.dumps(obedient))
    assert np.array_equal(
        copy.predict(fresh.x, static=fresh.rate), obedient.predict(fresh.x, static=fresh.rate)
    )
    assert str(copy.knowledge_report_) == str(obedient.knowledge_report_)


def test_a_clone_has_the_same_parameters_and_nothing_learned(
    obedient: PRBNNSequenceRegressor,
) -> None:
    copy = clone(obedient)
    assert copy.get_params() == obedient.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


# --- long training -----------------------------------------------------------------------------


@pytest.mark.slow
def test_long_training_of_an_lstm_neither_breaks_nor_collapses(known: Walks, fresh: Walks) -> None:
    model = small(network=LSTM(units=6, hidden=()), steps=4000)
    model.fit(known.x, known.y, static=known.rate)
    history = model.solution_.history
    assert model.solution_.steps >= 2000
    assert np.all(np.isfinite(history.elbo))
    assert np.all(np.isfinite(model.posterior_.draws))
    assert np.all(explained(model, fresh) > 0.85)
    found = model.predict_all(fresh.x, static=fresh.rate)
    assert np.all(np.isfinite(found.total))
    # walks differ, so must what is said about them
    assert np.std(found.mean[:, -1, 0]) > 0.8 * np.std(fresh.y[:, -1, 0])


# --- engines -----------------------------------------------------------------------------------

# the quick ones differ in what they do with a network: sampled weights, masks, particles
SLOW = ("sghmc", "nuts", "laplace", "ensemble")
FITTING = tuple(name for name in ENGINES if name != "conjugate")
TINY = walks(24, 5)


def fits(engine: str, knowledge: Any = ()) -> PRBNNSequenceRegressor:
    model = small(knowledge, inference=engine, steps=30, points=8, draws=10, static=None)
    model.fit(TINY.x, TINY.y)
    functions = model.sample_functions(TINY.x)
    assert functions.shape == (len(model.posterior_), 24, AHEAD, 2)
    assert 1 <= len(functions) <= 10
    assert np.all(np.isfinite(functions))
    if len(functions) > 1:
        assert np.all(functions.std(axis=0) > 0)
    return model


def test_every_engine_is_here() -> None:
    assert set(ENGINES) == {
        "bbb",
        "conjugate",
        "dropout",
        "svgd",
        "ensemble",
        "laplace",
        "sghmc",
        "nuts",
    }


@pytest.mark.parametrize(
    "engine",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FITTING],
)
def test_every_engine_fits_sequences(engine: str) -> None:
    fits(engine)


def test_an_engine_that_needs_a_linear_last_layer_refuses_sequences() -> None:
    with pytest.raises(
        ValueError, match="'conjugate': it needs a network whose last layer is linear"
    ):
        fits("conjugate")


@pytest.mark.slow
@pytest.mark.parametrize("engine", FITTING)
def test_every_engine_takes_rules_along_time(engine: str) -> None:
    rules: list[Rule] = [
        Rises("height", observed=True).soft(3.0),
        Falls("load", lag=2).soft(3.0),
        RateBetween("height", -1, 1).soft(3.0),
        Continues("height", within=1).soft(3.0),
        Between(-20, 40, of="height - load", at=[1, 3]).soft(3.0),
        Score(lambda function, x: function(x, "height") - x["height"][-1] + 9).soft(3.0),
    ]
    report = fits(engine, rules).knowledge_report_
    assert len(report) == len(rules)
    assert all(np.isfinite(rule.violation) for rule in report)


@pytest.mark.slow
def test_any_network_of_a_row_will_do(known: Walks, fresh: Walks) -> None:
    model = small(hard()[:1], network=MLP((8,), "tanh"), steps=4000)
    model.fit(known.x, known.y, static=known.rate)
    assert np.all(explained(model, fresh) > 0.85)
    assert np.all(rises(model.sample_functions(fresh.x, static=fresh.rate)))


@pytest.mark.slow
def test_the_defaults_fit(known: Walks, fresh: Walks) -> None:
    model = PRBNNSequenceRegressor(steps=1500, random_state=0, verbose=False)
    model.fit(known.x, known.y, static=known.rate)
    assert model.get_params()["network"] is None
    assert np.all(explained(model, fresh) > 0.8)


# --- errors ------------------------------------------------------------------------------------


def refusal(make: Any) -> str:
    with pytest.raises(DataError) as caught:
        make()
    return str(caught.value)


def test_what_lies_ahead_must_be_given(known: Walks) -> None:
    told = refusal(lambda: small().fit(known.x))
    assert told == "give y, or id= and time= and one long table"


@pytest.mark.parametrize("left_out", [("id",), ("time",), ("history", "ahead"), tuple(TABLE)])
def test_a_long_table_needs_to_be_described(left_out: tuple[str, ...], known: Walks) -> None:
    given = {name: value for name, value in TABLE.items() if name not in left_out}
    told = refusal(lambda: small(**given).fit(known.frame()))
    assert told.startswith(f"a long table needs {', '.join(left_out)}: PRBNNSequenceRegressor(id=")


def test_a_long_table_holds_what_lies_ahead(known: Walks) -> None:
    told = refusal(lambda: small(**TABLE).fit(known.frame(), known.y))
    assert told == "a long table also holds the steps ahead; leave y out"


def test_faults_of_a_long_table_are_named(known: Walks) -> None:
    frame = known.frame()
    told = refusal(lambda: small(**{**TABLE, "time": "secnd"}).fit(frame))
    assert told == "no column 'secnd'; did you mean 'second'?"
    told = refusal(lambda: small(**TABLE).fit(pandas.concat([frame, frame[:1]])))
    assert told == "1 sequence(s) hold a time twice: w000; drop the repeated rows"


def test_another_number_of_variables_is_refused(
    plain: PRBNNSequenceRegressor, fresh: Walks
) -> None:
    told = refusal(lambda: plain.predict(fresh.x[..., :1], static=fresh.rate))
    assert told == "X has 1 variables, the model was fitted with 2: height, load"
    told = refusal(lambda: plain.predict(fresh.x))
    assert told == "X has 0 static numbers, the model was fitted with 1: rate"
    told = refusal(lambda: plain.predict(fresh.whole, static=fresh.rate))
    assert told == "X has 7 steps, and the model was fitted to 4"
    assert refusal(lambda: plain.predict(fresh.x[0])).startswith("X must be an array (sequences,")


def test_names_that_do_not_fit_the_data_are_refused(known: Walks) -> None:
    told = refusal(lambda: small(variables=("height",)).fit(known.x, known.y, known.rate))
    assert told == "2 variables in the data, but 1 names: height"
    told = refusal(lambda: small().fit(known.x, known.y))
    assert told == "0 static names in the data, but 1 names: rate"


@pytest.mark.parametrize(
    "ask", ["predict", "predict_all", "predict_quantiles", "sample_functions", "sample"]
)
def test_nothing_is_predicted_before_a_fit(ask: str, fresh: Walks) -> None:
    with pytest.raises(NotFittedError):
        getattr(small(), ask)(fresh.x)
