"""Numbers, rules and regions as a reader would say them."""

from __future__ import annotations

import math
import re

from prbnn.report.subject import Subject
from prbnn.rules.base import Rule

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SIGNS = (("<=", "≤"), (">=", "≥"), ("+-", "±"), (" * ", " · "))


def number(value: float, digits: int = 3) -> str:
    """A number of a few digits that matter.

    >>> number(1234.5), number(0.0123), number(-2.0), number(0.0000089), number(3.2e7)
    ('1,234', '0.0123', '−2', '8.9 × 10⁻⁶', '3.2 × 10⁷')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)))
    if -5 < power < 6:
        shown = f"{value:,.{max(0, digits - 1 - power)}f}"
        return (shown.rstrip("0").rstrip(".") if "." in shown else shown).replace("-", "−")
    head = f"{value / 10.0**power:.{digits - 1}f}".rstrip("0").rstrip(".").replace("-", "−")
    tail = f"10{str(power).translate(RAISED)}"
    return tail if head == "1" else f"{head} × {tail}"


def percent(share: float) -> str:
    """A share as a reader says it; never 0 % or 100 % unless it is.

    >>> percent(0.0), percent(0.0004), percent(0.034), percent(0.9), percent(0.9996)
    ('0 %', '< 0.1 %', '3.4 %', '90 %', '> 99.9 %')
    """
    if not math.isfinite(share):
        return "–"
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def with_unit(value: float, unit: str) -> str:
    """A number and its unit.

    >>> with_unit(2.5, "kW"), with_unit(2.5, "")
    ('2.5 kW', '2.5')
    """
    return f"{number(value)} {unit}".strip()


def counted(count: int, thing: str, things: str = "") -> str:
    """A count and what it counts.

    >>> counted(1, "rule"), counted(1200, "row")
    ('1 rule', '1,200 rows')
    """
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def listed(names: list[str] | tuple[str, ...]) -> str:
    """Names in one phrase.

    >>> listed(["a", "b", "c"])
    '‘a’, ‘b’ and ‘c’'
    """
    quoted = [f"‘{name}’" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def rule_in_words(rule: Rule, subject: Subject) -> str:
    """What a rule says, with the output's own name."""
    name = subject.output_names[0] if rule.of is None else rule.of
    if not isinstance(name, str) or name not in subject.output_names:
        return typeset(rule.in_words())
    return typeset(rule.in_words(f"P({name})" if subject.classes else name))


def typeset(text: str) -> str:
    """Comparisons, products and minus signs as they are printed.

    >>> typeset("power >= -2"), typeset("well-known <= 2 * cap - 1")
    ('power ≥ −2', 'well-known ≤ 2 · cap − 1')
    """
    for written, sign in SIGNS:
        text = text.replace(written, sign)
    return re.sub(r"(?<![\w)])-(?=[\d ])", "−", text)


def region_in_words(rule: Rule, subject: Subject) -> str:
    """Where a rule holds."""
    if not rule.region:
        return "wherever the data are"
    boxes = []
    for box in rule.region:
        ranges = [
            with_unit(low, f"{subject.unit(name)}")
            if low == high
            else f"{number(low)} to {with_unit(high, subject.unit(name))}"
            for name, low, high in box.ranges
        ]
        names = [name for name, _, _ in box.ranges]
        said = ", ".join(f"{name} {text}" for name, text in zip(names, ranges, strict=True))
        boxes.append(f"{said}, all else over its full range" if box.full else said)
    return "; or ".join(boxes)


def price_in_words(dual: float, unit: str, *, probable: bool) -> str:
    """What loosening a rule would buy, by a step that buys between 1 and 10 nats.

    >>> price_in_words(0.3, "kW", probable=False), price_in_words(13200, "kW", probable=False)
    ('10 kW buys 3 nats', '0.0001 kW buys 1.32 nats')
    >>> price_in_words(0, "kW", probable=False), price_in_words(16, "", probable=True)
    ('free', '10 % of functions buys 1.6 nats')
    """
    if not math.isfinite(dual):
        return "–"
    if dual <= 0:
        return "free"
    step = 10.0 ** math.floor(-math.log10(dual) + 1)
    if probable:
        step = min(step, 1.0)
        return f"{percent(step)} of functions buys {number(dual * step)} nats"
    unit = unit or ("unit" if step == 1 else "units")
    return f"{with_unit(step, unit)} buys {number(dual * step)} nats"
