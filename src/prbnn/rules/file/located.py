"""YAML as plain values that remember their lines, so that an error can show the line of a mistake.

Numbers and words are read as YAML 1.2 has them: ``1e4`` is a number, ``on`` and ``NO`` are words.
Keys are always text. Nothing but text, numbers, truth values, lists and mappings is ever made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from prbnn.errors import KnowledgeError

Path = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
# a rule of parts with regions is ten deep
DEEPEST = 30
# more than any float has a use for, and fewer than make a whole number too large for one
MOST_DIGITS = 300
# characters of one problem: names and keys in it may be as long as the file
MOST_SAID = 2_000
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True)
class Located:
    """Plain values read from text, and the position of each part in it."""

    value: Any
    places: dict[Path, tuple[int, int]]
    lines: Sequence[str]
    source: str

    def error(self, path: Path, problem: str) -> str:
        """A message with file, line and the line itself; an unknown path is reported at its parent."""
        while path and path not in self.places:
            path = path[:-1]
        return shown(self.source, self.lines, *self.places.get(path, (0, 0)), problem)


def shown(source: str, lines: Sequence[str], line: int, column: int, problem: str) -> str:
    """A problem with the line it is on and a mark under its place; lines count from 0."""
    if len(problem) > MOST_SAID:
        problem = f"{problem[:MOST_SAID]}... ({len(problem):,} characters)"
    text = lines[line] if line < len(lines) else ""
    start = max(0, column - 60)
    part = text[start : start + 110].replace("\t", " ")
    number = f"{line + 1} | "
    mark = " " * (len(number) + column - start) + "^"
    return f"{source}:{line + 1}: {problem}\n    {number}{part}\n    {mark}"


class _Refused(yaml.MarkedYAMLError):
    """YAML that is well formed, but of a kind that a knowledge file has no use for."""

    def __init__(self, problem: str, mark: Any):
        super().__init__(problem=problem, problem_mark=mark)


class _Loader(yaml.SafeLoader):
    """Composes nodes without YAML 1.1's guesses, and without aliases, which can grow without end."""

    yaml_implicit_resolvers: dict = {}  # noqa: RUF012 - as yaml declares it

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        if self.depth > DEEPEST:
            problem = f"nested more than {DEEPEST} deep, which no rule is"
            raise _Refused(problem, event.start_mark)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            problem = "anchors (&) and aliases (*) are not read; write it out, or use quotes"
            raise _Refused(problem, event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_located(text: str, source: str) -> Located:
    """Read one YAML document; a KnowledgeError points at what cannot be read.

    >>> found = read_located("a: [1, 1e4]", "text")
    >>> found.value, found.places["a", 1]
    ({'a': [1, 10000.0]}, (0, 7))
    """
    lines = text.splitlines()
    places: dict[Path, tuple[int, int]] = {}
    try:
        node = _Loader(text).get_single_node()
        value = None if node is None else _value(node, (), places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        raise KnowledgeError(
            shown(source, lines, line, column, _in_words(error, lines, line))
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        # PyYAML lets through what Python says of \U00110000, which is no character, and of %YAML 9...9.1
        raise KnowledgeError(f"{source}: cannot be read as YAML: {error}") from None
    return Located(value, places, lines, source)


def _in_words(error: yaml.MarkedYAMLError, lines: Sequence[str], line: int) -> str:
    problem = error.problem or "cannot be read as YAML"
    if isinstance(error, _Refused):
        return problem
    if line < len(lines) and "\t" in lines[line] and "\\t" in problem:
        return "a tab; YAML is indented with spaces"
    if "mapping values are not allowed" in problem:
        return "a colon where none can be; put text that holds ': ' in quotes"
    if "expected a single document" in str(error):
        return "a second document (---); one file holds one"
    if "cannot start any token" in problem:
        return f"{problem}; put text that starts with ` or @ or % in quotes"
    return f"cannot be read as YAML: {problem}"


def _value(node: Any, path: Path, places: dict[Path, tuple[int, int]]) -> Any:
    places.setdefault(path, (node.start_mark.line, node.start_mark.column))
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
        return [_value(part, (*path, k), places) for k, part in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
        return _mapping(node, path, places)
    if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str":
        if not node.style and len(node.value) > MOST_DIGITS and _NUMBER.match(node.value):
            raise _Refused(f"a number of {len(node.value)} characters; round it", node.start_mark)
        # a style is a quote or a block mark: such text is text, whatever it looks like
        return _text(node) if node.style else _plain(node.value)
    raise _Refused("tags (!) are not read; put text that starts with ! in quotes", node.start_mark)


def _mapping(node: Any, path: Path, places: dict[Path, tuple[int, int]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        mark = key_node.start_mark
        if not isinstance(key_node, yaml.ScalarNode):
            raise _Refused("a key must be a word, not a list or a mapping", mark)
        key = _text(key_node)
        if key in mapping:
            before = places[(*path, key)][0] + 1
            raise _Refused(f"{key!r} is written twice, first on line {before}; keep one", mark)
        places[(*path, key)] = (mark.line, mark.column)
        mapping[key] = _value(value_node, (*path, key), places)
    return mapping


def _text(node: Any) -> str:
    """The text of a scalar; two escapes of half a character, as JSON writes them, are one."""
    try:
        return node.value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        problem = "an escape \\u of half a character, which no file can hold; write it out"
        raise _Refused(problem, node.start_mark) from None


def _plain(text: str) -> Any:
    """An unquoted scalar: a number or a truth value where it looks like one, else text."""
    lowered = text.lower()
    if lowered in _WORDS and text in (lowered, lowered.capitalize(), lowered.upper()):
        return _WORDS[lowered]
    if _NUMBER.match(text):
        return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text)
    return text


class Dumper(yaml.SafeDumper):
    """Writes text in quotes wherever any YAML reader, old or new, could take it for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


Dumper.add_implicit_resolver(f"{_TAG}float", _NUMBER, list("-+0123456789."))


def one_line(value: Any) -> str:
    """A mapping or list as YAML on one line.

    >>> one_line({"name": "1e4", "where": {"NO": [0, 1e-7]}})
    "{name: '1e4', where: {'NO': [0, 1.0e-07]}}"
    """
    return yaml.dump(
        value,
        Dumper=Dumper,
        default_flow_style=True,
        width=float("inf"),
        sort_keys=False,
        allow_unicode=True,
    ).rstrip("\n")
