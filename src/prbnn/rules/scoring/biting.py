"""Rejects strict rules whose violations could not be detected within the check tolerance.

A strict rule (for every draw, or for a fraction of them) counts as broken beyond `CHECK_TOLERANCE` of its
unit. So its limits must not be closer together than twice that, nor its quantity smaller than it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, NotKeptError
from prbnn.rules.base import Rule
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.rules.statements import Curvature, Quantity, Step
from prbnn.rules.strengths import Kind

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling
    from prbnn.rules.scoring.bound import BoundRule

STRICT = (Kind.HARD, Kind.FUNCTIONS, Kind.POINTS)


def check_bites(rule: Rule, bound: BoundRule, columns: Columns, scaling: Scaling) -> None:
    """Raise for a strict rule where a check cannot distinguish functions that break it from others."""
    if rule.strength.kind not in STRICT or rule.parts != (rule,):
        return
    unit = float(bound.unit)
    tolerance = CHECK_TOLERANCE * unit
    for statement, limits in zip(rule.statements(columns), bound.known["limits"], strict=True):
        lower, upper = limits.get("intervals", (limits.get("lower"), limits.get("upper")))
        if lower is None or upper is None:
            continue
        half = 0.5 * float(np.max(np.asarray(upper, np.float64) - np.asarray(lower, np.float64)))
        # equal limits state a value, which is checked to a tolerance; a forbidden value excludes nothing
        if half < CHECK_TOLERANCE and (half > 0 or statement.avoid):
            raise KnowledgeError(
                f"rule {rule.label!r}: its limits are {2 * half * unit:.2g} apart at most, and scores "
                f"are checked to {tolerance:.2g} ({CHECK_TOLERANCE:g} of its unit): set them at least "
                f"{2 * tolerance:.2g} apart, or make the rule soft",
                rule=rule.label,
            )
    size = _size(rule.statements(columns)[0].quantity, columns, scaling)
    if 0 < size <= tolerance:
        raise KnowledgeError(
            f"rule {rule.label!r}: with scaling='none' the typical size of its quantity in these data is "
            f"only {size:.2g}, within the check tolerance {tolerance:.2g}, so no violation could be "
            "detected; use scaling='standard', or other units of the columns",
            rule=rule.label,
        )


def _size(quantity: Quantity, columns: Columns, scaling: Scaling) -> float:
    """The size of a quantity in the data, in the user's units; 0 where it is not known.

    Only where scores have the user's units: else their unit is of this size already.
    """
    if scaling.kind != "none" or columns.layout is not None:
        return 0.0
    if quantity.of is not None and quantity.of not in columns.outputs:
        return 0.0
    try:
        rows, targets = columns.rows, columns.targets
    except NotKeptError:
        return 0.0
    output = 0 if quantity.of is None else columns.outputs.index(str(quantity.of))
    size = float(np.std(targets[:, output]))
    if quantity.column is None:
        return size
    spread = float(np.std(rows[:, columns.index(quantity.column)]))
    if spread == 0:
        return 0.0
    match quantity:
        case Step():
            return size * min(1.0, quantity.step / spread)
        case Curvature():
            return size / spread**2
    return size / spread
