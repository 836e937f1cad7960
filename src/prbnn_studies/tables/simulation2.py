"""The tables of simulation 2."""

from __future__ import annotations

from collections.abc import Sequence

from prbnn_studies.simulation2 import PAPER
from prbnn_studies.tables.grid import Grid

HEADINGS = (
    "method",
    "MSE",
    "worst MSE",
    "STD",
    "mean breaks",
    "raw draws breaking",
    "stored draws breaking",
    "acceptance",
    "coverage 95 %",
    "x > .4",
    "noise / residual sd",
    "tempering",
    "seconds",
)


def methods(results: dict) -> Grid:
    """One row per method: medians over data sets, with the paper's numbers in brackets."""
    rows = []
    for method, row in results.items():
        mse, std, counts = PAPER[method.split(", ")[0]]
        rows.append(
            (
                method,
                f"{row['mse']:.4f} ({mse:g})",
                f"{row['worst_mse']:.4f}",
                f"{row['std']:.3f} ({std:g})",
                f"{slashed(row['violations_of_mean'])} ({slashed(counts)})",
                f"{row['raw_draws_violating']:.0%}",
                f"{row['stored_draws_violating']:.0%}",
                f"{row['acceptance']:.2f}",
                f"{row['coverage95']:.0%}",
                f"{row['coverage95_right']:.0%}",
                f"{row['noise_ratio']:.2f}",
                f"{row['tempering']:g}",
                f"{row['seconds']:.1f}",
            )
        )
    return Grid(HEADINGS, rows, "Simulation 2")


def summary(results: dict) -> Grid:
    """The plain network beside the one with knowledge, in a few rows."""
    plain, known = results["BNN"], results["PR-BNN"]
    mse, _, counts = PAPER["PR-BNN"]
    rows = [
        ("MSE, median", f"{plain['mse']:.4f}", f"{known['mse']:.4f}", f"{mse:g}"),
        (
            "points of 200 where the mean breaks a rule, median",
            *(str(sum(numbers["violations_of_mean"])) for numbers in (plain, known)),
            str(sum(counts)),
        ),
        (
            "drawn functions that break a rule, median",
            f"{plain['raw_draws_violating']:.0%}",
            f"{known['raw_draws_violating']:.0%} raw, {known['stored_draws_violating']:.0%} stored",
            "not reported",
        ),
    ]
    return Grid(("", "plain network", "with knowledge", "paper, with knowledge"), rows)


def slashed(counts: Sequence[float]) -> str:
    """Counts of lower, upper and monotone.

    >>> slashed([0, 74, 0])
    '0/74/0'
    """
    return "/".join(str(int(count)) for count in counts)
