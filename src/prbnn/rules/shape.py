"""Rules on shape: reach for these when the output rises, falls or curves along a column."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.base import Rule, check_bound
from prbnn.rules.regions import Region, Sweep
from prbnn.rules.statements import Bound, Curvature, Slope, Statement, Step, bound_text
from prbnn.rules.values import subject_text


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

    def _state(self, limits: tuple[Bound | None, Bound | None]) -> tuple[Statement, ...]:
        if self.over is None:
            return (self.state(Slope(self.of, self.at, self.column), limits),)
        return (self.state(Step(self.of, self.at, self.column, self.over), limits),)

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

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return self._state((0.0, None))

    def describe(self) -> str:
        return f"{subject_text(self)} rises with {self.column}{self._step()}"


@dataclass(frozen=True)
class Decreasing(_Trend):
    """The output never rises as ``column`` grows: score = -dr/dx, or r(x) - r(x + h) with ``over``.

    >>> Decreasing("temperature", over=5.0).describe()
    'output falls with temperature over 5'
    """

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return self._state((None, 0.0))

    def describe(self) -> str:
        return f"{subject_text(self)} falls with {self.column}{self._step()}"


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

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(Slope(self.of, self.at, self.column), (self.lower, self.upper)),)

    def describe(self) -> str:
        return _ends(self.lower, f"slope of {subject_text(self)} along {self.column}", self.upper)


@dataclass(frozen=True)
class CurvatureBetween(Rule):
    """The second difference over ``step`` along ``column``, per step squared, is in [lower, upper].

    score from (r(x + h) - 2 r(x) + r(x - h)) / h^2: a relu network's second derivative is zero
    almost everywhere, so curvature needs a stated step. None takes 1/20 of the range.

    >>> CurvatureBetween("x", upper=0, step=0.1).describe()
    'curvature of output along x <= 0'
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

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(_curvature(self, columns), (self.lower, self.upper)),)

    def describe(self) -> str:
        return _ends(
            self.lower, f"curvature of {subject_text(self)} along {self.column}", self.upper
        )


@dataclass(frozen=True)
class _Curved(Rule):
    column: str
    step: float | None = None

    def __post_init__(self) -> None:
        _check_column(self, self.column)
        _check_step(self, self.step, "step")
        super().__post_init__()


def _curvature(rule: _Curved | CurvatureBetween, columns: Columns) -> Curvature:
    step = step_in(rule, rule.column, columns) if rule.step is None else rule.step
    return Curvature(rule.of, rule.at, rule.column, step)


def ranges_of(rule: Rule, column: str, columns: Columns) -> list[tuple[float, float]]:
    """The ranges of a column that a rule's region states; that of the data where it states none."""
    stated = [
        (low, high) for box in rule.region for name, low, high in box.ranges if name == column
    ]
    return stated or [columns.span(column)]


def step_in(rule: Rule, column: str, columns: Columns, argument: str = "step") -> float:
    """The step of a difference where ``argument`` states none: 1/20 of the column's range."""
    step = min(high - low for low, high in ranges_of(rule, column, columns)) / 20
    if not step > 0:
        raise KnowledgeError(
            f"{column!r} has no range to take a step in; give {argument}=", column=column
        )
    return step


@dataclass(frozen=True)
class Convex(_Curved):
    """The output is convex along ``column``: second differences over ``step`` are >= 0.

    >>> Convex("load", step=0.5).describe()
    'output is convex in load'
    """

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(_curvature(self, columns), (0.0, None)),)

    def describe(self) -> str:
        return f"{subject_text(self)} is convex in {self.column}"


@dataclass(frozen=True)
class Concave(_Curved):
    """The output is concave along ``column``: second differences over ``step`` are <= 0.

    >>> Concave("load").describe()
    'output is concave in load'
    """

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(_curvature(self, columns), (None, 0.0)),)

    def describe(self) -> str:
        return f"{subject_text(self)} is concave in {self.column}"


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


