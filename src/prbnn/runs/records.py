"""Records as strict JSON files, written whole or not at all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from prbnn.system.disk import write_whole


def write_record(path: Path, record: Any) -> None:
    """Write ``record`` as JSON to ``path``, which is replaced as a whole."""
    write_whole(path, record_bytes(record))


def record_bytes(record: Any) -> bytes:
    """``record`` as JSON; NaN and infinity, which JSON does not have, become null."""
    text = json.dumps(_finite(record), indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
