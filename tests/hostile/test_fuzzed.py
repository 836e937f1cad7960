"""Cases that are nearly valid, by the grammars of `benchmarks/fuzz.py`; hypothesis makes them smaller."""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random

import pytest
from benchmarks.fuzz import Bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hostile.targets import PARSERS, models, read_knowledge

from prbnn.data.files import read_file
from prbnn.errors import KnowledgeError
from prbnn.rules.expressions import ExpressionError, parse
from prbnn.rules.file.knowledge_file import parse_knowledge

pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
TEXTS = ("expressions", "knowledge", "tables")
QUICK = {"max_examples": 60, "deadline": None, "derandomize": True}
LONG = {"max_examples": 3_000, "deadline": None}
CHOICES = st.randoms(use_true_random=False)
TO_SUPPRESS = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
    HealthCheck.large_base_example,
]


def feed(parser: str, choices: Random, folder: Path) -> None:
    make, read = PARSERS[parser]
    read(make(choices), folder)


@pytest.mark.parametrize("parser", TEXTS)
@settings(**QUICK, suppress_health_check=TO_SUPPRESS)
@given(choices=CHOICES)
def test_a_case_is_read_or_refused(parser: str, choices: Random, tmp_path: Path) -> None:
    feed(parser, choices, tmp_path)


@pytest.mark.parametrize("parser", TEXTS)
def test_cases_of_few_bytes_come_to_an_end(parser: str, tmp_path: Path) -> None:
    """As `benchmarks/fuzz.py --guided` makes them."""
    # what still has a chance after the last byte would happen for ever
    assert Bytes(b"").random() > 0.99
    for length in range(20):
        feed(parser, Bytes(bytes(length)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("parser", TEXTS)
@settings(**LONG, suppress_health_check=TO_SUPPRESS)
@given(choices=CHOICES)
def test_many_cases_are_read_or_refused(parser: str, choices: Random, tmp_path: Path) -> None:
    feed(parser, choices, tmp_path)


@settings(**{**QUICK, "max_examples": 15}, suppress_health_check=TO_SUPPRESS)
@given(choices=CHOICES)
def test_a_changed_model_is_read_or_refused(choices: Random, tmp_path: Path) -> None:
    feed("models", choices, tmp_path)


@pytest.mark.slow
@settings(**LONG, suppress_health_check=TO_SUPPRESS)
@given(choices=CHOICES)
def test_many_changed_models_are_read_or_refused(choices: Random, tmp_path: Path) -> None:
    feed("models", choices, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS)
def test_seeded_cases_are_read_or_refused(parser: str, tmp_path: Path) -> None:
    """The cases of `benchmarks/fuzz.py` from a seed that its own runs do not use."""
    for number in range(2_000 if parser == "models" else 20_000):
        feed(parser, Random(10**15 + number), tmp_path)


@pytest.mark.parametrize("parser", TEXTS)
def test_grammars_make_what_is_valid_and_what_is_not(parser: str, tmp_path: Path) -> None:
    """A grammar that made only nonsense would test nothing but the first check."""
    make, read = PARSERS[parser]
    outcomes = [read(make(Random(number)), tmp_path) for number in range(300)]
    assert 0.1 < sum(outcomes) / len(outcomes) < 0.6


def test_the_models_are_whole_before_they_are_changed(tmp_path: Path) -> None:
    read = PARSERS["models"][1]
    assert all(read(content, tmp_path) for _, _, content in models())


# ---- what fuzzing has found -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["1if x else 2", "0x1For x", "x + 2and y", "1_000in x", ".5else 1"]
)
def test_a_number_stuck_to_a_word_is_refused_without_a_warning(text: str) -> None:
    """Python reads 1if as 1 if, and warns its user about it."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(ExpressionError, match="is not a number"):
            parse(text)
    assert not seen


@pytest.mark.parametrize(
    "text",
    ["0x1F", "1_000", "1e-5", "1E+5", ".5", "5.", "0b11", "x1 + 2", "1e5*x", "0xe-5", "`1if`"],
)
def test_numbers_as_python_has_them_are_read(text: str) -> None:
    parse(text)


def test_escapes_of_two_halves_are_one_character() -> None:
    """JSON, which is YAML, writes characters beyond the first plane so."""
    (rule,) = parse_knowledge('knowledge: [{name: "\\ud83d\\ude00", at_least: 0}]').rules
    assert rule.name == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('knowledge: [{name: "\\U00110000", at_least: 0}]', "cannot be read as YAML"),
        (f"%YAML {'9' * 4400}.1\n---\nknowledge: []", "cannot be read as YAML"),
        ('knowledge: [{name: "\\ud800", at_least: 0}]', "half a character"),
        ('units: {"\\udfff": kW}\nknowledge: []', "half a character"),
    ],
)
def test_escapes_that_are_no_characters_are_refused(text: str, told: str) -> None:
    with pytest.raises(KnowledgeError, match=told):
        parse_knowledge(text)


@pytest.mark.parametrize(
    "text",
    [
        "knowledge: [" + "{incr}, " * 300 + "]",
        "knowledge:\n" + f"  - {{at_least: 0, ? {'a' * 3000} : 1}}\n" * 50,
        "knowledge:\n" + f"  - {{name: {'a' * 3000}, at_leas: 1}}\n" * 50,
        f"knowledge: [{{increasing: x, where: {{{'a' * 9000}: [2, 1]}}}}]",
        f"knowledge: [{{at_least: 0, {'a' * 900}: 1, {'a' * 900}: 2}}]",
    ],
    ids=lambda text: text[:40],
)
def test_errors_are_short_however_long_names_and_lists_are(text: str, tmp_path: Path) -> None:
    assert not read_knowledge(text, tmp_path)
    with pytest.raises(KnowledgeError) as told:
        parse_knowledge(text)
    assert len(str(told.value)) < 13_000
    assert str(told.value).startswith("knowledge:")


def test_infinities_have_no_median_and_no_warning(tmp_path: Path) -> None:
    from prbnn.cli.data_command import _line

    path = tmp_path / "t.csv"
    path.write_text("x,y\ninf,1\n-inf,2\n")
    assert _line(read_file(path)[0]["x"], "x")["values"] == "-inf to inf, median nan"