@dataclass(frozen=True)
class Periodic(Rule):
    """The output repeats along ``column`` after ``period``: |r(x + period) - r(x)| <= within.

    ``within`` defaults to 1/100 of the target's standard deviation: no continuous posterior repeats
    exactly. The region must be at least one period long.

    >>> Periodic("hour", 24, within=0.5).describe()
    'output repeats along hour every 24, +- 0.5'
    """

    column: str
    period: float
    within: float | None = None

    def __post_init__(self) -> None:
        _check_column(self, self.column)
        _check_step(self, self.period, "period")
        if self.period is None:
            raise KnowledgeError("Periodic: needs a period, got None")
        _check_step(self, self.within, "within")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        over = Step(self.of, self.at, self.column, self.period)
        return (self.state(over, (0.0, 0.0), give=self.within),)

    def describe(self) -> str:
        give = "" if self.within is None else f", +- {self.within:g}"
        return f"{subject_text(self)} repeats along {self.column} every {self.period:g}{give}"


@dataclass(frozen=True)
class Unimodal(Rule):
    """The output rises along ``column`` up to ``peak`` and falls beyond it.

    ``peak`` is a value, or a pair (low, high) that it lies between. Values ``over`` a step apart are
    compared: r(x + over) - r(x) is >= 0 up to the peak and <= 0 beyond it. A limit of the slope itself
    would make a smooth function turn at exactly ``peak``. So ``over`` defaults to 1/20 of the range;
    where the peak is a pair, the default is a limit of the slope.

    >>> Unimodal("temperature", peak=37).describe()
    'output rises with temperature up to 37 and falls beyond'
    """

    column: str
    peak: float | tuple[float, float]
    over: float | None = None

    def __post_init__(self) -> None:
        _check_column(self, self.column)
        _check_step(self, self.over, "over")
        ends = self.peak if isinstance(self.peak, list | tuple) else (self.peak, self.peak)
        if len(ends) != 2 or not all(is_number(end) and abs(end) < float("inf") for end in ends):
            raise KnowledgeError(f"Unimodal: peak is a number or a pair, got {self.peak!r}")
        if ends[0] > ends[1]:
            raise KnowledgeError(f"Unimodal: peak {self.peak!r} has its ends the wrong way round")
        super().__post_init__()

    @property
    def _ends(self) -> tuple[float, float]:
        return self.peak if isinstance(self.peak, tuple) else (self.peak, self.peak)

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        first, last = self._ends
        over = self.over
        if over is None and first == last:
            over = step_in(self, self.column, columns, "over")
        limits = (0.0, None), (None, 0.0)
        quantity = (
            Slope(self.of, self.at, self.column)
            if over is None
            else Step(self.of, self.at, self.column, over)
        )
        rises = self._within(columns, float("-inf"), first, over or 0.0)
        falls = self._within(columns, last, float("inf"), over or 0.0)
        words = (
            f"{subject_text(self)} rises with {self.column} up to {first:g}",
            f"{subject_text(self)} falls with {self.column} beyond {last:g}",
        )
        # in the middle of the gap between the last step up to the peak and the first one beyond it
        beyond = 0.5 * (first - (over or 0.0) + last)
        found = [
            self.state(quantity, limits[k], region=place, words=words[k])
            for k, place in enumerate((rises, falls))
            if place
        ]
        if not found:
            raise KnowledgeError(
                f"no step of {over or 0.0:g} along {self.column!r} fits in its region, on either side of "
                "the peak; use a smaller step or a wider range",
                column=self.column,
            )
        return (found[0], *(replace(one, beyond=beyond) for one in found[1:]))

    def _within(self, columns: Columns, low: float, high: float, step: float) -> Region:
        """The parts of the region's boxes between two values of the column that have room for a step."""
        boxes = []
        for box in self.region or (Sweep(),):
            ranges = {name: (start, end) for name, start, end in box.ranges}
            start, end = ranges.get(self.column, columns.span(self.column))
            start, end = max(start, low), min(end, high)
            if end > start and end - start >= step:
                ranges[self.column] = (start, end)
                boxes.append(Sweep(tuple((n, *ends) for n, ends in ranges.items()), box.full))
        return tuple(boxes)

    def describe(self) -> str:
        first, last = self._ends
        beyond = "beyond" if first == last else f"beyond {last:g}"
        return f"{subject_text(self)} rises with {self.column} up to {first:g} and falls {beyond}"
