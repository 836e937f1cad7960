"""What the recorded plants' slopes cost a peer: boosted trees free, and monotone in sun and in heat.

python benchmarks/solar_trees.py DATA [seeds of the split]

Same rows, inputs and splits as `prbnn study solar --source csv --data DATA --seed SEED`. The trees fall
with module temperature everywhere, the study's rule asks it in full sun alone; bounds are not theirs.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from prbnn.assessment import metrics
from prbnn_studies.solar import sources

SLOPES = {
    "free": {},
    "sun": {"irradiance": 1},
    "heat": {"module": -1},
    "both": {"irradiance": 1, "module": -1},
}
# trees of one seed differ by a few per cent
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


def main(folder: Path, seeds: int) -> None:
    print(
        f"{'plant':<12}{'seed':>5}{'MSE free':>12}" + "".join(f"{n:>9}" for n in list(SLOPES)[1:])
    )
    for seed in range(seeds):
        for source in sources.recorded(folder, 1.0, seed):
            free, *others = (error(source, slopes) for slopes in SLOPES.values())
            changes = "".join(f"{other / free - 1:>+9.1%}" for other in others)
            print(f"{source.name:<12}{seed:>5}{free:>12.6f}{changes}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
