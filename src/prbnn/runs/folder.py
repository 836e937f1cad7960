"""The folder of a run, replaced as a whole: after a kill at any moment it holds the old or the new run.

A save writes every file into a new folder inside, and renames that to ``.saved``: from then on the run
is the new one, since readers look there first. Then the files move to their usual place, the record
last; the next process that opens the folder finishes a save that was killed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from prbnn.errors import DataError
from prbnn.system.disk import locked, no_link, sync_file, sync_folder

MODEL, PLAIN, RECORD, ROWS, RULES, PAGE, CERTIFICATE = (
    "model.prbnn",
    "plain.prbnn",
    "run.json",
    "rows.safetensors",
    "knowledge.yaml",
    "report.html",
    "certificate.json",
)
# files that not every run has: those of an earlier run are removed
OPTIONAL = (PLAIN, PAGE, CERTIFICATE)
SAVING, SAVED = ".saving-", ".saved"


def replace_run(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace the files of an earlier run by ``contents``; the folder must be `locked`."""
    tidy(folder)
    aside = folder / f"{SAVING}{secrets.token_hex(4)}"
    try:
        aside.mkdir()
        for name, content in contents.items():
            with open(aside / name, "xb") as file:
                file.write(content)
                sync_file(file)
        sync_folder(aside)
        os.rename(aside, folder / SAVED)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_folder(folder)
    _move_in(folder)


def tidy(folder: Path) -> None:
    """Finish a save that was killed after all files were written, and remove incomplete ones."""
    _move_in(folder)
    for left in folder.glob(f"{SAVING}*"):
        shutil.rmtree(left, ignore_errors=True)


def recover(folder: Path) -> None:
    """`tidy` a folder where a save was killed, unless another process has locked it."""
    if not no_link(folder / SAVED).is_dir():
        return
    try:
        with locked(folder):
            tidy(folder)
    except (OSError, DataError):
        # `content` reads the new run from ``.saved``
        return


def content(folder: Path, name: str) -> bytes:
    """The bytes of the file ``name`` of the run, whether or not it has been moved yet."""
    # a file that is moved between the two attempts is in the second place
    for place in (no_link(folder / SAVED) / name, folder / name):
        if place.is_dir():
            raise DataError(f"{place} is a folder, where a run has a file; move it away")
        # a pipe or a device may never end
        if place.exists() and not place.is_file():
            raise DataError(f"{place} is a pipe or a device, where a run has a file; remove it")
        try:
            return place.read_bytes()
        except FileNotFoundError:
            continue
    raise DataError(f"the run in {folder} lacks its {name}; put it back, or fit again")


def is_there(folder: Path, name: str) -> bool:
    """Whether the run has a file ``name``."""
    return (folder / SAVED / name).exists() or (folder / name).exists()


def _move_in(folder: Path) -> None:
    saved = no_link(folder / SAVED)
    if not saved.is_dir():
        return
    # the model moves first: while it is here, no file of the new run has been moved
    if (saved / MODEL).exists():
        for name in OPTIONAL:
            if not (saved / name).exists():
                (folder / name).unlink(missing_ok=True)
    names = sorted(os.listdir(saved), key=lambda name: (name == RECORD, name != MODEL, name))
    for name in names:
        if name == RECORD:
            # the order must be the same after a power cut
            sync_folder(folder)
        os.replace(saved / name, folder / name)
    sync_folder(folder)
    saved.rmdir()
