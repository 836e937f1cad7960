"""Rules as entries of a knowledge file, and back; rules with code are to be supplied again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prbnn.errors import KnowledgeError, ModelFileError, nearest
from prbnn.rules.base import Rule
from prbnn.rules.file.plain import from_plain, to_plain

RuleEntry = dict[str, Any]


def rules_to_json(rules: Sequence[Rule], names: Sequence[str]) -> list[RuleEntry]:
    """One entry per rule, with its name in reports; code is marked as supplied, never written."""
    return [_entry(rule, name) for rule, name in zip(rules, names, strict=True)]


def _entry(rule: Rule, name: str) -> RuleEntry:
    """The rule in words where these read back equal, else what is known of its code."""
    try:
        plain = to_plain(rule)
        if from_plain(plain) == rule:
            return {"name": name, "rule": plain}
    except KnowledgeError:
        pass
    return {"name": name, "supply": _code(rule)}


def _code(rule: Rule) -> dict[str, str]:
    """Class and strength of a rule with code, by which a supplied one is recognised."""
    return {"kind": type(rule).__qualname__, "strength": str(getattr(rule, "strength", "none"))}


def rules_from_json(entries: Sequence[RuleEntry], supplied: Mapping[str, Rule]) -> list[Rule]:
    """The rules of ``entries``; those with code are taken from ``supplied`` by name.

    A rule that is missing there, or that the file does not ask for, raises.
    """
    missing = [e for e in entries if "supply" in e and e["name"] not in supplied]
    if missing:
        first = missing[0]["name"]
        listed = ", ".join(f"{e['name']!r} ({e['supply']['kind']})" for e in missing)
        raise ModelFileError(
            f"the file cannot hold the code of rule {listed}; supply it again: "
            f"load(path, knowledge={{{first!r}: ...}})"
        )
    wanted = [e["name"] for e in entries if "supply" in e]
    for name in supplied:
        if name not in wanted:
            held = any(e["name"] == name for e in entries)
            reason = (
                "which the file holds itself; leave it out" if held else "which it does not have"
            )
            raise ModelFileError(
                f"rule {name!r} was supplied, {reason}{'' if held else nearest(name, wanted)}"
            )
    return [_rule(entry, supplied) for entry in entries]


def _rule(entry: RuleEntry, supplied: Mapping[str, Rule]) -> Rule:
    if "rule" in entry:
        return from_plain(entry["rule"])
    rule, was = supplied[entry["name"]], entry["supply"]
    if _code(rule) != was:
        raise ModelFileError(
            f"rule {entry['name']!r} was a {was['kind']} that is {was['strength']}; supplied was "
            f"{rule!r}"
        )
    return rule
