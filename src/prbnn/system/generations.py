"""Numbered files of one kind in a folder, of which the last two good ones are kept.

A file is complete or absent (`prbnn.system.disk.write_whole`). A disk may still damage it later, and then
the one before is left.
"""

from __future__ import annotations

from pathlib import Path

from prbnn.system.disk import PART, write_whole

KEPT = 2


class Generations:
    """The files ``stem-000001ending``, ``stem-000002ending``, ... of a folder, for one writer at a time.

    `good` are those that were read or written without an error.
    """

    def __init__(self, folder: Path, stem: str, ending: str) -> None:
        self.folder, self.stem, self.ending = folder, stem, ending
        self.good: list[Path] = []

    def newest_first(self) -> list[Path]:
        """All files, the last one first."""
        return sorted(self.folder.glob(f"{self.stem}-*{self.ending}"), key=self._number)[::-1]

    def write(self, content: bytes) -> Path:
        """Write the next file, then remove all but the last two good ones."""
        there = self.newest_first()
        number = 1 + (self._number(there[0]) if there else 0)
        path = self.folder / f"{self.stem}-{number:06d}{self.ending}"
        write_whole(path, content)
        self.good = [*self.good, path][-KEPT:]
        for old in there:
            if old not in self.good:
                old.unlink(missing_ok=True)
        return path

    def remove_parts(self) -> None:
        """Remove what writers that were killed have left; no other process may be writing."""
        for left in self.folder.glob(f".{self.stem}-*{PART}"):
            left.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove every file."""
        self.remove_parts()
        # the oldest first: what is left by a kill is the newest
        for path in self.newest_first()[::-1]:
            path.unlink(missing_ok=True)
        self.good = []

    def _number(self, path: Path) -> int:
        digits = path.name[len(self.stem) + 1 : -len(self.ending)]
        return int(digits) if digits.isdecimal() else 0
