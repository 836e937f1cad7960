"""`prbnn knowledge` as a user types it: exit codes, what is said, and what is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

from prbnn import Compare
from prbnn.cli.main import app
from prbnn.rules.file.knowledge_file import knowledge_schema, read_knowledge

runner = CliRunner()


@pytest.fixture(autouse=True)
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pandas.DataFrame:
    """A table of a solar plant in the folder where commands run; power in row 3 is -2."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    sun, derate = generator.uniform(0, 1000, 60), np.arange(60) % 2
    power = sun / 10 * (1 - 0.3 * derate) + 1
    power[2] = -2
    table = pandas.DataFrame(
        {"site": "a", "sun": sun, "derate": derate, "rating": 110.0, "power": power}
    )
    table.to_csv("data.csv", index=False)
    return table


def command(*words: str, knowledge: str | None = None, code: int = 0) -> str:
    if knowledge is not None:
        Path("k.yaml").write_text(f"knowledge:\n{knowledge}")
    result = runner.invoke(app, ["knowledge", *words])
    assert result.exit_code == code, result.output
    return result.output


def check(knowledge: str, *words: str, code: int = 0) -> str:
    return command("check", "k.yaml", "data.csv", *words, knowledge=knowledge, code=code)


def data_line(output: str) -> str:
    return next(line for line in output.splitlines() if line.strip().startswith("data")).strip()


# --- check: what it says -------------------------------------------------------------------


def test_every_rule_is_told_in_words() -> None:
    output = check(
        "  - {name: floor, at_least: 0, where: {sun: [0, 900], derate: 1}, because: physics}\n"
        "  - {increasing: sun, strength: {soft: 10}}\n"
    )
    for line in (
        "1. floor",
        "says      power >= 0",
        "where     0 <= sun <= 900 and derate = 1",
        "strength  hard",
        "because   physics",
        "2. output rises with sun",
        "says      power rises with sun",
        "where     wherever the data are",
        "strength  soft 10",
        "No contradictions found.",
    ):
        assert line in output


def test_the_target_and_what_is_left_out_are_said() -> None:
    output = check("  - {at_least: 0}\n")
    assert "Target: power (the last column; choose another with --target)" in output
    assert "Note: site: left out, every row is 'a'" in output
    chosen = check("  - {at_least: 0}\n", "--target", "sun")
    assert "the last column" not in chosen
    assert "says      sun >= 0" in chosen


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("at_least: 0", r"1 of 60 rows breaks it, by 2: row 3 with power = -2"),
        ("at_most: rating", r"all 60 rows obey"),
        ("at_most: 0", r"59 of 60 rows break it, the worst by \d+\.?\d*: row \d+ with power = "),
        ("at_least: 0, where: {sun: [2000, 3000]}", r"no row is in its region"),
        ("one_of: [[0, 200], [-3, -1]]", r"all 60 rows obey"),
        ("at_least: 0, of: power - rating", r"60 of 60 rows break it"),
        (
            "increasing: sun",
            r"least squares slope 0.08\d* ± \S+, rank correlation 0.\d+; agrees",
        ),
        ("decreasing: sun", r"rank correlation 0.\d+; against the rule"),
        ("slope: {along: sun, between: [0.5, 1]}", r"against the rule"),
        ("slope: {along: sun, at_most: 0.001 * sun}", r"the limits depend on the inputs"),
        (
            "increasing: rating, where: {rating: [0, 200]}",
            r"cannot be checked on rows: too few rows, or",
        ),
        ("convex: sun", r"cannot be checked on rows$"),
        (
            "compare: {set: {derate: 1}, is: below, against: {derate: 0}}",
            r"mean power \S+ with derate=1 \(30 rows\) and \S+ with derate=0 \(30 rows\); agrees",
        ),
        (
            "compare: {set: {derate: 1}, is: above, against: {derate: 0}}",
            r"against the rule \(other",
        ),
        ("compare: {set: {derate: 2}, is: above, against: {derate: 0}}", r"no row has derate=2"),
        ("compare: {set: {sun: 2*sun}, is: above, against: {}}", r"cannot be checked on rows$"),
        (
            "combined: [{at_least: -9}, {convex: sun}]",
            r"output >= -9: all 60 rows obey; output is c",
        ),
    ],
)
def test_whether_the_data_agree_with_a_rule(rule: str, told: str) -> None:
    assert re.search(told, data_line(check(f"  - {{{rule}}}\n")))


