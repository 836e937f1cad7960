"""The operations that a rule's formula may be made of, each replaced by one on forms.

`OPERATIONS` maps the names of JAX's operations to functions of their inputs (forms, or plain arrays for
what is the same all over the box) and parameters. An operation that is not listed is refused: a bound
that might be wrong is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.enclosures import choices, curves, forms
from prbnn.certify.enclosures.curves import CURVES, curve
from prbnn.certify.enclosures.forms import Form
from prbnn.certify.enclosures.reshaping import broadcast, pair, unstacked
from prbnn.certify.enclosures.rounding import OWN, TINY
from prbnn.errors import NotEnclosedError

# relative error of deployed arithmetic, by dtype; that of float64 is part of the bounds anyway, see `OWN`
RELATIVE = {np.dtype("float32"): 2.0**-23, np.dtype("float64"): 0.0}
EXACT = frozenset(
    [
        "neg",
        "abs",
        "sign",
        "floor",
        "ceil",
        "max",
        "min",
        "clamp",
        "select_n",
        "stop_gradient",
        "reduce_max",
        "reduce_min",
        "convert_element_type",
    ]
)
ELEMENTARY = frozenset(
    ["add", "add_any", "sub", "mul", "div", "square", "reduce_sum", "dot_general"]
)


def applied(name: str, inputs: list, params: dict, kind: np.dtype) -> Form:
    """The result of one operation on ``inputs``, as deployed in the dtype ``kind``."""
    if name not in OPERATIONS:
        raise NotEnclosedError(
            f"the operation {name!r} is not enclosed; rewrite the score without it"
        )
    if kind.kind == "b":
        return OPERATIONS[name](inputs, {**params, "unit": 0.0})
    if kind not in RELATIVE:
        raise NotEnclosedError(
            f"{name!r} in {kind} is not enclosed; rewrite the score in float32 or float64"
        )
    found = OPERATIONS[name](inputs, {**params, "unit": RELATIVE[kind]})
    return found if name in EXACT else _rounded(found, name, params, kind)


def _rounded(found: Form, name: str, params: dict, kind: np.dtype) -> Form:
    """A result as deployed: sums and products are off by one unit, other functions by up to 16."""
    relative = RELATIVE[kind]
    if not relative:
        return found
    if name not in ELEMENTARY:
        relative = 16 * relative * max(1, abs(params.get("y", 1)))
    limit = jnp.finfo(kind)
    fits = found.size * (1 + relative) < float(limit.max)
    give = relative * jnp.where(fits, found.size, 0.0) + float(limit.tiny)
    return curves.choose(fits, forms.widen(found, give), curves.unknown(found))


def _multiply(inputs: list, _: dict) -> Form:
    one, other = inputs
    if isinstance(one, Form) and isinstance(other, Form):
        return forms.times(*pair(inputs)) if one is not other else forms.square(one)
    found, factor = (one, other) if isinstance(one, Form) else (other, one)
    factor = jnp.broadcast_to(
        jnp.asarray(factor, float), np.broadcast_shapes(found.shape, np.shape(factor))
    )
    return forms.scale(broadcast(found, factor.shape), factor)


def _divide(inputs: list, params: dict) -> Form:
    one, other = inputs
    if isinstance(other, Form):
        return _multiply([one, curves.reciprocal(other)], params)
    other = jnp.asarray(other, float)
    zero = other == 0
    found = _multiply([one, 1 / jnp.where(zero, 1.0, other)], params)
    found = curves.choose(jnp.broadcast_to(zero, found.shape), curves.unknown(found), found)
    return forms.widen(found, 4 * OWN * jnp.where(jnp.isfinite(found.size), found.size, 0.0))


def _power(inputs: list, _: dict) -> Form:
    base, exponent = inputs
    if (
        not isinstance(exponent, Form)
        and np.size(exponent) == 1
        and isinstance(exponent, float | np.ndarray | np.generic | int)
    ):
        return curves.power(base, float(np.asarray(exponent).reshape(())))
    base, exponent = pair(inputs)
    return curve(forms.times(exponent, curve(base, CURVES["log"])), CURVES["exp"])


def _stepped(function: Callable) -> Callable[[list, dict], Form]:
    def step(inputs: list, _: dict) -> Form:
        one = inputs[0]
        found = forms.interval(function(one.least), function(one.most), one.directions)
        return curves.choose(one.lost, curves.unknown(one), found)

    return step


def _converted(inputs: list, params: dict) -> Form:
    one, kind = inputs[0], np.dtype(params["new_dtype"])
    if kind == np.dtype(bool):
        zero = forms.constant(jnp.zeros(one.shape), one.directions)
        return choices.compared("ne")([one, zero], params)
    if kind.kind != "f":
        raise NotEnclosedError(
            "rounding to whole numbers is not enclosed; rewrite the score without it"
        )
    if kind.itemsize < 8:
        limit = jnp.finfo(kind)
        fits = one.size < float(limit.max)
        give = float(limit.eps) * jnp.where(fits, one.size, 0.0) + float(limit.tiny)
        return curves.choose(fits, forms.widen(one, give), curves.unknown(one))
    return one


def _summed(inputs: list, params: dict) -> Form:
    one, axes = inputs[0], tuple(params["axes"])
    count = int(np.prod([one.shape[axis] for axis in axes]))
    give = (count + 1) * (OWN + params["unit"]) * jnp.sum(one.terms, axes)
    reach = (count + 1) * (OWN + params["unit"]) * jnp.sum(one.size, axes)
    reach = jnp.where(jnp.isfinite(reach), reach, 0.0)
    return forms.form(
        jnp.sum(one.slope, axes),
        jnp.sum(one.low, axes) - give,
        jnp.sum(one.high, axes) + give,
        jnp.sum(one.least, axes) - reach,
        jnp.sum(one.most, axes) + reach,
    )


def _multiplied(inputs: list, params: dict) -> Form:
    one = inputs[0]
    if len(params["axes"]) != 1:
        raise NotEnclosedError(
            "a product over several axes at once is not enclosed; multiply along one axis at a time"
        )
    return reduce(forms.times, unstacked(one, params["axes"][0]))


def _furthest(function: Callable) -> Callable[[list, dict], Form]:
    def furthest(inputs: list, params: dict) -> Form:
        one, axes = inputs[0], tuple(params["axes"])
        found = forms.interval(function(one.least, axes), function(one.most, axes), one.directions)
        return curves.choose(jnp.any(one.lost, axes), curves.unknown(found), found)

    return furthest


def _curved(name: str) -> Callable[[list, dict], Form]:
    return lambda inputs, _: curve(inputs[0], CURVES[name])


def _clamped(inputs: list, params: dict) -> Form:
    low, one, high = inputs
    return curves.minimum(*pair([curves.maximum(*pair([one, low])), high]))


def _tangent(inputs: list, params: dict) -> Form:
    one = inputs[0]
    return forms.times(curves.wave(one, 0.0), curves.reciprocal(curves.wave(one, np.pi / 2)))


def _product(inputs: list, params: dict) -> Form:
    """A product of two matrices, one of which is plain numbers."""
    if all(isinstance(value, Form) for value in inputs):
        raise NotEnclosedError(
            "a product of two matrices that both depend on the point is not enclosed; rewrite the score "
            "without it"
        )
    place = 0 if isinstance(inputs[0], Form) else 1
    one, matrix = inputs[place], jnp.asarray(inputs[1 - place], float)

    def product(values: Array, factor: Array) -> Array:
        pair = (values, factor) if place == 0 else (factor, values)
        return jax.lax.dot_general(*pair, params["dimension_numbers"])

    size = jnp.abs(matrix)
    middle, room = 0.5 * (one.low + one.high), 0.5 * (one.high - one.low)
    centre, radius = one.middle, 0.5 * (one.most - one.least)
    terms = matrix.size + 2
    give = terms * (OWN + params["unit"]) * product(one.terms + one.size, size) + TINY
    slope = jax.vmap(lambda s: product(s, matrix), in_axes=-1, out_axes=-1)(one.slope)
    height, wide = product(middle, matrix), product(room, size) + give
    plain, around = product(centre, matrix), product(radius, size) + give
    return forms.form(slope, height - wide, height + wide, plain - around, plain + around)


OPERATIONS: dict[str, Callable[[list, dict], Form]] = {
    "add": lambda inputs, _: forms.add(*pair(inputs)),
    "add_any": lambda inputs, _: forms.add(*pair(inputs)),
    "sub": lambda inputs, _: forms.add(*pair(inputs), -1.0),
    "neg": lambda inputs, _: curves.negative(inputs[0]),
    "mul": _multiply,
    "div": _divide,
    "pow": _power,
    "integer_pow": lambda inputs, params: curves.power(inputs[0], params["y"]),
    "square": lambda inputs, _: forms.square(inputs[0]),
    "max": lambda inputs, _: curves.maximum(*pair(inputs)),
    "min": lambda inputs, _: curves.minimum(*pair(inputs)),
    "clamp": _clamped,
    "sin": lambda inputs, _: curves.wave(inputs[0], 0.0),
    "cos": lambda inputs, _: curves.wave(inputs[0], np.pi / 2),
    "tan": _tangent,
    "rsqrt": lambda inputs, _: curves.reciprocal(curve(inputs[0], CURVES["sqrt"])),
    "floor": _stepped(jnp.floor),
    "ceil": _stepped(jnp.ceil),
    "sign": _stepped(jnp.sign),
    "select_n": choices.selected,
    "convert_element_type": _converted,
    "reduce_sum": _summed,
    "reduce_prod": _multiplied,
    "reduce_max": _furthest(jnp.max),
    "reduce_min": _furthest(jnp.min),
    "dot_general": _product,
    "not": choices.negated,
    "and": choices.joined(jnp.minimum),
    "or": choices.joined(jnp.maximum),
    "stop_gradient": lambda inputs, _: inputs[0],
    **{name: choices.compared(name) for name in ("gt", "ge", "lt", "le", "eq", "ne")},
    **{name: _curved(name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "tanh")},
    **{name: _curved(name) for name in ("logistic", "atan", "abs")},
}
