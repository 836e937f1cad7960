"""No text but a formula gets through: hostile, empty and random text."""

from __future__ import annotations

import pickle
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prbnn.rules import expressions
from prbnn.rules.expressions import Expression, ExpressionError, parse

X = np.array([0.3, 0.9, 1.7, 2.5])

REFUSED_BY_NODE = [
    # attributes and reaching for the interpreter
    "x.__class__",
    "x.real",
    "().__class__.__bases__",
    "(1).__class__",
    "1.0.__class__",
    "log.__globals__",
    "log.__self__(x)",
    "x.__class__.__mro__",
    "numpy.log(x)",
    "os.system(x)",
    "__import__(x)",
    "__builtins__.eval(x)",
    "eval(x)",
    "exec(x)",
    "compile(x, x, x)",
    "open(x)",
    "getattr(x, y)",
    "globals()",
    "print(x)",
    "pow(9, 9)",
    # calls of what is no listed function
    "x(1)",
    "`log`(x)",
    "`x`(x)",
    "1(x)",
    "log(x)(y)",
    "(log)(x)(y)",
    "log(log)(x)",
    "(x + 1)(2)",
    "(lambda: x)()",
    "[log][0](x)",
    "add(x, y)",
    "logical_and(x, y)",
    # operands
    "log()",
    "log(x, y)",
    "sqrt(x, y)",
    "min(x)",
    "where(x, y)",
    "clip(x)",
    "clip(x, 1, 2, 3)",
    "pi()",
    "e(x)",
    "log(*x)",
    "min(*x, *y)",
    "min(x, *y)",
    "log(**x)",
    "log(x=1)",
    "min(x, y, out=x)",
    "min((x, y))",
    "min(i for i in x)",
    # containers, subscripts, text
    "x[0]",
    "x[0:1]",
    "x[...]",
    "[x]",
    "[i for i in x]",
    "{x}",
    "{x: 1}",
    "{i for i in x}",
    "{i: i for i in x}",
    "(i for i in x)",
    "(x, y)",
    "x, y",
    "()",
    "(x,)",
    "*x",
    "*x, y",
    "'x'",
    '"x"',
    "'''x'''",
    "'a' 'b'",
    "b'x'",
    "f'{x}'",
    "f'{x.__class__}'",
    "r'x'",
    "log('x')",
    # other expressions
    "lambda: 1",
    "lambda x: x",
    "(y := 5)",
    "log(y := 5)",
    "await x",
    "(await x)",
    "yield",
    "(yield x)",
    "(yield from x)",
    "x if y else 1",
    "x and y",
    "x or y",
    "not x",
    "x in y",
    "x not in y",
    "x is y",
    "x is not y",
    "x < y in x",
    "...",
    "1j",
    "1e3j",
    "x + 2j",
    "True",
    "False",
    "None",
    "x + True",
    "where(True, x, y)",
    "__debug__.real",
    # operators
    "x @ y",
    "x // y",
    "x % y",
    "x & y",
    "x | y",
    "x ^ y",
    "~x",
    "x << 1",
    "x >> 1",
    "x <> y",
    "x =< y",
    "x => y",
    # statements
    "x = 1",
    "x += 1",
    "x; y",
    "x\ny",
    "x\rimport os",
    "import os",
    "del x",
    "pass",
    "return x",
    "print x",
    # incomplete
    "x +",
    "+",
    "(x",
    "x)",
    "x) + (y",
    "log(x",
    "x y",
    "2x",
    "2 x",
    "x..y",
    "0777",
    "1__0",
    "class",
    "lambda",
    # numbers
    "1e999",
    "-1e999",
    "1e301",
    "9" * 400,
    "9" * 1000,
    "0x" + "f" * 300,
    "9**9**9",
    "9**9**9**9**9",
    "x + 9**9**9",
    "2 ** 10000",
    "1e300 * 1e300",
    "1 / 0",
    "0 ** -1",
    "log(0)",
    "log(-1)",
    "(-8) ** (1/3)",
    "where(1 > 2, 1 / 0, x)",
    # names that Python would silently change
    "ｌｏｇ(x)",
    "ｘ",
    "𝐱 + 1",
    "x + ﬁ",
    "µ",
    "ª",
    "ｅ",
    # size
    "(" * 500,
    "(" * 100 + "x" + ")" * 100 + " +",
    "-" * 500 + "1",
    "-" * 999 + "x",
    "-" * 32 + "x",
    "+".join("x" * 40),
    "+".join("x" * 300),
    "x**" * 300 + "x",
    "x<" * 300 + "x",
    "log(" * 150 + "x" + ")" * 150,
    "min(" + "x," * 300 + "x)",
    "x" * 1001,
    "x" * 1_000_000,
    "(" * 1_000_000,
    "x" + " " * 1_000 + "+ 1",
]

