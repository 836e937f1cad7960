"""Reach for this when a rule's bound is text in column names, such as ``"log(25*x + 1)/3"``.

Rules come from files that other people wrote, so their text is never run as code. It passes two
allow-lists (of characters, then of syntax-tree nodes) into a small tree of numbers, column names
and known functions, which :meth:`Expression.evaluate` walks with numpy or jax.numpy. Whatever is
not listed is refused with an :class:`ExpressionError` that points at it. Everything is computed in
floats, and the text, its parts and its nesting are limited, so no text can hang the program.

>>> parse("maximum(0, `wind speed` - 3) ** 2").evaluate({"wind speed": [1, 5]}).tolist()
[0.0, 4.0]
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from types import ModuleType
from typing import Any

import numpy

LONGEST_TEXT, MOST_PARTS, DEEPEST_NESTING, LARGEST_NUMBER = 1_000, 200, 32, 1e300

Operation = Callable[..., Any]  # called as operation(numerics, *operands)
Tree = float | str | tuple[Operation, tuple["Tree", ...]]  # number, column name, or operation


def _named(name: str) -> Operation:
    return lambda numerics, *operands: getattr(numerics, name)(*operands)


def _across(name: str) -> Operation:
    return lambda numerics, *operands: reduce(getattr(numerics, name), operands)


def _softplus(numerics: ModuleType, x: Any) -> Any:
    """log(1 + exp(x)), as logaddexp(x, 0) so that a large x does not overflow."""
    return numerics.logaddexp(x, 0.0)


def _sigmoid(numerics: ModuleType, x: Any) -> Any:
    """1/(1 + exp(-x)), as exp(-softplus(-x)): accurate in both tails, with a finite gradient."""
    return numerics.exp(-_softplus(numerics, -x))


def _where(numerics: ModuleType, condition: Any, chosen: Any, otherwise: Any) -> Any:
    return numerics.where(numerics.not_equal(condition, 0.0), chosen, otherwise)


def _chain(names: Sequence[str]) -> Operation:
    """a < b < c as (a < b) and (b < c); one operation, so that nested chains compute b once."""

    def compare(numerics: ModuleType, *operands: Any) -> Any:
        pairs = zip(names, operands[:-1], operands[1:], strict=True)
        outcomes = [getattr(numerics, name)(left, right) for name, left, right in pairs]
        return reduce(numerics.logical_and, outcomes)

    return compare


CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e}
FUNCTIONS: dict[str, tuple[Operation, int, float]] = {  # operation, fewest and most operands
    **{name: (_named(name), 1, 1) for name in ("log", "log10", "log1p", "exp", "expm1", "sqrt")},
    **{name: (_named(name), 1, 1) for name in ("abs", "sign", "floor", "sin", "cos", "tan")},
    **{name: (_named(name), 1, 1) for name in ("tanh", "arctan")},
    **{
        "atan": (_named("arctan"), 1, 1),
        "sigmoid": (_sigmoid, 1, 1),
        "softplus": (_softplus, 1, 1),
    },
    **dict.fromkeys(("minimum", "min"), (_across("minimum"), 2, math.inf)),
    **dict.fromkeys(("maximum", "max"), (_across("maximum"), 2, math.inf)),
    **{"where": (_where, 3, 3), "clip": (_named("clip"), 3, 3)},
}
_OPERATORS: dict[type[ast.AST], str] = {
    **{ast.UAdd: "positive", ast.USub: "negative", ast.Add: "add", ast.Sub: "subtract"},
    **{ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power"},
    **{ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"},
    **{ast.Eq: "equal", ast.NotEq: "not_equal"},
}
_PUNCTUATION = " +-*/().,<>=!"
# a number and whatever stands next to it without a space; Python reads 1if as 1 if, with a warning
_WITH_DIGITS = re.compile(r"(?<!\w)\.?[0-9][\w.]*")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9_]*\.?[0-9_]*([eE][0-9_]*)?")
_HINTS: dict[str, str] = {  # by the refused character, or by the refused node's class
    **{"`": "close the back-quotes around one column name", "^": "write ** for a power"},
    **dict.fromkeys("'\"", "write a column name as it is, or in `back-quotes`"),
    **dict.fromkeys(("%", "FloorDiv"), "use floor(a/b)"),
    **dict.fromkeys(("&", "|", "~", "BoolOp", "Not", "IfExp"), "use where, minimum or maximum"),
}
ALLOWED = (
    "Allowed: numbers, column names (`in back-quotes` when not a plain word), + - * / ** ( ), "
    f"< <= > >= == !=, {', '.join(CONSTANTS)} and {', '.join(FUNCTIONS)}."
)


class ExpressionError(ValueError):
    r"""Text that is not an allowed formula; the message shows where, and what is allowed.

    >>> try:
    ...     parse("2 * x.real")
    ... except ExpressionError as error:
    ...     print(str(error).split("\nAllowed")[0])
    Expression refused: 'x.real' (Attribute) is not allowed, at character 5:
        2 * x.real
            ^^^^^^
    """


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    spellings = {str(other).lower(): str(other) for other in known}
    close = difflib.get_close_matches(name.lower(), spellings, n=1)
    return f"did you mean {spellings[close[0]]!r}?" if close else otherwise


class _Reading:
    """One text as a tree, with its columns; any node that no branch names is refused."""

    def __init__(self, text: str, constant_columns: tuple[str, ...]) -> None:
        self.text, self.constant_columns = text, constant_columns
        self.constants: set[str] = set()
        self.columns: dict[str, tuple[int, int]] = {}  # name -> where it first appears
        self.quoted: dict[int, str] = {}  # where it starts -> name
        if not 0 < len(text) <= LONGEST_TEXT:
            problem = f"has {len(text)} characters; 1 to {LONGEST_TEXT} are needed"
            raise self.refusal((0, len(text)), problem)
        bare = re.sub("`([^`]+)`", self._unquote, text)
        for place, mark in enumerate(bare):
            if mark not in _PUNCTUATION and not f"a{mark}".isidentifier():
                raise self.refusal((place, place + 1), "is not allowed", _HINTS.get(mark, ""))
        for found in _WITH_DIGITS.finditer(bare):
            if not _NUMBER.fullmatch(found[0]):
                hint = "write * for a product, and a space after a number"
                raise self.refusal(found.span(), "is not a number", hint)
        self.source = bare.lstrip()
        self.shift = len(bare) - len(self.source)
        try:
            body = ast.parse(self.source, mode="eval").body
        except SyntaxError as error:
            place = max(1, min(self.shift + (error.offset or len(text)), len(text)))
            problem = f"makes no complete formula ({error.msg})"
            raise self.refusal((place - 1, place), problem) from None
        except (ValueError, RecursionError, MemoryError):
            raise self.refusal((0, len(text)), "is nested too deeply to read") from None
        parts = sum(isinstance(node, ast.expr) for node in ast.walk(body))
        if parts > MOST_PARTS:
            problem = f"has {parts} parts; at most {MOST_PARTS} are allowed"
            raise self.refusal((0, len(text)), problem)
        self.tree = self._translate(body, 1)

    def refusal(self, span: tuple[int, int], problem: str, hint: str = "") -> ExpressionError:
        start, end = span
        left, right = max(0, start - 60), start + 60
        shown = "".join(mark if mark.isprintable() else "?" for mark in self.text[left:right])
        carets = " " * (start - left) + "^" * max(1, min(end, right) - start)
        where = f"{self.text[start : min(end, right)]!r} {problem}, at character {start + 1}"
        hint = f"\nHint: {hint}" if hint else ""
        message = f"Expression refused: {where}:\n    {shown}\n    {carets}{hint}\n{ALLOWED}"
        return ExpressionError(message)

    def _unquote(self, match: re.Match[str]) -> str:
        """Underscores, as many as the quoted name has characters, so that positions stay true."""
        self.quoted[match.start() + 1] = match[1]
        return f" {'_' * len(match[1])} "

    def _span(self, node: ast.expr) -> tuple[int, int]:
        """Where the node stands in the text; ast counts UTF-8 bytes, people count characters."""
        before, until = (
            self.source.encode()[:place].decode()
            for place in (node.col_offset, node.end_col_offset)
        )
        return self.shift + len(before), self.shift + len(until)

    def _translate(self, node: ast.expr, depth: int) -> Tree:
        if depth > DEEPEST_NESTING:
            problem, hint = f"is nested more than {DEEPEST_NESTING} deep", "bracket sums in halves"
            raise self.refusal(self._span(node), problem, hint)
        refused: ast.AST = node
        operation: Operation | None = None
        operands: list[ast.expr] = []
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                if value <= LARGEST_NUMBER:
                    return float(value)
                raise self.refusal(self._span(node), f"is larger than {LARGEST_NUMBER:g}")
            case ast.Name():
                return self._name(node)
            case ast.Call(args=operands):
                operation = self._function(node)
            case ast.UnaryOp(op=refused, operand=operand) if type(refused) in _OPERATORS:
                operation, operands = _named(_OPERATORS[type(refused)]), [operand]
            case ast.BinOp(left=left, op=refused, right=right) if type(refused) in _OPERATORS:
                operation, operands = _named(_OPERATORS[type(refused)]), [left, right]
            case ast.Compare(ops=signs) if all(type(sign) in _OPERATORS for sign in signs):
                operation = _chain([_OPERATORS[type(sign)] for sign in signs])
                operands = [node.left, *node.comparators]
        if operation is None:
            kind = type(refused).__name__
            problem = f"({kind}) is not allowed"
            raise self.refusal(self._span(node), problem, _HINTS.get(kind, ""))
        tree = operation, tuple(self._translate(operand, depth + 1) for operand in operands)
        if not all(isinstance(operand, float) for operand in tree[1]):
            return tree
        constant = float(_compute(tree, {}, numpy))
        if not math.isfinite(constant):
            raise self.refusal(self._span(node), f"is {constant}, not a finite number")
        return constant

    def _name(self, node: ast.Name) -> Tree:
        start, end = self._span(node)
        name = self.quoted.get(start, node.id)
        if start not in self.quoted:
            if self.text[start:end] != name:  # Python reads full-width letters as plain ones
                hint = f"type {name}, or write the column name in `back-quotes`"
                raise self.refusal((start, end), f"would be read as {name!r}", hint)
            if name in CONSTANTS and name not in self.constant_columns:
                self.constants.add(name)
                return CONSTANTS[name]
        self.columns.setdefault(name, (start, end))
        return name

    def _function(self, node: ast.Call) -> Operation:
        start, end = self._span(node.func)
        name = self.text[start:end]
        if not isinstance(node.func, ast.Name) or start in self.quoted or name not in FUNCTIONS:
            read = getattr(node.func, "id", "")
            hint = _nearest(read, FUNCTIONS, "for a product write * before the bracket")
            raise self.refusal((start, end), "is not a known function", hint)
        operation, fewest, most = FUNCTIONS[name]
        if node.keywords or any(isinstance(operand, ast.Starred) for operand in node.args):
            raise self.refusal(self._span(node), "has named or starred operands")
        if not fewest <= len(node.args) <= most:
            needed = f"{fewest} or more" if most > fewest else f"{fewest}"
            problem = f"has {len(node.args)} operand(s); {name} needs {needed}"
            raise self.refusal(self._span(node), problem)
        return operation


_read = lru_cache(maxsize=256)(_Reading)


def _compute(tree: Tree, columns: Mapping[str, Any], numerics: Any) -> Any:
    if isinstance(tree, int | float):
        return tree
    if isinstance(tree, str):
        return columns[tree]
    operation, operands = tree
    computed = [_compute(operand, columns, numerics) for operand in operands]
    # Comparisons count as 0.0 and 1.0: numpy refuses -True and reads True + True as True.
    numbers = [x * 1.0 if getattr(x, "dtype", float) == numpy.bool_ else x for x in computed]
    with numpy.errstate(all="ignore"):
        return operation(numerics, *numbers)


def _as_floats(name: str, value: Any, numerics: ModuleType) -> Any:
    """float64 with numpy; with jax.numpy the precision that the caller's array already has."""
    try:
        if numerics is numpy:
            return numpy.asarray(value, dtype=float)
        array = numerics.asarray(value)
        return array.astype(numerics.result_type(array, float))
    except (TypeError, ValueError) as error:
        needed = f"an array of numbers that {numerics.__name__} can hold"
        received = f"{type(value).__name__}: {error}"
        raise ExpressionError(f"Column {name!r} needs {needed}; received {received}") from error


