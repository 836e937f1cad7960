"""Whether the data agree with the rules, before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prbnn.assessment.censored_rows import most_obedient
from prbnn.data.association import CLEAR, Association, association
from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling, scaling_of
from prbnn.errors import KnowledgeError
from prbnn.rules.base import Rule, naming
from prbnn.rules.conflicts.claims import subject_of
from prbnn.rules.regions import in_region, sample
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import ROW_TOLERANCE, breaks, lowest
from prbnn.rules.statements import Changes, Difference, Slope, Statement, Step

UNREADABLE = "cannot be checked on rows"


@dataclass(frozen=True)
class Agreement:
    """One rule and the rows in its region.

    `broken` rows break it; the row numbered `worst` does by the most, `worst_by` in the user's
    units (infinite where its score is NaN). None where the rule cannot be checked on rows. `words` is a
    sentence.
    """

    rows: int
    words: str
    broken: int | None = None
    worst: int | None = None
    worst_by: float | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """A table with the numbers of its rows and the units of its columns, for messages."""

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
        shown = ", ".join(f"{name} = {value:g}{self.unit(name)}" for name, value in values)
        return f"row {self.numbers[row]} with {shown}"

    def unit(self, name: object) -> str:
        """The unit of a column, to put behind a number."""
        return f" {self.units[name]}" if isinstance(name, str) and name in self.units else ""


def agreements(
    rules: Sequence[Rule],
    columns: Columns,
    numbers: Sequence[int] | None = None,
    units: Mapping[str, str] | None = None,
) -> tuple[list[Agreement | None], list[str]]:
    """One agreement per rule, None for rules that do not fit the data; and what is wrong with those.

    ``numbers`` are the numbers of rows, 1, 2, ... if None; ``units`` those of columns.

    >>> from prbnn import AtLeast
    >>> x = np.arange(4.0)[:, None]
    >>> (found,), _ = agreements([AtLeast(1)], Columns(("x",), ("y",), x, x), units={"y": "kW"})
    >>> found.words
    '1 of 4 rows breaks it, by 1 kW: row 1 with y = 0 kW'
    """
    rows = Rows(columns, numbers or range(1, len(columns.rows) + 1), units or {})
    found: list[Agreement | None] = []
    problems = []
    for rule in rules:
        try:
            with naming(rule):
                found.append(_agreement(rule, rows))
        except KnowledgeError as error:
            problems.append(str(error))
            found.append(None)
    return found, problems


def _agreement(rule: Rule, rows: Rows) -> Agreement:
    columns, scaling = rows.columns, rows.scaling
    # a rule that does not fit the data is refused here
    rule.bind(columns, scaling, sample(rule.sampling(columns), columns, 64))
    if rule.parts != (rule,):
        parts = [(part.describe(), _agreement(part, rows)) for part in rule.parts]
        return Agreement(
            parts[0][1].rows, "; ".join(f"{said}: {found.words}" for said, found in parts)
        )
    statements = rule.statements(columns)
    regions = [in_region(s.region, columns, columns.rows) for s in statements]
    here = np.any(regions, axis=0)
    total = int(here.sum())
    if not total:
        return Agreement(
            0, "no row is in its region: the rule only concerns inputs outside the data"
        )
    shown = [_of_pairs(s, columns, there) for s, there in zip(statements, regions, strict=True)]
    if all(words is not None for words in shown):
        said = (
            f"{s.words}: {w}" if s.words else f"{w}" for s, w in zip(statements, shown, strict=True)
        )
        return Agreement(total, "; ".join(said))
    points, cut = columns.rows[here], columns.intervals
    targets = most_obedient(
        rule,
        columns,
        scaling,
        points,
        columns.targets[here],
        None if cut is None else cut.take(here),
    )
    (score,) = scores_of_values([rule], columns, scaling, points, targets)
    if score is None:
        return Agreement(total, UNREADABLE)
    unit = float(rule.bind(columns, scaling, points).unit)
    return _values(
        statements[0],
        lowest(score, axis=1) * unit,
        ROW_TOLERANCE * unit,
        rows,
        np.flatnonzero(here),
    )


def _values(
    stated: Statement, score: np.ndarray, give: float, rows: Rows, places: np.ndarray
) -> Agreement:
    broken, total = int(np.sum(breaks(score, give))), len(score)
    if not broken:
        return Agreement(total, f"all {total} rows obey" if total > 1 else "the one row obeys", 0)
    at = int(score.argmin())
    row, by = int(places[at]), -float(score[at])
    verb, most = ("breaks", "by") if broken == 1 else ("break", "the worst by")
    much = f"{by:.3g}{rows.unit(subject_of(stated.quantity, rows.columns))}"
    how = f"{most} {much}" if np.isfinite(by) else "where its score has no value"
    words = f"{broken} of {total} rows {verb} it, {how}: {rows.shown(row)}"
    return Agreement(total, words, broken, rows.numbers[row], by)


def _of_pairs(statement: Statement, columns: Columns, here: np.ndarray) -> str | None:
    """Whether exact rows agree with a slope or a difference, in words; None for other quantities."""
    here = here & columns.exact_rows
    match statement.quantity:
        case Slope():
            return _slope(statement, columns, here)
        case Step():
            # rows show the direction, not the size of the difference over the step
            return _slope(statement, columns, here) if statement.direction else UNREADABLE
        case Difference():
            return _comparison(statement, columns, here)
    return None


def _slope(statement: Statement, columns: Columns, here: np.ndarray) -> str:
    subject, column = subject_of(statement.quantity, columns), str(statement.quantity.column)
    if not isinstance(subject, str) or subject not in columns.outputs:
        return UNREADABLE
    seen = association(columns, column, columns.outputs.index(subject), here)
    if seen is None:
        return f"{UNREADABLE}: too few rows, or {column} does not vary in its region"
    lower, upper = statement.limits
    if lower is None and upper is None:
        return f"{seen}; the limits depend on the inputs, so they are not checked here"
    return f"{seen}; {_verdict(seen, lower, upper)}"


def _verdict(seen: Association, lower: float | None, upper: float | None) -> str:
    give = CLEAR * seen.error
    if lower is not None and seen.slope < lower:
        return "against the rule" if seen.slope + give < lower else "too uncertain to tell"
    if upper is not None and seen.slope > upper:
        return "against the rule" if seen.slope - give > upper else "too uncertain to tell"
    return "agrees with the rule"


def _comparison(statement: Statement, columns: Columns, here: np.ndarray) -> str:
    """Means of the rows on either side; other columns may differ between them, too."""
    quantity = statement.quantity
    assert isinstance(quantity, Difference)
    subject = subject_of(quantity, columns)
    sides = (quantity.first, quantity.second)
    if subject not in columns.outputs or any(matches(s, columns, here) is None for s in sides):
        return UNREADABLE
    target = columns.targets[:, columns.outputs.index(str(subject))]
    means, shown = [], []
    for side in sides:
        match = matches(side, columns, here)
        if match is None or not match.any():
            return f"{UNREADABLE}: no row has {_side(side)}"
        means.append(float(target[match].mean()))
        shown.append(f"{means[-1]:.3g} with {_side(side)} ({match.sum()} rows)")
    gap = means[0] - means[1]
    lower, upper = statement.limits
    if lower is None and upper is None:
        return (
            f"mean {subject} {' and '.join(shown)}; the required difference depends on the row, so it is "
            "not checked here"
        )
    holds = (lower is None or gap >= lower) and (upper is None or gap <= upper)
    verdict = "agrees with the rule" if holds else "against the rule"
    return f"mean {subject} {' and '.join(shown)}; {verdict} (other columns not controlled for)"


def matches(side: Changes, columns: Columns, here: np.ndarray) -> np.ndarray | None:
    """Which rows have a side's values; None where these are not numbers, or there are none."""
    if not side or not all(isinstance(value, int | float) for _, value in side):
        return None
    match = here.copy()
    for column, value in side:
        match &= columns.rows[:, columns.index(column)] == value
    return match


def _side(side: Changes) -> str:
    return ", ".join(f"{column}={value:g}" for column, value in side)
