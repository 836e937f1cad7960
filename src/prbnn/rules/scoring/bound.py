"""Rules ready to score: their numbers at given points, as arrays, divided by the rule's unit.

``score(function, x, known)`` is for one drawn function and one point, and >= 0 where the rule holds;
``known`` holds what depends on the point alone, computed beforehand in float64.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError
from prbnn.rules.scoring.drawn import Drawn, frame_of
from prbnn.rules.scoring.places import HostPlaces, Places
from prbnn.rules.scoring.quantities import BoundQuantity, InPlace, Known, bind_quantity, places_of
from prbnn.rules.statements import Statement, Stating

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling


class BoundRule(eqx.Module):
    """A rule with its numbers in place; scores come out in multiples of ``unit``."""

    unit: Float[Array, ""]
    margin: Float[Array, ""]
    known: Known

    @abstractmethod
    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        """One or several scores at one point, >= 0 where the rule holds."""

    @property
    def component_weights(self) -> Array | None:
        """Weights of the components of an array score; None is their mean."""
        return None

    @property
    def of_values(self) -> bool:
        """Whether the outputs at a point decide; slopes and comparisons need the function."""
        return False

    def general(self) -> BoundRule:
        """The same rule with its columns and outputs as numbers, so that it stacks with others."""
        return self

    def without_margin(self) -> BoundRule:
        """The same rule without its margin."""
        return eqx.tree_at(lambda rule: rule.margin, self, jnp.zeros_like(self.margin))


class Stated(BoundRule):
    """What statements about one quantity say of it.

    ``known["limits"]`` has the limits of each statement, and ``avoid`` says of each whether its intervals
    are forbidden. With several statements, ``known["active"]`` is the index of the one that
    applies at the point.
    """

    quantity: BoundQuantity
    avoid: tuple[bool, ...] = eqx.field(static=True)

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        return self.judged(self.quantity.level(function, x, known), known)

    def judged(self, level: Array, known: Known) -> Array:
        """The score of a level of the quantity."""
        scores = [
            _score(level, limits, avoid)
            for limits, avoid in zip(known["limits"], self.avoid, strict=True)
        ]
        found = scores[0]
        for number, score in enumerate(scores[1:]):
            found = jnp.where(known["active"] > number + 0.5, score, found)
        return found

    @property
    def of_values(self) -> bool:
        return self.quantity.of_values

    def general(self) -> BoundRule:
        return eqx.tree_at(lambda rule: rule.quantity, self, self.quantity.general())


def _score(level: Array, limits: Known, avoid: bool) -> Array:
    """How far a level is inside its limits, or outside all intervals to avoid.

    - lower <= level <= upper, either end optional: min(level - lower, upper - level)
    - in one of several intervals k: max_k min(level - lower_k, upper_k - level)
    - outside all of them: min_k max(lower_k - level, level - upper_k)
    """
    if "intervals" not in limits:
        below = level - limits["lower"] if "lower" in limits else None
        above = limits["upper"] - level if "upper" in limits else None
        if below is not None and above is not None:
            return jnp.minimum(below, above)
        return jnp.asarray(below if above is None else above)
    lower, upper = limits["intervals"]
    level = level[..., None]
    if avoid:
        return jnp.min(jnp.maximum(lower - level, level - upper), axis=-1)
    return jnp.max(jnp.minimum(level - lower, upper - level), axis=-1)


class CombinedRule(BoundRule):
    """Several rules' scores side by side, each less its own margin."""

    parts: tuple[BoundRule, ...]
    weights: Float[Array, " parts"]
    sizes: tuple[int, ...] = eqx.field(static=True)

    def score(self, function: Drawn, x: Array, known: Known) -> Array:
        return jnp.concatenate(
            [
                jnp.ravel(part.score(function, x, known[str(place)]) - part.margin)
                for place, part in enumerate(self.parts)
            ]
        )

    @property
    def component_weights(self) -> Array | None:
        sizes = np.array(self.sizes)
        return jnp.repeat(self.weights / sizes, sizes, total_repeat_length=int(sizes.sum()))

    def without_margin(self) -> BoundRule:
        bare = eqx.tree_at(lambda rule: rule.margin, self, jnp.zeros_like(self.margin))
        parts = tuple(part.without_margin() for part in self.parts)
        return eqx.tree_at(lambda rule: rule.parts, bare, parts)


