"""Make docs/worst-points.svg: a step's points without and with the worst points known so far.

Run from the repository's root: python docs/make_worst_points_picture.py. The violation is made up (a
small corner of a square), and the points are kept as in src/prbnn/enforcement: those of the largest
violation, of the ones kept before and of the step's block.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import qmc

WIDTH = 256  # points of a step
STEPS = 80
RADIUS = 0.1236  # of the corner, a quarter of a disc
BROKEN, OBEYED, AREA = "#c62828", "#00796b", "#f6d5d5"


def violation(points: np.ndarray) -> np.ndarray:
    """How much the rule is broken at points of the unit square: above 0 in 1.2 % of it."""
    return np.maximum(0.0, RADIUS - np.hypot(1 - points[:, 0], points[:, 1]))


def kept_worst(pool: np.ndarray, steps: int, width: int) -> np.ndarray:
    """The ``width`` worst of the pool's first ``steps`` blocks of ``width`` points."""
    worst = pool[:width]
    for step in range(1, steps):
        both = np.concatenate([worst, pool[step * width : (step + 1) * width]])
        worst = both[np.argsort(-violation(both), kind="stable")[:width]]
    return worst


def panel(axes: plt.Axes, points: np.ndarray, title: str) -> None:
    """Points of a step over the region, those where the rule is broken in another colour."""
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 801)] * 2), axis=-1)
    field = violation(grid.reshape(-1, 2)).reshape(801, 801)
    axes.contourf(*grid.T, field.T, levels=[1e-9, 1], colors=[AREA])
    broken = violation(points) > 0
    axes.scatter(*points[~broken].T, s=7, color=OBEYED, linewidths=0)
    axes.scatter(*points[broken].T, s=7, color=BROKEN, linewidths=0)
    axes.set(title=f"{title}\n{broken.sum()} of {len(points)} points in the broken corner")
    axes.set(xlabel="input 1", ylabel="input 2", xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    axes.set_aspect("equal")


def main() -> None:
    """Both panels."""
    pool = qmc.Sobol(2, seed=0).random(2**17)
    half = WIDTH // 2
    worst = kept_worst(pool, STEPS, half)
    block = pool[STEPS * half : (STEPS + 1) * half]
    plt.rcParams.update({"svg.hashsalt": "prbnn", "font.size": 10, "axes.titlesize": 11})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.9), layout="constrained")
    panel(left, pool[STEPS * half : STEPS * half + WIDTH], "a block of the pool alone")
    panel(right, np.concatenate([block, worst]), f"half block, half worst known ({STEPS} steps)")
    target = Path(__file__).parent / "worst-points.svg"
    figure.savefig(target, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
