"""Runs a part of the tests on the oldest and the newest versions that pyproject.toml allows.

``python .ci/versions.py`` (or ``make test-versions``) makes one environment per combination under
.versions/, and prints which were tested, which failed and which could not be run for want of a Python.
Interpreters are found on PATH, under ~/.pyenv/versions and in PYTHONS (paths separated by colons).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".versions"
# Python, and the file of pins; without one the newest versions that are allowed
COMBINATIONS = (
    ("3.11", "constraints-oldest.txt"),
    ("3.11", ""),
    ("3.12", ""),
    ("3.13", ""),
)
SMOKE = (
    "tests/rules/file",
    "tests/rules/test_expressions.py",
    "tests/rules/test_expressions_refused.py",
    "tests/data",
    "tests/system",
    "tests/hostile",
    "tests/saving/test_models.py",
    "tests/cli/test_commands.py",
    "tests/runs/test_runs.py",
    "tests/report/test_page.py",
)
# other versions deprecate other things; make test has warnings as errors with the pinned ones
WARNINGS = ("-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning")
SHOWN = ("jax", "numpy", "pandas", "scikit-learn", "pydantic")


def interpreters() -> dict[str, str]:
    """Every Python that runs, by its version such as 3.12."""
    found: dict[str, str] = {}
    for path in _candidates():
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found.setdefault(done.stdout.strip(), path)
    return found


def _candidates() -> Iterator[str]:
    yield from filter(None, os.environ.get("PYTHONS", "").split(":"))
    yield sys.executable
    for version in sorted({version for version, _ in COMBINATIONS}):
        yield from filter(None, [shutil.which(f"python{version}")])
    yield from map(str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"), reverse=True))


def run(*command: str | Path) -> int:
    """The exit status of a command, which runs in the root and says what it says."""
    print("$", *command, flush=True)
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=False).returncode


def attempt(python: str, version: str, pins: str, tests: tuple[str, ...]) -> str:
    """What came of one combination, in words."""
    folder = PLACE / f"{version}-{'oldest' if pins else 'newest'}"
    own = folder / "bin" / "python"
    if run(python, "-m", "venv", folder):
        return "FAILED: no environment could be made"
    constraint = ("-c", pins) if pins else ()
    pip = (own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    upgrade = () if pins else ("--upgrade", "--upgrade-strategy", "eager")
    if run(*pip, *upgrade, *constraint, "-e", ".[dev]"):
        return "FAILED: could not be installed"
    listed = subprocess.run(
        [own, "-m", "pip", "freeze"], capture_output=True, text=True, check=False
    ).stdout
    versions = [found[0] for name in SHOWN if (found := re.search(rf"(?m)^{name}==.*$", listed))]
    failed = run(own, "-m", "pytest", "-q", *WARNINGS, "-m", "not slow", *tests)
    return f"{'FAILED' if failed else 'passed'} with {', '.join(versions)}"


def main() -> None:
    """Test every combination that this machine has an interpreter for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="such as 3.12-newest or 3.11-oldest")
    parser.add_argument("tests", nargs="*", help="instead of the usual part of the tests")
    arguments = parser.parse_args()
    known, lines = interpreters(), []
    for version, pins in COMBINATIONS:
        name = f"{version}-{'oldest' if pins else 'newest'}"
        if arguments.only not in (None, name):
            lines.append((name, "left out by --only"))
        elif version not in known:
            lines.append((name, f"NOT RUN: there is no Python {version} on this machine"))
        else:
            tests = tuple(arguments.tests) or SMOKE
            lines.append((name, attempt(known[version], version, pins, tests)))
    print("\n".join(f"{name:<14}{what}" for name, what in lines))
    sys.exit(any("FAILED" in what for _, what in lines))


if __name__ == "__main__":
    main()
