"""The knowledge file: what it says, what is told about mistakes in it, and that it reads back equal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rules.every_rule import any_rule, words

import prbnn
from prbnn import AtLeast, AtMost, Compare, Increasing, KnowledgeError, Score
from prbnn.rules.file.grammar import KINDS
from prbnn.rules.file.knowledge_file import (
    KnowledgeFile,
    knowledge_schema,
    parse_knowledge,
    read_knowledge,
    write_knowledge,
)
from prbnn.rules.file.parts import STRENGTHS
from prbnn.rules.file.plain import from_plain, to_plain

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = jsonschema.Draft202012Validator(knowledge_schema())

EXAMPLE = """\
units: {irradiance: W/m2, power: kW}
knowledge:
  - {name: never negative, at_least: 0}
  - name: below nameplate
    at_most: "1.02 * rating"
    strength: {probably: 0.99}
    because: "inverter's plate"
  - {name: more sun more power, increasing: irradiance, where: {irradiance: [0, 1200]}}
  - name: derate lowers power
    compare: {set: {derate: 1}, is: below, against: {derate: 0}, by: 0}
    strength: {soft: 10}
"""


def refusal(text: str) -> str:
    with pytest.raises(KnowledgeError) as caught:
        parse_knowledge(text, "k.yaml")
    return str(caught.value)


# --- reading -------------------------------------------------------------------------------


def test_the_example_of_the_design_says_what_python_says(tmp_path: Path) -> None:
    file = tmp_path / "knowledge.yaml"
    file.write_text(EXAMPLE)
    read = read_knowledge(file)
    assert read.units == {"irradiance": "W/m2", "power": "kW"}
    assert list(read) == [
        AtLeast(0, name="never negative"),
        AtMost("1.02 * rating", name="below nameplate", because="inverter's plate").probably(0.99),
        Increasing("irradiance", name="more sun more power", where={"irradiance": (0, 1200)}),
        Compare({"derate": 1}, below={"derate": 0}, name="derate lowers power").soft(10),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e4", 1e4), ("1E-3", 1e-3), (".5", 0.5), ("010", 10), ("-3", -3), ("'1e4'", "1e4")],
)
def test_numbers_are_read_as_people_write_them(text: str, value: Any) -> None:
    (rule,) = parse_knowledge(f"knowledge: [{{at_least: {text}}}]").rules
    assert rule == AtLeast(value)
    assert type(rule.bound) is type(value)  # type: ignore[attr-defined]


def test_columns_may_have_names_that_yaml_takes_for_something_else() -> None:
    text = "knowledge:\n  - at_least: 0\n    where: {NO: [0, 1], on: 1, 2020: 3, null: 4, y: 5}"
    (rule,) = parse_knowledge(text).rules
    assert rule.where == {"NO": (0, 1), "on": 1, "2020": 3, "null": 4, "y": 5}


def test_a_file_whose_rules_are_all_commented_out_has_none() -> None:
    assert parse_knowledge("knowledge:\n#  - {at_least: 0}\n") == KnowledgeFile()


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "knowledge.yaml"
    file.write_bytes(b"\xef\xbb\xbfknowledge:\r\n  - {at_least: 0}\r\n")
    assert read_knowledge(file).rules == (AtLeast(0),)


# --- mistakes ------------------------------------------------------------------------------


def test_a_mistake_is_shown_with_file_line_and_place() -> None:
    text = "knowledge:\n  - {at_least: 0}\n  - name: roof\n    at_most: 3\n    wher: {x: 1}\n"
    assert refusal(text) == (
        "k.yaml:5: rule 'roof': wher: is not a word of at_most; did you mean 'where'?\n"
        "    5 |     wher: {x: 1}\n"
        "            ^"
    )


def test_every_mistake_is_told_at_once() -> None:
    message = refusal("knowledge:\n  - {at_lest: 0}\n  - {increasing: 3}\nunts: {}\n")
    assert [line for line in message.splitlines() if line.startswith("k.yaml")] == [
        "k.yaml:2: rule 1: does not say what should hold; did you mean 'at_least'?",
        "k.yaml:3: rule 2: increasing: needs text, got 3; write it in quotes",
        "k.yaml:4: unts: is not a word of the file; did you mean 'units'?",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "k.yaml: the file is empty; a knowledge file starts with"),
        ("# nothing yet\n", "k.yaml: the file is empty"),
        ("- {at_least: 0}", "k.yaml:1: the file is a list; a knowledge file starts with"),
        ("units: {}", "k.yaml:1: knowledge: is missing"),
        (
            "knowlege: []",
            "k.yaml:1: knowlege: is not a word of the file; did you mean 'knowledge'?",
        ),
        ("knowledge: {at_least: 0}", "k.yaml:1: knowledge: needs a list, got"),
        ("knowledge:\n  - at_least 0", "k.yaml:2: rule 1: needs a rule such as {at_least: 0}, got"),
        (
            "knowledge:\n  - {at_least: 0, at_most: 1}",
            "k.yaml:2: rule 1: says at_least and at_most",
        ),
        (
            "knowledge:\n  - {name: a}",
            "k.yaml:2: rule 'a': does not say what should hold; needs one",
        ),
        (
            "knowledge:\n  - at_least: 0\n    at_least: 1",
            "k.yaml:3: 'at_least' is written twice, first on line 2",
        ),
        (
            "knowledge:\n  - {name: a, at_least: 0}\n  - {name: a, at_most: 1}",
            "k.yaml:3: the rule on line 2 is called 'a', too",
        ),
        ("knowledge:\n\t- at_least: 0", "k.yaml:2: a tab; YAML is indented with spaces"),
        ("knowledge:\n  - name: a: b", "k.yaml:2: a colon where none can be; put text that holds"),
        ("knowledge:\n  - {at_least: 0", "k.yaml:2: cannot be read as YAML: "),
        ("knowledge:\n  - {at_least: 2 *}", "k.yaml:2: rule 1: at_least: Expression refused: "),
        (
            "knowledge:\n  - at_least: `wind speed`",
            "k.yaml:2: found character '`' that cannot start",
        ),
        (
            "knowledge:\n  - {at_least: 0, strength: {probably: 2}}",
            "k.yaml:2: rule 1: probably(p) needs p between",
        ),
        (
            "knowledge:\n  - {at_least: 0,\n     where: {x: [2, 1]}}",
            "k.yaml:3: rule 1: where: where['x'] is empty",
        ),
        (
            "knowledge:\n  - combined:\n    - {at_least: 0}\n    - {at_mots: 1}",
            "k.yaml:4: rule 1: combined.1: does not",
        ),
        (
            "knowledge: &all\n  - {at_least: 0}",
            "k.yaml:1: anchors (&) and aliases (*) are not read",
        ),
        (
            "knowledge:\n  - {at_least: !!python/object:os.system x}",
            "k.yaml:2: tags (!) are not read",
        ),
        ("knowledge: []\n---\nknowledge: []", "k.yaml:2: a second document"),
        ("knowledge:\n  - {[1]: 0}", "k.yaml:2: a key must be a word"),
        (
            "units: {power: 1}\nknowledge: []",
            "k.yaml:1: units.power: needs text, got 1; write it in quotes",
        ),
        ("[" * 3000, "k.yaml:1: nested more than 30 deep"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_would_be_right(text: str, told: str) -> None:
    assert refusal(text).startswith(told)


NINES = "9" * 400
HOSTILE = {
    "too large": "knowledge:\n" + "  - {at_least: 0}\n" * 600_000,
    "one long word": "knowledge: " + "a" * 190_000,
    "deep lists": "knowledge: " + "[" * 90_000 + "]" * 90_000,
    "deep regions": f"knowledge: [{{at_least: 0, where: {'[' * 200}{{x: 1}}{']' * 200}}}]",
    "deep parts": f"knowledge: [{'{combined: [' * 100}{{at_least: 0}}{']}' * 100}]",
    "an alias bomb": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nknowledge: *c",
    "a number of 400 digits": f"knowledge: [{{at_least: {NINES}}}]",
    "a number of 5000 digits": f"knowledge: [{{at_least: {'9' * 5000}}}]",
    "a text of 400 digits": f"knowledge: [{{equals: 0, within: '{NINES}'}}]",
    "a number beyond floats": "knowledge: [{at_least: 1e999}]",
    "a range of 400 digits": f"knowledge: [{{at_least: 0, where: {{x: [0, {NINES}]}}}}]",
    "a weight of 400 digits": f"knowledge: [{{at_least: 0, strength: {{soft: {NINES}}}}}]",
    "a lag of 400 digits": f"knowledge: [{{falls: x, lag: {NINES}}}]",
    "NUL": "knowledge: [\0]",
    "nothing": "",
    "mistakes without end": "knowledge:\n" + "  - {at_leat: 0}\n" * 5_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_would_take_memory_or_time_without_end_are_refused(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(HOSTILE[name])
    with pytest.raises(KnowledgeError) as told:
        read_knowledge(path)
    assert str(path) in str(told.value)
    # no more than anybody reads
    assert len(str(told.value)) < 20_000


def test_plain_values_of_400_digits_are_refused() -> None:
    for plain in ({"at_least": int(NINES)}, {"equals": 0, "within": int(NINES)}):
        with pytest.raises(KnowledgeError, match="needs a"):
            from_plain(plain)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match="is a folder"):
        read_knowledge(tmp_path)
    if Path("/dev/zero").exists():
        with pytest.raises(KnowledgeError, match="more than 200,000 bytes"):
            read_knowledge("/dev/zero")


def test_a_file_that_is_not_there_or_not_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match=r"none.yaml: cannot be read \(No such file"):
        read_knowledge(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"knowledge: [{name: \xe9, at_least: 0}]")
    with pytest.raises(KnowledgeError, match="latin.yaml: is not UTF-8 text"):
        read_knowledge(tmp_path / "latin.yaml")


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("knowledge:-{}[],at_least: 0\n\t 'x&*!#|>%@`?"), max_size=60))
def test_no_text_makes_reading_fail_in_another_way(text: str) -> None:
    try:
        read = parse_knowledge(text)
    except KnowledgeError:
        return
    assert isinstance(read, KnowledgeFile)


# --- writing -------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(
    st.lists(any_rule, max_size=4, unique_by=lambda rule: rule.name or id(rule)),
    st.dictionaries(words, words, max_size=3),
)
def test_everything_written_reads_back_equal(rules: list, units: dict) -> None:
    read = parse_knowledge(write_knowledge(rules, units))
    assert list(read.rules) == rules
    assert read.units == units


@settings(max_examples=100, deadline=None)
@given(any_rule)
def test_other_readers_of_yaml_see_the_same(rule: Any) -> None:
    """Text that YAML 1.1 would take for a number, a date or a truth value is in quotes."""
    assert yaml.safe_load(write_knowledge([rule])) == {"knowledge": [to_plain(rule)]}


def test_short_rules_take_one_line_and_long_ones_a_line_a_key() -> None:
    short, long = AtLeast(0, name="floor"), AtMost(1, name="roof", because="because " * 12)
    assert write_knowledge([short, long], {"power": "kW"}).splitlines() == [
        "units: {power: kW}",
        "knowledge:",
        "  - {name: floor, at_least: 0}",
        "  - name: roof",
        "    at_most: 1",
        "    because: '" + "because " * 12 + "'",
    ]


def test_writing_a_callable_names_the_rule() -> None:
    with pytest.raises(KnowledgeError, match="rule 'mine': .*callables live in Python only"):
        write_knowledge([Score(lambda function, x: function(x), name="mine")])


# --- the schema ----------------------------------------------------------------------------


def test_the_published_schema_is_current() -> None:
    published = json.loads((DOCS / "knowledge.schema.json").read_text())
    assert published == knowledge_schema(), (
        "run: prbnn knowledge schema --out docs/knowledge.schema.json"
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(any_rule, max_size=3), st.dictionaries(words, words, max_size=2))
def test_the_schema_accepts_whatever_is_written(rules: list, units: dict) -> None:
    text = write_knowledge(rules, units)
    SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"knowledge": [{"at_lest": 0}]},
        {"knowledge": [{"at_least": 0, "wher": {}}]},
        {"knowledge": [{"at_least": 0, "strength": "soft"}]},
        {"knowledge": [{"increasing": 3}]},
        {"knowledge": [{"at_least": 0, "at_most": 1}]},
    ],
)
def test_the_schema_refuses_what_reading_refuses(wrong: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate(wrong)


# --- the page ------------------------------------------------------------------------------

PAGE = (DOCS / "knowledge-file.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_of_the_page_is_read(block: str) -> None:
    read = parse_knowledge(block, "knowledge-file.md")
    assert len(read) > 0
    assert parse_knowledge(write_knowledge(read.rules, read.units)) == read


def test_the_page_has_an_example_of_every_kind_and_strength() -> None:
    said = [to_plain(rule) for block in BLOCKS for rule in parse_knowledge(block)]
    assert set(KINDS) <= {key for plain in said for key in plain}
    strengths = [plain["strength"] for plain in said if "strength" in plain]
    assert {key for strength in strengths for key in strength} >= {*STRENGTHS, "power", "of"}


@pytest.mark.parametrize(
    ("python", "text"),
    re.findall(r"^\| `([A-Z]\w+\([^`]*\))` \| `(\w+: [^`]*)` \|$", PAGE, flags=re.MULTILINE),
)
def test_the_table_of_kinds_says_the_same_on_both_sides(python: str, text: str) -> None:
    (rule,) = parse_knowledge(f"knowledge: [{{{text}}}]").rules
    assert rule == eval(python, vars(prbnn))


@pytest.mark.parametrize(
    ("python", "text"),
    re.findall(r"^\| `(\.\w+\([^`]*\))` \| `(strength: [^`]*)`", PAGE, flags=re.MULTILINE),
)
def test_the_table_of_strengths_says_the_same_on_both_sides(python: str, text: str) -> None:
    (rule,) = parse_knowledge(f"knowledge: [{{at_least: 0, {text}}}]").rules
    assert rule == eval(f"AtLeast(0){python}", vars(prbnn))
