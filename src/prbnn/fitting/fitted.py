"""From a trained task to a `Solution`: its draws, how it ended, and its history."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.fitting.loop import Carry, all_rows
from prbnn.fitting.outcome import UNCHECKED, FinalCheck, history_of, result_of, sampled_result
from prbnn.fitting.padding import Data
from prbnn.fitting.result import Result, Solution
from prbnn.fitting.rule_evidence import Record
from prbnn.fitting.task import Task, seeds
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.engine import Draws, Engine
from prbnn.inference.problem import Problem
from prbnn.inference.reservoir import Reservoir, available
from prbnn.posterior.diagnostics import Diagnostics, diagnose
from prbnn.posterior.draws import Posterior
from prbnn.system.process import computing

# the default number of raw draws: for engines that can draw more, and for the others (all there are)
RAW_DRAWS = 1000
EVERY_DRAW = 10**9


class Trained(NamedTuple):
    """One task's training, ended.

    - `record`: averages over its chunks of steps
    - `status`: what ended it
    - `budget`: the steps it was given, of which it may have used fewer
    - `settle`: those at its end in which the learning rate fell
    """

    carry: Carry
    record: Record
    status: str
    budget: int
    settle: int
    seconds_compile: float
    seconds_run: float


class FittedTask(NamedTuple):
    """A trained task: the engine's final state and where its draws come from."""

    task: Task
    trained: Trained
    seed: int

    @property
    def carry(self) -> Carry:
        """Where training ended."""
        return self.trained.carry

    @property
    def budget(self) -> int:
        """How many steps the fit was given."""
        return self.trained.budget

    def judged(self, diagnostics: Diagnostics | None, checked: FinalCheck = UNCHECKED) -> Result:
        """How the fit ended: by its record, ``diagnostics`` of its chains and what was ``checked``."""
        carry, record, status, _, settle, *_ = self.trained
        result = result_of(self.task, carry, record, status, settle, checked)
        if diagnostics is None or result.status != "converged":
            return result
        return sampled_result(diagnostics, carry.engine.reservoir.vectors.shape[1])

    @property
    def endless(self) -> bool:
        """Whether the engine can always draw more."""
        return self.task.engine.endless

    def draw(self, count: int, number: int) -> Posterior:
        """``count`` raw draws from the final state.

        ``number`` selects an independent batch of draws, where the engine can draw more.
        """
        computing()
        engine, problem, state = self.task.engine, self.task.problem, self.carry.engine
        key = jax.random.fold_in(jax.random.key(seeds(self.seed)[2]), number)
        draws = _draw(engine, problem, key, state, engine.available(state, count))
        return Posterior(
            network=problem.network,
            draws=np.asarray(draws.weights),
            likelihood=problem.likelihood,
            likelihood_parameters=np.asarray(draws.own),
            scaling=self.task.scaling,
            columns=self.task.columns,
        )

    def elbo(self, posterior: Posterior) -> float:
        """The untempered evidence lower bound, its expectation taken over a posterior's draws.

        NaN for engines that have no density of their posterior.
        """
        engine, problem = self.task.engine, self.task.problem
        draws = jnp.asarray(posterior.draws), jnp.asarray(posterior.likelihood_parameters)
        return float(_evidence(engine, problem, self.carry.engine, Draws(*draws), self.task.data))


def solution_of(task: Task, trained: Trained, draws: int | None, seed: int) -> Solution:
    """The solution of a task trained with ``seed``, with ``draws`` raw draws (None: the default)."""
    carry, record = trained.carry, trained.record
    fitted = FittedTask(task, trained, seed)
    every = RAW_DRAWS if task.engine.endless else EVERY_DRAW
    posterior = fitted.draw(every if draws is None else draws, 0)
    location, scale = _moments(task, carry.engine, posterior)
    history = history_of(record, task.units).among(_places(task), len(task.knowledge))
    reservoir = getattr(carry.engine, "reservoir", None)
    diagnostics = None if reservoir is None else _diagnostics(reservoir, fitted, posterior)
    tail = max(1, len(record) // 6)
    duals = history.dual[-tail:].mean(axis=0) if record else np.zeros(len(task.knowledge))
    return Solution(
        posterior=posterior,
        result=fitted.judged(diagnostics),
        duals={rule.label: float(d) for rule, d in zip(task.knowledge, duals, strict=True)},
        history=history,
        rules=task.knowledge,
        tempering=task.tempering,
        location=location,
        scale=scale,
        steps=record[-1][0] if record else 0,
        seconds_compile=trained.seconds_compile,
        seconds_run=trained.seconds_run,
        fitted=fitted,
        diagnostics=diagnostics,
    )


def _places(task: Task) -> list[int]:
    """The positions of the trained rules among all rules."""
    trained = {rule.label for rule in task.rules}
    return [place for place, rule in enumerate(task.knowledge) if rule.label in trained]


def _diagnostics(reservoir: Reservoir, fitted: FittedTask, posterior: Posterior) -> Diagnostics:
    """Diagnostics of all draws that the chains kept, even if ``posterior`` holds only some of them."""
    kept = available(reservoir)
    counted = max(1.0, float(reservoir.counted))
    return diagnose(
        posterior if len(posterior) == kept else fitted.draw(kept, 0),
        reservoir.vectors.shape[0],
        int(reservoir.divergences),
        float(reservoir.acceptance) / counted,
    )


def _moments(task: Task, state: Any, posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every weight, exact where the engine knows them."""
    if isinstance(task.engine, BayesByBackprop):
        mean, sd = task.engine.moments(task.problem, state)
        return np.asarray(mean), np.asarray(sd)
    return posterior.draws.mean(axis=0), posterior.draws.std(axis=0)


@eqx.filter_jit
def _draw(engine: Engine, problem: Problem, key: Array, state: Any, count: int) -> Draws:
    return engine.draws_of(problem, key, state, count)


@eqx.filter_jit
def _evidence(engine: Engine, problem: Problem, state: Any, draws: Draws, data: Data) -> Array:
    return engine.elbo(problem, state, draws, all_rows(data))