def test_rows_keep_their_numbers_when_some_are_left_out(plant: pandas.DataFrame) -> None:
    plant.loc[0, "sun"] = np.nan
    plant.to_csv("data.csv", index=False)
    output = check("  - {at_least: 0}\n")
    assert "1 of 60 rows with missing values dropped" in output
    assert "1 of 59 rows breaks it, by 2: row 3 with power = -2" in output


def test_units_stand_behind_numbers() -> None:
    Path("k.yaml").write_text("units: {power: kW, snu: W}\nknowledge: [{at_least: 0}]")
    output = command("check", "k.yaml", "data.csv")
    assert "by 2 kW: row 3 with power = -2 kW" in output
    assert "Note: units name no column 'snu'; did you mean 'sun'?" in output


def test_the_findings_are_written_as_json() -> None:
    check(
        "  - {name: floor, at_least: 0}\n  - {name: roof, at_most: -5}\n",
        "--json",
        "out.json",
        code=3,
    )
    record = json.loads(Path("out.json").read_text())
    assert record["targets"] == ["power"]
    assert record["rows"] == 60
    floor, _ = record["rules"]
    assert floor["name"] == "floor"
    assert floor["data"]["broken"] == 1
    assert floor["data"]["worst"] == 3
    assert floor["data"]["worst_by"] == pytest.approx(2, rel=1e-4)
    assert record["conflicts"][0]["rules"] == ["floor", "roof"]
    assert record["conflicts"][0]["contradiction"] is True


def audited(output: str) -> str:
    return next(line for line in output.splitlines() if line.strip().startswith("audit")).strip()


def test_rows_that_noise_does_not_explain_are_listed_by_their_numbers() -> None:
    floor = "  - {name: floor, at_least: 0}\n"
    output = check(floor, "--noise", "0.1", "--json", "out.json")
    assert audited(output).endswith("(3.6 sd, of 60 rows): row 3 (by 2, 20.0 sd)")
    assert "Audit: 1 row breaks a rule by more than noise explains" in output
    assert "(noise stated: 0.1)" in output
    (finding,) = json.loads(Path("out.json").read_text())["audit"]["findings"]
    assert finding["rows"] == [3]
    assert finding["deviations"] == pytest.approx([20.0], rel=1e-3)
    loud = check(floor, "--noise", "5")
    assert audited(loud) == "audit     no violation beyond noise in 60 rows"
    assert "Audit: no row breaks a rule by more than noise explains (noise stated: 5)" in loud


def test_noise_is_estimated_where_none_is_stated() -> None:
    assert "noise estimated from the differences of neighbouring rows" in check(
        "  - {at_least: 0}\n"
    )


def test_noise_that_makes_no_sense_ends_with_code_2() -> None:
    assert "noise must be above 0" in check("  - {at_least: 0}\n", "--noise", "-1", code=2)


def test_classes_are_not_audited(plant: pandas.DataFrame) -> None:
    plant.assign(power=np.where(plant["power"] > 20, "high", "low")).to_csv("data.csv", index=False)
    assert "Audit" not in check("  - {at_least: 0.1}\n")


def test_numbers_can_be_classes(plant: pandas.DataFrame) -> None:
    """As in a fit: a rule is then about the probability of one."""
    plant.assign(power=(plant["power"] > 20).astype(int)).to_csv("data.csv", index=False)
    assert "Audit" in check("  - {at_least: 0.1}\n")
    told = check("  - {at_least: 0.1}\n", "--classes")
    assert "Audit" not in told
    assert "with 1 = 0" in told  # the class is the output


