"""Whether a formula rises or falls with a column, derived from its parts: a proof, not a sample.

The formula is walked with directions in place of numbers. Sums, minima and maxima of rising parts
rise, rising functions keep a direction, a negative factor turns it around; whatever is not listed is
unknown unless all its parts are flat.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from prbnn.rules.expressions import Expression, walk

RISING = ("log", "log10", "log1p", "exp", "expm1", "sqrt", "tanh", "arctan", "floor", "sign")
JOINED = ("add", "minimum", "maximum", "logaddexp")


@dataclass(frozen=True)
class _Trend:
    """1 never falls, -1 never rises, 0 does not depend on the column, None is unknown."""

    way: int | None

    def __neg__(self) -> _Trend:
        return _Trend(None if self.way is None else -self.way)


FLAT, UNKNOWN = _Trend(0), _Trend(None)


def _join(first: _Trend, second: _Trend) -> _Trend:
    if first.way == 0 or first == second:
        return second
    return first if second.way == 0 else UNKNOWN


def _turned(part: _Trend, factor: Any) -> _Trend:
    """A part times a number."""
    if factor == 0:
        return FLAT
    return part if factor > 0 else -part


class _Directions:
    """Stands for numpy: the same names, on directions."""

    def __getattr__(self, name: str) -> Any:
        def operation(*operands: Any) -> _Trend:
            parts = [part if isinstance(part, _Trend) else FLAT for part in operands]
            if all(part == FLAT for part in parts):
                return FLAT
            if name in RISING or name == "positive":
                return parts[0]
            if name == "negative":
                return -parts[0]
            if name in JOINED or name == "clip":
                return reduce(_join, parts)
            if name == "subtract":
                return _join(parts[0], -parts[1])
            if name in ("multiply", "divide") and not isinstance(operands[1], _Trend):
                return _turned(parts[0], operands[1])
            if name == "multiply" and not isinstance(operands[0], _Trend):
                return _turned(parts[1], operands[0])
            return UNKNOWN

        return operation


def trend(expression: Expression, column: str) -> int | None:
    """1 where the formula never falls as the column grows, -1 never rises, 0 ignores it; else None.

    >>> trend(Expression("log(25*x + 1)/3 + 0.05"), "x"), trend(Expression("2 - x"), "x")
    (1, -1)
    >>> trend(Expression("x * (1 - x)"), "x") is None
    True
    """
    start = {name: _Trend(int(name == column)) for name in expression.names}
    found = walk(expression, start, _Directions())
    return found.way if isinstance(found, _Trend) else 0
