"""Names of columns that hold commas, from a command line to a plan and back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from prbnn.cli.fit_command import plan_of
from prbnn.runs.plan import RunPlan

ASKED: dict[str, Any] = {
    "data": Path("pump.csv"),
    "target": "flow",
    "knowledge": None,
    "hidden": "",
    "noise": "learned",
    "engine": "bbb",
}


@pytest.mark.parametrize("names", [("wind",), ("head, total [m]", "wind"), ('5" pipe', "a, b")])
def test_a_command_asks_for_the_plan_that_wrote_it(names: tuple[str, ...]) -> None:
    words = shlex.split(
        RunPlan("pump.csv", "flow", drop=names, inputs=names, categories=names).command("run")
    )
    said = {name: words[words.index(f"--{name}") + 1] for name in ("drop", "inputs", "categories")}
    plan = plan_of(**ASKED, **said)
    assert (plan.drop, plan.inputs) == (names, names)
