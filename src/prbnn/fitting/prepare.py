"""From a table, a network and rules to a `Task`: read the table, build the network, bind the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.data.scaling import Scaling, ScalingKind
from prbnn.enforcement.pressure import enforcement_of
from prbnn.enforcement.strength_table import PROBABILITY
from prbnn.errors import KnowledgeError, is_number
from prbnn.fitting.building import build_model
from prbnn.fitting.loop import all_rows, worst_points
from prbnn.fitting.padding import Data, number, pad
from prbnn.fitting.task import Task
from prbnn.fitting.training_table import TrainingTable, read_table
from prbnn.inference import ENGINES
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.conjugate import Conjugate
from prbnn.inference.engine import Engine
from prbnn.inference.problem import Problem
from prbnn.model.construction.builder import builds_limits
from prbnn.model.construction.built import built_in
from prbnn.model.likelihoods import Likelihood
from prbnn.model.networks import MLP, Network
from prbnn.model.observation import check_observations, network_window
from prbnn.model.priors import Prior
from prbnn.posterior.readout import check_movable
from prbnn.rules.base import Rule, named
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all
from prbnn.rules.strengths import Kind
from prbnn.system.process import computing

# how hard rules are kept: by pressure and rejection, by moving the draws that break them, or by the
# network's own form; "auto" is one of these
Enforce = Literal["auto", "pressure", "projection", "construction"]
# what "pressure" was called before
FORMER = "training"
# where "auto" moves draws, the mean violation that training allows first, in the rule's unit: so little
# pressure leads draws to where the rules are and leaves their width, and they are moved less far
LED = 0.01

# points in the pool of a region over one input, and over several
POOL_POINTS = 1024
SURFACE_POOL = 131_072
# sequences cost more each, and their points stay near the training sequences
SEQUENCE_POOL = 1024
# the least number of points that a step evaluates: of rules for whole functions, and over several inputs
FUNCTION_POINTS = 512
SURFACE_POINTS = 256
# points of each pool that are searched after a chunk of steps: the fraction of functions that break a
# rule there steers its dual, which needs to be less exact where draws are moved later
SEARCHED = 16_384
SEARCHED_LED = 2048
# where draws are moved later, over several inputs, a step evaluates 1 / LED_FEWER of the points: each of
# them takes as long as a row, and means over many steps are all that training needs to know
LED_FEWER = 4
# and it is enough that one of LED_EVERY steps evaluates them
LED_EVERY = 2
# enough to find the mistakes of a rule
LEAST_POINTS = 16


@dataclass(frozen=True, eq=False)
class Settings:
    """The settings of a fit: an estimator's parameters as given, and the values used in place of None."""

    parameters: dict[str, Any]
    network: Network | Callable
    inference: Engine
    likelihood: Likelihood
    prior: Prior
    seed: int


