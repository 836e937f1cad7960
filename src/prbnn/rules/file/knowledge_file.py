"""The knowledge file: rules in YAML, in the same words as in Python.

knowledge:
  - {name: never negative, at_least: 0}
  - {name: more sun more power, increasing: irradiance, where: {irradiance: [0, 1200]}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prbnn.errors import KnowledgeError, shortened
from prbnn.rules.base import Rule
from prbnn.rules.file.faults import Fault, faults_of
from prbnn.rules.file.grammar import FileModel
from prbnn.rules.file.located import Located, one_line, read_located
from prbnn.rules.file.plain import to_plain
from prbnn.system.disk import read_limited

LONGEST_LINE = 100
# some 3,000 rules; reading takes a second for every 50,000
LARGEST = 200_000
# mistakes in one error, and characters of them
MOST_TOLD, MOST_SAID = 50, 10_000
_EXAMPLE = "a knowledge file starts with\nknowledge:\n  - {name: never negative, at_least: 0}"


@dataclass(frozen=True)
class KnowledgeFile:
    """What a knowledge file says: its rules in order, and the units of columns by name."""

    rules: tuple[Rule, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)


def read_knowledge(path: str | Path) -> KnowledgeFile:
    """Read a knowledge file; an error says in which line the mistake is, and what would be right.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "knowledge.yaml"
    >>> _ = file.write_text("knowledge:\\n  - {name: never negative, at_least: 0}\\n")
    >>> read_knowledge(file).rules[0].describe()
    'output >= 0'
    """
    try:
        text = read_limited(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KnowledgeError(
            f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8"
        ) from None
    except ValueError as error:
        raise KnowledgeError(f"{path}: {error}; a knowledge file is a list of rules") from None
    except OSError as error:
        raise KnowledgeError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_knowledge(text, str(path))


def parse_knowledge(text: str, source: str = "knowledge") -> KnowledgeFile:
    """Read the text of a knowledge file; errors call it ``source``.

    >>> parse_knowledge("knowledge: [{at_most: 2*x}]").rules[0].describe()
    'output <= 2*x'
    """
    if len(text) > LARGEST:
        raise KnowledgeError(
            f"{source}: {len(text):,} characters; a knowledge file has at most {LARGEST:,}"
        )
    found = read_located(text, source)
    if found.value is None:
        raise KnowledgeError(f"{source}: the file is empty; {_EXAMPLE}")
    if not isinstance(found.value, Mapping):
        raise KnowledgeError(found.error((), f"the file is a {_kind(found.value)}; {_EXAMPLE}"))
    try:
        model = FileModel.model_validate(found.value)
    except ValidationError as error:
        raise KnowledgeError(_mistakes(found, faults_of(error))) from None
    rules = []
    for place, entry in enumerate(model.knowledge or ()):
        try:
            rules.append(entry.rule())
        except KnowledgeError as error:
            path = ("knowledge", place)
            raise KnowledgeError(found.error(path, _labelled(found, path, str(error)))) from None
    _check_names(found, rules)
    return KnowledgeFile(tuple(rules), dict(model.units))


def write_knowledge(rules: Sequence[Rule], units: Mapping[str, str] | None = None) -> str:
    """Rules as the text of a knowledge file, which reads back equal.

    >>> from prbnn import AtLeast, Increasing
    >>> print(write_knowledge([AtLeast(0, name="never negative"), Increasing("sun").soft(10)]))
    knowledge:
      - {name: never negative, at_least: 0}
      - {increasing: sun, strength: {soft: 10}}
    <BLANKLINE>
    """
    lines = [f"units: {one_line(dict(units))}"] if units else []
    items = [line for rule in rules for line in _item(to_plain(rule))]
    lines += ["knowledge:", *items] if items else ["knowledge: []"]
    return "\n".join(lines) + "\n"


def knowledge_schema() -> dict[str, Any]:
    """The JSON schema of the knowledge file, with which editors complete and check it.

    >>> sorted(knowledge_schema()["properties"])
    ['knowledge', 'units']
    """
    schema = _without_noise(FileModel.model_json_schema(by_alias=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "prbnn knowledge file",
    }


def _mistakes(found: Located, faults: Sequence[Fault]) -> str:
    """The first mistakes, each with its line, and how many more there are."""
    messages: list[str] = []
    for fault in faults:
        if len(messages) == MOST_TOLD or sum(map(len, messages)) > MOST_SAID:
            messages.append(f"{found.source}: and {len(faults) - len(messages)} more mistakes")
            break
        messages.append(found.error(fault.path, _labelled(found, fault.path, fault.reason)))
    return "\n".join(messages)


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "single value"


def _labelled(found: Located, path: tuple[str | int, ...], reason: str) -> str:
    """A reason with the rule's name and the keys inside it, where it is about a rule."""
    if len(path) < 2 or path[0] != "knowledge":
        inside: tuple[str | int, ...] = path
        label = ""
    else:
        rule = found.value["knowledge"][path[1]]
        name = rule.get("name") if isinstance(rule, Mapping) else None
        label = f"rule {shortened(name, 100)}: " if name else f"rule {int(path[1]) + 1}: "
        inside = path[2:]
    place = ".".join(str(part)[:100] for part in inside)
    return f"{label}{place}: {reason}" if place else f"{label}{reason}"


def _check_names(found: Located, rules: Sequence[Rule]) -> None:
    """Raise where two rules have the same name: reports identify rules by name."""
    first: dict[str, int] = {}
    for place, rule in enumerate(rules):
        if rule.name is None:
            continue
        if rule.name in first:
            line = found.places["knowledge", first[rule.name]][0] + 1
            problem = f"the rule on line {line} is called {rule.name!r}, too; rename one"
            raise KnowledgeError(found.error(("knowledge", place, "name"), problem))
        first[rule.name] = place


def _item(plain: dict[str, Any]) -> list[str]:
    line = f"  - {one_line(plain)}"
    if len(line) <= LONGEST_LINE:
        return [line]
    keys = [one_line({key: value})[1:-1] for key, value in plain.items()]
    return [f"  {'-' if place == 0 else ' '} {key}" for place, key in enumerate(keys)]


def _without_noise(schema: Any) -> Any:
    """A schema without titles made up from names, and without the empty default of left-out keys."""
    if isinstance(schema, list):
        return [_without_noise(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_noise(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
        and not (key == "default" and value is None)
    }
