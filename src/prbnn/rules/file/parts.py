"""Parts of a rule in the knowledge file: limits, comparisons and strengths."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from prbnn.rules.file.vocabulary import Formula, Number, Text
from prbnn.rules.strengths import Hard, InPrior, OnAverage, Probable, Soft, Strength


class Model(BaseModel):
    """A mapping of the file; a key that is not listed is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def option(description: str | None = None) -> Any:
    """A key that may be left out, but not left empty."""
    return Field(default=None, description=description)


def tagged(models: Mapping[str, Any], *checks: Any) -> Any:
    """One of several models, chosen by tag.

    Tags appear in pydantic's paths to a mistake; their brackets distinguish them from keys of the file.
    """
    choices: Any = reduce(or_, [Annotated[model, Tag(tag)] for tag, model in models.items()])
    return Annotated[choices, *checks]


class Limits(Model):
    """Both limits as `between`, or `at_least` and `at_most`, of which one may be left out."""

    between: tuple[Formula, Formula] = option()
    at_least: Formula = option()
    at_most: Formula = option()

    @model_validator(mode="after")
    def _some(self) -> Limits:
        single = self.at_least is not None or self.at_most is not None
        if (self.between is not None) == single:
            raise ValueError("needs either between: [low, high], or at_least, or at_most")
        return self

    @property
    def ends(self) -> tuple[Any, Any]:
        """The lower and the upper limit; None where there is none."""
        return self.between or (self.at_least, self.at_most)


def limits(lower: Any, upper: Any) -> dict[str, Any]:
    """`Limits` as a mapping; None is no limit."""
    if lower is not None and upper is not None:
        return {"between": [lower, upper]}
    return {"at_least": lower} if upper is None else {"at_most": upper}


class LimitsAlong(Limits):
    """Limits of a slope or a curvature along a column."""

    along: Text


class LimitsOf(Limits):
    """Limits of the change of a variable from one step to the next."""

    of: Text


class Comparison(Model):
    """Two situations that differ in some columns, and how the output differs."""

    set: dict[Text, Formula]
    relation: Literal["below", "above", "within"] = Field(alias="is")
    against: dict[Text, Formula]
    by: Formula = 0.0


class StrengthModel(Model):
    """A strength as a mapping."""

    def strength(self) -> Strength:
        """The strength that is meant."""
        raise NotImplementedError


class SoftStrength(StrengthModel):
    """A price per unit of violation, in nats."""

    soft: Number
    power: Number = 1.0

    def strength(self) -> Strength:
        return Soft(self.soft, self.power)


class HardStrength(StrengthModel):
    """No more mean violation than this."""

    hard: Number

    def strength(self) -> Strength:
        return Hard(self.hard)


class ProbableStrength(StrengthModel):
    """At least this fraction of drawn functions, or of points, obeys."""

    probably: Number
    of: Literal["functions", "points"] = "functions"

    def strength(self) -> Strength:
        return Probable(self.probably, self.of)


class AverageStrength(StrengthModel):
    """The score is at least this on average."""

    on_average: Number

    def strength(self) -> Strength:
        return OnAverage(self.on_average)


class PriorStrength(StrengthModel):
    """Part of the prior, with this weight."""

    in_prior: Number

    def strength(self) -> Strength:
        return InPrior(self.in_prior)


STRENGTHS: dict[str, type[StrengthModel]] = {
    "soft": SoftStrength,
    "hard": HardStrength,
    "probably": ProbableStrength,
    "on_average": AverageStrength,
    "in_prior": PriorStrength,
}


def _strength_tag(value: Any) -> str | None:
    if value == "hard":
        return "<word>"
    named = [key for key in STRENGTHS if isinstance(value, Mapping) and key in value]
    return f"<{named[0]}>" if len(named) == 1 else None


StrengthEntry: Any = tagged(
    {"<word>": Literal["hard"], **{f"<{key}>": model for key, model in STRENGTHS.items()}},
    Discriminator(_strength_tag, custom_error_type="strength", custom_error_message="unknown"),
)
