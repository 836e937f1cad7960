"""Simulation-based calibration of every engine, on a line and on a small network.

Run `python benchmarks/calibration.py`; `--engines nuts,bbb` and `--models line` choose among them. With
`--picture docs/calibration.svg` it draws the histograms of ranks.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from prbnn import NUTS, SGHMC, SVGD, BayesByBackprop, Dropout, Ensemble, Laplace
from prbnn_studies import records
from prbnn_studies.simulated import (
    BINS,
    DRAWS,
    MODELS,
    UNIFORM,
    inside,
    simulate,
    together,
    uniformity,
)
from prbnn_studies.tables import benchmarks as tables

# engine, steps (None: its own number) and simulations: fewer where each takes longer
ENGINES = {
    "nuts": (NUTS(chains=1, keep=DRAWS), None, 640),
    "sghmc": (SGHMC(chains=1, keep=DRAWS), None, 640),
    "laplace": (Laplace(), None, 640),
    "svgd": (SVGD(particles=DRAWS), 2000, 128),
    "bbb": (BayesByBackprop(), None, 640),
    "ensemble": (Ensemble(members=DRAWS), None, 320),
    "ensemble, anchored": (Ensemble(members=DRAWS, anchored=True), None, 320),
    "dropout": (Dropout(), None, 640),
}


def measured(model, name):
    """Per quantity: p value, fractions of truths in central intervals, and counts of ranks."""
    engine, steps, simulations = ENGINES[name]
    began = time.process_time()
    found = simulate(MODELS[model], engine, steps or engine.budget, simulations)
    rows = {}
    for place, quantity in enumerate(found.quantities):
        ranks = found.ranks[:, place]
        rows[quantity] = {
            "p": uniformity(ranks),
            "inside": {
                f"{level:.0%}": dict(zip(("fraction", "error"), inside(ranks, level), strict=True))
                for level in (0.5, 0.9)
            },
            "counts": np.bincount(ranks * BINS // (DRAWS + 1), minlength=BINS).tolist(),
        }
    seconds = time.process_time() - began
    p = together([row["p"] for row in rows.values()])
    return {"simulations": simulations, "cpu_seconds": seconds, "p": p, "quantities": rows}


def picture(results, path):
    """Histograms of ranks: a row per engine, a column per model and quantity."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    columns = [
        (model, quantity)
        for model, found in results.items()
        for quantity in next(iter(found.values()))["quantities"]
    ]
    engines = list(next(iter(results.values())))
    plt.rcParams.update({"svg.hashsalt": "prbnn", "font.size": 9, "axes.titlesize": 9})
    size = (1.35 * len(columns) + 1, 1.0 * len(engines) + 0.8)
    figure, panels = plt.subplots(
        len(engines), len(columns), figsize=size, layout="constrained", squeeze=False
    )
    for engine, line in zip(engines, panels, strict=True):
        for (model, quantity), axes in zip(columns, line, strict=True):
            found = results[model][engine]
            row = found["quantities"][quantity]
            expected = found["simulations"] / BINS
            wobble = 2.58 * np.sqrt(expected * (1 - 1 / BINS))
            wrong = row["p"] < UNIFORM / len(found["quantities"])
            axes.axhspan(
                (expected - wobble) / expected, (expected + wobble) / expected, color="0.87"
            )
            heights, edges = np.array(row["counts"]) / expected, np.arange(BINS + 1)
            axes.stairs(
                heights, edges, fill=True, color="#c62828" if wrong else "#00796b", alpha=0.85
            )
            axes.set(xticks=[], yticks=[], ylim=(0, 4), xlim=(0, BINS))
            axes.spines[["top", "right", "left"]].set_visible(False)
            if axes in panels[0]:
                axes.set_title(f"{model}\n{quantity}")
        line[0].set_ylabel(engine.replace(", ", "\n"), rotation=0, ha="right", va="center")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the histograms here")
    records.add_option(parser)
    options = parser.parse_args()
    results = {}
    for model in options.models:
        results[model] = {}
        for engine in options.engines:
            results[model][engine] = measured(model, engine)
            print(f"{model}, {engine}: {results[model][engine]['cpu_seconds']:.0f} s", flush=True)
        table = tables.calibration(model)(results)
        print(f"\n{table.title}\n\n{table.markdown()}\n", flush=True)
    if options.picture:
        picture(results, options.picture)
    records.write_record(options.record, {"draws": DRAWS, **results})


if __name__ == "__main__":
    main()
