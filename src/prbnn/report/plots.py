"""Plots along inputs, one figure each, so that a page can arrange them by its width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prbnn.report.palette import DASHES, STYLE, Key, colour
from prbnn.report.profiles import Profile, limits, stated
from prbnn.report.subject import Subject
from prbnn.rules.base import Rule

HALF, THIRD = (5.4, 3.4), (4.1, 2.9)
# wider figures shrink more on a phone, so their letters are larger
LETTERS = {HALF: 10.5, THIRD: 9.5}
MOST_DOTS = 400
LONGEST_NAME = 34
# this fraction of the rows, the nearest to the typical one in the other columns, is drawn dark
ALIKE = 0.2

MEAN = Key("line", "accent", "mean prediction")
FUNCTIONS = Key("band", "accent", "90 % of functions (model uncertainty)", 0.34)
TOTAL = Key("band", "accent", "90 % of new observations (with noise)", 0.13)
TRAINING = Key("dot", "seen", "training rows")
HELD_OUT = Key("dot", "held", "held-out rows")
BOUND = Key("dashes", "bound", "bounds of rules")
REGION = Key("band", "bound", "regions of rules", 0.08)


def blank(size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure and its axes, made without pyplot and its global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    axis.tick_params(labelsize=LETTERS[size])
    axis.xaxis.label.set_fontsize(LETTERS[size])
    axis.yaxis.label.set_fontsize(LETTERS[size])
    return figure, axis


def styled(draw: Any) -> Any:
    """Decorate a function to draw in the report's style, and leave the user's style as it was."""

    def drawn(*arguments: Any, **options: Any) -> Any:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*arguments, **options)

    drawn.__doc__, drawn.__name__ = draw.__doc__, draw.__name__
    return drawn


def label(subject: Subject, name: str) -> str:
    """A column or output with its unit, short enough for an axis."""
    short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    unit = subject.unit(name)
    return f"{short} [{unit}]" if unit else short


def _axis_of_output(subject: Subject, output: int) -> str:
    name = subject.output_names[output]
    return f"probability of {name}" if subject.classes else label(subject, name)


@styled
def along(subject: Subject, way: Profile, output: int, *, wide: bool = False) -> Any:
    """Mean and bands of one output along one input, with rows, regions and bounds."""
    figure, axis = blank(HALF if wide else THIRD)
    name = subject.column_names[way.column]
    _regions(axis, subject.rules, name, way)
    if way.few_values:
        _few(axis, way, output)
    else:
        _bands(axis, way, output, "accent")
    _lines_of_bounds(axis, subject, way, output)
    _rows(axis, subject, way, output)
    _limits_of_axes(axis, subject, [way], output)
    axis.set(xlabel=label(subject, name), ylabel=_axis_of_output(subject, output))
    return figure


@styled
def functions(subject: Subject, way: Profile, output: int, ends: tuple, role: str) -> Any:
    """Single drawn functions of one network along one input, with their mean and bands.

    ``ends`` are the limits of both axes, ``role`` names the colour.
    """
    figure, axis = blank(HALF)
    name = subject.column_names[way.column]
    _regions(axis, subject.rules, name, way)
    if way.few_values:
        _few(axis, way, output, role)
    else:
        _bands(axis, way, output, role)
        axis.plot(
            way.values, way.functions[:, :, output].T, color=colour(role), alpha=0.28, linewidth=0.5
        )
    _lines_of_bounds(axis, subject, way, output)
    _rows(axis, subject, way, output, most=MOST_DOTS // 2)
    axis.set(
        xlabel=label(subject, name),
        ylabel=_axis_of_output(subject, output),
        xlim=ends[0],
        ylim=ends[1],
    )
    return figure


def common_ends(subject: Subject, ways: Sequence[Profile], output: int) -> tuple:
    """Limits of both axes that fit several profiles."""
    _, axis = blank(HALF)
    _limits_of_axes(axis, subject, ways, output)
    return axis.get_xlim(), axis.get_ylim()


def _bands(axis: Any, way: Profile, output: int, role: str) -> None:
    shade: dict[str, Any] = {"color": colour(role), "linewidth": 0}
    axis.fill_between(
        way.values, way.low[:, output], way.high[:, output], alpha=TOTAL.strength, **shade
    )
    axis.fill_between(
        way.values,
        way.function_low[:, output],
        way.function_high[:, output],
        alpha=FUNCTIONS.strength,
        **shade,
    )
    axis.plot(way.values, way.mean[:, output], color=colour(role), linewidth=1.8)


def _few(axis: Any, way: Profile, output: int, role: str = "accent") -> None:
    """A column with few values: one bar per value, since there is nothing in between."""
    step = _step(way)
    for low, high, strength in (
        (way.low, way.high, TOTAL.strength),
        (way.function_low, way.function_high, FUNCTIONS.strength),
    ):
        axis.bar(
            way.values,
            (high - low)[:, output],
            bottom=low[:, output],
            width=0.34 * step,
            color=colour(role),
            alpha=strength,
            linewidth=0,
        )
    axis.hlines(
        way.mean[:, output],
        way.values - 0.17 * step,
        way.values + 0.17 * step,
        color=colour(role),
        linewidth=1.8,
    )
    axis.set_xticks(way.values, [f"{value:g}" for value in way.values])


def _step(way: Profile) -> float:
    """The least distance between the values of a column with few of them."""
    return float(np.min(np.diff(way.values))) if len(way.values) > 1 else 1.0


def _rows(axis: Any, subject: Subject, way: Profile, output: int, most: int = MOST_DOTS) -> None:
    """Observed rows; those far from the profile in the other columns are drawn faintly."""
    if subject.classes is not None:
        return
    exact = np.flatnonzero(subject.known)
    chosen = exact[np.random.default_rng(0).permutation(len(exact))[:most]]
    x, y = subject.inputs[chosen], subject.numbers[chosen, output]
    spread = np.maximum(np.std(subject.inputs, axis=0), np.finfo(float).tiny)
    apart = np.abs(x - way.rows[0]) / spread
    apart[:, way.column] = 0
    distance = np.sqrt(np.sum(apart**2, axis=1))
    near = distance <= (np.quantile(distance, ALIKE) if x.shape[1] > 1 else np.inf)
    place = x[:, way.column]
    if way.few_values:
        place = place + np.random.default_rng(1).uniform(-0.12, 0.12, len(place))
    held = np.asarray(subject.held_out, bool)[chosen]
    for those, role in ((~held, TRAINING.role), (held, HELD_OUT.role)):
        for kind, alpha in ((~near, 0.25), (near, 0.95)):
            axis.scatter(
                place[those & kind],
                y[those & kind],
                s=5,
                color=colour(role),
                alpha=alpha,
                linewidth=0,
                zorder=3,
            )


def _regions(axis: Any, rules: Sequence[Rule], name: str, way: Profile) -> None:
    if way.few_values:
        return
    for low, high in stated(rules, name):
        axis.axvspan(
            max(low, way.values[0]),
            min(high, way.values[-1]),
            color=colour(REGION.role),
            alpha=REGION.strength,
            linewidth=0,
            zorder=0,
        )


def _lines_of_bounds(axis: Any, subject: Subject, way: Profile, output: int) -> None:
    line: Any = {"color": colour(BOUND.role), "linewidth": 1.2, "linestyle": DASHES}
    for x, y in limits(subject.rules, subject.posterior.columns, way, output):
        if way.few_values:
            reach = 0.35 * _step(way)
            axis.hlines(y, x - reach, x + reach, zorder=2, **line)
        else:
            axis.plot(x, y, zorder=2, **line)


def _limits_of_axes(axis: Any, subject: Subject, ways: Sequence[Profile], output: int) -> None:
    """Fit the axes to all that is drawn, except bounds so far off that they would flatten the rest."""
    first = ways[0]
    values = [part[:, output] for way in ways for part in (way.low, way.high)]
    values.append(subject.numbers[subject.known, output])
    together = np.concatenate(values)
    low, high = float(together.min()), float(together.max())
    for _, line in limits(subject.rules, subject.posterior.columns, first, output):
        for end in (float(np.min(line)), float(np.max(line))):
            if low - 0.5 * (high - low) <= end <= high + 0.5 * (high - low):
                low, high = min(low, end), max(high, end)
    room = 0.04 * (high - low) or 1.0
    axis.set_ylim(low - room, high + room)
    if subject.classes is not None:
        axis.set_ylim(-0.03, 1.03)
    if first.few_values:
        step = _step(first)
        axis.set_xlim(first.values[0] - 0.5 * step, first.values[-1] + 0.5 * step)
    else:
        axis.set_xlim(first.values[0], first.values[-1])


@styled
def observed_and_predicted(subject: Subject, predicted: np.ndarray, output: int) -> Any:
    """Observed values of the held-out rows against their mean predictions."""
    figure, axis = blank(HALF)
    observed = subject.numbers[subject.scored_rows, output]
    chosen = np.random.default_rng(0).permutation(len(observed))[:MOST_DOTS]
    ends = [float(f(np.concatenate([observed, predicted[:, output]]))) for f in (np.min, np.max)]
    axis.plot(ends, ends, color=colour("muted"), linewidth=0.8, linestyle=DASHES)
    role = HELD_OUT.role if np.any(subject.held_out) else TRAINING.role
    axis.scatter(
        predicted[chosen, output], observed[chosen], s=8, color=colour(role), alpha=0.6, linewidth=0
    )
    name = _axis_of_output(subject, output)
    axis.set(xlabel=f"predicted {name}", ylabel=f"observed {name}")
    axis.grid(axis="x")
    return figure
