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

from prbnn.data.scaling import ScalingKind
from prbnn.enforcement.pressure import Enforcement
from prbnn.fitting.interruption import asked
from prbnn.fitting.loop import Carry, Data, Means, Plan, begin, run_chunk
from prbnn.fitting.outcome import (
    Record,
    contradictions,
    history_of,
    plateau,
    result_of,
    sampled_result,
)
from prbnn.fitting.prepare import Enforce, Task, check_count, number, prepare, seeds
from prbnn.fitting.result import Progress, Solution
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.engine import Draws, Engine
from prbnn.inference.problem import Batch, Problem
from prbnn.inference.reservoir import Reservoir, available
from prbnn.model.likelihoods import Gaussian, Likelihood
from prbnn.model.networks import Network
from prbnn.model.priors import Normal, Prior
from prbnn.posterior.diagnostics import Diagnostics, diagnose
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Kind
from prbnn.system.process import computing

RAW_DRAWS = 1000
EVERY_DRAW = 10**9
# tables with more rows than this are trained on batches of so many
MANY_ROWS = 4096
BATCH_ROWS = 1024
# no step has this number, so the start has a key of its own
START = 2**31 - 1


def fit(
    network: Network | Callable,
    x: Any = None,
    y: Any = None,
    knowledge: Sequence[Rule] = (),
    *,
    inference: str | Engine = "bbb",
    likelihood: Likelihood | None = None,
    prior: Prior | None = None,
    tempering: float = 1.0,
    scaling: ScalingKind = "none",
    steps: int | None = None,
    batch_size: int | None = None,
    points: int = 64,
    rejection: float | None = None,
    draws: int | None = None,
    sample_weight: Any = None,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    categories: Sequence[str] = (),
    early_stopping: bool = True,
    prove: bool | float = False,
    progress: Callable[[Progress], None] | None = None,
    seed: int = 0,
    enforce: Enforce = "training",
) -> Solution:
    """Fit a posterior under knowledge.

    Maximises E_q log p(y | x, w) - tempering * KL(q || prior) subject to the rules.

    - ``x``, ``y``: tables or arrays; both None fits the prior under the rules alone
    - ``scaling``: "none" (the network sees your units; priors and duals mean what they say),
      "standard" or "minmax"
    - ``steps``: the budget (the engine's own if None); ``early_stopping`` may end sooner
    - ``points``: at how many points of each rule's region a step tries it
    - ``rejection``: share of drawn functions that may break a hard rule without a tolerance, and be
      rejected by conditioning; less of it means more pressure and a narrower posterior. None is the
      engine's own
    - ``draws``: how many raw functions the returned posterior holds; None is 1,000, or all there are
      of an engine with a fixed number of members or kept draws
    - ``categories``: columns that take only the values seen in ``x``; truth values and category types
      of a data frame need not be named. Every other column is a number, and rules are tried and proved
      between its values, too
    - ``prove``: True (or seconds) finds as many draws that are proved to obey the hard rules on the sets
      that ``solution.proof.certificate`` names, training on with counterexamples where most are not;
      they are ``solution.proof.posterior``
    - ``enforce``: "training" presses on every rule; "construction" builds the hard ones into the
      network, which then obeys them whatever its weights are, and raises where that cannot be done

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
        enforce=enforce,
        categories=categories,
    )
    solution = train(
        task,
        steps,
        batch_size=batch_size,
        draws=draws,
        early_stopping=early_stopping,
        progress=progress,
        seed=seed,
    )
    if not prove or solution.result.status in ("diverged", "infeasible", "interrupted"):
        return solution
    # proofs train on, so they sit above this module
    from prbnn.fitting.prove import SECONDS
    from prbnn.fitting.prove import prove as proved

    seconds = SECONDS if prove is True else float(prove)
    return proved(
        solution, len(solution.posterior), seconds, batch_size=batch_size, progress=progress
    )


@eqx.filter_jit
def start(engine: Engine, problem: Problem, enforcement: Enforcement, key: Array) -> Carry:
    """Everything as it is before the first step."""
    state = engine.init(problem, jax.random.fold_in(key, START))
    return begin(engine, problem, state, key, enforcement.init())


def train(
    task: Task,
    steps: int | None = None,
    *,
    batch_size: int | None = None,
    draws: int | None = None,
    early_stopping: bool = True,
    progress: Callable[[Progress], None] | None = None,
    seed: int = 0,
    since: Carry | None = None,
) -> Solution:
    """Train a prepared task: a search at the full learning rate, then a third of it to settle.

    ``since`` is where an earlier fit ended; training goes on from there.
    """
    computing()
    began = time.perf_counter()
    steps = int(steps or task.engine.budget)
    chunk, sampler = task.engine.chunk, task.engine.block > 1
    settle = _settle(task.engine, steps)
    plan = plan_of(task, steps)
    carry = since
    if carry is None:
        carry = start(task.engine, task.problem, task.enforcement, jax.random.key(seeds(seed)[1]))
    parts = (task.engine, task.problem, task.enforcement, task.data)
    batch_size = rows_a_step(task, batch_size)

    def advance(carry: Carry, plan: Plan, count: int) -> tuple[Carry, Means]:
        return run_chunk(*parts, plan, carry, jnp.asarray(count, jnp.int32), batch_size)

    jax.block_until_ready(advance(carry, plan, 0))
    compiled = time.perf_counter()
    record: Record = []
    step, status, settled, compatible = 0, "budget spent", False, False
    while step < steps:
        count = min(chunk, steps - step)
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
        stalling = np.any(np.asarray(task.enforcement.stalling(carry.enforcement)))
        if not compatible and (stalling or (sampler and step >= steps - settle)):
            # a contradiction needs no more pressure, nor draws; it is looked for once
            compatible = not contradictions(task)
            if not compatible:
                status = "infeasible"
                break
        if progress is not None:
            progress(_progress(step, steps, means, task))
        if asked():
            status = "interrupted"
            break
        stops = early_stopping and not settled and not sampler
        if stops and step < steps - settle and plateau(record, task):
            settle = max(chunk, step // 3)
            steps = step + settle
            plan = plan._replace(
                settle_start=number(step), settle_length=number(settle), steps=number(steps)
            )
            settled = True
    carry = carry._replace(engine=finish(task.engine, task.problem, carry.engine, task.data))
    ran = time.perf_counter()
    return solution_of(
        task, carry, record, status, draws, step, compiled - began, ran - compiled, seed
    )


def plan_of(task: Task, steps: int) -> Plan:
    """When a run of so many steps settles and when its duals may move."""
    settle = _settle(task.engine, steps)
    return Plan(*map(number, (steps - settle, settle, _warmup(task, steps), steps)))


def _settle(engine: Engine, steps: int) -> int:
    return max(1, steps // 2 if engine.block > 1 else steps // 3)


def rows_a_step(task: Task, batch_size: int | None) -> int | None:
    """The batch size to train with; None is all rows."""
    if task.engine.full_batch:
        return None
    if batch_size is None and task.data.x.shape[0] > MANY_ROWS:
        return BATCH_ROWS
    return batch_size


def _warmup(task: Task, steps: int) -> int:
    """Steps before duals move: a Newton step needs draws that already have their spread."""
    if task.engine.block > 1:
        return max(2 * task.engine.block, steps // 8)
    newton = any(
        rule.strength.kind not in (Kind.SOFT, Kind.PRIOR, Kind.HARD) for rule in task.rules
    )
    return max(1, min(1000, steps // 5) if newton else min(200, steps // 10))


def _finite(means: Means, carry: Carry) -> bool:
    return bool(
        np.isfinite(means.elbo)
        and np.all(np.isfinite(means.pressure))
        and all(np.all(np.isfinite(leaf)) for leaf in _moving(carry.engine))
    )


def _moving(state: Any) -> list[np.ndarray]:
    leaves = [leaf for leaf in jax.tree.leaves(state) if eqx.is_inexact_array(leaf)]
    return [np.asarray(leaf) for leaf in leaves]


def _progress(step: int, steps: int, means: Means, task: Task) -> Progress:
    rules = len(task.rules)
    return Progress(
        step=step,
        steps=steps,
        elbo=float(means.elbo),
        violation=float(np.max(-means.f)) if rules else 0.0,
        share_broken=float(np.max(means.broken)) if rules else 0.0,
        rules=tuple(
            (rule.label, float(-f * unit), float(broken))
            for rule, f, unit, broken in zip(
                task.rules, means.f, task.units, means.broken, strict=True
            )
        ),
    )


def solution_of(
    task: Task,
    carry: Carry,
    record: Record,
    status: str,
    draws: int | None,
    step: int,
    seconds_compile: float,
    seconds_run: float,
    seed: int,
) -> Solution:
    """What a trained carry amounts to: draws, the verdict on how it ended, and its history."""
    fitted = FittedTask(task, carry.engine, seed, carry)
    every = RAW_DRAWS if task.engine.endless else EVERY_DRAW
    posterior = fitted.draw(every if draws is None else draws, 0)
    location, scale = _moments(task, carry.engine, posterior)
    history = history_of(record, task.units).among(_places(task), len(task.knowledge))
    reservoir = getattr(carry.engine, "reservoir", None)
    result, diagnostics = result_of(task, carry, record, status), None
    if reservoir is not None:
        diagnostics = _diagnostics(reservoir, fitted, posterior)
        if result.status == "converged":
            result = sampled_result(diagnostics, reservoir.vectors.shape[1])
    tail = max(1, len(record) // 6)
    duals = history.dual[-tail:].mean(axis=0) if record else np.zeros(len(task.knowledge))
    return Solution(
        posterior=posterior,
        result=result,
        duals={rule.label: float(d) for rule, d in zip(task.knowledge, duals, strict=True)},
        history=history,
        rules=task.knowledge,
        tempering=task.tempering,
        location=location,
        scale=scale,
        steps=step,
        seconds_compile=seconds_compile,
        seconds_run=seconds_run,
        fitted=fitted,
        diagnostics=diagnostics,
    )


def _places(task: Task) -> list[int]:
    """Where the rules that were trained stand among all."""
    trained = {rule.label for rule in task.rules}
    return [place for place, rule in enumerate(task.knowledge) if rule.label in trained]


class FittedTask(NamedTuple):
    """A trained task: the engine's final state and where its draws come from."""

    task: Task
    state: Any
    seed: int
    carry: Carry

    @property
    def endless(self) -> bool:
        """Whether further draws can always be had."""
        return self.task.engine.endless

    def draw(self, count: int, number: int) -> Posterior:
        """Raw draws from the final state; another ``number``, other draws."""
        computing()
        engine, problem = self.task.engine, self.task.problem
        key = jax.random.fold_in(jax.random.key(seeds(self.seed)[2]), number)
        draws = _draw(engine, problem, key, self.state, engine.available(self.state, count))
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

        nan for engines that have no density of their posterior.
        """
        engine, problem = self.task.engine, self.task.problem
        if not isinstance(engine, BayesByBackprop):
            return float("nan")
        draws = jnp.asarray(posterior.draws), jnp.asarray(posterior.likelihood_parameters)
        return float(_evidence(engine, problem, self.state, Draws(*draws), self.task.data))


def _diagnostics(reservoir: Reservoir, fitted: FittedTask, posterior: Posterior) -> Diagnostics:
    """Of all that a sampler's chains kept, also where ``posterior`` holds only some of it."""
    kept = available(reservoir)
    counted = max(1.0, float(reservoir.counted))
    return diagnose(
        posterior if len(posterior) == kept else fitted.draw(kept, 0),
        reservoir.vectors.shape[0],
        int(reservoir.divergences),
        float(reservoir.acceptance) / counted,
    )


