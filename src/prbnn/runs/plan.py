"""What is asked of a run, and the command that asks for it again."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from prbnn.data.encoding import Missing, checked
from prbnn.runs.names import join_names


@dataclass(frozen=True)
class RunPlan:
    """Everything that decides a run: the same plan on the same file makes the same models.

    - `categories`: columns of numbers that take only the values seen; text and yes/no always do
    - `classes`: the target's values are classes even where they are numbers
    - `held_out`: share of the rows that judge the model and do not train it
    - `plain`: whether the same network without knowledge is fitted beside it
    - `prove`: whether only draws that are proved to obey are stored
    """

    data: str
    target: str
    knowledge: str | None = None
    inputs: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: Missing = "error"
    classes: bool = False
    hidden: tuple[int, ...] | None = None
    engine: str = "bbb"
    noise: str = "learned"
    steps: int | None = None
    draws: int = 1000
    held_out: float = 0.2
    plain: bool = True
    prove: bool = False
    seed: int = 0
    categories: tuple[str, ...] = ()

    def command(self, out: str) -> str:
        """The command line that makes this run again.

        >>> RunPlan("sun.csv", "power", knowledge="rules.yaml", seed=3).command("run")
        'prbnn fit sun.csv --target power --knowledge rules.yaml --seed 3 --out run'
        """
        usual = asdict(RunPlan(self.data, self.target))
        words = ["prbnn", "fit", self.data, "--target", self.target]
        for name, value in asdict(self).items():
            if name in ("data", "target") or value == usual[name]:
                continue
            option = "--" + name.replace("_", "-")
            if isinstance(value, bool):
                words.append(option if value else f"--no-{option[2:]}")
            elif isinstance(value, tuple):
                words += [option, join_names(value)]
            else:
                words += [option, str(value)]
        return shlex.join([*words, "--out", out])

    def to_plain(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> RunPlan:
        """Back from a JSON file; a TypeError or ValueError says what is of the wrong kind."""
        return checked(RunPlan, plain)
