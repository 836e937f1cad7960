"""Records for machines: JSON that every reader takes, whole or not at all."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any


def write_record(path: Path, record: Any) -> None:
    """Write JSON aside and rename; what is not finite is null, which JSON has and infinity not."""
    text = json.dumps(_finite(record), indent=1, ensure_ascii=False, allow_nan=False)
    aside = path.with_name(f".{path.name}.part")
    aside.write_text(text + "\n", encoding="utf-8")
    os.replace(aside, path)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
