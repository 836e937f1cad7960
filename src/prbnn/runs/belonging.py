"""Checks that the files of a folder are of one run, by the hashes in `run.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prbnn.certify import Certificate
from prbnn.errors import DataError
from prbnn.runs.folder import MODEL, PLAIN, RECORD, ROWS, RULES, content, is_there
from prbnn.runs.records import record_bytes
from prbnn.system.strict_json import parse_json

SCHEMA = 1
# key under which the files of a run have the hash of its model
RUN = "run"
Record = dict[str, Any]


def hash_of(content: bytes) -> str:
    """The SHA-256 of a file's ``content``, as ``sha256sum`` prints it."""
    return hashlib.sha256(content).hexdigest()


def read_run(folder: Path) -> tuple[Record, dict[str, bytes]]:
    """The record of the run in ``folder``, and the bytes of its models, rows and rules by file name.

    A file of another run raises.
    """
    while True:
        record = read_record(folder)
        try:
            found = _belonging(folder, record)
            if not changed_rules(record, found) or read_record(folder) == record:
                return record, found
        except DataError:
            # another process may have saved a run between two of the files
            if read_record(folder) == record:
                raise


def read_record(folder: Path) -> Record:
    """The content of `run.json`; a missing, damaged or newer one raises."""
    path = folder / RECORD
    lacking = [name for name in (RECORD, MODEL, ROWS) if not is_there(folder, name)]
    if lacking:
        what = "there is no folder" if not folder.is_dir() else f"no {', '.join(lacking)} in"
        raise DataError(
            f"{what} {folder}; a run is made by prbnn fit data.csv --target COLUMN --out {folder}"
        )
    try:
        record = parse_json(content(folder, RECORD))
        schema = int(record["schema"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); fit again") from None
    if schema > SCHEMA:
        raise DataError(f"{path} was written by a newer prbnn; upgrade with pip install -U prbnn")
    return record


def _belonging(folder: Path, record: Record) -> dict[str, bytes]:
    """The bytes of the files that the record names; a file with another hash raises.

    Earlier records have no hashes, and their files are not compared.
    """
    hashes = _hashes(folder, record)
    wanted = (MODEL, PLAIN, ROWS, RULES) if hashes is None else tuple(hashes)
    optional = (RULES,) if hashes is not None else (PLAIN, RULES)
    found = {
        name: content(folder, name)
        for name in wanted
        if name not in optional or is_there(folder, name)
    }
    for name in (MODEL, PLAIN, ROWS):
        if hashes is None or name not in hashes or hash_of(found[name]) == hashes[name]:
            continue
        raise DataError(
            f"{folder / name} does not belong to the run that {folder / RECORD} describes: its sha256 "
            f"begins with {hash_of(found[name])[:12]}, the run's own with {hashes[name][:12]}. Files of "
            f"two runs are mixed here, or it is damaged; put back the {name} that was saved with this "
            f"{RECORD}, or fit again"
        )
    return found


def _hashes(folder: Path, record: Record) -> dict[str, str] | None:
    """The hash of each file by name; None for a run saved before there were hashes."""
    if "files" not in record and RUN not in record:
        return None
    files = record.get("files")
    known = {MODEL, PLAIN, ROWS, RULES}
    if not isinstance(files, dict) or not {MODEL, ROWS} <= set(files) <= known:
        raise DataError(f"{folder / RECORD} is damaged (its files are {files!r:.80}); fit again")
    return {name: str(value) for name, value in files.items()}


def changed_rules(record: Record, contents: Mapping[str, bytes]) -> list[str]:
    """A note where the file of rules was changed after the fit (the model has its own copy)."""
    if RULES not in contents or RUN not in record:
        return []
    if hash_of(contents[RULES]) == record["files"].get(RULES):
        return []
    return [f"{RULES} beside the run was changed after the fit; the rules are those of the fit"]


def certificate_bytes(certificate: Certificate, identity: str | None) -> bytes:
    """The content of a certificate's file, with the ``identity`` of its run."""
    return record_bytes({RUN: identity, **certificate.to_plain()})


def texts_of(plain: Any, kind: type) -> Any:
    """``plain`` if it is a list or dict (``kind``) of texts; anything else raises TypeError."""
    if not isinstance(plain, kind):
        raise TypeError(f"needed a {kind.__name__} of texts, got {plain!r:.80}")
    texts = plain.values() if isinstance(plain, dict) else plain
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"needed texts, got {plain!r:.80}")
    return plain
