"""Rules met by construction: a network that obeys them whatever its weights are.

Reach for it with ``enforce="construction"``, where the rules are limits or shapes of single outputs.
`construction_of` reads the rules; what it returns is a declaration like `MLP`, to be built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from prbnn.errors import KnowledgeError
from prbnn.knowledge.bounds import AtLeast, AtMost, Between
from prbnn.knowledge.expressions import Expression, parse
from prbnn.knowledge.regions import Columns, Sweep
from prbnn.knowledge.rules import Rule
from prbnn.knowledge.shape import Concave, Convex, Decreasing, Increasing
from prbnn.knowledge.strengths import Hard
from prbnn.knowledge.trends import trend
from prbnn.model.likelihoods import Categorical, Likelihood
from prbnn.model.networks import MLP, Network, build
from prbnn.model.scaling import Scaling
from prbnn.model.shaped import (
    CONVEX_ACTIVATIONS,
    RISING_ACTIVATIONS,
    Shape,
    Shaped,
    build_shaped,
)
from prbnn.model.squashing import squash

BUILT = (AtLeast, AtMost, Between, Increasing, Decreasing, Convex, Concave)
# width of the smooth corner at a limit, in standard deviations of the target
SOFTNESS = 0.25
INSTEAD = 'leave enforce="construction" out'


def built_in(network: Any) -> frozenset[str]:
    """Names of the rules that a built network obeys whatever its weights are.

    >>> import jax
    >>> sorted(built_in(MLP().build(jax.random.key(0), 1, 1)))
    []
    """
    return network.met if isinstance(network, Built) else frozenset()


@dataclass(frozen=True)
class Limit:
    """One end that depends on the inputs: text or a callable, of an output.

    ``upper`` tells which end it is.
    """

    rule: str
    output: int
    upper: bool
    formula: Expression | Callable[[Any], Any]

    def trend(self, column: str) -> int | None:
        """1 rises with the column, -1 falls, 0 ignores it, None unknown."""
        return trend(self.formula, column) if isinstance(self.formula, Expression) else None


class Fixed(eqx.Module):
    """Numbers that are no weights, kept as their bits: floats would be trained."""

    bits: Int[Array, "*shape"]

    @property
    def value(self) -> Float[Array, "*shape"]:
        """The numbers."""
        kind = {4: jnp.float32, 8: jnp.float64}[self.bits.dtype.itemsize]
        return jax.lax.bitcast_convert_type(self.bits, kind)


def fixed(values: Any) -> Fixed:
    """Numbers as they are, in the precision of the weights."""
    array = jnp.asarray(values, float)
    kind = {4: jnp.int32, 8: jnp.int64}[array.dtype.itemsize]
    return Fixed(jax.lax.bitcast_convert_type(array, kind))


class Numbers(eqx.Module):
    """Units of the columns, and the limits that are numbers (network units, infinite where none).

    `reach` is the range (2, inputs) in which each formula is read; beyond it stays as at its edge.
    """

    input_shift: Fixed
    input_scale: Fixed
    output_shift: Fixed
    output_scale: Fixed
    lower: Fixed
    upper: Fixed
    softness: Fixed
    reach: tuple[Fixed, ...]


class Row(NamedTuple):
    """One input as a callable bound sees it: an array with one row, and columns by name."""

    values: Array
    names: tuple[str, ...]

    def __getitem__(self, key: Any) -> Any:
        return self.values[:, self.names.index(key)] if isinstance(key, str) else self.values[key]


class Built(eqx.Module):
    """A network whose outputs are shaped and squashed; ``met`` names the rules this obeys.

    ``free`` holds the network of the outputs without a shape, where there are any.
    """

    free: tuple[Any, ...]
    shaped: tuple[Shaped, ...]
    numbers: Numbers
    plan: Construction = eqx.field(static=True)

    @property
    def met(self) -> frozenset[str]:
        """Names of the rules that hold for every weight."""
        return frozenset(self.plan.met)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        values = self._shaped(x)
        count = len(self.plan.outputs)
        lower, upper = self.limits(x)
        softness = self.numbers.softness.value
        inside = squash(values[:count], lower, jnp.maximum(lower, upper), softness)
        # a likelihood's further outputs (the noise by input) have no limits
        return jnp.concatenate([inside, values[count:]])

    def _shaped(self, x: Array) -> Array:
        places = [k for k, shape in enumerate(self.plan.shapes) if shape is not None]
        if not places:
            return self.free[0](x)
        values = jnp.stack([network(x) for network in self.shaped])
        if not self.free:
            return values
        others = self.free[0](x)
        total = len(places) + others.shape[0]
        order = np.argsort([*places, *(k for k in range(total) if k not in places)])
        return jnp.concatenate([values, others])[order]

    def limits(self, x: Array) -> tuple[Array, Array]:
        """Both ends of every output at a network input, in network units."""
        numbers = self.numbers
        lower, upper = numbers.lower.value, numbers.upper.value
        if not self.plan.limits:
            return lower, upper
        user = x * numbers.input_scale.value + numbers.input_shift.value
        shift, scale = numbers.output_shift.value, numbers.output_scale.value
        for limit, reach in zip(self.plan.limits, numbers.reach, strict=True):
            found = _value(limit.formula, jnp.clip(user, *reach.value), self.plan.inputs)
            place = limit.output
            found = (found - shift[place]) / scale[place]
            if limit.upper:
                upper = upper.at[place].min(found)
            else:
                lower = lower.at[place].max(found)
        return lower, upper

    def hidden_sources(self) -> list[np.ndarray] | None:
        """For each matrix, which sources are hidden units; None where no output is shaped."""
        if not self.shaped:
            return None
        free = [layer for network in self.free for layer in network.layers]
        found = [np.full(layer.weight.shape[1], depth > 0) for depth, layer in enumerate(free)]
        return found + [part for network in self.shaped for part in network.hidden_sources()]


def _value(formula: Expression | Callable, user: Array, names: tuple[str, ...]) -> Array:
    if isinstance(formula, Expression):
        columns = {name: user[names.index(name)] for name in formula.names}
        return formula.evaluate(columns, jnp)
    return jnp.asarray(formula(Row(user[None], names))).reshape(())


@dataclass(frozen=True)
class Construction:
    """A declaration: ``network`` with outputs that obey the rules named in ``met``.

    It holds no number of the data, so that one program serves all tables; `with_numbers` adds them.
    """

    network: Network | Callable
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: tuple[Shape | None, ...]
    limits: tuple[Limit, ...]
    met: tuple[str, ...]

    def build(self, key: Array, inputs: int, outputs: int) -> Built:
        """Shaped outputs have a network each; the others share the declared one."""
        shapes = [shape for shape in self.shapes if shape is not None]
        free_key, *keys = jax.random.split(key, len(shapes) + 1) if shapes else (key,)
        others = outputs - len(shapes)
        count, declared = len(self.outputs), self.network
        shaped = ()
        if shapes:
            assert isinstance(declared, MLP)
            shaped = tuple(
                build_shaped(each, shape, declared.hidden, declared.activation)
                for each, shape in zip(keys, shapes, strict=True)
            )
        none = jnp.full(inputs, jnp.inf)
        numbers = Numbers(
            *(fixed(part) for part in (jnp.zeros(inputs), jnp.ones(inputs))),
            *(fixed(part) for part in (jnp.zeros(count), jnp.ones(count))),
            *(fixed(jnp.full(count, end)) for end in (-jnp.inf, jnp.inf)),
            fixed(jnp.ones(count)),
            tuple(fixed(jnp.stack([-none, none])) for _ in self.limits),
        )
        free = (build(declared, free_key, inputs, others),) if others else ()
        return Built(free, shaped, numbers, self)


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


def _refused(rule: Rule, why: str) -> KnowledgeError:
    return KnowledgeError(f"rule {rule.label!r}: cannot be met by construction: {why}")


def _check(rule: Rule, columns: Columns, likelihood: Likelihood) -> None:
    """What a rule must be, whatever the others are."""
    if not isinstance(rule, BUILT):
        known = ", ".join(kind.__name__ for kind in BUILT)
        raise _refused(
            rule, f"{type(rule).__name__} is not one of {known}; make it soft, or {INSTEAD}"
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
    if not likelihood.scales_targets and not isinstance(rule, Increasing | Decreasing):
        raise _refused(
            rule,
            f"of {type(likelihood).__name__} only trends can be built, since the network's output is "
            f"not what the rule speaks of; {INSTEAD}",
        )


def _output(rule: Rule, columns: Columns) -> int:
    if rule.of is None and len(columns.outputs) > 1:
        raise _refused(
            rule,
            f"there are several outputs ({', '.join(columns.outputs)}); say which one with of=",
        )
    return 0 if rule.of is None else columns.outputs.index(str(rule.of))


def _shape(
    place: int, rules: Sequence[Rule], columns: Columns, likelihood: Likelihood
) -> Shape | None:
    """Directions and bends of one output; those that contradict each other raise."""
    width = len(columns.inputs)
    ways: dict[int, tuple[int, Rule]] = {}
    bends: dict[int, tuple[int, Rule]] = {}
    for rule in rules:
        if not isinstance(rule, Increasing | Decreasing | Convex | Concave):
            continue
        if _output(rule, columns) != place:
            continue
        index = _index(rule, columns)
        found = ways if isinstance(rule, Increasing | Decreasing) else bends
        sign = 1 if isinstance(rule, Increasing | Convex) else -1
        before, other = found.setdefault(index, (sign, rule))
        if before != sign:
            raise _refused(
                rule, f"with {other.label!r}, the output would be {_neither(rule)} everywhere"
            )
    signs = {sign for sign, _ in bends.values()}
    if len(signs) > 1:
        first, second = (next(r for s, r in bends.values() if s == sign) for sign in (1, -1))
        raise _refused(
            second, f"{first.label!r} asks for the other bend of the same output; {INSTEAD}"
        )
    if not ways and not bends:
        return None
    return Shape(
        tuple(ways[k][0] if k in ways else 0 for k in range(width)),
        tuple(k in bends for k in range(width)),
        signs.pop() if signs else 0,
    )


def _neither(rule: Rule) -> str:
    what = "constant" if isinstance(rule, Increasing | Decreasing) else "a straight line"
    return f"{what} along {getattr(rule, 'column', '')}"


def _index(rule: Any, columns: Columns) -> int:
    try:
        return columns.index(rule.column)
    except KnowledgeError as error:
        raise KnowledgeError(f"rule {rule.label!r}: {error}") from None


def _ends(rule: Rule) -> list[tuple[Any, bool]]:
    """The ends of a rule on values, and whether each is an upper one."""
    match rule:
        case AtLeast():
            return [(rule.bound, False)]
        case AtMost():
            return [(rule.bound, True)]
        case Between():
            return [(rule.lower, False), (rule.upper, True)]
    return []


def _limits(rule: Rule, columns: Columns) -> list[Limit]:
    """The ends that depend on the inputs."""
    found = []
    for end, upper in _ends(rule):
        formula = parse(end, columns.inputs) if isinstance(end, str) else end
        if isinstance(formula, Expression) and not formula.names:
            continue
        if callable(end) or isinstance(end, str):
            found.append(Limit(rule.label, _output(rule, columns), upper, formula))
    return found


def _check_network(plan: Construction, rules: Sequence[Rule], columns: Columns) -> None:
    """Shapes need to know a network's layers and activation."""
    network = plan.network
    for rule in rules:
        if not isinstance(rule, Increasing | Decreasing | Convex | Concave):
            continue
        if not isinstance(network, MLP):
            raise _refused(rule, f"shapes need network=MLP(...), got {network!r}; or {INSTEAD}")
        shape = plan.shapes[_output(rule, columns)]
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
        place = _output(rule, columns)
        shape = plan.shapes[place]
        ends = _ends(rule)
        if shape is None or not ends:
            continue
        bent = _the(rules, columns, place, Convex | Concave)
        for _, upper in ends:
            if shape.bend == (1 if upper else -1):
                kind, end = ("convex", "an upper") if upper else ("concave", "a lower")
                raise _refused(
                    rule,
                    f"{end} limit would break {bent[0].label!r}: everywhere, a {kind} function that is "
                    f"not constant passes any; make one of the two soft, or {INSTEAD}",
                )
        for limit in plan.limits:
            if limit.rule == rule.label:
                _check_limit(rule, limit, plan, rules, columns)


