"""What a fit returns: the posterior, how it ended, the prices of the rules, and its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from prbnn.certify.certificate import Certificate
from prbnn.posterior.diagnostics import Diagnostics, by_chain, effective_draws
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Kind

Status = Literal[
    "converged", "budget spent", "infeasible", "diverged", "acceptance too low", "interrupted"
]


@dataclass(frozen=True)
class Result:
    """How a fit ended; `message` says what to do.

    - `rules`: names of the rules that were not met, or whose duals have not settled
    - `warnings`: doubts about a fit that ended well, each "what: details, remedy"
    """

    status: Status
    message: str = ""
    rules: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.status}: {self.message}" if self.message else self.status


@dataclass(frozen=True, eq=False)
class History:
    """Averages over chunks of steps; per-rule arrays are (chunks, rules), in the user's units.

    They are of the points that were evaluated. Over several inputs half of these are the worst points
    known, where a rule is hard without a tolerance.
    """

    step: np.ndarray
    elbo: np.ndarray
    violation: np.ndarray
    broken: np.ndarray
    dual: np.ndarray

    def among(self, places: Sequence[int], count: int) -> History:
        """The same for ``count`` rules, of which these are at ``places``; the others are 0."""
        wide = {}
        for name in ("violation", "broken", "dual"):
            wide[name] = np.zeros((len(self.step), count))
            wide[name][:, list(places)] = getattr(self, name)
        return replace(self, **wide)


@dataclass(frozen=True)
class Progress:
    """Where a running fit is.

    - `violation`: the largest mean violation of a rule, in its unit
    - `share_broken`: the largest fraction of draws that break a rule
    - `rules`: one (name, mean violation in the user's units, fraction of draws that break it) per rule
    """

    step: int
    steps: int
    elbo: float
    violation: float
    share_broken: float
    rules: tuple[tuple[str, float, float], ...] = ()


class Fitted(Protocol):
    """An engine's final state: a source of further draws."""

    @property
    def endless(self) -> bool:
        """Whether the engine can always draw more."""
        ...

    def draw(self, count: int, number: int) -> Posterior:
        """``count`` raw draws; ``number`` selects an independent batch where the engine can draw more."""
        ...

    def elbo(self, posterior: Posterior) -> float:
        """The untempered evidence lower bound, its expectation taken over a posterior's draws."""
        ...


@dataclass(frozen=True)
class Price:
    """What loosening a rule a little would buy, in nats of evidence per unit of the user's.

    - `tolerance`: nats per unit of mean violation tolerated beyond what is tolerated now: the dual; None
      where the dual is no price (`has_price`)
    - `violated`: the probability, over raw draws and the rule's points, that its score is below 0
    - `bound`: nats per unit that the rule's bound is moved outwards, ``tolerance * violated``, since
      moving the bound helps only where a function is beyond it. For `.on_average`, whose score counts
      everywhere, it is the dual itself; None for `.probably` and `.in_prior`, where other things than
      the mean violation move with the bound
    """

    tolerance: float | None
    violated: float
    bound: float | None


def has_price(rule: Rule) -> bool:
    """Whether a rule's dual says what loosening the rule would buy.

    For `.hard()` without a tolerance it does not: that dual grows until few enough draws break the rule
    (or, where draws are moved, until their mean violation is small), so it depends on how few are asked
    for as much as on the data.

    >>> from prbnn import AtLeast
    >>> has_price(AtLeast(0).hard(0.01)), has_price(AtLeast(0).hard())
    (True, False)
    """
    return rule.strength.kind != Kind.HARD


def price_of(rule: Rule, dual: float, violated: float) -> Price:
    """The two prices of ``rule``, which has this ``dual`` and is broken with probability ``violated``.

    >>> from prbnn import AtLeast
    >>> price_of(AtLeast(0).hard(0.01), 18.0, 0.05).bound
    0.9
    """
    if not has_price(rule):
        return Price(None, violated, None)
    match rule.strength.kind:
        case Kind.TOLERANT | Kind.SOFT:
            return Price(dual, violated, dual * violated)
        case Kind.AVERAGE:
            return Price(dual, violated, dual)
    return Price(dual, violated, None)


@dataclass(frozen=True)
class Moves:
    """What projection did for one rule.

    - `fraction`: of the draws that were found to break the rule and were moved
    - `distance`: by how much these were moved, in standard deviations of the noise: the median over
      draws of the root mean square over training rows
    - `change`: the same in the user's units, of the output that changed most
    """

    rule: str
    fraction: float
    distance: float
    change: float


@dataclass(frozen=True, eq=False)
class Proof:
    """Draws that were proved to obey every hard rule, and the certificate that says on which sets.

    - `acceptance`: the fraction of raw draws that were
    - `rounds`: how often counterexamples joined the points and training went on
    - `complete`: whether as many draws were proved as were wanted
    """

    posterior: Posterior
    certificate: Certificate
    acceptance: float
    rounds: int
    complete: bool


@dataclass(frozen=True, eq=False)
class Solution:
    """A fitted posterior and its record.

    - `posterior`: raw draws, none rejected
    - `rules`: all of them; those in `built_in(posterior.network)` hold by construction
    - `duals`: nats per unit of f for each rule, averaged over the last sixth of training; on the
      tempered scale where ``tempering`` is not 1
    - `elbo`: expected log likelihood minus KL, untempered, in nats of the data in network units
      (computed on first access)
    - `prices`: what loosening a rule's tolerance or its bound would buy (computed on first access); None
      for hard rules without a tolerance, whose duals are no prices
    - `diagnostics`: how well a sampler's chains have mixed; None for other engines
    - `location`, `scale`: mean and standard deviation of every weight under the raw posterior
    - `proof`: draws proved to obey; None without ``prove=``
    """

    posterior: Posterior
    result: Result
    duals: dict[str, float]
    history: History
    rules: Sequence[Rule]
    tempering: float
    location: np.ndarray
    scale: np.ndarray
    steps: int
    seconds_compile: float
    seconds_run: float
    fitted: Fitted
    diagnostics: Diagnostics | None = None
    proof: Proof | None = None

    def more(self, count: int, number: int) -> Posterior:
        """A further posterior of ``count`` raw draws.

        ``number`` selects an independent batch of draws, where the engine can draw more.
        """
        return self.fitted.draw(count, number)

    @cached_property
    def elbo(self) -> float:
        """E_q log p(y | x, w) - KL(q || prior), from the posterior's draws."""
        return self.fitted.elbo(self.posterior)

    @cached_property
    def prices(self) -> dict[str, Price]:
        """What loosening each rule would gain: its tolerance, or its bound."""
        violated = self.posterior.violated(self.rules)
        return {
            rule.label: price_of(rule, self.duals[rule.label], float(chance))
            for rule, chance in zip(self.rules, violated, strict=True)
        }

    def effective_draws(self, values: np.ndarray) -> float:
        """How many independent draws ``values``, one per draw of the posterior, are worth."""
        if self.diagnostics is None:
            return float(len(values))
        return effective_draws(values, self.diagnostics.chains)

    def to_arviz(self) -> Any:
        """The draws as ArviZ reads them: weights by chain, and predictions at the training rows."""
        try:
            import arviz  # ty: ignore[import-not-found]
        except ImportError as error:
            raise ImportError(
                "to_arviz() needs ArviZ: install it with pip install 'prbnn[arviz]'"
            ) from error
        chains = 1 if self.diagnostics is None else self.diagnostics.chains
        rows = self.posterior.columns.rows
        return arviz.from_dict(
            posterior={
                "weights": by_chain(np.asarray(self.posterior.draws), chains),
                "prediction": by_chain(self.posterior.functions(rows), chains),
            }
        )