def _moments(task: Task, state: Any, posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every weight, exactly where the engine knows them."""
    if isinstance(task.engine, BayesByBackprop):
        mean, sd = task.engine.moments(task.problem, state)
        return np.asarray(mean), np.asarray(sd)
    return posterior.draws.mean(axis=0), posterior.draws.std(axis=0)


def _all_rows(data: Data) -> Batch:
    return Batch(data.x, data.y, data.weight, jnp.zeros((), int), jnp.ones(0))


@eqx.filter_jit
def finish(engine: Engine, problem: Problem, state: Any, data: Data) -> Any:
    """The engine's last work, on all rows."""
    return engine.finish(problem, state, _all_rows(data))


@eqx.filter_jit
def _draw(engine: Engine, problem: Problem, key: Array, state: Any, count: int) -> Draws:
    return engine.draws_of(problem, key, state, count)


@eqx.filter_jit
def _evidence(
    engine: BayesByBackprop, problem: Problem, state: Any, draws: Draws, data: Data
) -> Array:
    batch = _all_rows(data)
    vectors = jnp.concatenate(draws, axis=1)
    fits = jax.lax.map(lambda v: problem.log_likelihood(v, batch), vectors, batch_size=64)
    return jnp.mean(fits) - engine.kl(problem, state)
