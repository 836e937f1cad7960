"""Simulation 1: six points of a curve with two humps, and a band it is known to pass through.

The truth is y = -x^4 + 3 x^2 + 1, seen without noise at six places. Known: 2.5 <= y <= 3 for x in
[-.3, .3], where the truth itself is lower: the study asks whether functions follow the knowledge. The
example is OC-BNN's: a network of ten hidden units exp(-x^2), prior N(0, 1), noise .1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    SVGD,
    BayesByBackprop,
    Between,
    Dropout,
    Ensemble,
    Gaussian,
    Laplace,
    Outside,
    fit,
)
from prbnn.inference.engine import Engine
from prbnn.rules.base import Rule

if TYPE_CHECKING:
    from pathlib import Path

    from prbnn.fitting.result import Solution

X = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
BAND = (2.5, 3.0)
WHERE = {"x": (-0.3, 0.3)}
NOISE = 0.1
# of the soft rows: nats per unit of mean violation, and how far inside the band they are trained
WEIGHT = 2000.0
MARGIN = 0.1
TOLERANCE = 1e-4
# the OC-BNN authors' prior: forbidden values below and above the band, its constants as published
FAR = 1e3
SHARPNESS = (15.0, 2.0)
GAMMA = 1e4

ENGINES: dict[str, tuple[Engine, int]] = {
    "bbb": (BayesByBackprop(draws=8), 30_000),
    "dropout": (Dropout(), 20_000),
    "svgd": (SVGD(particles=100), 20_000),
    "ensemble": (Ensemble(members=50), 20_000),
    "laplace": (Laplace(), 20_000),
    "sghmc": (SGHMC(), 60_000),
    "nuts": (NUTS(chains=16, keep=125), 1_000),
}
STRENGTHS = ("none", "soft", "hard", "OC-BNN")
WITH_OC_BNN = ("bbb", "svgd", "nuts")


@dataclass(frozen=True)
class Published:
    """The OC-BNN authors' posterior draws, measured as ours are."""

    points_in_band: float
    functions_in_band: float
    mean_at_zero: float
    sd_at_zero: float | None

    def __str__(self) -> str:
        """Points, functions and mean, with the standard deviation where it is known."""
        sd = "" if self.sd_at_zero is None else f" ({self.sd_at_zero:.3f})"
        return f"{self.points_in_band:.3f} / {self.functions_in_band:.3f} / {self.mean_at_zero:.3f}{sd}"


PUBLISHED = {
    ("nuts", "OC-BNN"): Published(1.0, 1.0, 2.758, 0.020),
    ("bbb", "OC-BNN"): Published(1.0, 1.0, 2.761, 0.028),
    ("svgd", "OC-BNN"): Published(0.820, 0.820, 2.29, None),
    ("nuts", "none"): Published(0.063, 0.017, 1.03, 1.3),
    ("bbb", "none"): Published(0.0, 0.0, -1.60, None),
}
# seconds of their runs on one core; HMC is extrapolated
PUBLISHED_SECONDS = {"bbb": 125.0, "nuts": 2400.0}


def truth(x: np.ndarray) -> np.ndarray:
    """The curve the six points lie on.

    >>> float(truth(np.array(1.0)))
    3.0
    """
    return -(x**4) + 3 * x**2 + 1


def rule(strength: str) -> list[Rule]:
    """The band at a strength; soft is trained a margin inside it."""
    match strength:
        case "none":
            return []
        case "soft":
            return [Between(*BAND, where=WHERE, name="band", margin=MARGIN).soft(WEIGHT)]
        case "hard":
            return [Between(*BAND, where=WHERE, name="band")]
        case _:
            forbidden = [(-FAR, BAND[0]), (BAND[1], FAR)]
            band = Outside(forbidden, smooth=SHARPNESS, where=WHERE, name="band")
            return [band.in_prior(GAMMA)]


@dataclass(frozen=True)
class Fit:
    """One fit, measured on 61 points of the band; `asymmetry` is E y(1.5) - E y(-1.5)."""

    engine: str
    strength: str
    points_in_band: float
    functions_in_band: float
    stored_functions_in_band: float
    mean_at_zero: float
    sd_at_zero: float
    train_rmse: float
    asymmetry: float
    asymmetry_error: float
    draws: int
    stored: int
    seconds_compile: float
    seconds_run: float


@dataclass(frozen=True, eq=False)
class Curves:
    """What a panel of the picture shows: drawn functions on a grid, with and without knowledge."""

    functions: np.ndarray


def grid() -> np.ndarray:
    """The points at which functions are drawn."""
    return np.linspace(-2.6, 2.6, 209)