def prepare(
    network: Network | Callable,
    x: Any,
    y: Any,
    knowledge: Sequence[Rule],
    *,
    inference: str | Engine,
    likelihood: Likelihood,
    prior: Prior,
    tempering: float,
    scaling: ScalingKind,
    points: int,
    rejection: float | None,
    sample_weight: Any,
    columns: Sequence[str] | None,
    outputs: Sequence[str] | None,
    seed: int,
    layout: Layout | None = None,
    enforce: Enforce = "auto",
    categories: Sequence[str] = (),
    censored: Any = None,
    upper: Any = None,
) -> Task:
    """Read and check everything, and put it into arrays; no training yet.

    The arguments are those of `prbnn.fit`. ``layout`` says how sequences lie in the rows of ``x`` and
    ``y``, where they are sequences.
    """
    computing()
    _check_options(tempering, rejection, enforce)
    table = read_table(
        x,
        y,
        sample_weight,
        columns=columns,
        outputs=outputs,
        categories=categories,
        layout=layout,
        censored=censored,
        upper=upper,
    )
    if table.observed:
        named_rows = table.columns
        check_observations(likelihood, named_rows.outputs, named_rows.targets, named_rows.intervals)
    known = named(knowledge)
    engine = engine_of(inference)
    objection = engine.objection(network, likelihood, exact=table.cut is None)
    if objection:
        raise ValueError(f"inference={engine.name!r}: {objection}; or use inference='bbb'")
    scale = table.scaling(scaling, targets=likelihood.scales_targets)
    way = _way(enforce, known, network, engine, likelihood, table.columns)
    if way == "construction" and not engine.builds:
        raise ValueError(
            f"inference={engine.name!r} cannot fit a network that rules are built into; use "
            "enforce='projection', or inference='bbb'"
        )
    model = build_model(
        network,
        known,
        table,
        scale,
        engine=engine,
        likelihood=likelihood,
        prior=prior,
        construction=way == "construction",
        seed=seed,
    )
    rules = [rule for rule in known if rule.label not in built_in(model.network)]
    if enforce == "projection":
        moved = [rule for rule in rules if rule.strength.kind == Kind.HARD]
        # bound after training, but their mistakes are said before
        bind_all(moved, table.columns, scale, LEAST_POINTS)
        if layout is not None and moved:
            check_movable(model.network, likelihood, moved, table.columns, scale)
        rules = [rule for rule in rules if rule.strength.kind != Kind.HARD]
    projects, every = way == "projection", 1
    if projects and Kind.TOLERANT in engine.honours:
        rules = _led(rules, table.columns, scale)
        if len(table.columns.inputs) > 1:
            points = max(LEAST_POINTS, points // LED_FEWER)
            every = LED_EVERY
    bound, width = _bind(rules, table.columns, scale, engine, points)
    data = _padded(table, scale, table.row_weight * table.observed)
    problem = Problem(
        network=model.network,
        fresh=model.fresh,
        likelihood=likelihood,
        knowledge=bound if rules else None,
        prior_mean=jnp.asarray(model.prior_mean, float),
        prior_sd=jnp.asarray(model.prior_sd, float),
        likelihood_start=jnp.asarray(model.own_start, float),
        own_prior_mean=jnp.asarray(model.own_mean, float),
        own_prior_sd=jnp.asarray(model.own_sd, float),
        tempering=number(tempering),
        points_width=width,
        searched=SEARCHED_LED if projects else SEARCHED,
        window=network_window(likelihood, scale),
        every=every,
        rows=all_rows(data) if engine.uses_rows else None,
    )
    enforcement = enforcement_of(
        rules,
        bound.units,
        table.counted,
        rejection or engine.rejection,
        tempering,
        engine.block,
        chains=getattr(engine, "chains", 0),
        members=engine.members if isinstance(engine, BayesByBackprop | Conjugate) else 1,
        gradual=layout is not None,
        searched=worst_points(engine, problem) > 0,
    )
    return Task(
        engine=engine,
        problem=problem,
        enforcement=enforcement,
        data=data,
        rules=rules,
        knowledge=known,
        units=_f_units(rules, bound.units),
        columns=table.columns,
        weight=table.weight,
        scaling=scale,
        tempering=tempering,
        projects=projects,
    )


def _way(
    enforce: Enforce,
    rules: Sequence[Rule],
    network: Network | Callable,
    engine: Engine,
    likelihood: Likelihood,
    columns: Columns,
) -> Enforce:
    """How the hard rules are kept; "auto" is settled.

    Draws are moved where the network is smooth and has a linear last layer, and the engine draws from a
    distribution over weights: the slopes of a relu network jump, so that no set of points is dense, and a
    sampler's draws are conditioned exactly. Such a network is built to obey limits, at no cost, where
    these are all its hard rules and the engine can fit it. All else is kept by pressure.
    """
    hard = [rule for rule in rules if rule.strength.kind == Kind.HARD]
    if enforce != "auto":
        return enforce if hard or enforce == "construction" else "pressure"
    smooth = isinstance(network, MLP) and network.activation != "relu" and len(network.hidden) > 0
    if not (hard and smooth and engine.endless and columns.layout is None):
        return "pressure"
    builds = engine.builds and builds_limits(network, rules, columns, likelihood)
    return "construction" if builds else "projection"


def _led(rules: Sequence[Rule], columns: Columns, scaling: Scaling) -> list[Rule]:
    """The rules, hard ones with a tolerance of LED units."""
    units = bind_all(rules, columns, scaling, LEAST_POINTS).units
    return [
        rule.hard(LED * unit) if rule.strength.kind == Kind.HARD else rule
        for rule, unit in zip(rules, units, strict=True)
    ]


def _padded(table: TrainingTable, scaling: Scaling, weights: np.ndarray) -> Data:
    """The table in network units."""
    x, cut = scaling.inputs(table.x), table.cut
    if cut is None:
        return pad(x, scaling.outputs(table.y), weights)
    return pad(x, scaling.outputs(cut.low), weights, scaling.outputs(cut.high))


def _check_options(tempering: Any, rejection: Any, enforce: Any) -> None:
    if not (is_number(tempering) and tempering > 0):
        raise ValueError(f"tempering must be above 0, got {tempering!r}")
    if rejection is not None and not (is_number(rejection) and 0 < rejection < 1):
        raise ValueError(f"rejection must be between 0 and 1, got {rejection!r}")
    if enforce not in (*get_args(Enforce), FORMER):
        ways = ", ".join(map(repr, get_args(Enforce)))
        raise ValueError(f"enforce must be one of {ways}, got {enforce!r}")


def check_count(**counts: int | None) -> None:
    """Refuse what is not a whole number above 0; None is allowed."""
    for name, count in counts.items():
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if count is not None and not (whole and count > 0):
            raise ValueError(f"{name} must be a whole number above 0, got {count!r}")


def engine_of(inference: str | Engine) -> Engine:
    """An engine by name, or as it is."""
    if isinstance(inference, str):
        if inference not in ENGINES:
            raise ValueError(f"inference must be one of {', '.join(ENGINES)}, got {inference!r}")
        return ENGINES[inference]()
    if not isinstance(inference, Engine):
        raise ValueError(
            f"inference must be one of {', '.join(ENGINES)} or an engine, got {inference!r}"
        )
    return inference


def _bind(
    rules: Sequence[Rule],
    columns: Columns,
    scaling: Scaling,
    engine: Engine,
    points: int,
) -> tuple[BoundKnowledge, int]:
    """The rules on their pools of points, and how many of these a step evaluates.

    ``points`` is the requested number of the latter.
    """
    for rule in rules:
        if rule.strength.kind not in engine.honours:
            raise KnowledgeError(
                f"rule {rule.label!r}: inference={engine.name!r} cannot enforce a rule that is "
                f"{rule.strength}; {engine.instead}"
            )
    if columns.layout is not None:
        pool = SEQUENCE_POOL
    else:
        pool = POOL_POINTS if len(columns.inputs) == 1 else SURFACE_POOL
    bound = bind_all(rules, columns, scaling, pool)
    return bound, min(_points(rules, points, columns, engine), bound.pool if rules else pool)


def _points(rules: Sequence[Rule], points: int, columns: Columns, engine: Engine) -> int:
    """``points``, or more where these are too few to tell whether a whole function obeys.

    That needs more over several inputs, and where points stay the same from step to step, as engines that
    sample a density need them to.
    """
    kinds = {rule.strength.kind for rule in rules}
    if Kind.FUNCTIONS in kinds:
        return max(points, FUNCTION_POINTS)
    surface = len(columns.inputs) > 1 and columns.layout is None
    many = Kind.HARD in kinds and (surface or engine.full_batch)
    return max(points, SURFACE_POINTS) if many else points


def _f_units(rules: Sequence[Rule], units: np.ndarray) -> np.ndarray:
    """The user's unit of each rule's f: the score's own, or 1 where f is a probability."""
    chance = [rule.strength.kind in PROBABILITY for rule in rules]
    return np.where(chance, 1.0, units) if len(rules) else units
