"""Feeds hostile cases to a parser: ``python benchmarks/fuzz.py --parser expressions --cases 1000000``.

Cases are built by the grammars of `tests/hostile` from seeded numbers, so that any one of them can be
repeated (``--from 4711 --cases 1``). A case counts as a crash where anything is raised but the library's
own error, or where a warning reaches the user; as a hang where it takes more than a second of processor
time. ``--guided`` lets atheris choose instead, guided by coverage (pip install 'prbnn[fuzz]').
"""

from __future__ import annotations

import argparse
import faulthandler
import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

HANG = 1.0  # seconds of processor time
STUCK = 30  # the same, after which a case is broken off
DEAD = 600  # seconds without any progress, after which the process says where it is and ends
PARSERS = ("expressions", "knowledge", "tables", "models")


class TooSlowError(BaseException):
    """Raised in the middle of a case that takes `STUCK` seconds of processor time."""


class LeakedWarning(BaseException):
    """A warning that would be printed to the user of a hostile file."""


@dataclass
class Found:
    """What the cases did: how many ended how, which crashed or hung, and what they cost."""

    ended: Counter[str] = field(default_factory=Counter)
    crashes: dict[str, str] = field(default_factory=dict)  # one per place in the code
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)  # growth of peak memory in KiB, by one case


def stop(*_: Any) -> None:
    raise TooSlowError


def leak(message: Warning | str, category: type, *_: Any, **__: Any) -> None:
    raise LeakedWarning(f"{category.__name__}: {message}")


def peak() -> int:
    """Peak memory of this process, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def place_of(error: BaseException) -> str:
    """Type of an error and the last lines of the library that it passed: equal for equal defects."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "prbnn" in frame.filename or "tests" in frame.filename][-2:]
    steps = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in own)
    return f"{type(error).__name__} at {steps}"


def attempt(number: int, case: Any, read: Any, folder: Path, found: Found) -> None:
    """Feed one ``case`` to ``read``, and add what it did to ``found``."""
    before, began = peak(), time.thread_time()
    signal.setitimer(signal.ITIMER_PROF, STUCK)
    try:
        outcome = "read" if read(case, folder) else "refused"
    except (Exception, TooSlowError, LeakedWarning) as error:
        outcome = "crashed"
        where = place_of(error)
        if where not in found.crashes:
            found.crashes[where] = f"case {number}: {error!r:.300}\n    {case!r:.600}"
            print(f"CRASH {where}\n  {found.crashes[where]}", flush=True)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    took = time.thread_time() - began
    if took > HANG:
        outcome = "hung"
        print(f"HANG of {took:.2f} s, case {number}: {case!r:.300}", flush=True)
    found.ended[outcome] += 1
    found.slowest = max(found.slowest, (took, number))
    found.largest = max(found.largest, (peak() - before, number))


def report(found: Found, parser: str, began: float, at_start: int) -> None:
    cases = sum(found.ended.values())
    ends = ", ".join(f"{count:,} {name}" for name, count in sorted(found.ended.items()))
    print(
        f"{parser}: {cases:,} cases in {time.time() - began:,.0f} s: {ends}; "
        f"{len(found.crashes)} kinds of crash, {found.ended['hung']} hangs; slowest case "
        f"{found.slowest[0]:.3f} s (number {found.slowest[1]}); peak memory {peak() / 1024:,.0f} MiB, "
        f"{(peak() - at_start) / 1024:,.0f} above the start, at most "
        f"{found.largest[0] / 1024:,.0f} by one case",
        flush=True,
    )


def seeded(arguments: argparse.Namespace, make: Any, read: Any, folder: Path, found: Found) -> None:
    """Cases from seeded numbers, each from its own."""
    with open(folder / "number", "w+b") as file:
        file.write(bytes(8))
        file.flush()
        current = mmap.mmap(file.fileno(), 8)
        began, last, at_start = time.time(), time.time(), peak()
        for number in range(arguments.first, arguments.first + arguments.cases):
            current[:] = number.to_bytes(8, "little")
            attempt(number, make(Random(arguments.seed * 10**12 + number)), read, folder, found)
            if number % 100 == 0:
                faulthandler.dump_traceback_later(DEAD, exit=True)
                if time.time() > last + 60:
                    last = time.time()
                    report(found, arguments.parser, began, at_start)
    faulthandler.cancel_dump_traceback_later()
    report(found, arguments.parser, began, at_start)


class Bytes(Random):
    """Random choices that are read off the bytes of atheris.

    At their end each choice is the first, and what has a chance does not happen: a grammar that goes on
    while something happens comes to an end.
    """

    def __init__(self, content: bytes):
        self.content, self.place = content, 0
        super().__init__(0)

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        piece = self.content[self.place : self.place + size].ljust(size, b"\0")
        self.place += size
        return int.from_bytes(piece, "little") >> (size * 8 - k)

    def random(self) -> float:
        ended = self.place >= len(self.content)
        return 1 - 2**-16 if ended else self.getrandbits(16) / 65536


def guided(arguments: argparse.Namespace, folder: Path) -> None:
    """Cases that atheris chooses by the branches they reach: half as they are, half by grammar."""
    import atheris

    with atheris.instrument_imports(include=["prbnn.rules", "prbnn.data", "prbnn.saving", "yaml"]):
        from tests.hostile.targets import PARSERS as TARGETS

    make, read = TARGETS[arguments.parser]
    found, began, at_start = Found(), time.time(), peak()
    texts = arguments.parser in ("expressions", "knowledge")

    def one(content: bytes) -> None:
        faulthandler.dump_traceback_later(DEAD, exit=True)
        if content[:1] < b"\x80":
            case = content[1:].decode("utf-8", "replace") if texts else content[1:]
        else:
            case = make(Bytes(content[1:]))
        attempt(sum(found.ended.values()), case, read, folder, found)
        cases = sum(found.ended.values())
        if cases % 20_000 == 0 or cases == arguments.cases:
            report(found, arguments.parser, began, at_start)
        if cases == arguments.cases:
            # libFuzzer would end the process with status 0, whatever was found, and leave the folder
            shutil.rmtree(folder)
            os._exit(bool(found.crashes or found.ended["hung"]))

    warnings.showwarning = leak
    atheris.Setup([sys.argv[0], "-max_len=400", "-verbosity=0"], one)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parser", choices=PARSERS, required=True)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument(
        "--from", dest="first", type=int, default=0, help="number of the first case"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=2.0, help="GiB that cases may add")
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPROF, stop)
    warnings.simplefilter("always")
    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as made:
        folder = Path(made)
        if arguments.guided:
            guided(arguments, folder)
            return
        from tests.hostile.targets import PARSERS as TARGETS

        make, read = TARGETS[arguments.parser]
        for number in range(20):  # imports and caches are not the cases' memory
            with suppress(BaseException):
                read(make(Random(number)), folder)
        warnings.showwarning = leak
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * mmap.PAGESIZE + int(arguments.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        found = Found()
        seeded(arguments, make, read, folder, found)
    sys.exit(bool(found.crashes or found.ended["hung"]))


if __name__ == "__main__":
    main()
