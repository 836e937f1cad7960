"""The solar study's picture: irradiance against power, the plate's limit, six days of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prbnn_studies.solar import inverter
from prbnn_studies.solar.sources import Source
from prbnn_studies.solar.study import HOURS, Outcome

WITHOUT, WITH, TRUTH, SUN = "#e45756", "#1f5f99", "0.25", "#f2a900"
DAYS_SHOWN = 6
MISMATCH = 0.12  # of the range: hours in which irradiance and power differ by more are marked

Fitted = tuple[Source, Outcome, Outcome]


def draw(fitted: Sequence[Fitted], path: Path) -> None:
    """The paper's three figures for the simulated plant; two panels per plant for recorded ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    simulated = fitted[0][0].simulation is not None
    rows = 2 if simulated else len(fitted)
    figure = plt.figure(figsize=(15, 4.4 * rows if simulated else 3.4 * rows), layout="constrained")
    if simulated:
        grid = figure.add_gridspec(2, 3)
        axes = [figure.add_subplot(place) for place in (grid[0, :2], grid[0, 2], grid[1, :])]
        for panel, axis in zip((_mismatch, _plate, _days), axes, strict=True):
            panel(axis, *fitted[0])
    else:
        axes = list(figure.subplots(rows, 2, squeeze=False, width_ratios=(1, 2)).flat)
        for place, one in enumerate(fitted):
            _cloud(axes[2 * place], *one)
            _days(axes[2 * place + 1], *one)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _six_days(source: Source) -> np.ndarray:
    """Places among the test rows of six recorded days in the middle of them, in order of time."""
    days = np.unique(source.day[source.test])
    start = max(0, len(days) // 2 - DAYS_SHOWN // 2)
    return np.flatnonzero(np.isin(source.day[source.test], days[start : start + DAYS_SHOWN]))


def _fractions(source: Source, values: np.ndarray) -> np.ndarray:
    known = source.power[source.train]
    return (values - known.min()) / np.ptp(known)


def _ticks(axis: Any, source: Source, rows: np.ndarray) -> None:
    """A line and a label where a day starts."""
    day = source.day[source.test][rows]
    starts = np.flatnonzero(np.r_[True, np.diff(day) != 0])
    for start in starts[1:]:
        axis.axvline(start - 0.5, color="0.85", lw=0.8, zorder=0)
    names = [f"day {day[start] % 1000}" for start in starts]
    axis.set_xticks(starts, names, ha="left")
    axis.set_xlim(-0.5, len(rows) - 0.5)


def _mismatch(axis: Any, source: Source, _plain: Outcome, _known: Outcome) -> None:
    rows = _six_days(source)
    at = source.test[rows]
    sun = source.irradiance[at] / source.irradiance[source.train].max()
    power = _fractions(source, source.power[at])
    start, end = HOURS["daytime"]
    inside = (source.minute[at] >= start) & (source.minute[at] < end)
    marked = inside & (sun - power > MISMATCH)
    x = np.arange(len(rows))
    axis.fill_between(
        x, 0, 1.05, where=marked, color=WITHOUT, alpha=0.15, lw=0, label="mismatch by day"
    )
    axis.plot(x, sun, color=SUN, lw=1.4, label="irradiance")
    axis.plot(x, power, color=TRUTH, lw=1.4, label="AC power")
    axis.set(ylabel="fraction of the range", title="Irradiance explains power, but not all of it")
    _ticks(axis, source, rows)
    axis.legend(fontsize=8, frameon=False, loc="upper right", ncols=3)


def _plate(axis: Any, source: Source, _plain: Outcome, _known: Outcome) -> None:
    assert source.simulation is not None
    records = source.simulation.records
    for rows, colour, label in ((source.test, WITHOUT, "test"), (source.train, WITH, "training")):
        part = records.take(rows)
        awake = part.possible > 0.02 * inverter.RATING
        axis.plot(
            part.stage[awake], part.limit[awake], ".", color=colour, ms=3, alpha=0.4, label=label
        )
    degrees = np.linspace(inverter.DERATE, inverter.OFF, 50)
    axis.plot(degrees, inverter.plate_limit(degrees), color="0.1", lw=1.8, label="the plate")
    for end, name in ((inverter.DERATE, "derate"), (inverter.OFF, "off")):
        axis.axvline(end, color="0.4", ls="--", lw=1)
        axis.text(end - 0.4, 0.03, name, rotation=90, ha="right", fontsize=8)
    axis.set(
        xlabel="highest IGBT temperature in 15 minutes [°C]",
        ylabel="mean limit, fraction of the rating",
        title="Derate factor against IGBT temperature",
        ylim=(-0.02, 1.05),
    )
    axis.legend(fontsize=8, frameon=False, loc="lower left")


def _days(axis: Any, source: Source, plain: Outcome, known: Outcome) -> None:
    rows = _six_days(source)
    x = np.arange(len(rows))
    axis.plot(
        x, _fractions(source, source.power[source.test][rows]), color=TRUTH, lw=1.6, label="truth"
    )
    for outcome, colour, label in ((plain, WITHOUT, "BNN"), (known, WITH, "PR-BNN")):
        axis.plot(x, _fractions(source, outcome.mean[rows]), color=colour, lw=1.3, label=label)
    if source.derated is not None:
        on = source.derated[source.test][rows]
        axis.plot(x[on], np.full(on.sum(), -0.05), ".", color="red", ms=4, label="derating is on")
    axis.set(ylabel="AC power, fraction of its range", title=f"Six days of the test, {source.name}")
    _ticks(axis, source, rows)
    axis.legend(fontsize=8, frameon=False, loc="upper right", ncols=4)


def _cloud(axis: Any, source: Source, plain: Outcome, known: Outcome) -> None:
    at = source.test
    order = np.random.default_rng(0).permutation(len(at))[:1500]
    sun = source.irradiance[at][order]
    axis.plot(sun, source.power[at][order], ".", color=TRUTH, ms=2, alpha=0.5, label="truth")
    for outcome, colour, label in ((plain, WITHOUT, "BNN"), (known, WITH, "PR-BNN")):
        axis.plot(sun, outcome.mean[order], ".", color=colour, ms=2, alpha=0.5, label=label)
    axis.set(
        xlabel="irradiance [W/m²]",
        ylabel=f"AC power [{source.unit}]",
        title=f"{source.name}, {len(source.train):,} training rows",
    )
    axis.legend(fontsize=8, frameon=False, markerscale=4)
