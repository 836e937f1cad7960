"""The landing study's picture: examples, touchdown, uncertainty, violations, learning, surprise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prbnn_studies.landing.sources import Source
from prbnn_studies.landing.study import ErrorCell, Outcome, alarm_of, surprise

WITHOUT, WITH, SEEN = "#e45756", "#1f5f99", "0.25"
EXAMPLES = 3


def draw(
    source: Source, plain: Outcome, known: Outcome, curve: Sequence[ErrorCell], path: Path
) -> None:
    """Six panels, as in the paper where the source has what they need."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(15, 8.6), layout="constrained")
    panels = (_ground, _profile, _uncertainty, _violations, _learning, _surprise)
    for panel, axis in zip(panels, axes.flat, strict=True):
        panel(axis, source, plain, known, curve)
        axis.spines[["top", "right"]].set_visible(False)
    flights = known.cells[0].flights
    figure.suptitle(f"Landing, {source.name}: {flights} training, {len(source.test)} test flights")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _axes_of(source: Source) -> tuple[int, int, int]:
    """Places of the axis along the runway, across it, and of height (or speed where there is none)."""
    names = source.tracks.variables
    along = names.index("longitude") if "longitude" in names else names.index("along")
    across = names.index("latitude") if "latitude" in names else names.index("across")
    height = names.index("altitude") if "altitude" in names else names.index("speed")
    return along, across, height


def _label(source: Source, place: int) -> str:
    name = source.tracks.variables[place]
    return f"{name} [{source.units[name]}]"


def _some(source: Source) -> np.ndarray:
    return source.test[:EXAMPLES]


def _ground(axis: Any, source: Source, plain: Outcome, known: Outcome, _: Any) -> None:
    along, across, _height = _axes_of(source)
    rows = _some(source)
    seen, came = source.observed[rows], source.ahead[rows]
    for outcome, colour, label in ((plain, WITHOUT, "without"), (known, WITH, "with knowledge")):
        mean = outcome.model.predict(seen)
        for k in range(len(rows)):
            axis.plot(
                mean[k, :, along],
                mean[k, :, across],
                color=colour,
                lw=2,
                label=label if k == 0 else None,
            )
    for k in range(len(rows)):
        axis.plot(
            seen[k, :, along],
            seen[k, :, across],
            color=SEEN,
            lw=1,
            label="observed" if k == 0 else None,
        )
        axis.plot(
            came[k, :, along],
            came[k, :, across],
            ".",
            color="0.5",
            ms=4,
            label="what followed" if k == 0 else None,
        )
    axis.set(
        xlabel=_label(source, along), ylabel=_label(source, across), title="Tracks over the ground"
    )
    axis.ticklabel_format(useOffset=False)
    axis.tick_params(axis="x", rotation=20)
    axis.legend(fontsize=8, frameon=False)


