"""A run's folder: whatever happens while a run is saved, the old one or the new one can be opened."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import prbnn
from prbnn.errors import DataError
from prbnn.runs.belonging import hash_of, read_run
from prbnn.runs.folder import (
    CERTIFICATE,
    MODEL,
    PAGE,
    PLAIN,
    RECORD,
    ROWS,
    RULES,
    SAVED,
    recover,
    replace_run,
)
from prbnn.system.disk import LOCK, locked, write_whole


def made(word: str, *optional: str) -> dict[str, bytes]:
    """Files of a run, as far as a folder knows them."""
    names = (MODEL, ROWS, RULES, *(name for name in optional if name == PLAIN))
    contents = {name: f"{word} {name}".encode() for name in names}
    files = {name: hash_of(content) for name, content in contents.items()}
    record = {"schema": 1, "run": files[MODEL], "files": files}
    others = {name: f"{word} {name}".encode() for name in optional if name != PLAIN}
    return {**contents, **others, RECORD: json.dumps(record).encode()}


OLD = made("old", PLAIN, CERTIFICATE)
NEW = made("new")


def held(folder: Path) -> dict[str, bytes]:
    """The run of a folder as readers find it, without its record."""
    return read_run(folder)[1]


def parts(run: dict[str, bytes]) -> dict[str, bytes]:
    return {name: part for name, part in run.items() if name in (MODEL, PLAIN, ROWS, RULES)}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


class Killed(BaseException):
    """Nothing that runs in a process comes after a kill."""


CALLS = ("replace", "rename", "fsync", "unlink", "rmdir", "mkdir")


def dying(monkeypatch: pytest.MonkeyPatch, last: int) -> list[str]:
    """Let a process make so many calls that change a disk, die at the next, and do nothing after it."""
    made: list[str] = []

    def wrapped(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def one(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            if len(made) == last and name == "fsync":
                # half of what was written has come to the disk
                size = os.fstat(arguments[0]).st_size
                if not os.path.isdir(f"/proc/self/fd/{arguments[0]}"):
                    os.ftruncate(arguments[0], size // 2)
            if len(made) >= last:
                raise Killed
            return call(*arguments, **options)

        return one

    for name in CALLS:
        monkeypatch.setattr(os, name, wrapped(name))
    return made


@pytest.mark.parametrize(("old", "new"), [(OLD, NEW), (NEW, OLD)], ids=["fewer", "more"])
def test_a_kill_at_any_moment_leaves_the_old_run_or_the_new_one(
    tmp_path: Path, old: dict[str, bytes], new: dict[str, bytes]
) -> None:
    found = []
    for last in range(1, 99):
        folder = tmp_path / str(last)
        folder.mkdir()
        replace_run(folder, old)
        (folder / PAGE).write_text("of the old run")
        with pytest.MonkeyPatch.context() as patch:
            calls = dying(patch, last)
            try:
                with locked(folder):
                    replace_run(folder, new)
            except Killed:
                pass
            else:
                break
        assert len(calls) >= last
        seen = held(folder)
        assert seen in (parts(old), parts(new))
        found.append(seen == parts(new))
        if seen == parts(old):
            assert names(folder) >= {*old, PAGE}
        # whoever opens it finishes what was begun, and the run is the same one
        recover(folder)
        assert held(folder) == seen
        assert not (folder / SAVED).exists()
        if found[-1]:
            assert {p.name: p.read_bytes() for p in folder.iterdir() if p.name != LOCK} == new
        with locked(folder):
            replace_run(folder, new)
        assert held(folder) == parts(new)
        assert names(folder) == set(new)
    assert found == sorted(found)
    assert {*found} == {False, True}
    assert len(found) > 15


@pytest.mark.parametrize("last", range(1, 7))
def test_a_full_disk_leaves_the_old_run_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    replace_run(tmp_path, OLD)
    calls = 0

    def full(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= last and not os.path.isdir(f"/proc/self/fd/{file}"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    if last <= len(NEW):
        with pytest.raises(OSError, match="No space left"), locked(tmp_path):
            replace_run(tmp_path, NEW)
        assert names(tmp_path) == set(OLD)
        assert held(tmp_path) == parts(OLD)
    else:
        replace_run(tmp_path, NEW)


SAVING = """
import sys, types
package = types.ModuleType("prbnn")
package.__path__ = [sys.argv[2]]
sys.modules["prbnn"] = package
from pathlib import Path
from prbnn.runs.folder import replace_run
from prbnn.system.disk import locked
folder = Path(sys.argv[1])
contents = [{p.name: p.read_bytes() for p in Path(other).iterdir()} for other in sys.argv[3:]]
print("ready", flush=True)
while True:
    for run in contents:
        with locked(folder):
            replace_run(folder, run)
