"""Every truth that an engine can attain, at five settings and five seeds: how it ended, and how far off.

``python -m tests.truths.matrix`` prints one row per engine, truth, setting and seed, and then those that
are "converged" with an error above `MOST` standard errors. Name engines, truths or settings to choose.

Errors are in standard errors. Of draws these are Monte Carlo errors: the spread of a mean over the
effective draws, and for a dual the change that moves the mean of f by its own standard error. Of
variational engines they are the tolerances stated with the answers, 1e-2 of a mean and 2 % of a dual: a
fit with five draws per step differs by about as much from one seed to the next.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    SVGD,
    AtLeast,
    BayesByBackprop,
    Gaussian,
    Increasing,
    Laplace,
    Normal,
    fit,
)
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine
from prbnn.rules.base import Rule
from tests.truths.problems import DUAL, LINE_NOISE, LINE_X, LINE_Y, MEAN, constant

SEEDS = range(5)
MOST = 4.0

Draws = np.ndarray


class Answer(NamedTuple):
    """Mean and standard deviation of each weight, and the dual of each rule that has one."""

    means: Sequence[float]
    sds: Sequence[float]
    duals: Sequence[float]


@dataclass(frozen=True)
class Truth:
    """A problem and its answer.

    - `rules`: at a tempering. The duals of an average, a tolerance and a probability are proportional to
      it, so that the posterior is that of a tempering of 1; a price is stated so
    - `f`: of draws, the score that each rule bounds; none where nothing is bounded
    - `exact`, `normal`: at a tempering, of the posterior itself and of the best independent normal
    """

    rules: Callable[[float], Sequence[Rule]]
    f: Callable[[Draws], Sequence[Draws]]
    exact: Callable[[float], Answer]
    normal: Callable[[float], Answer]
    line: bool = False


def lifted(
    rows: Sequence[Sequence[float]], bounds: Sequence[float], normal: bool
) -> Callable[[float], Answer]:
    """(slope, intercept) and duals where the means of ``rows`` times these are at ``bounds``.

    The mean moves by Sigma A' (A Sigma A')^-1 (b - A mu), where Sigma is the posterior's. The best
    independent ``normal`` has the same mean and duals, and other standard deviations.
    """

    def answer(tempering: float) -> Answer:
        design = np.column_stack([LINE_X, np.ones(5)])
        noise = LINE_NOISE**2 * tempering
        precision = design.T @ design / noise + np.eye(2)
        covariance = np.linalg.inv(precision)
        mean = covariance @ (design.T @ LINE_Y / noise)
        across = np.reshape(rows, (len(bounds), 2))
        duals = np.linalg.solve(across @ covariance @ across.T, bounds - across @ mean)
        variances = 1 / np.diag(precision) if normal else np.diag(covariance)
        return Answer(mean + covariance @ across.T @ duals, np.sqrt(variances), tempering * duals)

    return answer


def of_constant(
    rule: Callable[[float], Rule],
    f: Callable[[Draws], Draws] | None,
    exact: tuple[float, ...],
    normal: tuple[float, ...],
) -> Truth:
    """p = N(-.5, 1) under one rule; answers are mean, sd and, where something is bounded, the dual."""

    def at(answer: tuple[float, ...]) -> Callable[[float], Answer]:
        mean, sd, *duals = answer
        return lambda tempering: Answer([mean], [sd], [tempering * dual for dual in duals])

    return Truth(
        lambda tempering: [rule(tempering)],
        lambda draws: [] if f is None else [f(draws[:, 0])],
        at(exact),
        at(normal),
    )


def of_line(
    rules: Sequence[Rule], rows: Sequence[Sequence[float]], bounds: Sequence[float]
) -> Truth:
    return Truth(
        lambda tempering: rules,
        lambda draws: [draws @ row for row in rows],
        lifted(rows, bounds, normal=False),
        lifted(rows, bounds, normal=True),
        line=True,
    )


RISING = Increasing("x", name="rising").on_average(0)
HIGH = AtLeast(0.5, where={"x": 0}, name="intercept").on_average(0)
TRUTHS = {
    "line": of_line([], [], []),
    "average": of_line([RISING], [(1, 0)], [0.0]),
    "two averages": of_line([RISING, HIGH], [(1, 0), (0, 1)], [0.0, 0.5]),
    "price": of_constant(
        lambda tempering: AtLeast(0, name="positive").soft(5 * tempering),
        None,
        (0.476048, 0.579593),
        (0.459820, 0.528115),
    ),
    "tolerance": of_constant(
        lambda tempering: AtLeast(0, name="positive").hard(0.01),
        lambda w: np.minimum(w, 0),
        (0.565864, 0.540452, 10.4778),
        (0.603211, 0.387773, 18.4163),
    ),
    # on either side of 0 the exact posterior has the prior's own shape
    "probability": of_constant(
        lambda tempering: AtLeast(0, name="positive").probably(0.95),
        lambda w: -(w < 0).astype(float),
        (0.558566, 0.639313, 3.751404),
        (0.691224, 0.420234, 4.853739),
    ),
}


@dataclass(frozen=True)
class Setting:
    """Options of an engine, steps (None: its own) and the tempering."""

    engine: Engine
    steps: int | None = None
    tempering: float = 1.0


SETTINGS: dict[str, dict[str, Setting]] = {
    "bbb": {
        "defaults": Setting(BayesByBackprop()),
        "many draws": Setting(BayesByBackprop(draws=64)),
        "fast": Setting(BayesByBackprop(learning_rate=0.02)),
        "short, cold": Setting(BayesByBackprop(), 1500, 0.1),
        "members, colder": Setting(BayesByBackprop(draws=2, members=4), None, 0.01),
    },
    "nuts": {
        "defaults": Setting(NUTS()),
        "short": Setting(NUTS(chains=8, keep=100), 400),
        "two chains": Setting(NUTS(chains=2, keep=1000), 2000),
        "cold": Setting(NUTS(), None, 0.01),
        "places unfilled": Setting(NUTS(keep=500), 600, 0.1),
    },
    "sghmc": {
        "defaults": Setting(SGHMC()),
        "short": Setting(SGHMC(chains=16, keep=100), 8000),
        "two chains": Setting(SGHMC(chains=2, keep=500), 15_000),
        "cold": Setting(SGHMC(), None, 0.01),
        "coarse": Setting(SGHMC(step_size=0.2), 10_000, 0.1),
    },
    "svgd": {
        "defaults": Setting(SVGD()),
        "few": Setting(SVGD(particles=20)),
        "many": Setting(SVGD(particles=200), 3000),
        "fast": Setting(SVGD(particles=50, learning_rate=0.05), 2000),
        "short, cold": Setting(SVGD(particles=50), 1000, 0.1),
    },
    "laplace": {
        "defaults": Setting(Laplace()),
        "slow": Setting(Laplace(learning_rate=0.001)),
        "fast": Setting(Laplace(learning_rate=0.05)),
        "short": Setting(Laplace(), 500),
        "cold": Setting(Laplace(), None, 0.01),
    },
}
# a follower of slopes refuses a probability, and the most probable weights of a line alone are its mean
LEFT_OUT = {
    "sghmc": {"probability"},
    "svgd": {"probability"},
    "laplace": TRUTHS.keys() - {"line"},
}


def cells() -> Iterator[tuple[str, str, str]]:
    """Every engine, truth and setting."""
    for engine, settings in SETTINGS.items():
        for truth in TRUTHS:
            if truth not in LEFT_OUT.get(engine, ()):
                yield from ((engine, truth, setting) for setting in settings)


@dataclass(frozen=True)
class Outcome:
    """How one fit ended, and its largest error in standard errors, of which quantity."""

    status: str
    error: float
    quantity: str

    @property
    def false(self) -> bool:
        """Whether it is called converged and is not right."""
        return self.status == "converged" and not self.error <= MOST


def outcome(engine: str, truth: str, setting: str, seed: int) -> Outcome:
    """Fit, and compare with the answer."""
    problem, chosen = TRUTHS[truth], SETTINGS[engine][setting]
    options: dict[str, Any] = {"prior": Normal(-0.5, 1.0)}
    if problem.line:
        options = {"x": LINE_X, "y": LINE_Y, "likelihood": Gaussian(LINE_NOISE)}
    solution = fit(
        MLP(hidden=()) if problem.line else constant,
        knowledge=problem.rules(chosen.tempering),
        inference=chosen.engine,
        steps=chosen.steps,
        tempering=chosen.tempering,
        seed=seed,
        **options,
    )
    compared = _of_normal if engine == "bbb" else _of_draws
    errors = compared(solution, problem, chosen.tempering)
    worst = max(errors, key=lambda name: np.nan_to_num(errors[name], nan=np.inf))
    return Outcome(solution.result.status, errors[worst], worst)


def _of_draws(solution: Solution, problem: Truth, tempering: float) -> dict[str, float]:
    """Errors in Monte Carlo standard errors."""
    draws = np.asarray(solution.posterior.draws, float)
    means, sds, duals = problem.exact(tempering)

    def off(values: np.ndarray, mean: float) -> float:
        return abs(values.mean() - mean) / values.std() * solution.effective_draws(values) ** 0.5

    found = {}
    for place, (mean, sd) in enumerate(zip(means, sds, strict=True)):
        found[f"mean {place}"] = off(draws[:, place], mean)
        found[f"variance {place}"] = off((draws[:, place] - mean) ** 2, sd**2)
    if len(duals):
        f = np.array(problem.f(draws))
        worth = min(solution.effective_draws(each) for each in f)
        errors = tempering * np.sqrt(np.diag(np.linalg.pinv(np.atleast_2d(np.cov(f)))) / worth)
        named = zip(solution.duals.items(), duals, errors, strict=True)
        found |= {f"dual of {name}": abs(dual - is_) / se for (name, dual), is_, se in named}
    return found


def _of_normal(solution: Solution, problem: Truth, tempering: float) -> dict[str, float]:
    """Errors in tolerances of variational engines."""
    means, sds, duals = problem.normal(tempering)
    # a tempered line is narrower
    tolerance = MEAN * (np.sqrt(tempering) if problem.line else 1.0)
    found = {}
    for place, (mean, sd) in enumerate(zip(means, sds, strict=True)):
        found[f"mean {place}"] = abs(float(solution.location[place]) - mean) / tolerance
        found[f"sd {place}"] = abs(float(solution.scale[place]) - sd) / tolerance
    named = zip(solution.duals.items(), duals, strict=True) if len(duals) else ()
    for (name, dual), is_ in named:
        found[f"dual of {name}"] = abs(dual - is_) / (DUAL * is_)
    return found


def main(words: Sequence[str]) -> None:
    """Print the table of those cells in whose names every word occurs."""
    false = []
    for cell in cells():
        if not all(word in cell for word in words):
            continue
        for seed in SEEDS:
            found = outcome(*cell, seed)
            row = f"{' | '.join(cell)} | {seed} | {found.status} | {found.error:.1f} | {found.quantity}"
            print(row, flush=True)
            false += [row] if found.false else []
    print(
        f"\n{len(false)} converged with an error above {MOST:g} standard errors", *false, sep="\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
