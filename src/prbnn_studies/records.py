"""Records of what was measured: the rows of a study's tables, with what produced them.

A record is one JSON file in ``records/``, with ``commit``, ``command``, ``machine``, ``date`` and
``results``: nested mappings of the numbers that the tables show, unrounded. ``make tables`` writes the
tables and numbers of the pages from these files (`prbnn_studies.pages`).
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any

from prbnn.runs.records import write_record as write_json
from prbnn.system.environment import processor, version_of
from prbnn.system.strict_json import parse_json

# options that say where to write, and so are no part of what was measured
OUTPUT_OPTIONS = ("--record", "--json", "--out", "--cache")


@dataclass(frozen=True)
class Record:
    """One run of a study or benchmark.

    ``measured`` is empty where the command wrote the record itself. Otherwise it says where the
    numbers come from, and the pages say so, too.
    """

    commit: str
    command: str
    machine: str
    date: str
    results: dict[str, Any]
    measured: str = ""

    def at(self, path: str) -> Any:
        """The number at a path of keys with slashes between.

        >>> Record("", "", "", "", {"PR-BNN": {"mse": 0.0018}}).at("PR-BNN/mse")
        0.0018
        """
        return reduce(lambda found, key: found[key], path.split("/"), self.results)

    def origin(self) -> str:
        """A sentence for a page: how, when and on what machine the numbers were measured."""
        before = f" {self.measured}" if self.measured else ""
        return (
            f"*Measured{before} by `{self.command}` at commit {self.commit}, {self.date}, on "
            f"{self.machine}.*"
        )


def add_option(parser: ArgumentParser) -> None:
    """Give a benchmark the option ``--record FILE``."""
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the numbers of the tables, with commit, command and machine, to this file",
    )


def read_record(path: Path) -> Record:
    """The record in a file."""
    return Record(**parse_json(path.read_bytes()))


def write_record(path: Path | None, results: dict[str, Any]) -> None:
    """Write the results of the command that is running, with what produced them; no path, no file."""
    if path is None:
        return
    found = Record(_commit(), command_line(sys.argv), _machine(), str(date.today()), results)
    write_json(path, {key: value for key, value in asdict(found).items() if value != ""})


def command_line(arguments: Sequence[str]) -> str:
    """The command as a reader would type it: no options for output, no folders of this machine.

    >>> command_line(["/venv/bin/prbnn", "study", "uci", "--data", "/home/me/data", "--json", "a.json"])
    'prbnn study uci --data data'
    >>> command_line(["prbnn", "study", "tables", "--cache", "a.jsonl"])
    'prbnn study tables'
    >>> command_line(["benchmarks/proofs.py", "--seeds", "10"])
    'python benchmarks/proofs.py --seeds 10'
    """
    program, *rest = arguments
    script = Path(program)
    words = ["python", f"benchmarks/{script.name}"] if script.suffix == ".py" else [script.name]
    skip = False
    for word in rest:
        if not (skip or word.startswith(OUTPUT_OPTIONS)):
            words.append(Path(word).name if Path(word).is_absolute() else word)
        skip = word in OUTPUT_OPTIONS
    return shlex.join(words)


def _commit() -> str:
    """The commit of the checkout that this file is in; "+" follows where files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", ":/src", ":/benchmarks")
    return git("rev-parse", "--short=7", "HEAD") + ("+" if changed else "") or "unknown"


def _machine() -> str:
    """Processor, cores and versions in words; the accelerator where JAX has one."""
    import jax

    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()
    device = jax.devices()[0]
    accelerator = "" if device.platform == "cpu" else f", {device.device_kind}"
    return (
        f"{cores} cores of {processor()}{accelerator} (Python {platform.python_version()}, "
        f"JAX {version_of('jax')})"
    )
