"""Simulation 2: a curve learned from 87 noisy points, and three things known about it.

The truth is (arctan(20x - 10) - arctan(-10)) / 3. Training x lie in [.1, .65]; what is known holds
on [.08, 1]: the curve is never negative, never above log(25x + 1)/3 + .05, and never falls. Rows with a
negative y were left out of the data, which PR-BNN states in its likelihood (`TRUNCATED`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from prbnn import MLP, AtLeast, AtMost, BayesByBackprop, Gaussian, Increasing, Normal
from prbnn.assessment import metrics
from prbnn.rules.base import Rule

if TYPE_CHECKING:
    from pathlib import Path

REGION = {"x": (0.08, 1.0)}
UPPER = "log(25*x + 1)/3 + 0.05"
TOLERANCE = 1e-4
TRUNCATED = (0, None)
# a weight c of the paper is 87 c nats here; its monotone rule compares 50 grid points
ROWS_OF_THE_PAPER = 87
GRID_STEP = (REGION["x"][1] - REGION["x"][0]) / 49
WEIGHTINGS = ((1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1), (1, 1, 4), (1, 1, 8))
# the same fit with the likelihood of all values, as if no row had been left out
IGNORED = "PR-BNN, truncation ignored"
METHODS = ("BNN", *(f"soft {a},{b},{c}" for a, b, c in WEIGHTINGS), IGNORED, "PR-BNN")
PANELS = ("BNN", "soft 1,1,2", "soft 1,1,4", "PR-BNN")

# method: (MSE, STD, violations of the mean curve), as printed in the paper
PAPER: dict[str, tuple[float, float, tuple[int, int, int]]] = {
    "BNN": (0.232, 0.059, (0, 77, 0)),
    "soft 1,1,1": (0.036, 0.047, (0, 0, 84)),
    "soft 1,1,2": (0.032, 0.047, (0, 0, 86)),
    "soft 1,2,1": (0.059, 0.046, (0, 0, 84)),
    "soft 2,1,1": (0.033, 0.052, (0, 0, 84)),
    "soft 1,1,4": (0.0083, 0.060, (0, 0, 83)),
    "soft 1,1,8": (0.086, 0.079, (0, 67, 0)),
    "PR-BNN": (0.0052, 0.040, (0, 0, 0)),
}


def truth(x: np.ndarray) -> np.ndarray:
    """The curve to learn.

    >>> float(truth(np.array(0.0)))
    0.0
    """
    return (np.arctan(20 * x - 10) - np.arctan(-10)) / 3


def upper(x: np.ndarray) -> np.ndarray:
    """What the curve is known to stay below."""
    return np.log(25 * x + 1) / 3 + 0.05


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Training rows; seed 0 is the authors' data set of 87 rows.

    >>> len(data(0)[1])
    87
    """
    x = np.sort(np.random.RandomState(1 + 1000 * seed).uniform(0.1, 0.65, 100))
    y = truth(x) + np.random.RandomState(10 + 1000 * seed).normal(0, 0.1, 100)
    keep = y >= 0
    return x[keep, None], y[keep]


def grid() -> np.ndarray:
    """The 200 test points."""
    return np.linspace(*REGION["x"], 200)


def knowledge(method: str) -> list[Rule]:
    """The rules of a method: none, the paper's fixed weights, or hard."""
    if method == "BNN":
        return []
    lower = AtLeast(0, where=REGION, name="lower")
    above = AtMost(UPPER, where=REGION, name="upper")
    if method.startswith("PR-BNN"):
        return [lower, above, Increasing("x", where=REGION, name="monotone")]
    weights = [ROWS_OF_THE_PAPER * float(c) for c in method.removeprefix("soft ").split(",")]
    rising = Increasing("x", over=GRID_STEP, where=REGION, name="monotone")
    return [rule.soft(weight) for rule, weight in zip((lower, above, rising), weights, strict=True)]