def test_a_new_file_of_classes_is_about_a_probability(plant: pandas.DataFrame) -> None:
    plant.assign(power=(plant["power"] > 20).astype(int)).to_csv("data.csv", index=False)
    command("new", "data.csv", "--classes", "--out", "classes.yaml")
    assert "What is known about 1 in data.csv" in Path("classes.yaml").read_text()
    command("new", "data.csv", "--out", "numbers.yaml")
    assert "What is known about power in data.csv" in Path("numbers.yaml").read_text()


def test_a_column_whose_name_holds_a_comma_can_be_dropped(plant: pandas.DataFrame) -> None:
    plant.insert(0, "flow, raw", plant["power"])
    plant.to_csv("data.csv", index=False)
    told = check("  - {at_least: 0, where: {sun: 1}}\n", "--drop", '"flow, raw"')
    assert "flow" not in told
    assert "no column 'flow'" in check("  - {at_least: 0}\n", "--drop", "flow, raw", code=2)


# --- check: exit codes ---------------------------------------------------------------------


def test_a_contradiction_ends_with_code_3_and_names_the_rules() -> None:
    output = check(
        "  - {name: floor, at_least: 0}\n  - {name: rise, increasing: sun}\n"
        "  - {name: roof, at_most: -5, where: {sun: [0, 500]}}\n",
        code=3,
    )
    assert "Contradiction: 'floor' and 'roof' cannot hold together: at sun=" in output


def test_a_soft_conflict_is_a_note() -> None:
    output = check("  - {at_least: 0}\n  - {at_most: -5, strength: {soft: 1}}\n")
    assert "Note: 'output >= 0' and 'output <= -5' cannot hold together" in output


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("{name: a, increasing: snu}", "Error: rule 'a': no column 'snu'; did you mean 'sun'?"),
        ("{name: a, at_least: 0, where: {snu: 1}}", "no column 'snu'; did you mean 'sun'?"),
        ("{name: a, at_least: 2 * snu}", "did you mean 'sun'?"),
        ("{name: a, at_least: 0, of: powr}", "did you mean 'power'?"),
        ("{name: a, falls: power}", "a rule along time needs a sequence model with steps ahead"),
        ("{name: a, between: [1, 0]}", "lower is above upper"),
    ],
)
def test_a_rule_that_does_not_fit_the_data_ends_with_code_2(rule: str, told: str) -> None:
    output = check(f"  - {rule}\n  - {{name: b, at_least: -9}}\n", code=2)
    assert told in output
    assert "Error: rule 'a': " in output
    assert "2. b" in output


def test_a_mistake_in_the_file_ends_with_code_2_and_shows_its_line() -> None:
    output = check("  - {at_lest: 0}\n", code=2)
    assert "k.yaml:2: rule 1: does not say what should hold; did you mean 'at_least'?" in output


def test_files_that_cannot_be_read_end_with_code_2() -> None:
    assert "none.yaml: cannot be read" in command("check", "none.yaml", "data.csv", code=2)
    Path("k.yaml").write_text("knowledge:")
    assert "there is no file none.csv" in command("check", "k.yaml", "none.csv", code=2)
    Path("empty.csv").write_text("")
    assert "empty.csv is empty" in command("check", "k.yaml", "empty.csv", code=2)
    Path("text.csv").write_text("a,b\nx,y\n")
    assert "no input column is left" in command("check", "k.yaml", "text.csv", code=2)
    Path("short.csv").write_text("a,b\n1,2\n")
    assert "at least 2 complete rows" in command("check", "k.yaml", "short.csv", code=2)


def test_a_target_that_is_not_there_is_told_with_the_nearest_name() -> None:
    assert "no column 'powr'; did you mean 'power'?" in check(
        "  - {at_least: 0}\n", "--target", "powr", code=2
    )