@dataclass(frozen=True)
class Expression:
    """A checked formula: plain text, so that it prints, compares, hashes and pickles.

    ``constant_columns``, which :func:`parse` fills in, lists the columns used that are named like
    a constant (``pi``, ``e``). An unpickled copy is checked again when it is evaluated.

    >>> Expression("2*x + 1")
    Expression(text='2*x + 1', constant_columns=())
    """

    text: str
    constant_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is not a formula, so that every Expression can be evaluated."""
        if not isinstance(self.text, str):
            raise ExpressionError(f"An expression needs text; received {self.text!r}.")
        object.__setattr__(self, "text", self.text.strip())
        object.__setattr__(self, "constant_columns", tuple(self.constant_columns))
        _read(self.text, self.constant_columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names used, in order of appearance, so that a caller fetches just those.

        >>> Expression("b + `a 1`*pi - b").names
        ('b', 'a 1')
        """
        return tuple(_read(self.text, self.constant_columns).columns)

    def evaluate(self, values: Mapping[str, Any], numerics: ModuleType = numpy) -> Any:
        """Compute the formula from one array per column; with jax.numpy under jit, vmap and grad.

        Arrays broadcast, and a formula without columns gives a scalar array. A comparison at the
        top gives booleans. Outside a function's domain the result is nan or inf without a warning,
        as the caller knows which rule to name. As always in jax, the gradient of
        ``where(x > 0, log(x), 0)`` is nan where x <= 0; ``log(maximum(x, 1e-9))`` avoids that.

        >>> Expression("where(x < 2, x**2, 4)").evaluate({"x": [1.0, 3.0]}).tolist()
        [1.0, 4.0]
        """
        reading = _read(self.text, self.constant_columns)
        for name in reading.columns:
            if name not in values:
                hint = _nearest(name, values, f"pass a value for each of {self.names}.")
                problem = f"{self.text!r} needs the column {name!r}; received {list(values)}"
                raise ExpressionError(f"{problem}; {hint}")
        for name in sorted(reading.constants.intersection(values)):
            problem = f"{self.text!r} uses the constant {name!r}, which is also a column here"
            raise ExpressionError(f"{problem}; give parse the columns, or write `{name}`.")
        columns = {name: _as_floats(name, values[name], numerics) for name in reading.columns}
        return numerics.asarray(_compute(reading.tree, columns, numerics))


