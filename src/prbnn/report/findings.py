"""Everything that a report says, as numbers: computed once from a subject, before any words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prbnn.assessment import metrics
from prbnn.assessment.calibration import Ranks, Reliability, ranks, reliability
from prbnn.enforcement.measure import CHECK_TOLERANCE
from prbnn.errors import KnowledgeError
from prbnn.posterior.draws import Posterior
from prbnn.report.profiles import BAND, Profile, path, profile, typical_row
from prbnn.report.subject import Subject
from prbnn.rules.base import Rule
from prbnn.rules.regions import in_region
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import breaks, lowest

WORST_ROWS = 8
# draws of the plain network that are tried against the rules
PLAIN_DRAWS = 256


@dataclass(frozen=True, eq=False)
class Scores:
    """One regression model on the rows that judge; arrays have one entry an output."""

    rmse: np.ndarray
    crps: np.ndarray
    log_density: float
    deviation: np.ndarray
    epistemic: np.ndarray
    ranks: Ranks


@dataclass(frozen=True, eq=False)
class ClassScores:
    """One classifier on the rows that judge.

    `reliability` is of the one probability of two classes, or of the most probable class of several.
    """

    accuracy: float
    log_loss: float
    reliability: Reliability


@dataclass(frozen=True)
class PlainRule:
    """How the plain network stands to a rule that it was not told."""

    violation: float
    share: float
    points_broken_by_mean: int
    points: int


@dataclass(frozen=True, eq=False)
class WorstRow:
    """A row that the model did not expect; `excess` is surprise above the median row's, in nats."""

    place: int
    excess: float
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    broken: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Findings:
    """What was measured; profiles are in the order of how much they matter."""

    scores: Scores | ClassScores
    plain_scores: Scores | ClassScores | None
    plain_rules: tuple[PlainRule, ...]
    profiles: tuple[Profile, ...]
    plain_profile: Profile | None
    typical: np.ndarray
    predicted: np.ndarray
    rows_breaking: tuple[tuple[int, int] | None, ...]
    worst: tuple[WorstRow, ...]


def findings_of(subject: Subject) -> Findings:
    """Measure a subject: scores, profiles, rules against the plain network and rows, surprises."""
    posterior, plain = subject.posterior, subject.plain
    columns = posterior.columns
    numbers = subject.classes is None
    ways = [
        profile(posterior, path(columns, subject.rules, k), k, intervals=numbers)
        for k in range(len(columns.inputs))
    ]
    size = np.maximum(np.std(columns.targets, axis=0), np.finfo(float).tiny)
    ways.sort(key=lambda way: -float(np.max(way.spread / size)))
    broken = rows_breaking(subject)
    return Findings(
        scores=scores_of(subject, subject.model),
        plain_scores=None if plain is None else scores_of(subject, plain),
        plain_rules=() if plain is None else plain_rules(subject.rules, plain.posterior_),
        profiles=tuple(ways),
        plain_profile=None
        if plain is None
        else profile(plain.posterior_, ways[0].values, ways[0].column, intervals=numbers),
        typical=typical_row(columns),
        predicted=posterior.predict(subject.inputs[subject.judges]).mean,
        rows_breaking=tuple(
            None if found is None else (int(found[0].sum()), int(found[1].sum()))
            for found in broken
        ),
        worst=_worst_rows(subject, broken),
    )


def scores_of(subject: Subject, model: Any) -> Scores | ClassScores:
    """Score a model on the rows that judge."""
    rows, truth = subject.inputs[subject.judges], subject.numbers[subject.judges]
    posterior = model.posterior_
    if subject.classes is not None:
        return _class_scores(posterior.predict(rows).mean, truth)
    prediction = posterior.predict(rows)
    samples = posterior.samples(rows)
    outputs = range(truth.shape[1])
    return Scores(
        rmse=np.array([metrics.rmse(truth[:, k], prediction.mean[:, k]) for k in outputs]),
        crps=np.array([metrics.crps(truth[:, k], samples[:, :, k]) for k in outputs]),
        log_density=float(np.mean(posterior.log_density(rows, truth))),
        deviation=prediction.total.mean(axis=0),
        epistemic=prediction.epistemic.mean(axis=0),
        ranks=ranks(posterior, rows, truth),
    )


