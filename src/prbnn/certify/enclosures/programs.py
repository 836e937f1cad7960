"""A traced program over a box: what a rule computes, enclosed operation by operation.

A rule's score is traced by JAX into a list of operations. Each is replaced by one on `Form`s; truth
values are forms in [0, 1]. An operation that is not listed here is refused: a bound that might be wrong
is worse than none. What an operation in float32 rounds is enclosed with it. Drawn networks appear in the
program as two operations of their own, for values and slopes, so that whoever calls decides how they are
enclosed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array

from prbnn.certify.enclosures import curves, forms
from prbnn.certify.enclosures.curves import CURVES, curve
from prbnn.certify.enclosures.forms import Form
from prbnn.errors import NotEnclosedError
from prbnn.rules.scoring.drawn import Drawn, Frame


class Asked(Protocol):
    """How a drawn network is enclosed."""

    def values(self, x: Form) -> Form:
        """All outputs."""
        ...

    def rates(self, x: Form, index: int) -> Form:
        """Their slopes along an input."""
        ...

    def curvatures(self, x: Form, index: int, step: float) -> Form:
        """Their second differences over a step along an input, per step squared."""
        ...

    def rises(self, x: Form, index: int, step: float) -> Form:
        """Their differences over a step along an input, per step."""
        ...


value_of = core.Primitive("network_values")
rate_of = core.Primitive("network_rates")
curvature_of = core.Primitive("network_curvatures")
rise_of = core.Primitive("network_rises")


@value_of.def_abstract_eval
def _(x: Any, *, outputs: int) -> Any:
    return x.update(shape=(outputs,))


@rate_of.def_abstract_eval
def _(x: Any, *, index: int, outputs: int) -> Any:
    return x.update(shape=(outputs,))


@curvature_of.def_abstract_eval
def _(x: Any, *, index: int, step: float, outputs: int) -> Any:
    return x.update(shape=(outputs,))


@rise_of.def_abstract_eval
def _(x: Any, *, index: int, step: float, outputs: int) -> Any:
    return x.update(shape=(outputs,))


class Traced(Drawn):
    """A drawn function that leaves a mark in the program wherever it is asked."""

    def __init__(self, frame: Frame):
        super().__init__(_unseen, frame)

    def second(self, x: Array, index: int, step: float) -> Array:
        """The second difference over a step along an input, per step squared."""
        return curvature_of.bind(x, index=index, step=step, outputs=len(self.frame.outputs))

    def rise(self, x: Array, index: int, step: float) -> Array:
        """The difference over a step along an input, per step."""
        return rise_of.bind(x, index=index, step=step, outputs=len(self.frame.outputs))

    def values(self, x: Array) -> Array:
        outputs = len(self.frame.outputs)
        return self._remember(("value", id(x)), x, lambda: value_of.bind(x, outputs=outputs))

    def rates(self, x: Array, index: int | Array) -> Array:
        outputs = len(self.frame.outputs)
        if not isinstance(index, int | np.integer):
            raise NotEnclosedError("slopes along several steps at once are not enclosed")
        return self._remember(
            ("rate", id(x), index),
            x,
            lambda: rate_of.bind(x, index=int(index), outputs=outputs),
        )


def _unseen(x: Array) -> Array:
    raise NotEnclosedError("a drawn function is called in a way that leaves no mark")


def enclose(program: Any, arguments: list, network: Asked) -> list:
    """The results of a traced program (a closed jaxpr) for forms or plain arrays."""
    return _run(program.jaxpr, program.consts, arguments, network)


def _run(jaxpr: Any, consts: Any, arguments: list, network: Asked) -> list:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Any:
        if isinstance(variable, core.Literal):
            # 0.1 in float32 is not 0.1
            return np.asarray(variable.val, variable.aval.dtype)
        return known[variable]

    for equation in jaxpr.eqns:
        inputs = [read(variable) for variable in equation.invars]
        results = _apply(equation, inputs, network)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _apply(equation: Any, inputs: list, network: Asked) -> list:
    name, params = equation.primitive.name, equation.params
    inner = params.get("jaxpr") or params.get("call_jaxpr")
    if name in ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "core_call"):
        consts = getattr(inner, "consts", ())
        return _run(getattr(inner, "jaxpr", inner), consts, inputs, network)
    if name == "custom_linear_solve":
        return _solved(params, inputs, network)
    if name == "network_values":
        return [network.values(_as_form(inputs[0], inputs))]
    if name == "network_rates":
        return [network.rates(_as_form(inputs[0], inputs), params["index"])]
    if name == "network_rises":
        return [network.rises(_as_form(inputs[0], inputs), params["index"], params["step"])]
    if name == "network_curvatures":
        return [network.curvatures(_as_form(inputs[0], inputs), params["index"], params["step"])]
    if not any(isinstance(value, Form) for value in inputs):
        results = equation.primitive.bind(*inputs, **params)
        return list(results) if equation.primitive.multiple_results else [results]
    if any(_kind(variable).kind in "iu" for variable in equation.outvars) or any(
        _kind(variable).kind in "iu" and isinstance(value, Form)
        for variable, value in zip(equation.invars, inputs, strict=True)
    ):
        raise NotEnclosedError(
            f"{name!r} on whole numbers that depend on the point is not enclosed"
        )
    if name in ("eq", "ne") and equation.invars[0] is equation.invars[1]:
        # how programs ask whether a number is one
        same = jnp.full(inputs[0].shape, name == "eq")
        lost = inputs[0].lost
        return [_truth(same & ~lost, same | lost, inputs[0].directions)]
    if name == "unstack":
        return _parts(inputs[0], params["axis"])
    if name in STRUCTURAL:
        return [_moved(equation, inputs)]
    if name not in OPERATIONS:
        raise NotEnclosedError(f"the operation {name!r} is not one that can be enclosed")
    kind = _kind(equation.outvars[0])
    if kind.kind != "b" and kind not in SHARES:
        raise NotEnclosedError(f"{name!r} in {kind} is not enclosed")
    found = OPERATIONS[name](inputs, {**params, "unit": 0.0 if kind.kind == "b" else SHARES[kind]})
    return [found if kind.kind == "b" or name in EXACT else _rounded(found, name, params, kind)]


def _solved(params: dict, inputs: list, network: Asked) -> list:
    """What runs of a linear solve is the solver: its own numbers, and then the right-hand side."""
    lengths, solve = params["const_lengths"], params["jaxprs"].solve
    start = lengths.matvec + lengths.vecmat
    right = inputs[sum(lengths) :]
    arguments = [*inputs[start : start + lengths.solve], *right]
    return _run(solve.jaxpr, solve.consts, arguments, network)


# what deployed arithmetic rounds, as a share of a result; of float64 see `forms.OWN`
SHARES = {np.dtype("float32"): 2.0**-23, np.dtype("float64"): 0.0}
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


def _rounded(found: Form, name: str, params: dict, kind: np.dtype) -> Form:
    """A result as deployed: libm's and XLA's functions are off by some units, products by one each."""
    share = SHARES[kind]
    if not share:
        return found
    if name not in ELEMENTARY:
        share = 16 * share * max(1, abs(params.get("y", 1)))
    limit = jnp.finfo(kind)
    fits = found.size * (1 + share) < float(limit.max)
    give = share * jnp.where(fits, found.size, 0.0) + float(limit.tiny)
    return curves.choose(fits, forms.widen(found, give), curves.unknown(found))


def _kind(variable: Any) -> np.dtype:
    return np.dtype(variable.aval.dtype)


def _as_form(value: Any, inputs: list, like: Form | None = None) -> Form:
    if isinstance(value, Form):
        return value
    like = like or next((other for other in inputs if isinstance(other, Form)), None)
    return forms.constant(jnp.asarray(value, float), 1 if like is None else like.directions)


# operations that only move numbers about: the same for a form's every part
STRUCTURAL = frozenset(
    (
        *("slice", "squeeze", "reshape", "broadcast_in_dim", "transpose", "rev", "gather", "pad"),
        *("dynamic_slice", "dynamic_update_slice", "scatter", "concatenate", "stack", "copy"),
        *("expand_dims",),
    )
)


def _moved(equation: Any, inputs: list) -> Form:
    like = next(value for value in inputs if isinstance(value, Form))
    # indices are whole numbers and stay as they are
    parts = [
        value
        if isinstance(value, Form) or _whole(value)
        else forms.constant(jnp.asarray(value, float), like.directions)
        for value in inputs
    ]

    def moved(pick: Callable[[Form], Array]) -> Array:
        chosen = [pick(part) if isinstance(part, Form) else part for part in parts]
        return equation.primitive.bind(*chosen, **equation.params)

    slopes = [jnp.moveaxis(part.slope, -1, 0) if isinstance(part, Form) else part for part in parts]
    axes = [0 if isinstance(part, Form) else None for part in parts]
    slope = jax.vmap(lambda *p: equation.primitive.bind(*p, **equation.params), axes)(*slopes)
    return Form(
        jnp.moveaxis(slope, 0, -1),
        *forms.ends(moved(lambda part: part.low), moved(lambda part: part.high)),
        *forms.ends(moved(lambda part: part.least), moved(lambda part: part.most)),
    )


def _parts(whole: Form, axis: int) -> list[Form]:
    """The forms along an axis, one by one; its slope has a last axis more, of directions."""

    def part(place: int) -> Form:
        return jax.tree.map(lambda leaf: jnp.take(leaf, place, axis=axis), whole)

    return [part(place) for place in range(whole.shape[axis])]


def _whole(value: Any) -> bool:
    return not isinstance(value, Form) and np.issubdtype(jnp.asarray(value).dtype, np.integer)


def _pair(inputs: list) -> tuple[Form, Form]:
    one, other = (_as_form(value, inputs) for value in inputs)
    shape = np.broadcast_shapes(one.shape, other.shape)
    return _wide(one, shape), _wide(other, shape)


def _wide(one: Form, shape: tuple[int, ...]) -> Form:
    if one.shape == shape:
        return one
    ends = (jnp.broadcast_to(a, shape) for a in (one.low, one.high, one.least, one.most))
    return Form(jnp.broadcast_to(one.slope, (*shape, one.directions)), *ends)


def _multiply(inputs: list, _: dict) -> Form:
    one, other = inputs
    if isinstance(one, Form) and isinstance(other, Form):
        return forms.times(*_pair(inputs)) if one is not other else forms.square(one)
    found, factor = (one, other) if isinstance(one, Form) else (other, one)
    factor = jnp.broadcast_to(
        jnp.asarray(factor, float), np.broadcast_shapes(found.shape, np.shape(factor))
    )
    return forms.scale(_wide(found, factor.shape), factor)


def _divide(inputs: list, params: dict) -> Form:
    one, other = inputs
    if isinstance(other, Form):
        return _multiply([one, curves.reciprocal(other)], params)
    other = jnp.asarray(other, float)
    zero = other == 0
    found = _multiply([one, 1 / jnp.where(zero, 1.0, other)], params)
    found = curves.choose(jnp.broadcast_to(zero, found.shape), curves.unknown(found), found)
    return forms.widen(found, 4 * forms.OWN * jnp.where(jnp.isfinite(found.size), found.size, 0.0))


def _power(inputs: list, _: dict) -> Form:
    base, exponent = inputs
    if (
        not isinstance(exponent, Form)
        and np.size(exponent) == 1
        and isinstance(exponent, float | np.ndarray | np.generic | int)
    ):
        return curves.power(base, float(np.asarray(exponent).reshape(())))
    base, exponent = _pair(inputs)
    return curve(forms.times(exponent, curve(base, CURVES["log"])), CURVES["exp"])


def _truth(surely: Array, maybe: Array, directions: int) -> Form:
    return forms.interval(surely.astype(float), maybe.astype(float), directions)


def _compared(name: str) -> Callable[[list, dict], Form]:
    def compare(inputs: list, _: dict) -> Form:
        one, other = _pair(inputs)
        gap = forms.add(one, other, -1.0)
        least, most = gap.least, gap.most
        surely, maybe = {
            "gt": (least > 0, most > 0),
            "ge": (least >= 0, most >= 0),
            "lt": (most < 0, least < 0),
            "le": (most <= 0, least <= 0),
            "eq": (
                (one.least == one.most) & (other.least == other.most) & (one.least == other.least),
                (least <= 0) & (most >= 0),
            ),
            "ne": (
                (least > 0) | (most < 0),
                ~(
                    (one.least == one.most)
                    & (other.least == other.most)
                    & (one.least == other.least)
                ),
            ),
        }[name]
        return _truth(surely, maybe, gap.directions)

    return compare


def _selected(inputs: list, _: dict) -> Form:
    which, *cases = inputs
    if len(cases) != 2:
        raise NotEnclosedError("a choice between more than two cases is not enclosed")
    like = next(value for value in inputs if isinstance(value, Form))
    shape = np.broadcast_shapes(*(v.shape if isinstance(v, Form) else np.shape(v) for v in inputs))
    otherwise, chosen = (_wide(_as_form(case, inputs, like), shape) for case in cases)
    if not isinstance(which, Form):
        return curves.choose(jnp.broadcast_to(which, shape).astype(bool), chosen, otherwise)
    which = _wide(which, shape)
    either = curves.hull(chosen, otherwise)
    return curves.choose(
        which.least > 0.5, chosen, curves.choose(which.most < 0.5, otherwise, either)
    )


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
        return _compared("ne")([one, zero], params)
    if kind.kind != "f":
        raise NotEnclosedError("rounding to whole numbers is not enclosed")
    if kind.itemsize < 8:
        limit = jnp.finfo(kind)
        fits = one.size < float(limit.max)
        give = float(limit.eps) * jnp.where(fits, one.size, 0.0) + float(limit.tiny)
        return curves.choose(fits, forms.widen(one, give), curves.unknown(one))
    return one


def _summed(inputs: list, params: dict) -> Form:
    one, axes = inputs[0], tuple(params["axes"])
    count = int(np.prod([one.shape[axis] for axis in axes]))
    give = (count + 1) * (forms.OWN + params["unit"]) * jnp.sum(one.terms, axes)
    reach = (count + 1) * (forms.OWN + params["unit"]) * jnp.sum(one.size, axes)
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
        raise NotEnclosedError("a product over several axes at once is not enclosed")
    axis = params["axes"][0]
    parts = [jax.tree.map(lambda a, k=k: jnp.take(a, k, axis), one) for k in range(one.shape[axis])]
    return reduce(forms.times, parts)


def _furthest(function: Callable) -> Callable[[list, dict], Form]:
    def furthest(inputs: list, params: dict) -> Form:
        one, axes = inputs[0], tuple(params["axes"])
        found = forms.interval(function(one.least, axes), function(one.most, axes), one.directions)
        return curves.choose(jnp.any(one.lost, axes), curves.unknown(found), found)

    return furthest


def _negated(inputs: list, _: dict) -> Form:
    return curves.negative(inputs[0])


def _not(inputs: list, _: dict) -> Form:
    one = inputs[0]
    return forms.interval(1 - one.most, 1 - one.least, one.directions)


def _truths(function: Callable) -> Callable[[list, dict], Form]:
    def joined(inputs: list, _: dict) -> Form:
        one, other = _pair(inputs)
        return forms.interval(
            function(one.least, other.least), function(one.most, other.most), one.directions
        )

    return joined


def _curved(name: str) -> Callable[[list, dict], Form]:
    return lambda inputs, _: curve(inputs[0], CURVES[name])


def _clamped(inputs: list, params: dict) -> Form:
    low, one, high = inputs
    return curves.minimum(*_pair([curves.maximum(*_pair([one, low])), high]))


def _tangent(inputs: list, params: dict) -> Form:
    one = inputs[0]
    return forms.times(curves.wave(one, 0.0), curves.reciprocal(curves.wave(one, np.pi / 2)))


def _product(inputs: list, params: dict) -> Form:
    """A product of matrices of which one is plain numbers."""
    if all(isinstance(value, Form) for value in inputs):
        raise NotEnclosedError(
            "a product of two matrices that both depend on the point is not enclosed"
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
    give = terms * (forms.OWN + params["unit"]) * product(one.terms + one.size, size) + forms.TINY
    slope = jax.vmap(lambda s: product(s, matrix), in_axes=-1, out_axes=-1)(one.slope)
    height, wide = product(middle, matrix), product(room, size) + give
    plain, around = product(centre, matrix), product(radius, size) + give
    return forms.form(slope, height - wide, height + wide, plain - around, plain + around)


OPERATIONS: dict[str, Callable[[list, dict], Form]] = {
    "add": lambda inputs, _: forms.add(*_pair(inputs)),
    "add_any": lambda inputs, _: forms.add(*_pair(inputs)),
    "sub": lambda inputs, _: forms.add(*_pair(inputs), -1.0),
    "neg": _negated,
    "mul": _multiply,
    "div": _divide,
    "pow": _power,
    "integer_pow": lambda inputs, params: curves.power(inputs[0], params["y"]),
    "square": lambda inputs, _: forms.square(inputs[0]),
    "max": lambda inputs, _: curves.maximum(*_pair(inputs)),
    "min": lambda inputs, _: curves.minimum(*_pair(inputs)),
    "clamp": _clamped,
    "sin": lambda inputs, _: curves.wave(inputs[0], 0.0),
    "cos": lambda inputs, _: curves.wave(inputs[0], np.pi / 2),
    "tan": _tangent,
    "rsqrt": lambda inputs, _: curves.reciprocal(curve(inputs[0], CURVES["sqrt"])),
    "floor": _stepped(jnp.floor),
    "ceil": _stepped(jnp.ceil),
    "sign": _stepped(jnp.sign),
    "select_n": _selected,
    "convert_element_type": _converted,
    "reduce_sum": _summed,
    "reduce_prod": _multiplied,
    "reduce_max": _furthest(jnp.max),
    "reduce_min": _furthest(jnp.min),
    "dot_general": _product,
    "not": _not,
    "and": _truths(jnp.minimum),
    "or": _truths(jnp.maximum),
    "stop_gradient": lambda inputs, _: inputs[0],
    **{name: _compared(name) for name in ("gt", "ge", "lt", "le", "eq", "ne")},
    **{name: _curved(name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "tanh")},
    **{name: _curved(name) for name in ("logistic", "atan", "abs")},
}