@dataclass(frozen=True)
class Fit:
    """One fit, measured on the grid; lists are in the order lower, upper, monotone."""

    method: str
    seed: int
    mse: float
    std: float
    violation: list[float]
    violations_of_mean: list[int]
    raw_draws_violating: float
    stored_draws_violating: float
    acceptance: float
    duals: list[float]
    coverage95: float
    coverage95_right: float
    noise: float
    seconds_compile: float
    seconds_run: float
    tempering: float
    residual_sd: float


@dataclass(frozen=True, eq=False)
class Curves:
    """What a panel of the picture shows."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    functions: np.ndarray


def broken(functions: np.ndarray) -> np.ndarray:
    """(..., 3): at how many grid points curves break lower, upper and (by differences) monotone."""
    x = grid()
    return np.stack(
        [
            np.sum(functions < -TOLERANCE, axis=-1),
            np.sum(functions > upper(x) + TOLERANCE, axis=-1),
            np.sum(np.diff(functions, axis=-1) < -TOLERANCE, axis=-1),
        ],
        axis=-1,
    )


def violation(functions: np.ndarray) -> list[float]:
    """-E f of the three rules over draws and grid points; monotone by slope."""
    x = grid()
    slope = np.diff(functions, axis=-1) / np.diff(x)
    return [
        float(-np.mean(np.minimum(0, score)) + 0.0)
        for score in (functions, upper(x) - functions, slope)
    ]


def as_in_the_paper() -> dict[str, Any]:
    """The authors' settings: network, prior, raw units, KL weight 1/5, learning rate and initial sd."""
    return {
        "network": MLP((100,), "relu"),
        "prior": Normal(),
        "scaling": "none",
        "tempering": 0.2,
        "inference": BayesByBackprop(draws=5, learning_rate=0.005, initial_sd=0.02),
    }


def likelihood(method: str) -> Gaussian:
    """The likelihood of a method: PR-BNN, with any engine, states that rows below 0 were left out."""
    states = method.startswith("PR-BNN") and method != IGNORED
    return Gaussian(truncated=TRUNCATED) if states else Gaussian()


