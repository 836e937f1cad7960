"""The file format: one safetensors file whose metadata holds the record, with a checksum.

Any reader of safetensors opens it. The checksum covers every byte but its own, so that a file that is
truncated or changed raises; it protects against accidents and is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from prbnn.errors import ModelFileError
from prbnn.system.strict_json import parse_json

SCHEMA = 1
KEY = "prbnn"
BLANK = "0" * 64
# the record is JSON inside JSON, so its quotation marks are escaped
SEAL = rb"\"file_sha256\": \""
# how the header of every safetensors file begins, after its length
START = b'{"'
LARGEST_HEADER = 100_000_000

Record = dict[str, Any]
Tensors = Mapping[str, np.ndarray]


def sealed(record: Record, tensors: Tensors) -> bytes:
    """The bytes of a file with ``record`` and ``tensors``; equal contents give equal bytes."""
    seal = {"file_sha256": BLANK}
    text = json.dumps({**seal, "schema": SCHEMA, **record, **seal}, allow_nan=False)
    # not ascontiguousarray, which makes a vector of a single number
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    blank = safetensors.numpy.save(arrays, {KEY: text})
    start, end = _seal(blank)
    return blank[:start] + hashlib.sha256(blank).hexdigest().encode() + blank[end:]


def read(path: str | os.PathLike) -> tuple[Record, dict[str, np.ndarray]]:
    """The record and the tensors of the file ``path``; a damaged or newer file raises."""
    if Path(path).is_dir():
        raise ModelFileError(f"{path} is a folder; give a file that model.save(path) has written")
    with open(path, "rb") as file:
        # a device may never end: only what begins like a model is read to its end
        start = file.read(len(START) + 8)
        content = start + file.read() if start[8:] == START else start
    return parse_content(path, content)


def parse_content(path: str | os.PathLike, content: bytes) -> tuple[Record, dict[str, np.ndarray]]:
    """The record and the tensors in ``content``; errors name the file ``path``."""
    header = _header(path, content)
    record = _record(path, header)
    start, end = _seal(content)
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(BLANK.encode())
    digest.update(memoryview(content)[end:])
    if digest.hexdigest().encode() != content[start:end]:
        raise _damaged(path, content, header)
    try:
        return record, safetensors.numpy.load(content)
    except (SafetensorError, KeyError, ValueError, OverflowError, MemoryError) as error:
        raise ModelFileError(f"{path}: the tensors cannot be read: {error}") from error


def _seal(content: bytes) -> tuple[int, int]:
    """Start and end of the checksum, which is at the beginning of the record."""
    start = content.find(SEAL) + len(SEAL)
    return start, start + len(BLANK)


def _header(path: str | os.PathLike, content: bytes) -> dict[str, Any]:
    """The header of safetensors: one entry per tensor, and the metadata; other content raises."""
    length = int.from_bytes(content[:8], "little")
    if content[8:10] != START or length > LARGEST_HEADER:
        pickled = content[:1] == b"\x80"
        hint = ", and looks like a pickle, which prbnn never opens: it may run any code" * pickled
        raise ModelFileError(
            f"{path} is no prbnn model{hint}; give a file that model.save(path) has written"
        )
    if len(content) < 8 + length:
        raise _cut_short(path, len(content), 8 + length)
    try:
        header = parse_json(content[8 : 8 + length])
        return {name: dict(entry) for name, entry in header.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be read ({error})") from error


def _record(path: str | os.PathLike, header: dict[str, Any]) -> Record:
    """The record in the metadata of ``header``, of a schema that this version can read."""
    text = header.get("__metadata__", {}).get(KEY)
    if text is None:
        raise ModelFileError(
            f"{path} holds tensors, but is no prbnn model: it has no record {KEY!r}"
        )
    try:
        record = parse_json(text)
        schema, version = int(record["schema"]), record["written_by"]["prbnn"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: its record cannot be read ({error!r})") from error
    if schema > SCHEMA:
        raise ModelFileError(
            f"{path} was written by a newer prbnn (version {version}, schema {schema}; this one "
            f"reads up to {SCHEMA}): upgrade prbnn to open it"
        )
    return record


def _damaged(path: str | os.PathLike, content: bytes, header: dict[str, Any]) -> ModelFileError:
    """The error for a file that does not match its checksum: bytes are missing, or wrong."""
    try:
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name[:2] != "__"]
        expected = 8 + int.from_bytes(content[:8], "little") + max(ends)
        if len(content) < expected:
            return _cut_short(path, len(content), expected)
    except (KeyError, TypeError, ValueError, IndexError):
        pass
    return ModelFileError(
        f"{path} is damaged: its bytes do not match the checksum it carries; copy it again from where "
        "it was saved"
    )


def _cut_short(path: str | os.PathLike, found: int, expected: int) -> ModelFileError:
    return ModelFileError(
        f"{path} was cut short: it has {found:,} bytes of at least {expected:,}; copy it again from "
        "where it was saved"
    )
