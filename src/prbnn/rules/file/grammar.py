"""The grammar of the knowledge file: one small model per rule.

A rule is a mapping with exactly one *kind*, a key such as ``at_least`` that says what should hold,
and options beside it. The editors' schema is derived from these models, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from pydantic import BeforeValidator, Discriminator, Field, StrictBool

from prbnn.errors import KnowledgeError, nearest, shortened
from prbnn.rules.along_time import Continues, Falls, RateBetween, Rises
from prbnn.rules.base import Rule
from prbnn.rules.comparison import Compare
from prbnn.rules.file.parts import (
    Comparison,
    LimitsAlong,
    LimitsOf,
    Model,
    StrengthEntry,
    limits,
    option,
    tagged,
)
from prbnn.rules.file.vocabulary import Formula, Number, NumberOrPair, Place, Steps, Text, Whole
from prbnn.rules.own import Combined
from prbnn.rules.shape import (
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Increasing,
    Periodic,
    SlopeBetween,
    Unimodal,
)
from prbnn.rules.strengths import Hard
from prbnn.rules.values import AtLeast, AtMost, Between, Equals, OneOf, Outside


class Entry(Model):
    """What every rule may say beside its kind.

    A kind is the first key that an entry has of its own; its keys are the arguments of the rule, in their
    order. An entry whose keys are others overrides `arguments` and `said`.
    """

    makes: ClassVar[type[Rule]]

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

    @classmethod
    def own_keys(cls) -> list[str]:
        """The keys that this kind has beside those, itself first."""
        return [name for name in cls.model_fields if name not in cls.common()]

    def arguments(self) -> list[Any]:
        """What the rule is made of: the kind's own keys, in the order of the rule's arguments."""
        return [getattr(self, name) for name in self.own_keys()]

    @classmethod
    def said(cls, rule: Any) -> dict[str, Any]:
        """The kind's own keys of a rule: what `arguments` reads; defaults are left out."""
        inherited = {each.name for each in fields(Rule)}
        own = [each.name for each in fields(rule) if each.name not in inherited]
        values = dict(zip(cls.own_keys(), (getattr(rule, name) for name in own), strict=True))
        return {
            key: value for key, value in values.items() if value != cls.model_fields[key].default
        }


class OfEntry(Entry):
    """A rule that may be about one output of several, a formula of them, or some steps ahead."""

    of: Text = option("An output, or text in outputs and columns.")
    at: Steps = option("For sequences, the steps ahead that the rule is about.")


def _over() -> Any:
    return option("Compare values this far apart.")


def _step() -> Any:
    return option("Left out: 1/20 of the range.")


def _observed() -> Any:
    return Field(default=False, description="Count the last observed step, too.")


class AtLeastEntry(OfEntry):
    """The output is never below this."""

    makes = AtLeast
    at_least: Formula


class AtMostEntry(OfEntry):
    """The output is never above this."""

    makes = AtMost
    at_most: Formula


class BetweenEntry(OfEntry):
    """The output stays between two limits."""

    makes = Between
    between: tuple[Formula, Formula]

    def arguments(self) -> list[Any]:
        return list(self.between)

    @classmethod
    def said(cls, rule: Between) -> dict[str, Any]:
        return {"between": [rule.lower, rule.upper]}


class EqualsEntry(OfEntry):
    """The output is this, give or take `within`."""

    makes = Equals
    equals: Formula
    within: Number = option("Left out: 1/100 of the spread.")


class OneOfEntry(OfEntry):
    """The output lies in one of several intervals."""

    makes = OneOf
    one_of: list[tuple[Formula, Formula]]


class OutsideEntry(OfEntry):
    """The output avoids every one of several intervals."""

    makes = Outside
    outside: list[tuple[Formula, Formula]]
    smooth: tuple[Number, Number] = option("Sharpness of OC-BNN's score.")


class IncreasingEntry(OfEntry):
    """The output never falls as this column grows."""

    makes = Increasing
    increasing: Text
    over: Number = _over()


class DecreasingEntry(OfEntry):
    """The output never rises as this column grows."""

    makes = Decreasing
    decreasing: Text
    over: Number = _over()


class ConvexEntry(OfEntry):
    """The output is convex along this column."""

    makes = Convex
    convex: Text
    step: Number = _step()


class ConcaveEntry(OfEntry):
    """The output is concave along this column."""

    makes = Concave
    concave: Text
    step: Number = _step()


class SlopeEntry(OfEntry):
    """The slope along a column stays within limits."""

    makes = SlopeBetween
    slope: LimitsAlong

    def arguments(self) -> list[Any]:
        return [self.slope.along, *self.slope.ends]

    @classmethod
    def said(cls, rule: SlopeBetween) -> dict[str, Any]:
        return {"slope": {"along": rule.column, **limits(rule.lower, rule.upper)}}


