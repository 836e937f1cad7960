"""Formulas in column names: right values, usable under jax, and messages that help."""

from __future__ import annotations

import doctest
import math
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn.rules import expressions
from prbnn.rules.expressions import Expression, ExpressionError, parse

X = np.array([0.3, 0.9, 1.7, 2.5])
Y = np.array([2.0, 0.5, 1.7, 0.1])

SAME_AS_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "log(x)": lambda x, y: np.log(x),
    "log10(x)": lambda x, y: np.log10(x),
    "log1p(x)": lambda x, y: np.log1p(x),
    "exp(x)": lambda x, y: np.exp(x),
    "expm1(x)": lambda x, y: np.expm1(x),
    "sqrt(x)": lambda x, y: np.sqrt(x),
    "abs(x - y)": lambda x, y: np.abs(x - y),
    "sin(x)": lambda x, y: np.sin(x),
    "cos(x)": lambda x, y: np.cos(x),
    "tan(x)": lambda x, y: np.tan(x),
    "arctan(x)": lambda x, y: np.arctan(x),
    "atan(x)": lambda x, y: np.arctan(x),
    "tanh(x)": lambda x, y: np.tanh(x),
    "sigmoid(x - y)": lambda x, y: 1 / (1 + np.exp(y - x)),
    "softplus(x - y)": lambda x, y: np.log(1 + np.exp(x - y)),
    "minimum(x, y)": lambda x, y: np.minimum(x, y),
    "min(x, y, 1)": lambda x, y: np.minimum(np.minimum(x, y), 1),
    "maximum(x, y)": lambda x, y: np.maximum(x, y),
    "max(x, y, 1, 0.2)": lambda x, y: np.maximum(np.maximum(x, y), 1),
    "where(x < y, x, -y)": lambda x, y: np.where(x < y, x, -y),
    "where(x - x, 1, 2)": lambda x, y: np.full(4, 2.0),
    "where(2 > 1, x, y)": lambda x, y: x,
    "clip(x, 0.5, y)": lambda x, y: np.clip(x, 0.5, y),
    "clip(1, x, y)": lambda x, y: np.minimum(np.maximum(1.0, x), y),
    "sign(x - y)": lambda x, y: np.sign(x - y),
    "floor(x)": lambda x, y: np.floor(x),
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "x ** y": lambda x, y: x**y,
    "+x": lambda x, y: x,
    "-x": lambda x, y: -x,
    "x < y": lambda x, y: x < y,
    "x <= y": lambda x, y: x <= y,
    "x > y": lambda x, y: x > y,
    "x >= y": lambda x, y: x >= y,
    "x == y": lambda x, y: x == y,
    "x != y": lambda x, y: x != y,
    "0.5 < x <= y": lambda x, y: (x > 0.5) & (x <= y),
    "0 < x < y < 3 != x": lambda x, y: (x < y) & (y < 3),
    "pi * x + e": lambda x, y: math.pi * x + math.e,
    # precedence and grouping
    "1 + 2*x ** 2": lambda x, y: 1 + 2 * (x**2),
    "-x ** 2": lambda x, y: -(x**2),
    "2 ** -x": lambda x, y: 2 ** (-x),
    "x ** y ** 2": lambda x, y: x ** (y**2),
    "x - y - 1": lambda x, y: (x - y) - 1,
    "x / y / 2": lambda x, y: (x / y) / 2,
    "x - (y - 1)": lambda x, y: x - (y - 1),
    "(1 + 2)*x": lambda x, y: 3 * x,
    "log(25*x + 1)/3 + 0.05": lambda x, y: np.log(25 * x + 1) / 3 + 0.05,
    # a comparison counts as 0 or 1 inside arithmetic
    "(x > 0.5) + (x > 1)": lambda x, y: (x > 0.5) * 1.0 + (x > 1) * 1.0,
    "-(x > 1)": lambda x, y: -((x > 1) * 1.0),
    "minimum(x > 0.5, y > 1)": lambda x, y: ((x > 0.5) & (y > 1)) * 1.0,
}


@pytest.mark.parametrize("text", SAME_AS_NUMPY)
def test_value_is_numpys_and_jax_agrees_under_jit_and_vmap(text: str) -> None:
    expression = parse(text, ["x", "y"])
    expected = SAME_AS_NUMPY[text](X, Y)
    received = expression.evaluate({"x": X, "y": Y})
    assert received.dtype == expected.dtype
    np.testing.assert_allclose(received, expected, rtol=1e-13, atol=1e-15)

    def with_jax(x: jax.Array, y: jax.Array) -> jax.Array:
        return expression.evaluate({"x": x, "y": y}, jnp)

    tolerances = {"rtol": 2e-5, "atol": 1e-5}
    columns = jnp.asarray(X), jnp.asarray(Y)
    np.testing.assert_allclose(jax.jit(with_jax)(*columns), expected, **tolerances)
    np.testing.assert_allclose(jax.vmap(with_jax)(*columns), expected, **tolerances)


