"""Rules on shape: reach for these when the output rises, falls or bends with a column."""

from __future__ import annotations

from dataclasses import dataclass

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.base import Bound, Rule, bound_text, check_bound
from prbnn.rules.regions import Sampling
from prbnn.rules.values import _subject


def _check_column(rule: Rule, column: object) -> None:
    if not isinstance(column, str) or not column:
        raise KnowledgeError(f"{type(rule).__name__}: needs a column's name, got {column!r}")


def _check_step(rule: Rule, step: float | None, what: str) -> None:
    if step is not None and not (is_number(step) and 0 < step < float("inf")):
        raise KnowledgeError(f"{type(rule).__name__}: {what} must be above 0, got {step!r}")


@dataclass(frozen=True)
class _Trend(Rule):
    column: str
    over: float | None = None

    def __post_init__(self) -> None:
        _check_column(self, self.column)
        _check_step(self, self.over, "over")
        super().__post_init__()

    def sampling(self, columns: Columns) -> Sampling:
        return Sampling(self.region, self.column, after=self.over or 0.0)

    def _step(self) -> str:
        return "" if self.over is None else f" over {self.over:g}"


@dataclass(frozen=True)
class Increasing(_Trend):
    """The output never falls as ``column`` grows: score = dr/dx.

    With ``over=h`` values a step apart are compared, score = r(x + h) - r(x), which forgives
    wiggles shorter than the step.

    >>> Increasing("irradiance").describe()
    'output rises with irradiance'
    """

    def describe(self) -> str:
        return f"{_subject(self)} rises with {self.column}{self._step()}"


@dataclass(frozen=True)
class Decreasing(_Trend):
    """The output never rises as ``column`` grows: score = -dr/dx, or r(x) - r(x + h) with ``over``.

    >>> Decreasing("temperature", over=5.0).describe()
    'output falls with temperature over 5'
    """

    def describe(self) -> str:
        return f"{_subject(self)} falls with {self.column}{self._step()}"


@dataclass(frozen=True)
class SlopeBetween(Rule):
    """The slope along ``column`` stays in [lower, upper]; either end may be None.

    >>> SlopeBetween("dose", 0, 2).describe()
    '0 <= slope of output along dose <= 2'
    """

    column: str
    lower: Bound | None = None
    upper: Bound | None = None

    def __post_init__(self) -> None:
        _check_column(self, self.column)
        _check_ends(self, self.lower, self.upper)
        super().__post_init__()

    def sampling(self, columns: Columns) -> Sampling:
        return Sampling(self.region, self.column)

    def describe(self) -> str:
        return _ends(self.lower, f"slope of {_subject(self)} along {self.column}", self.upper)


@dataclass(frozen=True)
class CurvatureBetween(Rule):
    """The second difference over ``step`` along ``column``, per step squared, is in [lower, upper].

    score from (r(x + h) - 2 r(x) + r(x - h)) / h^2: a relu network's second derivative is zero
    almost everywhere, so curvature needs a stated step. None takes a twentieth of the range.

    >>> CurvatureBetween("x", upper=0, step=0.1).describe()
    'bend of output along x <= 0'
    """

    column: str
    lower: Bound | None = None
    upper: Bound | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        _check_column(self, self.column)
        _check_ends(self, self.lower, self.upper)
        _check_step(self, self.step, "step")
        super().__post_init__()

    def sampling(self, columns: Columns) -> Sampling:
        step = bend_step(self, columns)
        return Sampling(self.region, self.column, before=step, after=step)

    def describe(self) -> str:
        return _ends(self.lower, f"bend of {_subject(self)} along {self.column}", self.upper)


@dataclass(frozen=True)
class _Bend(Rule):
    column: str
    step: float | None = None

    def __post_init__(self) -> None:
        _check_column(self, self.column)
        _check_step(self, self.step, "step")
        super().__post_init__()

    def sampling(self, columns: Columns) -> Sampling:
        step = bend_step(self, columns)
        return Sampling(self.region, self.column, before=step, after=step)


def bend_step(rule: _Bend | CurvatureBetween, columns: Columns) -> float:
    """The step of a second difference: as stated, or a twentieth of the column's range."""
    if rule.step is not None:
        return rule.step
    ranges = [
        (low, high) for box in rule.region for name, low, high in box.ranges if name == rule.column
    ] or [columns.span(rule.column)]
    step = min(high - low for low, high in ranges) / 20
    if not step > 0:
        raise KnowledgeError(f"{rule.column!r} has no range to take a step in; give step=")
    return step


@dataclass(frozen=True)
class Convex(_Bend):
    """The output bends upwards along ``column``: second differences over ``step`` are >= 0.

    >>> Convex("load", step=0.5).describe()
    'output is convex in load'
    """

    def describe(self) -> str:
        return f"{_subject(self)} is convex in {self.column}"


@dataclass(frozen=True)
class Concave(_Bend):
    """The output bends downwards along ``column``: second differences over ``step`` are <= 0.

    >>> Concave("load").describe()
    'output is concave in load'
    """

    def describe(self) -> str:
        return f"{_subject(self)} is concave in {self.column}"


def _check_ends(rule: Rule, lower: Bound | None, upper: Bound | None) -> None:
    if lower is None and upper is None:
        raise KnowledgeError(f"{type(rule).__name__}: give lower, upper or both")
    for end, what in ((lower, "lower"), (upper, "upper")):
        if end is not None:
            check_bound(rule, end, what)


def _ends(lower: Bound | None, what: str, upper: Bound | None) -> str:
    left = "" if lower is None else f"{bound_text(lower)} <= "
    right = "" if upper is None else f" <= {bound_text(upper)}"
    return f"{left}{what}{right}"
