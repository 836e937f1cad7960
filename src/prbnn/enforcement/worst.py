"""The points where drawn functions break hard rules most: a step tries them beside its own block.

Over several inputs such places are rare. Blocks of points that take turns meet one now and then, so
pressure comes in bursts, which move the weights about and mend little. Half of a step's points are
therefore the worst that are known, of each rule its share: after a step, a point of its block takes the
place of one that is broken less, and after every chunk of steps those of a large part of the pool do.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from prbnn.knowledge.binding import BoundKnowledge, Group

# a pool is wide that has more than so many blocks of points
WIDE = 16


def worst_width(knowledge: BoundKnowledge | None, width: int) -> int:
    """How many of a step's ``width`` points are the worst known: half, or none where pools are small."""
    if knowledge is None or not any(map(knowledge.has_worst, range(knowledge.count))):
        return 0
    wide = any(group.points.shape[0] > WIDE * width for group in knowledge.groups)
    return width // 2 if wide else 0


def first_worst(knowledge: BoundKnowledge | None, width: int) -> Int[Array, "groups worst"]:
    """Positions in each pool before anything is known."""
    groups = 0 if knowledge is None else len(knowledge.groups)
    return jnp.broadcast_to(jnp.arange(width), (groups, width))


def kept_worst(
    knowledge: BoundKnowledge,
    worst: Int[Array, "groups worst"],
    start: Array,
    heat: Float[Array, "rules points"],
) -> Int[Array, "groups worst"]:
    """The worst of those known and of a block, after a step has tried both.

    ``heat`` is of the block's points, which begin at ``start`` of the pool, and then of the known ones.
    """
    width = worst.shape[1]
    size = heat.shape[1] - width
    block = start + jnp.arange(size)
    found = list(worst)
    for number, group in enumerate(knowledge.groups):
        for place, part in _parts(group, knowledge, width):
            known = worst[number, part]
            # a point that is known already may not come in twice
            fresh = jnp.where(jnp.isin(block, known), -1.0, heat[place, :size])
            places = jnp.concatenate([known, block])
            both = jnp.concatenate([heat[place, size:][part], fresh])
            best = jax.lax.top_k(both, known.shape[0])[1]
            found[number] = found[number].at[part].set(places[best])
    return jnp.stack(found)


def _parts(group: Group, knowledge: BoundKnowledge, width: int) -> Iterator[tuple[int, slice]]:
    """Each rule of a group that has such points, and which of the group's they are."""
    rules = [place for place in group.places if knowledge.has_worst(place)]
    for number, place in enumerate(rules):
        yield place, slice(width * number // len(rules), width * (number + 1) // len(rules))