def _check_limit(
    rule: Rule, limit: Limit, plan: Construction, rules: Sequence[Rule], columns: Columns
) -> None:
    """A limit that moves with a column must move as the output may."""
    for other in _the(rules, columns, limit.output, Increasing | Decreasing | Convex | Concave):
        way = limit.trend(other.column)
        if way == 0:
            continue
        if isinstance(other, Convex | Concave):
            raise _refused(
                rule,
                f"its limit moves with {other.column}, which {other.label!r} bends; make one of the "
                f"two soft, or {INSTEAD}",
            )
        wanted = 1 if isinstance(other, Increasing) else -1
        if way != wanted:
            seen = "may not" if way is None else "does not"
            verb = "rise" if wanted == 1 else "fall"
            raise _refused(
                rule,
                f"its limit {seen} {verb} with {other.column}, as {other.label!r} asks of the output; "
                f"state a limit that does (sums, and log, exp, sqrt and the like of them, are "
                f"understood), make one of the two soft, or {INSTEAD}",
            )


def _the(rules: Sequence[Rule], columns: Columns, place: int, kinds: Any) -> list[Any]:
    return [rule for rule in rules if isinstance(rule, kinds) and _output(rule, columns) == place]


def check_region(rules: Sequence[Rule], rows: np.ndarray, columns: Columns) -> None:
    """A rule that is built holds everywhere; one that is stated for some of the rows only is refused."""
    for rule in rules:
        if not rule.region:
            continue
        inside = np.zeros(len(rows), bool)
        for box in rule.region:
            within = np.ones(len(rows), bool)
            for name, low, high in box.ranges:
                values = rows[:, columns.index(name)]
                within &= (values >= low) & (values <= high)
            inside |= within
        if not inside.all():
            raise _refused(
                rule,
                f"it would hold everywhere, and {int(np.sum(~inside))} of {len(rows)} rows lie outside "
                f"its region; leave `where` out if it holds for them too, or {INSTEAD}",
            )


