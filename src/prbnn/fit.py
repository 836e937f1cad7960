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

from prbnn.enforcement.pressure import (
    REJECTION,
    STALLED_AFTER,
    Enforcement,
    enforcement_of,
)
from prbnn.errors import DataError, is_number
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.problem import Batch, Problem
from prbnn.knowledge.binding import bind_all
from prbnn.knowledge.regions import Columns
from prbnn.knowledge.rules import Rule, named
from prbnn.knowledge.strengths import Hard
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import Network, build
from prbnn.model.priors import Normal, Prior
from prbnn.model.scaling import Kind, Scaling, scaling_of
from prbnn.posterior.draws import Posterior
from prbnn.solution import History, Progress, Result, Solution
from prbnn.table import check_lengths, check_rows, read_inputs, read_targets
from prbnn.training import Carry, Data, Means, Plan, pad, run_chunk

ENGINES: dict[str, type] = {"bbb": BayesByBackprop}
POOL_POINTS = 1024
CHUNK = 250
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


class Task(NamedTuple):
    """A problem ready to train."""

    engine: BayesByBackprop
    problem: Problem
    enforcement: Enforcement
    data: Data
    rules: list[Rule]
    units: np.ndarray
    columns: Columns
    scaling: Scaling
    tempering: float

    def tempered(self, tempering: float) -> Task:
        """The same task with another weight of the KL term."""
        problem = eqx.tree_at(lambda p: p.tempering, self.problem, _number(tempering))
        return self._replace(problem=problem, tempering=tempering)


def prepare(
    network: Network | Callable,
    x: Any,
    y: Any,
    knowledge: Sequence[Rule],
    *,
    inference: str | BayesByBackprop,
    likelihood: Gaussian,
    prior: Prior,
    tempering: float,
    scaling: Kind,
    points: int,
    rejection: float,
    sample_weight: Any,
    columns: Sequence[str] | None,
    outputs: Sequence[str] | None,
    seed: int,
) -> Task:
    """Read and check everything, and put it into arrays; no training yet."""
    if not (is_number(tempering) and tempering > 0):
        raise ValueError(f"tempering must be above 0, got {tempering!r}")
    if not (is_number(rejection) and 0 < rejection < 1):
        raise ValueError(f"rejection must be between 0 and 1, got {rejection!r}")
    table, weight = _table(x, y, columns, outputs, sample_weight)
    rules = named(knowledge)
    scale = scaling_of(table.rows, table.targets, scaling, weight)
    bound = bind_all(rules, table, scale, POOL_POINTS)
    rows = 0.0 if y is None else float(np.sum(weight))
    widths = (len(table.inputs), likelihood.network_outputs(len(table.outputs)))
    built = _build(network, jax.random.key(seeds(seed)[0]), *widths)
    _check_network(built, *widths)
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be Normal(...), LayerNormal(...) or alike, got {prior!r}")
    prior_mean, prior_sd = prior.moments(built)
    problem = Problem(
        network=built,
        likelihood=likelihood,
        knowledge=bound if rules else None,
        prior_mean=jnp.asarray(prior_mean, float),
        prior_sd=jnp.asarray(prior_sd, float),
        likelihood_start=jnp.asarray(likelihood.start(scale.output_scale), float),
        tempering=_number(tempering),
        points_width=min(points, POOL_POINTS),
    )
    return Task(
        engine=engine_of(inference),
        problem=problem,
        enforcement=enforcement_of(rules, bound.units, rows, rejection),
        data=pad(scale.inputs(table.rows), scale.outputs(table.targets), weight * (y is not None)),
        rules=rules,
        units=f_units(rules, bound.units),
        columns=table,
        scaling=scale,
        tempering=tempering,
    )


def seeds(seed: int) -> list[int]:
    """Seeds of the network's start, of training and of the draws: neighbours share none of them."""
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(3)]


def check_count(**counts: int | None) -> None:
    """Refuse what is not a whole number above 0; None is allowed."""
    for name, count in counts.items():
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if count is not None and not (whole and count > 0):
            raise ValueError(f"{name} must be a whole number above 0, got {count!r}")


def f_units(rules: Sequence[Rule], units: np.ndarray) -> np.ndarray:
    """The user's unit of each rule's f: the score's own, or 1 where f is a probability."""
    chance = [rule.strength.kind.startswith("probable") for rule in rules]
    return np.where(chance, 1.0, units) if len(rules) else units


