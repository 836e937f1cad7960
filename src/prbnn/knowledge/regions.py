"""Where a rule holds: a list of boxes, sampled without random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from prbnn.errors import KnowledgeError, nearest
from prbnn.knowledge.layout import Layout

Interval = tuple[str, float, float]
FEW_VALUES = 12


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
        """Read ``{"column": (low, high)}``; a single number stands for a column held there."""
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
    """The full product of all columns' ranges: named ones as given, the others as columns.

    A plain mapping after ``where=`` sweeps only the columns it names and takes the others from
    training rows; a box over many columns is nearly all empty space, so ask for it on purpose.

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


@dataclass(frozen=True, eq=False)
class Columns:
    """The training table a rule is read against: names and values of inputs and outputs.

    `layout` says how sequences lie in its rows, where they are sequences.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: np.ndarray
    targets: np.ndarray
    layout: Layout | None = None

    @cached_property
    def distinct(self) -> np.ndarray:
        """The rows, each once, in an order that depends on what they hold alone."""
        return np.unique(self.rows, axis=0)

    @property
    def subjects(self) -> tuple[str, ...]:
        """What rules may speak of: outputs, or the variables of a trajectory."""
        return self.outputs if self.layout is None else self.layout.outputs

    def index(self, column: str) -> int:
        """Position of an input column, or an error that suggests the nearest name."""
        if column not in self.inputs:
            raise KnowledgeError(f"no column {column!r}{nearest(column, self.inputs)}")
        return self.inputs.index(column)

    def values(self, index: int) -> np.ndarray | None:
        """The values of a binary or categorical column; None for a continuous one."""
        found = np.unique(self.rows[:, index])
        whole = np.all(found == np.round(found))
        few = len(found) <= 2 or (whole and len(found) <= min(FEW_VALUES, len(self.rows) // 4))
        return found if few and len(found) < len(self.rows) else None

    def span(self, column: str) -> tuple[float, float]:
        """Lowest and highest training value of a column."""
        values = self.rows[:, self.index(column)]
        return float(values.min()), float(values.max())


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
        columns.index(self.column)
        boxes = self.region or (Sweep(),)
        swept = len(columns.inputs) == 1 or all(
            box.full or any(name == self.column for name, _, _ in box.ranges) for box in boxes
        )
        return Sampling(self.region) if swept else self


def sample(sampling: Sampling, columns: Columns, count: int, seed: int = 0) -> np.ndarray:
    """``count`` points of a region in the user's units, low-discrepancy, ends of ranges included."""
    boxes = sampling.region or (Sweep(),)
    shares = np.diff(np.linspace(0, count, len(boxes) + 1).astype(int))
    parts = [
        _sample_box(box, sampling, columns, int(share), seed + number)
        for number, (box, share) in enumerate(zip(boxes, shares, strict=True))
    ]
    points = np.concatenate(parts)
    # interleave the boxes, so that every block of consecutive points visits all of them
    order = np.argsort(
        np.concatenate([np.linspace(0, 1, len(p), endpoint=False) for p in parts]), kind="stable"
    )
    return points[order]


def _sample_box(box: Sweep, sampling: Sampling, columns: Columns, count: int, seed: int):
    ranges = {column: (low, high) for column, low, high in box.ranges}
    for column in ranges:
        columns.index(column)
    if sampling.column is not None and sampling.column not in ranges:
        ranges[sampling.column] = columns.span(sampling.column)
    if box.full or len(columns.inputs) == 1:
        for column in columns.inputs:
            ranges.setdefault(column, columns.span(column))
    stated = len(ranges) == len(columns.inputs)
    points = np.zeros((count, len(ranges))) if stated else _between_rows(columns, count, seed)
    swept = [column for column, (low, high) in ranges.items() if low < high]
    unit = _unit_points(len(swept), count, seed)
    for position, (column, (low, high)) in enumerate(
        sorted(ranges.items(), key=lambda item: item[0] not in swept)
    ):
        index = columns.index(column)
        if column == sampling.column:
            low, high = _shrink(column, low, high, sampling)
        if column not in swept:
            points[:, index] = low
            continue
        values = columns.values(index)
        inside = None
        # a range stated beyond the values seen asks about values in between and beyond, too
        if values is not None and values[0] <= low and high <= values[-1]:
            inside = values[(values >= low) & (values <= high)]
        if inside is not None and len(inside) > 1 and column != sampling.column:
            points[:, index] = inside[
                np.minimum((unit[:, position] * len(inside)).astype(int), len(inside) - 1)
            ]
        else:
            points[:, index] = low + (high - low) * unit[:, position]
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


def _between_rows(columns: Columns, count: int, seed: int) -> np.ndarray:
    """Training rows, and (every second one) points between two of them.

    A full box over many columns is nearly all empty space; rows and the segments between rows stay
    where the data are. Columns with few values are taken from one row, never interpolated.
    """
    generator = np.random.default_rng(seed)
    # whatever the order of the table, the same points
    rows = columns.distinct
    first = rows[generator.permutation(np.arange(count) % len(rows))]
    second = rows[generator.integers(len(rows), size=count)]
    share = generator.random((count, 1)) * (np.arange(count) % 2 == 1)[:, None]
    points = first + share * (second - first)
    steps = 0
    if columns.layout is not None:
        # observed steps mix as they are; what was not observed in the first is not in a mixture
        steps = columns.layout.history * len(columns.layout.variables)
        points[:, -1] = first[:, -1]
    for index in range(steps, len(columns.inputs)):
        if columns.values(index) is not None:
            points[:, index] = first[:, index]
    return np.array(points, dtype=np.float64)
