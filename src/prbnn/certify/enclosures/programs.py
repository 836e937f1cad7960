"""A traced program over a box: what a rule computes, enclosed operation by operation.

A rule's score is traced by JAX into a list of operations. Each is replaced by one on `Form`s; truth
values are forms in [0, 1]. An operation that is not listed here is refused: a bound that might be wrong
is worse than none. What an operation in float32 rounds is enclosed with it. Drawn networks appear in the
program as two operations of their own, for values and slopes, so that whoever calls decides how they are
enclosed.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array

from prbnn.certify.enclosures import choices, operations, reshaping
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


def _asked(name: str) -> core.Primitive:
    """An operation of a point that stands for a question to the drawn network."""
    primitive = core.Primitive(name)
    primitive.def_abstract_eval(lambda x, *, outputs, **_: x.update(shape=(outputs,)))
    return primitive


value_of = _asked("network_values")
rate_of = _asked("network_rates")
curvature_of = _asked("network_curvatures")
rise_of = _asked("network_rises")
# the method of `Asked` that answers each
ANSWERS = {
    "network_values": "values",
    "network_rates": "rates",
    "network_curvatures": "curvatures",
    "network_rises": "rises",
}


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
    """The results of one operation of a program."""
    name, params = equation.primitive.name, equation.params
    inner = params.get("jaxpr") or params.get("call_jaxpr")
    if name in ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "core_call"):
        consts = getattr(inner, "consts", ())
        return _run(getattr(inner, "jaxpr", inner), consts, inputs, network)
    if name == "custom_linear_solve":
        return _solved(params, inputs, network)
    if name in ANSWERS:
        where = {key: value for key, value in params.items() if key != "outputs"}
        point = reshaping.as_form(inputs[0], inputs)
        return [getattr(network, ANSWERS[name])(point, **where)]
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
        # x == x is how programs ask whether x is NaN
        same = jnp.full(inputs[0].shape, name == "eq")
        lost = inputs[0].lost
        return [choices.truth(same & ~lost, same | lost, inputs[0].directions)]
    if name == "unstack":
        return reshaping.unstacked(inputs[0], params["axis"])
    if name in reshaping.STRUCTURAL:
        return [reshaping.moved(equation, inputs)]
    return [operations.applied(name, inputs, params, _kind(equation.outvars[0]))]


def _solved(params: dict, inputs: list, network: Asked) -> list:
    """What runs of a linear solve is the solver: its own numbers, and then the right-hand side."""
    lengths, solve = params["const_lengths"], params["jaxprs"].solve
    start = lengths.matvec + lengths.vecmat
    right = inputs[sum(lengths) :]
    arguments = [*inputs[start : start + lengths.solve], *right]
    return _run(solve.jaxpr, solve.consts, arguments, network)


def _kind(variable: Any) -> np.dtype:
    return np.dtype(variable.aval.dtype)
