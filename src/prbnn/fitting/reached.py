"""How far training has come: what a chunk of steps leaves to the next, and its form in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.fitting.loop import Carry, ChunkInfo, Means, Schedule
from prbnn.fitting.padding import number
from prbnn.system.named_arrays import Arrays, below, from_arrays, to_arrays, under

# (step, what was found) after each chunk of steps
Looks = list[tuple[int, ChunkInfo]]


class Budget(NamedTuple):
    """Steps in all, those at the end in which the learning rate falls, and those before duals move."""

    steps: int
    settle: int
    warmup: int

    @property
    def schedule(self) -> Schedule:
        """The same for compiled code."""
        return Schedule(
            *map(number, (self.steps - self.settle, self.settle, self.warmup, self.steps))
        )


class Reached(NamedTuple):
    """Where training is after a chunk of steps, or before the first.

    - `budget`: what it goes on with, which a plateau may have shortened
    - `seconds_compile`, `seconds_run`: so far, those of earlier processes included
    """

    carry: Carry
    looks: Looks
    budget: Budget
    seconds_compile: float = 0.0
    seconds_run: float = 0.0

    @property
    def step(self) -> int:
        """How many steps were done."""
        return self.looks[-1][0] if self.looks else 0

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays by name; there must be a look."""
        stacked = jax.tree.map(lambda *parts: np.stack(parts), *(info for _, info in self.looks))
        return {
            **under("carry", to_arrays(self.carry)),
            **under("looks", to_arrays(stacked)),
            "steps": np.array([step for step, _ in self.looks], np.int64),
            "budget": np.array(self.budget, np.int64),
            "seconds": np.array([self.seconds_compile, self.seconds_run]),
        }


def reached_from(arrays: Arrays, start: Callable[[], Carry], rules: int) -> Reached:
    """What `Reached.arrays` was made of; ``start`` gives the form of the carry, of so many ``rules``."""
    carry = from_arrays(eqx.filter_eval_shape(start), below("carry", arrays))
    steps = arrays["steps"].tolist()
    stacked = from_arrays(_form_of(len(steps), rules), below("looks", arrays))
    stacked = jax.tree.map(np.asarray, stacked)
    looks = [(step, _entry(stacked, place)) for place, step in enumerate(steps)]
    seconds = arrays["seconds"].tolist()
    return Reached(carry, looks, Budget(*arrays["budget"].tolist()), *seconds)


def _form_of(chunks: int, rules: int) -> ChunkInfo:
    """The shapes of the looks of so many ``chunks``."""

    def one(_: Array) -> ChunkInfo:
        each, yes = jnp.zeros(rules), jnp.zeros((), bool)
        elbo, fit, cost, functions = jnp.zeros((4,))
        return ChunkInfo(Means(elbo, fit, cost, each, each, each, functions), yes, yes, yes)

    return jax.eval_shape(jax.vmap(one), jnp.zeros(chunks))


def _entry(stacked: ChunkInfo, place: int) -> ChunkInfo:
    return jax.tree.map(lambda leaf: np.asarray(leaf[place]), stacked)
