"""Trees of arrays as arrays by name and back, filled into a tree of the same form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from prbnn.errors import CheckpointError

Arrays = Mapping[str, np.ndarray]


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Every array of ``tree`` by its path; a random key as the whole numbers that it consists of.

    >>> to_arrays({"a": [jnp.zeros(2), np.ones(1)]})
    {'a.0': array([0., 0.], dtype=float32), 'a.1': array([1.])}
    """
    return {
        name: np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        for name, leaf in _named(tree)
    }


def from_arrays(like: Any, arrays: Arrays) -> Any:
    """A tree with the structure of ``like`` and the values of ``arrays``.

    ``like`` may hold shapes (`jax.eval_shape`). Names, shapes and types are compared before anything is
    filled in, and raise `CheckpointError` where they differ. Where ``like`` holds NumPy's arrays, so does
    the result.

    >>> from_arrays({"a": [np.zeros(2)]}, {"a.0": np.ones(2)})
    {'a': [array([1., 1.])]}
    """
    wanted = {name: _shape(leaf) for name, leaf in _named(like)}
    found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    if wanted != found:
        names = [n for n in (*wanted, *found) if wanted.get(n) != found.get(n)]
        name = names[0]
        raise CheckpointError(
            f"the checkpoint does not fit this problem: {name!r} is {_said(found.get(name))} there and "
            f"{_said(wanted.get(name))} here; delete the checkpoints to fit from the start"
        )
    leaves, structure = jax.tree.flatten(like)
    names = iter(name for name, _ in _named(like))
    filled = [_filled(leaf, arrays[next(names)]) if _is_array(leaf) else leaf for leaf in leaves]
    return jax.tree.unflatten(structure, filled)


def under(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """``arrays`` with ``prefix/`` before every name."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def below(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """Those of ``arrays`` that `under` has named so, with their own names."""
    start = f"{prefix}/"
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}


def _named(tree: Any) -> list[tuple[str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = [
        (jax.tree_util.keystr(path, simple=True, separator="."), leaf)
        for path, leaf in paths
        if _is_array(leaf)
    ]
    assert len(dict(named)) == len(named), "two arrays of a state have the same name"
    return named


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _shape(leaf: Any) -> tuple[tuple[int, ...], np.dtype]:
    data = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return tuple(data.shape), np.dtype(data.dtype)


def _filled(leaf: Any, array: np.ndarray) -> Any:
    if isinstance(leaf, np.ndarray):
        return np.array(array)
    if _is_key(leaf):
        # of the default kind, as every key of a fit is
        return jax.random.wrap_key_data(jnp.asarray(array))
    return jnp.asarray(array)


def _said(shape: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "missing" if shape is None else f"{shape[1]} of shape {shape[0]}"
