"""The landing study: what is seen of an approach, what comes next, with and without knowledge."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from prbnn import InfeasibleError
from prbnn.assessment import anomalies, metrics
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_at, scores_of_values
from prbnn.rules.strengths import Kind
from prbnn_studies.landing.sources import Source

CURVE = (50, 200, 1000)
FALSE_ALARMS = 0.01
TOLERANCE = 1e-6
# test flights at which drawn trajectories are evaluated
EVALUATED = 256


@dataclass(frozen=True)
class ErrorCell:
    """Errors of one variable over one scope, in min-max units; `_in_units` are its own."""

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
    """One rule on the test flights: steps at which the mean breaks it, and the fraction of drawn
    trajectories that break it."""

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

    cells: list[ErrorCell]
    rules: list[Obedience]
    model: Any
    seconds: float

    def cell(self, variable: str, scope: str) -> ErrorCell:
        """The errors of a variable, or "overall", in a scope."""
        return next(c for c in self.cells if (c.variable, c.scope) == (variable, scope))

    def overall(self, scope: str) -> ErrorCell:
        """The errors over all variables in a scope."""
        return self.cell("overall", scope)

    @property
    def violations_of_mean(self) -> int:
        """Steps at which the mean breaks a rule, summed over rules."""
        return sum(rule.violations_of_mean for rule in self.rules)

    @property
    def strengths(self) -> str:
        """How many of the rules it was fitted with are hard."""
        hard = sum(rule.strength.kind != Kind.SOFT for rule in self.model.knowledge)
        return f"{hard} hard" if hard else "all soft"


def fit(source: Source, flights: int | None, knowledge: bool, seed: int = 0, **options: Any) -> Any:
    """The default sequence model on the first ``flights`` training flights.

    With few flights the posterior may be so wide that the hard rules are infeasible or that too few
    draws obey them; then all rules are soft.
    """
    from prbnn import PRBNNSequenceRegressor  # imports scikit-learn, which the flights do not need

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


def _cells(source: Source, flights: int, knowledge: bool, model: Any) -> Iterator[ErrorCell]:
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
            yield ErrorCell(
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
    """Every rule of the source, whether or not the model was fitted with it."""
    posterior, rules = model.posterior_, source.rules
    rows = model.rows(source.observed[source.test])
    mean = posterior.predict(rows).mean
    scores = scores_of_values(rules, posterior.columns, posterior.scaling, rows, mean)
    bound = bind_at(rules, posterior.columns, posterior.scaling, rows[:EVALUATED])
    fractions = posterior.check(rules, bound).points.mean(axis=0)
    return [
        Obedience(
            source.name,
            flights,
            knowledge,
            rule.label,
            0 if score is None else int(np.sum(score < -TOLERANCE)),
            float(fraction),
        )
        for rule, score, fraction in zip(rules, scores, fractions, strict=True)
    ]


@dataclass(frozen=True)
class AlarmRates:
    """How well surprise separates go-arounds (`strange`) from landings, on flights not trained on.

    Rates of strange flights are None where the source has none.
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
    """-log predictive density of each observed step ahead, (flights, steps)."""
    return anomalies.surprise(model.posterior_, model.rows(observed), ahead.reshape(len(ahead), -1))


def alarm_of(source: Source, model: Any) -> anomalies.Alarm:
    """The alarm level from calibration flights; its rate is at least 1 / their number."""
    held = source.observed[source.calibration], source.ahead[source.calibration]
    return anomalies.calibrate_alarm(surprise(model, *held), max(FALSE_ALARMS, 1.0 / len(held[0])))


def alarm_rates(source: Source, model: Any) -> AlarmRates:
    """Calibrate the level on held-out flights, then evaluate it on test flights and go-arounds."""

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
        area = anomalies.area_under_roc(alarm.score(ordinary), alarm.score(found))
        strange_breaks = breaking(*strange)
    return AlarmRates(
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
    """The learning curve's numbers of flights below the number of training flights, and all."""
    return [size for size in CURVE if size < len(source.train)] + [None]


def summary(
    pairs: Sequence[tuple[Outcome, Outcome]], rates: AlarmRates | None = None
) -> dict[str, Any]:
    """Results of a record: overall errors by number of training flights, and rates of alarms."""
    sizes = {}
    for plain, known in pairs:
        sizes[str(plain.cells[0].flights)] = {
            "strengths": known.strengths,
            "without": _overall(plain),
            "with": _overall(known),
            "change": {
                scope: {
                    name: getattr(known.overall(scope), name) / getattr(plain.overall(scope), name)
                    - 1
                    for name in ("mse", "std", "crps")
                }
                for scope in ("sequence", "last")
            },
        }
    return {"by_flights": sizes, "warnings": None if rates is None else asdict(rates)}


def _overall(outcome: Outcome) -> dict[str, Any]:
    names = ("mse", "std", "crps", "coverage90")
    found: dict[str, Any] = {
        scope: {name: getattr(outcome.overall(scope), name) for name in names}
        for scope in ("sequence", "last")
    }
    return found | {"violations_of_mean": outcome.violations_of_mean}