def _profile(axis: Any, source: Source, plain: Outcome, known: Outcome, _: Any) -> None:
    place = _axes_of(source)[2]
    rows, seconds = _some(source), source.tracks.seconds
    seen, came = source.observed[rows], source.ahead[rows]
    before = np.arange(1 - source.history, 1) * seconds
    after = np.arange(1, came.shape[1] + 1) * seconds
    for k in range(len(rows)):
        axis.plot(before, seen[k, :, place], color=SEEN, lw=1)
        axis.plot(after, came[k, :, place], ".", color="0.5", ms=4)
    for outcome, colour, label in ((plain, WITHOUT, "without"), (known, WITH, "with knowledge")):
        found = outcome.model.predict_all(seen)
        for k in range(len(rows)):
            mean, spread = found.mean[k, :, place], 2 * found.total[k, :, place]
            axis.plot(after, mean, color=colour, lw=1.6, label=label if k == 0 else None)
            axis.fill_between(after, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
    columns = known.model.posterior_.columns
    for stated in (stated for rule in source.rules for stated in rule.statements(columns)):
        quantity = stated.quantity
        if quantity.at == "last" and quantity.of == source.tracks.variables[place]:
            for end in stated.levels:
                axis.plot(after[-4:], [end] * 4, color="0.2", ls="--", lw=1.2)
    axis.set(
        xlabel="seconds from the last observed step",
        ylabel=_label(source, place),
        title="Three flights, 2 sd bands; dashed: known at touchdown",
    )
    axis.legend(fontsize=8, frameon=False)


def _uncertainty(axis: Any, source: Source, plain: Outcome, known: Outcome, _: Any) -> None:
    along, _across, height = _axes_of(source)
    rows = _some(source)[:1]
    for outcome, colour, label in ((plain, WITHOUT, "without"), (known, WITH, "with knowledge")):
        found = outcome.model.predict_all(source.observed[rows])
        size = found.epistemic[0, :, height]
        scale = 160 / max(
            float(plain.model.predict_all(source.observed[rows]).epistemic[0, :, height].max()),
            1e-12,
        )
        axis.scatter(
            found.mean[0, :, along],
            found.mean[0, :, height],
            s=8 + scale * size,
            color=colour,
            alpha=0.4,
            lw=0,
            label=label,
        )
    axis.plot(
        source.ahead[rows][0, :, along],
        source.ahead[rows][0, :, height],
        ".",
        color="0.3",
        ms=4,
        label="what followed",
    )
    axis.set(
        xlabel=_label(source, along),
        ylabel=_label(source, height),
        title="One flight; markers grow with epistemic sd",
    )
    axis.ticklabel_format(useOffset=False)
    axis.tick_params(axis="x", rotation=20)
    axis.legend(fontsize=8, frameon=False)


def _violations(axis: Any, _source: Source, plain: Outcome, known: Outcome, _: Any) -> None:
    names = [rule.rule for rule in plain.rules]
    place = np.arange(len(names))
    for shift, outcome, colour, label in (
        (-0.2, plain, WITHOUT, "without"),
        (0.2, known, WITH, "with knowledge"),
    ):
        counts = [rule.violations_of_mean for rule in outcome.rules]
        bars = axis.barh(place + shift, counts, 0.38, color=colour, label=label)
        axis.bar_label(bars, fontsize=8, padding=2)
    axis.set(
        yticks=place,
        yticklabels=names,
        xlabel="steps at which the mean breaks it",
        title="Violations on test flights",
    )
    axis.invert_yaxis()
    axis.legend(fontsize=8, frameon=False)


def _learning(
    axis: Any, _source: Source, _plain: Outcome, _known: Outcome, curve: Sequence[ErrorCell]
) -> None:
    for knowledge, colour, label in ((False, WITHOUT, "without"), (True, WITH, "with knowledge")):
        for scope, style in (("sequence", "-"), ("last", "--")):
            own = [
                c
                for c in curve
                if c.knowledge == knowledge and c.scope == scope and c.variable == "overall"
            ]
            axis.plot(
                [c.flights for c in own],
                [c.crps for c in own],
                style,
                color=colour,
                marker="o",
                ms=4,
                label=f"{label}, {scope}",
            )
    axis.set(
        xscale="log",
        xlabel="training flights",
        ylabel="CRPS, min-max units",
        title="Learning curve (overall)",
    )
    sizes = sorted({cell.flights for cell in curve})
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
    axis.legend(fontsize=8, frameon=False)


def _surprise(axis: Any, source: Source, _plain: Outcome, known: Outcome, _: Any) -> None:
    alarm = alarm_of(source, known.model)

    def steps(observed: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        return alarm.steps(surprise(known.model, observed, ahead))

    after = np.arange(1, source.ahead.shape[1] + 1) * source.tracks.seconds
    some = source.test[:40]
    ordinary = steps(source.observed[some], source.ahead[some])
    axis.plot(after, ordinary.T, color="0.7", lw=0.6)
    if source.strange is not None and len(source.strange.values):
        values = source.strange.values[:6]
        strange = steps(values[:, : source.history], values[:, source.history :])
        axis.plot(after, strange.T, color=WITHOUT, lw=1.2)
        axis.plot([], [], color=WITHOUT, label="go-arounds")
        axis.set_yscale("symlog", linthresh=10)
    axis.plot([], [], color="0.7", label="landings")
    axis.axhline(
        alarm.level,
        color=WITH,
        ls="--",
        label=f"warning level, {alarm.false_alarms:.0%} false alarms",
    )
    axis.set(
        xlabel="seconds from the last observed step",
        ylabel="surprise, standard deviations above its centre",
        title="Surprise of the observed steps ahead",
    )
    axis.legend(fontsize=8, frameon=False, loc="upper left")