def bind(rule: Stating, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
    """Evaluate everything in ``rule`` that depends on the points alone; errors name the rule."""
    try:
        here = HostPlaces(columns, scaling, points)
        bound = _bind(rule, columns, scaling, here)
        _components(bound, columns, scaling)
        return bound
    except KnowledgeError as error:
        raise error.named(rule.label) from None
    except jax.errors.TracerBoolConversionError as error:
        raise KnowledgeError(
            f"rule {rule.label!r}: a score may not use Python's if, and, or on values; use "
            "jax.numpy.where instead",
            rule=rule.label,
        ) from error
    except Exception as error:
        raise KnowledgeError(
            f"rule {rule.label!r}: {type(error).__name__}: {error}", rule=rule.label
        ) from error


def _bind(rule: Stating, columns: Columns, scaling: Scaling, here: Places) -> BoundRule:
    if rule.parts == (rule,):
        statements = rule.statements(columns)
        found = bind_quantity(statements[0].quantity, columns, scaling)
        known = _known(statements, found, here)
        return Stated(
            **_numbers(rule, found.unit),
            known=jax.tree.map(lambda array: jnp.asarray(array, float), known),
            quantity=found.quantity,
            avoid=tuple(statement.avoid for statement in statements),
        )
    parts = []
    for part in rule.parts:
        try:
            parts.append(_bind(part, columns, scaling, here))
        except KnowledgeError as error:
            raise error.named(part.label) from None
    return CombinedRule(
        **_numbers(rule, 1.0),
        known={str(place): part.known for place, part in enumerate(parts)},
        parts=tuple(eqx.tree_at(lambda part: part.known, part, {}) for part in parts),
        sizes=tuple(_components(part, columns, scaling) for part in parts),
        weights=jnp.asarray(np.array(rule.each_weight), float),
    )


def _numbers(rule: Stating, unit: float) -> dict[str, Any]:
    return {"unit": jnp.asarray(unit, float), "margin": jnp.asarray(rule.margin / unit, float)}


def known_at(rule: Stating, columns: Columns, scaling: Scaling) -> Callable[[Places], Known]:
    """What a rule knows at points, as a function of them: on the host, or traced for a proof."""
    if rule.parts != (rule,):
        parts = [known_at(part, columns, scaling) for part in rule.parts]
        return lambda here: {str(place): part(here) for place, part in enumerate(parts)}
    statements = rule.statements(columns)
    found = bind_quantity(statements[0].quantity, columns, scaling)
    return lambda here: _known(statements, found, here)


def _known(statements: Sequence[Statement], bound: InPlace, here: Places) -> Known:
    quantity = statements[0].quantity
    found = places_of(quantity, bound, here)
    found["limits"] = tuple(limits_of(statement, bound, here) for statement in statements)
    if len(statements) > 1:
        found["active"] = sum(
            here.beyond(str(quantity.column), statement.beyond)
            for statement in statements
            if statement.beyond is not None
        )
    return found


def limits_of(statement: Statement, bound: InPlace, here: Places) -> Known:
    """Ends of a statement's intervals at points, in the quantity's unit."""
    if statement.nonnegative != 0.0:
        here.check_nonnegative(statement.nonnegative, statement.ends[0])
    give = bound.unit / 100 if statement.give is None else statement.give
    if give != 0.0:
        give = here.value(give, statement.ends[0])

    def counted(end: Any) -> Any:
        return None if end is None else (end - bound.shift) / bound.unit

    def ends(low: Any, high: Any) -> tuple[Any, Any]:
        lower = None if low is None else here.value(low, statement.ends[0]) - give
        upper = None if high is None else here.value(high, statement.ends[1]) + give
        if lower is not None and upper is not None:
            here.check_order(lower, upper)
        return counted(lower), counted(upper)

    pairs = [ends(*interval) for interval in statement.intervals]
    if len(pairs) == 1 and not statement.avoid:
        named = zip(("lower", "upper"), pairs[0], strict=True)
        return {name: end for name, end in named if end is not None}
    open_ends = (-np.inf, np.inf)
    lower, upper = (
        here.stacked([pair[side] if pair[side] is not None else open_ends[side] for pair in pairs])
        for side in (0, 1)
    )
    return {"intervals": (lower, upper)}


def _components(bound: BoundRule, columns: Columns, scaling: Scaling) -> int:
    """How many scores a rule has at a point; tracing it also finds mistakes in users' functions.

    Rules about outputs as they are call no such function, and tracing hundreds of them takes seconds.
    """
    if isinstance(bound, Stated) and bound.quantity.components is not None:
        return bound.quantity.components
    zeros = jnp.zeros(len(columns.outputs))

    def score(x: Array, known: Known) -> Array:
        function = Drawn(lambda x: zeros + jnp.sum(x), frame_of(columns, scaling))
        return bound.score(function, x, known)

    known = jax.tree.map(lambda array: array[0], bound.known)
    return int(np.prod(jax.eval_shape(score, jnp.zeros(len(columns.inputs)), known).shape))
