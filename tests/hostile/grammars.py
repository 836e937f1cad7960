"""Hostile text that is nearly valid: built by the grammar of each parser, then broken in a few places.

Every function takes a source of random choices, so that the same grammars serve three drivers: seeded
numbers (`benchmarks/fuzz.py`), hypothesis, which makes a failing case smaller, and atheris, whose bytes
are the choices.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

# what breaks parsers: quotes and brackets, controls, marks of direction, look-alikes, half characters
MARKS = (
    *"`'\"()[]{}<>=!,.:;|&*%@#?~^$\\/-+_ \t\r\n",
    *("\0", "\x07", "\x0b", "\x0c", "\x1a", "\x1b[2J", "\x7f", "\x85", "\xa0"),
    *("\u200b", "\u200d", "\u2028", "\u202e", "\u2066", "\ufeff", "\ufffe", "\ud800", "\udcff"),
    *("µ", "ﬁ", "ｘ", "²", "½", "é", "e\u0301", "٣", "Ⅷ", "😀", "ß", "İ"),
)
NUMBERS = (
    *(
        "0",
        "1",
        "-1",
        "2.5",
        ".5",
        "5.",
        "1e3",
        "1E-7",
        "-0",
        "-0.0",
        "007",
        "1_000",
        "0x1F",
        "0b1",
    ),
    *("1e300", "1e301", "1e308", "1e309", "-1e999", "1e-999", "9" * 25, "9" * 400, "1" * 4301),
    *(
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "1j",
        "1e",
        "1.2.3",
        "1,5",
        "1.234,5",
        "1 000",
        "--1",
    ),
)
NAMES = (
    "x",
    "y",
    "sun",
    "wind speed",
    "power",
    "pi",
    "e",
    "log",
    "on",
    "NO",
    "null",
    "2020",
    "x=1",
)
ODD_NAMES = (
    *("", " ", "box", "__class__", "../../x", "=1+1", "<script>alert(1)</script>", '"><img src=x>'),
    *(
        "a" * 300,
        "a`b",
        "é",
        "ｘ",
        "x\u202e",
        "x\x1b[2J",
        "row",
        "Unnamed: 0",
        "[red]x",
        "{x}",
        "%s",
    ),
)


def often(choices: Random, chance: float) -> bool:
    """Whether something with this ``chance`` happens."""
    return choices.random() < chance


def mutated(choices: Random, text: str, marks: Sequence[str] = MARKS) -> str:
    """``text`` with one to three changes: pieces left out, put in, repeated, moved or replaced."""
    for _ in range(choices.randrange(1, 4)):
        start = choices.randrange(len(text) + 1)
        end = min(len(text), start + choices.randrange(1, 9))
        piece = text[start:end]
        match choices.randrange(7):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + choices.choice(marks) + text[start:]
            case 2:
                text = text[:start] + choices.choice(marks) + text[end:]
            case 3:
                text = (
                    text[:start]
                    + piece * choices.choice((2, 2, 3, 3, 3, 9, 33, 250))
                    + text[start:]
                )
            case 4:
                place = choices.randrange(len(text) + 1)
                text = text[:place] + piece + text[place:]
            case 5:
                text = text[:start]
            case 6:
                text = text[:start] + choices.choice(NUMBERS) + text[end:]
    return text


# ---- expressions ------------------------------------------------------------------------------

FUNCTIONS = ("log", "exp", "sqrt", "abs", "tanh", "sigmoid", "softplus", "floor", "min", "maximum")
REACHING = (
    *("eval", "open", "__import__", "getattr", "x.__class__", "().__class__", "lambda: x", "[x]"),
    *("x if y else 1", "x and y", "not x", "(y := 5)", "f'{x}'", "x[0]", "{x: 1}", "*x", "await x"),
    *("9**9**9", "2**10000", "1/0", "log(-1)", "True", "None", "...", "x;y", "x=1", "1if x else 2"),
)
SIGNS = (" + ", "-", "*", "/", "**", "<", "<=", ">", "==", " != ")
ODD_SIGNS = ("//", "%", "@", "<<", "&", "|", "^", " in ", " is ", " and ", "=", ":=", "..", " ", "")


def expression(choices: Random) -> str:
    """A formula, most of the time of the grammar, with a few changes half of the time."""
    text = _formula(choices, choices.randrange(5))
    if often(choices, 0.02):
        opened = choices.choice(("(", "-", "log(", "x<(", "x**", "min(x,", "[", "`a`+"))
        times = choices.choice((5, 31, 33, 99, 400, 3000))
        text = opened * times + text + ")" * (times if often(choices, 0.7) else 0)
    return mutated(choices, text) if often(choices, 0.5) else text


def _formula(choices: Random, depth: int) -> str:
    if depth <= 0 or often(choices, 0.15):
        return _operand(choices)
    inner: Callable[[], str] = lambda: _formula(choices, depth - 1)  # noqa: E731
    match choices.randrange(6):
        case 0:
            return f"({inner()})"
        case 1:
            return choices.choice(("-", "+", "--", "- ")) + inner()
        case 2:
            operands = [inner() for _ in range(choices.choice((1, 1, 1, 2, 2, 3, 0)))]
            name = choices.choice(FUNCTIONS)
            return f"{name}({','.join(operands)})"
        case 3:
            name = choices.choice(("where", "clip"))
            return f"{name}({inner()}, {inner()}, {inner()})"
    sign = choices.choice(ODD_SIGNS if often(choices, 0.05) else SIGNS)
    return f"{inner()}{sign}{inner()}"


def _operand(choices: Random) -> str:
    if often(choices, 0.08):
        return choices.choice(REACHING)
    if often(choices, 0.4):
        number = choices.choice(NUMBERS)
        return number if len(number) < 99 or often(choices, 0.1) else "3"
    name = choices.choice(ODD_NAMES if often(choices, 0.1) else NAMES)
    return f"`{name}`" if not name.isidentifier() or often(choices, 0.1) else name


# ---- knowledge files --------------------------------------------------------------------------

KEYS = (
    *("at_least", "at_most", "equals", "increasing", "decreasing", "convex", "concave", "one_of"),
    *("outside", "between", "slope", "curvature", "periodic", "unimodal", "compare", "falls"),
    *("rises", "rate", "continues", "combined"),
)
COMMON = ("name", "where", "margin", "strength", "because", "of", "at")
YAML_MARKS = (
    *MARKS,
    *(
        "&a ",
        "*a",
        "!!python/object:os.system ",
        "!<tag:x> ",
        "<<: ",
        "? ",
        "--- ",
        "...\n",
        "|2\n",
    ),
    *(
        '"\\ud800"',
        '"\\U00110000"',
        '"\\x00"',
        '"\\xZZ"',
        '"\\N"',
        '"\\\n"',
        "'\n'",
        ">-\n",
        "%YAML 1.2\n",
    ),
    *(
        "%YAML 9.9\n---\n",
        "%TAG ! x\n---\n",
        f"%YAML {'9' * 4400}.1\n---\n",
        "%FOO\n",
        "- ",
        ": ",
        "\n ",
    ),
)


def knowledge(choices: Random) -> str:
    """A knowledge file of one or two rules, nearly right, changed in its text half of the time."""
    rules = [_rule(choices, 2) for _ in range(choices.choice((1, 1, 1, 2)))]
    if often(choices, 0.5):
        text = "knowledge:\n" + "".join(f"  - {_flow(choices, rule)}\n" for rule in rules)
    else:
        text = f"knowledge: {_flow(choices, rules)}\n"
    if often(choices, 0.1):
        units = {_name(choices): choices.choice(("kW", "", 1, None, "°C"))}
        text = f"units: {_flow(choices, units)}\n{text}"
    return mutated(choices, text, YAML_MARKS) if often(choices, 0.6) else text


def _rule(choices: Random, depth: int) -> Any:
    kind = choices.choice(KEYS)
    rule = {kind: _value(choices, kind, depth)}
    if kind in ("periodic", "continues") or often(choices, 0.05):
        rule[choices.choice(("period", "within"))] = _number(choices)
    if kind == "unimodal":
        rule["peak"] = _number(choices)
    while often(choices, 0.35):
        key = choices.choice((*COMMON, "over", "step", "lag", "by", "weights", "smooth", "wher"))
        rule[key] = _value(choices, key, depth)
    return rule if often(choices, 0.98) else _odd(choices)


def _value(choices: Random, key: str, depth: int) -> Any:
    if often(choices, 0.06):
        return _odd(choices)
    match key:
        case "at_least" | "at_most" | "equals":
            return _number(choices) if often(choices, 0.5) else _formula(choices, 1)
        case "one_of" | "outside":
            return [_pair(choices) for _ in range(choices.randrange(3))]
        case "between" | "smooth":
            return _pair(choices)
        case "slope" | "curvature":
            return {
                "along": _name(choices),
                choices.choice(("at_least", "at_most")): _number(choices),
            }
        case "rate":
            return {"of": _name(choices), "between": _pair(choices)}
        case "compare":
            sides = {_name(choices): _number(choices)}
            is_ = choices.choice(("below", "above", "within", "beside"))
            return {"set": sides, "is": is_, "against": {_name(choices): _number(choices)}}
        case "combined":
            return [_rule(choices, depth - 1) for _ in range(choices.randrange(3) if depth else 0)]
        case "where":
            ends = _pair(choices) if often(choices, 0.7) else _number(choices)
            place = {_name(choices): ends}
            return choices.choice((place, [place], {"box": place}, {}, []))
        case "strength":
            word = choices.choice(("soft", "hard", "probably", "on_average", "in_prior"))
            return choices.choice(("hard", {word: _number(choices)}, word))
        case "at" | "lag":
            return choices.choice(("first", "last", 1, 0, -1, [1, 2], 10**30, 1.5))
        case "weights":
            return _pair(choices)
        case "margin" | "over" | "step" | "by":
            return _number(choices)
    return _name(choices)


def _number(choices: Random) -> Any:
    if often(choices, 0.1):
        return choices.choice(NUMBERS)
    return choices.choice((0, 1, -1, 0.5, 2, 10, 1e-9, 1e300))


def _pair(choices: Random) -> list[Any]:
    return [_number(choices) for _ in range(2 if often(choices, 0.95) else choices.randrange(4))]


def _name(choices: Random) -> str:
    return choices.choice(ODD_NAMES if often(choices, 0.1) else NAMES)


def _odd(choices: Random) -> Any:
    nested: Any = 0
    for _ in range(choices.choice((1, 3, 35))):
        nested = [nested] if often(choices, 0.5) else {"box": nested}
    odd = (None, True, "", [], {}, -1, 10**400, float("nan"), "x" * 2000, nested, [[], {}])
    return choices.choice(odd)


def _flow(choices: Random, value: Any) -> str:
    """``value`` as YAML on one line, in quotes or without."""
    if isinstance(value, dict):
        said = ", ".join(f"{_flow(choices, k)}: {_flow(choices, v)}" for k, v in value.items())
        return f"{{{said}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(choices, part) for part in value)}]"
    if isinstance(value, str) and (not value.replace("_", "a").isalnum() or often(choices, 0.1)):
        return json.dumps(value, ensure_ascii=often(choices, 0.5)) if often(choices, 0.9) else value
    return "null" if value is None else str(value)


# ---- tables -----------------------------------------------------------------------------------

DATES = (
    *(
        "2026-05-31",
        "31.05.2026",
        "05/31/2026",
        "01/02/2026",
        "2026-05-31 12:30",
        "2026-05-31T12:30Z",
    ),
    *(
        "12:30",
        "25:99",
        "0000-00-00",
        "9999-12-31",
        "0001-01-01",
        "31.05.26",
        "2026-5-1 1:00+25:99",
    ),
)
CELLS: tuple[tuple[str, ...], ...] = (
    *[("1", "2", "3.5", "-4", "1e5", "0")] * 3,
    ("1,5", "2,25", "-0,5", "1.234,5"),
    ("a", "b", "c", "a b"),
    ("yes", "no", "Yes", "TRUE", "False"),
    DATES,
    ("", "?", "-", "NA", "nan", "NULL"),
    (*NUMBERS, *ODD_NAMES),
)
ENCODINGS = (*["utf-8"] * 12, "utf-8-sig", "cp1252", "utf-16", "latin-1", "utf-32")


def table(choices: Random) -> bytes:
    """A CSV file of a few rows, changed in its text or its bytes half of the time."""
    delimiter = choices.choice(",,,;;\t|")
    width = choices.choice((2, 2, 3, 3, 4, 1))
    names = [_name(choices) if often(choices, 0.3) else f"c{k}" for k in range(width)]
    kinds = [choices.choice(CELLS) for _ in range(width)]
    lines = [names]
    for _ in range(choices.choice((1, 2, 3, 4, 6, 0))):
        lines.append([_cell(choices, kind) for kind in kinds])
        if often(choices, 0.04):
            lines[-1].append("")
    end = choices.choice(("\n", "\n", "\n", "\r\n", "\r"))
    text = end.join(
        delimiter.join(_quoted(choices, cell, delimiter) for cell in row) for row in lines
    )
    text += end if often(choices, 0.8) else ""
    if often(choices, 0.4):
        text = mutated(choices, text)
    content = text.encode(choices.choice(ENCODINGS), "replace")
    return _spoilt(choices, content) if often(choices, 0.15) else content


def _cell(choices: Random, kind: Sequence[str]) -> str:
    if often(choices, 0.04):
        kind = choices.choice(CELLS)
    cell = choices.choice(kind)
    return cell if len(cell) < 99 or often(choices, 0.1) else cell[:30]


def _quoted(choices: Random, cell: str, delimiter: str) -> str:
    if delimiter in cell or often(choices, 0.05):
        doubled = cell.replace('"', '""')
        return f'"{doubled}"' if often(choices, 0.9) else f'"{cell}'
    return cell


def _spoilt(choices: Random, content: bytes) -> bytes:
    """``content`` with some bytes changed, left out or put in."""
    made = bytearray(content)
    for _ in range(choices.randrange(1, 5)):
        place = choices.randrange(len(made) + 1)
        match choices.randrange(3):
            case 0:
                made[place:place] = bytes([choices.choice((0, 9, 10, 13, 34, 44, 128, 255))])
            case 1:
                del made[place : place + choices.randrange(1, 5)]
            case 2:
                made[place : place + 1] = bytes([choices.randrange(256)])
    return bytes(made)


# ---- model files ------------------------------------------------------------------------------

Place = tuple[str | int, ...]
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 10**9, 10**18, -(10**18), 10**290, 0.5, -0.5, 1e300, 1e-300),
    *("", "x", "../../x", "/etc/passwd", "MLP", "nan", "\ud800", "a" * 5000, [], {}, [[]], [None]),
    *({"type": "MLP"}, {"type": "os.system"}, {"supply": "network", "was": "a"}, {"number": "nan"}),
    *({"numpy": "float16", "value": 1}, {"tuple": [1]}, {"pairs": [[1, 2]]}, {"pairs": [[[], 1]]}),
)


def places(record: Any, path: Place = ()) -> list[Place]:
    """The way to every value in a ``record``."""
    inside = list(record.items() if isinstance(record, dict) else enumerate(record))
    found: list[Place] = [(*path, key) for key, _ in inside]
    for key, value in inside:
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


def put(record: Any, place: Place, value: Any) -> Any:
    """A copy of a ``record`` with another ``value`` at a ``place``."""
    if not place:
        return value
    made = record.copy()
    made[place[0]] = put(made[place[0]], place[1:], value)
    return made


def without(record: Any, place: Place) -> Any:
    """A copy of a ``record`` without the entry at a ``place``."""
    made = record.copy()
    if len(place) == 1:
        del made[place[0]]
    else:
        made[place[0]] = without(made[place[0]], place[1:])
    return made


def found_at(record: Any, place: Place) -> Any:
    """The value at a ``place`` in a ``record``."""
    for key in place:
        record = record[key]
    return record


def changed_record(choices: Random, record: Any) -> Any:
    """A ``record`` with one or two values replaced, left out, exchanged or doubled."""
    for _ in range(choices.choice((1, 1, 2))):
        known = places(record)
        if not known:
            return record
        place = choices.choice(known)
        match choices.randrange(5):
            case 0:
                record = without(record, place)
            case 1:
                record = put(record, place, found_at(record, choices.choice(known)))
            case 2:
                value = found_at(record, place)
                bigger = value * choices.choice((2, 999)) if isinstance(value, list | str) else -1
                record = put(record, place, bigger)
            case _:
                record = put(record, place, choices.choice(ODD_VALUES))
    return record


def spoilt(choices: Random, content: bytes) -> bytes:
    """A file cut short, or with some bytes changed, most of them in its header."""
    if often(choices, 0.2):
        return content[: choices.randrange(len(content))]
    length = min(len(content), 8 + int.from_bytes(content[:8], "little"))
    start = choices.randrange(length if often(choices, 0.8) else len(content))
    return content[:start] + _spoilt(choices, content[start : start + 40]) + content[start + 40 :]