def with_numbers(
    network: Built, rules: Sequence[Rule], columns: Columns, scaling: Scaling
) -> Built:
    """The network with the units of a table and the rules' numbers in place."""
    plan = network.plan
    count = len(plan.outputs)
    lower, upper = np.full(count, -np.inf), np.full(count, np.inf)
    reach: dict[str, np.ndarray] = {}
    for rule in rules:
        if rule.label not in plan.met:
            continue
        for end, above in _ends(rule):
            place = _output(rule, columns)
            number = _number(end)
            if number is None:
                reach[rule.label] = _reach(rule.region, columns)
            elif above:
                upper[place] = min(upper[place], number)
            else:
                lower[place] = max(lower[place], number)
    numbers = Numbers(
        *(fixed(part) for part in (scaling.input_shift, scaling.input_scale)),
        *(fixed(part) for part in (scaling.output_shift, scaling.output_scale)),
        lower=fixed(_inside(lower, scaling, up=True)),
        upper=fixed(_inside(upper, scaling, up=False)),
        softness=fixed(SOFTNESS * scaling.output_sd / scaling.output_scale),
        reach=tuple(fixed(reach[limit.rule]) for limit in plan.limits),
    )
    return eqx.tree_at(lambda built: built.numbers, network, numbers)


def _number(end: Any) -> float | None:
    """An end that does not depend on the inputs."""
    if callable(end):
        return None
    if isinstance(end, str):
        formula = Expression(end)
        return None if formula.names else float(formula.evaluate({}))
    return float(end)


