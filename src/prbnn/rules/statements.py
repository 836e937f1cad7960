"""What a rule says, in the one form that everything else reads.

A rule states a *quantity* of a drawn function, the intervals it may lie in, a region and a strength.
Training, checks, proofs, conflict search, construction, the audit and the report read statements and
never ask which class a rule is; so a new rule is a class that states itself with these quantities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from prbnn.data.layout import At
from prbnn.rules.regions import Region
from prbnn.rules.strengths import Hard, Strength

if TYPE_CHECKING:
    from prbnn.data.columns import Columns

# a number, text in the column names, or a callable of the rows
Bound = float | str | Callable[[Any], Any]
# what a rule is about: an output's name, text in outputs and columns, a callable of (x, y)
Subject = str | Callable[[Any, Any], Any] | None


@dataclass(frozen=True)
class Negated:
    """A bound with its sign changed, whatever it is written as."""

    bound: Bound


# an end of an interval; None is no limit on that side
End = Bound | Negated | None
Ends = tuple[End, End]
# columns and the values they are set to
Changes = tuple[tuple[str, Bound], ...]


@dataclass(frozen=True)
class Quantity:
    """A number (or several) that a drawn function has at a point.

    - `of`: what it is a quantity of; None is the only output
    - `at`: of sequences, the steps ahead
    - `column`: the input along which the function is compared with itself, None for values
    """

    kind: ClassVar[str] = "quantity"

    of: Subject = None
    at: At = None
    column: str | None = None

    @property
    def reach(self) -> tuple[float, float]:
        """How far before and after a point, along the column, the function is evaluated."""
        return 0.0, 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns along which the function is compared with itself."""
        return () if self.column is None else (self.column,)


@dataclass(frozen=True)
class Value(Quantity):
    """r(x)."""

    kind = "value"


@dataclass(frozen=True)
class Slope(Quantity):
    """dr/dx along a column."""

    kind = "slope"


@dataclass(frozen=True)
class Curvature(Quantity):
    """(r(x + step) - 2 r(x) + r(x - step)) / step^2 along a column."""

    kind = "curvature"
    step: float = 0.0

    @property
    def reach(self) -> tuple[float, float]:
        return self.step, self.step


@dataclass(frozen=True)
class Step(Quantity):
    """r(x + step) - r(x) along a column."""

    kind = "step"
    step: float = 0.0

    @property
    def reach(self) -> tuple[float, float]:
        return 0.0, self.step


@dataclass(frozen=True)
class Difference(Quantity):
    """r at one situation less r at another: a point with the columns of either set to other values."""

    kind = "difference"
    first: Changes = ()
    second: Changes = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for column, _ in (*self.first, *self.second)))


@dataclass(frozen=True)
class Change(Quantity):
    """(y(t + lag) - y(t)) / lag along time; ``observed`` puts the last observed step before the first.

    With ``at="first"`` it is the jump from the last observed step to the first one ahead.
    """

    kind = "change"
    lag: int = 1
    observed: bool = False


@dataclass(frozen=True)
class Custom(Quantity):
    """A user's score of (function, x); ``unit`` is a size of it that matters."""

    kind = "score"
    score: Callable[[Any, Any], Any] | None = None
    unit: float | None = None


@dataclass(frozen=True)
class Smooth(Quantity):
    """OC-BNN's smooth score of avoiding intervals: about -1 inside one of them and 0 outside."""

    kind = "smooth score"
    intervals: tuple[tuple[Bound, Bound], ...] = ()
    sharpness: tuple[float, float] = (15.0, 2.0)


@dataclass(frozen=True)
class Statement:
    """In a region, a quantity lies in one of some intervals (or outside all of them).

    - `avoid`: the quantity lies outside every interval
    - `give`: intervals are wider by this at either end; None is 1/100 of the quantity's unit
    - `nonnegative`: a bound that must not be below 0 anywhere in the region
    - `beyond`: of a rule with several statements about one quantity, this one holds where the quantity's
      column is above this value
    - `ends`: what the ends of its intervals are called in errors
    - `words`: what it says, where a rule has several statements
    """

    quantity: Quantity
    intervals: tuple[Ends, ...]
    region: Region = ()
    strength: Strength = field(default_factory=Hard)
    avoid: bool = False
    give: Bound | None = 0.0
    nonnegative: Bound = 0.0
    beyond: float | None = None
    ends: tuple[str, str] = ("lower", "upper")
    words: str = ""

    @property
    def direction(self) -> int:
        """1 where the quantity is 0 or above and no more is said, -1 for 0 or below, else 0."""
        if self.avoid or self.give != 0.0 or len(self.intervals) != 1:
            return 0
        low, high = self.intervals[0]
        if high is None and _is_zero(low):
            return 1
        return -1 if low is None and _is_zero(high) else 0

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Lower and upper limit where the statement is one interval in numbers; else both None."""
        if self.avoid or len(self.intervals) != 1 or not isinstance(self.give, int | float):
            return None, None
        low, high = (_number(end) for end in self.intervals[0])
        if (low is None) != (self.intervals[0][0] is None):
            return None, None
        if (high is None) != (self.intervals[0][1] is None):
            return None, None
        return (
            None if low is None else low - self.give,
            None if high is None else high + self.give,
        )

    @property
    def levels(self) -> list[Any]:
        """The values of the output that it draws a line at; none for slopes, differences and scores."""
        if isinstance(self.quantity, Value):
            intervals: Any = self.intervals
        else:
            intervals = getattr(self.quantity, "intervals", ())
        ends = [end for pair in intervals for end in pair if end is not None]
        return [end for place, end in enumerate(ends) if end not in ends[:place]]


def _number(end: End) -> float | None:
    if isinstance(end, Negated):
        found = _number(end.bound)
        return None if found is None else -found
    return float(end) if isinstance(end, int | float) else None


def _is_zero(end: End) -> bool:
    return _number(end) == 0.0


def bound_text(bound: object) -> str:
    """A bound as a reader would write it.

    >>> bound_text(0.5), bound_text("2*x")
    ('0.5', '2*x')
    """
    if isinstance(bound, str):
        return bound
    if callable(bound):
        return f"{getattr(bound, '__name__', 'callable')}(x)"
    return f"{bound:g}"


class Stating(Protocol):
    """What scoring needs to know of a rule; every `prbnn.rules.base.Rule` is one."""

    @property
    def label(self) -> str:
        """The name in reports and errors."""
        ...

    @property
    def margin(self) -> float:
        """How far inside its limit it must stay while training."""
        ...

    @property
    def parts(self) -> tuple[Stating, ...]:
        """The rules it consists of: itself, unless it combines several."""
        ...

    @property
    def each_weight(self) -> tuple[float, ...]:
        """One weight per part."""
        ...

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        """What it says, read against a table."""
        ...
