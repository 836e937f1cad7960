"""Deep ensemble: several networks trained side by side from different starts.

Reach for it when prediction matters most and a handful of functions is enough. Anchored members are
each pulled to a draw of the prior, which makes a wide network's ensemble close to a posterior.
Lakshminarayanan et al., *Deep ensembles*, 2017; Pearce et al., *Anchored ensembling*, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
from jaxtyping import Array, Float

from prbnn.inference.engine import Draws, Engine, Info, Pace, above_zero, hasty_rate
from prbnn.inference.mapping import over_functions
from prbnn.inference.members import (
    State,
    ascend,
    averaged,
    drawn,
    log_posterior,
    restarted,
    start,
)
from prbnn.inference.problem import Batch, Problem


@dataclass(frozen=True)
class Ensemble(Engine):
    """Options of the engine.

    - `members`: how many networks
    - `anchored`: whether each is pulled to its own draw of the prior, not to the prior's mean
    - `learning_rate`: Adam's, on scaled data

    >>> Ensemble(members=5)
    Ensemble(members=5, anchored=False, learning_rate=0.005)
    """

    members: int = 20
    anchored: bool = False
    learning_rate: float = 0.005

    name: ClassVar[str] = "ensemble"
    endless: ClassVar[bool] = False
    steps: ClassVar[int] = 4000

    def __post_init__(self) -> None:
        above_zero(self, "members", "learning_rate")

    def init(self, problem: Problem, key: Array) -> State:
        """Every member at a newly initialised network."""
        starts, anchors = jax.random.split(key)
        vectors = restarted(problem, starts, self.members)
        if not self.anchored:
            return start(problem, vectors)
        noise = jax.random.normal(anchors, (self.members, problem.size))
        return start(problem, vectors, problem.prior_mean + problem.prior_sd * noise)

    def step(
        self,
        problem: Problem,
        key: Array,
        state: State,
        batch: Batch,
        pressure: Float[Array, " rules"],
        pace: Pace,
    ) -> tuple[State, Info]:
        """One Adam step of every member on its own log posterior + sum of pressure * f."""
        gain = log_posterior(problem, batch, pressure)
        gradient, info = over_functions(
            jax.grad(gain, has_aux=True), (state.vectors, state.anchors), sum(problem.effort(batch))
        )
        moved = ascend(state, gradient, self.learning_rate * pace.rate)
        return moved, averaged(info)

    def draws_of(self, problem: Problem, key: Array, state: State, count: int) -> Draws:
        """The members."""
        return drawn(problem, state.vectors, count)

    def hasty(self, factor: float, fastest: float) -> Ensemble:
        """A few members at a higher rate."""
        rate = hasty_rate(self.learning_rate, factor, fastest)
        return replace(self, members=min(self.members, 4), learning_rate=rate)
