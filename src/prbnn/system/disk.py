"""Files written whole or not at all, or read up to a limit; folders with one writer at a time."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from prbnn.errors import DataError

try:
    import fcntl
except ImportError:  # Windows: files are still written whole, but two writers are not kept apart
    fcntl = None

LOCK = ".lock"
PART = ".part"


def write_whole(path: str | os.PathLike, content: bytes) -> None:
    """Write to a new file beside ``path`` and rename it, so that readers find the old or the new file.

    Leftovers of killed writers of the same file are removed. A symbolic link stays a link; a pipe or a
    terminal is written to directly. In a folder that came from somebody else use `write_inside`.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    _remove_parts(target)
    file = _part(target)
    try:
        with file:
            file.write(content)
            sync_file(file)
            if target.exists():
                shutil.copymode(target, file.name)
            if fcntl is None:
                file.close()
            # still open, and so locked: no other writer takes it for a leftover
            os.replace(file.name, target)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def write_inside(folder: Path, name: str, content: bytes) -> None:
    """`write_whole` of the file ``name`` in ``folder``; a symbolic link there raises.

    A folder that was sent may have links in the place of files, which lead anywhere.
    """
    no_link(folder / name)
    write_whole(folder / name, content)


def no_link(path: Path) -> Path:
    """``path``, if it is not a symbolic link; one raises."""
    if path.is_symlink():
        raise DataError(
            f"{path} is a symbolic link to {os.readlink(path)}, and nothing is written or taken through "
            "links in a folder; remove it"
        )
    return path


def sync_file(file: IO[bytes]) -> None:
    """Wait until the content of a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_limited(path: str | os.PathLike, most: int) -> bytes:
    """The bytes of a file; a folder, or more than ``most`` bytes, raises ValueError.

    The limit is on what is read, so that a pipe or a device that never ends raises as well.
    """
    if Path(path).is_dir():
        raise ValueError("it is a folder, not a file")
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes, the most that is read")
    return content


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a folder, which is created if needed, against other writers; if it is locked, raise.

    The operating system releases the lock of a process that dies, so no lock is ever stale.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    with _held(folder, path) as file:
        file.truncate(0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {since}".encode())
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _held(folder: Path, path: Path) -> IO[bytes]:
    """The lock file at ``path``, open and locked; raises where another process has locked it."""
    while True:
        # what is written into a lock would destroy the file that a link leads to
        file = open(no_link(path), "a+b", opener=_no_follow)  # noqa: SIM115 - the caller closes it
        if not _take(file):
            with file:
                file.seek(0)
                holder = file.read(200).decode(errors="replace") or "another process"
            raise DataError(
                f"{folder} is being written by {holder}; wait until that ends, or name another folder"
            )
        if _is_at(file, path):
            return file
        # its holder has removed it since it was opened here
        file.close()


def _no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _part(target: Path) -> IO[bytes]:
    """A new file beside ``target``, locked for as long as it is open."""
    while True:
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PART}")
        file = open(beside, "xb")  # noqa: SIM115 - the caller closes it
        if _take(file) and _is_at(file, beside):
            return file
        # another writer took it for a leftover between the two lines above
        file.close()


def _remove_parts(target: Path) -> None:
    """Remove leftovers of writers of ``target`` that no longer run."""
    if fcntl is None:
        return
    start = f".{target.name}."
    for name in os.listdir(target.parent):
        if name.startswith(start) and name.endswith(PART):
            with suppress(OSError), open(target.parent / name, "rb") as file:
                if _take(file):
                    os.unlink(file.name)


def _take(file: IO[bytes]) -> bool:
    """Whether an open file could be locked; True where the file system has no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
