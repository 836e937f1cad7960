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
from prbnn.posterior.projection import Projected
from prbnn.rules.base import Rule

# dense checks after projection; draws that one finds broken are moved again, after the last rejected
ROUNDS = 3
# seeds of the points of one round and of the next: those between are used by a round's passes
APART = 100


class Obeying(NamedTuple):
    """Draws that obey, the fraction of the raw draws that they are, and how far they were moved.

    `moves` has one entry per rule, of the first projection, and is None where draws are not moved.
    """

    posterior: Posterior
    acceptance: float
    moves: list[Moves] | None = None


def obeying(
    solution: Solution, raw: Posterior, rules: Sequence[Rule], checked: Check | None = None
) -> Obeying:
    """Those of ``raw`` draws of a solution that obey ``rules``, moved there where the fit projects.

    ``checked`` is what `Posterior.check` found of these rules, where that is known.
    """
    fitted = solution.fitted
    if not rules or not len(raw) or not (isinstance(fitted, FittedTask) and fitted.task.projects):
        return Obeying(*raw.condition(rules, checked=checked))
    task = fitted.task
    precision = task.tempering / np.asarray(task.problem.prior_sd, float) ** 2
    # a fit without data has rows that only say where rules are
    weight = task.weight if np.any(np.asarray(task.data.weight)) else 0 * task.weight
    project = projection.project if raw.columns.layout is None else readout.project
    found = project(raw, rules, precision, weight=weight)
    obeys = found.obeys.copy()
    posterior = found.posterior
    for number in range(ROUNDS):
        kept = np.flatnonzero(obeys)
        broken = kept[~posterior.take(kept).check(rules).obeys()]
        obeys[broken] = False
        if not len(broken) or number == ROUNDS - 1:
            break
        again = project(
            posterior.take(broken), rules, precision, weight=weight, seed=1 + APART * (number + 1)
        )
        draws = np.array(posterior.draws)
        draws[broken] = again.posterior.draws
        posterior = raw.with_draws(draws)
        obeys[broken] = again.obeys
    moves = _moves(found, rules)
    return Obeying(posterior.take(obeys), float(np.mean(obeys)), moves)


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
