"""The settings of a run, and the command that repeats it."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from prbnn.data.encoding import Missing, checked
from prbnn.runs.names import join_names


@dataclass(frozen=True)
class RunPlan:
    """The settings of a run: the same plan and the same file give the same models.

    - `categories`: columns of numbers that take only the values seen; text and yes/no columns always do
    - `classes`: the target's values are classes even where they are numbers
    - `held_out`: fraction of the rows that are held out of training to score the model
    - `plain`: whether the same network is also fitted without knowledge
    - `prove`: whether only draws that are proved to obey the hard rules are stored
    - `censored`, `upper`: columns with the words that say which targets are censored, and with the upper
      ends of those that are between
    - `truncated`: the window in which targets were recorded, as "low:high" with either left out
    """

    data: str
    target: str
    knowledge: str | None = None
    inputs: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: Missing = "error"
    classes: bool = False
    hidden: tuple[int, ...] | None = None
    engine: str = "auto"
    noise: str = "learned"
    steps: int | None = None
    draws: int = 500
    held_out: float = 0.2
    plain: bool = True
    prove: bool = False
    seed: int = 0
    categories: tuple[str, ...] = ()
    censored: str | None = None
    upper: str | None = None
    truncated: str | None = None

    @property
    def window(self) -> tuple[float | None, float | None] | None:
        """The window of `truncated`; text that is none raises ValueError.

        >>> RunPlan("flow.csv", "flow", truncated="0:").window
        (0.0, None)
        """
        if self.truncated is None:
            return None
        low, colon, high = self.truncated.partition(":")
        if not colon:
            raise ValueError(f"a window is low:high, such as 0: or 0:100, got {self.truncated!r}")
        return (float(low) if low.strip() else None, float(high) if high.strip() else None)

    def command(self, out: str) -> str:
        """The command line that repeats this run, with the folder ``out``.

        >>> RunPlan("sun.csv", "power", knowledge="rules.yaml", seed=3).command("run")
        'prbnn fit sun.csv --target power --knowledge rules.yaml --seed 3 --out run'
        """
        defaults = asdict(RunPlan(self.data, self.target))
        words = ["prbnn", "fit", self.data, "--target", self.target]
        for name, value in asdict(self).items():
            if name in ("data", "target") or value == defaults[name]:
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
        """Plain values for a JSON file."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> RunPlan:
        """The plan again from ``plain`` values; a wrong type raises TypeError or ValueError."""
        return checked(RunPlan, plain)