class CurvatureEntry(OfEntry):
    """The curvature along a column stays within limits."""

    makes = CurvatureBetween
    curvature: LimitsAlong
    step: Number = _step()

    def arguments(self) -> list[Any]:
        return [self.curvature.along, *self.curvature.ends, self.step]

    @classmethod
    def said(cls, rule: CurvatureBetween) -> dict[str, Any]:
        along = {"along": rule.column, **limits(rule.lower, rule.upper)}
        return {"curvature": along, "step": rule.step}


class PeriodicEntry(OfEntry):
    """The output repeats along this column after `period`, give or take `within`."""

    makes = Periodic
    periodic: Text
    period: Number
    within: Number = option("Left out: 1/100 of the spread.")


class UnimodalEntry(OfEntry):
    """The output rises along this column up to `peak` and falls beyond it."""

    makes = Unimodal
    unimodal: Text
    peak: NumberOrPair
    over: Number = _over()


class CompareEntry(OfEntry):
    """Other things equal, the output with `set` is below, above or within `by` of the other."""

    makes = Compare
    compare: Comparison

    def arguments(self) -> list[Any]:
        sides = {self.compare.relation: self.compare.against}
        against = [sides.get(relation) for relation in ("below", "above", "within")]
        return [self.compare.set, *against, self.compare.by]

    @classmethod
    def said(cls, rule: Compare) -> dict[str, Any]:
        by = {"by": rule.by} if rule.by else {}
        return {"compare": {"set": rule.set, "is": rule.relation, "against": rule.against, **by}}


class FallsEntry(Entry):
    """Of sequences: the variable never rises over `lag` steps."""

    makes = Falls
    falls: Text
    lag: Whole = 1
    observed: StrictBool = _observed()


class RisesEntry(Entry):
    """Of sequences: the variable never falls over `lag` steps."""

    makes = Rises
    rises: Text
    lag: Whole = 1
    observed: StrictBool = _observed()


class RateEntry(Entry):
    """Of sequences: the change per step stays within limits."""

    makes = RateBetween
    rate: LimitsOf
    lag: Whole = 1
    observed: StrictBool = _observed()

    def arguments(self) -> list[Any]:
        return [self.rate.of, *self.rate.ends, self.lag, self.observed]

    @classmethod
    def said(cls, rule: RateBetween) -> dict[str, Any]:
        rate = {"of": rule.variable, **limits(rule.lower, rule.upper)}
        lag = None if rule.lag == 1 else rule.lag
        return {"rate": rate, "lag": lag, "observed": rule.observed or None}


class ContinuesEntry(Entry):
    """Of sequences: the first step ahead is near the last observed one."""

    makes = Continues
    continues: Text
    within: Number


class CombinedEntry(Entry):
    """Several rules as one, which share a region, a strength and a price."""

    makes = Combined
    combined: list[AnyEntry]
    weights: list[Number] = option("One per rule; left out: all 1.")

    def arguments(self) -> list[Any]:
        return [[part.rule() for part in self.combined], self.weights]


ENTRIES: tuple[type[Entry], ...] = (
    AtLeastEntry,
    AtMostEntry,
    BetweenEntry,
    EqualsEntry,
    OneOfEntry,
    OutsideEntry,
    IncreasingEntry,
    DecreasingEntry,
    SlopeEntry,
    ConvexEntry,
    ConcaveEntry,
    CurvatureEntry,
    PeriodicEntry,
    UnimodalEntry,
    CompareEntry,
    FallsEntry,
    RisesEntry,
    RateEntry,
    ContinuesEntry,
    CombinedEntry,
)
KINDS: dict[str, type[Entry]] = {entry.own_keys()[0]: entry for entry in ENTRIES}


def entry_of(rule: Rule) -> type[Entry]:
    """The entry that states rules of this class."""
    for entry in ENTRIES:
        if type(rule) is entry.makes:
            return entry
    raise KnowledgeError(
        f"a {type(rule).__name__} is a callable, and callables live in Python only; a file "
        "holds rules in numbers and text"
    )


def _kinds(value: Mapping[Any, Any]) -> list[str]:
    return [kind for kind in KINDS if kind in value]


def _one_kind(value: Any) -> Any:
    """Refuse an entry that says nothing, or two things at once."""
    if not isinstance(value, Mapping):
        raise ValueError(f"needs a rule such as {{at_least: 0}}, got {shortened(value)}")
    found = _kinds(value)
    if len(found) > 1:
        raise ValueError(
            f"says {' and '.join(found)} at once; make them {len(found)} rules, one per line"
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
    knowledge: list[AnyEntry] | None = Field(description="The rules, one per item.")
