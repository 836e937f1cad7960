"""An audit before training: rows that break a rule by more than noise explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.stats import norm

from prbnn.assessment.censored_rows import most_obedient
from prbnn.assessment.data_agreement import matches
from prbnn.assessment.neighbours import near_pairs, noise_of, slopes_of, standardised
from prbnn.data.censoring import read_intervals
from prbnn.data.columns import Columns
from prbnn.data.frames import check_lengths, check_rows, read_inputs, read_targets
from prbnn.data.scaling import Scaling, scaling_of
from prbnn.errors import DataError, nearest
from prbnn.rules.base import Rule, named, naming
from prbnn.rules.conflicts.claims import subject_of
from prbnn.rules.evaluation import at_points
from prbnn.rules.regions import in_region
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import ROW_TOLERANCE, breaks, lowest
from prbnn.rules.statements import Difference, Slope, Statement, Step
from prbnn.system.process import one_blas_thread

# chance that a rule lists any row of a table that obeys it
RATE = 0.01
# without other columns every pair agrees; more rows than this are not all laid side by side
MOST_ROWS = 1000
SHOWN, MOST_PAIRS = 8, 100

Source = Literal["stated", "estimated"]


@dataclass(frozen=True)
class Finding:
    """The rows that break one rule.

    - `rows`: numbers of the rows that break it by more than noise explains, the worst first
    - `by`: by how much, in the user's units; `deviations`: the same in standard deviations of the noise
    - `pairs`: for trends and comparisons, the two rows of each contradiction; `rows` are then a
      small set of rows that covers all contradictions (greedy), both rows of a pair that shares no row
      with another; the worst 100 pairs are kept
    - `tried`: how many rows or pairs were compared, None where the rule cannot be checked on rows
    - `words`: the finding as a sentence
    """

    rule: str
    rows: tuple[int, ...] = ()
    by: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    tried: int | None = None
    words: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.words}"


@dataclass(frozen=True)
class Audit:
    """One finding per rule, and the noise that they assume, one number per output."""

    findings: tuple[Finding, ...]
    noise: tuple[float, ...]
    source: Source
    rate: float = RATE

    @property
    def rows(self) -> tuple[int, ...]:
        """Every row that some finding lists, in order."""
        return tuple(sorted({row for finding in self.findings for row in finding.rows}))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, rule: str) -> Finding:
        names = [finding.rule for finding in self.findings]
        if rule not in names:
            raise KeyError(f"no rule {rule!r}{nearest(rule, names)}")
        return self.findings[names.index(rule)]

    @property
    def noise_text(self) -> str:
        """The noise that findings assume, and whether it was stated or estimated."""
        sizes = ", ".join(f"{size:.3g}" for size in self.noise)
        how = "" if self.source == "stated" else " from the differences of neighbouring rows"
        return f"noise {self.source}{how}: {sizes}"

    def __str__(self) -> str:
        noise = [f"({self.noise_text})"] if self.noise else []
        return "\n".join([*map(str, self.findings), *noise])

    __repr__ = __str__


def audit(
    X: Any,
    y: Any,
    rules: Sequence[Rule],
    *,
    noise: float | Sequence[float] | None = None,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    rate: float = RATE,
    censored: Any = None,
    upper: Any = None,
) -> Audit:
    """Rows of a table that break a rule by more than noise explains; nothing is fitted.

    A rule on values is compared with each row in its region: where the truth obeys, a row breaks it by
    more than ``z`` standard deviations of the noise with a chance below ``rate / rows``,
    ``z = normal quantile(1 - rate / rows)``. Trends and comparisons are compared with pairs of rows that
    agree in the other columns (to 1/10 of a standard deviation; twice the effect of that difference by
    least squares is allowed for), likewise with ``sqrt(2)`` times the noise. Rows count from 0. A
    censored row (``censored`` and ``upper`` as in `PRBNNRegressor.fit`) breaks a rule on values if its
    whole interval does, and is not compared in pairs.

    - ``noise``: its standard deviation, one number or one per output; None estimates it (normal, and the
      same everywhere) from the differences of neighbouring rows

    >>> import numpy as np
    >>> from prbnn import AtLeast, audit
    >>> x = np.linspace(0, 1, 50)
    >>> y = np.where(np.arange(50) == 7, -3.0, x)
    >>> found = audit(x[:, None], y, [AtLeast(0, name="floor")], noise=0.1)
    >>> found.rows
    (7,)
    """
    values, names = read_inputs(X, columns)
    wanted, targets = read_targets(y, outputs)
    check_lengths(values, wanted)
    check_rows(values, wanted, targets)
    cut = read_intervals(censored, upper, wanted, targets)
    table = Columns(names, targets, values, wanted, intervals=cut)
    return audit_of(named(rules), table, noise=noise, rate=rate)


@one_blas_thread()
def audit_of(
    rules: Sequence[Rule],
    columns: Columns,
    *,
    noise: float | Sequence[float] | None = None,
    numbers: Sequence[int] | np.ndarray | None = None,
    scaling: Scaling | None = None,
    rate: float = RATE,
) -> Audit:
    """The audit of a table that has been read; ``numbers`` are what its rows are called.

    ``scaling`` is one that a model uses; that of the table if None.
    """
    source: Source = "estimated" if noise is None else "stated"
    if noise is None:
        exact = columns.exact_rows
        # where hardly a row is exact, recorded ends have to do
        exact = exact if exact.sum() > 2 else np.ones_like(exact)
        sizes = noise_of(columns.rows[exact], columns.targets[exact])
    else:
        sizes = np.broadcast_to(np.asarray(noise, float), (len(columns.outputs),))
        if not np.all(np.isfinite(sizes) & (sizes > 0)):
            raise DataError(f"noise must be above 0, got {noise!r}")
    called = np.arange(len(columns.rows)) if numbers is None else numbers
    scaling = scaling or scaling_of(columns.rows, columns.targets)
    table = _Table(columns, scaling, sizes, called)
    findings = tuple(_finding(rule, rule.label, table, rate) for rule in rules)
    return Audit(findings, tuple(float(size) for size in sizes), source, rate)


def audit_of_labels(rules: Sequence[Rule]) -> Audit:
    """The audit of a classifier: rules are about probabilities, which no single label can break."""
    words = "cannot be checked on rows: the rule is about probabilities, the rows have labels"
    return Audit(tuple(Finding(rule.label, words=words) for rule in rules), (), "stated")


@dataclass(frozen=True, eq=False)
class _Table:
    columns: Columns
    scaling: Scaling
    noise: np.ndarray
    numbers: Any

    def called(self, rows: np.ndarray) -> tuple[int, ...]:
        return tuple(int(self.numbers[row]) for row in rows)


def _finding(rule: Rule, name: str, table: _Table, rate: float) -> Finding:
    if rule.parts != (rule,):
        each = rate / len(rule.parts)
        return _joined(name, [_finding(part, part.describe(), table, each) for part in rule.parts])
    columns = table.columns
    with naming(rule):
        statements = rule.statements(columns)
        regions = [in_region(s.region, columns, columns.rows) for s in statements]
        here = np.any(regions, axis=0)
        if not here.any():
            return Finding(name, words="no row is in its region")
        if not isinstance(statements[0].quantity, Slope | Step | Difference):
            return _rows(rule, name, table, here, rate)
        if any(stated.give is None for stated in statements):
            unit = float(rule.bind(columns, table.scaling, columns.rows[here]).unit)
            statements = [
                stated if stated.give is not None else replace(stated, give=unit / 100)
                for stated in statements
            ]
        several, each = len(statements) > 1, rate / len(statements)
        found = [
            _pairs(stated, (several and stated.words) or name, table, there, each)
            for stated, there in zip(statements, regions, strict=True)
        ]
        return found[0] if len(found) == 1 else _joined(name, found)


def _joined(name: str, parts: Sequence[Finding]) -> Finding:
    checked = [part for part in parts if part.tried is not None]
    order = np.argsort([-d for part in parts for d in part.deviations], kind="stable")

    def all_of(what: str) -> tuple:
        found = [item for part in parts for item in getattr(part, what)]
        return tuple(found[place] for place in order)

    return Finding(
        name,
        all_of("rows"),
        all_of("by"),
        all_of("deviations"),
        tuple(pair for part in parts for pair in part.pairs),
        sum(part.tried or 0 for part in checked) if checked else None,
        "; ".join(map(str, parts)),
    )


def _rows(rule: Rule, name: str, table: _Table, here: np.ndarray, rate: float) -> Finding:
    """Rules on values: how far below 0 a row's score is, in what noise does to the score.

    A row whose score has no value (NaN) breaks the rule by more than noise explains if it does so, or
    has no value either, with ``least`` standard deviations of noise added or taken away.
    """
    columns, scaling = table.columns, table.scaling
    points = columns.rows[here]
    observed, up, down = _around(rule, table, here, 1.0)
    if observed is None:
        return Finding(name, words="cannot be checked on rows")
    spread = np.sqrt(np.sum(_change(observed, up, down) ** 2, axis=0))
    unit = float(rule.bind(columns, scaling, points).unit)
    least = float(norm.isf(rate / len(observed)))
    against = breaks(observed, np.maximum(least * spread, ROW_TOLERANCE))
    lost = ~np.isfinite(observed)
    if np.any(against & lost):
        _, far_up, far_down = _around(rule, table, here, least)
        explained = np.any(~breaks(np.concatenate([far_up, far_down]), ROW_TOLERANCE), axis=0)
        against &= ~(lost & explained)
    places = np.flatnonzero(against)
    places = places[np.argsort(observed[places], kind="stable")]
    by = -observed[places] * unit
    with np.errstate(divide="ignore"):
        deviations = -observed[places] / spread[places]
    rows = table.called(np.flatnonzero(here)[places])
    words = _said(rows, by, deviations, f"{len(observed)} rows", least)
    return Finding(name, rows, _floats(by), _floats(deviations), (), len(observed), words)


def _around(
    rule: Rule, table: _Table, here: np.ndarray, often: float
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Least scores (rows,) as observed and (outputs, rows) with noise added and taken away.

    The noise is ``often`` standard deviations of one output at a time; the first is None where the
    rule cannot be checked on rows.
    """
    columns = table.columns
    cut = None if columns.intervals is None else columns.intervals.take(here)
    points = columns.rows[here]
    targets = most_obedient(rule, columns, table.scaling, points, columns.targets[here], cut)
    steps = np.diag(often * table.noise)
    shifted = [targets, *(targets + sign * step for step in steps for sign in (1, -1))]
    (found,) = scores_of_values(
        [rule], columns, table.scaling, np.tile(points, (len(shifted), 1)), np.concatenate(shifted)
    )
    if found is None:
        return None, np.zeros(0), np.zeros(0)
    observed, *others = lowest(found, axis=1).astype(np.float64).reshape(len(shifted), -1)
    return observed, np.array(others[::2]), np.array(others[1::2])


