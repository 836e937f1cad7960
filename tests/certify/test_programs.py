"""Random formulas over boxes against dense samples, and what has to be refused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn.certify.enclosures import forms
from prbnn.certify.enclosures.forms import Form
from prbnn.certify.enclosures.programs import enclose
from prbnn.errors import NotEnclosedError
from prbnn.rules.expressions import FUNCTIONS, parse

NAMES = ("a", "b")
POINTS = 400


class NoNetwork:
    def values(self, x: Form) -> Form:
        raise AssertionError("no network is asked here")

    rates = values


def over(function: Any, low: Any, high: Any) -> Form:
    """A traced function of the inputs over a box, in float64; ends with two axes are many boxes."""
    with jax.enable_x64(True):
        low, high = jnp.asarray(low, float), jnp.asarray(high, float)
        inputs = low.shape[-1]
        program = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((inputs,), jnp.float64))

        def one(low: jax.Array, high: jax.Array) -> Form:
            found = enclose(program, [forms.box(low, high)], NoNetwork())[0]
            if not isinstance(found, Form):
                found = forms.constant(jnp.asarray(found, float), inputs)
            return found

        with jax.disable_jit():
            found = one(low, high) if low.ndim == 1 else jax.vmap(one)(low, high)
        return jax.tree.map(np.asarray, found)


def over_each(function: Any, boxes: Sequence[tuple]) -> Iterator[tuple[Form, Any, Any]]:
    """The same over each box, with its ends; all are enclosed side by side."""
    found = over(function, *zip(*boxes, strict=True))
    for k, (low, high) in enumerate(boxes):
        yield jax.tree.map(lambda a, k=k: a[k], found), low, high


@np.errstate(all="ignore")
def outside(found: Form, function: Any, low: Any, high: Any, seed: int = 0) -> str:
    """Where sampled values, in numpy, leave the interval or the line; "" where they do not."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    t = np.random.default_rng(seed).uniform(-1, 1, (POINTS, len(low)))
    t[: POINTS // 4] = np.sign(t[: POINTS // 4])
    x = np.clip(low * (0.5 - 0.5 * t) + high * (0.5 + 0.5 * t), low, high)
    values = np.broadcast_to(np.asarray(function(x.T), float), (POINTS,))
    parts = [np.asarray(part, float) for part in (found.least, found.most, found.low, found.high)]
    least, most, below, above = (part.reshape(()) for part in parts)
    if np.isnan(least) or np.isnan(most):
        return f"an end is no number: {least}, {most}"
    lost = np.isinf(least) and np.isinf(most)
    wrong = ~((least <= values) & (values <= most)) & ~lost
    if not lost and np.isfinite(below) and np.isfinite(above):
        # t is not exactly where the point was rounded to
        along = t @ np.asarray(found.slope, float).reshape(-1)
        wide = (high - low)[high > low]
        moved = 1e-15 * np.max(np.abs(low) + np.abs(high)) / (wide.min() if wide.size else np.inf)
        own = 1e-14 * (np.abs(along) + np.abs(below) + np.abs(above) + np.abs(values))
        own = own + min(moved, 2.0) * np.sum(np.abs(found.slope))
        wrong |= ~((along + below - own <= values) & (values <= along + above + own))
    if not wrong.any():
        return ""
    k = int(np.argmax(wrong))
    return f"{x[k]} -> {values[k]!r}, not in [{least!r}, {most!r}] or a line + [{below}, {above}]"


# --- formulas ------------------------------------------------------------------------------


def formula(generator: np.random.Generator, depth: int) -> str:
    """A random formula of every allowed kind."""
    if depth == 0 or generator.random() < 0.1:
        number = f"{generator.choice([0.0, 0.5, 1.0, 2.0, 3.7, 100.0]):g}"
        return str(generator.choice([*NAMES, *NAMES, number]))

    def part() -> str:
        return formula(generator, depth - 1)

    kind = generator.integers(10)
    if kind < 3:
        return f"({part()} {generator.choice(['+', '-', '*', '/'])} {part()})"
    if kind == 3:
        power = generator.choice(["2", "3", "4", "-1", "-2", "-3", "0.5", "1.5", "-0.5", "0", "b"])
        return f"({part()}) ** ({power})"
    if kind == 4:
        sign = generator.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"where({part()} {sign} {part()}, {part()}, {part()})"
    name = str(generator.choice(sorted(FUNCTIONS)))
    fewest = FUNCTIONS[name][1]
    return f"{name}({', '.join(part() for _ in range(fewest))})"


BOXES = (
    ([0.5, 1.0], [0.5, 1.0]),
    ([0.1, 0.2], [2.0, 3.0]),
    ([-1.0, -2.0], [1.5, 0.5]),
    ([0.0, 0.0], [1.0, 1e-9]),
    ([-1e-12, 1e3], [1e-12, 1e3 + 1e-3]),
    ([-30.0, 1e-8], [40.0, 5.0]),
    ([1e6, -1e6], [1e6 + 1, -1e6 + 2]),
    ([1e-300, 1e150], [1e-200, 1e151]),
)


def wrong_formulas(count: int, seed: int = 0) -> list[str]:
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        text = formula(generator, int(generator.integers(1, 4)))
        try:
            expression = parse(text, NAMES)
        except ValueError:
            continue  # constants that are not finite
        low, high = BOXES[number % len(BOXES)]

        def traced(x: Any, expression: Any = expression) -> Any:
            return jnp.asarray(expression.evaluate(dict(zip(NAMES, x, strict=True)), jnp), float)

        said = outside(
            over(lambda x, f=traced: f(x), low, high),
            lambda x, e=expression: e.evaluate(dict(zip(NAMES, x, strict=True))),
            low,
            high,
            number,
        )
        if said:
            found.append(f"{text} over {low}, {high}: {said}")
    return found


def test_random_formulas_are_enclosed() -> None:
    assert not wrong_formulas(20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_very_many_random_formulas_are_enclosed(seed: int) -> None:
    assert not wrong_formulas(1500, seed)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_of_the_formulas_is_enclosed(name: str) -> None:
    operands = ("a", "b", "0.5")[: FUNCTIONS[name][1]]
    expression = parse(f"{name}({', '.join(operands)})", NAMES)
    for found, low, high in over_each(
        lambda x: jnp.asarray(expression.evaluate(dict(zip(NAMES, x, strict=True)), jnp)) * 1.0,
        BOXES,
    ):
        said = outside(
            found,
            lambda x: expression.evaluate(dict(zip(NAMES, x, strict=True))) * 1.0,
            low,
            high,
        )
        assert not said, f"over {low}, {high}: {said}"


# --- where a formula has no value ----------------------------------------------------------

NONE = {
    "log(a)": ([-1.0, 0.0], [1.0, 1.0]),
    "log(0 * a)": ([1.0, 0.0], [2.0, 1.0]),
    "maximum(log(a), 0)": ([-2.0, 0.0], [-1.0, 1.0]),
    "minimum(log(a), 0)": ([-2.0, 0.0], [1.0, 1.0]),
    "clip(sqrt(a), 0, 1)": ([-2.0, 0.0], [1.0, 1.0]),
    "0 * log(a)": ([-2.0, 0.0], [1.0, 1.0]),
    "log(a) ** 2": ([-2.0, 0.0], [1.0, 1.0]),
    "sin(log(a))": ([-2.0, 0.0], [1.0, 1.0]),
    "sign(log(a))": ([-2.0, 0.0], [1.0, 1.0]),
    "tanh(sqrt(a))": ([-2.0, 0.0], [1.0, 1.0]),
    "a / (b - b)": ([0.0, 1.0], [0.0, 1.0]),
    "sin(exp(a * 1000))": ([0.5, 0.0], [1.0, 1.0]),
    "0 * exp(1000 * a)": ([0.5, 0.0], [1.0, 1.0]),
    "exp(1000 * a) - exp(1000 * a)": ([0.5, 0.0], [1.0, 1.0]),
    "a ** 0.5": ([-1.0, 0.0], [1.0, 1.0]),
    "a ** b": ([-1.0, 0.0], [1.0, 1.0]),
    "1 / a": ([0.0, 0.0], [1.0, 1.0]),
    "(a * 1e-200) ** -2": ([0.0, 0.0], [1.0, 1.0]),
}


@pytest.mark.parametrize("text", NONE)
def test_what_may_be_no_number_has_no_bound(text: str) -> None:
    expression = parse(text, NAMES)
    found = over(lambda x: expression.evaluate(dict(zip(NAMES, x, strict=True)), jnp), *NONE[text])
    assert np.isinf(found.least) and np.isinf(found.most), (found.least, found.most)


def test_division_by_a_stated_zero_has_no_bound() -> None:
    found = over(lambda x: x[0] / jnp.zeros(()), [0.0], [0.0])
    assert np.isinf(found.least) and np.isinf(found.most)


def test_the_largest_of_several_is_not_told_where_one_is_no_number() -> None:
    found = over(lambda x: jnp.max(jnp.stack([jnp.log(x[0]), x[1]])), [-2.0, 1.0], [-1.0, 2.0])
    assert np.isinf(found.least) and np.isinf(found.most)


def test_a_question_whether_it_is_a_number_stays_open_where_it_may_be_none() -> None:
    found = over(lambda x: jnp.where(jnp.isnan(jnp.log(x[0])), -1.0, 1.0), [-2.0, 0.0], [-1.0, 1.0])
    assert found.least <= -1


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal"])
def test_a_comparison_of_equal_numbers_is_decided_as_it_is(name: str) -> None:
    """At 0, where a difference has no rounding that would leave it open."""
    compare = getattr(jnp, name)
    found = over(lambda x: jnp.where(compare(x[0], 0.0), 1.0, 0.0), [0.0], [0.0])
    assert found.least == found.most == float(name.endswith("equal"))


def test_a_fill_value_that_is_no_number_is_no_bound() -> None:
    found = over(lambda x: x.at[jnp.array([7])].get(mode="fill")[0], [0.0, 0.0], [1.0, 1.0])
    assert np.isinf(found.least) and np.isinf(found.most)


def test_square_roots_are_enclosed_from_0_on() -> None:
    found = over(lambda x: jnp.sqrt(x[0]) + x[0] ** 0.7, [0.0], [1.0])
    assert -1e-9 < found.least <= 0 and 2 <= found.most < 2 + 1e-9


# --- operations in float64 against numpy ---------------------------------------------------

EDGES = (
    (0.0, 0.0),
    (1.0, 1.0),
    (0.0, 1.0),
    (-1.0, 0.0),
    (-1.0, 1.0),
    (-1e-300, 1e-300),
    (-1e-16, 1e-16),
    (1 - 1e-15, 1 + 1e-15),
    (-30.0, 30.0),
    (5.0, 1e3),
    (-1e3, -5.0),
    (-745.0, 709.0),
    (1e-300, 1e300),
    (1e100, 1e308),
    (-8e307, 8e307),
    (19.0, 25.0),
    (3.14, 3.15),
    (1e15, 1e15 + 3),
)

OPERATIONS = {
    "exp": (jnp.exp, np.exp),
    "expm1": (jnp.expm1, np.expm1),
    "log": (jnp.log, np.log),
    "log1p": (jnp.log1p, np.log1p),
    "sqrt": (jnp.sqrt, np.sqrt),
    "tanh": (jnp.tanh, np.tanh),
    "logistic": (jax.nn.sigmoid, lambda z: 0.5 * (1 + np.tanh(0.5 * z))),
    "atan": (jnp.arctan, np.arctan),
    "abs": (jnp.abs, np.abs),
    "relu": (lambda z: jnp.maximum(z, 0.0), lambda z: np.maximum(z, 0.0)),
    "sin": (jnp.sin, np.sin),
    "cos": (jnp.cos, np.cos),
    "tan": (jnp.tan, np.tan),
    "rsqrt": (jax.lax.rsqrt, lambda z: 1 / np.sqrt(z)),
    "floor": (jnp.floor, np.floor),
    "ceil": (jnp.ceil, np.ceil),
    "sign": (jnp.sign, np.sign),
    "square": (jnp.square, np.square),
    "reciprocal": (lambda z: 1 / z, lambda z: 1 / z),
    "clip": (lambda z: jnp.clip(z, -0.5, 2.0), lambda z: np.clip(z, -0.5, 2.0)),
    "product": (lambda z: z * (z - 1), lambda z: z * (z - 1)),
    "touching": (
        lambda z: jnp.maximum(jnp.minimum(z, 0.0), jnp.maximum(z, 0.0)),
        lambda z: np.maximum(np.minimum(z, 0.0), np.maximum(z, 0.0)),
    ),
    **{
        f"power {p}": (lambda z, p=p: z**p, lambda z, p=p: np.power(z, float(p)))
        for p in (2, 3, 4, 5, 17, 300, -1, -2, -3, -4)
    },
    **{
        f"power {p}": (lambda z, p=p: z**p, lambda z, p=p: np.power(z, p))
        for p in (0.5, 1.5, 2.5, -0.5, -1.5, 1 / 3, 1.000001)
    },
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_hold_at_awkward_intervals(name: str) -> None:
    traced, plain = OPERATIONS[name]
    boxes = [([low], [high]) for low, high in EDGES]
    for found, low, high in over_each(lambda x: traced(x[0]), boxes):
        said = outside(found, lambda x: plain(x[0]), low, high)
        assert not said, f"over [{low}, {high}]: {said}"


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons_of_intervals_that_touch(sign: str) -> None:
    expression = parse(f"where(a {sign} b, 1, -1) * 1.0", NAMES)
    boxes = [
        ([1.0, 1.0], [1.0, 1.0]),
        ([0.0, 1.0], [1.0, 2.0]),
        ([1.0, 0.0], [2.0, 1.0]),
        ([0.0, 0.0], [1.0, 1.0]),
        ([0.0, 2.0], [1.0, 3.0]),
        ([1.0, 1.0 + 2**-52], [1.0, 1.0 + 2**-52]),
    ]
    for found, low, high in over_each(
        lambda x: expression.evaluate(dict(zip(NAMES, x, strict=True)), jnp), boxes
    ):
        said = outside(
            found, lambda x: expression.evaluate(dict(zip(NAMES, x, strict=True))), low, high
        )
        assert not said, f"over {low}, {high}: {said}"


MATRIX = np.random.default_rng(0).normal(size=(3, 2))


@pytest.mark.parametrize("side", ["left", "right"])
def test_products_with_matrices_on_either_side(side: str) -> None:
    factor = MATRIX if side == "left" else MATRIX.T

    def product(x: Any, numerics: Any = jnp) -> Any:
        return (factor @ x if side == "left" else numerics.transpose(x) @ factor)[..., 1]

    low, high = [-1.0, 1e6], [2.0, 1e6 + 1]
    found = over(lambda x: (factor @ x if side == "left" else x @ factor)[1], low, high)
    assert not outside(found, lambda x: MATRIX[1] @ x, low, high)


def test_numbers_turned_into_float32_are_allowed_their_rounding() -> None:
    low, high = [-1.0, 1e-3], [2.0, 1e-3]
    found = over(lambda x: x[1].astype(jnp.float32).astype(float) * x[0], low, high)
    assert not outside(found, lambda x: np.float32(x[1]).astype(float) * x[0], low, high)
    assert np.isinf(over(lambda x: x[0].astype(jnp.float32), [1e38], [1e39]).most)
    with pytest.raises(NotEnclosedError, match="float16"):
        over(lambda x: x[0].astype(jnp.float16), [0.1], [0.1])


REFUSED = {
    "a while loop": lambda x: jax.lax.while_loop(lambda s: s < 3, lambda s: s + 1, x[0]),
    "a conditional": lambda x: jax.lax.cond(x[0] > 0, lambda s: s, lambda s: -s, x[1]),
    "a scan": lambda x: jax.lax.scan(lambda s, e: (s + e, s), x[0], x)[0],
    "a sort": lambda x: jnp.sort(x)[0],
    "an argument": lambda x: x[jnp.argmax(x)],
    "erf": lambda x: jax.lax.erf(x[0]),
    "lgamma": lambda x: jax.lax.lgamma(x[0]),
    "atan2": lambda x: jnp.arctan2(x[0], x[1]),
    "remainder": lambda x: jax.lax.rem(x[0], x[1]),
    "rounding": lambda x: jnp.round(x[0]),
    "to whole numbers": lambda x: x[0].astype(int) * 1.0,
    "a cumulative sum": lambda x: jnp.cumsum(x)[1],
    "asin": lambda x: jnp.arcsin(x[0]),
    "bits": lambda x: jax.lax.bitcast_convert_type(x[0], jnp.int64).astype(float),
    "an index that depends on the point": lambda x: x[jnp.where(x[0] > 0.5, 1, 0)],
    "a slice that depends on the point": lambda x: jax.lax.dynamic_slice(
        x, (jnp.where(x[0] > 0.5, 1, 0),), (1,)
    )[0],
    "a place to write that depends on the point": lambda x: x.at[jnp.where(x[0] > 0.5, 1, 0)].set(
        5.0
    )[0],
    "division of whole numbers": lambda x: (jnp.where(x[0] > 0.5, 3, 7) // 2) * 1.0,
    "two matrices": lambda x: x @ x,
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_known_is_refused(what: str) -> None:
    with pytest.raises(NotEnclosedError):
        over(REFUSED[what], [0.0, 1.0], [1.0, 2.0])


MOVES = {
    "pad": lambda x: jnp.pad(x, 1, constant_values=math.e)[0] + jnp.pad(x, 1)[1],
    "set": lambda x: x.at[1].set(x[0] ** 2)[1],
    "stack": lambda x: jnp.stack([x[1], x[0], 3.0 * x[0]])[2],
    "reverse": lambda x: x[::-1][0],
    "reshape": lambda x: x.reshape(2, 1).T[0, 1],
    "roll": lambda x: jnp.roll(x, 1)[0],
}
MOVED = {
    "pad": lambda x: math.e + x[0],
    "set": lambda x: x[0] ** 2,
    "stack": lambda x: 3.0 * x[0],
    "reverse": lambda x: x[1],
    "reshape": lambda x: x[1],
    "roll": lambda x: x[1],
}


@pytest.mark.parametrize("what", MOVES)
def test_numbers_moved_about_stay_enclosed(what: str) -> None:
    low, high = [-1.0, 2.0], [1.0, 5.0]
    assert not outside(over(MOVES[what], low, high), MOVED[what], low, high)
