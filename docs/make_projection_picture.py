"""Make docs/projection.svg: functions before and after projection, and those that conditioning keeps.

Run from the repository's root: python docs/make_projection_picture.py. The data are made up: 25 noisy
readings of a curve that rises, mostly in its middle. The fraction of draws that obey, and how far draws
moved, are printed.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np

from prbnn import MLP, Increasing, LayerNormal, PRBNNRegressor

BEFORE, AFTER, KEPT = "#c62828", "#00796b", "#3949ab"
SHOWN = 25


def truth(x: np.ndarray) -> np.ndarray:
    """The curve behind the readings."""
    return 0.8 / (1 + np.exp(-20 * (x - 0.5)))


def main() -> None:
    """Three panels: raw draws, the same draws moved, raw draws that obey."""
    generator = np.random.default_rng(4)
    x = np.sort(generator.uniform(0, 1, 25))
    y = truth(x) + 0.3 * generator.standard_normal(25)
    grid = np.linspace(0, 1, 150)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PRBNNRegressor(
            MLP((50,), "tanh"),
            [Increasing("x")],
            prior=LayerNormal(2.0),
            tempering=0.05,
            enforce="projection",
            random_state=0,
            verbose=False,
        ).fit(x[:, None], y)
    raw, moved = model.raw_posterior_, model.posterior_
    kept, fraction = raw.condition(list(model.solution_.rules))
    moves = model.knowledge_report_[0].moves
    print(
        f"{fraction:.0%} of raw draws obey; {moves.fraction:.0%} were moved, by {moves.distance:.2f} "
        "standard deviations of the noise (median)"
    )
    plt.rcParams.update({"svg.hashsalt": "prbnn", "font.size": 10, "axes.titlesize": 11})
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
    titles = ("without the rule", "projected", "conditioned: the draws that obey")
    for axes, draws, colour, title in zip(
        panels, (raw, moved, kept), (BEFORE, AFTER, KEPT), titles, strict=True
    ):
        lines = draws.take(np.arange(min(SHOWN, len(draws)))).functions(grid)[..., 0]
        axes.plot(grid[:, 0], lines.T, color=colour, lw=0.7, alpha=0.6)
        axes.plot(grid[:, 0], truth(grid[:, 0]), color="0.35", lw=1.6, ls="--")
        axes.scatter(x, y, s=10, color="0.15", zorder=3)
        axes.set(title=title, xlabel="x", xlim=(0, 1))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("output, which rises with x")
    figure.savefig(Path(__file__).parent / "projection.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
