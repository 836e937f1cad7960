"""The grammar of the knowledge file: one small model a rule.

A rule is a mapping with exactly one *kind*, a key such as ``at_least`` that says what should hold,
and options beside it. The editors' schema is derived from these models, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import BeforeValidator, Discriminator, Field, StrictBool

from prbnn.errors import nearest, shortened
from prbnn.rules import along_time as sequence
from prbnn.rules import comparison, own, shape
from prbnn.rules import values as bounds
from prbnn.rules.base import Rule
from prbnn.rules.file.parts import (
    Comparison,
    LimitsAlong,
    LimitsOf,
    Model,
    StrengthEntry,
    option,
    tagged,
)
from prbnn.rules.file.vocabulary import Formula, Number, Place, Steps, Text, Whole
from prbnn.rules.strengths import Hard


class Entry(Model):
    """What every rule may say beside its kind."""

    makes: ClassVar[Callable[..., Rule]]

    name: Text = option("What to call it in reports and errors.")
    where: Place = option("Ranges of columns; left out: everywhere.")
    margin: Number = Field(default=0.0, description="How far inside its limit to stay in training.")
    strength: StrengthEntry = Field(default="hard", description="How binding it is.")
    because: Text = option("Why it holds, for whoever reads the file.")

    def rule(self) -> Rule:
        """The rule that this entry states."""
        common = {name: getattr(self, name) for name in self.common()}
        hard = isinstance(self.strength, str)
        common["strength"] = Hard() if hard else self.strength.strength()
        return type(self).makes(*self.arguments(), **common)

    @classmethod
    def common(cls) -> tuple[str, ...]:
        """The options that this kind shares with others, as the rules call them too."""
        shared = OfEntry if issubclass(cls, OfEntry) else Entry
        return tuple(shared.model_fields)

    def arguments(self) -> list[Any]:
        """What the rule is made of: the kind's own keys, in the order of the rule's arguments."""
        own_keys = [name for name in type(self).model_fields if name not in self.common()]
        return [getattr(self, name) for name in own_keys]


class OfEntry(Entry):
    """A rule that may speak of one output of several, a formula of them, or some steps ahead."""

    of: Text = option("An output, or text in outputs and columns.")
    at: Steps = option("Of sequences, the steps ahead it speaks of.")


class AtLeastEntry(OfEntry):
    """The output is never below this."""

    makes = bounds.AtLeast
    at_least: Formula


class AtMostEntry(OfEntry):
    """The output is never above this."""

    makes = bounds.AtMost
    at_most: Formula


class BetweenEntry(OfEntry):
    """The output stays between two limits."""

    makes = bounds.Between
    between: tuple[Formula, Formula]

    def arguments(self) -> list[Any]:
        return list(self.between)


class EqualsEntry(OfEntry):
    """The output is this, give or take `within`."""

    makes = bounds.Equals
    equals: Formula
    within: Number = option("Left out: a hundredth of the spread.")


class OneOfEntry(OfEntry):
    """The output lies in one of several intervals."""

    makes = bounds.OneOf
    one_of: list[tuple[Formula, Formula]]


class OutsideEntry(OfEntry):
    """The output avoids every one of several intervals."""

    makes = bounds.Outside
    outside: list[tuple[Formula, Formula]]
    smooth: tuple[Number, Number] = option("Sharpness of OC-BNN's score.")


class IncreasingEntry(OfEntry):
    """The output never falls as this column grows."""

    makes = shape.Increasing
    increasing: Text
    over: Number = option("Compare values this far apart.")


class DecreasingEntry(OfEntry):
    """The output never rises as this column grows."""

    makes = shape.Decreasing
    decreasing: Text
    over: Number = option("Compare values this far apart.")


class ConvexEntry(OfEntry):
    """The output bends upwards along this column."""

    makes = shape.Convex
    convex: Text
    step: Number = option("Left out: a twentieth of the range.")


class ConcaveEntry(OfEntry):
    """The output bends downwards along this column."""

    makes = shape.Concave
    concave: Text
    step: Number = option("Left out: a twentieth of the range.")


class SlopeEntry(OfEntry):
    """The slope along a column stays within limits."""

    makes = shape.SlopeBetween
    slope: LimitsAlong

    def arguments(self) -> list[Any]:
        return [self.slope.along, *self.slope.ends]


class CurvatureEntry(OfEntry):
    """The bend along a column stays within limits."""

    makes = shape.CurvatureBetween
    curvature: LimitsAlong
    step: Number = option("Left out: a twentieth of the range.")

    def arguments(self) -> list[Any]:
        return [self.curvature.along, *self.curvature.ends, self.step]


def _comparison(set: dict, relation: str, against: dict, by: float, **common: Any) -> Rule:
    sides: dict[str, Any] = {relation: against}
    return comparison.Compare(set, by=by, **sides, **common)


class CompareEntry(OfEntry):
    """Other things equal, the output with `set` is below, above or within `by` of the other."""

    makes = _comparison
    compare: Comparison

    def arguments(self) -> list[Any]:
        said = self.compare
        return [said.set, said.relation, said.against, said.by]


class FallsEntry(Entry):
    """Of sequences: the variable never rises over `lag` steps."""

    makes = sequence.Falls
    falls: Text
    lag: Whole = 1
    observed: StrictBool = Field(default=False, description="Count the last observed step, too.")


class RisesEntry(Entry):
    """Of sequences: the variable never falls over `lag` steps."""

    makes = sequence.Rises
    rises: Text
    lag: Whole = 1
    observed: StrictBool = Field(default=False, description="Count the last observed step, too.")


class RateEntry(Entry):
    """Of sequences: the change a step stays within limits."""

    makes = sequence.RateBetween
    rate: LimitsOf
    lag: Whole = 1
    observed: StrictBool = Field(default=False, description="Count the last observed step, too.")

    def arguments(self) -> list[Any]:
        return [self.rate.of, *self.rate.ends, self.lag, self.observed]


class ContinuesEntry(Entry):
    """Of sequences: the first step ahead is near the last observed one."""

    makes = sequence.Continues
    continues: Text
    within: Number


class CombinedEntry(Entry):
    """Several rules as one, which share a region, a strength and a price."""

    makes = own.Combined
    combined: list[AnyEntry]
    weights: list[Number] = option("One a rule; left out: all 1.")

    def arguments(self) -> list[Any]:
        return [[part.rule() for part in self.combined], self.weights]


KINDS: dict[str, type[Entry]] = {
    "at_least": AtLeastEntry,
    "at_most": AtMostEntry,
    "between": BetweenEntry,
    "equals": EqualsEntry,
    "one_of": OneOfEntry,
    "outside": OutsideEntry,
    "increasing": IncreasingEntry,
    "decreasing": DecreasingEntry,
    "slope": SlopeEntry,
    "convex": ConvexEntry,
    "concave": ConcaveEntry,
    "curvature": CurvatureEntry,
    "compare": CompareEntry,
    "falls": FallsEntry,
    "rises": RisesEntry,
    "rate": RateEntry,
    "continues": ContinuesEntry,
    "combined": CombinedEntry,
}


def _kinds(value: Mapping[Any, Any]) -> list[str]:
    return [kind for kind in KINDS if kind in value]


def _one_kind(value: Any) -> Any:
    """Refuse an entry that says nothing, or two things at once."""
    if not isinstance(value, Mapping):
        raise ValueError(f"needs a rule such as {{at_least: 0}}, got {shortened(value)}")
    found = _kinds(value)
    if len(found) > 1:
        raise ValueError(
            f"says {' and '.join(found)} at once; make them {len(found)} rules, one a line"
        )
    if not found:
        unknown = [str(key) for key in value if key not in OfEntry.model_fields]
        hints = [nearest(key, list(KINDS)) for key in unknown]
        hint = next((hint for hint in hints if "did you mean" in hint), "")
        listed = f"; needs one of {', '.join(KINDS)}"
        raise ValueError(f"does not say what should hold{hint or listed}")
    return value


AnyEntry: Any = tagged(
    {f"<{kind}>": model for kind, model in KINDS.items()},
    Discriminator(lambda value: f"<{_kinds(value)[0]}>"),
    BeforeValidator(_one_kind),
)
CombinedEntry.model_rebuild()


class FileModel(Model):
    """A knowledge file: rules, and the units of the columns for whoever reads it."""

    units: dict[str, Text] = Field(default={}, description="Units of columns, as text.")
    knowledge: list[AnyEntry] | None = Field(description="The rules, one an item.")
