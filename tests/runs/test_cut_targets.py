"""Censored and truncated targets from a file to a folder and back, and mistakes in the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

from prbnn import Gaussian
from prbnn.cli.main import app
from prbnn.errors import DataError
from prbnn.report.page import write_report
from prbnn.runs.applying import watched
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import prepare_run
from prbnn.runs.reporting import report_subject
from prbnn.runs.run import Run, fit_run, open_run

RULES = """
knowledge:
  - {name: cap, at_most: 3.5}
  - {name: floor, at_least: 4.5, where: {load: [9, 10]}, strength: {soft: 0.001}}
"""


def table() -> pandas.DataFrame:
    """Flows that read at most 5, of which the last row is known to half a unit."""
    generator = np.random.default_rng(0)
    load = generator.uniform(0, 10, 80)
    flow = 1 + 0.5 * load + generator.normal(0, 0.3, 80)
    words = np.where(flow > 5, "at least", "exact").astype(object)
    words[-1], flow[-1] = "between", 2.0
    upper = np.where(words == "between", 2.5, np.nan)
    parts = {"load": load, "flow": np.minimum(flow, 5), "reading": words, "flow_high": upper}
    return pandas.DataFrame(parts)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> RunPlan:
    made = tmp_path_factory.mktemp("plant")
    table().to_csv(made / "plant.csv", index=False)
    (made / "rules.yaml").write_text(RULES.replace("3.5", "9"))
    return RunPlan(
        str(made / "plant.csv"),
        "flow",
        str(made / "rules.yaml"),
        hidden=(8,),
        steps=300,
        draws=40,
        plain=False,
        censored="reading",
        upper="flow_high",
        truncated="-2:",
    )


@pytest.fixture(scope="module")
def run(plan: RunPlan, short_race: None) -> Run:
    done = fit_run(prepare_run(plan), lambda _: None, False)
    done.save(Path(plan.data).parent / "run")
    return done


@pytest.mark.light
def test_the_run_keeps_what_is_known(run: Run, plan: RunPlan) -> None:
    again = open_run(Path(plan.data).parent / "run")
    assert again.plan == plan
    assert again.encoding.inputs == ("load",)
    words, _ = again.intervals.words()
    assert words[:, 0].tolist() == table()["reading"].tolist()
    assert again.intervals.high[-1, 0] == 2.5
    assert again.model.likelihood == Gaussian(truncated=(-2, None))
    fitted = again.model.posterior_.columns.intervals
    assert len(fitted.low) == (~again.held_out).sum()
    assert (~fitted.exact).sum() == (~again.exact[~again.held_out]).sum()
    inputs, _, which = again.scored_rows()
    assert (which, len(inputs)) == ("held-out", (again.held_out & again.exact).sum())
    assert again.scores == run.scores
    assert any("censored in some rows" in note for note in again.notes)
    assert "--censored reading --upper flow_high --truncated -2:" in plan.command("run")


def test_the_report_scores_exact_rows(run: Run, tmp_path: Path) -> None:
    subject = report_subject(run)
    assert np.all(run.exact[subject.scored_rows])
    assert np.all(run.exact[subject.looked_at])
    write_report(subject, tmp_path)
    assert "censored in some rows" in (tmp_path / "report.html").read_text()


def test_watched_rows_break_a_rule_if_their_interval_does(run: Run, tmp_path: Path) -> None:
    """A row that reads 4 "at least" at a load of 9.5 obeys a floor of 4.5, one that reads 4 does not."""
    new = pandas.DataFrame(
        {
            "load": [9.5, 9.5, 9.5, 3.0],
            "flow": [4.0, 4.0, 10.0, 2.5],
            "reading": ["at least", "exact", "at least", "exact"],
            "flow_high": [np.nan] * 4,
        }
    )
    new.to_csv(tmp_path / "new.csv", index=False)
    found = watched(run, tmp_path / "new.csv", false_alarms=0.2)
    assert found.table["broken_rules"].tolist() == ["", "floor", "cap", ""]
    assert found.table["surprise"].isna().tolist() == [True, False, True, False]
    assert not found.table["flagged"][[0, 2]].any()
    assert any("2 censored rows have no surprise" in note for note in found.notes)


MISTAKES = {
    "no such column": ({"censored": "readin"}, "no column 'readin'; did you mean 'reading'"),
    "upper alone": ({"censored": None}, "--upper goes with --censored"),
    "no upper": (
        {"upper": None, "drop": ("flow_high",)},
        "'reading'.*row 80 of 'flow' is 'between'",
    ),
    "an input": ({"inputs": ("load", "reading")}, "'reading' says what is known of the target"),
    "a window": ({"truncated": "2:"}, r"row \d+ of 'flow' is .*outside \(2.0, inf\)"),
}


@pytest.mark.parametrize(("changes", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_before_a_fit(plan: RunPlan, changes: dict, words: str) -> None:
    with pytest.raises(DataError, match=words):
        prepare_run(replace(plan, **changes))


def test_a_strange_word_is_named_by_its_row_in_the_file(plan: RunPlan, tmp_path: Path) -> None:
    rows = table()
    rows.loc[4, "reading"] = "above"
    rows.to_csv(tmp_path / "plant.csv", index=False)
    with pytest.raises(DataError, match="column 'reading'.*row 5 of 'flow' is 'above'"):
        prepare_run(replace(plan, data=str(tmp_path / "plant.csv")))


def test_knowledge_check_reads_the_same_columns(plan: RunPlan, tmp_path: Path) -> None:
    """Rows that read "at least 5" agree with a floor of 5.2, rows that read 5 do not."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("knowledge:\n  - {name: high, at_least: 5.2, where: {load: [9.2, 10]}}\n")
    options = ["knowledge", "check", str(rules), plan.data, "--target", "flow", "--noise", "0.01"]
    rows = int((table()["load"] >= 9.2).sum())
    told = CliRunner().invoke(app, [*options, "--censored", "reading", "--upper", "flow_high"])
    assert told.exit_code == 0, told.output
    assert f"all {rows} rows obey" in told.output
    ignored = CliRunner().invoke(app, [*options, "--drop", "reading,flow_high"])
    assert f"{rows} of {rows} rows break it" in ignored.output
    assert f"{rows} rows break it by more than noise explains" in ignored.output
