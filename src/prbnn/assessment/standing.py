"""How the data already stand to the rules, before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prbnn.data.association import CLEAR, Association, association
from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling, scaling_of
from prbnn.errors import KnowledgeError
from prbnn.rules.base import Rule, naming
from prbnn.rules.comparison import Compare
from prbnn.rules.conflicts.claims import inside, subject_of
from prbnn.rules.own import Combined
from prbnn.rules.regions import sample
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import breaks, lowest
from prbnn.rules.shape import Decreasing, Increasing, SlopeBetween

UNREADABLE = "cannot be read off rows"
# rounding of float32, in the rule's unit
GIVE = 1e-5


@dataclass(frozen=True)
class Standing:
    """One rule and the rows in its region.

    `broken` rows break it; the row numbered `worst` does by the most, `worst_by` in the user's
    units (infinite where its score is NaN). None where rows alone cannot tell. `words` says it in a
    line.
    """

    rows: int
    words: str
    broken: int | None = None
    worst: int | None = None
    worst_by: float | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """A table as its reader knows it: numbers of its rows, and units of its columns."""

    columns: Columns
    numbers: Sequence[int]
    units: Mapping[str, str]

    @property
    def scaling(self) -> Scaling:
        return scaling_of(self.columns.rows, self.columns.targets)

    def shown(self, row: int) -> str:
        """A row's number and targets."""
        columns = self.columns
        values = zip(columns.outputs, columns.targets[row], strict=True)
        told = ", ".join(f"{name} = {value:g}{self.unit(name)}" for name, value in values)
        return f"row {self.numbers[row]} with {told}"

    def unit(self, name: object) -> str:
        """The unit of a column, to put behind a number."""
        return f" {self.units[name]}" if isinstance(name, str) and name in self.units else ""


def standings(
    rules: Sequence[Rule],
    columns: Columns,
    numbers: Sequence[int] | None = None,
    units: Mapping[str, str] | None = None,
) -> tuple[list[Standing | None], list[str]]:
    """One standing a rule, None for those that do not fit the data; and what is wrong with these.

    ``numbers`` are what rows are called, 1, 2, ... if None; ``units`` those of columns.

    >>> from prbnn import AtLeast
    >>> x = np.arange(4.0)[:, None]
    >>> (found,), _ = standings([AtLeast(1)], Columns(("x",), ("y",), x, x), units={"y": "kW"})
    >>> found.words
    '1 of 4 rows breaks it, by 1 kW: row 1 with y = 0 kW'
    """
    rows = Rows(columns, numbers or range(1, len(columns.rows) + 1), units or {})
    found: list[Standing | None] = []
    problems = []
    for rule in rules:
        try:
            with naming(rule):
                found.append(_standing(rule, rows))
        except KnowledgeError as error:
            problems.append(str(error))
            found.append(None)
    return found, problems


def _standing(rule: Rule, rows: Rows) -> Standing:
    columns, scaling = rows.columns, rows.scaling
    # a rule that does not fit the data is refused here
    rule.bind(columns, scaling, sample(rule.sampling(columns), columns, 64))
    if isinstance(rule, Combined):
        parts = [(part.describe(), _standing(part, rows)) for part in rule.parts]
        return Standing(
            parts[0][1].rows, "; ".join(f"{said}: {found.words}" for said, found in parts)
        )
    here = np.asarray(inside(rule.region, columns, columns.rows).any(axis=1))
    total = int(here.sum())
    if not total:
        return Standing(0, "no row is in its region; it speaks of what is beyond the data")
    match rule:
        case Increasing() | Decreasing() | SlopeBetween():
            return Standing(total, _slope(rule, columns, here))
        case Compare():
            return Standing(total, _comparison(rule, columns, here))
    points, targets = columns.rows[here], columns.targets[here]
    (score,) = scores_of_values([rule], columns, scaling, points, targets)
    if score is None:
        return Standing(total, UNREADABLE)
    unit = float(rule.bind(columns, scaling, points).unit)
    return _values(rule, lowest(score, axis=1) * unit, GIVE * unit, rows, np.flatnonzero(here))


