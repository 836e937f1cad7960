"""Multipliers and violations over training: one line per rule, relative since units differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from prbnn.fitting.result import History
from prbnn.report.palette import RULE_COLOURS, Key, colour
from prbnn.report.plots import THIRD, blank, styled
from prbnn.report.svg import Picture


def shown_rules(history: History) -> list[int]:
    """Positions of the rules that get a line: those most broken and penalised, in the order given."""
    ends = history.broken.max(axis=0) + history.violation.max(axis=0) * history.dual.max(axis=0)
    return sorted(np.argsort(-ends, kind="stable")[: len(RULE_COLOURS)].tolist())


def training_pictures(history: History, names: list[str]) -> list[Picture]:
    """Plots over training steps: multipliers, mean violations, fraction of functions that break rules."""
    places = shown_rules(history)
    keys = tuple(
        Key("line", role, names[place]) for role, place in zip(RULE_COLOURS, places, strict=False)
    )
    return [
        Picture(
            "training-multipliers",
            "Multipliers of the rules",
            "Each rule's multiplier (dual variable) relative to its own largest, since units differ. "
            "Training has settled where lines are level.",
            _relative(history.step, history.dual[:, places]),
            keys,
        ),
        Picture(
            "training-violations",
            "Mean violations",
            "Each rule's mean violation relative to its own largest, on a logarithmic scale.",
            _relative(history.step, history.violation[:, places], logarithmic=True),
            keys,
        ),
        Picture(
            "training-broken",
            "Functions that break a rule",
            "Fraction of drawn functions that break a rule at any point evaluated in a step.",
            _relative(history.step, history.broken[:, places], by_largest=False),
            keys,
        ),
    ]


@styled
def _relative(
    step: np.ndarray, values: np.ndarray, *, by_largest: bool = True, logarithmic: bool = False
) -> Any:
    """Lines of ``values`` (steps, rules) in percent, each of its own largest value if asked."""
    from matplotlib.ticker import FuncFormatter

    figure, axis = blank(THIRD)
    largest = np.maximum(np.nanmax(values, axis=0), np.finfo(float).tiny) if by_largest else 1.0
    fractions = values / largest
    lowest = 1e-6
    for column, role in enumerate(RULE_COLOURS[: values.shape[1]]):
        line = np.maximum(fractions[:, column], lowest) if logarithmic else fractions[:, column]
        axis.plot(step, line, color=colour(role), linewidth=1.4, alpha=0.9)
    if logarithmic:
        axis.set_yscale("log")
        axis.set_ylim(max(lowest, float(np.min(np.maximum(fractions, lowest)))) / 2, 2)
        axis.minorticks_off()
    else:
        axis.set_ylim(0, max(0.05, 1.05 * float(np.nanmax(fractions))))
    axis.set_xlim(0, step[-1])
    axis.set_xlabel("training step")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    return figure
