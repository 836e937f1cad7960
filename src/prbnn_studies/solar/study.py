"""The solar study: power of an inverter by a plain network and by one with knowledge."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prbnn import MLP
from prbnn.assessment import metrics
from prbnn_studies.solar.sources import Source

MODELS = ("BNN", "PR-BNN")
# minutes of the day, as in the paper: 9:30 to 17:00 and 10:00 to 14:00
HOURS = {"daytime": (570, 1020), "peak": (600, 840)}
NETWORK = MLP((64, 32))
# what tempering="auto" chooses on the simulated plant: choosing costs more than the fit, and a plain
# and a constrained network must not differ in it
TEMPERING = 0.2
# rows per step; stored draws: enough for a CRPS to 1 %, and more would take longer to check
BATCH, DRAWS = 1024, 500
# points of a rule's region at which a mean is evaluated, and draws of a plain network that are
POINTS, EVALUATED = 1024, 200


@dataclass(frozen=True)
class ErrorCell:
    """Errors of one model over one period, in min-max units of the training power."""

    source: str
    model: str
    period: str
    rows: int
    mse: float
    rmse: float
    crps: float
    training_rows: int
    table: str = "errors"


@dataclass(frozen=True)
class Obedience:
    """One rule: points of its region where the mean breaks it, and the fraction of stored draws that
    break it at any."""

    source: str
    model: str
    rule: str
    violations_of_mean: int
    share_of_draws_violating: float
    points: int
    training_rows: int
    table: str = "rules"


@dataclass(frozen=True, eq=False)
class Outcome:
    """One fit: its cells, its obedience, the mean on test rows, and how long it took."""

    cells: list[ErrorCell]
    rules: list[Obedience]
    mean: np.ndarray
    model: Any
    seconds: float


def fit(source: Source, knowledge: bool, seed: int = 0, **options: Any) -> Any:
    """The paper's network on the training rows.

    With knowledge, it is fitted again under more pressure where too few drawn functions obey.
    """
    from prbnn import PRBNNRegressor  # imports scikit-learn, which the data do not need

    settings: dict[str, Any] = {
        "network": NETWORK,
        "tempering": TEMPERING,
        "steps": source.steps,
        "batch_size": BATCH,
        "draws": DRAWS,
        "verbose": False,
        **options,
    }
    rows, power = source.table(source.train), source.power[source.train]
    attempts: list[dict[str, Any]] = [settings]
    if knowledge and "rejection" not in options:
        attempts = [{**settings, "rejection": rejection} for rejection in source.rejections]
    model: Any = None
    for given in attempts:
        model = PRBNNRegressor(
            knowledge=list(source.rules) if knowledge else [],
            output_names=["power"],
            categories=source.categories,
            random_state=seed,
            **given,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, power)
        if model.result_.status != "acceptance too low":
            break
    return model


def run(source: Source, knowledge: bool, seed: int = 0, **options: Any) -> Outcome:
    """Fit and measure on the test rows."""
    began = time.perf_counter()
    model = fit(source, knowledge, seed, **options)
    seconds = time.perf_counter() - began
    name = MODELS[knowledge]
    table = source.table(source.test)
    mean, samples = model.predict(table), model.sample(table)
    return Outcome(
        list(_cells(source, name, mean, samples)),
        _obedience(source, name, model),
        mean,
        model,
        seconds,
    )


def periods(source: Source) -> dict[str, np.ndarray]:
    """Which test rows belong to which period; derated and normal where that is known."""
    minute = source.minute[source.test]
    found = {"all": np.ones(len(minute), bool)}
    for name, (start, end) in HOURS.items():
        found[name] = (minute >= start) & (minute < end)
    if source.derated is not None:
        derated = source.derated[source.test]
        found |= {"derated": derated, "normal": ~derated}
    return found


def _cells(source: Source, name: str, mean: np.ndarray, samples: np.ndarray) -> Iterator[ErrorCell]:
    scale = float(np.ptp(source.power[source.train]))
    truth = source.power[source.test] / scale
    mean, samples = mean / scale, samples / scale
    for period, rows in periods(source).items():
        if not rows.any():
            continue
        yield ErrorCell(
            source.name,
            name,
            period,
            int(rows.sum()),
            metrics.mse(truth[rows], mean[rows]),
            metrics.rmse(truth[rows], mean[rows]),
            metrics.crps(truth[rows], samples[:, rows]),
            len(source.train),
        )


def _obedience(source: Source, name: str, model: Any) -> list[Obedience]:
    """Every rule of the source, whether or not the model was fitted with it."""
    if len(model.knowledge_report_):
        found = [(r.points_broken_by_mean, r.stored_share) for r in model.knowledge_report_]
    else:
        posterior, rules = model.posterior_, list(source.rules)
        broken = posterior.take(np.arange(min(EVALUATED, len(posterior)))).check(rules).broken()
        found = zip(posterior.breaks_of_mean(rules, POINTS), broken.mean(axis=0), strict=True)
    return [
        Obedience(
            source.name, name, rule.label, int(count), float(fraction), POINTS, len(source.train)
        )
        for rule, (count, fraction) in zip(source.rules, found, strict=True)
    ]


def study(
    source: Source, say: Callable[[str], None], seed: int = 0, **options: Any
) -> tuple[Outcome, Outcome]:
    """The plain network, then the one with knowledge."""
    pair = []
    for knowledge in (False, True):
        say(f"{source.name}, {len(source.train):,} rows, {MODELS[knowledge]}")
        pair.append(run(source, knowledge, seed, **options))
    return pair[0], pair[1]


def summary(fitted: Sequence[tuple[Source, Outcome, Outcome]], seed: int) -> dict[str, Any]:
    """Results of a record: errors of both models by plant and period, and what knowledge changes."""
    return {
        "seed": seed,
        "plants": {source.name: _compared(plain, known) for source, plain, known in fitted},
    }


def _compared(plain: Outcome, known: Outcome) -> dict[str, Any]:
    measures = ("mse", "rmse", "crps")
    errors = {
        name: {cell.period: {m: getattr(cell, m) for m in measures} for cell in outcome.cells}
        for name, outcome in zip(MODELS, (plain, known), strict=True)
    }
    before, after = errors.values()
    return errors | {
        "change": {
            period: {m: after[period][m] / before[period][m] - 1 for m in measures}
            for period in before
        },
        "acceptance": known.model.acceptance_,
        "stored_draws_violating": max(rule.share_of_draws_violating for rule in known.rules),
        "violations_of_mean": sum(rule.violations_of_mean for rule in known.rules),
    }