def _change(observed: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """What noise does to a score: half the difference, or one side's where the other has no value."""
    with np.errstate(invalid="ignore"):
        both, above, below = (up - down) / 2, up - observed, observed - down
    one = np.where(np.isfinite(above), above, np.where(np.isfinite(below), below, 0.0))
    return np.where(np.isfinite(both), both, one)


def _pairs(stated: Statement, name: str, table: _Table, here: np.ndarray, rate: float) -> Finding:
    """Trends and comparisons: how far two rows that agree in all else contradict it."""
    columns = table.columns
    subject = subject_of(stated.quantity, columns)
    if not isinstance(subject, str) or subject not in columns.outputs:
        return Finding(name, words="cannot be checked on rows")
    output = columns.outputs.index(subject)
    if columns.intervals is not None:
        here = here & columns.intervals.exact[:, output]
    found = _laid_side_by_side(stated, columns, here)
    if isinstance(found, str):
        return Finding(name, words=found)
    pairs, moved, limits = found
    if not len(pairs):
        return Finding(
            name, words="cannot be checked on rows: no two rows agree in all other columns"
        )
    target = columns.targets[:, output]
    gap = target[pairs[:, 1]] - target[pairs[:, 0]]
    others = [k for k in range(len(columns.inputs)) if k not in moved]
    apart = np.abs(np.diff(standardised(columns.rows)[pairs][:, :, others], axis=1)[:, 0])
    explained = 2 * apart @ np.abs(slopes_of(columns.rows, target)[others])
    beyond = np.maximum(limits[0] - gap, gap - limits[1]) - explained
    noise = 2**0.5 * float(table.noise[output])
    least = float(norm.isf(rate / len(pairs)))
    against = np.flatnonzero(beyond > max(least * noise, ROW_TOLERANCE * float(np.std(target))))
    guilty = _covering_rows(pairs[against])
    worst = [float(beyond[against[(pairs[against] == row).any(axis=1)]].max()) for row in guilty]
    order = np.argsort([-by for by in worst], kind="stable")
    rows = table.called(np.array(guilty, int)[order])
    by = np.array(worst)[order]
    deviations = by / noise if noise else np.full(len(by), np.inf)
    words = _said(rows, by, deviations, f"{len(pairs)} pairs of rows", least)
    shown = pairs[against[np.argsort(-beyond[against], kind="stable")[:MOST_PAIRS]]]
    numbered = tuple((int(table.numbers[one]), int(table.numbers[two])) for one, two in shown)
    return Finding(name, rows, _floats(by), _floats(deviations), numbered, len(pairs), words)


def _laid_side_by_side(
    stated: Statement, columns: Columns, here: np.ndarray
) -> tuple[np.ndarray, list[int], tuple[Any, Any]] | str:
    """Pairs (first, second), columns that may differ, and limits of the second's rise over the first."""
    quantity = stated.quantity
    if isinstance(quantity, Difference):
        return _situations(stated, quantity, columns, here)
    lower, upper = stated.limits
    if lower is None and upper is None:
        return "cannot be checked on rows: its limits depend on the inputs"
    scaled = standardised(columns.rows)
    index = columns.index(str(quantity.column))
    places = np.flatnonzero(here)
    others = np.delete(scaled, index, axis=1)
    if others.shape[1] == 0 and len(places) > MOST_ROWS:
        places = places[np.linspace(0, len(places) - 1, MOST_ROWS).astype(int)]
    pairs = near_pairs(others, places, places, scaled[:, index])
    step = np.diff(columns.rows[pairs, index], axis=1)[:, 0]
    if isinstance(quantity, Step):
        # a trend may be read over about as long a step; a limit of a difference only over the step itself
        near = 0.1 if stated.direction else 1e-6
        ahead = np.abs(step - quantity.step) <= near * quantity.step
    else:
        ahead = step > 0
    pairs, first = np.unique(pairs[ahead], axis=0, return_index=True)
    times = np.ones(len(first)) if isinstance(quantity, Step) else step[ahead][first]
    limits = (
        np.full(len(times), -np.inf) if lower is None else lower * times,
        np.full(len(times), np.inf) if upper is None else upper * times,
    )
    return pairs, [index], limits


def _situations(
    stated: Statement, quantity: Difference, columns: Columns, here: np.ndarray
) -> tuple[np.ndarray, list[int], tuple[Any, Any]] | str:
    """The same of two situations: a row in the first of them beside one in the second."""
    one, other = (matches(side, columns, here) for side in (quantity.first, quantity.second))
    if one is None or other is None:
        return "cannot be checked on rows"
    moved = [columns.index(name) for name in quantity.columns]
    others = np.delete(standardised(columns.rows), moved, axis=1)
    first, second = np.flatnonzero(one), np.flatnonzero(other)
    if others.shape[1] == 0:
        first, second = first[:MOST_ROWS], second[:MOST_ROWS]
    pairs = near_pairs(others, first, second)
    if not len(pairs):
        return pairs, moved, (0.0, 0.0)
    points = columns.rows[pairs[:, 0]]

    def end(bound: Any, give: Any, otherwise: float) -> np.ndarray:
        if bound is None:
            return np.full(len(pairs), otherwise)
        return at_points(bound, columns, points, stated.ends[0]) + give

    give = 0.0 if stated.give == 0.0 else at_points(stated.give, columns, points, "by")
    low, high = stated.intervals[0]
    return pairs, moved, (-end(high, give, np.inf), -end(low, -give, -np.inf))


def _covering_rows(pairs: np.ndarray) -> list[int]:
    """A small set of rows that covers all contradictions (greedy); both rows of a lone contradiction."""
    left, found = pairs, []
    while len(left):
        rows, counts = np.unique(left, return_counts=True)
        if counts.max() == 1:
            return [*found, *map(int, np.unique(left))]
        row = int(rows[counts.argmax()])
        found.append(row)
        left = left[~(left == row).any(axis=1)]
    return found


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _said(
    rows: Sequence[int], by: np.ndarray, deviations: np.ndarray, compared: str, least: float
) -> str:
    if not rows:
        return f"no violation beyond noise in {compared}"
    verb = "row breaks" if len(rows) == 1 else "rows break"
    listed = ", ".join(
        f"{row} (by {much:.3g}, {far:.1f} sd)" if np.isfinite(much) else f"{row} (no value there)"
        for row, much, far in list(zip(rows, by, deviations, strict=True))[:SHOWN]
    )
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return (
        f"{len(rows)} {verb} it by more than noise explains ({least:.1f} sd, of {compared}): "
        f"row{'s' if len(rows) > 1 else ''} {listed}{more}"
    )
