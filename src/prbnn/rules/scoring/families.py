"""Rules of one form side by side: a hundred rules are a few short programs, not a hundred.

Rules have one form when they differ in numbers alone: two `AtLeast` rules have the same
form, whatever their limits and regions; `AtLeast` and `Increasing` do not. Scoring each by itself makes
the compiled program, and the time to compile it, grow with every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.rules.scoring.bound import BoundRule
from prbnn.rules.scoring.drawn import Drawn, Frame
from prbnn.rules.strengths import Kind

# up to this many rules are scored one by one, which compiles quickly and shares most
FEW_RULES = 12
# up to this many regions each have the requested number of points; more regions share the same total
FEW_REGIONS = 16
LEAST_POINTS = 1024
# points at which the groups of a family are scored at the same time: hidden layers take memory
AT_ONCE = 16_384


def points_each(count: int, regions: int, rules: int = 0) -> int:
    """How many points each region has, where ``count`` are requested: fewer where regions are many.

    Never fewer than 1/16 of the requested points, nor than 1,024. Passes of the network cost most, so
    four rules that share a region count as one region.

    >>> points_each(131_072, 16), points_each(131_072, 100), points_each(8192, 300)
    (131072, 16384, 1024)
    """
    many = max(regions, rules // 4)
    if many <= FEW_REGIONS or count <= LEAST_POINTS:
        return count
    each = 1 << (FEW_REGIONS * count // many).bit_length() - 1
    return min(count, max(each, count // FEW_REGIONS, LEAST_POINTS))


class Group(eqx.Module):
    """Rules that are scored at the same points; ``places`` are their positions in the list."""

    points: Float[Array, "points inputs"]
    rules: tuple[BoundRule, ...]
    places: tuple[int, ...] = eqx.field(static=True)


class Family(eqx.Module):
    """Groups with rules of the same forms. Each of ``rules`` is all rules of a form in all groups.

    Their arrays begin with two axes, groups and rules; ``places`` holds the positions in the user's
    list by form, group and rule.
    """

    points: Float[Array, "groups points inputs"]
    rules: tuple[BoundRule, ...]
    places: tuple[tuple[tuple[int, ...], ...], ...] = eqx.field(static=True)

    def rule(self, form: int, group: int, number: int) -> BoundRule:
        """One of the rules by itself."""
        return jax.tree.map(lambda leaf: leaf[group, number], self.rules[form])


class Scored(NamedTuple):
    """Scores of rules of one form and strength: (rules, points, components), less their margins.

    ``weights`` are those of the components, None for their mean.
    """

    places: tuple[int, ...]
    kind: Kind
    score: Float[Array, "rules points components"]
    weights: Float[Array, "rules components"] | None


def families_of(
    groups: Sequence[Group], kinds: Sequence[Kind]
) -> tuple[tuple[Group, ...], tuple[Family, ...]]:
    """Groups that stay as they are, and the others by family."""
    if len(kinds) <= FEW_RULES:
        return tuple(groups), ()
    forms: dict[Hashable, int] = {}
    alike: dict[Hashable, list[tuple[Group, dict[int, list[tuple[int, BoundRule]]]]]] = {}
    for group in groups:
        held: dict[int, list[tuple[int, BoundRule]]] = {}
        for place, rule in zip(group.places, group.rules, strict=True):
            general = rule.general()
            number = forms.setdefault((kinds[place], _form(general)), len(forms))
            held.setdefault(number, []).append((place, general))
        key = (group.points.shape, *sorted((form, len(rules)) for form, rules in held.items()))
        alike.setdefault(key, []).append((group, held))
    single, families = [], []
    for members in alike.values():
        forms_here = sorted(members[0][1])
        if len(members) == 1 and len(forms_here) == len(members[0][0].places):
            single.append(members[0][0])
        else:
            families.append(_family(members, forms_here))
    return tuple(single), tuple(families)


def _form(rule: BoundRule) -> Hashable:
    leaves, structure = jax.tree.flatten(rule)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def _family(
    members: Sequence[tuple[Group, dict[int, list[tuple[int, BoundRule]]]]], forms: Sequence[int]
) -> Family:
    def stacked(form: int) -> BoundRule:
        rows = [[rule for _, rule in held[form]] for _, held in members]
        count = len(rows[0])

        def joined(*leaves: Array) -> Array:
            # on the host: nothing to compile
            stack = np.stack([np.asarray(leaf) for leaf in leaves])
            return jnp.asarray(stack.reshape(len(rows), count, *stack.shape[1:]))

        return jax.tree.map(joined, *(rule for row in rows for rule in row))

    return Family(
        jnp.asarray(np.stack([np.asarray(group.points) for group, _ in members])),
        tuple(stacked(form) for form in forms),
        tuple(
            tuple(tuple(place for place, _ in held[form]) for _, held in members) for form in forms
        ),
    )


def scores_of_family(
    family: Family,
    network: Callable[[Array], Array],
    frame: Frame,
    choose: Callable[[Any, Any], Any],
    worst: Array | None,
    size: int,
) -> list[Float[Array, "rules points components"]]:
    """Scores by form, the rules of all groups one after the other.

    ``choose(pool, worst)`` takes the ``size`` points at which to score from a group's pool, along the
    first axis of every array; ``worst`` has one row per group, or is None.
    """

    def group(part: tuple[Array, tuple[BoundRule, ...], Any]) -> tuple[Array, ...]:
        points, rules, here = part
        knowns = tuple(rule.known for rule in rules)
        bare = tuple(eqx.tree_at(lambda rule: rule.known, rule, {}) for rule in rules)
        by_point = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, 0), knowns)

        def at_point(x: Array, knowns: tuple) -> tuple[Array, ...]:
            function = Drawn(network, frame)
            return tuple(
                _of_form(rule, known, function, x) for rule, known in zip(bare, knowns, strict=True)
            )

        return jax.vmap(at_point, out_axes=1)(*choose((points, by_point), here))

    groups, block = family.points.shape[0], max(1, AT_ONCE // size)
    parts = (family.points, family.rules, worst)
    if groups <= block:
        found = jax.vmap(group)(parts)
    else:
        # few at once are not worth the second program that a remainder takes
        found = jax.lax.map(group, parts, batch_size=block if block > 16 else None)
    return [score.reshape(-1, *score.shape[2:]) for score in found]


def _of_form(rule: BoundRule, known: Any, function: Drawn, x: Array) -> Array:
    """(rules, components) at one point."""

    def score(rule: BoundRule, known: Any) -> Array:
        return jnp.atleast_1d(rule.score(function, x, known) - rule.margin)

    # the first rule is evaluated outside the vmap, because values cached inside a vmap cannot be reused
    first = score(*jax.tree.map(lambda leaf: leaf[0], (rule, known)))
    return first[None] if rule.margin.shape[0] == 1 else jax.vmap(score)(rule, known)


def weights_of(rules: BoundRule) -> Float[Array, "rules components"] | None:
    """Weights of the components of a family's rules of one form."""
    bare = eqx.tree_at(lambda rule: rule.known, rules, {})
    found = jax.vmap(jax.vmap(lambda rule: rule.component_weights))(bare)
    return None if found is None else found.reshape(-1, found.shape[-1])


def each_rule(
    scored: Sequence[Scored], function: Callable[..., Any], *arguments: Float[Array, " rules"]
) -> Any:
    """``function(kind, score, weights, ...)`` of every rule, stacked in the user's order.

    Further ``arguments`` have one entry per rule. Rules of one form are handled by one vmap.
    """
    parts, places = [], []
    for block in scored:
        there = np.array(block.places)
        given = [argument[there] for argument in arguments]

        def one(score: Array, weights: Array | None, *rest: Array, kind: Kind = block.kind) -> Any:
            return function(kind, score, weights, *rest)

        if len(there) == 1:
            alone = jax.tree.map(lambda leaf: leaf[0], (block.score, block.weights, *given))
            parts.append(jax.tree.map(lambda leaf: leaf[None], one(*alone)))
        else:
            parts.append(jax.vmap(one)(block.score, block.weights, *given))
        places += block.places
    order = np.argsort(places)
    if len(parts) == len(places):
        # as many programs as rules: only their order is left to do
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(parts[k] for k in order))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *parts)