def walk(expression: Expression, columns: Mapping[str, Any], numerics: Any) -> Any:
    """The formula on values of any kind, with ``numerics`` giving each function its meaning."""
    return _compute(_read(expression.text, expression.constant_columns).tree, columns, numerics)


def parse(text: str, columns: Sequence[str] | None = None) -> Expression:
    """Check a formula once, where its rule is stated, so that a typing error shows up there.

    With ``columns``, a name outside them is refused with the nearest one, and a column called
    ``pi`` or ``e`` takes the place of the constant.

    >>> parse("log(25*x + 1)/3 + 0.05", columns=["x", "y"]).names
    ('x',)
    >>> parse("e * pi", columns=["e"]).names
    ('e',)
    """
    if columns is None:
        return Expression(text)
    if isinstance(columns, str):
        raise ExpressionError(f"columns needs a list of names; received the text {columns!r}.")
    expression = Expression(text, tuple(name for name in CONSTANTS if name in columns))
    reading = _read(expression.text, expression.constant_columns)
    for name, span in reading.columns.items():
        if name not in columns:
            hint = _nearest(name, columns, f"the columns are {list(columns)}")
            hint = f"write {name}(...)" if name in FUNCTIONS else hint
            raise reading.refusal(span, "is not a column", hint)
    used = tuple(name for name in expression.constant_columns if name in reading.columns)
    return replace(expression, constant_columns=used)
