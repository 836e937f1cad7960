"""Plots of calibration: coverage, ranks, and probabilities of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from prbnn.assessment.calibration import Ranks, Reliability
from prbnn.report.palette import DASHES, colour
from prbnn.report.plots import THIRD, blank, styled


@styled
def coverage_curve(ranks: Ranks, output: int, plain: Ranks | None) -> Any:
    """Fraction of rows inside central intervals, against the probability the intervals state."""
    figure, axis = blank(THIRD)
    levels = np.linspace(0.02, 0.98, 49)
    axis.fill_between(
        levels,
        *_by_chance(levels, len(ranks.below)),
        color=colour("muted"),
        alpha=0.14,
        linewidth=0,
    )
    axis.plot([0, 1], [0, 1], color=colour("muted"), linewidth=0.8, linestyle=DASHES)
    for found, role in ((plain, "plain"), (ranks, "accent")):
        if found is not None:
            held = [found.coverage(level)[output] for level in levels]
            axis.plot(levels, held, color=colour(role), linewidth=1.8 if role == "accent" else 1.2)
    _percentages(axis, "probability of the band", "rows inside it")
    axis.grid(axis="x")
    return figure


@styled
def rank_histogram(ranks: Ranks, output: int) -> Any:
    """How often observations fall in each 10 % of their predictive distributions."""
    figure, axis = blank(THIRD)
    transform = ranks.transform[:, output]
    count, edges = np.histogram(transform, bins=10, range=(0, 1))
    rows = len(transform)
    axis.axhspan(*_by_chance(0.1, rows), color=colour("muted"), alpha=0.14, linewidth=0)
    axis.axhline(0.1, color=colour("muted"), linewidth=0.8, linestyle=DASHES)
    axis.bar(
        edges[:-1], count / rows, width=0.094, align="edge", color=colour("accent"), alpha=0.75
    )
    _percentages(axis, "quantile of the predictive distribution", "fraction of rows")
    axis.set_ylim(0, max(0.25, 1.12 * count.max() / rows))
    return figure


@styled
def class_reliability(found: Reliability) -> Any:
    """Observed frequencies against predicted probabilities; a dot's area grows with its rows."""
    figure, axis = blank(THIRD)
    axis.plot([0, 1], [0, 1], color=colour("muted"), linewidth=0.8, linestyle=DASHES)
    axis.vlines(
        found.predicted,
        *_by_chance(found.predicted, found.count),
        color=colour("muted"),
        alpha=0.35,
        linewidth=4,
    )
    axis.plot(found.predicted, found.observed, color=colour("accent"), linewidth=1.2)
    axis.scatter(
        found.predicted,
        found.observed,
        s=14 + 90 * found.count / found.count.max(),
        color=colour("accent"),
        linewidth=0,
    )
    _percentages(axis, "predicted probability", "observed frequency")
    axis.grid(axis="x")
    return figure


def _by_chance(probability: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the 95 % range of an observed fraction, by the normal approximation."""
    error = 1.96 * np.sqrt(np.maximum(probability * (1 - probability), 1e-9) / rows)
    return np.clip(probability - error, 0, 1), np.clip(probability + error, 0, 1)


def _percentages(axis: Any, x: str, y: str) -> None:
    """Label both axes, which run from 0 to 100 %."""
    from matplotlib.ticker import PercentFormatter

    axis.set(xlabel=x, ylabel=y, xlim=(0, 1), ylim=(0, 1))
    axis.xaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
    axis.yaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
