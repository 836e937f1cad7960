"""The landing study: what is seen of an approach, what comes next, with and without knowledge."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from prbnn.assessment import anomalies as anomaly
from prbnn.assessment import metrics
from prbnn.errors import InfeasibleError
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_at, scores_of_values
from prbnn_studies.landing.sources import Source

CURVE = (50, 200, 1000)
FALSE_ALARMS = 0.01
TOLERANCE = 1e-6
# test flights at which drawn trajectories are tried
TRIED = 256


@dataclass(frozen=True)
class Cell:
    """One cell of the tables, in min-max units; `rmse` and the like of a variable in its own."""

    source: str
    flights: int
    knowledge: bool
    scope: str
    variable: str
    mse: float
    std: float
    crps: float
    coverage90: float
    rmse_in_units: float | None = None
    crps_in_units: float | None = None
    table: str = "errors"


@dataclass(frozen=True)
class Obedience:
    """One rule on the test flights: steps at which the mean breaks it, and trajectories drawn."""

    source: str
    flights: int
    knowledge: bool
    rule: str
    violations_of_mean: int
    share_of_draws_violating: float
    table: str = "rules"


@dataclass(frozen=True, eq=False)
class Outcome:
    """One fit: its cells, its obedience, and the model for pictures and alarms."""

    cells: list[Cell]
    rules: list[Obedience]
    model: Any
    seconds: float


def fit(source: Source, flights: int | None, knowledge: bool, seed: int = 0, **options: Any) -> Any:
    """The default sequence model on the first ``flights`` training flights.

    Few flights leave a posterior so wide that hard rules are out of its reach, or that hardly any draw
    obeys them; then all are soft.
    """
    from prbnn.estimators.sequence_regressor import PRBNNSequenceRegressor

    rows = source.train[:flights]

    def one(rules: Sequence[Rule]) -> Any:
        model = PRBNNSequenceRegressor(
            knowledge=rules, variables=source.tracks.variables, random_state=seed, **options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(source.observed[rows], source.ahead[rows])

    if not knowledge:
        return one(())
    try:
        model = one(source.priced(len(rows)))
    except InfeasibleError:
        model = None
    if model is None or model.result_.status == "acceptance too low":
        return one(source.priced(len(rows), hard=False))
    return model


def run(source: Source, flights: int | None, knowledge: bool, **options: Any) -> Outcome:
    """Fit and measure on the test flights."""
    began = time.perf_counter()
    model = fit(source, flights, knowledge, **options)
    seconds = time.perf_counter() - began
    used = len(source.train[:flights])
    return Outcome(
        list(_cells(source, used, knowledge, model)),
        _obedience(source, used, knowledge, model),
        model,
        seconds,
    )


def min_max(source: Source) -> np.ndarray:
    """The range of each variable over all training flights: one unit of the tables."""
    return np.ptp(source.tracks.values[source.train], axis=(0, 1))


def _cells(source: Source, flights: int, knowledge: bool, model: Any) -> Iterator[Cell]:
    seen, truth = source.observed[source.test], source.ahead[source.test]
    scale = min_max(source)
    found = model.predict_all(seen)
    samples = model.sample(seen) / scale
    low, high = np.quantile(samples, [0.05, 0.95], axis=0)
    truth, mean, spread = truth / scale, found.mean / scale, found.epistemic / scale
    scopes = {"sequence": slice(None), "last": slice(-1, None)}
    for scope, steps in scopes.items():
        for place, variable in (*enumerate(source.tracks.variables), (None, "overall")):
            own = slice(None) if place is None else slice(place, place + 1)
            at = (slice(None), steps, own)
            crps = metrics.crps(truth[at], samples[(slice(None), *at)])
            mse = metrics.mse(truth[at], mean[at])
            yield Cell(
                source.name,
                flights,
                knowledge,
                scope,
                variable,
                mse,
                float(np.mean(spread[at])),
                crps,
                metrics.coverage(truth[at], low[at], high[at]),
                None if place is None else mse**0.5 * float(scale[place]),
                None if place is None else crps * float(scale[place]),
            )


def _obedience(source: Source, flights: int, knowledge: bool, model: Any) -> list[Obedience]:
    """Every rule of the source, whether or not the model was told of it."""
    posterior, rules = model.posterior_, source.rules
    rows = model.rows(source.observed[source.test])
    mean = posterior.predict(rows).mean
    scores = scores_of_values(rules, posterior.columns, posterior.scaling, rows, mean)
    tried = bind_at(rules, posterior.columns, posterior.scaling, rows[:TRIED])
    shares = posterior.check(rules, tried).points.mean(axis=0)
    return [
        Obedience(
            source.name,
            flights,
            knowledge,
            rule.label,
            0 if score is None else int(np.sum(score < -TOLERANCE)),
            float(share),
        )
        for rule, score, share in zip(rules, scores, shares, strict=True)
    ]


@dataclass(frozen=True)
class Warnings:
    """How well surprise tells strange flights from landings; rates on flights never seen before.

    None where the source has no strange flights.
    """

    source: str
    false_alarms_stated: float
    false_alarms_found: float
    level: float
    calibrated_on: int
    strange: int
    strange_found: float | None
    area_under_roc: float | None
    rule_breaking_landings: float
    rule_breaking_strange: float | None
    table: str = "warnings"


def surprise(model: Any, observed: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """How surprising each step of what came is, (flights, steps)."""
    return anomaly.surprise(model.posterior_, model.rows(observed), ahead.reshape(len(ahead), -1))


def alarm_of(source: Source, model: Any) -> anomaly.Alarm:
    """The level for flights that neither trained nor test; few of them allow no rare alarms."""
    held = source.observed[source.calibration], source.ahead[source.calibration]
    return anomaly.calibrate_alarm(surprise(model, *held), max(FALSE_ALARMS, 1.0 / len(held[0])))


def warnings_of(source: Source, model: Any) -> Warnings:
    """Calibrate the level on held-out flights; try it on test flights and on go-arounds."""

    def breaking(observed: np.ndarray, ahead: np.ndarray) -> float:
        rows = model.rows(observed)
        columns, scaling = model.posterior_.columns, model.posterior_.scaling
        flat = ahead.reshape(len(ahead), -1)
        scores = scores_of_values(source.rules, columns, scaling, rows, flat)
        worst = [score.min(axis=1) for score in scores if score is not None]
        return float(np.mean(np.min(worst, axis=0) < -TOLERANCE))

    alarm = alarm_of(source, model)
    test = source.observed[source.test], source.ahead[source.test]
    ordinary = surprise(model, *test)
    count, caught, area, strange_breaks = 0, None, None, None
    if source.strange is not None and len(source.strange.values):
        values = source.strange.values
        strange = values[:, : source.history], values[:, source.history :]
        found = surprise(model, *strange)
        count, caught = len(found), float(np.mean(alarm.warns(found)))
        area = anomaly.area_under_roc(alarm.score(ordinary), alarm.score(found))
        strange_breaks = breaking(*strange)
    return Warnings(
        source.name,
        alarm.false_alarms,
        float(np.mean(alarm.warns(ordinary))),
        alarm.level,
        alarm.calibrated_on,
        count,
        caught,
        area,
        breaking(*test),
        strange_breaks,
    )


def study(
    source: Source, sizes: Sequence[int | None], say: Callable[[str], None], **options: Any
) -> Iterator[tuple[Outcome, Outcome]]:
    """Without and with knowledge for each number of training flights (None: all)."""
    for size in sizes:
        pair = []
        for knowledge in (False, True):
            used = len(source.train[:size])
            say(f"{source.name}, {used} flights, {'with' if knowledge else 'without'} knowledge")
            pair.append(run(source, size, knowledge, **options))
        yield pair[0], pair[1]


def sizes_of(source: Source) -> list[int | None]:
    """The learning curve's numbers of flights that there are, and all."""
    return [size for size in CURVE if size < len(source.train)] + [None]


def as_records(found: Sequence[Cell | Obedience | Warnings]) -> list[dict[str, Any]]:
    """Plain records for a file."""
    return [asdict(record) for record in found]
