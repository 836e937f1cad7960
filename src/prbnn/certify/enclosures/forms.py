"""Quantities over a box, enclosed by a straight line with a remainder and by an interval.

A box is {centre + radius t : t in [-1, 1]^d}. A `Form` of a quantity y says, for every t,

    slope . t + low <= y(t) <= slope . t + high    and    least <= y(t) <= most.

The remainder of a smooth quantity shrinks with the square of the box, an interval alone only with the
box; the interval is kept beside it since neither is always the tighter. All is computed in float64,
and what that rounds goes to the remainder (OWN a term, with room to spare). A quantity that may be no
number at all has an interval without ends (`lost`).
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.certify.enclosures.rounding import DOUBLE, OWN, TINY, magnitude


class Form(eqx.Module):
    """A quantity of any shape over one box; ``slope`` has one more axis, the box's directions."""

    slope: Float[Array, "*shape directions"]
    low: Float[Array, "*shape"]
    high: Float[Array, "*shape"]
    least: Float[Array, "*shape"]
    most: Float[Array, "*shape"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the quantity."""
        return self.low.shape

    @property
    def directions(self) -> int:
        """How many directions the box has."""
        return self.slope.shape[-1]

    @property
    def size(self) -> Array:
        """No value is larger; infinite where nothing is known."""
        return magnitude(self.least, self.most)

    @property
    def lost(self) -> Array:
        """Nothing is known, not even that there is a number: the logarithm of what may be negative."""
        return jnp.isinf(self.least) & jnp.isinf(self.most)

    @property
    def middle(self) -> Array:
        """Of the interval; 0 where that has no end."""
        middle = 0.5 * (self.least + self.most)
        return jnp.where(jnp.isfinite(middle), middle, 0.0)

    @property
    def terms(self) -> Array:
        """The size of the line's terms, which rounding is a share of."""
        return jnp.sum(jnp.abs(self.slope), -1) + magnitude(self.low, self.high)


def form(slope: Array, low: Array, high: Array, least: Array, most: Array) -> Form:
    """Put a line and an interval together, each made tighter by the other."""
    reach = jnp.sum(jnp.abs(slope), -1)
    give = OWN * (slope.shape[-1] + 2) * (reach + magnitude(low, high)) + TINY
    by_line = low - reach - give, high + reach + give
    # a line that is not finite says nothing
    known = jnp.isfinite(by_line[0]) & jnp.isfinite(by_line[1])
    least = jnp.where(known, jnp.maximum(least, by_line[0]), least)
    most = jnp.where(known, jnp.minimum(most, by_line[1]), most)
    least, most = ends(least, most)
    slope = jnp.where(known[..., None], slope, 0.0)
    # the interval as a line of slope 0 where it leaves less room
    narrow = ~known | (most - least < high - low)
    return Form(
        jnp.where(narrow[..., None], 0.0, slope),
        jnp.where(narrow, least, low),
        jnp.where(narrow, most, high),
        least,
        most,
    )


def ends(least: Array, most: Array) -> tuple[Array, Array]:
    """An interval, without ends where one of them is no number."""
    nothing = jnp.isnan(least) | jnp.isnan(most)
    return jnp.where(nothing, -jnp.inf, least), jnp.where(nothing, jnp.inf, most)


def interval(least: Array, most: Array, directions: int) -> Form:
    """A quantity of which only an interval is known."""
    least, most = jnp.asarray(least, float), jnp.asarray(most, float)
    return form(jnp.zeros((*least.shape, directions)), least, most, least, most)


def constant(value: Array, directions: int) -> Form:
    """A quantity that is the same all over the box."""
    return interval(value, value, directions)


def box(low: Array, high: Array, swept: np.ndarray | None = None) -> Form:
    """The inputs themselves over the box [low, high], (inputs,).

    Directions are the inputs at the positions ``swept`` (all of them if None); the box has no width in
    the others. There is one direction, without a slope, where none is swept.
    """
    swept = np.arange(low.size) if swept is None else swept
    centre, radius = 0.5 * (low + high), 0.5 * (high - low)
    slope = jnp.zeros((low.size, max(1, swept.size)))
    slope = slope.at[swept, np.arange(swept.size)].set(radius[swept])
    # the centre and the radius are rounded, and must still reach both ends
    give = 4 * DOUBLE * (jnp.abs(low) + jnp.abs(high))
    return form(slope, centre - give, centre + give, low, high)


def add(one: Form, other: Form, sign: float = 1.0) -> Form:
    """one + other, or one - other."""
    parts = (other.low, other.high, other.least, other.most)
    low, high, least, most = parts if sign > 0 else (-parts[1], -parts[0], -parts[3], -parts[2])
    give = OWN * (one.terms + other.terms)
    reach = OWN * (one.size + other.size)
    return form(
        one.slope + sign * other.slope,
        one.low + low - give,
        one.high + high + give,
        one.least + least - jnp.where(jnp.isfinite(reach), reach, 0.0),
        one.most + most + jnp.where(jnp.isfinite(reach), reach, 0.0),
    )


def scale(one: Form, factor: Array) -> Form:
    """One times a number."""
    low, high = _ordered(one.low * factor, one.high * factor)
    least, most = _ordered(one.least * factor, one.most * factor)
    give = OWN * one.terms * jnp.abs(factor) + TINY
    reach = OWN * magnitude(least, most) + TINY
    return form(one.slope * factor[..., None], low - give, high + give, least - reach, most + reach)


def shift(one: Form, by: Array) -> Form:
    """One plus a number."""
    give = OWN * (one.terms + jnp.abs(by))
    reach = OWN * (one.size + jnp.abs(by))
    reach = jnp.where(jnp.isfinite(reach), reach, 0.0)
    return form(
        one.slope,
        one.low + by - give,
        one.high + by + give,
        one.least + by - reach,
        one.most + by + reach,
    )


def widen(one: Form, by: Array) -> Form:
    """The same with so much more room on either side."""
    return form(one.slope, one.low - by, one.high + by, one.least - by, one.most + by)


def times(one: Form, other: Form) -> Form:
    """A product: p q = p0 q + q0 p - p0 q0 + (p - p0)(q - q0), the last term enclosed.

    p0 and q0 are the middles of the intervals.
    """
    here, there = one.middle, other.middle
    # 0 times infinity is no number: infinity may stand for none
    corners = jnp.stack([a * b for a in (one.least, one.most) for b in (other.least, other.most)])
    least, most = jnp.min(corners, 0), jnp.max(corners, 0)
    room = jnp.maximum(one.most - here, here - one.least) * jnp.maximum(
        other.most - there, there - other.least
    )
    low_one, high_one = _ordered(one.low * there, one.high * there)
    low_other, high_other = _ordered(other.low * here, other.high * here)
    give = 2 * OWN * (one.terms * jnp.abs(there) + other.terms * jnp.abs(here) + room) + TINY
    reach = OWN * magnitude(least, most) + TINY
    reach = jnp.where(jnp.isfinite(reach), reach, 0.0)
    return form(
        one.slope * there[..., None] + other.slope * here[..., None],
        low_one + low_other - here * there - room - give,
        high_one + high_other - here * there + room + give,
        least - reach,
        most + reach,
    )


def square(one: Form) -> Form:
    """one^2 = 2 m y - m^2 + (y - m)^2, m the middle of the interval."""
    found = times(one, one)
    middle = one.middle
    room = jnp.maximum(one.most - middle, middle - one.least) ** 2
    across = (one.least <= 0) & (one.most >= 0)
    sizes = jnp.stack([jnp.abs(one.least), jnp.abs(one.most)])
    smallest = jnp.where(across, 0.0, jnp.min(sizes, 0))
    least = smallest**2 * (1 - OWN) - TINY
    low, high = _ordered(2 * middle * one.low, 2 * middle * one.high)
    give = 4 * OWN * (one.terms * jnp.abs(middle) + middle**2 + room) + TINY
    return form(
        2 * middle[..., None] * one.slope,
        low - middle**2 - give,
        high - middle**2 + room + give,
        jnp.where(one.lost, -jnp.inf, jnp.maximum(found.least, least)),
        found.most,
    )


def along(one: Form, slope: Array, low: Array, high: Array, least: Array, most: Array) -> Form:
    """f(one), where slope y + low <= f(y) <= slope y + high and least <= f(y) <= most."""
    line = scale(one, slope)
    give = OWN * (line.terms + magnitude(low, high))
    return form(line.slope, line.low + low - give, line.high + high + give, least, most)


def _ordered(a: Array, b: Array) -> tuple[Array, Array]:
    return jnp.minimum(a, b), jnp.maximum(a, b)
