"""Every number of a report, computed once from its subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prbnn.assessment.scores import (
    ClassScores,
    RegressionScores,
    class_scores,
    regression_scores,
)
from prbnn.errors import KnowledgeError
from prbnn.posterior.draws import Posterior
from prbnn.report.profiles import BAND, Profile, path, profile, typical_row
from prbnn.report.subject import Subject
from prbnn.rules.base import Rule
from prbnn.rules.regions import in_region
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import ROW_TOLERANCE, breaks, lowest

WORST_ROWS = 8
# draws of the plain network that are checked against the rules
PLAIN_DRAWS = 256


@dataclass(frozen=True)
class PlainRule:
    """How far a plain network, fitted without rules, breaks one of them.

    `broken` is the fraction of its draws that break the rule anywhere, `points_broken_by_mean` the number
    of points where its mean prediction does.
    """

    broken: float
    points_broken_by_mean: int


@dataclass(frozen=True, eq=False)
class WorstRow:
    """A row of low predictive density.

    - `place`: its position in the subject's table
    - `excess`: its surprise, minus the log density, above that of the median row, in nats
    - `mean`, `low`, `high`: the prediction there and its 90 % band, one entry per output
    - `broken`: names of the rules that the row breaks as observed
    """

    place: int
    excess: float
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    broken: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Findings:
    """The numbers of a report.

    - `scores`, `plain_scores`: of the model, and of the plain network if there is one
    - `plain_rules`: one entry per rule; empty without a plain network
    - `profiles`: predictions along each input, the input that moves the mean most first
    - `plain_profile`: the plain network along the first of these inputs
    - `typical`: the row at which the other inputs are held
    - `predicted`: mean predictions (rows, outputs) of the held-out rows
    - `rows_breaking`: per rule, how many observed rows break it and how many are in its region; None
      where a single row cannot break it
    - `worst`: the rows of lowest predictive density
    """

    scores: RegressionScores | ClassScores
    plain_scores: RegressionScores | ClassScores | None
    plain_rules: tuple[PlainRule, ...]
    profiles: tuple[Profile, ...]
    plain_profile: Profile | None
    typical: np.ndarray
    predicted: np.ndarray
    rows_breaking: tuple[tuple[int, int] | None, ...]
    worst: tuple[WorstRow, ...]


def findings_of(subject: Subject) -> Findings:
    """Compute every number of the report on a subject."""
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
        predicted=posterior.predict(subject.inputs[subject.scored_rows]).mean,
        rows_breaking=tuple(
            None if found is None else (int(found[0].sum()), int(found[1].sum()))
            for found in broken
        ),
        worst=_worst_rows(subject, broken),
    )


def scores_of(subject: Subject, model: Any) -> RegressionScores | ClassScores:
    """The scores of the subject's model, or of the plain one, on the held-out rows."""
    rows, truth = subject.inputs[subject.scored_rows], subject.numbers[subject.scored_rows]
    posterior = model.posterior_
    if subject.classes is not None:
        return class_scores(posterior.predict(rows).mean, truth)
    return regression_scores(posterior, rows, truth)


def plain_rules(rules: list[Rule], posterior: Posterior) -> tuple[PlainRule, ...]:
    """Check every rule against the draws of a network that was fitted without rules."""
    if not rules:
        return ()
    posterior = posterior.take(np.arange(min(PLAIN_DRAWS, len(posterior))))
    broken = np.mean(posterior.check(rules).broken(), axis=0)
    of_mean = posterior.breaks_of_mean(rules, posterior.points_for_mean(1024))
    return tuple(
        PlainRule(float(part), int(points)) for part, points in zip(broken, of_mean, strict=True)
    )


def rows_breaking(subject: Subject) -> list[tuple[np.ndarray, np.ndarray] | None]:
    """For every rule: which rows break it as observed, and which rows are in its region.

    Both are masks over ``subject.looked_at``. None for rules on shapes, comparisons and probabilities,
    which no single row can break.
    """
    posterior = subject.posterior
    if subject.classes is not None:
        return [None] * len(subject.rules)
    rows, values = subject.inputs[subject.looked_at], subject.numbers[subject.looked_at]
    found = []
    for rule in subject.rules:
        # a bound need not be finite outside its region, so only the rows inside are scored
        held = in_region(rule.region, posterior.columns, rows, beyond=True)
        score = _observed(rule, posterior, rows[held], values[held]) if np.any(held) else None
        if score is None:
            found.append(None)
            continue
        broken = np.zeros(len(rows), bool)
        broken[held] = breaks(lowest(score, axis=1), ROW_TOLERANCE)
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