def engine_of(inference: str | BayesByBackprop) -> BayesByBackprop:
    """An engine by name, or as it is."""
    if isinstance(inference, str):
        if inference not in ENGINES:
            raise ValueError(f"inference must be one of {', '.join(ENGINES)}, got {inference!r}")
        return ENGINES[inference]()
    if not hasattr(inference, "step"):
        raise ValueError(
            f"inference must be one of {', '.join(ENGINES)} or an engine, got {inference!r}"
        )
    return inference


@eqx.filter_jit
def _build(network: Network | Callable, key: Array, inputs: int, outputs: int) -> Any:
    return build(network, key, inputs, outputs)


def _check_network(network: Any, inputs: int, outputs: int) -> None:
    try:
        shape = eqx.filter_eval_shape(network, jnp.zeros(inputs)).shape
    except Exception as error:
        raise ValueError(
            f"the network failed on one input of shape ({inputs},): {type(error).__name__}: {error}"
        ) from error
    if shape != (outputs,):
        raise ValueError(
            f"the network must map an input of shape ({inputs},) to ({outputs},), got {shape}"
        )


def _table(
    x: Any, y: Any, columns: Sequence[str] | None, outputs: Sequence[str] | None, sample_weight: Any
) -> tuple[Columns, np.ndarray]:
    if (x is None) != (y is None):
        raise DataError("give both x and y, or neither to fit the prior under the rules alone")
    if x is None:
        names = tuple(columns or ("x",))
        zeros = np.zeros((1, len(names)))
        targets = tuple(outputs or ("y",))
        return Columns(names, targets, zeros, np.zeros((1, len(targets)))), np.ones(1)
    values, names = read_inputs(x, columns)
    wanted, targets = read_targets(y, outputs)
    check_lengths(values, wanted)
    weight = np.ones(len(values))
    if sample_weight is not None:
        weight = np.asarray(sample_weight, float).ravel()
        if weight.shape != (len(values),) or not np.all(np.isfinite(weight) & (weight >= 0)):
            raise DataError(
                f"sample_weight must hold one number of 0 or above a row ({len(values)} rows)"
            )
        keep = weight > 0
        if not np.any(keep):
            raise DataError(
                "sample_weight is zero everywhere; at least 2 rows need a weight above 0"
            )
        values, wanted, weight = values[keep], wanted[keep], weight[keep]
    check_rows(values, wanted, targets)
    return Columns(names, targets, values, wanted), weight


