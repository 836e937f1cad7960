"""All rules of a problem on their points: rules with the same region share points and passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.data.columns import Columns
from prbnn.rules.base import Rule, naming
from prbnn.rules.regions import Sampling, sample
from prbnn.rules.scoring.biting import check_bites
from prbnn.rules.scoring.bound import BoundRule
from prbnn.rules.scoring.drawn import Drawn, Frame, frame_of
from prbnn.rules.scoring.families import (
    Family,
    Group,
    Scored,
    families_of,
    points_each,
    scores_of_family,
    weights_of,
)
from prbnn.rules.strengths import Kind
from prbnn.system.process import computing

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling

# a pool of more points than this is large
DENSE = 16_384


class BoundKnowledge(eqx.Module):
    """Every rule with its numbers at a fixed pool of points, in the order the user gave them.

    ``asked`` is how many points of each region were requested; where there are many regions, their
    pools hold fewer (see `points_each`).
    """

    groups: tuple[Group, ...]
    frame: Frame
    kinds: tuple[Kind, ...] = eqx.field(static=True)
    families: tuple[Family, ...] = ()
    asked: int = eqx.field(static=True, default=0)

    @property
    def count(self) -> int:
        """How many rules there are."""
        return len(self.kinds)

    @property
    def regions(self) -> int:
        """How many pools of points there are: rules with the same region share one."""
        return len(self.groups) + sum(family.points.shape[0] for family in self.families)

    @property
    def pool(self) -> int:
        """How many points each pool holds."""
        if self.groups:
            return self.groups[0].points.shape[0]
        return self.families[0].points.shape[1]

    @property
    def pools(self) -> list[Float[Array, "points inputs"]]:
        """The points of each region, in network units."""
        stacked = [points for family in self.families for points in family.points]
        return [*(group.points for group in self.groups), *stacked]

    @property
    def members(self) -> list[tuple[int, ...]]:
        """The positions of the rules of each region, in the order of `pools`."""
        found = [group.places for group in self.groups]
        for family in self.families:
            for group in range(family.points.shape[0]):
                found.append(tuple(place for form in family.places for place in form[group]))
        return found

    def has_worst(self, place: int) -> bool:
        """Whether a rule is evaluated at its worst points, too: one that is hard without a tolerance.

        Other rules are about a mean over the region, which chosen points would bias.
        """
        return self.kinds[place] == Kind.HARD

    def rule(self, place: int) -> BoundRule:
        """The bound rule at a position of the user's list."""
        for group in self.groups:
            if place in group.places:
                return group.rules[group.places.index(place)]
        for family in self.families:
            for form, groups in enumerate(family.places):
                for number, places in enumerate(groups):
                    if place in places:
                        return family.rule(form, number, places.index(place))
        raise IndexError(f"no rule at position {place}")

    @property
    def units(self) -> np.ndarray:
        """One unit per rule: a score times its unit is in the user's units."""
        units = np.zeros(self.count)
        for group in self.groups:
            units[list(group.places)] = [float(rule.unit) for rule in group.rules]
        for family in self.families:
            for rules, places in zip(family.rules, family.places, strict=True):
                units[np.array(places)] = np.asarray(rules.unit)
        return units

    def scores(
        self,
        network: Callable[[Array], Array],
        start: Array | int = 0,
        width: int | None = None,
        worst: Int[Array, "groups worst"] | None = None,
    ) -> list[Float[Array, "points components"]]:
        """Scores of one drawn function, less each rule's margin, one array per rule; see `scored`."""
        results: list[Array | None] = [None] * self.count
        for block in self.scored(network, start, width, worst):
            for number, place in enumerate(block.places):
                results[place] = block.score[number]
        return [score for score in results if score is not None]

    def scored(
        self,
        network: Callable[[Array], Array],
        start: Array | int = 0,
        width: int | None = None,
        worst: Int[Array, "groups worst"] | None = None,
    ) -> list[Scored]:
        """Scores of one drawn function, less each rule's margin, by form of the rules.

        ``width`` points are used, from position ``start`` of each pool; None is the whole pool. Where the
        ``worst`` are given, they are the last of those points, for rules that are evaluated there.
        """
        found: list[Scored] = []
        width = width or self.pool

        def fresh(places: Iterable[int]) -> tuple[int, Array | None]:
            """How many points of a group come from its pool, and the worst where it has some."""
            if worst is None or not any(map(self.has_worst, places)):
                return min(width, self.pool), None
            return min(width - worst.shape[1], self.pool), worst

        def choose(pool: Any, size: int, known: Array | None) -> Any:
            if known is None and size == self.pool:
                return pool

            def block(a: Array) -> Array:
                part = jax.lax.dynamic_slice_in_dim(a, start, size)
                return part if known is None else jnp.concatenate([part, a[known]])

            return jax.tree.map(block, pool)

        for number, group in enumerate(self.groups):
            size, known = fresh(group.places)
            knowns = tuple(rule.known for rule in group.rules)
            points = choose((group.points, knowns), size, None if known is None else known[number])

            def at_point(x, knowns, rules=group.rules):
                function = Drawn(network, self.frame)
                return tuple(
                    jnp.atleast_1d(rule.score(function, x, known) - rule.margin)
                    for rule, known in zip(rules, knowns, strict=True)
                )

            scores = jax.vmap(at_point)(*points)
            for place, rule, score in zip(group.places, group.rules, scores, strict=True):
                kept = score if self.has_worst(place) else score[:size]
                weights = rule.component_weights
                found.append(
                    Scored(
                        (place,),
                        self.kinds[place],
                        kept[None],
                        None if weights is None else weights[None],
                    )
                )
        begin = len(self.groups)
        for family in self.families:
            members = tuple(place for form in family.places for place in form[0])
            (size, known), end = fresh(members), begin + family.points.shape[0]
            scores = scores_of_family(
                family,
                network,
                self.frame,
                lambda pool, known, size=size: choose(pool, size, known),
                None if known is None else known[begin:end],
                width,
            )
            begin = end
            for rules, form, score in zip(family.rules, family.places, scores, strict=True):
                places = tuple(place for group in form for place in group)
                kept = score if self.has_worst(places[0]) else score[:, :size]
                found.append(Scored(places, self.kinds[places[0]], kept, weights_of(rules)))
        return found


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
    edges: bool = False,
    most: float = 0.5,
) -> BoundKnowledge:
    """Bind every rule at ``count`` points of its region (fewer where regions are many).

    Errors name the rule.
    ``margins=False`` leaves the safety margins out, for checking what the rules themselves say.
    ``further`` are points (user's units) by position of a rule that take the places of others in its
    pool, spread over it, so that every block of the pool has some of them, and are no more than the
    fraction ``most`` of it. ``exact`` are the names of rules that hold without a tolerance, by
    construction: their limits may be arbitrarily close together.
    ``edges`` is that of `prbnn.rules.regions.sample`.
    """
    computing()
    regions, pools = regions_of(rules, columns), {}
    asked, count = count, points_each(count, len(regions), len(rules))
    for region, places in regions.items():
        with naming(rules[places[0]]):
            points = sample(region, columns, count, seed, edges=edges)
        joining = [further[place] for place in places if further and place in further]
        if joining:
            # as often in a block of a large pool as in one of a small pool
            found = np.tile(np.concatenate(joining), (max(1, count // DENSE), 1))
            found = found[: int(count * most)]
            points[(np.arange(len(found)) * count) // len(found)] = found
        pools[region] = points
    return bind_pools(rules, columns, scaling, pools, margins=margins, exact=exact, asked=asked)


def regions_of(rules: Sequence[Rule], columns: Columns) -> dict[Sampling, list[int]]:
    """The regions of ``rules``, each with the positions of those that share it."""
    shared: dict[Sampling, list[int]] = {}
    for place, rule in enumerate(rules):
        with naming(rule):
            shared.setdefault(rule.sampling(columns).shared(columns), []).append(place)
    return shared


def bind_pools(
    rules: Sequence[Rule],
    columns: Columns,
    scaling: Scaling,
    pools: Mapping[Sampling, np.ndarray],
    *,
    margins: bool = True,
    exact: frozenset[str] = frozenset(),
    asked: int = 0,
) -> BoundKnowledge:
    """Bind every rule at given points (the user's units) of its region.

    ``pools`` are as many points for each of `regions_of` the rules. The other arguments are those of
    `bind_all`.
    """
    computing()
    groups = []
    kinds = tuple(rule.strength.kind for rule in rules)
    for region, places in regions_of(rules, columns).items():
        bound = [rules[place].bind(columns, scaling, pools[region]) for place in places]
        for place, one in zip(places, bound, strict=True):
            if rules[place].label not in exact:
                check_bites(rules[place], one, columns, scaling)
        if not margins:
            bound = [rule.without_margin() for rule in bound]
        inputs = jnp.asarray(scaling.inputs(pools[region]), float)
        groups.append(Group(inputs, tuple(bound), tuple(places)))
    single, families = families_of(groups, kinds)
    return BoundKnowledge(single, frame_of(columns, scaling), kinds, families, asked)


def bind_at(
    rules: Sequence[Rule], columns: Columns, scaling: Scaling, points: np.ndarray
) -> BoundKnowledge:
    """Every rule at the same given points (the user's units), without margins."""
    computing()
    bound = tuple(rule.bind(columns, scaling, points).without_margin() for rule in rules)
    group = Group(jnp.asarray(scaling.inputs(points), float), bound, tuple(range(len(rules))))
    kinds = tuple(rule.strength.kind for rule in rules)
    return BoundKnowledge((group,), frame_of(columns, scaling), kinds, asked=len(points))


def scores_of_values(
    rules: Sequence[Rule],
    columns: Columns,
    scaling: Scaling,
    points: np.ndarray,
    values: np.ndarray,
) -> list[np.ndarray | None]:
    """Scores of given outputs at given points: one array (points, components) per rule.

    Scores are >= 0 where the rule holds and in its unit, for observed rows and for mean predictions. None
    stands for rules on slopes and comparisons, which need a function and not its values alone.
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
