"""A network's weights as one vector and back: one array compiles several times faster than many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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


def by_leaf(network: Any, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Weight vectors (draws, weights) as one array a named leaf, (draws, leaf shape...).

    Other tools can read these; nobody can read a raveled vector.
    """
    leaves = named_leaves(network)
    ends = np.cumsum([math.prod(leaf.shape) for _, leaf in leaves])[:-1]
    pieces = np.split(vectors, ends, axis=1) if leaves else []
    return {
        name: piece.reshape(len(vectors), *leaf.shape)
        for (name, leaf), piece in zip(leaves, pieces, strict=True)
    }


def from_leaves(network: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The weight vectors again; a leaf that is missing, left over or of another shape is told."""
    leaves = dict(named_leaves(network))
    if set(leaves) != set(arrays):
        missing, extra = sorted(set(leaves) - set(arrays)), sorted(set(arrays) - set(leaves))
        raise ValueError(
            f"the network's leaves are {', '.join(leaves)}; missing: {', '.join(missing) or 'none'}; "
            f"not of this network: {', '.join(extra) or 'none'}"
        )
    counts = {array.shape[:1] for array in arrays.values()}
    for name, leaf in leaves.items():
        if arrays[name].dtype.kind not in "fc":
            raise ValueError(f"leaf {name!r} holds {arrays[name].dtype}, and no weights")
        if arrays[name].shape[1:] != leaf.shape or len(counts) != 1:
            raise ValueError(
                f"leaf {name!r} must have shape (draws, {', '.join(map(str, leaf.shape))}) and as "
                f"many draws as the others, got {arrays[name].shape}"
            )
    flat = [arrays[name].reshape(-1, math.prod(leaf.shape)) for name, leaf in leaves.items()]
    return np.concatenate(flat, axis=1)


def buffers(network: Any) -> dict[str, Any]:
    """Arrays of whole numbers and truth values by name: no weights, yet part of the function."""
    return dict(_by_name(eqx.filter(network, _is_buffer)))


def with_buffers(network: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """``network`` with its arrays of whole numbers and truth values replaced."""
    found = buffers(network)
    if {name: leaf.shape for name, leaf in found.items()} != {
        name: array.shape for name, array in arrays.items()
    }:
        raise ValueError(
            f"the network's fixed arrays are {', '.join(found) or 'none'}, got "
            f"{', '.join(arrays) or 'none'}, or their shapes differ"
        )
    fixed, rest = eqx.partition(network, _is_buffer)
    leaves = [jnp.asarray(arrays[name]) for name in found]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(fixed), leaves), rest)


def _is_buffer(leaf: Any) -> bool:
    return eqx.is_array(leaf) and leaf.dtype.kind in "biu"


def named_leaves(network: Any) -> list[tuple[str, Any]]:
    """Names, such as ``layers.0.weight``, and arrays of all weights, in the order of `flatten`."""
    return _by_name(eqx.filter(network, eqx.is_inexact_array))


def _by_name(tree: Any) -> list[tuple[str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = [(jax.tree_util.keystr(p, simple=True, separator="."), leaf) for p, leaf in paths]
    if len(dict(named)) < len(named):
        raise ValueError("two arrays of the network go by the same name; rename one of its fields")
    return named
