"""Several functions, or several runs: computed all at once, or one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

Found = TypeVar("Found")

# On a CPU, products of many small matrices at once take up to twice as long as one after the other, each
# with its hidden layer in the cache; but every product has a cost of its own, which decides where it is
# small. This is the number of rows times weights from which on one after the other is faster.
LARGE = 100_000
# parts of the functions that do not wait for each other, so that two cores can have one each
PARTS = 2


def over_functions(
    one: Callable[..., Found], arguments: tuple[PyTree, ...], size: int, parts: int = PARTS
) -> Found:
    """``one`` of each entry of the leading axis of ``arguments``, stacked.

    ``size`` is the number of rows and points at which one function is evaluated, times its weights.

    >>> over_functions(lambda vector: 2 * vector, (jnp.ones((3, 1)),), 10).shape
    (3, 1)
    """
    if jax.default_backend() != "cpu" or size < LARGE:
        return jax.vmap(one)(*arguments)
    count = jax.tree.leaves(arguments)[0].shape[0]
    step = -(-count // parts)
    found = []
    for start in range(0, count, step):
        part = jax.tree.map(lambda leaf, some=slice(start, start + step): leaf[some], arguments)
        found.append(jax.lax.map(lambda some: one(*some), part))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *found)
