"""How prices and violations moved in training: one line a rule, in shares, since units differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from prbnn.fitting.result import History
from prbnn.report.palette import RULE_COLOURS, Key, colour
from prbnn.report.plots import THIRD, blank, styled
from prbnn.report.svg import Picture


def shown_rules(history: History) -> list[int]:
    """The rules that get a line: those under most pressure, in the order they were given."""
    ends = history.broken.max(axis=0) + history.violation.max(axis=0) * history.dual.max(axis=0)
    return sorted(np.argsort(-ends, kind="stable")[: len(RULE_COLOURS)].tolist())


def training_pictures(history: History, names: list[str]) -> list[Picture]:
    """Prices, violations and broken functions along the steps."""
    places = shown_rules(history)
    keys = tuple(
        Key("line", role, names[place]) for role, place in zip(RULE_COLOURS, places, strict=False)
    )
    return [
        Picture(
            "training-prices",
            "Prices of the rules",
            "Each rule's price (its dual) as a share of its own largest, since their units differ. "
            "Training has settled where lines are level.",
            _shares(history.step, history.dual[:, places]),
            keys,
        ),
        Picture(
            "training-violations",
            "Mean violations",
            "Each rule's mean violation as a share of its own largest, on a logarithmic scale.",
            _shares(history.step, history.violation[:, places], logarithmic=True),
            keys,
        ),
        Picture(
            "training-broken",
            "Functions that break a rule",
            "Share of drawn functions that break a rule at any point tried in a step.",
            _shares(history.step, history.broken[:, places], relative=False),
            keys,
        ),
    ]


@styled
def _shares(
    step: np.ndarray, values: np.ndarray, *, relative: bool = True, logarithmic: bool = False
) -> Any:
    from matplotlib.ticker import FuncFormatter

    figure, axis = blank(THIRD)
    largest = np.maximum(np.nanmax(values, axis=0), np.finfo(float).tiny) if relative else 1.0
    shares = values / largest
    lowest = 1e-6
    for column, role in enumerate(RULE_COLOURS[: values.shape[1]]):
        line = np.maximum(shares[:, column], lowest) if logarithmic else shares[:, column]
        axis.plot(step, line, color=colour(role), linewidth=1.4, alpha=0.9)
    if logarithmic:
        axis.set_yscale("log")
        axis.set_ylim(max(lowest, float(np.min(np.maximum(shares, lowest)))) / 2, 2)
        axis.minorticks_off()
    else:
        axis.set_ylim(0, max(0.05, 1.05 * float(np.nanmax(shares))))
    axis.set_xlim(0, step[-1])
    axis.set_xlabel("training step")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    return figure
