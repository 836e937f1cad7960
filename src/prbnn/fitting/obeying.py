"""Draws that obey the hard rules: raw draws that are moved where they break one, or left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from prbnn.fitting.fitted import FittedTask
from prbnn.fitting.result import Moves, Solution
from prbnn.posterior import projection, readout
from prbnn.posterior.checks import Check
from prbnn.posterior.draws import Posterior
from prbnn.posterior.keeping import Keeping
from prbnn.posterior.projection import Projected
from prbnn.rules.base import Rule


class Obeying(NamedTuple):
    """Draws that obey, the fraction of the raw draws that they are, and how far they were moved.

    `moves` has one entry per rule, and is None where draws are not moved.
    """

    posterior: Posterior
    acceptance: float
    moves: list[Moves] | None = None


def projects(solution: Solution) -> bool:
    """Whether draws of a fit that break a hard rule are moved."""
    return isinstance(solution.fitted, FittedTask) and solution.fitted.task.projects


def obeying(
    solution: Solution,
    raw: Posterior,
    rules: Sequence[Rule],
    checked: Check | None = None,
    kept: Keeping | None = None,
) -> Obeying:
    """Those of ``raw`` draws of a solution that obey ``rules``, moved there where the fit projects.

    ``checked`` is what `Posterior.check` found of these rules, where that is known. ``kept`` is where
    draws are kept while they are moved.
    """
    fitted = solution.fitted
    if not (rules and len(raw) and isinstance(fitted, FittedTask) and projects(solution)):
        return Obeying(*raw.condition(rules, checked=checked))
    task = fitted.task
    precision = task.engine.prior_precision(task.problem, fitted.carry.engine)
    precision = np.asarray(precision, float)
    # a fit without data has rows that only say where rules are
    weight = task.weight if np.any(np.asarray(task.data.weight)) else 0 * task.weight
    project = projection.project if raw.columns.layout is None else readout.project
    found = project(raw, rules, precision, weight=weight, kept=kept)
    moved = found.posterior.take(found.obeys)
    return Obeying(moved, float(np.mean(found.obeys)), _moves(found, rules))


def _moves(found: Projected, rules: Sequence[Rule]) -> list[Moves]:
    """How many draws broke each rule, and how far these were moved."""
    moves = []
    for place, rule in enumerate(rules):
        there = found.broken[:, place]
        if not there.any():
            moves.append(Moves(rule.label, 0.0, 0.0, 0.0))
            continue
        moves.append(
            Moves(
                rule.label,
                float(np.mean(there)),
                float(np.median(found.distance[there])),
                float(np.median(np.max(found.change[there], axis=1))),
            )
        )
    return moves
