"""Rules met by construction: which can be built into a network, and why others cannot.

Reach for it with ``enforce="construction"``, where the rules are limits or shapes of single outputs;
``enforce="auto"`` does where the hard rules are numbers as limits that hold everywhere.
`construction_of` reads the rules; what it returns is a declaration like `MLP`, to be built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError
from prbnn.model.construction.built import Construction, Limit
from prbnn.model.construction.shaped import CONVEX_ACTIVATIONS, RISING_ACTIVATIONS, Shape
from prbnn.model.counts_and_classes import Categorical
from prbnn.model.likelihoods import Likelihood
from prbnn.model.networks import MLP, Network
from prbnn.rules.base import Rule, naming
from prbnn.rules.expressions import Expression, ExpressionError, parse
from prbnn.rules.regions import in_region
from prbnn.rules.statements import Curvature, Slope, Statement, Step, Value
from prbnn.rules.strengths import Hard, Kind

INSTEAD = 'leave enforce="construction" out'


def construction_of(
    network: Network | Callable, rules: Sequence[Rule], columns: Columns, likelihood: Likelihood
) -> Construction:
    """The declaration that meets the hard ones of ``rules``; what cannot be built raises by name."""
    hard = [rule for rule in rules if isinstance(rule.strength, Hard)]
    for rule in hard:
        _check(rule, columns, likelihood)
    shapes = tuple(
        _shape(place, hard, columns, likelihood) for place in range(len(columns.outputs))
    )
    limits = tuple(limit for rule in hard for limit in _limits(rule, columns))
    plan = Construction(
        network,
        columns.inputs,
        columns.outputs,
        shapes,
        limits,
        tuple(rule.label for rule in hard),
    )
    _check_network(plan, hard, columns)
    _check_together(plan, hard, columns)
    return plan


def builds_limits(
    network: Network | Callable, rules: Sequence[Rule], columns: Columns, likelihood: Likelihood
) -> bool:
    """Whether the hard ones of ``rules`` are numbers as limits, hold everywhere, and can be built."""
    hard = [rule for rule in rules if isinstance(rule.strength, Hard)]
    for rule in hard:
        ends = [read_end(rule, end, columns) for end, _ in ends_of(rule, columns)]
        numbers = ends and all(isinstance(end, float) for end in ends)
        if not numbers or rule.where is not None or rule.strength.kind != Kind.HARD:
            return False
    try:
        construction_of(network, hard, columns, likelihood)
    except KnowledgeError:
        # which of them clash is said where they exert pressure
        return False
    return bool(hard)


def _refused(rule: Rule, why: str) -> KnowledgeError:
    return KnowledgeError(f"rule {rule.label!r}: cannot be met by construction: {why}")


def _check(rule: Rule, columns: Columns, likelihood: Likelihood) -> None:
    """What a rule must be, whatever the others are."""
    if not (ends_of(rule, columns) or _shaped(rule, columns)):
        raise _refused(
            rule,
            "it is neither limits of an output (AtLeast, AtMost, Between), nor a trend (Increasing, "
            f"Decreasing), nor a curvature (Convex, Concave); make it soft, or {INSTEAD}",
        )
    if columns.layout is not None:
        raise _refused(rule, f"these are sequences; {INSTEAD}")
    if not (rule.of is None or (isinstance(rule.of, str) and rule.of in columns.outputs)):
        raise _refused(
            rule, f"of={rule.of!r} is not an output's name; state it of an output, or {INSTEAD}"
        )
    if rule.margin:
        raise _refused(rule, f"it holds exactly, without a margin; leave margin out, or {INSTEAD}")
    if isinstance(likelihood, Categorical):
        raise _refused(rule, f"the classes share their probabilities; {INSTEAD}")
    if not likelihood.scales_targets and not _is_trend(rule, columns):
        raise _refused(
            rule,
            f"of {type(likelihood).__name__} only trends can be built, since the network's output is "
            f"not the quantity that the rule bounds; {INSTEAD}",
        )


def _stated(rule: Rule, columns: Columns) -> Statement | None:
    """What a rule says, where that is one statement of its own and not of its parts."""
    if rule.parts != (rule,):
        return None
    try:
        statements = rule.statements(columns)
    except KnowledgeError as error:
        raise error.named(rule.label) from None
    return statements[0] if len(statements) == 1 else None


def _shaped(rule: Rule, columns: Columns) -> bool:
    """Whether a rule is a trend or a curvature without limits of its own."""
    stated = _stated(rule, columns)
    shapes = Slope | Step | Curvature
    return stated is not None and isinstance(stated.quantity, shapes) and stated.direction != 0


def _is_trend(rule: Rule, columns: Columns) -> bool:
    stated = _stated(rule, columns)
    return _shaped(rule, columns) and stated is not None and not _is_curved(stated)


def _is_curved(stated: Statement) -> bool:
    return isinstance(stated.quantity, Curvature)


def output_of(rule: Rule, columns: Columns) -> int:
    """Position of the output that a rule is about."""
    if rule.of is None and len(columns.outputs) > 1:
        raise _refused(
            rule,
            f"there are several outputs ({', '.join(columns.outputs)}); say which one with of=",
        )
    return 0 if rule.of is None else columns.outputs.index(str(rule.of))


def _shape(
    place: int, rules: Sequence[Rule], columns: Columns, likelihood: Likelihood
) -> Shape | None:
    """Directions and curvatures of one output; those that contradict each other raise."""
    width = len(columns.inputs)
    ways: dict[int, tuple[int, Rule]] = {}
    curved: dict[int, tuple[int, Rule]] = {}
    for rule in _the(rules, columns, place):
        stated = rule.statements(columns)[0]
        index = _index(rule, stated, columns)
        found = curved if _is_curved(stated) else ways
        before, other = found.setdefault(index, (stated.direction, rule))
        if before != stated.direction:
            what = "a straight line" if _is_curved(stated) else "constant"
            raise _refused(
                rule,
                f"with {other.label!r}, the output would be {what} along {stated.quantity.column} "
                "everywhere",
            )
    signs = {sign for sign, _ in curved.values()}
    if len(signs) > 1:
        first, second = (next(r for s, r in curved.values() if s == sign) for sign in (1, -1))
        raise _refused(
            second, f"{first.label!r} asks for the opposite curvature of the same output; {INSTEAD}"
        )
    if not ways and not curved:
        return None
    return Shape(
        tuple(ways[k][0] if k in ways else 0 for k in range(width)),
        tuple(k in curved for k in range(width)),
        signs.pop() if signs else 0,
    )


def _index(rule: Rule, stated: Statement, columns: Columns) -> int:
    with naming(rule):
        return columns.index(str(stated.quantity.column))


def ends_of(rule: Rule, columns: Columns) -> list[tuple[Any, bool]]:
    """The ends of a rule on values that are limits, and whether each is an upper one."""
    stated = _stated(rule, columns)
    if stated is None or not isinstance(stated.quantity, Value) or stated.avoid:
        return []
    if stated.give != 0.0 or len(stated.intervals) != 1:
        return []
    sides = zip(stated.intervals[0], (False, True), strict=True)
    return [(end, upper) for end, upper in sides if end is not None]


def _limits(rule: Rule, columns: Columns) -> list[Limit]:
    """The ends that depend on the inputs."""
    found = []
    for end, upper in ends_of(rule, columns):
        formula = read_end(rule, end, columns)
        if isinstance(formula, Expression) or callable(formula):
            found.append(Limit(rule.label, output_of(rule, columns), upper, formula))
    return found


def read_end(rule: Rule, end: Any, columns: Columns) -> float | Expression | Callable[[Any], Any]:
    """An end as a number, where it does not depend on the inputs, or as a formula of them."""
    if callable(end):
        return end
    if not isinstance(end, str):
        return float(end)
    try:
        formula = parse(end, columns.inputs)
    except ExpressionError as error:
        raise KnowledgeError(f"rule {rule.label!r}: {end!r}: {error}") from None
    return formula if formula.names else float(formula.evaluate({}))


def _check_network(plan: Construction, rules: Sequence[Rule], columns: Columns) -> None:
    """Shapes need to know a network's layers and activation."""
    network = plan.network
    for rule in rules:
        if not _shaped(rule, columns):
            continue
        if not isinstance(network, MLP):
            raise _refused(rule, f"shapes need network=MLP(...), got {network!r}; or {INSTEAD}")
        shape = plan.shapes[output_of(rule, columns)]
        allowed = CONVEX_ACTIVATIONS if shape is not None and shape.bend else RISING_ACTIVATIONS
        if network.activation not in allowed:
            raise _refused(
                rule,
                f"activation {network.activation!r} would break it; use {' or '.join(allowed)}, or "
                f"{INSTEAD}",
            )


