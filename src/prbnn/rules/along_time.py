"""Rules along time: reach for these when a predicted trajectory rises, falls or joins what was seen.

Limits of a value need no rule of their own: ``Between(980, 1040, of="altitude", at="last")``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.base import Rule
from prbnn.rules.statements import Change, Statement


@dataclass(frozen=True)
class Along(Rule):
    """What rules along time have in common: a variable of the trajectory."""

    takes_of: ClassVar[bool] = False

    variable: str

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.variable, str) or not self.variable:
            raise KnowledgeError(f"{name}: needs a variable's name, got {self.variable!r}")
        if self.of is not None or self.at is not None:
            raise KnowledgeError(f"{name}: of= and at= have no meaning here; name the variable")
        super().__post_init__()


def _check_lag(rule: Rule, lag: object) -> None:
    if not isinstance(lag, int) or isinstance(lag, bool) or lag < 1:
        raise KnowledgeError(
            f"{type(rule).__name__}: lag is a whole number of steps above 0, got {lag!r}"
        )


@dataclass(frozen=True)
class _Lagged(Along):
    lag: int = 1
    observed: bool = False

    def __post_init__(self) -> None:
        _check_lag(self, self.lag)
        super().__post_init__()

    def _change(self) -> Change:
        return Change(self.variable, lag=self.lag, observed=self.observed)

    def _over(self) -> str:
        return f"over {self.lag} step{'s' if self.lag > 1 else ''}"


@dataclass(frozen=True)
class Falls(_Lagged):
    """A variable at a step is at least what it is ``lag`` steps later: score = (y(t) - y(t + lag)) / lag.

    With ``observed=True`` the last observed step counts as step 0.

    >>> Falls("altitude", lag=3).describe()
    'altitude falls over 3 steps'
    """

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(self._change(), (None, 0.0)),)

    def describe(self) -> str:
        return f"{self.variable} falls {self._over()}"


@dataclass(frozen=True)
class Rises(_Lagged):
    """A variable at a step is at most what it is ``lag`` steps later: score = (y(t + lag) - y(t)) / lag.

    >>> Rises("distance").describe()
    'distance rises over 1 step'
    """

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(self._change(), (0.0, None)),)

    def describe(self) -> str:
        return f"{self.variable} rises {self._over()}"


@dataclass(frozen=True)
class RateBetween(Along):
    """The change per step, taken over ``lag`` steps, stays in [lower, upper]; either may be None.

    >>> RateBetween("speed", -3, 3).describe()
    '-3 <= change of speed per step <= 3'
    """

    lower: float | None = None
    upper: float | None = None
    lag: int = 1
    observed: bool = False

    def __post_init__(self) -> None:
        ends = [end for end in (self.lower, self.upper) if end is not None]
        if (
            not ends
            or not all(is_number(end) and abs(end) < float("inf") for end in ends)
            or ends != sorted(ends)
        ):
            raise KnowledgeError(
                "RateBetween: give lower, upper or both as numbers, the lower one first; got "
                f"{self.lower!r} and {self.upper!r}"
            )
        _check_lag(self, self.lag)
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        change = Change(self.variable, lag=self.lag, observed=self.observed)
        return (self.state(change, (self.lower, self.upper)),)

    def describe(self) -> str:
        low = "" if self.lower is None else f"{self.lower:g} <= "
        high = "" if self.upper is None else f" <= {self.upper:g}"
        return f"{low}change of {self.variable} per step{high}"


@dataclass(frozen=True)
class Continues(Along):
    """The first step ahead is within ``within`` of the last observed one.

    >>> Continues("altitude", within=50).describe()
    'altitude goes on from where it was, +- 50'
    """

    within: float

    def __post_init__(self) -> None:
        if not (is_number(self.within) and self.within > 0):
            raise KnowledgeError(f"Continues: within must be above 0, got {self.within!r}")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        jump = Change(self.variable, "first", observed=True)
        return (self.state(jump, (0.0, 0.0), give=self.within),)

    def describe(self) -> str:
        return f"{self.variable} goes on from where it was, +- {self.within:g}"
