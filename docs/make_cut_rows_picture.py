"""Make docs/cut-rows.svg: censored and truncated rows, stated and ignored.

Run from the repository's root: python docs/make_cut_rows_picture.py. The data are made up: a sensor that
reads at most 3.5, and readings that were thrown away below 2. All curves obey two rules: flow rises with
load, ever more slowly. Their errors are printed.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np

from prbnn import Concave, Gaussian, Increasing, PRBNNRegressor

LIMIT, FLOOR = 3.5, 2.0
RULES = [Increasing("x"), Concave("x")]
STATED, IGNORED, TRUTH = "#00796b", "#c62828", "0.35"


def truth(x: np.ndarray) -> np.ndarray:
    """The mean flow at a load."""
    return 5 * x / (0.4 + x)


def data() -> tuple[np.ndarray, np.ndarray]:
    """Loads, and flows before anything was cut."""
    generator = np.random.default_rng(1)
    x = np.sort(generator.uniform(0.02, 2, 150))
    return x, truth(x) + generator.normal(0, 0.6, len(x))


def fitted(x: np.ndarray, y: np.ndarray, censored: np.ndarray | None = None, **options: object):
    """The estimator with its defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PRBNNRegressor(knowledge=RULES, random_state=0, verbose=False, **options)  # ty: ignore
        return model.fit(x[:, None], y, censored=censored)


def panel(axes: plt.Axes, models: dict, grid: np.ndarray, title: str) -> None:
    """Mean and 95 % band of the functions of each model, beside the truth."""
    for colour, (name, model) in zip((IGNORED, STATED), models.items(), strict=True):
        low, middle, high = model.predict_quantiles(grid[:, None], (0.025, 0.5, 0.975), noise=False)
        axes.fill_between(grid, low, high, color=colour, alpha=0.18, lw=0)
        axes.plot(grid, middle, color=colour, lw=2, label=name)
        error = float(np.sqrt(np.mean((middle - truth(grid)) ** 2)))
        print(f"{title}, {name}: RMSE of the curve {error:.3f}, noise {model.noise_:.2f}")
    axes.plot(grid, truth(grid), color=TRUTH, lw=1.6, ls="--", label="truth")
    axes.set(title=title, xlabel="load", xlim=(0, 2), ylim=(-1, 5.8))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=9, frameon=False)


def main() -> None:
    """Both panels."""
    x, y = data()
    grid = np.linspace(0.02, 2, 200)
    plt.rcParams.update({"svg.hashsalt": "prbnn", "font.size": 10, "axes.titlesize": 11})
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained"
    )

    above = y > LIMIT
    read, words = np.minimum(y, LIMIT), np.where(above, "at least", "exact")
    models = {"taken as exact": fitted(x, read), "censored= stated": fitted(x, read, words)}
    panel(left, models, grid, f"A sensor that reads at most {LIMIT:g}")
    left.scatter(x[~above], y[~above], s=9, color="0.15", zorder=3)
    left.scatter(x[above], read[above], s=16, marker="^", color="0.15", zorder=3)
    left.set_ylabel("flow")

    kept = y > FLOOR
    window = Gaussian(truncated=(FLOOR, None))
    models = {
        "rows as they are": fitted(x[kept], y[kept]),
        "truncated= stated": fitted(x[kept], y[kept], likelihood=window),
    }
    panel(right, models, grid, f"Readings below {FLOOR:g} were thrown away")
    right.scatter(x[kept], y[kept], s=9, color="0.15", zorder=3)
    right.axhline(FLOOR, color="0.6", lw=0.8, ls=":")
    figure.savefig(Path(__file__).parent / "cut-rows.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
