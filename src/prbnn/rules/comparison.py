"""Rules on pairs of inputs: reach for Compare when two situations differ in some columns only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.base import Rule, check_bound
from prbnn.rules.statements import Bound, Difference, Negated, Statement, bound_text
from prbnn.rules.values import subject_text

Changes = Mapping[str, Bound]


@dataclass(frozen=True)
class Compare(Rule):
    """Other things equal, the output with ``set`` is below / above / within ``by`` of the other.

    - below: score = r(against) - by - r(set)
    - above: score = r(set) - by - r(against)
    - within: score = by - |r(set) - r(against)|

    Exactly one of ``below``, ``above`` and ``within`` holds the columns to compare against. Values
    may be text in the columns, such as ``{"age": "age + 7"}``, and so may ``by``, read at the point as
    it is before columns are set.

    >>> Compare({"derate": 1}, below={"derate": 0}).describe()
    'output at derate=1 below that at derate=0'
    >>> Compare({"derate": 1}, below={"derate": 0}, by="0.2 * sun").describe()
    'output at derate=1 below that at derate=0 by 0.2 * sun'
    """

    set: Changes
    below: Changes | None = None
    above: Changes | None = None
    within: Changes | None = None
    by: Bound = 0.0

    def __post_init__(self) -> None:
        given = [n for n in ("below", "above", "within") if getattr(self, n) is not None]
        if len(given) != 1:
            raise KnowledgeError(
                "Compare: give exactly one of below=, above=, within= with the columns to compare "
                f"against, e.g. Compare({{'derate': 1}}, below={{'derate': 0}}); got {given or 'none'}"
            )
        for changes in (self.set, self.against):
            if not isinstance(changes, Mapping):
                raise KnowledgeError(f"Compare: changes are a mapping of columns, got {changes!r}")
            for column, value in changes.items():
                check_bound(self, value, f"the value of {column!r}")
        check_bound(self, self.by, "by")
        stated = not (isinstance(self.by, str) or callable(self.by))
        if stated and not (is_number(self.by) and self.by >= 0):
            raise KnowledgeError(f"Compare: by must be 0 or above, got {self.by!r}")
        if self.relation == "within" and self.by == 0:
            raise KnowledgeError("Compare: within= needs by=, the largest difference allowed")
        super().__post_init__()

    @property
    def relation(self) -> str:
        """``below``, ``above`` or ``within``."""
        return next(n for n in ("below", "above", "within") if getattr(self, n) is not None)

    @property
    def against(self) -> Changes:
        """The columns' values on the other side of the comparison."""
        return getattr(self, self.relation)

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        sides = tuple(self.set.items()), tuple(self.against.items())
        quantity = Difference(self.of, self.at, first=sides[0], second=sides[1])
        said = {"nonnegative": self.by, "ends": ("by", "by")}
        if self.relation == "within":
            return (self.state(quantity, (0.0, 0.0), give=self.by, **said),)
        below = self.relation == "below"
        limits = (None, Negated(self.by)) if below else (self.by, None)
        return (self.state(quantity, limits, **said),)

    def describe(self) -> str:
        def side(changes: Changes) -> str:
            return ", ".join(f"{c}={bound_text(v)}" for c, v in changes.items()) or "the row itself"

        by = f" by {bound_text(self.by)}" if self.by else ""
        situations = f"at {side(self.set)} {self.relation} that at {side(self.against)}"
        return f"{subject_text(self)} {situations}{by}"
