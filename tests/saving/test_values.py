"""Plain values and declarations: what comes back equals what was written, and of the same type."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prbnn import MLP, RBF, BayesByBackprop, Gaussian, ModelFileError, Normal, StudentT
from prbnn.assessment.audit import Audit, Finding
from prbnn.assessment.knowledge_report import KnowledgeReport, RuleReport
from prbnn.data.layout import Layout
from prbnn.fitting.result import Moves, Result
from prbnn.fitting.tempering import Chosen
from prbnn.inference import ENGINES
from prbnn.posterior.diagnostics import Diagnostics
from prbnn.saving.declarations import DECLARATIONS, from_json, to_json

numbers = st.floats(1e-3, 1e3)
declarations = st.one_of(
    st.builds(MLP, st.lists(st.integers(1, 9), max_size=3), st.sampled_from(["relu", "tanh"])),
    st.builds(RBF, st.integers(1, 9)),
    st.builds(Normal, st.floats(-1, 1), numbers),
    st.builds(Gaussian, st.one_of(numbers, st.just("by input"))),
    st.builds(StudentT, numbers, st.floats(2.5, 9)),
    st.builds(BayesByBackprop, st.integers(1, 9), numbers, numbers, st.none() | numbers),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.integers(-9, 9).map(np.int32),
    st.booleans().map(np.bool_),
    declarations,
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.floats(allow_nan=False), inner, max_size=4)
    ),
    max_leaves=12,
)


def there_and_back(value):
    return from_json(json.loads(json.dumps(to_json(value, "noise"), allow_nan=False)), {})


def same(left, right) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, float | np.floating):
        return (left == right and math.copysign(1, left) == math.copysign(1, right)) or left != left
    return left == right


@settings(max_examples=200, deadline=None)
@given(values)
def test_values_come_back_as_they_were(value):
    assert same(there_and_back(value), value)


RULE = RuleReport(
    "rising", "hard", 0.1, 1, 1024, 0.25, 0.0, math.inf, "met", "physics", 0.25, math.inf
)
RECORDS = (
    Layout(("height", "load"), 4, ("mass",), ("height",), 3),
    Result("budget spent", "give more steps", ("rising",)),
    RULE,
    Finding("floor", (3, 4), (0.5, math.inf), (5.0, 6.0), ((3, 9), (4, 9)), 12, "2 rows"),
    Audit((Finding("floor"),), (0.1,), "estimated"),
    KnowledgeReport((RULE, RULE), 0.5, 0.2, "converged", (10, 20)),
    Diagnostics(4, math.inf, 12.5, 3, 0.8),
    Chosen(0.5, {1.0: -0.25, 0.5: 0.125}),
    Moves("floor", 0.25, 0.1, 3.5),
)


@pytest.mark.parametrize("name", DECLARATIONS)
def test_every_type_of_the_list_comes_back(name):
    made = {type(record).__name__: record for record in RECORDS}
    value = made[name] if name in made else DECLARATIONS[name]()
    assert there_and_back(value) == value


def test_every_engine_is_known_by_its_name():
    assert set(ENGINES.values()) <= set(DECLARATIONS.values())


def test_names_in_arrays_become_lists():
    assert to_json(np.array(["a", "b"]), "outputs") == ["a", "b"]


class Mine(MLP):
    """Not the library's, whatever its parent."""


def test_what_json_cannot_say_is_noted_as_to_be_supplied():
    assert to_json(Mine(), "network") == {"supply": "network", "was": "Mine"}
    noted = to_json(lambda key, inputs, outputs: None, "network")
    assert noted["was"].endswith("<lambda>")
    assert from_json(noted, {"network": 5}) == 5


def test_a_parameter_that_cannot_be_said_nor_supplied_is_refused():
    with pytest.raises(ModelFileError, match="parameter 'verbose' is of type object"):
        to_json(object(), "verbose")


def test_only_types_of_the_list_are_made():
    for name in ("Popen", "os.system", "MLPP", "Mine"):
        with pytest.raises(ModelFileError, match=f"type {name!r} that this version does not know"):
            from_json({"type": name, "args": "ls"}, {})
