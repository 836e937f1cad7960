"""Rules that cannot bite are refused: what they ask for is less than what a check can tell.

A strict rule (for every draw, or for a share of them) counts as broken beyond `CHECK_TOLERANCE` of its
unit. Limits closer to each other than that would be called obeyed by functions that are outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, NotKeptError
from prbnn.rules.base import Rule
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.rules.strengths import Kind
from prbnn.rules.values import Outside

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling
    from prbnn.rules.scoring.bound import BoundRule

STRICT = (Kind.HARD, Kind.FUNCTIONS, Kind.POINTS)


def check_bites(rule: Rule, bound: BoundRule, columns: Columns, scaling: Scaling) -> None:
    """Refuse a strict rule where functions that break it cannot be told from those that obey."""
    if rule.strength.kind not in STRICT:
        return
    unit = float(bound.unit)
    tolerance = CHECK_TOLERANCE * unit
    lower, upper = bound.known.get("lower"), bound.known.get("upper")
    if lower is not None and upper is not None and bound.in_units:
        half = 0.5 * float(np.max(np.asarray(upper, np.float64) - np.asarray(lower, np.float64)))
        # limits that meet everywhere ask for a value, as near as is checked; a forbidden value is nothing
        if half < CHECK_TOLERANCE and (half > 0 or isinstance(rule, Outside)):
            raise KnowledgeError(
                f"rule {rule.label!r}: its limits are {2 * half * unit:.2g} apart at most, and scores "
                f"are checked to {tolerance:.2g} ({CHECK_TOLERANCE:g} of its unit): set them at least "
                f"{2 * tolerance:.2g} apart, or make the rule soft"
            )
    size = _size(rule, columns, scaling)
    if 0 < size <= tolerance:
        raise KnowledgeError(
            f"rule {rule.label!r}: with scaling='none' its score is checked to {tolerance:.2g}, and in "
            f"these data what it speaks of has a size of {size:.2g}, so that no function like them could "
            "break it; use scaling='standard', or other units of the columns"
        )


def _size(rule: Any, columns: Columns, scaling: Scaling) -> float:
    """The size in the data of what a rule speaks of, in the user's units; 0 where it is not known.

    Only where scores have the user's units: else their unit is of this size already.
    """
    if scaling.kind != "none" or columns.layout is not None:
        return 0.0
    if rule.of is not None and rule.of not in columns.outputs:
        return 0.0
    try:
        rows, targets = columns.rows, columns.targets
    except NotKeptError:
        return 0.0
    size = float(np.std(targets[:, 0 if rule.of is None else columns.outputs.index(rule.of)]))
    column = getattr(rule, "column", None)
    if column is None:
        return size
    spread = float(np.std(rows[:, columns.index(column)]))
    if spread == 0:
        return 0.0
    if getattr(rule, "over", None) is not None:
        return size * min(1.0, rule.over / spread)
    return size / spread ** (2 if hasattr(rule, "step") else 1)
