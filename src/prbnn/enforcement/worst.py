"""The points where drawn functions break hard rules most: a step evaluates them beside its own block.

Over several inputs such points are rare. Blocks of points that take turns contain one now and then, so
pressure would come in bursts, which move the weights about and fix little. Half of a step's points are
therefore the worst points known, an equal part for each rule. After a step, a point of its block replaces
a known one that is broken less; after every chunk of steps, points of a large part of the pool do.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.rules.scoring.binding import BoundKnowledge
from prbnn.rules.scoring.families import Group

# a pool with more than this many blocks of points is wide
WIDE = 16


def worst_width(knowledge: BoundKnowledge | None, width: int) -> int:
    """How many of a step's ``width`` points are the worst known: half, or none where pools are small."""
    if knowledge is None or not any(map(knowledge.has_worst, range(knowledge.count))):
        return 0
    return width // 2 if knowledge.pool > WIDE * width else 0


def first_worst(knowledge: BoundKnowledge | None, width: int) -> Int[Array, "groups worst"]:
    """Positions of ``width`` points in each pool before anything is known."""
    groups = 0 if knowledge is None else knowledge.regions
    return jnp.broadcast_to(jnp.arange(width), (groups, width))


def kept_worst(
    knowledge: BoundKnowledge,
    worst: Int[Array, "groups worst"],
    start: Array,
    heat: Float[Array, "rules points"],
) -> Int[Array, "groups worst"]:
    """The worst points of those known and of a block, after a step has evaluated both.

    ``heat`` is by how much each rule is broken at the block's points, which begin at ``start`` of the
    pool, and then at the ``worst`` points known.
    """
    width = worst.shape[1]
    size = heat.shape[1] - width
    block = start + jnp.arange(size)
    found = list(worst)
    for number, group in enumerate(knowledge.groups):
        for place, part in _parts(group, knowledge, width):
            known = worst[number, part]
            # a point that is known already must not come in twice
            fresh = jnp.where(jnp.isin(block, known), -1.0, heat[place, :size])
            places = jnp.concatenate([known, block])
            both = jnp.concatenate([heat[place, size:][part], fresh])
            best = jax.lax.top_k(both, known.shape[0])[1]
            found[number] = found[number].at[part].set(places[best])
    begin = len(knowledge.groups)
    for family in knowledge.families:
        end = begin + family.points.shape[0]
        forms = [form for form in family.places if knowledge.has_worst(form[0][0])]
        if forms:
            places = np.concatenate([np.array(form) for form in forms], axis=1)
            moved = jax.vmap(_kept_of_group, in_axes=(0, None, 0))(
                worst[begin:end], block, heat[places]
            )
            found[begin:end] = list(moved)
        begin = end
    return jnp.stack(found)


def _kept_of_group(
    worst: Int[Array, " worst"], block: Int[Array, " block"], heat: Float[Array, "rules points"]
) -> Int[Array, " worst"]:
    """The same of one group of a family, whose rules are many: equal parts, all at once.

    Where there are more rules than points, several rules have a part together, and the one that is broken
    most counts.
    """
    width, rules = worst.shape[0], heat.shape[0]
    owners = min(rules, width)
    heat = jnp.pad(heat, ((0, -rules % owners), (0, 0)))
    heat = jnp.max(heat.reshape(-1, owners, heat.shape[1]), axis=0)
    part = width // owners
    known = worst[: owners * part].reshape(owners, part)
    size = heat.shape[1] - width
    hot = heat[:, size : size + owners * part].reshape(owners, owners, part)
    own = jnp.arange(owners)

    def one(known: Array, hot: Array, fresh: Array) -> Array:
        unknown = jnp.where(jnp.isin(block, known), -1.0, fresh)
        best = jax.lax.top_k(jnp.concatenate([hot, unknown]), part)[1]
        return jnp.concatenate([known, block])[best]

    found = jax.vmap(one)(known, hot[own, own], heat[:, :size])
    return jnp.concatenate([found.ravel(), worst[owners * part :]])


def _parts(group: Group, knowledge: BoundKnowledge, width: int) -> Iterator[tuple[int, slice]]:
    """Each rule of a group that has worst points, and which of the group's points these are."""
    rules = [place for place in group.places if knowledge.has_worst(place)]
    for number, place in enumerate(rules):
        yield place, slice(width * number // len(rules), width * (number + 1) // len(rules))
