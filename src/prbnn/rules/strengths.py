"""How binding a rule is: soft, in the prior, hard, probable, or on average."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from prbnn.errors import KnowledgeError, is_number


class Kind(StrEnum):
    """How a strength is measured and enforced.

    - SOFT: a price per unit of mean violation
    - PRIOR: a factor of the prior
    - HARD: no tolerance; the fraction of drawn functions that break the rule is held down
    - TOLERANT: hard with a stated tolerance of the mean violation
    - FUNCTIONS, POINTS: a fraction of at least p of drawn functions, or of points, obeys
    - AVERAGE: a bound on the mean of the unclipped score
    """

    SOFT = "soft"
    PRIOR = "prior"
    HARD = "hard"
    TOLERANT = "hard with a tolerance"
    FUNCTIONS = "probable functions"
    POINTS = "probable points"
    AVERAGE = "average"


@dataclass(frozen=True)
class Soft:
    """A price: the objective loses ``weight * (-E f) ** power`` nats; f in the rule's own unit."""

    weight: float
    power: float = 1.0

    @property
    def kind(self) -> Kind:
        """How this strength is measured and enforced."""
        return Kind.SOFT

    def __post_init__(self) -> None:
        if not (is_number(self.weight) and 0 < self.weight < float("inf")):
            raise KnowledgeError(
                f"soft weight must be above 0, got {self.weight!r}; leave the rule out to ignore it"
            )
        if not (is_number(self.power) and self.power >= 1):
            raise KnowledgeError(f"soft power must be at least 1, got {self.power!r}")

    def __str__(self) -> str:
        return f"soft {self.weight:g}" + (f", power {self.power:g}" if self.power != 1 else "")


@dataclass(frozen=True)
class InPrior:
    """Knowledge in the prior, p(w) exp(weight * f): OC-BNN, with a weight set by hand."""

    weight: float

    @property
    def kind(self) -> Kind:
        """How this strength is measured and enforced."""
        return Kind.PRIOR

    def __post_init__(self) -> None:
        if not (is_number(self.weight) and 0 < self.weight < float("inf")):
            raise KnowledgeError(f"in_prior weight must be above 0, got {self.weight!r}")

    def __str__(self) -> str:
        return f"in the prior, {self.weight:g}"


@dataclass(frozen=True)
class Hard:
    """E_q f >= -tolerance; without a tolerance, tightened until nearly all drawn functions obey."""

    tolerance: float | None = None

    @property
    def kind(self) -> Kind:
        """How this strength is measured and enforced."""
        return Kind.HARD if self.tolerance is None else Kind.TOLERANT

    def __post_init__(self) -> None:
        if self.tolerance is not None and not (is_number(self.tolerance) and self.tolerance >= 0):
            raise KnowledgeError(
                f"hard tolerance must be 0 or above, got {self.tolerance!r}: "
                "it is the largest mean violation that is acceptable, in the rule's own unit"
            )

    def __str__(self) -> str:
        return "hard" if self.tolerance is None else f"hard, tolerance {self.tolerance:g}"


@dataclass(frozen=True)
class Probable:
    """A fraction of at least ``p`` of drawn functions (or of points) obeys the rule."""

    p: float
    of: Literal["functions", "points"] = "functions"

    @property
    def kind(self) -> Kind:
        """How this strength is measured and enforced."""
        return Kind.FUNCTIONS if self.of == "functions" else Kind.POINTS

    def __post_init__(self) -> None:
        if not (is_number(self.p) and 0 < self.p < 1):
            raise KnowledgeError(
                f"probably(p) needs p between 0 and 1, both excluded, got {self.p!r}; "
                "use .hard() for a rule without exceptions"
            )
        if self.of not in ("functions", "points"):
            raise KnowledgeError(
                f"probably(of=...) is 'functions' or 'points', got {self.of!r}: 'functions' "
                "requires whole drawn functions to obey, 'points' counts points and functions together"
            )

    def __str__(self) -> str:
        return f"probably {self.p:g} of {self.of}"


@dataclass(frozen=True)
class OnAverage:
    """E_q[score] >= bound, with the score unclipped: an excess makes up for a violation elsewhere."""

    bound: float = 0.0

    @property
    def kind(self) -> Kind:
        """How this strength is measured and enforced."""
        return Kind.AVERAGE

    def __post_init__(self) -> None:
        if not (is_number(self.bound) and abs(self.bound) < float("inf")):
            raise KnowledgeError(f"on_average needs a finite number, got {self.bound!r}")

    def __str__(self) -> str:
        return f"on average >= {self.bound:g}"


Strength = Soft | InPrior | Hard | Probable | OnAverage