def _values(rule: Rule, score: np.ndarray, give: float, rows: Rows, places: np.ndarray) -> Standing:
    broken, total = int(np.sum(breaks(score, give))), len(score)
    if not broken:
        return Standing(total, f"all {total} rows obey" if total > 1 else "the one row obeys", 0)
    at = int(score.argmin())
    row, by = int(places[at]), -float(score[at])
    verb, most = ("breaks", "by") if broken == 1 else ("break", "the worst by")
    much = f"{by:.3g}{rows.unit(subject_of(rule, rows.columns))}"
    how = f"{most} {much}" if np.isfinite(by) else "where its score has no value"
    words = f"{broken} of {total} rows {verb} it, {how}: {rows.shown(row)}"
    return Standing(total, words, broken, rows.numbers[row], by)


def _slope(rule: Increasing | Decreasing | SlopeBetween, columns: Columns, here: np.ndarray) -> str:
    subject = subject_of(rule, columns)
    if subject not in columns.outputs:
        return UNREADABLE
    seen = association(columns, rule.column, columns.outputs.index(subject), here)
    if seen is None:
        return f"{UNREADABLE}: too few rows, or {rule.column} does not vary in its region"
    lower, upper = limits_of(rule)
    if lower is None and upper is None:
        return f"{seen}; the limits change from place to place"
    return f"{seen}; {_verdict(seen, lower, upper)}"


def limits_of(rule: Increasing | Decreasing | SlopeBetween) -> tuple[float | None, float | None]:
    """Ends of a slope that are the same everywhere; None where there is none, or it changes."""
    match rule:
        case Increasing():
            return 0.0, None
        case Decreasing():
            return None, 0.0
    lower, upper = (
        float(end) if isinstance(end, int | float) else None for end in (rule.lower, rule.upper)
    )
    return lower, upper


def _verdict(seen: Association, lower: float | None, upper: float | None) -> str:
    give = CLEAR * seen.error
    if lower is not None and seen.slope < lower:
        return "against the rule" if seen.slope + give < lower else "too uncertain to tell"
    if upper is not None and seen.slope > upper:
        return "against the rule" if seen.slope - give > upper else "too uncertain to tell"
    return "with the rule"


def _comparison(rule: Compare, columns: Columns, here: np.ndarray) -> str:
    """Means of the rows on either side; other columns may differ between them, too."""
    subject = subject_of(rule, columns)
    sides = (rule.set, rule.against)
    if subject not in columns.outputs or any(matches(s, columns, here) is None for s in sides):
        return UNREADABLE
    target = columns.targets[:, columns.outputs.index(subject)]
    means, told = [], []
    for side in sides:
        match = matches(side, columns, here)
        if match is None or not match.any():
            return f"{UNREADABLE}: no row has {_side(side)}"
        means.append(float(target[match].mean()))
        told.append(f"{means[-1]:.3g} with {_side(side)} ({match.sum()} rows)")
    gap = means[0] - means[1]
    by = rule.by
    if not isinstance(by, int | float):
        return f"mean {subject} {' and '.join(told)}; by how much, the rule says row by row"
    holds = {"below": gap <= -by, "above": gap >= by, "within": abs(gap) <= by}
    verdict = "with the rule" if holds[rule.relation] else "against the rule"
    return f"mean {subject} {' and '.join(told)}; {verdict}, other columns aside"


def matches(side: Mapping[str, Any], columns: Columns, here: np.ndarray) -> np.ndarray | None:
    """Which rows have a side's values; None where these are not numbers, or there are none."""
    if not side or not all(isinstance(value, int | float) for value in side.values()):
        return None
    match = here.copy()
    for column, value in side.items():
        match &= columns.rows[:, columns.index(column)] == value
    return match


def _side(side: Mapping[str, Any]) -> str:
    return ", ".join(f"{column}={value:g}" for column, value in side.items())
