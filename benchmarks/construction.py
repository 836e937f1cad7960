"""Ways to keep the same rules: none, soft, hard by training, by construction; side by side in one run.

python benchmarks/construction.py [seeds of simulation 2] [seeds of the four inputs]
"""

import sys
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
from prbnn_studies import simulation2 as simulation

NOISE = 0.3
COLUMNS = ("dose", "temperature", "load", "age")
# draws and points at which obedience is counted: the same for every route
DRAWS, POINTS = 250, 2048


@dataclass(frozen=True)
class Problem:
    """Data of a seed, the truth, where it is judged, and the rules: soft ones and hard ones."""

    name: str
    data: Callable[[int], tuple[Any, np.ndarray]]
    truth: Callable[[np.ndarray], np.ndarray]
    noise: float
    points: np.ndarray
    columns: tuple[str, ...]
    soft: Sequence[Rule]
    hard: Sequence[Rule]


def surface(x: np.ndarray) -> np.ndarray:
    """Rises with dose, by more under load; falls with temperature; wavers with age."""
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
PROBLEMS = (
    Problem(
        "simulation 2",
        simulation.data,
        lambda x: simulation.truth(x[:, 0]),
        0.1,
        simulation.grid()[:, None],
        ("x",),
        simulation.knowledge("soft 1,1,4"),
        simulation.knowledge("PR-BNN"),
    ),
    Problem(
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
ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "no rules": ("none", {}),
    "soft": ("soft", {}),
    "hard, by training": ("hard", {}),
    "by construction": ("hard", {"enforce": "construction"}),
    "by construction, tanh": (
        "hard",
        {"enforce": "construction", "network": MLP(activation="tanh")},
    ),
}


def measured(problem: Problem, route: str, seed: int) -> dict[str, float]:
    """One fit, judged against the truth and against new observations of it."""
    kind, options = ROUTES[route]
    knowledge = {"none": (), "soft": problem.soft, "hard": problem.hard}[kind]
    x, y = problem.data(seed)
    model = PRBNNRegressor(knowledge=list(knowledge), random_state=seed, **options)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    seconds = time.perf_counter() - began
    posterior = model.posterior_
    functions = posterior.functions(problem.points)[..., 0]
    truth = problem.truth(problem.points)
    seen = truth + problem.noise * np.random.default_rng(1000 + seed).normal(size=len(truth))
    few = posterior.take(np.arange(min(DRAWS, len(posterior))))
    check = few.check(problem.hard, few.bind(problem.hard, POINTS, seed=9))
    low, high = np.quantile(functions, [0.025, 0.975], axis=0)
    return {
        "mse": metrics.mse(truth, functions.mean(axis=0)),
        "crps": metrics.crps(seen, posterior.samples(problem.points)[..., 0]),
        "coverage": metrics.coverage(truth, low, high),
        "std": metrics.epistemic_std(functions),
        "obey": float(np.mean(check.obeys())),
        "accepted": model.acceptance_,
        "seconds": seconds - model.solution_.seconds_compile,
    }


def main(counts: Sequence[int]) -> None:
    for problem, count in zip(PROBLEMS, counts, strict=True):
        print(f"\n{problem.name}, medians over {count} data sets\n")
        print(
            "| rules kept | MSE | CRPS | coverage 95 % | STD | draws obeying | accepted | seconds |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for route in ROUTES:
            # the first fit compiles; a median does not see it
            found = [measured(problem, route, seed) for seed in range(count)]
            median = {name: float(np.median([each[name] for each in found])) for name in found[0]}
            print(
                f"| {route} | {median['mse']:.4f} | {median['crps']:.4f} | {median['coverage']:.0%} "
                f"| {median['std']:.3f} | {median['obey']:.0%} | {median['accepted']:.0%} "
                f"| {median['seconds']:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or [10, 4])