def test_several_targets() -> None:
    output = check("  - {at_least: 0, of: sun}\n", "--target", "sun", "--target", "power")
    assert "all 60 rows obey" in output


# --- new -----------------------------------------------------------------------------------


def test_a_new_file_passes_check_and_holds_no_rules() -> None:
    assert "Written: first.yaml" in command("new", "data.csv", "--out", "first.yaml")
    assert read_knowledge("first.yaml").rules == ()
    assert "holds no rules yet" in command("check", "first.yaml", "data.csv")


def uncommented(text: str) -> str:
    return re.sub(r"^  # (- |  )", r"  \1", text, flags=re.MULTILINE)


def test_every_rule_that_a_new_file_suggests_can_be_taken() -> None:
    command("new", "data.csv", "--target", "power")
    text = Path("knowledge.yaml").read_text()
    Path("knowledge.yaml").write_text(uncommented(text))
    labels = [rule.label for rule in read_knowledge("knowledge.yaml")]
    assert labels == ["within reach", "more sun more power", "derate lowers power"]
    output = command("check", "knowledge.yaml", "data.csv")
    assert "against the rule" not in output
    assert "all 60 rows obey" in output


def test_categories_are_exchanged_and_never_switched_on_alone(plant: pandas.DataFrame) -> None:
    """Sites a, b and c in turn; c gives the most and b the least."""
    site = np.arange(len(plant)) % 3
    named = plant.assign(
        site=np.array(["a", "b", "c"])[site], power=np.array([3.0, 1.0, 5.0])[site]
    )
    named.to_csv("data.csv", index=False)
    command("new", "data.csv", "--target", "power")
    text = Path("knowledge.yaml").read_text()
    assert "power and site: 1 on average where site=b, 5 where site=c" in text
    Path("knowledge.yaml").write_text(uncommented(text))
    rules = [rule for rule in read_knowledge("knowledge.yaml") if rule.label.startswith("site")]
    assert rules == [
        Compare(
            {"site=c": 1, "site=b": 0},
            above={"site=c": 0, "site=b": 1},
            where={"site=a": 0},
            name="site=c above site=b",
        )
    ]


def test_a_new_file_lists_what_was_seen() -> None:
    command("new", "data.csv")
    text = Path("knowledge.yaml").read_text()
    assert re.search(r"#   derate  is 0, 1\n", text)
    assert re.search(r"#   power   -2 to \d+\.?\d*  \(the target\)\n", text)


def test_columns_with_odd_names_do_not_break_a_new_file(plant: pandas.DataFrame) -> None:
    odd = {"sun": "on: {sun}", "derate": "NO", "power": "power [kW] #1"}
    plant.rename(columns=odd).to_csv("data.csv", index=False)
    command("new", "data.csv")
    Path("knowledge.yaml").write_text(uncommented(Path("knowledge.yaml").read_text()))
    assert len(read_knowledge("knowledge.yaml")) == 3
    command("check", "knowledge.yaml", "data.csv")


def test_a_file_that_is_there_is_not_overwritten() -> None:
    Path("knowledge.yaml").write_text("mine")
    assert "is there already" in command("new", "data.csv", code=2)
    assert Path("knowledge.yaml").read_text() == "mine"


# --- schema --------------------------------------------------------------------------------


def test_the_schema_is_printed_or_written() -> None:
    assert json.loads(command("schema")) == knowledge_schema()
    command("schema", "--out", "schema.json")
    assert json.loads(Path("schema.json").read_text()) == knowledge_schema()


def test_columns_that_cannot_be_read_can_be_left_out(plant: pandas.DataFrame) -> None:
    plant.assign(wind=["1.5"] * 59 + ["calm"]).to_csv("data.csv", index=False)
    # the last column is the target unless another is named
    told = check("  - {at_least: 0}\n", "--target", "power", code=2)
    assert "column 'wind' holds numbers, and text in 1 row(s): 'calm' in row 60" in told
    check("  - {at_least: 0}\n", "--target", "power", "--drop", "wind")
