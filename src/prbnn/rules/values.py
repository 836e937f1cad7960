"""Rules on values: reach for these when the output has limits, or values it must (not) take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.base import Rule, check_bound
from prbnn.rules.statements import Bound, Smooth, Statement, Value, bound_text


def subject_text(rule: Rule) -> str:
    """What a rule is about, as a reader would write it."""
    return "output" if rule.of is None else bound_text(rule.of)


@dataclass(frozen=True)
class AtLeast(Rule):
    """The output is never below ``bound``: score = r - bound.

    >>> AtLeast(0.0, where={"x": (0, 1)}).describe()
    'output >= 0'
    """

    bound: Bound

    def __post_init__(self) -> None:
        check_bound(self, self.bound, "bound")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(Value(self.of, self.at), (self.bound, None), ends=("bound", "bound")),)

    def describe(self) -> str:
        return f"{subject_text(self)} >= {bound_text(self.bound)}"


@dataclass(frozen=True)
class AtMost(Rule):
    """The output is never above ``bound``: score = bound - r.

    >>> AtMost("1.02 * rating").describe()
    'output <= 1.02 * rating'
    """

    bound: Bound

    def __post_init__(self) -> None:
        check_bound(self, self.bound, "bound")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(Value(self.of, self.at), (None, self.bound), ends=("bound", "bound")),)

    def describe(self) -> str:
        return f"{subject_text(self)} <= {bound_text(self.bound)}"


@dataclass(frozen=True)
class Between(Rule):
    """The output stays in [lower, upper]: score = (upper - lower)/2 - |r - (upper + lower)/2|.

    >>> Between(0, "cap").describe()
    '0 <= output <= cap'
    """

    lower: Bound
    upper: Bound

    def __post_init__(self) -> None:
        check_bound(self, self.lower, "lower")
        check_bound(self, self.upper, "upper")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(Value(self.of, self.at), (self.lower, self.upper)),)

    def describe(self) -> str:
        return f"{bound_text(self.lower)} <= {subject_text(self)} <= {bound_text(self.upper)}"


@dataclass(frozen=True)
class Equals(Rule):
    """The output is ``value``, give or take ``within``: score = within - |r - value|.

    ``within`` defaults to 1/100 of the target's standard deviation: no continuous posterior
    hits a value exactly.

    >>> Equals(0, within=0.1).describe()
    'output = 0 +- 0.1'
    """

    value: Bound
    within: float | None = None

    def __post_init__(self) -> None:
        check_bound(self, self.value, "value")
        if self.within is not None and not (is_number(self.within) and self.within > 0):
            raise KnowledgeError(f"Equals: within must be above 0, got {self.within!r}")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        ends = (self.value, self.value)
        quantity = Value(self.of, self.at)
        return (self.state(quantity, ends, give=self.within, ends=("value", "value")),)

    def describe(self) -> str:
        give = "" if self.within is None else f" +- {self.within:g}"
        return f"{subject_text(self)} = {bound_text(self.value)}{give}"


def _intervals(rule: Rule, intervals: Sequence) -> None:
    if not intervals:
        raise KnowledgeError(f"{type(rule).__name__}: needs at least one interval (low, high)")
    for pair in intervals:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise KnowledgeError(
                f"{type(rule).__name__}: each interval is a pair (low, high), got {pair!r}"
            )
        for end in pair:
            check_bound(rule, end, "an interval's end")


def _union(intervals: Sequence) -> str:
    return " or ".join(f"[{bound_text(low)}, {bound_text(high)}]" for low, high in intervals)


@dataclass(frozen=True)
class OneOf(Rule):
    """The output lies in one of several intervals: score = max_k min(r - low_k, high_k - r).

    >>> OneOf([(0, 1), (3, 4)]).describe()
    'output in [0, 1] or [3, 4]'
    """

    intervals: Sequence[tuple[Bound, Bound]]

    def __post_init__(self) -> None:
        _intervals(self, self.intervals)
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(Value(self.of, self.at), *self.intervals, ends=("low end", "high end")),)

    def describe(self) -> str:
        return f"{subject_text(self)} in {_union(self.intervals)}"


@dataclass(frozen=True)
class Outside(Rule):
    """The output avoids every one of several intervals: score = min_k max(low_k - r, r - high_k).

    With ``smooth=(t0, t1)`` the score is OC-BNN's own, -sum_k c(r - high_k) c(low_k - r) with
    c(z) = (1 - tanh(t0 z)) (1 - tanh(t1 z)) / 4: about -1 inside an interval and 0 outside, smooth
    between. Its authors use (15, 2) and ``.in_prior(1e4)``.

    >>> Outside([(1, 3)]).describe()
    'output not in [1, 3]'
    """

    intervals: Sequence[tuple[Bound, Bound]]
    smooth: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        _intervals(self, self.intervals)
        if self.smooth is not None and not (
            len(self.smooth) == 2 and all(is_number(t) and t > 0 for t in self.smooth)
        ):
            raise KnowledgeError(f"Outside: smooth is two numbers above 0, got {self.smooth!r}")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        called = ("low end", "high end")
        if self.smooth is None:
            quantity = Value(self.of, self.at)
            return (self.state(quantity, *self.intervals, avoid=True, ends=called),)
        smooth = Smooth(
            self.of, self.at, intervals=tuple(self.intervals), sharpness=tuple(self.smooth)
        )
        return (self.state(smooth, (0.0, None), ends=called),)

    def describe(self) -> str:
        return f"{subject_text(self)} not in {_union(self.intervals)}"
