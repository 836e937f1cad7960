"""Ways to keep the same rules: none, soft, hard in three ways; side by side in one run.

Run `python benchmarks/construction.py`; `--data-sets 10 4` says how many data sets of simulation 2 and
of the problem with four inputs.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from prbnn import MLP, AtLeast, Decreasing, Increasing, PRBNNRegressor
from prbnn.assessment import metrics
from prbnn.rules.base import Rule
from prbnn_studies import records
from prbnn_studies import simulation2 as simulation
from prbnn_studies.tables import benchmarks as tables

NOISE = 0.3
COLUMNS = ("dose", "temperature", "load", "age")
# draws and points at which obedience is counted: the same for every way
DRAWS, POINTS = 250, 2048


@dataclass(frozen=True)
class Setting:
    """Data of a seed, the truth, the points it is evaluated at, and the rules: soft and hard."""

    name: str
    data: Callable[[int], tuple[Any, np.ndarray]]
    truth: Callable[[np.ndarray], np.ndarray]
    noise: float
    points: np.ndarray
    columns: tuple[str, ...]
    soft: Sequence[Rule]
    hard: Sequence[Rule]


def surface(x: np.ndarray) -> np.ndarray:
    """Rises with dose, by more under load; falls with temperature; oscillates with age."""
    dose, temperature, load, age = x.T
    return 3 * (1 - np.exp(-3 * dose)) * (0.5 + load) - 2 * temperature**2 + np.sin(4 * age)


def rows(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """120 rows of the surface with noise."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 1, (120, 4))
    return pd.DataFrame(x, columns=list(COLUMNS)), surface(x) + NOISE * generator.normal(size=120)


ABOUT_SURFACE = (
    Increasing("dose"),
    Decreasing("temperature"),
    AtLeast("-2*temperature - 0.8"),
)
SETTINGS = (
    Setting(
        "simulation 2",
        simulation.data,
        lambda x: simulation.truth(x[:, 0]),
        0.1,
        simulation.grid()[:, None],
        ("x",),
        simulation.knowledge("soft 1,1,4"),
        simulation.knowledge("PR-BNN"),
    ),
    Setting(
        "four inputs",
        rows,
        surface,
        NOISE,
        np.random.default_rng(99).uniform(0, 1, (500, 4)),
        COLUMNS,
        [rule.soft(120.0) for rule in ABOUT_SURFACE],
        ABOUT_SURFACE,
    ),
)
RECTIFIED = {"network": MLP((100,), "relu")}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "no rules": ("none", {}),
    "soft": ("soft", {}),
    "by projection": ("hard", {"enforce": "projection"}),
    "by pressure": ("hard", {**RECTIFIED, "enforce": "pressure"}),
    "by construction": ("hard", {**RECTIFIED, "enforce": "construction"}),
    "by construction, tanh": (
        "hard",
        {"enforce": "construction", "network": MLP(activation="tanh")},
    ),
}


def measured(setting: Setting, way: str, seed: int) -> dict[str, float]:
    """One fit, compared with the truth and with new observations of it."""
    kind, options = WAYS[way]
    knowledge = {"none": (), "soft": setting.soft, "hard": setting.hard}[kind]
    x, y = setting.data(seed)
    model = PRBNNRegressor(knowledge=list(knowledge), random_state=seed, **options)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    seconds = time.perf_counter() - began
    posterior = model.posterior_
    functions = posterior.functions(setting.points)[..., 0]
    truth = setting.truth(setting.points)
    seen = truth + setting.noise * np.random.default_rng(1000 + seed).normal(size=len(truth))
    few = posterior.take(np.arange(min(DRAWS, len(posterior))))
    check = few.check(setting.hard, few.bind(setting.hard, POINTS, seed=9))
    low, high = np.quantile(functions, [0.025, 0.975], axis=0)
    return {
        "mse": metrics.mse(truth, functions.mean(axis=0)),
        "crps": metrics.crps(seen, posterior.samples(setting.points)[..., 0]),
        "coverage": metrics.coverage(truth, low, high),
        "std": metrics.epistemic_std(functions),
        "obey": float(np.mean(check.obeys())),
        "accepted": model.acceptance_,
        "seconds": seconds - model.solution_.seconds_compile,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, nargs=2, default=[10, 4])
    records.add_option(parser)
    options = parser.parse_args()
    results = {}
    for setting, count in zip(SETTINGS, options.data_sets, strict=True):
        ways = {}
        for way in WAYS:
            # the first fit compiles, which a median does not show
            found = [measured(setting, way, seed) for seed in range(count)]
            ways[way] = {name: float(np.median([one[name] for one in found])) for name in found[0]}
        results[setting.name] = {"data_sets": count, "ways": ways}
        table = tables.construction(setting.name)(results)
        print(f"\n{table.title}\n\n{table.markdown()}", flush=True)
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