def run(
    method: str, seed: int = 0, tempering: float | Literal["auto"] = "auto", **options: Any
) -> tuple[Fit, Curves]:
    """Fit one method to one data set by bbb, with the defaults or ``options``, and measure it.

    The likelihoods and strengths of the methods would have different engines by default.
    """
    from prbnn import PRBNNRegressor  # imports scikit-learn, which the data do not need

    x, y = data(seed)
    options = {"inference": "bbb"} | options
    began = time.perf_counter()
    model = PRBNNRegressor(
        knowledge=knowledge(method),
        likelihood=likelihood(method),
        random_state=seed,
        tempering=tempering,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    seconds = time.perf_counter() - began
    points = grid()[:, None]
    stored, raw = model.sample_functions(points), model.raw_posterior_.functions(points)[..., 0]
    low, high = np.quantile(stored, [0.025, 0.975], axis=0)
    mean, right = stored.mean(axis=0), grid() > 0.4
    duals = model.solution_.duals
    measured = Fit(
        method=method,
        seed=seed,
        mse=metrics.mse(truth(grid()), mean),
        std=metrics.epistemic_std(stored),
        violation=violation(raw),
        violations_of_mean=[int(n) for n in broken(mean)],
        raw_draws_violating=float(np.mean(broken(raw).any(axis=-1))),
        stored_draws_violating=float(np.mean(broken(stored).any(axis=-1))),
        acceptance=model.acceptance_,
        duals=[duals.get(name, 0.0) for name in ("lower", "upper", "monotone")],
        coverage95=metrics.coverage(truth(grid()), low, high),
        coverage95_right=metrics.coverage(truth(grid())[right], low[right], high[right]),
        noise=float(model.noise_),
        seconds_compile=model.solution_.seconds_compile,
        seconds_run=seconds - model.solution_.seconds_compile,
        tempering=model.tempering_,
        residual_sd=float(np.std(y - truth(x[:, 0]))),
    )
    return measured, Curves(mean, low, high, stored[:: max(1, len(stored) // 30)][:30])


def by_engine(engine: str) -> str:
    """The method that keeps the hard rules with an engine other than the estimator's own.

    >>> by_engine("nuts")
    'PR-BNN, nuts'
    """
    return f"PR-BNN, {engine}"


def study(
    seeds: Sequence[int],
    methods: Sequence[str] = METHODS,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Fit, Curves]]:
    """Every method on every data set.

    The plain network is fitted as in the paper, the others with the estimator's defaults. All methods
    with one likelihood share the tempering that the first of them chose on a data set; engines choose
    their own.
    """
    for seed in seeds:
        temperings: dict[Gaussian, float] = {}
        for method in methods:
            progress(f"seed {seed}, {method}")
            if method == "BNN":
                yield run(method, seed, **as_in_the_paper())
                continue
            if method.startswith("PR-BNN, ") and method != IGNORED:
                yield run(method, seed, inference=method.removeprefix("PR-BNN, "))
                continue
            measured, curves = run(method, seed, temperings.get(likelihood(method), "auto"))
            temperings[likelihood(method)] = measured.tempering
            yield measured, curves


def summary(fits: Sequence[Fit]) -> dict[str, Any]:
    """Results of a record, by method: medians over data sets, and the worst where it says so."""
    return {
        method: medians([fit for fit in fits if fit.method == method])
        for method in dict.fromkeys(fit.method for fit in fits)
    }


def medians(fits: Sequence[Fit]) -> dict[str, Any]:
    """Medians of the fits of one method to several data sets."""

    def median(name: str) -> float:
        return float(np.median([getattr(fit, name) for fit in fits]))

    counts = np.array([fit.violations_of_mean for fit in fits])
    return {
        "data_sets": len(fits),
        "mse": median("mse"),
        "worst_mse": max(fit.mse for fit in fits),
        "std": median("std"),
        "violations_of_mean": np.median(counts, axis=0).astype(int).tolist(),
        "most_violations_of_mean": counts.max(axis=0).tolist(),
        "raw_draws_violating": median("raw_draws_violating"),
        "stored_draws_violating": median("stored_draws_violating"),
        "most_stored_draws_violating": max(fit.stored_draws_violating for fit in fits),
        "acceptance": median("acceptance"),
        "coverage95": median("coverage95"),
        "coverage95_right": median("coverage95_right"),
        "noise_ratio": float(np.median([fit.noise / fit.residual_sd for fit in fits])),
        "tempering": median("tempering"),
        "seconds": median("seconds_compile") + median("seconds_run"),
    }


def draw(curves: dict[str, Curves], path: Path, seed: int = 0) -> None:
    """One panel per method: data, truth, bounds, drawn functions and bands."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x_train, y_train = data(seed)
    x = grid()
    figure, axes = plt.subplots(
        1, len(curves), figsize=(4.2 * len(curves), 3.8), sharey=True, layout="constrained"
    )
    for axis, (method, curve) in zip(np.atleast_1d(axes), curves.items(), strict=True):
        axis.axvspan(0.65, 1.0, color="0.95", zorder=0)
        axis.fill_between(
            x, curve.low, curve.high, color="#4c78a8", alpha=0.25, lw=0, label="95 % of functions"
        )
        axis.plot(x, curve.functions.T, color="#4c78a8", alpha=0.25, lw=0.6)
        axis.plot(x, curve.mean, color="#1f3f66", lw=2, label="mean")
        axis.plot(x, truth(x), color="#e45756", lw=1.6, ls="--", label="truth")
        axis.plot(x, upper(x), color="0.35", lw=1.2, ls=":", label="known bounds")
        axis.plot(x, 0 * x, color="0.35", lw=1.2, ls=":")
        axis.scatter(x_train, y_train, s=9, color="0.15", zorder=3, label="data")
        counts = broken(curve.mean)
        axis.set_title(
            f"{method}\nMSE {metrics.mse(truth(x), curve.mean):.4f}, "
            f"mean breaks {counts[0]}/{counts[1]}/{counts[2]}",
            fontsize=11,
        )
        axis.set(xlabel="x", xlim=(0.06, 1.0), ylim=(-0.35, 2.0))
        axis.spines[["top", "right"]].set_visible(False)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("y")
    first.text(0.825, -0.28, "no data", ha="center", color="0.45", fontsize=9)
    first.legend(loc="upper left", fontsize=8, frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