def _number(value: float) -> Array:
    """A strongly typed scalar: a weak one would compile a second program."""
    return jnp.asarray(np.asarray(value, jnp.zeros(()).dtype))


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
    plan = Plan(*map(_number, (steps - settle, settle, _warmup(task, steps), steps)))
    carry = _start(task.engine, task.problem, task.enforcement, jax.random.key(seeds(seed)[1]))
    parts = (task.engine, task.problem, task.enforcement, task.data)
    if batch_size is None and task.data.x.shape[0] > 4096:
        batch_size = 1024

    def advance(carry: Carry, plan: Plan, count: int) -> tuple[Carry, Means]:
        return run_chunk(*parts, plan, carry, jnp.asarray(count, jnp.int32), batch_size)

    jax.block_until_ready(advance(carry, plan, 0))
    compiled = time.perf_counter()
    record: list[tuple[int, Means]] = []
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
        stalled = np.asarray(carry.enforcement.stalled)
        if np.any(stalled >= STALLED_AFTER):
            status = "infeasible"
            break
        if progress is not None:
            progress(_progress(step, steps, means, task))
        if early_stopping and not settled and step < steps - settle and _plateau(record, task):
            settle = max(CHUNK, step // 3)
            steps = step + settle
            plan = plan._replace(
                settle_start=_number(step), settle_length=_number(settle), steps=_number(steps)
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


def _plateau(record: list[tuple[int, Means]], task: Task) -> bool:
    """Whether two windows of steps differ by less than a hundredth of a nat a row and noise."""
    window = 4
    if len(record) < 3 * window:
        return False
    elbo = np.array([float(means.elbo) for _, means in record])
    duals = np.array([means.pressure for _, means in record])
    now, before = elbo[-window:], elbo[-2 * window : -window]
    noise = np.sqrt((now.var() + before.var()) / window)
    still = abs(now.mean() - before.mean()) < 0.01 * float(task.data.count) + noise
    if not task.rules:
        return bool(still)
    change = np.abs(duals[-window:].mean(0) - duals[-2 * window : -window].mean(0))
    return bool(still and np.all(change <= 0.02 * duals[-window:].mean(0) + 1e-3))


def _solution(
    task: Task,
    carry: Carry,
    record: list[tuple[int, Means]],
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
    history = _history(record, task.units)
    result = _result(task, carry, record, status)
    tail = max(1, len(record) // 4)
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


def _history(record: list[tuple[int, Means]], units: np.ndarray) -> History:
    rules = len(units)

    def stack(values: list) -> np.ndarray:
        return np.array(values, float).reshape(len(record), rules)

    return History(
        step=np.array([step for step, _ in record]),
        elbo=np.array([float(means.elbo) for _, means in record]),
        violation=stack([-means.f for _, means in record]) * units,
        broken=stack([means.broken for _, means in record]),
        dual=stack([means.pressure for _, means in record]) / units,
    )


def _result(task: Task, carry: Carry, record: list[tuple[int, Means]], status: str) -> Result:
    labels = [rule.label for rule in task.rules]
    if status == "diverged":
        return Result(
            "diverged",
            "numbers stopped being finite; the posterior is the last finite state. Likely causes, in "
            "order: a learning rate too high, targets with extreme outliers, a score of your own "
            "that is not finite somewhere",
        )
    if status == "infeasible":
        stalled = np.asarray(carry.enforcement.stalled)
        rules = _those(labels, (stalled >= STALLED_AFTER / 2) | _late(task, carry, record))
        return Result(
            "infeasible",
            f"pressure on {_quoted(rules)} grew without their violation shrinking: they contradict "
            "each other, the data or what the network can do; loosen or drop one",
            rules,
        )
    tail = record[-max(1, len(record) // 8) :]
    missed = _late(task, carry, record)
    impossible = tuple(
        rule.label
        for rule, late in zip(task.rules, missed, strict=True)
        if late and rule.strength == Hard(tolerance=0.0)
    )
    if impossible:
        return Result(
            "infeasible",
            f"a tolerance of 0 on {_quoted(impossible)} asks that every function obeys everywhere; no "
            "member of a family of normal posteriors attains it. State a small tolerance, or use "
            ".hard() and let conditioning reject the rest",
            impossible,
        )
    rules = _those(labels, missed)
    if rules:
        return Result(
            "budget spent", f"{_quoted(rules)} not met yet; give more steps or loosen them", rules
        )
    elbo = np.array([float(means.elbo) for _, means in record])
    late, later = elbo[-2 * len(tail) : -len(tail)], elbo[-len(tail) :]
    noise = np.sqrt((late.var() + later.var()) / len(tail)) if len(late) else np.inf
    if len(late) and abs(later.mean() - late.mean()) <= 0.05 * float(task.data.count) + 2 * noise:
        return Result("converged")
    return Result("budget spent", "the objective was still moving; give more steps")


def _late(task: Task, carry: Carry, record: list[tuple[int, Means]]) -> np.ndarray:
    """Which rules the last eighth of training did not meet."""
    tail = record[-max(1, len(record) // 8) :]
    f = np.mean([means.f for _, means in tail], axis=0)
    broken = np.mean([means.broken for _, means in tail], axis=0)
    return _missed(task, carry, f, broken, CHUNK * len(tail))


def _those(labels: Sequence[str], mask: np.ndarray) -> tuple[str, ...]:
    return tuple(label for label, chosen in zip(labels, mask, strict=True) if chosen)


def _missed(task: Task, carry: Carry, f: np.ndarray, broken: np.ndarray, steps: int) -> np.ndarray:
    """Which rules are not met, from averages over the last steps, Monte Carlo error allowed for."""
    bound = np.asarray(task.enforcement.bound)
    noise = np.sqrt(np.asarray(carry.enforcement.variance_f) / (task.engine.draws * steps))
    slack = 0.1 * np.abs(bound) + 3 * noise
    missed = np.zeros(len(task.rules), bool)
    for place, rule in enumerate(task.rules):
        match rule.strength.kind:
            case "hard" | "average":
                missed[place] = f[place] < bound[place] - slack[place] - 1e-6
            case "probable functions" | "probable points":
                missed[place] = -broken[place] < bound[place] - slack[place]
            case "share":
                missed[place] = broken[place] > 3 * float(task.enforcement.target[place])
            case _:
                pass
    return missed


def _quoted(rules: Sequence[str]) -> str:
    return " and ".join(repr(str(rule)) for rule in rules)


@eqx.filter_jit
def _evidence(engine: Any, problem: Problem, state: Any, draws: Array, data: Data) -> Array:
    batch = Batch(data.x, data.y, data.weight, jnp.zeros((), int), jnp.ones(()))
    own = engine.likelihood_parameters(problem, state)
    fits = jax.lax.map(lambda w: problem.log_likelihood(w, own, batch), draws, batch_size=64)
    return jnp.mean(fits) - engine.kl(problem, state)
