"""Puts small defects into the package, one at a time, and counts those that no test notices.

Run `make coverage`, then `python benchmarks/mutants.py` (or `make mutants`). A seeded sample of the
mutants of `mutations.py` is drawn over `PACKAGES`. Each is written into a copy of the commit, where the
tests run that pass through the changed line (coverage says which they are): those of the same package
first, quick ones before slow ones, until one fails or `--seconds` of their processor time are spent.
Every thirtieth run is a control without a change, which has to pass. A process forked after the imports
runs them, with programs of XLA kept between mutants.

A mutant is alive where every test that ran has passed. `mutants_explained.json` says of those that were
looked at why no test can notice them, or why none needs to.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any

from mutations import Mutant, mutants

ROOT = Path(__file__).parents[1]
PACKAGES = ("rules", "enforcement", "inference", "certify")
EXPLAINED = Path(__file__).with_name("mutants_explained.json")
CONTROL_EVERY = 30
# packages whose import takes long, and which no mutant changes. Not blackjax: importing it computes,
# and a process that is forked after that waits for threads it does not have
IMPORTED = ("pytest", "jax", "jax.numpy", "jax.scipy", "equinox", "optax", "scipy.stats", "pandas")
IMPORTED += (
    "pydantic",
    "yaml",
    "typer",
    "rich",
    "hypothesis",
    "beartype",
    "narwhals",
    "sklearn.base",
)
IMPORTED += ("sklearn.utils.estimator_checks", "safetensors", "scipy.optimize")
LONGEST = 600  # seconds by the clock, of a mutant that waits for something


class Tests:
    """Which tests pass through a line, and how long each takes."""

    def __init__(self, coverage_file: Path, times: Path):
        from coverage import CoverageData

        self.seconds: dict[str, float] = {}
        for line in times.read_text().splitlines():
            one = json.loads(line)
            if one["passed"]:
                self.seconds[one["test"]] = one["seconds"]
        self.data = CoverageData(str(coverage_file))
        self.data.read()
        self.files = {
            path.split("/src/prbnn/")[1]: path for path in sorted(self.data.measured_files())
        }
        self.of_file: dict[str, dict[int, list[str]]] = {}

    def through(self, mutant: Mutant) -> list[str]:
        """Tests in the order in which they should run."""
        if mutant.file not in self.of_file:
            path = self.files.get(mutant.file)
            self.of_file[mutant.file] = self.data.contexts_by_lineno(path) if path else {}
        by_line = self.of_file[mutant.file]
        first, last = mutant.lines
        found = {test for line in range(first, last + 1) for test in by_line.get(line, ())}
        if "" in found:  # it runs when the module is imported, and may matter to every test of it
            found |= {test for tests in by_line.values() for test in tests}
        package = mutant.file.split("/")[0]
        near = (f"tests/{package}/", f"src/prbnn/{package}/")
        return sorted(
            (test for test in found if test in self.seconds),
            key=lambda test: (not test.startswith(near), self.seconds[test], test),
        )

    def within(self, found: list[str], seconds: float) -> list[str]:
        """As many as take no longer than this; at least three."""
        chosen: list[str] = []
        for test in found:
            # each needs some time around it
            seconds -= self.seconds[test] + 0.01
            if seconds < 0 and len(chosen) > 2:
                break
            chosen.append(test)
        return chosen


class Failures:
    """A plugin of pytest that notes the first test that failed."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.first:
            self.first = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.first:
            self.first = f"import of {report.nodeid}"


def run_tests(tests: list[str], copy: Path, cpu: int, told: Any) -> None:
    """In a process of its own: run tests of the copy, and tell what came of them."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
    words = os.open(copy.parent / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(words, 1)
    os.dup2(words, 2)
    os.chdir(copy)
    sys.path[:0] = [str(copy / "src"), str(copy)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    import pytest

    failures = Failures()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*options, *tests], plugins=[failures])
    told.send(("survived" if status == 0 else "killed", failures.first))
    told.close()
    os._exit(0)


def outcome(tests: list[str], expected: float, copy: Path) -> tuple[str, str]:
    """What came of running the tests: killed, survived or timeout; and the test that failed."""
    context = multiprocessing.get_context("fork")
    hear, tell = context.Pipe(duplex=False)
    cpu = 20 + int(5 * expected)
    process = context.Process(target=run_tests, args=(tests, copy, cpu, tell))
    process.start()
    tell.close()
    found = ("", "")
    with suppress(EOFError):
        found = hear.recv() if hear.poll(LONGEST) else ("timeout", "")
    process.join(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    if found[0]:
        return found
    out_of_time = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
    return ("timeout", "") if out_of_time else ("killed", f"ended with {process.exitcode}")


def copied(folder: Path) -> Path:
    """The files of the commit that is checked out, compiled so that a change of one is noticed."""
    archive = folder / "commit.tar"
    subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
    copy = folder / "copy"
    shutil.unpack_archive(archive, copy)
    words = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", copy / "src")
    subprocess.run([sys.executable, *words], check=True)
    return copy


def prepare(cache: Path) -> None:
    """Everything that children share: imports, and where programs of XLA are kept."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(cache)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in IMPORTED:
        importlib.import_module(name)


