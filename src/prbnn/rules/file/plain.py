"""Rules as plain values and back: what a knowledge file holds, and what a saved model keeps."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from pydantic import TypeAdapter, ValidationError

from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.base import Rule, naming
from prbnn.rules.file.faults import Fault, GrammarError, faults_of
from prbnn.rules.file.grammar import AnyEntry, entry_of
from prbnn.rules.regions import Sweep
from prbnn.rules.strengths import Hard, InPrior, OnAverage, Probable, Soft, Strength

_ENTRY = TypeAdapter(AnyEntry)


def to_plain(rule: Rule) -> dict[str, Any]:
    """A rule as nested dicts and lists of text and numbers, in the words of the knowledge file.

    >>> from prbnn import Increasing
    >>> to_plain(Increasing("sun", where={"sun": (0, 1200)}, name="more sun").soft(10))
    {'name': 'more sun', 'increasing': 'sun', 'where': {'sun': [0, 1200]}, 'strength': {'soft': 10}}
    """
    with naming(rule):
        said = {key: _plain(value, key) for key, value in entry_of(rule).said(rule).items()}
        common = {
            "of": _plain(rule.of, "of"),
            "where": None if rule.where is None else _where(rule.where),
            "at": _plain(rule.at, "at"),
            "margin": _plain(rule.margin, "margin") or None,
            "strength": None if rule.strength == Hard() else _strength(rule.strength),
            "because": rule.because,
        }
    return _given(name=rule.name, **said, **common)


def from_plain(plain: Mapping[str, Any]) -> Rule:
    """The rule that plain values state: ``from_plain(to_plain(rule)) == rule``.

    >>> from_plain({"name": "warm", "at_least": 20, "where": {"hour": [8, 18]}}).describe()
    'output >= 20'
    """
    label = (
        f"rule {plain['name']!r}" if isinstance(plain, Mapping) and plain.get("name") else "rule"
    )
    try:
        return _ENTRY.validate_python(plain).rule()
    except ValidationError as error:
        raise GrammarError(label, faults_of(error)) from None
    except KnowledgeError as error:
        raise GrammarError(label, [Fault((), str(error))]) from None


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _plain(value: Any, what: str) -> Any:
    """Numbers, text and sequences of them as JSON and YAML know them."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if is_number(value):
        return float(value)
    if isinstance(value, Rule):
        return to_plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part, what) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, what) for part in value]
    if callable(value):
        raise KnowledgeError(
            f"{what} is the callable {getattr(value, '__name__', repr(value))}; callables live in "
            "Python only, so write it as text in the column names or leave the rule in Python"
        )
    return float(value)


def _where(where: Any) -> Any:
    if isinstance(where, Sweep):
        return {"box": {c: _plain([low, high], "where") for c, low, high in where.ranges}}
    if isinstance(where, Mapping):
        return _plain(where, "where")
    return [_where(part) for part in where]


def _strength(strength: Strength) -> Any:
    match strength:
        case Soft(weight=weight, power=power):
            plain = {"soft": weight, "power": None if power == 1 else power}
        case InPrior(weight=weight):
            plain = {"in_prior": weight}
        case Hard(tolerance=tolerance):
            plain = {"hard": tolerance}
        case Probable(p=p, of=of):
            plain = {"probably": p, "of": None if of == "functions" else of}
        case OnAverage(bound=bound):
            plain = {"on_average": bound}
    return _given(**_plain(plain, "strength"))
