"""The contract of an engine: how it starts, what a step does, and the draws it ends with."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from prbnn.enforcement.fraction import REJECTION
from prbnn.enforcement.measure import Measured
from prbnn.errors import is_number
from prbnn.inference.problem import Batch, Problem
from prbnn.model.likelihoods import Likelihood
from prbnn.rules.strengths import Kind

ALL_KINDS: tuple[Kind, ...] = (
    Kind.SOFT,
    Kind.PRIOR,
    Kind.HARD,
    Kind.TOLERANT,
    Kind.FUNCTIONS,
    Kind.POINTS,
    Kind.AVERAGE,
)


# the strengths that engines which follow gradients can enforce, and what they say of the others
WITH_SLOPES: tuple[Kind, ...] = (Kind.SOFT, Kind.PRIOR, Kind.HARD, Kind.TOLERANT, Kind.AVERAGE)
NEEDS_SLOPES = (
    "it follows slopes and an indicator has none: use .hard(), or inference='nuts' or 'bbb'"
)


class Pace(NamedTuple):
    """Where a step is in its run.

    - `rate`: the factor of the learning rate
    - `warmed`: runs from 0 to 1 while a sampler adapts itself
    - `keeping`: for how many steps after that the sampler keeps draws
    """

    rate: Float[Array, ""]
    warmed: Float[Array, ""]
    keeping: Int[Array, ""]

    @property
    def warming(self) -> Array:
        """Whether the sampler still adapts."""
        return self.warmed < 1


class Info(NamedTuple):
    """What a person wants to see of a step.

    - `objective`: what the engine maximises, without the rules' part
    - `cost`: KL(q || prior), or minus the log prior where there is no q
    - `measured`: of each function that the step drew, on the leading axis
    """

    objective: Float[Array, ""]
    log_likelihood: Float[Array, ""]
    cost: Float[Array, ""]
    measured: Measured


class Draws(NamedTuple):
    """Weight vectors, each with the likelihood's own parameters that belong to it."""

    weights: Float[Array, "draws weights"]
    own: Float[Array, "draws parameters"]


@runtime_checkable
class Engine(Protocol):
    """Finds a posterior of log density + sum of pressure * f; options are fields of a dataclass.

    The defaults are those of a variational engine: it follows pressure at once, takes batches, can always
    draw more, and can enforce every strength.

    - `name`: as in ``inference="..."``
    - `steps`: the budget unless one is given; `chunk`: steps per call of the compiled loop
    - `block`: steps for which a sampler holds its pressure; 1 for engines that follow at once
    - `rejection`: the fraction of its draws that may break a hard rule and be rejected
    - `full_batch`: whether it needs all rows at every step
    - `endless`: whether it can always draw more
    - `races`: whether the tempering can be chosen by short runs of it; without them, "auto" is 1
    - `builds`: whether it can fit networks that rules are built into
    - `uses_rows`: whether `Problem.rows` must hold the training rows, since draws depend on them
    - `honours`: the kinds of strength it can enforce; `instead` says what to use for the others
    """

    name: ClassVar[str]
    steps: ClassVar[int]
    chunk: ClassVar[int] = 250
    block: ClassVar[int] = 1
    rejection: ClassVar[float] = REJECTION
    full_batch: ClassVar[bool] = False
    endless: ClassVar[bool] = True
    races: ClassVar[bool] = True
    builds: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = False
    honours: ClassVar[tuple[Kind, ...]] = ALL_KINDS
    instead: ClassVar[str] = ""

    def init(self, problem: Problem, key: Array) -> Any:
        """The first state."""
        ...

    def step(
        self,
        problem: Problem,
        key: Array,
        state: Any,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[Any, Info]:
        """One step with the random ``key``; traced once and run in the compiled loop.

        ``pressure`` is the factor of each rule's f in what is maximised.
        """
        ...

    def finish(self, problem: Problem, state: Any, batch: Batch) -> Any:
        """The state after the last work on all rows, when training has ended; by default as it was."""
        return state

    @property
    def budget(self) -> int:
        """Steps of a fit that states none."""
        return self.steps

    def available(self, state: Any, count: int) -> int:
        """How many draws there are where ``count`` are requested; not for compiled code."""
        return count

    def residual(self, state: Any) -> float:
        """How far members are from a fixed point, from 0 to 1; 0 where that is not known."""
        return 0.0

    def draws_of(self, problem: Problem, key: Array, state: Any, count: int) -> Draws:
        """``count`` draws; all there are where the engine has fewer."""
        ...

    def objection(self, network: Any, likelihood: Likelihood, *, exact: bool) -> str:
        """Why the engine cannot fit this declared network or likelihood; empty where it can.

        ``exact`` says whether every target is known exactly: none is censored.
        """
        return ""

    def elbo(self, problem: Problem, state: Any, draws: Draws, batch: Batch) -> Float[Array, ""]:
        """The untempered evidence lower bound, its expectation over ``draws``; NaN where not known."""
        return jnp.asarray(jnp.nan)

    def prior_precision(self, problem: Problem, state: Any) -> Float[Array, " weights"]:
        """What the prior adds to the posterior's precision of each weight: that of the tempered prior."""
        return problem.tempering / problem.prior_sd**2

    def hasty(self, factor: float, fastest: float) -> Engine:
        """A faster copy of itself for short runs, by `hasty_rate`; itself where these are not made."""
        return self


def evenly(vectors: Array, count: int) -> Array:
    """``count`` of the rows at even distances; all where there are fewer."""
    total = vectors.shape[0]
    return vectors if count >= total else vectors[(jnp.arange(count) * total) // count]


def hasty_rate(rate: float, factor: float, fastest: float) -> float:
    """The learning rate of a short run: ``factor`` times as high, up to ``fastest``."""
    return min(factor * rate, fastest)


def above_zero(options: object, *names: str) -> None:
    """Raise where an option of these ``names`` is not above 0."""
    for name in names:
        value = getattr(options, name)
        if not (is_number(value) and value > 0):
            raise ValueError(f"{type(options).__name__}: {name} must be above 0, got {value!r}")