def test_every_function_on_the_list_is_tried_above() -> None:
    tried = " ".join(SAME_AS_NUMPY)
    assert all(f"{name}(" in tried for name in expressions.FUNCTIONS)


SMOOTH = [text for text in SAME_AS_NUMPY if not any(mark in text for mark in "<>=!")]


@pytest.mark.parametrize("text", SMOOTH)
def test_gradient_matches_central_differences(text: str) -> None:
    expression = parse(text)
    column = {"x": 1.37, "y": 0.61}
    step = 1e-6
    above, below = (
        expression.evaluate({**column, "x": column["x"] + change}) for change in (step, -step)
    )

    def with_jax(x: jax.Array) -> jax.Array:
        return expression.evaluate({"x": x, "y": column["y"]}, jnp)

    received = jax.grad(with_jax)(column["x"])
    assert received == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("numerics", [np, jnp])
def test_sigmoid_and_softplus_are_stable_in_the_tails(numerics: Any) -> None:
    far = np.array([-1000.0, -30.0, 0.0, 30.0, 1000.0])
    sigmoid = parse("sigmoid(x)").evaluate({"x": far}, numerics)
    softplus = parse("softplus(x)").evaluate({"x": far}, numerics)
    np.testing.assert_allclose(sigmoid, [0, math.exp(-30), 0.5, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(softplus, [0, math.exp(-30), math.log(2), 30, 1000], rtol=1e-5)


@pytest.mark.parametrize("name", ["sigmoid", "softplus"])
def test_sigmoid_and_softplus_have_finite_gradients_in_the_tails(name: str) -> None:
    expression = parse(f"{name}(x)")
    gradient = jax.vmap(jax.grad(lambda x: expression.evaluate({"x": x}, jnp)))
    assert jnp.all(jnp.isfinite(gradient(jnp.array([-1000.0, 0.0, 1000.0]))))


@pytest.mark.parametrize("text", ["log(x)", "sqrt(x)", "x ** 0.5", "0 / (x - x)", "1 / (x - x)"])
def test_outside_the_domain_the_result_is_not_finite_and_nothing_warns(
    text: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert not np.any(np.isfinite(parse(text).evaluate({"x": [-1.0, -2.0]})))
    assert not recwarn.list


def test_whole_number_columns_are_computed_in_floats() -> None:
    assert parse("x ** -1").evaluate({"x": np.array([2, 4])}).tolist() == [0.5, 0.25]
    assert parse("x ** -1").evaluate({"x": jnp.array([2, 4])}, jnp).tolist() == [0.5, 0.25]
    assert parse("x + 1").evaluate({"x": np.array([True, False])}).tolist() == [2.0, 1.0]
    assert parse("x * 2").evaluate({"x": np.float32(0.1)}).dtype == np.float64


def test_jax_keeps_the_precision_of_its_columns() -> None:
    with jax.enable_x64(True):
        single, double = jnp.ones(2, jnp.float32), jnp.ones(2, jnp.float64)
        expression = parse("where(x > 0, pi*x + 0.1, sigmoid(x))")
        assert expression.evaluate({"x": single}, jnp).dtype == jnp.float32
        assert expression.evaluate({"x": double}, jnp).dtype == jnp.float64


@pytest.mark.parametrize("numerics", [np, jnp])
def test_a_formula_without_columns_gives_a_scalar_array(numerics: Any) -> None:
    received = parse("2**0.5 * 3").evaluate({}, numerics)
    assert received.shape == ()
    assert float(received) == pytest.approx(3 * math.sqrt(2))


def test_columns_broadcast() -> None:
    received = parse("x + y").evaluate({"x": np.zeros((3, 1)), "y": np.ones(2)})
    assert received.shape == (3, 2)


# --- names ---------------------------------------------------------------------------------


def test_names_come_in_order_of_appearance_without_repeats() -> None:
    assert parse("b*a + log(c)*b - `d d` + pi").names == ("b", "a", "c", "d d")
    assert parse("1 + 2").names == ()


@pytest.mark.parametrize(
    "name", ["wind speed", "T (°C)", "x'; import os", "µ", "in", "1", "_", "a#"]
)
def test_back_quotes_hold_any_column_name(name: str) -> None:
    expression = parse(f"`{name}` * 2 + `{name}`*other", [name, "other"])
    assert expression.names == (name, "other")
    assert expression.evaluate({name: [2.0], "other": [3.0]}).tolist() == [10.0]


def test_a_quoted_name_is_not_confused_with_underscores_or_neighbours() -> None:
    values = {"ab": 2.0, "cd": 3.0, "__": 5.0, "é": 7.0}
    expression = parse("é*`ab` + __*`cd` - `é`")
    assert expression.names == ("é", "ab", "__", "cd")
    assert expression.evaluate(values) == 7 * 2 + 5 * 3 - 7


def test_constants_give_way_to_columns_of_their_name() -> None:
    assert parse("pi*x", ["x"]).names == ("x",)
    as_column = parse("pi*x", ["pi", "x"])
    assert as_column.names == ("pi", "x")
    assert as_column.evaluate({"pi": 3.0, "x": 2.0}) == 6.0
    assert as_column != parse("pi*x")
    assert parse("`e` - exp(1)").evaluate({"e": math.e}) == 0.0
    with pytest.raises(ExpressionError, match="needs the column 'pi'"):
        as_column.evaluate({"x": 2.0})


def test_a_constant_that_turns_out_to_be_a_column_is_refused_not_guessed() -> None:
    with pytest.raises(ExpressionError, match="the constant 'e', which is also a column"):
        parse("e*x").evaluate({"e": 1.0, "x": 2.0})


def test_a_column_may_be_named_like_a_function() -> None:
    assert parse("floor(floor / 2)", ["floor"]).evaluate({"floor": 5.0}) == 2.0


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2*irradience", "did you mean 'irradiance'?"),
        ("2*Irradiance", "did you mean 'irradiance'?"),
        ("`wind sped`", "did you mean 'wind speed'?"),
        ("qqqq", "the columns are ['irradiance', 'wind speed']"),
        ("log + 1", "write log(...)"),
        ("lgo(irradiance)", "did you mean 'log'?"),
        ("ｌｏｇ(irradiance)", "did you mean 'log'?"),
        ("irradiance(2)", "write * before the bracket"),
        ("irradiance^2", "write ** for a power"),
        ("irradiance > 1 and irradiance < 2", "use where, minimum or maximum"),
        ("not irradiance", "use where, minimum or maximum"),
        ("1 if irradiance else 2", "use where, minimum or maximum"),
        ("irradiance // 2", "use floor(a/b)"),
        ("'wind speed'", "in `back-quotes`"),
        ("`wind speed", "close the back-quotes"),
        ("µ", "or write the column name in `back-quotes`"),
    ],
)
def test_the_message_says_what_to_do(text: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, ["irradiance", "wind speed"])
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("1 + x.real", "x.real"),
        ("é + `T (°C)`*x.real + é", "x.real"),
        ("`é` + y.real", "y.real"),
        ("x + log(é, 2)", "log(é, 2)"),
        ("x + 1e999", "1e999"),
        (f"min({'x,' * 90}y.real)", "y.real"),
        ("x + $", "$"),
    ],
)
def test_the_carets_stand_under_the_offending_fragment(text: str, fragment: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    lines = str(caught.value).splitlines()
    start, end = lines[2].index("^"), len(lines[2])
    assert lines[1][start:end] == fragment
    assert f"{fragment!r} " in lines[0]
    assert f"at character {text.index(fragment) + 1}:" in lines[0]


def test_a_missing_or_unusable_column_is_named() -> None:
    with pytest.raises(ExpressionError, match="needs the column 'speed'.*did you mean 'Speed'"):
        parse("speed + 1").evaluate({"Speed": 1.0})
    for numerics in (np, jnp):
        with pytest.raises(ExpressionError, match="Column 'x' needs an array of numbers"):
            parse("x + 1").evaluate({"x": ["no", "numbers"]}, numerics)


def test_columns_given_as_one_text_are_refused() -> None:
    with pytest.raises(ExpressionError, match="needs a list of names"):
        parse("x", "x")


# --- plain values --------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, ["x", "y"], ["x", "pi"], ("x",)])
def test_expressions_pickle_compare_hash_and_print(columns: list[str] | None) -> None:
    expression = parse(" pi*x + 1 ", columns)
    copy = pickle.loads(pickle.dumps(expression))
    assert copy == expression
    assert hash(copy) == hash(expression)
    assert eval(repr(expression)) == expression
    assert copy.evaluate({name: 2.0 for name in copy.names}) == expression.evaluate(
        {name: 2.0 for name in expression.names}
    )
    assert expression != parse("pi*x + 2", columns)


def test_columns_that_are_not_used_do_not_change_equality() -> None:
    assert parse("x + 1", ["x", "pi", "e"]) == parse("x + 1") == Expression("x + 1")


def test_a_tampered_pickle_is_checked_again_when_evaluated() -> None:
    tampered = pickle.loads(pickle.dumps(parse("x + 1")).replace(b"x + 1", b"x.a+1"))
    with pytest.raises(ExpressionError, match="Attribute"):
        tampered.evaluate({"x": 1.0})


def test_the_expression_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        parse("x").text = "y"  # type: ignore[misc]


def test_the_examples_in_the_docstrings_run() -> None:
    outcome = doctest.testmod(expressions)
    assert outcome.attempted >= 6
    assert outcome.failed == 0
