"""Checkpoints of a run: in its folder while it is fitted, and removed once it is saved.

`.checkpoints` holds `fit.json`, which says what is being fitted, the checkpoints of the model and of the
plain network, and the file of each that is done.
"""

from __future__ import annotations

import os
import secrets
import shutil
from importlib.metadata import version
from pathlib import Path

from prbnn.errors import CheckpointError
from prbnn.fitting.identity import differences
from prbnn.rules.file.knowledge_file import write_knowledge
from prbnn.runs.belonging import hash_of, read_record
from prbnn.runs.folder import RECORD, RULES, SAVING, content, is_there, tidy
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import Prepared
from prbnn.runs.records import write_record
from prbnn.system.strict_json import parse_json

KEPT, FIT = ".checkpoints", "fit.json"
ANEW = "leave out --resume to fit anew"


def begin(folder: Path, prepared: Prepared) -> Path:
    """Start a fit in ``folder``, which must be locked: where its checkpoints are to be kept."""
    drop(folder)
    kept = folder / KEPT
    kept.mkdir()
    write_record(kept / FIT, {**_settings(prepared), **_versions()})
    return kept


def is_unfinished(folder: Path) -> bool:
    """Whether ``folder`` holds a fit that was begun, and neither ended nor was saved."""
    return (folder / KEPT / FIT).is_file()


def go_on(folder: Path, prepared: Prepared) -> Path | None:
    """Where the checkpoints of the unfinished fit in ``folder`` are kept, which must be locked.

    A fit with other settings raises. Where there is no fit, one begins. None says that the run is
    finished.
    """
    tidy(folder)
    here = _settings(prepared)
    if is_unfinished(folder):
        path = folder / KEPT / FIT
        try:
            there = {str(name): str(text) for name, text in parse_json(path.read_bytes()).items()}
        except (ValueError, AttributeError) as error:
            raise CheckpointError(f"{path} is damaged ({error}); {ANEW}") from None
        _compare(f"the unfinished fit in {folder}", {**here, **_versions()}, there)
        return folder / KEPT
    # an empty folder of checkpoints is of a fit that was killed when it had just begun
    if is_there(folder, RECORD) and not (folder / KEPT).exists():
        record = read_record(folder)
        plan = RunPlan.from_plain(record["plan"])
        _, _, rules = content(folder, RULES).decode().partition("\n")
        there = _of(plan, str(record["data_sha256"]), rules)
        _compare(f"the finished run in {folder}", here, there)
        if not str(record["result"]).startswith("interrupted"):
            return None
    return begin(folder, prepared)


def drop(folder: Path) -> None:
    """Remove the checkpoints of a run; a kill leaves all of them, or none that counts."""
    kept = folder / KEPT
    if not kept.exists():
        return
    # the name of an incomplete save, which `tidy` removes
    aside = folder / f"{SAVING}{secrets.token_hex(4)}"
    os.rename(kept, aside)
    shutil.rmtree(aside, ignore_errors=True)


def _settings(prepared: Prepared) -> dict[str, str]:
    rules = write_knowledge(list(prepared.rules), dict(prepared.units))
    return _of(prepared.plan, prepared.fingerprint, rules)


def _of(plan: RunPlan, data: str, rules: str) -> dict[str, str]:
    """What a run is fitted from, by name; where files lie does not matter, but what they hold."""
    stated = {
        f"--{name.replace('_', '-')}": repr(value)
        for name, value in plan.to_plain().items()
        if name not in ("data", "knowledge")
    }
    hashes = {"the data": data, "the knowledge file": hash_of(rules.encode())}
    return {**stated, **{name: f"sha256:{text}" for name, text in hashes.items()}}


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("prbnn", "jax")}


def _compare(what: str, here: dict[str, str], there: dict[str, str]) -> None:
    found = differences(here, there)
    if found:
        raise CheckpointError(
            f"{what} is of other settings: {'; '.join(found)}. Repeat its command to go on with it, or "
            f"{ANEW}"
        )
