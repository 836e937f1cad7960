"""Watches what a hostile case does: what it runs, opens for writing, changes on disk, takes and costs."""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# seconds of this thread, and MiB that peak memory may grow by
MOST_SECONDS, MOST_MEMORY = 1.0, 300
# what would run code that came with a file, or send it somewhere
RUNS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")
SENDS = ("socket.connect", "socket.getaddrinfo", "urllib.Request")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
MOVES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.chmod")

_seen: list[tuple[str, Any]] | None = None


def _hook(event: str, arguments: tuple) -> None:
    if _seen is None:
        return
    opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
    if opened or event in RUNS or event in SENDS or event in MOVES:
        _seen.append((event, arguments[0]))


sys.addaudithook(_hook)


def snapshot(folder: Path) -> dict[str, str]:
    """Every path in a ``folder``, with what is there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[str(path)] = "folder or device"
    return found


@contextmanager
def watched(around: Path, output: Path) -> Generator[None]:
    """Fail where what happens inside runs code, connects, or writes anywhere but to ``output``.

    ``around`` is the folder that must stay as it is, but for ``output`` in it.
    """
    global _seen

    def outside() -> dict[str, str]:
        inside = f"{output}{os.sep}"
        return {
            path: what
            for path, what in snapshot(around).items()
            if path != str(output) and not path.startswith(inside)
        }

    before, memory, began = outside(), _peak(), time.thread_time()
    _seen = []
    try:
        yield
    finally:
        took, events, _seen = time.thread_time() - began, _seen, None
    assert took < MOST_SECONDS, f"took {took:.2f} s"
    assert _peak() - memory < MOST_MEMORY, f"took {_peak() - memory} MiB"
    for event, what in events:
        allowed = event == "open" or event in MOVES
        assert allowed, f"{event} {what!r}"
        if not isinstance(what, int):
            path = os.path.abspath(os.fsdecode(what))
            assert path.startswith((str(output), "/dev/null")), f"{event} {path}"
    assert outside() == before


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
