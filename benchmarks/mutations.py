"""Small defects that can be put into a module: one change of one expression or statement each.

>>> found = mutants("a.py", "def f(x):\\n    return x < 3")
>>> [one.change for one in found]
['return None', '< to <=', '3 to 4']
>>> print(found[1].apply("def f(x):\\n    return x < 3"))
def f(x):
    return (x <= 3)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
BOOLEANS = {ast.And: ast.Or, ast.Or: ast.And}
SIGNS = {
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
    **{ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.And: "and"},
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"},
    **{ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.Or: "or"},
}


@dataclass(frozen=True)
class Mutant:
    """A change of the source: the text at ``place`` (first and last offset in bytes) becomes ``new``."""

    file: str
    line: int
    kind: str
    change: str
    place: tuple[int, int]
    new: str
    lines: tuple[int, int]  # a test that runs one of these may notice it

    def apply(self, source: str) -> str:
        """The source with this change."""
        content = source.encode()
        first, last = self.place
        return (content[:first] + self.new.encode() + content[last:]).decode()


def mutants(file: str, source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr | ast.stmt) -> tuple[int, int]:
        last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return starts[node.lineno - 1] + node.col_offset, last

    found = []
    for statement, node in _nodes(ast.parse(source), None):
        if not isinstance(node, ast.expr | ast.stmt):
            continue
        for kind, change, old, new in _changes(node):
            text = ast.unparse(new)
            if isinstance(new, ast.expr) and not isinstance(new, ast.Constant | ast.Name):
                # the text of an expression stands where one of another binding strength stood
                text = f"({text})"
            # a decorator stands before the line of its statement
            lines = (min(statement.lineno, old.lineno), old.end_lineno or old.lineno)
            found.append(Mutant(file, old.lineno, kind, change, place(old), text, lines))
    return sorted(found, key=lambda one: (one.line, one.place, one.change))


def _nodes(node: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Nodes that run, each with the innermost statement that holds it."""
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or _is_for_readers(child):
                continue
            inner = child if isinstance(child, ast.stmt) else statement
            if inner is not None:
                yield inner, child
            if not isinstance(child, ast.JoinedStr):  # words of messages
                yield from _nodes(child, inner)


def _is_for_readers(node: ast.AST) -> bool:
    """Docstrings, ``__all__`` and imports for type checkers."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _changes(
    node: ast.expr | ast.stmt,
) -> Iterator[tuple[str, str, ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Kind, words, old node and new node of every change of one node."""
    match node:
        case ast.Compare(left=left, ops=[sign], comparators=others):
            new = COMPARISONS[type(sign)]
            yield "comparison", _signs(sign, new), node, ast.Compare(left, [new()], others)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in ARITHMETIC:
            new = ARITHMETIC[type(sign)]
            yield "arithmetic", _signs(sign, new), node, ast.BinOp(left, new(), right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "arithmetic", "-x to x", node, operand
        case ast.BoolOp(op=sign, values=values):
            new = BOOLEANS[type(sign)]
            yield "boolean", _signs(sign, new), node, ast.BoolOp(new(), values)
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield "boolean", "negation removed", node, operand
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "boolean", "condition negated", test, ast.UnaryOp(ast.Not(), test)
        case ast.Constant(value=bool(value)):
            yield "constant", f"{value} to {not value}", node, ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            new = value + 1 if value + 1 != value else 2 * value
            yield "constant", f"{value} to {new}", node, ast.Constant(new)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return value", "return None", node, ast.Return(ast.Constant(None))
        case _ if _can_go(node):
            yield "removed", f"removed: {ast.unparse(node)[:60]}", node, ast.Pass()


def _can_go(node: ast.expr | ast.stmt) -> bool:
    """A statement whose removal leaves no name undefined."""
    match node:
        case ast.Expr(value=ast.Call()):
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return isinstance(
        node, ast.Raise | ast.AugAssign | ast.Delete | ast.Break | ast.Continue | ast.Assert
    )


def _signs(old: ast.AST, new: type) -> str:
    return f"{SIGNS[type(old)]} to {SIGNS[new]}"