def _inside(limit: np.ndarray, scaling: Scaling, *, up: bool) -> np.ndarray:
    """The limit in network units, rounded so that it holds in the user's units after rounding back."""
    kind = np.dtype(jnp.asarray(0.0).dtype).type
    found = scaling.outputs(limit).astype(kind)
    ahead = kind(np.inf if up else -np.inf)
    for _ in range(8):
        back = scaling.restore(found)
        wrong = (back < limit) if up else (back > limit)
        found = np.where(wrong, np.nextafter(found, ahead), found)
    return found


def _reach(region: tuple[Sweep, ...], columns: Columns) -> np.ndarray:
    """Where a formula is read, (2, inputs): the hull of the region's boxes."""
    reach = np.stack([np.full(len(columns.inputs), end) for end in (-np.inf, np.inf)])
    for index, column in enumerate(columns.inputs):
        found = [
            next(((low, high) for name, low, high in box.ranges if name == column), None)
            for box in region
        ]
        ranges = [each for each in found if each is not None]
        if ranges and len(ranges) == len(found):
            reach[:, index] = min(low for low, _ in ranges), max(high for _, high in ranges)
    return reach


def check_limits(network: Built, rows: np.ndarray, scaling: Scaling) -> None:
    """Limits at some rows (user's units): finite, and the lower one below the upper one."""
    try:
        ends = jax.vmap(network.limits)(jnp.asarray(scaling.inputs(rows), float))
    except jax.errors.JAXTypeError as error:
        names = sorted({limit.rule for limit in network.plan.limits if callable(limit.formula)})
        raise KnowledgeError(
            f"rule {' or '.join(map(repr, names))}: cannot be met by construction: its callable is "
            "not made of jax.numpy and arithmetic alone; write it so, or as text"
        ) from error
    lower, upper = (np.asarray(end, np.float64) for end in ends)
    wrong = ~(lower <= upper)
    if not wrong.any():
        return
    place, output = np.argwhere(wrong)[0]
    at = ", ".join(
        f"{name}={value:g}" for name, value in zip(network.plan.inputs, rows[place], strict=True)
    )
    name = network.plan.outputs[output]
    low, high = (scaling.restore(end)[place, output] for end in (lower, upper))
    raise KnowledgeError(
        f"limits of {name!r} cannot be met by construction: they would hold everywhere, and at "
        f"{at} the lower one is {low:g} and the upper one {high:g}; loosen one, or {INSTEAD}"
    )