def _check_together(plan: Construction, rules: Sequence[Rule], columns: Columns) -> None:
    """Limits and shapes of one output: a squashing keeps some shapes and breaks others."""
    for rule in rules:
        place = output_of(rule, columns)
        shape = plan.shapes[place]
        ends = ends_of(rule, columns)
        if shape is None or not ends:
            continue
        curved = [r for r in _the(rules, columns, place) if _is_curved(r.statements(columns)[0])]
        for _, upper in ends:
            if shape.bend == (1 if upper else -1):
                kind, end = ("convex", "an upper") if upper else ("concave", "a lower")
                raise _refused(
                    rule,
                    f"{end} limit would break {curved[0].label!r}: everywhere, a {kind} function that is "
                    f"not constant passes any; make one of the two soft, or {INSTEAD}",
                )
        for limit in plan.limits:
            if limit.rule == rule.label:
                _check_limit(rule, limit, plan, rules, columns)


def _check_limit(
    rule: Rule, limit: Limit, plan: Construction, rules: Sequence[Rule], columns: Columns
) -> None:
    """A limit that moves with a column must move as the output may."""
    for other in _the(rules, columns, limit.output):
        stated = other.statements(columns)[0]
        column, wanted = str(stated.quantity.column), stated.direction
        way = limit.trend(column)
        if way == 0:
            continue
        if _is_curved(stated):
            raise _refused(
                rule,
                f"its limit moves with {column}, along which {other.label!r} asks for a curvature; make "
                f"one of the two soft, or {INSTEAD}",
            )
        if way != wanted:
            seen = "may not" if way is None else "does not"
            verb = "rise" if wanted == 1 else "fall"
            raise _refused(
                rule,
                f"its limit {seen} {verb} with {column}, as {other.label!r} asks of the output; "
                f"state a limit that does (sums, and log, exp, sqrt and the like of them, are "
                f"understood), make one of the two soft, or {INSTEAD}",
            )


def _the(rules: Sequence[Rule], columns: Columns, place: int) -> list[Rule]:
    """The rules on the shape of one output."""
    return [rule for rule in rules if _shaped(rule, columns) and output_of(rule, columns) == place]


def check_region(rules: Sequence[Rule], rows: np.ndarray, columns: Columns) -> None:
    """A rule that is built holds everywhere; one that is stated for some of the rows only is refused."""
    for rule in rules:
        if not rule.region:
            continue
        outside = ~in_region(rule.region, columns, rows, beyond=True)
        if outside.any():
            raise _refused(
                rule,
                f"it would hold everywhere, and {int(np.sum(outside))} of {len(rows)} rows lie outside "
                f"its region; leave `where` out if it holds for them too, or {INSTEAD}",
            )