REFUSED_BY_CHARACTER = [
    "x # comment",
    "x \\",
    "x \\\n + 1",
    "(x\n+ 1)",
    "x\x00",
    "\x00",
    "x + \x00 1",
    "x\ty",
    "x\x0cy",
    "x\x1b[2J",
    "x\u00a0y",
    "x\u200b",
    "x\u202e",
    "x\ud800",
    "\udcff",
    "\ufeffx",
    "x²",
    "x − 1",
    "x × y",
    "x ÷ y",
    "x ≤ y",
    "√x",
    "π°",
    "x$",
    "?",
    "x!",
    "x == y ?",
    "😀",
    "`x",
    "x`",
    "`",
    "``",
    "x + ``",
    "`a` + `b",
    "`a```",
    "'''",
    '"',
    "f'{",
    "}",
    "]",
]

REFUSED_QUOTES = ["x`y`", "`x`y", "`x``y`", "`a` `b`", "`a`.real", "`a`[0]", "`a`()", "log`x`"]


def refused(text: str) -> str:
    """The message with which the text is refused; any other outcome fails the test."""
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert type(caught.value) is ExpressionError
    return str(caught.value)


def label(text: str) -> str:
    return ascii(text[:30])


@pytest.mark.parametrize("text", REFUSED_BY_NODE + REFUSED_BY_CHARACTER + REFUSED_QUOTES, ids=label)
def test_hostile_text_is_refused_quickly_with_a_short_helpful_message(text: str) -> None:
    began = time.perf_counter()
    message = refused(text)
    assert time.perf_counter() - began < 1.0
    assert "Expression refused: " in message
    assert "at character " in message
    assert message.endswith(expressions.ALLOWED)
    assert len(message) < 1_200


@pytest.mark.parametrize("text", REFUSED_BY_NODE, ids=label)
def test_the_list_of_nodes_refuses_even_without_the_list_of_characters(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_character = "".join(map(chr, range(128)))
    monkeypatch.setattr(expressions, "_PUNCTUATION", every_character)
    refused(text)


@pytest.mark.parametrize("text", ["", " ", "\n", "\t \n"])
def test_empty_text_is_refused(text: str) -> None:
    assert "has 0 characters" in refused(text)


@pytest.mark.parametrize("text", [None, 3, 2.5, b"x", ["x"], True])
def test_what_is_not_text_is_refused(text: Any) -> None:
    with pytest.raises(ExpressionError, match="needs text; received"):
        parse(text)


def test_nested_comparison_chains_do_not_repeat_work() -> None:
    text = "x"
    for _ in range(25):
        text = f"x<({text})<2"
    began = time.perf_counter()
    parse(text).evaluate({"x": X})
    assert time.perf_counter() - began < 1.0


def test_text_within_the_limits_is_accepted() -> None:
    assert parse("-" * 31 + "x").evaluate({"x": 1.0}) == -1.0
    assert parse("(" * 60 + "x" + ")" * 60).names == ("x",)
    assert parse(f"min({'x,' * 197}x)").names == ("x",)
    assert parse("x" + " " * 996 + "+ 1").evaluate({"x": 1.0}) == 2.0
    assert parse(" \n x + 1e300 \n") == parse("x + 1e300")


ALPHABET = "xye01259._ +-*/()<>=!,`^%&|~@#;:[]{}'\"\\\n\x00jJlogmin µｘ²é"
WORDS = ["x", "`a b`", "1", "2.5", "log", "min", "where", "(", ")", ",", "+", "-", "**", "<", "=="]
WORDS += ["*", "/", ".", "=", " if ", " else ", " for ", " in ", " not ", " and ", "lambda", "pi"]


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.text(ALPHABET, max_size=40),
        st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
    )
)
def test_random_text_is_refused_or_becomes_a_working_expression(text: str) -> None:
    try:
        expression = parse(text)
    except ExpressionError:
        return
    assert isinstance(expression, Expression)
    values = {name: X for name in expression.names}
    assert expression.evaluate(values).shape in {(), X.shape}
    assert pickle.loads(pickle.dumps(expression)) == expression
