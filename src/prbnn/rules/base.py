"""What every rule has in common: a name, what it is about, where it holds and how binding it is.

Rules are plain declarations without JAX in them: they print, compare, pickle and clone. What a rule says
is in its statements (`prbnn.rules.statements`); everything else reads those.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from prbnn.data.columns import Columns
from prbnn.data.layout import At, listed
from prbnn.errors import KnowledgeError, is_number
from prbnn.rules.regions import Region, Sampling, Where, region, settled, settled_where
from prbnn.rules.statements import Quantity, Statement
from prbnn.rules.strengths import Hard, InPrior, OnAverage, Probable, Soft, Strength

if TYPE_CHECKING:
    import numpy as np

    from prbnn.data.scaling import Scaling
    from prbnn.rules.scoring.bound import BoundRule


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A piece of knowledge; hard unless a strength is chosen.

    - `of`: an output's name, text in outputs and columns, or a callable of (x, y); None is the
      only output
    - `where`: ranges of columns, e.g. ``{"x": (0, 1)}``; None is wherever the data are
    - `at`: for sequences, the steps ahead that the rule is about: "first", "last", a number or several;
      None is every one
    - `margin`: how far inside its limit the rule must stay while training
    """

    # whether `of` may name an output; False where the rule names what it is about otherwise
    takes_of: ClassVar[bool] = True

    name: str | None = None
    of: str | Callable[[Any, Any], Any] | None = None
    where: Where = None
    at: At = None
    margin: float = 0.0
    strength: Strength = field(default_factory=Hard)
    because: str | None = None

    def __post_init__(self) -> None:
        if not (is_number(self.margin) and self.margin >= 0):
            raise KnowledgeError(f"{self.label}: margin must be 0 or above, got {self.margin!r}")
        _ = self.region  # a badly written region is refused where it is written
        for each in fields(self):
            settle = settled_where if each.name == "where" else settled
            object.__setattr__(self, each.name, settle(getattr(self, each.name)))

    @property
    def region(self) -> Region:
        """Where the rule holds, as boxes."""
        return region(self.where)

    @property
    def label(self) -> str:
        """The name in reports and errors: the one given, or the rule in words."""
        return self.name or f"{self.describe()}{self.when}"

    @property
    def when(self) -> str:
        """The steps ahead that the rule is about, in words."""
        return "" if self.at is None else f" at {_steps_text(self.at)}"

    def describe(self) -> str:
        """The rule in words, without its region and strength."""
        raise NotImplementedError

    def in_words(self, output: str | None = None) -> str:
        """`describe` with the steps ahead; ``output`` is the name to use for what it is about."""
        named = replace(self, of=output) if output is not None and self.takes_of else self
        return f"{named.describe()}{named.when}"

    def statements(self, columns: Columns) -> tuple[Statement, ...]:
        """What the rule says, read against a table.

        Several statements are about the same quantity and hold in different places.
        """
        raise NotImplementedError

    def state(self, quantity: Quantity, *intervals: Any, **options: Any) -> Statement:
        """A statement with the region and the strength of this rule, unless ``options`` say otherwise."""
        stated: dict[str, Any] = {"region": self.region, "strength": self.strength, **options}
        return Statement(quantity, intervals, **stated)

    @property
    def parts(self) -> tuple[Rule, ...]:
        """The rules it consists of: itself, unless it combines several."""
        return (self,)

    @property
    def each_weight(self) -> tuple[float, ...]:
        """One weight per part."""
        return (1.0,)

    def sampling(self, columns: Columns) -> Sampling:
        """Which points of the inputs the rule must be evaluated at."""
        stated = self.statements(columns)
        quantity = stated[0].quantity
        place = tuple(box for statement in stated for box in statement.region)
        before, after = quantity.reach
        return Sampling(place, quantity.column, before=before, after=after)

    def soft(self, weight: float, power: float = 1.0) -> Self:
        """A price of ``weight`` nats per unit of mean violation."""
        return replace(self, strength=Soft(weight, power))

    def in_prior(self, weight: float) -> Self:
        """Part of the prior, p(w) exp(weight * f), instead of a constraint on the posterior."""
        return replace(self, strength=InPrior(weight))

    def hard(self, tolerance: float | None = None) -> Self:
        """No more mean violation than ``tolerance``; None: nearly every drawn function obeys."""
        return replace(self, strength=Hard(tolerance))

    def probably(self, p: float, of: Literal["functions", "points"] = "functions") -> Self:
        """A fraction of at least ``p`` of drawn functions (or of points) obeys the rule."""
        return replace(self, strength=Probable(p, of))

    def on_average(self, bound: float = 0.0) -> Self:
        """The unclipped score is at least ``bound`` on average over functions and points."""
        return replace(self, strength=OnAverage(bound))

    def bind(self, columns: Columns, scaling: Scaling, points: np.ndarray) -> BoundRule:
        """Put the rule's numbers at ``points`` (user's units) into arrays, ready to score."""
        from prbnn.rules.scoring.bound import bind

        return bind(self, columns, scaling, points)


@contextmanager
def naming(rule: Rule) -> Generator[None]:
    """A `KnowledgeError` raised inside carries the name of ``rule``, unless it has a name already."""
    try:
        yield
    except KnowledgeError as error:
        raise error.named(rule.label) from None


def _steps_text(at: At) -> str:
    if isinstance(at, str):
        return f"the {at} step"
    steps = listed(at)
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"


def check_bound(rule: Rule, bound: Any, what: str) -> None:
    """Refuse a bound that is neither a finite number, text nor a callable."""
    if isinstance(bound, str) or callable(bound):
        return
    try:
        finite = abs(float(bound)) < float("inf")
    except (TypeError, ValueError):
        finite = False
    if not finite:
        raise KnowledgeError(
            f"{type(rule).__name__}: {what} must be a finite number, text in the column names or "
            f"a callable of x, got {bound!r}"
        )


def named(rules: Sequence[Rule]) -> list[Rule]:
    """Give every rule a name of its own, numbering those that would read the same."""
    if isinstance(rules, Rule | str) or not hasattr(rules, "__iter__"):
        raise KnowledgeError(f"knowledge must be a list of rules, got {rules!r}; write [rule]")
    taken = {rule.label for rule in rules if isinstance(rule, Rule)}
    used: set[str] = set()
    result = []
    for rule in rules:
        if not isinstance(rule, Rule):
            raise KnowledgeError(
                f"knowledge must be a list of rules such as AtLeast(0), got {rule!r}"
            )
        name, number = rule.label, 1
        while name in used or (number > 1 and name in taken):
            number += 1
            name = f"{rule.label} ({number})"
        used.add(name)
        result.append(replace(rule, name=name))
    return result
