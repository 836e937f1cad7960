"""Where a rule holds: a list of boxes, sampled without random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError

Interval = tuple[str, float, float]
# two values that differ by less than this fraction of their size are equal
ROUNDING = 1e-9
# how far from a point others are taken that are close to it, at most, as a fraction of a range
FARTHEST = 0.3


@dataclass(frozen=True)
class Sweep:
    """One box: ranges of named columns; ``full`` sweeps every other column over its range too.

    >>> Sweep.of({"x": (0, 1)})
    Sweep(x=(0, 1))
    """

    ranges: tuple[Interval, ...] = ()
    full: bool = False

    @staticmethod
    def of(ranges: Mapping[str, Any], full: bool = False) -> Sweep:
        """Read ``{"column": (low, high)}``; a single number holds the column at that value."""
        read = []
        for column, value in ranges.items():
            try:
                ends = value if isinstance(value, list | tuple | np.ndarray) else (value, value)
                if any(isinstance(end, str | bool) for end in ends):
                    raise TypeError
                low, high = (float(end) for end in ends)
            except (TypeError, ValueError):
                low = high = float("nan")
            if not (np.isfinite(low) and np.isfinite(high)):
                raise KnowledgeError(
                    f"where[{column!r}] must be a number or a pair (low, high), got {value!r}"
                )
            if not low <= high:
                raise KnowledgeError(
                    f"where[{column!r}] is empty: low {low:g} is above high {high:g}; swap the two"
                )
            read.append((column, low, high))
        return Sweep(tuple(read), full)

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{c}={low:g}" if low == high else f"{c}=({low:g}, {high:g})"
            for c, low, high in self.ranges
        )
        return f"{'Box' if self.full else 'Sweep'}({inside})"


def Box(ranges: Mapping[str, float | Sequence[float]] | None = None, **named) -> Sweep:  # noqa: N802
    """The product of all columns' ranges: named ones as given, the others over their observed ranges.

    A plain mapping after ``where=`` sweeps only the columns it names and takes the others from
    training rows; a box over many columns is nearly all empty space, so use it only where that is meant.

    >>> Box(x=(0, 1), load=(0, 5))
    Box(x=(0, 1), load=(0, 5))
    """
    return Sweep.of({**(ranges or {}), **named}, full=True)


Region = tuple[Sweep, ...]
Where = Mapping[str, float | Sequence[float]] | Sweep | Sequence | None


def region(where: Where) -> Region:
    """Normalise what a user writes after ``where=``: a mapping, a Box, or a list of either."""
    if where is None:
        return ()
    if isinstance(where, Sweep):
        return (where,)
    if isinstance(where, Mapping):
        return (Sweep.of(where),)
    if isinstance(where, list | tuple):
        if not where:
            raise KnowledgeError(
                "where=[] is an empty region; leave `where` out to mean everywhere"
            )
        return tuple(box for part in where for box in region(part))
    raise KnowledgeError(
        f"where must be a mapping such as {{'x': (0, 1)}}, a Box or a list of them, got {where!r}"
    )


def settled(value: Any) -> Any:
    """Lists and arrays as tuples, so that rules that say the same are equal however written.

    >>> settled([[0, 1], {"x": np.array([2.0, 3.0])}])
    ((0, 1), {'x': (2.0, 3.0)})
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | range):
        return tuple(settled(part) for part in value)
    if isinstance(value, Mapping):
        return {key: settled(part) for key, part in value.items()}
    return value


def settled_where(where: Where) -> Where:
    """The same of a region: one mapping or Box, or a flat tuple of them.

    >>> settled_where([{"x": [0, 1]}, [Box(x=2)]])
    ({'x': (0, 1)}, Box(x=2))
    """
    if isinstance(where, Sweep) and not where.full:
        return {column: (low, high) for column, low, high in where.ranges}
    if isinstance(where, list | tuple):
        parts = [settled_where(part) for part in where]
        return tuple(
            box for part in parts for box in (part if isinstance(part, tuple) else (part,))
        )
    return settled(where)


