"""Rules of your own: a score you write, or several rules weighed into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.base import Rule
from prbnn.rules.regions import Sampling
from prbnn.rules.statements import Custom, Statement


@dataclass(frozen=True)
class Score(Rule):
    """Any function of a drawn function and a point that is >= 0 where the rule holds.

    ``score(function, x)`` sees one drawn function and one point, in the user's units:
    ``x["column"]``, ``x.replace(column=value)``, ``function(x)``, ``function.slope(x, "column")``,
    ``function.bend(x, "column", step)``. It is traced by JAX: use ``jax.numpy``, no Python ``if``
    on values. Of sequences, ``function(x, "altitude")`` is the whole trajectory ahead and
    ``x["altitude"]`` the one observed. ``unit`` is a size of score that matters; the target's
    standard deviation if None.

    >>> decay = Score(lambda function, x: 0.1 - abs(function.slope(x, "t") + function(x)), name="decay")
    >>> decay.label
    'decay'
    """

    takes_of: ClassVar[bool] = False

    score: Callable[[Any, Any], Any]
    unit: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.score):
            raise KnowledgeError(f"Score: needs a callable of (function, x), got {self.score!r}")
        if self.of is not None:
            raise KnowledgeError(
                "Score: of= has no meaning here; name the output in function(x, 'name')"
            )
        if self.at is not None:
            raise KnowledgeError(
                "Score: at= has no meaning here; take the steps of function(x, 'name') you mean"
            )
        if self.unit is not None and not (is_number(self.unit) and self.unit > 0):
            raise KnowledgeError(f"Score: unit must be above 0, got {self.unit!r}")
        super().__post_init__()

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        return (self.state(Custom(score=self.score, unit=self.unit), (0.0, None)),)

    def describe(self) -> str:
        return f"score {getattr(self.score, '__name__', 'callable')}"


@dataclass(frozen=True)
class Combined(Rule):
    """Several rules as one, f = sum_i weight_i f_i: they share a region, a strength and a dual.

    Weights are relative: each part's f is first divided by its own unit.

    >>> from prbnn import AtLeast, Increasing
    >>> Combined([AtLeast(0), Increasing("x")], weights=[1, 2]).describe()
    '1 * (output >= 0) + 2 * (output rises with x)'
    """

    takes_of: ClassVar[bool] = False

    rules: Sequence[Rule]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not self.rules or not all(isinstance(rule, Rule) for rule in self.rules):
            raise KnowledgeError("Combined: needs a list of rules")
        if len(self.each_weight) != len(self.rules):
            raise KnowledgeError(
                f"Combined: {len(self.rules)} rules but {len(self.each_weight)} weights"
            )
        if not all(is_number(weight) and weight > 0 for weight in self.each_weight):
            raise KnowledgeError(f"Combined: every weight must be above 0, got {self.weights!r}")
        places = {rule.region for rule in self.rules} - {()}
        if len(places - {self.region} if self.where is not None else places) > (
            0 if self.where is not None else 1
        ):
            raise KnowledgeError(
                "Combined: the rules hold in different regions; give `where` to Combined alone, "
                "or list the rules one by one"
            )
        for word, value in (("of", self.of), ("at", self.at)):
            if value is not None:
                raise KnowledgeError(f"Combined: {word}= has no meaning here; give it to the rules")
        if any(isinstance(rule, Combined) for rule in self.rules):
            raise KnowledgeError("Combined: a Combined rule cannot be a part of another")
        super().__post_init__()

    @property
    def each_weight(self) -> tuple[float, ...]:
        """One weight per rule; all 1 where none were given."""
        return tuple(self.weights) if self.weights is not None else (1.0,) * len(self.rules)

    @property
    def parts(self) -> tuple[Rule, ...]:
        """The rules, each in the region of the whole where that is stated."""
        if self.where is None:
            return tuple(self.rules)
        return tuple(replace(rule, where=self.where) for rule in self.rules)

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        """The statements of all parts."""
        return tuple(stated for part in self.parts for stated in part.statements(columns))

    def sampling(self, columns: Columns) -> Sampling:
        """The first part that sweeps a column decides which one; steps are the longest of all parts."""
        parts = [rule.sampling(columns) for rule in self.parts]
        # a part whose steps stay on either side of a value states a region of its own
        own = {
            part.region
            for rule, part in zip(self.parts, parts, strict=True)
            if part.region != rule.region
        }
        swept = {part.column for part in parts} - {None}
        if len(own) > 1 or (own and len(swept) > 1):
            raise KnowledgeError(
                "Combined: Unimodal compares steps on either side of its peak and shares no points with "
                "these rules; list the rules one by one"
            )
        place = next(iter(own), next((part.region for part in parts if part.region), ()))
        if len(swept) > 1:
            return Sampling(place)
        return Sampling(
            place,
            next(iter(swept), None),
            before=max(part.before for part in parts),
            after=max(part.after for part in parts),
        )

    def describe(self) -> str:
        return " + ".join(
            f"{weight:g} * ({rule.describe()}{rule.when})"
            for weight, rule in zip(self.each_weight, self.rules, strict=True)
        )