def _class_scores(probability: np.ndarray, truth: np.ndarray) -> ClassScores:
    if truth.shape[1] == 1:
        found = reliability(probability[:, 0], truth[:, 0])
        probability, truth = (np.hstack([1 - part, part]) for part in (probability, truth))
    else:
        probability = probability / probability.sum(axis=1, keepdims=True)
        top = np.argmax(probability, axis=1)
        rows = np.arange(len(top))
        found = reliability(probability[rows, top], truth[rows, top])
    return ClassScores(
        metrics.accuracy(truth, probability), metrics.log_loss(truth, probability), found
    )


def plain_rules(rules: list[Rule], posterior: Posterior) -> tuple[PlainRule, ...]:
    """Try a network that was not told the rules against every one of them."""
    if not rules:
        return ()
    posterior = posterior.take(np.arange(min(PLAIN_DRAWS, len(posterior))))
    check, units = posterior.check(rules), posterior.bind(rules, 8).units
    points = posterior.points_for_mean(1024)
    breaks = posterior.breaks_of_mean(rules, points)
    return tuple(
        PlainRule(
            violation=float(-np.mean(check.f[:, k]) * units[k]) + 0.0,
            share=float(np.mean(check.broken()[:, k])),
            points_broken_by_mean=int(breaks[k]),
            points=points,
        )
        for k in range(len(rules))
    )


def rows_breaking(subject: Subject) -> list[tuple[np.ndarray, np.ndarray] | None]:
    """For every rule: which of the rows looked at break it as observed, and which it speaks of.

    None for rules on shapes and comparisons, and on probabilities: no single row can break those.
    """
    posterior = subject.posterior
    if subject.classes is not None:
        return [None] * len(subject.rules)
    rows, values = subject.inputs[subject.looked_at], subject.numbers[subject.looked_at]
    found = []
    for rule in subject.rules:
        # a bound need not be finite outside its region, so only rows within are asked
        held = in_region(rule.region, posterior.columns, rows, beyond=True)
        score = _observed(rule, posterior, rows[held], values[held]) if np.any(held) else None
        if score is None:
            found.append(None)
            continue
        broken = np.zeros(len(rows), bool)
        broken[held] = breaks(lowest(score, axis=1), CHECK_TOLERANCE)
        found.append((broken, held))
    return found


def _observed(
    rule: Rule, posterior: Posterior, rows: np.ndarray, values: np.ndarray
) -> np.ndarray | None:
    """Scores of observed rows; None where the rule, or its bound at one of them, has no value."""
    try:
        (score,) = scores_of_values([rule], posterior.columns, posterior.scaling, rows, values)
    except KnowledgeError:
        return None
    return score


def _worst_rows(
    subject: Subject, broken: list[tuple[np.ndarray, np.ndarray] | None]
) -> tuple[WorstRow, ...]:
    places = subject.looked_at
    rows, values = subject.inputs[places], subject.numbers[places]
    posterior = subject.posterior
    surprise = -posterior.log_density(rows, values)
    order = np.argsort(-surprise, kind="stable")[:WORST_ROWS]
    mean = posterior.predict(rows[order]).mean
    ends = ((1 - BAND) / 2, (1 + BAND) / 2)
    if subject.classes is None:
        low, high = posterior.quantiles(rows[order], ends)
    else:
        low, high = np.quantile(posterior.functions(rows[order]), ends, axis=0)
    return tuple(
        WorstRow(
            place=int(places[row]),
            excess=float(surprise[row] - np.median(surprise)),
            mean=mean[k],
            low=low[k],
            high=high[k],
            broken=tuple(
                rule.label
                for rule, found in zip(subject.rules, broken, strict=True)
                if found is not None and found[0][row]
            ),
        )
        for k, row in enumerate(order)
    )
