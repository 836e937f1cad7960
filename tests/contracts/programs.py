"""Cases bound to data, and the programs that score and measure them, compiled once per shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling, ScalingKind
from prbnn.enforcement.measure import Measured, measure
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import BoundKnowledge, Group, bind_all
from prbnn.rules.scoring.drawn import frame_of
from tests.contracts.cases import Case
from tests.contracts.surfaces import POINTS, Surface, scaled, surface, table

TRACES: list[str] = []


@eqx.filter_jit
def compiled_scores(knowledge: BoundKnowledge, network: Surface) -> list[jax.Array]:
    TRACES.append("scores")
    return knowledge.scores(network)


@eqx.filter_jit
def compiled_measure(knowledge: BoundKnowledge, network: Surface, softness: float) -> Measured:
    return measure(knowledge, network, softness=softness)


def total_violation(network: Callable, knowledge: BoundKnowledge) -> jax.Array:
    return sum(jnp.mean(jnp.minimum(score, 0)) for score in knowledge.scores(network))


@eqx.filter_jit
def scores_and_gradients_of_draws(
    knowledge: BoundKnowledge, network: Surface, weights: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    def one_draw(weights: jax.Array):
        drawn = eqx.tree_at(lambda network: network.weights, network, weights)
        return knowledge.scores(drawn), eqx.filter_grad(total_violation)(drawn, knowledge).weights

    return jax.vmap(one_draw)(weights)


def bound(case: Case, kind: ScalingKind = "standard", **changes: Any) -> BoundKnowledge:
    columns = table(case.outputs)
    return bind_all([replace(case.rule, **changes)], columns, scaled(columns, kind), POINTS)


def network_of(case: Case, weights: Any, kind: ScalingKind = "standard") -> Surface:
    return surface(weights, scaled(table(case.outputs), kind))


def bound_at(rule: Rule, columns: Columns, scaling: Scaling, rows: np.ndarray) -> BoundKnowledge:
    """The rule at rows of one's own choice, instead of points sampled from its region."""
    group = Group(
        jnp.asarray(scaling.inputs(rows), float), (rule.bind(columns, scaling, rows),), (0,)
    )
    return BoundKnowledge((group,), frame_of(columns, scaling), (rule.strength.kind,))
