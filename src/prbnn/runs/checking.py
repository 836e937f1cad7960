"""Stored draws against the rules at fresh points, worst case over all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from prbnn.enforcement.measure import CHECK_TOLERANCE
from prbnn.knowledge.strengths import Hard

# apart from the seeds of training and of the checks that decide which draws are stored
FRESH_SEED = 1009


class Checked(NamedTuple):
    """One rule: how many stored draws break it anywhere, and by how much at worst (user's units)."""

    rule: str
    draws: int
    broken: int
    worst: float
    points: int
    verdict: str
    for_every_draw: bool


def check(model: Any) -> list[Checked]:
    """Every stored draw at every fresh point of every rule's region."""
    posterior, rules = model.posterior_, list(model.solution_.rules)
    if not rules:
        return []
    bound = posterior.bind(rules, seed=FRESH_SEED)
    found = posterior.check(rules, bound)
    broken = found.broken(CHECK_TOLERANCE).sum(axis=0)
    worst = np.maximum(0.0, -found.worst.min(axis=0)) * bound.units
    points = max(group.points.shape[0] for group in bound.groups)
    return [
        Checked(
            rule.label,
            len(posterior),
            int(count),
            float(depth),
            points,
            _verdict(rule.strength == Hard(), int(count), len(posterior)),
            rule.strength == Hard(),
        )
        for rule, count, depth in zip(rules, broken, worst, strict=True)
    ]


def _verdict(every: bool, broken: int, draws: int) -> str:
    if not broken:
        return "no draw breaks it"
    share = f"{broken / draws:.1%} of draws break it"
    return f"{share}, though it is for every draw" if every else share
