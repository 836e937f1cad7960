"""The functional layer: data, a network and knowledge in, a `Solution` out; failure is data."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.enforcement.pressure import REJECTION, Enforcement
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.problem import Batch, Problem
from prbnn.knowledge.rules import Rule
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import Network
from prbnn.model.priors import Normal, Prior
from prbnn.model.scaling import Kind
from prbnn.outcome import Record, history_of, plateau, result_of
from prbnn.posterior.draws import Posterior
from prbnn.solution import Progress, Solution
from prbnn.task import Task, check_count, number, prepare, seeds
from prbnn.training import CHUNK, Carry, Data, Means, Plan, run_chunk

RAW_DRAWS = 1000


def fit(
    network: Network | Callable,
    x: Any = None,
    y: Any = None,
    knowledge: Sequence[Rule] = (),
    *,
    inference: str | BayesByBackprop = "bbb",
    likelihood: Gaussian | None = None,
    prior: Prior | None = None,
    tempering: float = 1.0,
    scaling: Kind = "none",
    steps: int = 6000,
    batch_size: int | None = None,
    points: int = 64,
    rejection: float = REJECTION,
    draws: int = RAW_DRAWS,
    sample_weight: Any = None,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    early_stopping: bool = True,
    progress: Callable[[Progress], None] | None = None,
    seed: int = 0,
) -> Solution:
    """Fit a posterior under knowledge.

    Maximises E_q log p(y | x, w) - tempering * KL(q || prior) subject to the rules.

    - ``x``, ``y``: tables or arrays; both None fits the prior under the rules alone
    - ``scaling``: "none" (the network sees your units; priors and duals mean what they say),
      "standard" or "minmax"
    - ``steps``: the budget; ``early_stopping`` may end sooner
    - ``points``: at how many points of each rule's region a step tries it
    - ``rejection``: share of drawn functions that may break a hard rule without a tolerance, and be
      rejected by conditioning; less of it means more pressure and a narrower posterior
    - ``draws``: how many raw functions the returned posterior holds

    >>> from prbnn import AtLeast, MLP, Normal
    >>> solution = fit(MLP(hidden=()), [[0.0], [1.0]], [0.2, -0.1], [AtLeast(0)], steps=50)
    >>> solution.result.status in ("converged", "budget spent")
    True
    """
    check_count(steps=steps, points=points, draws=draws, batch_size=batch_size)
    task = prepare(
        network,
        x,
        y,
        knowledge,
        inference=inference,
        likelihood=likelihood or Gaussian(),
        prior=prior or Normal(),
        tempering=tempering,
        scaling=scaling,
        points=points,
        rejection=rejection,
        sample_weight=sample_weight,
        columns=columns,
        outputs=outputs,
        seed=seed,
    )
    return train(
        task,
        int(steps),
        batch_size=batch_size,
        draws=draws,
        early_stopping=early_stopping,
        progress=progress,
        seed=seed,
    )


@eqx.filter_jit
def _start(engine: Any, problem: Problem, enforcement: Enforcement, key: Array) -> Carry:
    return Carry(engine.init(problem), enforcement.init(), key, jnp.zeros((), int))


def train(
    task: Task,
    steps: int,
    *,
    batch_size: int | None = None,
    draws: int = RAW_DRAWS,
    early_stopping: bool = True,
    progress: Callable[[Progress], None] | None = None,
    seed: int = 0,
) -> Solution:
    """Train a prepared task: a search at the full learning rate, then a third of it to settle."""
    began = time.perf_counter()
    settle = max(1, steps // 3)
    plan = Plan(*map(number, (steps - settle, settle, _warmup(task, steps), steps)))
    carry = _start(task.engine, task.problem, task.enforcement, jax.random.key(seeds(seed)[1]))
    parts = (task.engine, task.problem, task.enforcement, task.data)
    if batch_size is None and task.data.x.shape[0] > 4096:
        batch_size = 1024

    def advance(carry: Carry, plan: Plan, count: int) -> tuple[Carry, Means]:
        return run_chunk(*parts, plan, carry, jnp.asarray(count, jnp.int32), batch_size)

    jax.block_until_ready(advance(carry, plan, 0))
    compiled = time.perf_counter()
    record: Record = []
    step, status, settled = 0, "budget spent", False
    while step < steps:
        count = min(CHUNK, steps - step)
        following, means = advance(carry, plan, count)
        means = jax.tree.map(np.asarray, means)
        if not _finite(means, following):
            status = "diverged"
            break
        carry, step = following, step + count
        record.append((step, means))
        if np.any(np.asarray(task.enforcement.infeasible(carry.enforcement))):
            status = "infeasible"
            break
        if progress is not None:
            progress(_progress(step, steps, means, task))
        if early_stopping and not settled and step < steps - settle and plateau(record, task):
            settle = max(CHUNK, step // 3)
            steps = step + settle
            plan = plan._replace(
                settle_start=number(step), settle_length=number(settle), steps=number(steps)
            )
            settled = True
    ran = time.perf_counter()
    return _solution(
        task, carry, record, status, draws, step, compiled - began, ran - compiled, seed
    )


def _warmup(task: Task, steps: int) -> int:
    """Steps before duals move: a Newton step needs draws that already have their spread."""
    newton = any(rule.strength.kind not in ("soft", "share") for rule in task.rules)
    return min(1000, steps // 5) if newton else min(200, steps // 10)


def _finite(means: Means, carry: Carry) -> bool:
    return bool(
        np.isfinite(means.elbo)
        and np.all(np.isfinite(means.pressure))
        and np.all(np.isfinite(np.asarray(carry.engine.parameters)))
    )


def _progress(step: int, steps: int, means: Means, task: Task) -> Progress:
    rules = len(task.rules)
    return Progress(
        step=step,
        steps=steps,
        elbo=float(means.elbo),
        violation=float(np.max(-means.f)) if rules else 0.0,
        share_broken=float(np.max(means.broken)) if rules else 0.0,
    )


def _solution(
    task: Task,
    carry: Carry,
    record: Record,
    status: str,
    draws: int,
    step: int,
    seconds_compile: float,
    seconds_run: float,
    seed: int,
) -> Solution:
    fitted = FittedTask(task, carry.engine, seed)
    posterior = fitted.draw(draws, 0)
    location, scale = map(np.asarray, _moments(task.engine, task.problem, carry.engine))
    history = history_of(record, task.units)
    result = result_of(task, carry, record, status)
    tail = max(1, len(record) // 6)
    duals = history.dual[-tail:].mean(axis=0) if record else np.zeros(len(task.rules))
    return Solution(
        posterior=posterior,
        result=result,
        duals={rule.label: float(d) for rule, d in zip(task.rules, duals, strict=True)},
        history=history,
        rules=task.rules,
        tempering=task.tempering,
        location=location,
        scale=scale,
        steps=step,
        seconds_compile=seconds_compile,
        seconds_run=seconds_run,
        fitted=fitted,
    )


class FittedTask(NamedTuple):
    """A trained task: the engine's final state and where its draws come from."""

    task: Task
    state: Any
    seed: int

    def draw(self, count: int, number: int) -> Posterior:
        """Raw draws from the final state; another ``number``, other draws."""
        engine, problem = self.task.engine, self.task.problem
        key = jax.random.fold_in(jax.random.key(seeds(self.seed)[2]), number)
        draws, own = _draw(engine, problem, key, self.state, count)
        return Posterior(
            network=problem.network,
            draws=np.asarray(draws),
            likelihood=problem.likelihood,
            likelihood_parameters=own,
            scaling=self.task.scaling,
            columns=self.task.columns,
        )

    def elbo(self, posterior: Posterior) -> float:
        """The untempered evidence lower bound, its expectation taken over a posterior's draws."""
        engine, problem = self.task.engine, self.task.problem
        draws = jnp.asarray(posterior.draws)
        return float(_evidence(engine, problem, self.state, draws, self.task.data))


@eqx.filter_jit
def _moments(engine: Any, problem: Problem, state: Any) -> tuple[Array, Array]:
    return engine.moments(problem, state)


@eqx.filter_jit
def _draw(engine: Any, problem: Problem, key: Array, state: Any, count: int) -> tuple[Array, Array]:
    return (
        engine.draws_of(problem, key, state, count),
        engine.likelihood_parameters(problem, state),
    )


@eqx.filter_jit
def _evidence(engine: Any, problem: Problem, state: Any, draws: Array, data: Data) -> Array:
    batch = Batch(data.x, data.y, data.weight, jnp.zeros((), int), jnp.ones(0))
    own = engine.likelihood_parameters(problem, state)
    fits = jax.lax.map(lambda w: problem.log_likelihood(w, own, batch), draws, batch_size=64)
    return jnp.mean(fits) - engine.kl(problem, state)