def in_boxes(region: Region, columns: Columns, points: np.ndarray) -> np.ndarray:
    """(points, boxes): which points are in which box of a region.

    A region that is not stated is the range of the data.
    """
    boxes = region or (Sweep(full=True),)
    held = np.ones((len(points), len(boxes)), bool)
    for place, box in enumerate(boxes):
        ranges = {column: (low, high) for column, low, high in box.ranges}
        if box.full:
            ranges = {**{column: columns.span(column) for column in columns.inputs}, **ranges}
        for column, (low, high) in ranges.items():
            values = points[:, columns.index(column)]
            give = ROUNDING * max(abs(low), abs(high), high - low)
            held[:, place] &= (values >= low - give) & (values <= high + give)
    return held


def in_region(
    region: Region, columns: Columns, points: np.ndarray, *, beyond: bool = False
) -> np.ndarray:
    """(points,): which points are in a region.

    With ``beyond``, columns that a box does not name may be anything; else a region that is not stated is
    the range of the data.
    """
    if beyond:
        region = tuple(Sweep(box.ranges) for box in region) or (Sweep(),)
    return np.asarray(in_boxes(region, columns, points).any(axis=1))


@dataclass(frozen=True)
class Sampling:
    """Which points a rule needs: its region, a column it must sweep, and the step it will take.

    ``before`` and ``after`` keep x - before and x + after inside the region along that column.
    """

    region: Region
    column: str | None = None
    before: float = 0.0
    after: float = 0.0

    def shared(self, columns: Columns) -> Sampling:
        """The same points without a column of their own, where the region sweeps it anyway."""
        if self.column is None or self.before or self.after:
            return self
        if columns.values(columns.index(self.column)) is not None:
            # a slope is evaluated between the values of a category, other rules only at the values
            return self
        boxes = self.region or (Sweep(),)
        swept = len(columns.inputs) == 1 or all(
            box.full or any(name == self.column for name, _, _ in box.ranges) for box in boxes
        )
        return Sampling(self.region) if swept else self


@dataclass(frozen=True, eq=False)
class Swept:
    """One box of a region as it is read against a table, by training, checks and proofs alike.

    `ranges` are intervals as they are stated, `starts` the same less the steps that the rule takes;
    `values` are those of categories, `held` the columns that come from training rows.
    """

    ranges: dict[str, tuple[float, float]]
    starts: dict[str, tuple[float, float]]
    values: dict[str, np.ndarray]
    held: tuple[str, ...]

    def words(self, rows: str) -> str:
        """The set, exactly; ``rows`` says at which training rows the other columns are held."""
        parts = [
            f"{name} in {{{', '.join(map(exact, self.values[name]))}}}"
            if name in self.values
            else f"{name} in [{exact(low)}, {exact(high)}]"
            if low < high
            else f"{name} = {exact(low)}"
            for name, (low, high) in self.ranges.items()
        ]
        if len(self.values) > 1:
            parts[-1] += " (categories in every combination)"
        said = ", ".join(parts)
        if not self.held:
            return said
        return f"{said}; the others at {rows}" if said else f"at {rows}"


def exact(value: float) -> str:
    """A number with all its digits, so that nothing is claimed beyond it.

    >>> exact(30.0), exact(0.1234567)
    ('30', '0.1234567')
    """
    return repr(float(value)).removesuffix(".0")


def swept(box: Sweep, sampling: Sampling, columns: Columns) -> Swept:
    """Which columns of a box are swept over intervals or values, and which come from the rows."""
    ranges = {column: (low, high) for column, low, high in box.ranges}
    for column in ranges:
        columns.index(column)
    if sampling.column is not None and sampling.column not in ranges:
        ranges[sampling.column] = columns.span(sampling.column)
    if box.full or len(columns.inputs) == 1:
        for column in columns.inputs:
            ranges.setdefault(column, columns.span(column))
    starts, values = dict(ranges), {}
    for column, (low, high) in ranges.items():
        if column == sampling.column:
            starts[column] = _shrink(column, low, high, sampling)
        elif low < high and (found := columns.values_in(column, low, high)) is not None:
            if not len(found):
                seen = columns.values(columns.index(column))
                raise KnowledgeError(
                    f"{column!r} is a category, and none of its values "
                    f"({', '.join(map(exact, [] if seen is None else seen))}) lies from {low:g} to "
                    f"{high:g}; state a range that holds some of them, or a single number"
                )
            values[column] = found
    held = tuple(column for column in columns.inputs if column not in ranges)
    return Swept(ranges, starts, values, held)


