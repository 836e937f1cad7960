"""What engines that sample share: chains, and the draws that these keep in a reservoir."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Array

from prbnn.inference.engine import Draws, Engine
from prbnn.inference.problem import Problem
from prbnn.inference.reservoir import available, drawn


@dataclass(frozen=True)
class Sampler(Engine):
    """An engine of `chains` chains that each keep `keep` draws; its state has `chains` and `reservoir`.

    Kept draws are the posterior under a hard rule whatever the pressure was, so `rejection` may be large.
    """

    chains: int = 4
    keep: int = 250

    rejection: ClassVar[float] = 0.5
    endless: ClassVar[bool] = False
    races: ClassVar[bool] = False

    @property
    def budget(self) -> int:
        """Long enough after the warm-up for as many draws as are to be kept."""
        return max(self.steps, 2 * self.keep)

    def available(self, state: Any, count: int) -> int:
        """No more than were kept."""
        return min(count, available(state.reservoir))

    def draws_of(self, problem: Problem, key: Array, state: Any, count: int) -> Draws:
        """The kept draws."""
        return drawn(problem, state.reservoir, state.chains, count)
