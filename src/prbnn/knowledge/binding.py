"""All rules of a problem on their points: rules with the same region share points and passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.errors import KnowledgeError
from prbnn.knowledge.biting import check_bites
from prbnn.knowledge.drawn import Drawn, Frame, frame_of
from prbnn.knowledge.regions import Columns, Sampling, sample
from prbnn.knowledge.rules import Rule
from prbnn.knowledge.scoring import BoundRule
from prbnn.knowledge.strengths import Kind

if TYPE_CHECKING:
    from prbnn.model.scaling import Scaling

# a pool of more points than this is large
DENSE = 16_384


class Group(eqx.Module):
    """Rules that are scored at the same points; ``places`` are their positions in the list."""

    points: Float[Array, "points inputs"]
    rules: tuple[BoundRule, ...]
    places: tuple[int, ...] = eqx.field(static=True)


class BoundKnowledge(eqx.Module):
    """Every rule with its numbers at a fixed pool of points, in the order the user gave them."""

    groups: tuple[Group, ...]
    frame: Frame
    kinds: tuple[Kind, ...] = eqx.field(static=True)

    @property
    def count(self) -> int:
        """How many rules there are."""
        return len(self.kinds)

    def has_worst(self, place: int) -> bool:
        """Whether a rule is tried at its worst points, too: one that is hard without a tolerance.

        Of other rules a mean over the region is meant, which points that are chosen would bias.
        """
        return self.kinds[place] == "share"

    def rule(self, place: int) -> BoundRule:
        """The bound rule at a position of the user's list."""
        return next(
            rule
            for group in self.groups
            for rule, where in zip(group.rules, group.places, strict=True)
            if where == place
        )

    @property
    def units(self) -> np.ndarray:
        """One unit a rule: multiply a score by it to have the user's units."""
        return np.array([float(self.rule(place).unit) for place in range(self.count)])

    def scores(
        self,
        network: Callable[[Array], Array],
        start: Array | int = 0,
        width: int | None = None,
        worst: Int[Array, "groups worst"] | None = None,
    ) -> list[Float[Array, "points components"]]:
        """Scores of one drawn function, less each rule's margin, one array a rule.

        ``width`` points are used, from position ``start`` of each pool; None is the whole pool. Where the
        ``worst`` are given, they are the last of those points, for rules that are tried there.
        """
        results: list[Array | None] = [None] * self.count
        for number, group in enumerate(self.groups):
            knowns = tuple(rule.known for rule in group.rules)
            points = (group.points, knowns)
            size = width or len(group.points)
            chosen: list[Array] = []
            if worst is not None and any(self.has_worst(place) for place in group.places):
                chosen, size = [worst[number]], size - worst.shape[1]
            if chosen or size < len(group.points):

                def block(a, size=size, chosen=chosen):
                    part = jax.lax.dynamic_slice_in_dim(a, start, size)
                    return jnp.concatenate([part, *(a[at] for at in chosen)])

                points = jax.tree.map(block, points)

            def at_point(x, knowns, rules=group.rules):
                function = Drawn(network, self.frame)
                return tuple(
                    jnp.atleast_1d(rule.score(function, x, known) - rule.margin)
                    for rule, known in zip(rules, knowns, strict=True)
                )

            for place, score in zip(group.places, jax.vmap(at_point)(*points), strict=True):
                results[place] = score if self.has_worst(place) else score[:size]
        return [score for score in results if score is not None]


def bind_all(
    rules: Sequence[Rule],
    columns: Columns,
    scaling: Scaling,
    count: int,
    *,
    margins: bool = True,
    seed: int = 0,
    further: Mapping[int, np.ndarray] | None = None,
    exact: frozenset[str] = frozenset(),
) -> BoundKnowledge:
    """Bind every rule at ``count`` points of its region; errors name the rule.

    ``margins=False`` leaves the safety margins out, for checking what the rules themselves say.
    ``further`` are points (user's units) by position of a rule that take the places of others in its
    pool, spread over it, so that every block of the pool has its share. ``exact`` are the names of rules
    that hold without a tolerance, by construction: any of them bites.
    """
    shared: dict[Sampling, list[int]] = {}
    for place, rule in enumerate(rules):
        try:
            shared.setdefault(rule.sampling(columns).shared(columns), []).append(place)
        except KnowledgeError as error:
            raise KnowledgeError(f"rule {rule.label!r}: {error}") from None
    groups = []
    for sampling, places in shared.items():
        try:
            points = sample(sampling, columns, count, seed)
        except KnowledgeError as error:
            raise KnowledgeError(f"rule {rules[places[0]].label!r}: {error}") from None
        joining = [further[place] for place in places if further and place in further]
        if joining:
            # as often in a block of a large pool as in one of a small pool
            found = np.tile(np.concatenate(joining), (max(1, count // DENSE), 1))[: count // 2]
            points[(np.arange(len(found)) * count) // len(found)] = found
        bound = [rules[place].bind(columns, scaling, points) for place in places]
        for place, one in zip(places, bound, strict=True):
            if rules[place].label not in exact:
                check_bites(rules[place], one, columns, scaling)
        if not margins:
            bound = [rule.without_margin() for rule in bound]
        groups.append(
            Group(jnp.asarray(scaling.inputs(points), float), tuple(bound), tuple(places))
        )
    return BoundKnowledge(
        tuple(groups), frame_of(columns, scaling), tuple(rule.strength.kind for rule in rules)
    )


def bind_at(
    rules: Sequence[Rule], columns: Columns, scaling: Scaling, points: np.ndarray
) -> BoundKnowledge:
    """Every rule at the same given points (the user's units), without margins."""
    bound = tuple(rule.bind(columns, scaling, points).without_margin() for rule in rules)
    group = Group(jnp.asarray(scaling.inputs(points), float), bound, tuple(range(len(rules))))
    kinds = tuple(rule.strength.kind for rule in rules)
    return BoundKnowledge((group,), frame_of(columns, scaling), kinds)


def scores_of_values(
    rules: Sequence[Rule],
    columns: Columns,
    scaling: Scaling,
    points: np.ndarray,
    values: np.ndarray,
) -> list[np.ndarray | None]:
    """How given outputs at given points stand to each rule: (points, components), >= 0 where it holds.

    In the rule's unit. For rows that were observed and for mean predictions; None for rules on slopes
    and comparisons, which speak of a function and not of its values.
    """
    knowledge = bind_at(rules, columns, scaling, points)
    found = iter(_of_values(knowledge, jnp.asarray(scaling.outputs(values), float)))
    bound = knowledge.groups[0].rules
    return [np.asarray(next(found)) if rule.of_values else None for rule in bound]


@eqx.filter_jit
def _of_values(knowledge: BoundKnowledge, values: Array) -> tuple[Array, ...]:
    (group,) = knowledge.groups

    def at_point(x: Array, y: Array, knowns: tuple) -> tuple[Array, ...]:
        function = Drawn(lambda _: y, knowledge.frame)
        return tuple(
            jnp.atleast_1d(rule.score(function, x, known))
            for rule, known in zip(group.rules, knowns, strict=True)
            if rule.of_values
        )

    knowns = tuple(rule.known for rule in group.rules)
    return jax.vmap(at_point)(group.points, values, knowns)
