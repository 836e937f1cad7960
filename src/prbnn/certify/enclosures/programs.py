"""A traced program over a box: what a rule computes, enclosed operation by operation.

JAX traces a rule's score into a list of operations (a jaxpr). Each is replaced by one on `Form`s
(`prbnn.certify.enclosures.operations`), which also encloses what it rounds in float32. Drawn networks
appear in the program as operations of their own, for values, slopes and differences, so that the caller
decides how they are enclosed (`Asked`).
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
    """How a drawn network is enclosed at a point ``x``, a form of the inputs as the network sees them."""

    def values(self, x: Form) -> Form:
        """All outputs of the response."""
        ...

    def rates(self, x: Form, index: int) -> Form:
        """Their slopes along input ``index``."""
        ...

    def curvatures(self, x: Form, index: int, step: float) -> Form:
        """Their second differences over a step along input ``index``, per step squared."""
        ...

    def rises(self, x: Form, index: int, step: float) -> Form:
        """Their differences over a step along input ``index``, per step."""
        ...


def _asked(name: str) -> core.Primitive:
    """A primitive of a point whose value the drawn network gives."""
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
    """A drawn function that becomes an operation of the program wherever it is called."""

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
    raise NotEnclosedError("a drawn function is called in a way that cannot be traced")


def enclose(program: Any, arguments: list, network: Asked) -> list:
    """The results of a traced program (a closed jaxpr).

    Arguments and results are forms, or plain arrays where they are the same all over the box.
    """
    return _run(program.jaxpr, program.consts, arguments, network)


def _run(jaxpr: Any, consts: Any, arguments: list, network: Asked) -> list:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Any:
        if isinstance(variable, core.Literal):
            # a literal has its own precision: 0.1 in float32 is not 0.1 in float64
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
            f"{name!r} on whole numbers that depend on the point is not enclosed; rewrite the score "
            "without it"
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
    """A linear solve, by the program of its solver, which reads its constants and the right-hand side."""
    lengths, solve = params["const_lengths"], params["jaxprs"].solve
    start = lengths.matvec + lengths.vecmat
    right = inputs[sum(lengths) :]
    arguments = [*inputs[start : start + lengths.solve], *right]
    return _run(solve.jaxpr, solve.consts, arguments, network)


def _kind(variable: Any) -> np.dtype:
    return np.dtype(variable.aval.dtype)
