"""A minimal set of rules that cannot hold together with these data and this network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from prbnn.enforcement.strength_table import FIXED
from prbnn.errors import KnowledgeError
from prbnn.fitting.batch import train_many
from prbnn.fitting.fitted import FittedTask
from prbnn.fitting.outcome import contradictions
from prbnn.fitting.result import Solution
from prbnn.fitting.task import Task


def smallest_conflict(
    solution: Solution, *, steps: int | None = None, batch_size: int | None = None
) -> tuple[str, ...]:
    """Names of a minimal set of conflicting rules of an infeasible fit; () where all can hold.

    Rules that contradict each other whatever the data are found without training. For the others the
    fit is repeated without each rule in turn, all of these fits side by side; a rule without which the
    fit is still infeasible is left out for good, until no more can be. A fit that is merely slow counts
    as feasible, so one name too many is possible. Soft rules never make a fit infeasible, and stay in.

    - ``solution``: of `fit`, or the one that an `InfeasibleError` carries
    - ``steps``, ``batch_size``: of each repeated fit

    >>> from prbnn import AtLeast, AtMost, MLP, fit
    >>> rules = [AtLeast(1, name="high"), AtMost(0, name="low"), AtMost(9, name="other")]
    >>> smallest_conflict(fit(MLP(hidden=()), [[0.0], [1.0]], [0.2, 0.7], rules, steps=1))
    ('high', 'low')
    """
    fitted = solution.fitted
    if not isinstance(fitted, FittedTask):
        raise KnowledgeError(
            "smallest_conflict needs the solution of a fit; one read from a file cannot be fitted again"
        )
    task = fitted.task
    found = contradictions(task)
    if found:
        return min((clash.rules for clash in found), key=len)
    rules = [k for k, rule in enumerate(task.rules) if rule.strength.kind not in FIXED]

    def clash(sets: Sequence[Collection[int]]) -> list[bool]:
        """Which sets of rules are infeasible; always as many fits at a time, for one compiled program."""
        padded = [*sets, *[()] * (len(rules) + 1 - len(sets))]
        fits = train_many(
            [_only(task, chosen, rules) for chosen in padded],
            steps,
            task_seeds=[fitted.seed] * len(padded),
            batch_size=batch_size,
            draws=1,
        )
        return [fit.result.status == "infeasible" for fit in fits[: len(sets)]]

    return tuple(task.rules[k].label for k in _fewest(rules, clash))


def _fewest(
    rules: list[int], clash: Callable[[Sequence[Collection[int]]], list[bool]]
) -> list[int]:
    """Leave rules out until ``clash`` needs each rule that is left; none where all can hold together."""
    kept = list(rules)
    while kept:
        whole, *without = clash([kept, *([k for k in kept if k != left] for left in kept)])
        if not whole:
            return []
        if not any(without):
            break
        needed = [k for k, spare in zip(kept, without, strict=True) if not spare]
        if needed and clash([needed])[0]:
            return needed
        # several conflicts share the rules: one of them is enough
        kept.remove(kept[without.index(True)])
    return kept


def _only(task: Task, chosen: Collection[int], rules: Sequence[int]) -> Task:
    """The task with only ``chosen`` of ``rules`` active: the pressure of the others is 0."""
    active = np.array(task.enforcement.table.active)
    active[[k for k in rules if k not in chosen]] = 0.0
    enforcement = eqx.tree_at(lambda part: part.table.active, task.enforcement, jnp.asarray(active))
    return task._replace(enforcement=enforcement)
