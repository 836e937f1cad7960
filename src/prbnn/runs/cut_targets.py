"""Censored and truncated targets of a run: the columns of the file that say so, read and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prbnn.data.censoring import WORDS, Intervals, read_intervals
from prbnn.errors import DataError, nearest
from prbnn.model.likelihoods import Gaussian
from prbnn.model.observation import check_observations
from prbnn.runs.plan import RunPlan

if TYPE_CHECKING:
    import pandas as pd


def intervals_of(
    plan: RunPlan, frame: pd.DataFrame, target: np.ndarray, rows: np.ndarray
) -> Intervals | None:
    """The intervals that targets lie in, by the columns that ``plan`` names; None where it names none.

    ``target`` has one entry per entry of ``rows``, the positions of its rows in ``frame``.
    """
    if plan.censored is None:
        if plan.upper is not None:
            raise DataError("--upper goes with --censored, which names a column of words")
        return None
    if target.dtype.kind != "f":
        raise DataError(
            f"--censored: the target {plan.target!r} is a class; only numbers can be censored",
            plan.target,
        )
    known = [str(name) for name in frame.columns]
    columns = []
    for option, name in (("--censored", plan.censored), ("--upper", plan.upper)):
        if name is not None and name not in known:
            raise DataError(f"{option}: no column {name!r}{nearest(name, known)}", name)
        columns.append(None if name is None else frame[name].to_numpy(object)[rows])

    def called(row: int) -> str:
        return f"row {rows[row] + 1}"

    try:
        return read_intervals(*columns, target[:, None], (plan.target,), called)
    except DataError as error:
        raise DataError(f"column {plan.censored!r}: {error}", plan.censored) from None


def check_recorded(
    plan: RunPlan, target: np.ndarray, intervals: Intervals | None, rows: np.ndarray
) -> None:
    """Raise where a target lies outside the window in which targets were recorded."""
    if plan.window is None:
        return
    if target.dtype.kind != "f":
        raise DataError(
            f"--truncated: the target {plan.target!r} is a class, and has no window", plan.target
        )
    likelihood = Gaussian(truncated=plan.window)
    check_observations(
        likelihood, (plan.target,), target[:, None], intervals, lambda row: f"row {rows[row] + 1}"
    )


def censored_note(intervals: Intervals, name: str) -> str:
    """How many targets are censored, and what that means for scores."""
    words = intervals.words()[0][:, 0]
    counts = {word: int(np.sum(words == word)) for word in WORDS}
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{name!r} is censored in some rows ({listed}); errors are those of exact rows"
