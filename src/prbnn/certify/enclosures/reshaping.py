"""Forms as arrays: broadcasting, and operations that only move numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.enclosures import forms
from prbnn.certify.enclosures.forms import Form

# names of operations that only move numbers: they apply to each part of a form alike
STRUCTURAL = frozenset(
    (
        *("slice", "squeeze", "reshape", "broadcast_in_dim", "transpose", "rev", "gather", "pad"),
        *("dynamic_slice", "dynamic_update_slice", "scatter", "concatenate", "stack", "copy"),
        *("expand_dims",),
    )
)


def as_form(value: Any, inputs: list, like: Form | None = None) -> Form:
    """``value`` as a form; a plain array gets the directions of ``like`` or of a form in ``inputs``."""
    if isinstance(value, Form):
        return value
    like = like or next((other for other in inputs if isinstance(other, Form)), None)
    return forms.constant(jnp.asarray(value, float), 1 if like is None else like.directions)


def pair(inputs: list) -> tuple[Form, Form]:
    """Two inputs as forms of one shape."""
    one, other = (as_form(value, inputs) for value in inputs)
    shape = np.broadcast_shapes(one.shape, other.shape)
    return broadcast(one, shape), broadcast(other, shape)


def broadcast(one: Form, shape: tuple[int, ...]) -> Form:
    """A form repeated to fill a shape."""
    if one.shape == shape:
        return one
    ends = (jnp.broadcast_to(a, shape) for a in (one.low, one.high, one.least, one.most))
    return Form(jnp.broadcast_to(one.slope, (*shape, one.directions)), *ends)


def moved(equation: Any, inputs: list) -> Form:
    """The result of an operation of `STRUCTURAL`, applied to each part of the forms among ``inputs``."""
    like = next(value for value in inputs if isinstance(value, Form))
    # indices are whole numbers and stay as they are
    parts = [
        value
        if isinstance(value, Form) or _whole(value)
        else forms.constant(jnp.asarray(value, float), like.directions)
        for value in inputs
    ]

    def each(pick: Callable[[Form], Array]) -> Array:
        chosen = [pick(part) if isinstance(part, Form) else part for part in parts]
        return equation.primitive.bind(*chosen, **equation.params)

    slopes = [jnp.moveaxis(part.slope, -1, 0) if isinstance(part, Form) else part for part in parts]
    axes = [0 if isinstance(part, Form) else None for part in parts]
    slope = jax.vmap(lambda *p: equation.primitive.bind(*p, **equation.params), axes)(*slopes)
    return Form(
        jnp.moveaxis(slope, 0, -1),
        *forms.ends(each(lambda part: part.low), each(lambda part: part.high)),
        *forms.ends(each(lambda part: part.least), each(lambda part: part.most)),
    )


def unstacked(whole: Form, axis: int) -> list[Form]:
    """The forms along an axis of a form, one by one."""
    # slopes have one more axis, the last one, so that `axis` is the same for all parts

    def part(place: int) -> Form:
        return jax.tree.map(lambda leaf: jnp.take(leaf, place, axis=axis), whole)

    return [part(place) for place in range(whole.shape[axis])]


def _whole(value: Any) -> bool:
    return np.issubdtype(jnp.asarray(value).dtype, np.integer)
