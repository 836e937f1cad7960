"""Strict JSON for untrusted files: anything that JSON does not define raises."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

# far above what records of this library need
DEEPEST = 100
MOST_DIGITS = 300


def parse_json(content: bytes | str) -> Any:
    """The values in JSON text; invalid text raises ValueError.

    Invalid are also NaN and infinities (``1e999`` is one), a key that is given twice, whole numbers of
    more than 300 digits, and lists or mappings nested more than 100 deep.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'a' is given twice
    """
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    if not text.strip():
        raise ValueError("it is empty")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_mapping,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise _too_deep() from None
    _check_depth(value)
    return value


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice[:80]!r} is given twice")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a valid JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits is too large")
    return int(text)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST):
        parts = (
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
        )
        level = [part for part in parts if isinstance(part, dict | list)]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEEPEST} deep")
