"""A network's weights as one vector and back: one array compiles several times faster than many."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def flatten(network: Any) -> Float[Array, " weights"]:
    """All inexact arrays of a network, one after another."""
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(network) if eqx.is_inexact_array(leaf)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)


def unflatten(network: Any, vector: Float[Array, " weights"]) -> Any:
    """``network`` with its weights replaced by those of ``vector``."""
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    # one split: its transpose is one concatenation, where slices would each be padded and added
    pieces = jax.lax.split(vector, [math.prod(leaf.shape) for leaf in leaves])
    new = [piece.reshape(leaf.shape) for piece, leaf in zip(pieces, leaves, strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, new), rest)
