"""Checkpoints of one fit: written every so many seconds, read where the same fit begins again.

A checkpoint holds every part of the fit that was reached: the tempering chosen, training, and draws being
moved. It is one safetensors file with a checksum, named arrays and a record in strict JSON (the form of
model files), and names by hash the fit that it is of.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prbnn.errors import (
    CheckpointError,
    CheckpointWarning,
    DivergedError,
    InfeasibleError,
    ModelFileError,
    is_number,
)
from prbnn.fitting.identity import SEED, differences
from prbnn.system.container import parse_content, sealed
from prbnn.system.disk import locked
from prbnn.system.generations import Generations
from prbnn.system.named_arrays import Arrays, below, under

# seconds between two checkpoints
EVERY = 30.0
STEM, ENDING = "checkpoint", ".safetensors"
SCHEMA = 1


@dataclass(frozen=True)
class Lasting(os.PathLike):
    """A folder of checkpoints that stay when the fit has ended, until its owner removes them."""

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)


class Checkpoints:
    """The checkpoints of a fit in a folder; without ``files``, of a fit that keeps none.

    - `parts`: arrays by name of each part of the fit: of the last checkpoint, and those kept since
    - `belongs`: what the last checkpoint says of the fit that it is of, see `fitting/identity.py`
    - `stage`: the part that was kept last
    - `ended`: whether the fit came to its end, and needs its checkpoints no longer
    - `closed`: whether nothing more is kept, since what follows is of a fit that was cut short
    """

    def __init__(self, files: Generations | None = None, every: float = math.inf) -> None:
        self.files, self.every = files, every
        self.parts: dict[str, Arrays] = {}
        self.belongs: dict[str, str] | None = None
        self.stage = ""
        self.ended = False
        self.closed = False
        self._failed = False
        self._last = time.monotonic()

    def seed(self, otherwise: int) -> int:
        """The seed of the fit that is gone on with; ``otherwise`` where none is."""
        return otherwise if self.belongs is None else int(self.belongs[SEED])

    def claim(self, identity: Mapping[str, str]) -> None:
        """Say which fit this is; raise where the checkpoints are of another."""
        if self.files is None:
            return
        if self.belongs is not None:
            found = differences(identity, self.belongs)
            if found:
                raise CheckpointError(
                    f"the checkpoints in {self.files.folder} are of another fit: {'; '.join(found)}. "
                    "Repeat the fit that they are of to go on with it; to fit anew, name another "
                    "folder or delete this one"
                )
        self.belongs = dict(identity)

    def found(self, part: str) -> Arrays | None:
        """What was kept of a part, if anything."""
        return self.parts.get(part)

    def keep(self, part: str, arrays: Callable[[], Arrays], *, now: bool = False) -> None:
        """Write a checkpoint with these ``arrays`` as the ``part``, if one is due or must be ``now``."""
        due = now or time.monotonic() - self._last >= self.every
        if self.files is None or self.closed or not due:
            return
        self.parts[part] = arrays()
        self.stage = part
        try:
            self.files.write(self._content())
        except OSError as error:
            if not self._failed:
                self._failed = True
                warnings.warn(
                    f"no checkpoint could be written in {self.files.folder} "
                    f"({error.strerror or error}); the fit goes on, and the last good checkpoint "
                    "stays. Free some space there, or name another folder at the next fit",
                    CheckpointWarning,
                    stacklevel=2,
                )
        self._last = time.monotonic()

    def place(self, part: str) -> Place:
        """The same for one part."""
        return Place(self, part)

    def _content(self) -> bytes:
        record = {
            "schema": SCHEMA,
            "checkpoint": self.stage,
            "written_by": {"prbnn": version("prbnn")},
            "belongs": self.belongs,
        }
        tensors: dict[str, np.ndarray] = {}
        for name, arrays in self.parts.items():
            tensors |= under(name, arrays)
        return sealed(record, tensors)

    def read(self) -> None:
        """Take up the newest checkpoint that is not damaged; raise where all are."""
        assert self.files is not None
        damaged: list[Path] = []
        for path in self.files.newest_first():
            try:
                record, tensors = parse_content(path, path.read_bytes())
                self.stage = _checked(record["checkpoint"], str)
                self.belongs = _checked(record["belongs"], dict)
                self.seed(0)
            except (ModelFileError, KeyError, TypeError, ValueError, OSError):
                damaged.append(path)
                continue
            names = dict.fromkeys(name.partition("/")[0] for name in tensors)
            self.parts = {name: below(name, tensors) for name in names}
            self.files.good = [path]
            if damaged:
                warnings.warn(
                    f"{_listed(damaged)} cannot be read: damaged, cut short, or of a newer prbnn; the "
                    f"fit goes on from {path.name}, the one before",
                    CheckpointWarning,
                    stacklevel=4,
                )
            return
        if damaged:
            raise CheckpointError(
                f"{_listed(damaged)} cannot be read: damaged, cut short, or of a newer prbnn. Put back "
                f"a good copy, or delete {self.files.folder} to fit from the start"
            )


class Place(NamedTuple):
    """One part of a fit's checkpoints: draws on their way (`prbnn.posterior.keeping.Keeping`)."""

    checkpoints: Checkpoints
    part: str

    def found(self) -> Arrays | None:
        """What was kept of it, if anything."""
        return self.checkpoints.found(self.part)

    def keep(self, arrays: Callable[[], Arrays], *, now: bool = False) -> None:
        """As `Checkpoints.keep`."""
        self.checkpoints.keep(self.part, arrays, now=now)


@contextmanager
def checkpoints_in(
    folder: str | os.PathLike | None, every: float = EVERY
) -> Generator[Checkpoints]:
    """The checkpoints in ``folder``, read and locked against other fits; None keeps none.

    They are removed when the fit has `ended`, or raised that it cannot end well.
    """
    if not (is_number(every) and every >= 0):
        raise ValueError(f"checkpoint_every must be a number of seconds from 0 on, got {every!r}")
    if folder is None:
        yield Checkpoints()
        return
    lasting = isinstance(folder, Lasting)
    place = Path(folder)
    files = Generations(place, STEM, ENDING)
    kept = Checkpoints(files, float(every))
    with ExitStack() as stack:
        _lock(stack, place)
        files.remove_parts()
        kept.read()
        try:
            yield kept
        except (DivergedError, InfeasibleError):
            kept.ended = True
            raise
        finally:
            if kept.ended and not lasting:
                files.remove()


def _lock(stack: ExitStack, folder: Path) -> None:
    """Lock a folder, which is created if needed, for as long as the ``stack`` is open."""
    try:
        stack.enter_context(locked(folder))
    except OSError as error:
        raise CheckpointError(
            f"no checkpoints can be written in {folder} ({error.strerror or error}); free some space "
            "there, or name another folder"
        ) from error


def _checked(value: Any, kind: type) -> Any:
    """``value`` if it is of a ``kind``; texts only in a dict."""
    if not isinstance(value, kind) or not all(isinstance(part, str) for part in value):
        raise TypeError(f"needed a {kind.__name__}, got {value!r:.80}")
    if isinstance(value, dict) and not all(isinstance(part, str) for part in value.values()):
        raise TypeError("needed texts")
    return value


def _listed(paths: list[Path]) -> str:
    return " and ".join(map(str, paths))
