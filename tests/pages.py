"""Pages as their readers meet them: blocks of code run in order, with what they are said to print."""

import contextlib
import io
import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from prbnn.cli.main import app

WIDTH = {"COLUMNS": "120"}
# ```text, or ```{.text .wrap} where long lines should wrap
FENCE = re.compile(r"^```(?:\{\.)?(\w*)[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


class Block(NamedTuple):
    """Code of a page; `printed` is the text block that follows, if there is one."""

    code: str
    printed: str | None


def blocks(page: Path, language: str) -> list[Block]:
    found = [*FENCE.findall(page.read_text()), ("", "")]
    return [
        Block(code, said if kind == "text" else None)
        for (own, code), (kind, said) in itertools.pairwise(found)
        if own == language
    ]


def run_python(code: str, space: dict, name: str) -> str:
    """What the code prints; its names stay in ``space``."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), space)
    return printed.getvalue()


class Ran(NamedTuple):
    """One command of a shell block; a stretch of others than prbnn counts as one."""

    command: str
    output: str
    exit_code: int


def run_shell(code: str, folder: Path, more: Mapping[str, str]) -> Iterator[Ran]:
    """Commands in order; ``more`` maps the first words of a command to words put at its end."""
    for is_prbnn, lines in itertools.groupby(
        code.splitlines(), lambda line: line.startswith("prbnn ")
    ):
        if not is_prbnn:
            yield _bash("\n".join(lines), folder)
            continue
        for line in lines:
            words = shlex.split(line)[1:]
            for first, others in more.items():
                if line.startswith(first):
                    words += shlex.split(others)
            # in this process: imports and compiled programs serve every command
            result = CliRunner().invoke(app, words, env=WIDTH)
            yield Ran(line, result.output, result.exit_code)


def _bash(code: str, folder: Path) -> Ran:
    done = subprocess.run(
        ["bash", "-ec", code], cwd=folder, capture_output=True, text=True, check=False
    )
    return Ran(code, done.stdout + done.stderr, done.returncode)


def words(text: str) -> list[str]:
    """What is left of an output where numbers, rules of tables and widths may differ.

    >>> words("flow  1.2e-05 | 3 rows") == words("flow 7 | 10 rows")
    True
    """
    return NUMBER.sub("#", re.sub(r"[^\w\s.,;:=<>%'`()/-]|-{2,}", " ", text)).split()
