"""A regressor refuses mistakes by column, rule or argument, before any training."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pandas
import pytest
from sklearn.exceptions import NotFittedError

from prbnn import (
    MLP,
    AtLeast,
    Between,
    Compare,
    DataError,
    Increasing,
    KnowledgeError,
    OneOf,
    PRBNNRegressor,
    Score,
    SlopeBetween,
    StudentT,
)
from tests.estimators.problems import NAMES, ROWS, Table, small, table_of

# short fits say that their budget was spent, and are right
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_the_guard_against_training_guards(untrained: None, table: Table) -> None:
    for tempering in (0.2, "auto"):
        with pytest.raises(pytest.fail.Exception, match="training began"):
            small(tempering=tempering).fit(table.inputs, table.target)


def with_value(value: float | str, column: str = "dose") -> pandas.DataFrame:
    inputs, _ = table_of().pandas
    if isinstance(value, str):
        return inputs.assign(**{column: value})
    inputs.loc[3, column] = value
    return inputs


def target_with(value: float) -> pandas.Series:
    _, target = table_of().pandas
    target[3] = value
    return target


INPUTS, TARGET = table_of().pandas

BAD_DATA = {
    "NaN in X": (with_value(np.nan), TARGET, "'dose'.*NaN"),
    "inf in X": (with_value(np.inf, "wind speed"), TARGET, "'wind speed'.*inf"),
    "NaN in bare X": (with_value(np.nan).to_numpy(), TARGET, "'x0'.*NaN"),
    "NaN in y": (INPUTS, target_with(np.nan), "'power'.*NaN"),
    "inf in y": (INPUTS, target_with(-np.inf), "'power'.*inf"),
    "text in X": (with_value("calm"), TARGET, "'dose' holds .*not numbers"),
    "text in y": (INPUTS, ["calm"] * ROWS, "y must hold numbers"),
    "lengths": (INPUTS, TARGET[:10], "40 rows.*10"),
    "no rows": (INPUTS[:0], TARGET[:0], "0 rows"),
    "no columns": (INPUTS[[]], TARGET, "0 columns"),
    "one row": (INPUTS[:1], TARGET[:1], "at least 2 rows"),
    "constant target": (INPUTS, TARGET * 0 + 3, "'power' has no variance.*3"),
    "one dimension": (TARGET, TARGET, "reshape"),
    "no target": (INPUTS, None, "requires y"),
    "no inputs": (None, TARGET, "both x and y"),
}


@pytest.mark.parametrize(("inputs", "target", "words"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_are_refused_by_column(untrained: None, inputs, target, words: str) -> None:
    with pytest.raises(DataError, match=f"(?s){words}"):
        small().fit(inputs, target)


BAD_WEIGHTS = {
    "too few": np.ones(3),
    "negative": np.full(ROWS, -1.0),
    "not finite": np.full(ROWS, np.nan),
    "all zero": np.zeros(ROWS),
}


@pytest.mark.parametrize("weight", BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_bad_weights_are_refused(untrained: None, weight: np.ndarray) -> None:
    with pytest.raises(DataError, match="sample_weight"):
        small().fit(INPUTS, TARGET, sample_weight=weight)


def test_a_target_that_the_weights_make_constant_is_refused(untrained: None) -> None:
    target = np.r_[np.ones(20), np.arange(20)]
    with pytest.raises(DataError, match="'y' has no variance"):
        small().fit(INPUTS, target, sample_weight=np.r_[np.ones(20), np.zeros(20)])


BAD_RULES = {
    "unknown column": ([Increasing("doze")], "'output rises with doze'.*did you mean 'dose'"),
    "unknown column in where": (
        [AtLeast(0, name="floor", where={"doze": (0, 1)})],
        "rule 'floor'.*did you mean 'dose'",
    ),
    "unknown column in text": (
        [AtLeast("2 * doze", name="floor")],
        "rule 'floor'.*did you mean 'dose'",
    ),
    "unknown column in back-quotes": (
        [AtLeast("2 * `wind sped`", name="floor")],
        "rule 'floor'.*did you mean 'wind speed'",
    ),
    "unknown column in a comparison": (
        [Compare({"doze": 1}, below={"doze": 0}, name="less")],
        "rule 'less'.*did you mean 'dose'",
    ),
    "unknown column in a callable": (
        [AtLeast(lambda x: x["doze"], name="floor")],
        "rule 'floor'.*'doze'.*dose",
    ),
    "unknown output": ([AtLeast(0, of="powr")], "powr.*did you mean 'power'"),
    "lower above upper": ([Between(1, 0, name="band")], "rule 'band'.*lower is above upper"),
    "lower above upper somewhere": (
        [Between("dose", 0.5, name="band")],
        "rule 'band'.*lower is above upper.*dose=",
    ),
    "slopes the wrong way round": (
        [SlopeBetween("dose", 2, 1, name="slope")],
        "rule 'slope'.*lower is above upper",
    ),
    "interval the wrong way round": (
        [OneOf([(0, 1), (3, 2)], name="bands")],
        "rule 'bands'.*lower is above upper",
    ),
    "a call": ([AtLeast("__import__('os')", name="floor")], "rule 'floor'.*not allowed"),
    "an attribute": ([AtLeast("dose.real", name="floor")], "rule 'floor'.*not allowed"),
    "half a formula": ([AtLeast("2 *", name="floor")], "rule 'floor'.*formula"),
    "not finite": ([AtLeast("log(dose - 5)", name="floor")], "rule 'floor'.*not finite.*dose="),
    "a step too long": ([Increasing("dose", over=5.0, name="rise")], "rule 'rise'.*step of 5"),
    "not a rule": (["power > 0"], "list of rules.*'power > 0'"),
    "one rule, not a list": (AtLeast(0, name="floor"), "list of rules.*floor"),
    "a score of one's own": (
        [Score(lambda function, x: function(x) - x["doze"], name="own")],
        "rule 'own'.*did you mean 'dose'",
    ),
    "a score with an if": (
        [Score(lambda function, x: 1.0 if function(x) > 0 else 0.0, name="own")],
        "rule 'own'.*if",
    ),
}


@pytest.mark.parametrize(("rules", "words"), BAD_RULES.values(), ids=BAD_RULES)
def test_bad_rules_are_refused_by_name(untrained: None, rules, words: str) -> None:
    with pytest.raises(KnowledgeError, match=f"(?s){words}"):
        small(rules).fit(INPUTS, TARGET)


def test_a_rule_among_several_outputs_must_say_which(untrained: None) -> None:
    targets = pandas.DataFrame({"power": TARGET, "loss": -TARGET})
    with pytest.raises(KnowledgeError, match=r"rule 'floor'.*power, loss.*of="):
        small([AtLeast(0, name="floor")]).fit(INPUTS, targets)


BAD_DECLARATIONS: dict[str, tuple[Callable, str]] = {
    "empty range": (lambda: AtLeast(0, where={"dose": (1, 0)}), "'dose'.*empty"),
    "empty region": (lambda: AtLeast(0, where=[]), "empty region"),
    "soft weight of 0": (lambda: AtLeast(0).soft(0), "soft weight must be above 0, got 0"),
    "soft weight below 0": (lambda: AtLeast(0).soft(-1), "soft weight must be above 0, got -1"),
    "p of 0": (lambda: AtLeast(0).probably(0), "p between 0 and 1.*got 0"),
    "p of 1": (lambda: AtLeast(0).probably(1), "p between 0 and 1.*got 1"),
    "p above 1": (lambda: AtLeast(0).probably(1.5), "p between 0 and 1.*got 1.5"),
    "tolerance": (lambda: AtLeast(0).hard(-1), "tolerance must be 0 or above, got -1"),
    "bound": (lambda: AtLeast(np.nan), "bound must be a finite number.*nan"),
    "activation": (lambda: MLP((8,), "rleu"), "activation must be one of relu.*'rleu'"),
    "width": (lambda: MLP((0,)), "hidden holds whole numbers above 0"),
}


@pytest.mark.parametrize(("declare", "words"), BAD_DECLARATIONS.values(), ids=BAD_DECLARATIONS)
def test_bad_declarations_are_refused_where_they_are_written(declare, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        declare()


def two_outputs(key: jax.Array, inputs: int, outputs: int) -> object:
    return MLP((8,)).build(key, inputs, outputs + 1)


def three_inputs(key: jax.Array, inputs: int, outputs: int) -> object:
    return MLP((8,)).build(key, inputs + 1, outputs)


BAD_SETTINGS = {
    "tempering of 0": ({"tempering": 0}, "tempering.*got 0"),
    "tempering below 0": ({"tempering": -0.2}, "tempering.*got -0.2"),
    "tempering of nan": ({"tempering": np.nan}, "tempering.*got nan"),
    "tempering misspelt": ({"tempering": "atuo"}, "tempering.*'auto'.*'atuo'"),
    "steps of 0": ({"steps": 0}, "steps.*above 0, got 0"),
    "steps below 0": ({"steps": -5}, "steps.*above 0, got -5"),
    "half a step": ({"steps": 1.5}, "steps.*whole number.*got 1.5"),
    "draws of 0": ({"draws": 0}, "draws.*above 0, got 0"),
    "points of 0": ({"points": 0}, "points.*above 0, got 0"),
    "batch of 0": ({"batch_size": 0}, "batch_size.*above 0, got 0"),
    "scaling": ({"scaling": "standrd"}, "scaling must be 'standard'.*'standrd'"),
    "inference": ({"inference": "bb"}, "inference must be one of bbb.*'bb'"),
    "no engine": ({"inference": 3}, "inference.*got 3"),
    "noise misspelt": ({"noise": "lerned"}, "noise.*'learned'.*'lerned'"),
    "noise of 0": ({"noise": 0.0}, "noise must be above 0"),
    "likelihood by name": ({"likelihood": "poisson"}, r"StudentT\(\) or Poisson\(\).*'poisson'"),
    "likelihood without brackets": ({"likelihood": StudentT}, r"StudentT\(\).*got <class"),
    "noise twice": ({"likelihood": StudentT(), "noise": 0.1}, r"noise=0.1 .*StudentT\(noise=0.1\)"),
    "network's outputs": ({"network": two_outputs}, r"network must map .*\(2,\) to \(1,\)"),
    "network's inputs": ({"network": three_inputs}, "network failed on one input"),
    "output names": ({"output_names": ["a", "b"]}, "1 columns but 2 output names"),
    "seed below 0": ({"random_state": -1}, "random_state.*-1"),
    "seed beyond 32 bits": ({"random_state": 2**32}, "random_state.*4294967296"),
}


@pytest.mark.parametrize(("options", "words"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_are_refused_by_argument(untrained: None, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small(**options).fit(INPUTS, TARGET)


def test_a_network_that_is_none_is_refused(untrained: None) -> None:
    with pytest.raises(TypeError, match=r"network must have build.*got 3"):
        small(network=3).fit(INPUTS, TARGET)


@pytest.mark.parametrize(
    "method", ["predict", "predict_all", "predict_quantiles", "sample_functions", "sample"]
)
def test_prediction_before_fitting_is_refused(method: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(small(), method)(INPUTS)


BAD_ROWS = {
    "missing column": (lambda frame: frame[["dose"]], "missing: .*'wind speed'"),
    "extra column": (lambda frame: frame.assign(sun=1.0), "unseen at fit time: .*'sun'"),
    "renamed column": (
        lambda frame: frame.rename(columns={"dose": "doze"}),
        "unseen.*'doze'.*missing.*'dose'",
    ),
    "other order": (lambda frame: frame[NAMES[::-1]], "same order.*'dose', 'wind speed'"),
    "too few columns": (lambda frame: frame.to_numpy()[:, :1], "1 features.*expecting 2"),
    "NaN": (lambda frame: frame.assign(dose=np.nan), "'dose'.*40 NaN"),
    "text": (lambda frame: frame.assign(dose="calm"), "'dose' holds"),
    "one dimension": (lambda frame: frame["dose"], "reshape"),
}


@pytest.fixture(scope="module")
def named() -> PRBNNRegressor:
    """Knows its columns by name, as `plain` does not."""
    return small().fit(INPUTS, TARGET)


@pytest.mark.parametrize(("change", "words"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_unlike_those_of_the_fit_are_refused(
    named: PRBNNRegressor, change: Callable, words: str
) -> None:
    with pytest.raises(DataError, match=f"(?s){words}"):
        named.predict(change(INPUTS))


# --- numbers at the edges ------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e40, 1e300, -1e25])
def test_inputs_beyond_float32_are_refused_by_every_prediction(
    plain: PRBNNRegressor, far: float
) -> None:
    rows = [[0.5, 0.5], [0.5, far]]
    routes = (
        plain.predict,
        plain.predict_all,
        plain.predict_quantiles,
        plain.sample_functions,
        plain.sample,
        lambda x: plain.posterior_.log_density(np.array(x), np.zeros(2)),
    )
    for route in routes:
        with pytest.raises(
            DataError, match=r"row 1 \(from 0\) has .* in column 'x1', and the fit saw"
        ):
            route(rows)


def test_a_target_beyond_float32_is_only_surprising(plain: PRBNNRegressor) -> None:
    density = plain.posterior_.log_density(np.full((2, 2), 0.5), np.array([0.7, 1e40]))
    assert np.isfinite(density[0])
    assert density[1] == -np.inf


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_weights_at_the_edges_of_numbers_are_refused(table: Table, size: float) -> None:
    with pytest.raises(DataError, match="largest sample_weight"):
        small().fit(table.inputs, table.target, sample_weight=np.full(ROWS, size))


def test_masked_arrays_are_refused_at_fit_and_prediction(
    plain: PRBNNRegressor, table: Table
) -> None:
    masked = np.ma.array(table.inputs, mask=table.inputs > 0.9)
    with pytest.raises(DataError, match="masked"):
        small().fit(masked, table.target)
    with pytest.raises(DataError, match="masked"):
        plain.predict(masked)
