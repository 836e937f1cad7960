"""The tables of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable

from prbnn_studies.tables.grid import Grid

# problems of benchmarks/engines.py
PROBLEMS = {
    "curve": "simulation 2: 87 rows, 1 input, MLP 100, three rules",
    "surface": "simulated plant: 400 rows, 4 inputs, MLP 50, rises with two, never negative",
    "classes": "simulated screening: 400 rows, 3 inputs, MLP 20, chance rises, a flip changes little",
}


def engines(problem: str) -> Callable[[dict], Grid]:
    """Time, memory, held-out score and obedience on a problem: one row per engine."""
    headings = (
        "engine",
        "seconds",
        "memory MB",
        "held-out NLL",
        "kept of drawn",
        "stored",
        "breaking at fresh points",
        "R-hat",
    )

    def table(results: dict) -> Grid:
        rows = [
            (
                engine,
                f"{row['seconds']:.1f}",
                f"{row['memory_mb']:.0f}",
                f"{row['nll']:.3f}",
                f"{row['acceptance']:.0%}",
                str(row["stored"]),
                f"{row['stored_breaking']:.1%}",
                "" if row["r_hat"] is None else f"{row['r_hat']:.2f}",
            )
            for engine, row in results[problem].items()
        ]
        return Grid(headings, rows, PROBLEMS[problem])

    return table


def construction(problem: str) -> Callable[[dict], Grid]:
    """Ways to keep the same rules on a problem: medians over data sets, one row per way."""
    headings = (
        "rules kept",
        "MSE",
        "CRPS",
        "coverage 95 %",
        "STD",
        "draws obeying",
        "accepted",
        "seconds",
    )

    def table(results: dict) -> Grid:
        found = results[problem]
        rows = [
            (
                way,
                f"{row['mse']:.4f}",
                f"{row['crps']:.4f}",
                f"{row['coverage']:.0%}",
                f"{row['std']:.3f}",
                f"{row['obey']:.0%}",
                f"{row['accepted']:.0%}",
                f"{row['seconds']:.1f}",
            )
            for way, row in found["ways"].items()
        ]
        return Grid(headings, rows, f"{problem}, medians over {found['data_sets']} data sets")

    return table


def tightness(results: dict) -> Grid:
    """One row per rejection allowed: medians over data sets of simulation 2."""
    headings = (
        "rejection",
        "MSE",
        "STD",
        "raw draws breaking",
        "acceptance",
        "coverage 95 %",
        "x > .4",
    )
    rows = [
        (
            rejection,
            f"{row['mse']:.4f}",
            f"{row['std']:.3f}",
            f"{row['raw_draws_violating']:.0%}",
            f"{row['acceptance']:.0%}",
            f"{row['coverage95']:.0%}",
            f"{row['coverage95_right']:.0%}",
        )
        for rejection, row in results.items()
    ]
    return Grid(headings, rows, "Simulation 2 by rejection allowed")


def speed(results: dict) -> Grid:
    """How many times faster prbnn is than the paper's loop: one row per comparison."""
    rows = [
        (
            what,
            *("" if value is None else f"{value:.2f}" for value in (row["torch"], row["prbnn"])),
            f"{row['times']:.1f}",
        )
        for what, row in results["compared"].items()
    ]
    return Grid(("", "PyTorch, seconds", "prbnn, seconds", "times faster"), rows)


def sequences(results: dict) -> Grid:
    """Seconds per epoch of a Bayesian LSTM: one row per contender."""
    ours = results["contenders"]["prbnn"]["median"]
    rows = [
        (
            name,
            f"{row['median']:.2f}",
            f"{row['lowest']:.2f} to {row['highest']:.2f}",
            f"{1000 * row['median'] / results['steps_per_epoch']:.0f}",
            f"{row['median'] / ours:.1f} x",
        )
        for name, row in results["contenders"].items()
    ]
    headings = ("", "seconds per epoch", "lowest to highest", "ms per step", "of prbnn's")
    return Grid(headings, rows)


def costs(results: dict) -> Grid:
    """Seconds of a first fit, which compiles, and of later ones; one row per kind of fit."""
    rows = [
        (what, f"{row['first']:.1f}", f"{row['second']:.1f}")
        for what, row in results["costs"].items()
    ]
    return Grid(("", "first, seconds", "later, seconds"), rows)


def large(results: dict) -> Grid:
    """Seconds and R2 on a table of many rows, beside scikit-learn's network."""
    rows = [
        (who, f"{int(count):,}", f"{row['seconds']:.1f}", f"{row['r2']:.3f}")
        for count, found in results["large"].items()
        for who, row in found.items()
    ]
    return Grid(("", "rows", "seconds", "R²"), rows)


def seeds(results: dict) -> Grid:
    """How far CRPS differs between fits that differ in their seed alone."""
    rows = [
        (what, f"{row['crps']:.4f}", f"{row['spread']:.1%}")
        for what, row in results["seeds"].items()
    ]
    return Grid(("", "CRPS, mean", "standard deviation over the mean"), rows)


def calibration(model: str) -> Callable[[dict], Grid]:
    """Per engine: whether ranks are uniform, and which per cent of truths lie in central intervals."""

    def table(results: dict) -> Grid:
        engines = results[model]
        quantities = next(iter(engines.values()))["quantities"]
        rows = [
            (
                engine,
                str(row["simulations"]),
                f"{row['p']:.2g}" if row["p"] >= 1e-4 else "< 1e-4",
                *(
                    " / ".join(
                        f"{100 * found['fraction']:.0f} ± {100 * found['error']:.0f}"
                        for found in row["quantities"][name]["inside"].values()
                    )
                    for name in quantities
                ),
            )
            for engine, row in engines.items()
        ]
        headings = ("engine", "simulations", "p of uniform ranks", *quantities)
        return Grid(headings, rows, f"{model}: per cent of truths in central 50 % / 90 % intervals")

    return table
