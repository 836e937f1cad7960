"""What is wrong with plain values that should be a rule, in words that say what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from prbnn.errors import KnowledgeError, nearest, shortened
from prbnn.rules.file.grammar import KINDS, FileModel
from prbnn.rules.file.parts import STRENGTHS, Model

Path = tuple[str | int, ...]

# what is valid, by pydantic's name of the error, where pydantic's own message is about Python types
_NEEDED = {
    "tuple_type": "needs a pair [low, high], got {input}",
    "too_long": "needs a pair [low, high], got {input}",
    "too_short": "needs a pair [low, high], got {input}",
    "missing": "is missing",
    "strength": "is hard, {{hard: tolerance}}, {{soft: weight}}, {{probably: fraction}}, "
    "{{on_average: bound}} or {{in_prior: weight}}, got {input}",
    "list_type": "needs a list, got {input}",
    "dict_type": "needs a mapping of columns, such as {{x: 1}}, got {input}",
    "model_type": "needs a mapping, got {input}",
    "bool_type": "is true or false, got {input}",
    "literal_error": "is {expected}, got {input}",
}
# keys whose value is a mapping of its own, and what that may hold
_PARTS: dict[str, type[BaseModel]] = {
    kind: part
    for kind, entry in KINDS.items()
    if isinstance(part := entry.model_fields[kind].annotation, type) and issubclass(part, Model)
}


@dataclass(frozen=True)
class Fault:
    """One mistake: the keys and positions that lead to it, and what is wrong there."""

    path: Path
    reason: str

    def __str__(self) -> str:
        place = ".".join(str(part) for part in self.path)
        return f"{place}: {self.reason}" if place else self.reason


class GrammarError(KnowledgeError):
    """Plain values that make no rule; ``faults`` says what is wrong and where in them."""

    def __init__(self, label: str, faults: Sequence[Fault]):
        super().__init__(f"{label}: {'; '.join(map(str, faults))}")
        self.label, self.faults = label, tuple(faults)


def faults_of(error: ValidationError) -> list[Fault]:
    """Every mistake that pydantic found, in this library's words."""
    faults = [_fault(found) for found in error.errors()]
    hints = " ".join(fault.reason for fault in faults)
    # a misspelt key is reported once, and not as missing, too
    return [
        fault
        for fault in faults
        if not (fault.reason == "is missing" and f"did you mean {fault.path[-1]!r}?" in hints)
    ]


def _fault(found: Any) -> Fault:
    path = tuple(part for part in found["loc"] if not _is_tag(part))
    kind, message = found["type"], found["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return Fault(path, _unknown(found["loc"], str(path[-1])))
    if path and path[-1] == "[key]":
        path = path[:-1]
    if kind in _NEEDED:
        context = found.get("ctx", {})
        message = _NEEDED[kind].format(
            input=shortened(found["input"]), expected=context.get("expected", "")
        )
    return Fault(path, message)


def _is_tag(part: object) -> bool:
    return isinstance(part, str) and part.startswith("<") and part.endswith(">")


def _unknown(location: Path, key: str) -> str:
    """An unknown key, with the nearest key that its mapping allows."""
    tag = next((str(part)[1:-1] for part in reversed(location) if _is_tag(part)), "the file")
    model: type[BaseModel] = KINDS.get(tag) or STRENGTHS.get(tag) or FileModel
    if len(location) > 1 and location[-2] in _PARTS:
        tag = str(location[-2])
        model = _PARTS[tag]
    known = [field.alias or name for name, field in model.model_fields.items()]
    hint = nearest(key, [word for word in known if word != tag])
    if "did you mean" in hint:
        return f"is not a word of {tag}{hint}"
    return f"is not a word of {tag}; it takes {', '.join(known)}"