def in_band(functions: np.ndarray) -> np.ndarray:
    """(draws, points): whether a function is in the band there."""
    return (functions >= BAND[0] - TOLERANCE) & (functions <= BAND[1] + TOLERANCE)


def run(name: str, strength: str, seed: int = 0, steps: int | None = None) -> tuple[Fit, Curves]:
    """One engine at one strength."""
    engine, budget = ENGINES[name]
    rules = rule(strength)
    solution = fit(
        MLP((10,), "rbf"),
        X[:, None],
        truth(X),
        rules,
        inference=engine,
        likelihood=Gaussian(NOISE),
        steps=steps or budget,
        columns=["x"],
        seed=seed,
    )
    raw = solution.posterior
    stored = raw.condition(rules)[0] if strength == "hard" else raw
    inside = np.linspace(*WHERE["x"], 61)[:, None]
    held, kept = (in_band(p.functions(inside)[..., 0]) for p in (raw, stored))
    at_zero = raw.functions(np.zeros((1, 1)))[:, 0, 0]
    fitted = raw.predict(X[:, None]).mean[:, 0]
    gap, error = _asymmetry(solution)
    measured = Fit(
        engine=name,
        strength=strength,
        points_in_band=float(held.mean()),
        functions_in_band=float(held.all(axis=1).mean()),
        stored_functions_in_band=float(kept.all(axis=1).mean()) if len(stored) else math.nan,
        mean_at_zero=float(at_zero.mean()),
        sd_at_zero=float(at_zero.std()),
        train_rmse=float(np.sqrt(np.mean((fitted - truth(X)) ** 2))),
        asymmetry=gap,
        asymmetry_error=error,
        draws=len(raw),
        stored=len(stored),
        seconds_compile=solution.seconds_compile,
        seconds_run=solution.seconds_run,
    )
    shown = stored if len(stored) else raw
    chosen = shown.take(np.arange(0, len(shown), max(1, len(shown) // 60)))
    return measured, Curves(chosen.functions(grid()[:, None])[..., 0])


def _asymmetry(solution: Solution) -> tuple[float, float]:
    """E y(1.5) - E y(-1.5), which is 0 for the true posterior, and its Monte Carlo standard error."""
    ends = solution.posterior.functions(np.array([[-1.5], [1.5]]))[..., 0]
    gap = ends[:, 1] - ends[:, 0]
    return float(gap.mean()), float(gap.std() / math.sqrt(solution.effective_draws(gap)))


def study(
    engines: Sequence[str] = tuple(ENGINES),
    progress: Callable[[str], None] = lambda _: None,
    steps: int | None = None,
) -> Iterator[tuple[Fit, Curves]]:
    """Every engine without knowledge, soft and hard; OC-BNN's own prior where its authors ran it."""
    for name in engines:
        for strength in STRENGTHS:
            if strength == "OC-BNN" and name not in WITH_OC_BNN:
                continue
            progress(f"{name}, {strength}")
            yield run(name, strength, steps=steps)


def summary(fits: Sequence[Fit]) -> dict[str, Any]:
    """Results of a record: the numbers of a fit by engine and strength."""
    found: dict[str, Any] = {}
    for one in fits:
        row = asdict(one)
        found.setdefault(row.pop("engine"), {})[row.pop("strength")] = row
    return found


def draw(curves: dict[tuple[str, str], Curves], path: Path) -> None:
    """One panel per engine: functions without knowledge behind functions with it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _ in curves))
    across = min(4, len(names))
    down = -(-len(names) // across)
    figure, axes = plt.subplots(
        down,
        across,
        figsize=(3.6 * across, 3.1 * down),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    x = grid()
    for axis, name in zip(axes.flat, names, strict=False):
        for strength, colour in (("none", "0.72"), ("hard", "#4c78a8")):
            functions = curves[name, strength].functions
            axis.plot(x, functions.T, color=colour, alpha=0.35, lw=0.7)
            axis.plot([], [], color=colour, label={"none": "without", "hard": "hard"}[strength])
        axis.add_patch(
            plt.Rectangle(
                (WHERE["x"][0], BAND[0]), 0.6, BAND[1] - BAND[0], ec="#e45756", fc="none", lw=1.8
            )
        )
        axis.scatter(X, truth(X), s=18, color="0.1", zorder=3)
        axis.set_title(name, fontsize=11)
        axis.set(ylim=(-6, 6), xlim=(x[0], x[-1]))
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    axes.flat[0].plot([], [], color="#e45756", label="known band")
    axes.flat[0].legend(fontsize=8, frameon=False, loc="lower center")
    figure.savefig(path, dpi=140)
    plt.close(figure)
