"""Compares the tensors of a file with the network that it declares, before anything is built.

A declaration of a few characters may ask for any amount of memory or compilation, while tensors take as
many bytes in the file as in memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from prbnn.data.layout import Layout
from prbnn.errors import ModelFileError, shortened
from prbnn.fitting.building import build_network
from prbnn.model.construction.built import Construction
from prbnn.model.networks import MLP, RBF
from prbnn.model.recurrent import Unrolled

Shapes = Mapping[str, tuple[int, ...]]


def check_layout(layout: Layout, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raise where ``layout`` is not of these columns; counts are compared before names are made."""
    counts = (layout.history, layout.ahead)
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ModelFileError(f"steps are whole numbers of 0 or above, got {counts}")
    wide = layout.history * len(layout.variables) + len(layout.static) + 1
    ahead = max(layout.ahead, 1) * len(layout.outputs)
    same = wide == len(inputs) and ahead == len(outputs)
    if not (same and layout.inputs == tuple(inputs) and layout.targets == tuple(outputs)):
        raise ModelFileError(
            f"a layout of {layout.history} steps of {len(layout.variables)} variables and "
            f"{layout.ahead} ahead does not go with {len(inputs)} inputs and {len(outputs)} outputs"
        )


def check_declared(network: Any, found: Shapes, inputs: int, outputs: int) -> None:
    """Raise where the weights of a declared ``network`` do not have the shapes ``found`` in one draw."""
    if isinstance(network, Construction):
        _check_size(network.network, len([s for s in network.shapes if s is not None]), found)
        return
    if not isinstance(network, MLP | RBF | Unrolled):
        raise ModelFileError(
            f"the file declares {shortened(network, 100)}, which is no network for its rows"
        )
    _check_count(network, found)
    wanted = network.shapes(inputs, outputs)
    if wanted != dict(found):
        raise ModelFileError(
            f"the file declares {shortened(network, 100)}, whose weights are {_listed(wanted)}; its "
            f"tensors are {_listed(found)}"
        )


def _check_count(network: Any, found: Shapes) -> None:
    """Raise where a network has more layers than tensors, before its shapes are listed."""
    declared = network.network if isinstance(network, Unrolled) else network
    layers = len(getattr(declared, "hidden", ())) + getattr(declared, "layers", 0)
    if layers > len(found):
        raise ModelFileError(
            f"the file declares a network of {layers} layers and has {len(found)} tensors for it"
        )


def _check_size(network: Any, shaped: int, found: Shapes) -> None:
    """The same for a network with rules built in, of which ``shaped`` outputs have their own part."""
    if not isinstance(network, MLP):
        if isinstance(network, RBF | Unrolled):
            _check_count(network, found)
        return
    layers, widths = len(network.hidden), {size for shape in found.values() for size in shape}
    if 2 * layers * max(shaped, 1) > len(found) or not set(network.hidden) <= widths:
        raise ModelFileError(
            f"the file declares {shortened(network, 100)} for {max(shaped, 1)} output(s); its tensors "
            f"are {_listed(found)}"
        )


def template(network: Any, seed: int, inputs: int, outputs: int, most: int) -> Any:
    """A declared network with zeros for weights, since draws have their own; nothing is compiled.

    A network of more than ``most`` numbers raises before any memory is used.
    """
    shapes = eqx.filter_eval_shape(build_network, network, seed, inputs, outputs)
    leaves = [leaf for leaf in jax.tree.leaves(shapes) if isinstance(leaf, jax.ShapeDtypeStruct)]
    wanted = sum(math.prod(leaf.shape) for leaf in leaves)
    if wanted > most:
        raise ModelFileError(
            f"the file declares a network of {wanted:,} numbers; its tensors have {most:,}"
        )
    return jax.tree.map(
        lambda leaf: (
            jnp.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
        ),
        shapes,
    )


def _listed(shapes: Shapes) -> str:
    """The first four names and shapes, and the count of numbers in all."""
    first = ", ".join(f"{name} {shape}" for name, shape in list(shapes.items())[:4])
    more = f" and {len(shapes) - 4} more" if len(shapes) > 4 else ""
    numbers = sum(math.prod(shape) for shape in shapes.values())
    return f"{first}{more} ({numbers:,} numbers)"
