"""Truth values, comparisons and choices on forms; a truth value is a form within [0, 1].

Its interval is [1, 1] where a statement is true all over the box, [0, 0] where it is false, [0, 1] else.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.enclosures import curves, forms
from prbnn.certify.enclosures.forms import Form
from prbnn.certify.enclosures.reshaping import as_form, broadcast, pair
from prbnn.errors import NotEnclosedError


def truth(surely: Array, maybe: Array, directions: int) -> Form:
    """A statement that is true all over the box where ``surely``, and nowhere unless ``maybe``."""
    return forms.interval(surely.astype(float), maybe.astype(float), directions)


def compared(name: str) -> Callable[[list, dict], Form]:
    """The comparison of two forms that JAX calls ``name``: gt, ge, lt, le, eq or ne."""

    def compare(inputs: list, _: dict) -> Form:
        one, other = pair(inputs)
        gap = forms.add(one, other, -1.0)
        least, most = gap.least, gap.most
        points = (one.least == one.most) & (other.least == other.most)
        same, touching = points & (one.least == other.least), (least <= 0) & (most >= 0)
        surely, maybe = {
            "gt": (least > 0, most > 0),
            "ge": (least >= 0, most >= 0),
            "lt": (most < 0, least < 0),
            "le": (most <= 0, least <= 0),
            "eq": (same, touching),
            "ne": ((least > 0) | (most < 0), ~same),
        }[name]
        return truth(surely, maybe, gap.directions)

    return compare


def selected(inputs: list, _: dict) -> Form:
    """The second of two cases where the first input is true, the first case where it is false."""
    which, *cases = inputs
    if len(cases) != 2:
        raise NotEnclosedError(
            "a choice between more than two cases is not enclosed; nest choices between two cases"
        )
    like = next(value for value in inputs if isinstance(value, Form))
    shape = np.broadcast_shapes(*(v.shape if isinstance(v, Form) else np.shape(v) for v in inputs))
    otherwise, chosen = (broadcast(as_form(case, inputs, like), shape) for case in cases)
    if not isinstance(which, Form):
        return curves.choose(jnp.broadcast_to(which, shape).astype(bool), chosen, otherwise)
    which = broadcast(which, shape)
    either = curves.hull(chosen, otherwise)
    return curves.choose(
        which.least > 0.5, chosen, curves.choose(which.most < 0.5, otherwise, either)
    )


def negated(inputs: list, _: dict) -> Form:
    """Not."""
    one = inputs[0]
    return forms.interval(1 - one.most, 1 - one.least, one.directions)


def joined(function: Callable) -> Callable[[list, dict], Form]:
    """And (``function`` is the minimum) or or (the maximum) of two truth values."""

    def join(inputs: list, _: dict) -> Form:
        one, other = pair(inputs)
        return forms.interval(
            function(one.least, other.least), function(one.most, other.most), one.directions
        )

    return join
