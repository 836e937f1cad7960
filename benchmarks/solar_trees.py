"""What the recorded plants' slope rules cost boosted trees: free, and monotone in sun and in heat.

Run `python benchmarks/solar_trees.py --data DATA --seeds 5`; a seed is one split of the days.

Same rows, inputs and splits as `prbnn study solar --source csv --data DATA --seed SEED`. The trees fall
with module temperature everywhere, the study's rule holds in full sun alone; the trees have no bounds.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from prbnn.assessment import metrics
from prbnn_studies import records
from prbnn_studies.solar import sources

SLOPES = {
    "free": {},
    "sun": {"irradiance": 1},
    "heat": {"module": -1},
    "both": {"irradiance": 1, "module": -1},
}
# single fits differ by a few per cent, so their predictions are averaged
FITS = 4


def error(source: sources.Source, slopes: dict[str, int]) -> float:
    """MSE of the mean of some fits on test rows, in min-max units of the training power."""
    scale = float(np.ptp(source.power[source.train]))
    found = []
    for seed in range(FITS):
        trees = HistGradientBoostingRegressor(
            learning_rate=0.05,
            max_iter=400,
            max_leaf_nodes=15,
            l2_regularization=1.0,
            max_features=0.7,
            early_stopping=False,
            monotonic_cst=[slopes.get(name, 0) for name in source.columns],
            random_state=seed,
        )
        trees.fit(source.inputs[source.train], source.power[source.train] / scale)
        found.append(trees.predict(source.inputs[source.test]))
    return metrics.mse(source.power[source.test] / scale, np.mean(found, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    records.add_option(parser)
    options = parser.parse_args()
    print(
        f"{'plant':<12}{'seed':>5}{'MSE free':>12}" + "".join(f"{n:>9}" for n in list(SLOPES)[1:])
    )
    changes: dict[str, dict[str, list[float]]] = {}
    for seed in range(options.seeds):
        for source in sources.recorded(options.data, 1.0, seed):
            free, *others = (error(source, slopes) for slopes in SLOPES.values())
            found = {name: e / free - 1 for name, e in zip(list(SLOPES)[1:], others, strict=True)}
            shown = "".join(f"{change:>+9.1%}" for change in found.values())
            print(f"{source.name:<12}{seed:>5}{free:>12.6f}{shown}", flush=True)
            own = changes.setdefault(source.name, {name: [] for name in found})
            for name, change in found.items():
                own[name].append(change)
    results = {
        plant: {
            name: {"least": min(values), "most": max(values), "seed 0": values[0]}
            for name, values in own.items()
        }
        for plant, own in changes.items()
    }
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