def named(path: Path) -> Iterator[tuple[str, Mutant]]:
    """Every mutant of a module; its name stays while its line does."""
    source, seen = path.read_text(), Counter[str]()
    file = path.relative_to(ROOT / "src" / "prbnn").as_posix()
    lines, offsets = (
        source.splitlines(),
        list(accumulate(map(len, source.encode().splitlines(True)))),
    )
    for one in mutants(file, source):
        column = one.place[0] - ([0, *offsets])[one.line - 1]
        name = f"{file}: {lines[one.line - 1].strip()} [{column}: {one.change}]"
        seen[name] += 1
        yield name + (f" ({seen[name]})" if seen[name] > 1 else ""), one


def sample(size: int, seed: int) -> list[tuple[str, Mutant]]:
    """Mutants drawn over all packages, each with its name."""
    paths = [
        path
        for package in PACKAGES
        for path in sorted((ROOT / "src" / "prbnn" / package).rglob("*.py"))
    ]
    return random.Random(seed).sample([one for path in paths for one in named(path)], size)


def summary(done: list[dict[str, Any]], explained: dict[str, str]) -> dict[str, Any]:
    """Counts over all mutants, by package and by kind; and those alive, with why."""
    of = [one for one in done if one["kind"] != "control"]
    counted: dict[str, Any] = {"mutants": len(of)}
    ends = Counter(one["outcome"] for one in of)
    for end in ("killed", "timeout", "survived"):
        counted[end] = ends[end]
    alive = [one for one in of if one["outcome"] == "survived"]
    told = [one for one in alive if one["name"] in explained]
    counted["alive"] = len(alive) / max(len(of), 1)
    counted["explained"] = len(told)
    counted["alive and not explained"] = (len(alive) - len(told)) / max(len(of), 1)
    controls = [one for one in done if one["kind"] == "control"]
    counted["controls"] = len(controls)
    counted["controls that failed"] = sum(one["outcome"] != "survived" for one in controls)
    for key in ("package", "kind"):
        parts: dict[str, Counter] = defaultdict(Counter)
        for one in of:
            parts[one[key]].update({"mutants": 1, "survived": int(one["outcome"] == "survived")})
        counted[f"by {key}"] = {name: dict(parts[name]) for name in sorted(parts)}
    counted["survivors"] = {
        one["name"]: {"line": one["line"], "why": explained.get(one["name"], "")} for one in alive
    }
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="of tests per mutant")
    parser.add_argument("--cache", type=Path, default=ROOT / ".mutants", help="goes on from there")
    parser.add_argument("--only", default="", help="mutants whose name has this in it, once more")
    parser.add_argument("--record", type=Path, help="write the counts to this file")
    arguments = parser.parse_args()
    arguments.cache.mkdir(exist_ok=True)
    log = arguments.cache / "outcomes.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {line["name"]: line for line in lines}
    explained = json.loads(EXPLAINED.read_text()) if EXPLAINED.exists() else {}
    chosen = sample(arguments.mutants, arguments.seed)
    tests = Tests(ROOT / ".coverage", ROOT / ".test-times.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        prepare(arguments.cache / "programs")
        for number, (name, mutant) in enumerate(chosen):
            wanted = arguments.only in name if arguments.only else name not in done
            if not wanted:
                continue
            through = tests.through(mutant)
            selected = tests.within(through, arguments.seconds)
            expected = sum(tests.seconds[test] for test in selected)
            if number % CONTROL_EVERY == 0:
                end, test = outcome(selected, expected, copy)
                note(log, done, name=f"control {number}", kind="control", outcome=end, test=test)
            path = copy / "src" / "prbnn" / mutant.file
            source = path.read_text()
            path.write_text(mutant.apply(source))
            began = time.time()
            end, test = outcome(selected, expected, copy) if selected else ("survived", "no test")
            path.write_text(source)
            took = {"tests": len(selected), "of": len(through), "took": round(time.time() - began)}
            package = mutant.file.split("/")[0]
            note(
                log,
                done,
                name=name,
                package=package,
                outcome=end,
                test=test,
                **took,
                **words(mutant),
            )
    of_these = {name for name, _ in chosen}
    kept = [one for name, one in done.items() if name in of_these or one["kind"] == "control"]
    counted = summary(kept, explained)
    print(json.dumps(counted, indent=1))
    from prbnn_studies import records  # now, since children import the copy's package

    records.write_record(arguments.record, counted)


def words(mutant: Mutant) -> dict[str, Any]:
    return {key: asdict(mutant)[key] for key in ("file", "line", "kind", "change")}


def note(log: Path, done: dict[str, Any], **one: Any) -> None:
    """Keep what came of one run, and print it."""
    done[one["name"]] = one
    with log.open("a") as file:
        file.write(json.dumps(one) + "\n")
    where = f"{one['file']}:{one['line']}" if "file" in one else ""
    print(f"{one['outcome']:<9}{one['name']}  {where}  {one['test']}", flush=True)


if __name__ == "__main__":
    main()
