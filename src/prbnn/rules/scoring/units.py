"""Units of differences, so that the check tolerance is small compared with the quantity.

A score is checked to `CHECK_TOLERANCE` of its rule's unit. A difference over a short step is short: in
units of the output, every function would obey. So the unit of a difference shrinks with its step, as
long as float32 resolves it; a step that float32 cannot resolve is refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, NotKeptError
from prbnn.rules.evaluation import at_points
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.rules.statements import Curvature, Difference, Step

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling

# what float32 leaves of a difference of two outputs, in standard deviations of the output
RESOLUTION = 2.0**-20
# a step of this many standard deviations of its column, or more, has the output's own unit
NORMAL_STEP = 0.1
# a change per step of a trajectory of this many standard deviations, or more, likewise
NORMAL_CHANGE = 0.01
# a tolerance of more than this fraction of a slope (of a curvature) of one unit says nothing
LOOSEST = 0.1


def deviations(step: float, column: str, columns: Columns, scaling: Scaling) -> float:
    """A step in standard deviations of its column, or of one spread evenly where units are the user's."""
    index = columns.index(column)
    if scaling.kind != "none":
        return float(abs(step) / scaling.input_sd[index])
    low, high = columns.span(column)
    return float(abs(step) / ((high - low) / math.sqrt(12) or 1.0))


def difference_unit(unit: float, apart: float, step: str, least: str) -> float:
    """The unit of a difference between two places ``apart`` standard deviations from each other.

    unit * min(1, max(apart / NORMAL_STEP, RESOLUTION / CHECK_TOLERANCE)); ``step`` and ``least`` say in
    an error what is too small for float32, and what is not.
    """
    if apart < RESOLUTION / LOOSEST:
        raise KnowledgeError(
            f"{step} cannot be resolved: outputs are computed in float32, and over so short a step a "
            f"difference is rounding; {least}"
        )
    return unit * min(1.0, max(apart / NORMAL_STEP, RESOLUTION / CHECK_TOLERANCE))


def step_unit(quantity: Step, unit: float, columns: Columns, scaling: Scaling) -> float:
    """The unit of a difference over a step; ``unit`` is the output's."""
    column = str(quantity.column)
    apart = deviations(quantity.step, column, columns, scaling)
    least = _times(quantity.step, RESOLUTION / LOOSEST / apart)
    return difference_unit(
        unit,
        apart,
        f"a step of {quantity.step:g} along {column!r}",
        f"take a step of {least:.2g} or more, or state a rule on the slope",
    )


def curvature_unit(quantity: Curvature, unit: float, columns: Columns, scaling: Scaling) -> float:
    """The unit of a second difference over a step, per step squared; ``unit`` is the output's.

    The output's unit per squared standard deviation, and no less than float32 resolves.
    """
    column, step = str(quantity.column), quantity.step
    apart = deviations(step, column, columns, scaling)
    if RESOLUTION / apart**2 > LOOSEST:
        least = _times(step, math.sqrt(RESOLUTION / LOOSEST) / apart)
        raise KnowledgeError(
            f"step={step:g} along {column!r} cannot be resolved: outputs are computed in float32, "
            f"and over so short a step a second difference is rounding; give step={least:.2g} or more"
        )
    per_square = unit / scaling.input_sd[columns.index(column)] ** 2
    return max(per_square, RESOLUTION * unit / step**2 / CHECK_TOLERANCE)


def comparison_unit(quantity: Difference, unit: float, columns: Columns, scaling: Scaling) -> float:
    """The unit of a comparison: smaller where the two situations are close to each other everywhere.

    The distance is read at the ends and the middle of the columns' ranges.
    """
    low, high = np.array([columns.span(name) for name in columns.inputs]).T
    rows = np.stack([low, 0.5 * (low + high), high])
    apart = 0.0
    for column in quantity.columns:
        here = rows[:, columns.index(column)]
        try:
            one, other = (
                at_points(side[column], columns, rows, f"value of {column}")
                if column in side
                else here
                for side in (dict(quantity.first), dict(quantity.second))
            )
        except KnowledgeError:
            return unit
        moved = float(np.max(np.abs(one - other)))
        apart = max(apart, deviations(moved, column, columns, scaling))
    if apart == 0:
        return unit
    return difference_unit(
        unit,
        apart,
        f"two situations {apart:.2g} standard deviations apart",
        f"compare situations at least {RESOLUTION / LOOSEST:.2g} standard deviations of a column apart",
    )


def change_unit(unit: float, positions: Any, lag: int, columns: Columns) -> float:
    """The unit of a change per step of a trajectory: smaller where the training data change slowly."""
    try:
        values = columns.targets[:, np.array(positions)]
    except NotKeptError:
        return unit
    if values.shape[1] <= lag:
        return unit
    change = (values[:, lag:] - values[:, :-lag]) / lag
    typical = float(np.sqrt(np.mean(change**2))) / unit
    return unit * min(1.0, max(typical / NORMAL_CHANGE, RESOLUTION / CHECK_TOLERANCE))


def _times(step: float, factor: float) -> float:
    """A little more, so that two digits of it suffice."""
    return 1.05 * step * factor