def sample(
    sampling: Sampling, columns: Columns, count: int, seed: int = 0, *, edges: bool = False
) -> np.ndarray:
    """``count`` points of a region in the user's units, low-discrepancy, ends of ranges included.

    With ``edges``, every fourth point is at an end of every range that is swept, since a smooth function
    that obeys in between is broken there first.
    """
    boxes = sampling.region or (Sweep(),)
    counts = np.diff(np.linspace(0, count, len(boxes) + 1).astype(int))
    parts = [
        _sample_box(box, sampling, columns, int(each), seed + number, edges=edges)
        for number, (box, each) in enumerate(zip(boxes, counts, strict=True))
    ]
    points = np.concatenate(parts)
    # interleave the boxes, so that every block of consecutive points visits all of them
    order = np.argsort(
        np.concatenate([np.linspace(0, 1, len(p), endpoint=False) for p in parts]), kind="stable"
    )
    return points[order]


def beside(sampling: Sampling, columns: Columns, points: np.ndarray, each: int) -> np.ndarray:
    """``each`` points of a region per given one, with its values in the columns that are not swept.

    ``points`` are in the region. A column that is swept takes values spread over its range; where a box
    sweeps every column, they are as good as new.
    """
    found = np.repeat(points, each, axis=0)
    for box, places in _by_box(sampling, columns, found):
        held = [columns.index(name) for name in swept(box, sampling, columns).held]
        others = _sample_box(box, sampling, columns, len(places), 0, edges=False)
        others[:, held] = found[places][:, held]
        found[places] = others
    return found


def around(
    sampling: Sampling, columns: Columns, points: np.ndarray, each: int, seed: int
) -> np.ndarray:
    """``each`` points of a region close to each given one.

    ``points`` are in the region. A column that is swept takes a value up to FARTHEST of its range away,
    most of them much closer; the others stay, or all move a part of the way to a training row.
    """
    generator, found = np.random.default_rng(seed), np.repeat(points, each, axis=0)
    for box, places in _by_box(sampling, columns, found):
        read, near, many = swept(box, sampling, columns), found[places], len(places)
        held = [columns.index(name) for name in read.held if name not in columns.categories]
        toward = columns.distinct[generator.integers(len(columns.distinct), size=many)]
        part = FARTHEST ** generator.uniform(1, 4, (many, 1)) * (generator.random((many, 1)) < 0.5)
        near[:, held] += part * (toward - near)[:, held]
        for column, (low, high) in read.starts.items():
            if column not in read.values:
                index = columns.index(column)
                size = (high - low) * FARTHEST ** generator.uniform(1, 4, many)
                change = size * generator.choice([-1, 0, 1], many)
                near[:, index] = np.clip(near[:, index] + change, low, high)
        found[places] = near
    return found


def _by_box(
    sampling: Sampling, columns: Columns, points: np.ndarray
) -> Iterator[tuple[Sweep, np.ndarray]]:
    """The boxes of a region, each with the positions of the points that it is the first to hold."""
    left = np.ones(len(points), bool)
    for box in sampling.region or (Sweep(),):
        here = left & in_region((Sweep(box.ranges),), columns, points)
        left &= ~here
        if here.any():
            yield box, np.flatnonzero(here)


