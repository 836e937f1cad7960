"""A problem ready to train, in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.enforcement.pressure import Enforcement
from prbnn.fitting.padding import Data, number
from prbnn.inference.engine import Engine
from prbnn.inference.problem import Problem
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_all


class Task(NamedTuple):
    """A problem ready to train.

    - `data`: the rows that are trained on, in an order of their own (see `in_order`)
    - `knowledge`: every rule as stated; `rules`: those that training enforces, without those that the
      network obeys by construction; a hard one has a tolerance where draws that break it are moved later
    - `units`: the user's unit of each trained rule's f
    - `columns`, `weight`: the table and the weights of its rows, in the user's order
    - `projects`: whether draws that break a hard rule are moved to the nearest function that obeys
    """

    engine: Engine
    problem: Problem
    enforcement: Enforcement
    data: Data
    rules: list[Rule]
    knowledge: list[Rule]
    units: np.ndarray
    columns: Columns
    weight: np.ndarray
    scaling: Scaling
    tempering: float
    projects: bool = False

    @property
    def led(self) -> np.ndarray:
        """Which trained rules are tolerant only because draws that break them are moved later."""
        stated = {rule.label: rule.strength for rule in self.knowledge}
        return np.array([stated[rule.label] != rule.strength for rule in self.rules], bool)

    @property
    def rows(self) -> float:
        """How many rows the data count as: equal rows are trained as one with their weights' sum."""
        return max(float(self.data.count), float(self.enforcement.table.scale))

    def tempered(self, tempering: float) -> Task:
        """The same task with another weight of the KL term."""
        weight = number(tempering)
        problem = eqx.tree_at(lambda part: part.tempering, self.problem, weight)
        enforcement = eqx.tree_at(lambda part: part.table.tempering, self.enforcement, weight)
        return self._replace(problem=problem, enforcement=enforcement, tempering=tempering)

    def also_at(self, further: Mapping[int, np.ndarray]) -> Task:
        """The same task with further points (by position of a rule) in the pools; nothing recompiles."""
        knowledge = self.problem.knowledge
        if knowledge is None:
            return self
        bound = bind_all(self.rules, self.columns, self.scaling, knowledge.asked, further=further)
        return self._replace(
            problem=eqx.tree_at(lambda problem: problem.knowledge, self.problem, bound)
        )


def seeds(seed: int) -> list[int]:
    """Seeds of the network's start, of training and of the draws: neighbours share none of them."""
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(3)]
