"""Functions of one quantity, enclosed by a chord and the furthest the curve runs from it.

f(z) - slope z has its extremes over an interval at the ends or where f'(z) = slope, and f has its own at
the ends or where it turns; each curve knows both kinds of place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from prbnn.certify.enclosures import forms
from prbnn.certify.enclosures.forms import Form
from prbnn.certify.enclosures.rounding import OWN, TINY, magnitude

# libm in float64 is a few units off
ROUND = 8 * OWN


class Curve(NamedTuple):
    """A function, the places where it has a given slope, where it turns, and where it is defined.

    ``closed``: at the start of its domain, too.
    """

    function: Callable[[Array], Array]
    places: Callable[[Array], tuple[Array, ...]]
    turns: tuple[float, ...] = ()
    domain: tuple[float, float] = (-jnp.inf, jnp.inf)
    closed: bool = False


def _both(place: Array) -> tuple[Array, Array]:
    return place, -place


def _root(value: Array) -> Array:
    return jnp.sqrt(jnp.maximum(value, 0.0))


def _steep(slope: Array) -> Array:
    """Where tanh has a slope: artanh(sqrt(1 - slope)), of slopes that vanish beside 1, too."""
    return jnp.log((1 + _root(1 - slope)) / _root(slope))


CURVES: dict[str, Curve] = {
    "exp": Curve(jnp.exp, lambda s: (jnp.log(s),)),
    "expm1": Curve(jnp.expm1, lambda s: (jnp.log(s),)),
    "log": Curve(jnp.log, lambda s: (1 / s,), domain=(0.0, jnp.inf)),
    "log1p": Curve(jnp.log1p, lambda s: (1 / s - 1,), domain=(-1.0, jnp.inf)),
    "sqrt": Curve(jnp.sqrt, lambda s: ((0.5 / s) ** 2,), domain=(0.0, jnp.inf), closed=True),
    "tanh": Curve(jnp.tanh, lambda s: _both(_steep(s))),
    "logistic": Curve(lambda z: 0.5 * (1 + jnp.tanh(0.5 * z)), lambda s: _both(2 * _steep(4 * s))),
    "atan": Curve(jnp.arctan, lambda s: _both(_root(1 / s - 1))),
    "abs": Curve(jnp.abs, lambda s: (jnp.zeros_like(s),), turns=(0.0,)),
    "relu": Curve(lambda z: jnp.maximum(z, 0.0), lambda s: (jnp.zeros_like(s),)),
}


def curve(one: Form, found: Curve) -> Form:
    """f(one); nothing is known of it where the interval leaves the domain."""
    start, end = found.domain
    begins = one.least >= start if found.closed else one.least > start
    inside = begins & (one.most < end)
    bounded = inside & jnp.isfinite(one.least) & jnp.isfinite(one.most)
    low = jnp.where(inside, one.least, 1.0 if start == 0 else 0.0)
    high = jnp.where(inside, one.most, 1.0 if start == 0 else 0.0)
    ends = [found.function(low), found.function(high)]
    for place in found.turns:
        ends.append(
            jnp.where((low <= place) & (place <= high), found.function(jnp.asarray(place)), ends[0])
        )
    least, most = jnp.min(jnp.stack(ends), 0), jnp.max(jnp.stack(ends), 0)
    give = ROUND * magnitude(least, most) + TINY
    least, most = least - give, most + give
    low, high = jnp.where(bounded, low, 1.0), jnp.where(bounded, high, 1.0)
    width = high - low
    slope = jnp.where(
        width > 0,
        (found.function(high) - found.function(low)) / jnp.where(width > 0, width, 1.0),
        0.0,
    )
    slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
    places = [low, high]
    for place in found.places(slope):
        settled = jnp.where(jnp.isnan(place), low, place)
        places.append(jnp.clip(settled, low, high))
    away = jnp.stack([found.function(z) - slope * z for z in places])
    size = jnp.max(jnp.abs(jnp.stack([found.function(z) for z in places])), 0)
    give = ROUND * (size + jnp.abs(slope) * magnitude(low, high)) + TINY
    line = forms.along(one, slope, jnp.min(away, 0) - give, jnp.max(away, 0) + give, least, most)
    nothing = forms.interval(
        jnp.where(inside, least, -jnp.inf), jnp.where(inside, most, jnp.inf), one.directions
    )
    return choose(bounded, line, nothing)


def choose(sure: Array, one: Form, other: Form) -> Form:
    """One form where ``sure``, the other elsewhere."""
    return Form(
        jnp.where(sure[..., None], one.slope, other.slope),
        *(
            jnp.where(sure, a, b)
            for a, b in (
                (one.low, other.low),
                (one.high, other.high),
                (one.least, other.least),
                (one.most, other.most),
            )
        ),
    )


def unknown(like: Form) -> Form:
    """Anything at all."""
    ends = jnp.full(like.shape, jnp.inf)
    return forms.interval(-ends, ends, like.directions)


def negative(one: Form) -> Form:
    """-one."""
    return Form(-one.slope, -one.high, -one.low, -one.most, -one.least)


def reciprocal(one: Form) -> Form:
    """1 / one; nothing is known of it where one may be 0."""
    above, below = one.least > 0, one.most < 0
    positive = choose(above, one, negative(one))
    found = curve(
        positive,
        Curve(lambda z: 1 / z, lambda s: (_root(-1 / s),), domain=(0.0, jnp.inf)),
    )
    found = choose(above, found, negative(found))
    return choose(above | below, found, unknown(one))


def power(one: Form, exponent: float) -> Form:
    """one ** exponent, for a fixed exponent."""
    whole = float(exponent).is_integer()
    if whole and exponent < 0:
        return reciprocal(power(one, -exponent))
    if exponent == 0:
        return forms.constant(jnp.ones(one.shape), one.directions)
    if exponent == 1:
        return one
    if exponent == 2:
        return forms.square(one)

    def raised(z: Array) -> Array:
        # libm's power rounds once; products would round as often as the exponent says
        return jnp.power(z, jnp.full_like(z, exponent))

    def places(slope: Array) -> tuple[Array, ...]:
        return _both(jnp.abs(slope / exponent) ** (1 / (exponent - 1)))

    if whole:
        turns = (0.0,) if exponent % 2 == 0 else ()
        return curve(one, Curve(raised, places, turns))
    return curve(one, Curve(raised, places, domain=(0.0, jnp.inf), closed=exponent > 0))


def wave(one: Form, ahead: float) -> Form:
    """sin(one + ahead): a tangent in the middle, off by no more than the square of the radius."""
    bounded = jnp.isfinite(one.least) & jnp.isfinite(one.most)
    low, high = jnp.where(bounded, one.least, 0.0), jnp.where(bounded, one.most, 0.0)
    middle, radius = 0.5 * (low + high), 0.5 * (high - low)
    slope, height = jnp.cos(middle + ahead), jnp.sin(middle + ahead)
    room = 0.5 * radius**2 + ROUND * (2 + jnp.abs(middle) + radius)
    ones = jnp.ones(one.shape)
    line = forms.along(
        one, slope, height - slope * middle - room, height - slope * middle + room, -ones, ones
    )
    # of infinity there is no sine
    return choose(bounded, line, unknown(one))


def maximum(one: Form, other: Form) -> Form:
    """max(a, b) = b + relu(a - b), within the interval of both."""
    found = forms.add(other, curve(forms.add(one, other, -1.0), CURVES["relu"]))
    first, second = one.least >= other.most, other.least >= one.most
    least, most = jnp.maximum(one.least, other.least), jnp.maximum(one.most, other.most)
    found = forms.form(
        found.slope,
        found.low,
        found.high,
        jnp.maximum(found.least, least),
        jnp.minimum(found.most, most),
    )
    # what is no number is not the smaller one
    found = choose(one.lost | other.lost, unknown(found), found)
    return choose(first, one, choose(second, other, found))


def minimum(one: Form, other: Form) -> Form:
    """min(a, b) = -max(-a, -b)."""
    return negative(maximum(negative(one), negative(other)))


def hull(one: Form, other: Form) -> Form:
    """Either of two."""
    return forms.interval(
        jnp.minimum(one.least, other.least), jnp.maximum(one.most, other.most), one.directions
    )