def _sample_box(
    box: Sweep, sampling: Sampling, columns: Columns, count: int, seed: int, *, edges: bool
) -> np.ndarray:
    read = swept(box, sampling, columns)
    points = (
        _between_rows(columns, count, seed)
        if read.held
        else np.zeros((count, len(columns.inputs)), np.float64)
    )
    moving = [column for column, (low, high) in read.ranges.items() if low < high]
    spread = _unit_points(len(moving), count, seed)
    if edges and read.held and moving:
        spread[::2] = _spread_by_row(points[::2], len(moving), seed)
    unit = dict(zip(moving, spread.T, strict=True))
    # of the rows themselves and of the points between rows, which alternate
    at_end = edges & np.isin(np.arange(count) % 8, (2, 5))
    for column, (low, high) in read.starts.items():
        index = columns.index(column)
        if column in read.values:
            each = read.values[column]
            points[:, index] = each[
                np.minimum((unit[column] * len(each)).astype(int), len(each) - 1)
            ]
        else:
            part = unit.get(column, np.zeros(count))
            points[:, index] = low + (high - low) * np.where(at_end, np.round(part), part)
    return points


def _shrink(column: str, low: float, high: float, sampling: Sampling) -> tuple[float, float]:
    low, high = low + sampling.before, high - sampling.after
    if low > high:
        step = sampling.before + sampling.after
        raise KnowledgeError(
            f"a step of {step:g} along {column!r} does not fit in its region; "
            "use a smaller step or a wider range"
        )
    return low, high


def _unit_points(dimensions: int, count: int, seed: int) -> np.ndarray:
    """Low-discrepancy points of the unit cube; along one column, both ends are met exactly."""
    if dimensions == 0:
        return np.zeros((count, 0))
    if dimensions == 1:
        # the golden-ratio sequence: every block of consecutive points is spread evenly
        first = np.random.default_rng(seed).random() if seed else 0.0
        points = np.modf(first + np.arange(count) * 0.6180339887498949)[0][:, None]
    else:
        from scipy.stats import qmc  # half a second to import, and one swept column does without

        points = qmc.Sobol(dimensions, seed=seed).random(1 << max(1, (count - 1).bit_length()))[
            :count
        ]
    corners = min(count // 4, 2**dimensions)
    for number in range(corners):
        place = number * (count // corners)
        if corners == 2**dimensions:
            points[place] = [(number >> bit) & 1 for bit in range(dimensions)]
        else:
            # too many to visit: rounding spreads some of them like the points themselves
            points[place] = np.round(points[place])
    return points


def _spread_by_row(rows: np.ndarray, dimensions: int, seed: int) -> np.ndarray:
    """Points of the unit cube, spread evenly over those of equal ``rows``.

    A function may break a rule at a few rows only, in a short part of a range that is swept there.
    """
    _, row = np.unique(rows, axis=0, return_inverse=True)
    row = row.ravel()  # NumPy 2.0.0 keeps the other axes
    order = np.argsort(row, kind="stable")
    first = np.searchsorted(row[order], row[order])
    visit = np.empty(len(row), int)
    visit[order] = np.arange(len(row)) - first
    # the golden-ratio sequence in any number of dimensions, from a random start for each row
    ratio = 1.5
    for _ in range(30):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    start = np.random.default_rng(seed).random((row.max() + 1, dimensions))[row]
    return np.modf(start + visit[:, None] * ratio ** -np.arange(1.0, dimensions + 1))[0]


def _between_rows(columns: Columns, count: int, seed: int) -> np.ndarray:
    """Training rows, and (every second one) points between two of them.

    A full box over many columns is nearly all empty space; rows and the segments between rows stay
    where the data are. Categories are taken from one row, never interpolated.
    """
    generator = np.random.default_rng(seed)
    # whatever the order of the table, the same points
    rows = columns.distinct
    first = rows[generator.permutation(np.arange(count) % len(rows))]
    second = rows[generator.integers(len(rows), size=count)]
    fraction = generator.random((count, 1)) * (np.arange(count) % 2 == 1)[:, None]
    points = first + fraction * (second - first)
    if columns.layout is not None:
        # a mixture has no step observed that the first row has not
        points[:, -1] = first[:, -1]
    for name in columns.categories:
        index = columns.index(name)
        points[:, index] = first[:, index]
    return np.array(points, dtype=np.float64)