"""


def saving(folder: Path) -> subprocess.Popen:
    """Another process that saves one run after another, and imports no more than that takes."""
    for word, run in (("old", OLD), ("new", NEW)):
        (folder.parent / word).mkdir(exist_ok=True)
        for name, part in run.items():
            (folder.parent / word / name).write_bytes(part)
    source, others = str(Path(prbnn.__file__).parent), [folder.parent / w for w in ("old", "new")]
    words = [sys.executable, "-c", SAVING, str(folder), source, *map(str, others)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def test_processes_that_are_killed_leave_a_run_that_opens_and_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    replace_run_into(folder, OLD)
    for pause in (0.0, 0.003, 0.011, 0.023, 0.05):
        child = saving(folder)
        time.sleep(pause)
        # while it saves, readers find one run or the other, never a mixture
        for _ in range(5):
            assert held(folder) in (parts(OLD), parts(NEW))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert held(folder) in (parts(OLD), parts(NEW))
        with locked(folder):
            replace_run(folder, OLD)
        assert names(folder) == set(OLD)


def replace_run_into(folder: Path, contents: dict[str, bytes]) -> None:
    with locked(folder):
        replace_run(folder, contents)


def test_of_two_who_save_at_once_one_is_told_who_the_other_is(tmp_path: Path) -> None:
    with locked(tmp_path):
        told = f"process {os.getpid()} on .* wait until that ends"
        with pytest.raises(DataError, match=told), locked(tmp_path):
            pass
    assert names(tmp_path) == set()


def test_a_lock_that_a_dead_process_left_does_not_block(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("process 1 on this machine")
    with locked(tmp_path):
        pass


def test_saves_side_by_side_do_not_mix(tmp_path: Path) -> None:
    replace_run_into(tmp_path, OLD)
    stop = threading.Event()

    def save(contents: dict[str, bytes]) -> None:
        while not stop.is_set():
            try:
                replace_run_into(tmp_path, contents)
            except DataError:
                continue

    threads = [threading.Thread(target=save, args=(run,)) for run in (OLD, NEW)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            assert held(tmp_path) in (parts(OLD), parts(NEW))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("name", [MODEL, PLAIN, ROWS])
def test_files_of_two_runs_are_told_apart(tmp_path: Path, name: str) -> None:
    replace_run_into(tmp_path, OLD)
    (tmp_path / name).write_bytes(b"of another run")
    with pytest.raises(DataError, match=f"{name} does not belong to the run that .*fit again"):
        read_run(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=f"{name}.* fit "):
        read_run(tmp_path)
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"{name} is a folder"):
        read_run(tmp_path)


# ---- single files -----------------------------------------------------------------------------


def test_a_kill_while_one_file_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model.prbnn"
    whole, last = False, 0
    while not whole:
        last += 1
        write_whole(path, b"old")
        assert names(tmp_path) == {"model.prbnn"}
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, last)
            try:
                write_whole(path, b"the new one")
                whole = True
            except Killed:
                pass
        assert path.read_bytes() in (b"old", b"the new one")
    assert last > 2


def test_what_another_writer_is_at_is_no_leftover(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    replaced = os.replace

    def meanwhile(source: str, target: str) -> None:
        os.replace = replaced
        write_whole(path, b"the other's")
        replaced(source, target)

    os.replace = meanwhile
    try:
        write_whole(path, b"this one's")
    finally:
        os.replace = replaced
    assert path.read_bytes() == b"this one's"
    assert names(tmp_path) == {"table.csv"}


def test_a_file_keeps_who_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"")
    path.chmod(0o600)
    write_whole(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"rows")
    reader.join()
    assert read == [b"rows"]
