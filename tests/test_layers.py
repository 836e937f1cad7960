"""Imports flow one way, and declarations of rules stay free of JAX."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import prbnn
from prbnn.rules.base import Rule

SOURCE = Path(__file__).parents[1] / "src"

# from the ground up: a module may import from its own line and from the lines above it
LAYERS = (
    ("errors",),
    ("system",),
    ("data",),
    ("rules",),
    ("model",),
    ("enforcement",),
    ("inference",),
    ("posterior",),
    ("certify",),
    ("fitting",),
    ("assessment",),
    ("saving",),
    ("estimators",),
    ("report",),
    ("prbnn",),
    ("runs",),
    ("prbnn_studies",),
    ("cli",),
)
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}

DECLARATIONS = (
    "data.columns",
    "data.layout",
    "data.association",
    *(f"rules.{name}" for name in ("base", "statements", "values", "shape", "comparison", "own")),
    *(f"rules.{name}" for name in ("along_time", "strengths", "regions", "spread", "expressions")),
    "rules.evaluation",
    "rules.trends",
    *(f"rules.file.{name}" for name in ("grammar", "parts", "plain", "knowledge_file", "located")),
    *(f"rules.file.{name}" for name in ("vocabulary", "faults", "starter")),
    *(f"rules.conflicts.{name}" for name in ("claims", "webs", "finding")),
)
COMPILED = ("jax", "jaxlib", "equinox", "jaxtyping", "optax")


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def is_for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(nodes: Iterable[ast.AST], *, lazy: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run: without those for types, and without those in functions unless ``lazy``."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif is_for_types_only(node):
            yield from statements(node.orelse, lazy=lazy)
        elif lazy or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from statements(ast.iter_child_nodes(node), lazy=lazy)


def imports(module: str, *, lazy: bool) -> set[str]:
    """Dotted names of the modules that a module imports."""
    found = set()
    for node in statements(ast.parse(MODULES[module].read_text()).body, lazy=lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        assert node.level == 0, f"{module}: write `from prbnn...`, not a relative import"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            found.add(inner if inner in MODULES else str(node.module))
    return found


def layer_of(module: str) -> str:
    """The first name below prbnn; prbnn itself is the layer of the public names."""
    parts = module.split(".")
    return parts[1] if parts[0] == "prbnn" and len(parts) > 1 else parts[0]


def within_prbnn(names: set[str]) -> set[str]:
    return {name for name in names if name.split(".")[0] in ("prbnn", "prbnn_studies")}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_own_layer_and_those_below(module: str) -> None:
    layer = layer_of(module)
    assert layer in RANK, f"{module} has no layer: say in LAYERS where {layer!r} belongs"
    for other in within_prbnn(imports(module, lazy=True)):
        below = layer_of(other)
        assert below in RANK, f"{other} has no layer: say in LAYERS where {below!r} belongs"
        assert RANK[below] <= RANK[layer], f"{module} must not import {other}: {below} is above it"


def test_no_two_modules_import_each_other() -> None:
    """Depth-first through imports, lazy ones too: a way back to where it began is a cycle."""
    graph = {m: within_prbnn(imports(m, lazy=True)) - {"prbnn"} for m in MODULES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a circle of imports: {' -> '.join((*path, module))}"
        if module in done:
            return
        for other in sorted(graph[module]):
            visit(other, (*path, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("name", DECLARATIONS)
def test_declaring_a_rule_needs_no_compiled_code(name: str) -> None:
    """Neither a declaration nor anything that it imports imports JAX."""
    start = f"prbnn.{name}"
    waiting, seen = [(start,)], {start}
    while waiting:
        path = waiting.pop()
        for other in imports(path[-1], lazy=False):
            assert other.split(".")[0] not in COMPILED, (
                f"{' -> '.join(path)} imports {other} at module level"
            )
            if other in MODULES and other not in seen and other != "prbnn":
                seen.add(other)
                waiting.append((*path, other))


def test_no_two_modules_and_no_two_classes_share_a_name() -> None:
    """One name, one thing; commands and studies are named after what they run.

    Every engine and every law has a `State` of its own: what its next step needs.
    """
    named: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        own = module.split(".")
        if own[0] != "prbnn" or own[1:2] == ["cli"]:
            continue
        if path.name != "__init__.py":
            named.setdefault(f"module {own[-1]}", []).append(module)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named.setdefault(f"class {node.name}", []).append(module)
    named.pop("class State", None)
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


RULE_CLASSES = {
    found.__name__
    for found in vars(prbnn).values()
    if isinstance(found, type) and issubclass(found, Rule) and found is not Rule
}


def dispatches(tree: ast.AST) -> Iterator[str]:
    """Names of rule classes that code asks for: isinstance, match, type(...), singledispatch, tables."""
    asked: list[ast.AST] = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
                asked.append(classes)
            case ast.Call(func=ast.Attribute(attr="register"), args=args):
                asked += args
            case ast.MatchClass(cls=found):
                asked.append(found)
            case ast.Compare(left=left, comparators=others) if "type" in ast.dump(left):
                asked += others
            case ast.Dict(keys=keys):
                asked += [key for key in keys if key is not None]
    for part in asked:
        for node in ast.walk(part):
            name = getattr(node, "id", None) or getattr(node, "attr", None)
            if name in RULE_CLASSES:
                yield name


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) not in ("rules", "prbnn")])
def test_no_module_outside_the_rules_asks_which_class_a_rule_is(module: str) -> None:
    assert [*dispatches(ast.parse(MODULES[module].read_text()))] == []


def test_asking_for_a_class_is_seen_however_it_is_written() -> None:
    assert len(RULE_CLASSES) > 18
    for code in (
        "isinstance(rule, AtLeast | AtMost)",
        "isinstance(rule, (shape.Increasing,))",
        "match rule:\n    case Between(lower=low): pass",
        "type(rule) is Equals",
        "type(rule).__name__ in (Falls, 1)",
        "{Rises: 1}[kind]",
        "@bind.register(Compare)\ndef _(rule): pass",
    ):
        assert [*dispatches(ast.parse(code))], code
    assert not [*dispatches(ast.parse("rules = [AtLeast(0), Increasing('x')]"))]


def test_imports_for_types_are_told_from_imports_that_run() -> None:
    """The reader behind these tests leaves out imports for types, and lazy ones where asked to."""
    text = (
        "import one\n"
        "if TYPE_CHECKING:\n    import two\nelse:\n    import three\n"
        "def function():\n    import four\n"
        "try:\n    import five\nexcept ImportError:\n    pass\n"
    )

    def names(lazy: bool) -> list[str]:
        return [node.names[0].name for node in statements(ast.parse(text).body, lazy=lazy)]

    assert names(lazy=True) == ["one", "three", "four", "five"]
    assert names(lazy=False) == ["one", "three", "five"]
