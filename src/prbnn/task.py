"""A problem ready to train: data, network, prior and rules read, checked and put into arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.enforcement.pressure import Enforcement, enforcement_of
from prbnn.errors import DataError, KnowledgeError, is_number
from prbnn.inference import ENGINES
from prbnn.inference.engine import Engine
from prbnn.inference.laplace import Laplace
from prbnn.inference.problem import Fresh, Problem
from prbnn.knowledge.binding import bind_all
from prbnn.knowledge.layout import Layout
from prbnn.knowledge.regions import Columns
from prbnn.knowledge.rules import Rule, named
from prbnn.model.built import Built, built_in
from prbnn.model.construction import check_region, construction_of
from prbnn.model.likelihoods import Likelihood
from prbnn.model.limits import check_limits, with_numbers
from prbnn.model.networks import Network, build
from prbnn.model.priors import Prior
from prbnn.model.recurrent import over
from prbnn.model.scaling import Kind, Scaling, scaling_of, sequence_scaling
from prbnn.table import check_lengths, check_rows, read_inputs, read_targets
from prbnn.training import Data, pad, worst_points

# how hard rules are kept: by pressure and rejection, or by the network's own form
Enforce = Literal["training", "construction"]

# points of a rule's region over one input, and over several; a step tries a block of them
POOL_POINTS = 1024
SURFACE_POOL = 131_072
FUNCTION_POINTS = 512
SURFACE_POINTS = 256
# at how many points of each region limits that are built are compared with each other
LIMIT_POINTS = 512
# sequences cost more each, and their points stay where training sequences are
SEQUENCE_POOL = 1024


@dataclass(frozen=True, eq=False)
class Settings:
    """What a fit was asked for: an estimator's parameters as they were, and what stood for None."""

    parameters: dict[str, Any]
    network: Network | Callable
    inference: Engine
    likelihood: Likelihood
    prior: Prior
    seed: int


class Task(NamedTuple):
    """A problem ready to train.

    `knowledge` is every rule, `rules` those that training must see to: without those that the network
    obeys by construction.
    """

    engine: Engine
    problem: Problem
    enforcement: Enforcement
    data: Data
    rules: list[Rule]
    knowledge: list[Rule]
    units: np.ndarray
    columns: Columns
    scaling: Scaling
    tempering: float

    def tempered(self, tempering: float) -> Task:
        """The same task with another weight of the KL term."""
        problem, enforcement = (
            eqx.tree_at(lambda part: part.tempering, part, number(tempering))
            for part in (self.problem, self.enforcement)
        )
        return self._replace(problem=problem, enforcement=enforcement, tempering=tempering)

    def also_at(self, further: Mapping[int, np.ndarray]) -> Task:
        """The same task with further points (by position of a rule) in the pools; nothing recompiles."""
        knowledge = self.problem.knowledge
        if knowledge is None:
            return self
        count = knowledge.groups[0].points.shape[0]
        bound = bind_all(self.rules, self.columns, self.scaling, count, further=further)
        return self._replace(
            problem=eqx.tree_at(lambda problem: problem.knowledge, self.problem, bound)
        )


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
    scaling: Kind,
    points: int,
    rejection: float | None,
    sample_weight: Any,
    columns: Sequence[str] | None,
    outputs: Sequence[str] | None,
    seed: int,
    layout: Layout | None = None,
    enforce: Enforce = "training",
) -> Task:
    """Read and check everything, and put it into arrays; no training yet.

    ``layout`` says how sequences lie in the rows of ``x`` and ``y``, where they are sequences.
    """
    if not (is_number(tempering) and tempering > 0):
        raise ValueError(f"tempering must be above 0, got {tempering!r}")
    if rejection is not None and not (is_number(rejection) and 0 < rejection < 1):
        raise ValueError(f"rejection must be between 0 and 1, got {rejection!r}")
    if enforce not in get_args(Enforce):
        raise ValueError(f"enforce must be 'training' or 'construction', got {enforce!r}")
    table, weight = _table(x, y, columns, outputs, sample_weight)
    known = named(knowledge)
    engine = engine_of(inference)
    if layout is None:
        scale = scaling_of(table.rows, table.targets, scaling, weight)
        pool = POOL_POINTS if len(table.inputs) == 1 else SURFACE_POOL
    else:
        table, pool = replace(table, layout=layout), SEQUENCE_POOL
        scale = sequence_scaling(layout, table.rows, table.targets, scaling)
        network = over(network, layout)
    if not likelihood.scales_targets:
        scale = scale.for_inputs_alone()
    if enforce == "construction":
        network = construction_of(network, known, table, likelihood)
    rows = 0.0 if y is None else float(np.sum(weight))
    widths = (len(table.inputs), likelihood.network_outputs(len(table.outputs)))
    built = build_network(network, seed, *widths)
    if enforce == "construction":
        built = _constructed(built, known, table, scale, engine, observed=y is not None)
    _check_network(built, *widths)
    rules = [rule for rule in known if rule.label not in built_in(built)]
    _check_strengths(engine, rules)
    bound = bind_all(rules, table, scale, pool)
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be Normal(...), LayerNormal(...) or alike, got {prior!r}")
    prior_mean, prior_sd = prior.moments(built)
    problem = Problem(
        network=built,
        fresh=Fresh(network, *widths),
        likelihood=likelihood,
        knowledge=bound if rules else None,
        prior_mean=jnp.asarray(prior_mean, float),
        prior_sd=jnp.asarray(prior_sd, float),
        likelihood_start=jnp.asarray(
            likelihood.start(scale.output_scale, table.targets, weight), float
        ),
        tempering=number(tempering),
        points_width=min(_points(rules, points, table, engine), pool),
    )
    return Task(
        engine=engine,
        problem=problem,
        enforcement=enforcement_of(
            rules,
            bound.units,
            rows,
            rejection or engine.rejection,
            tempering,
            engine.block,
            gradual=layout is not None,
            searched=worst_points(engine, problem) > 0,
        ),
        data=pad(scale.inputs(table.rows), scale.outputs(table.targets), weight * (y is not None)),
        rules=rules,
        knowledge=known,
        units=f_units(rules, bound.units),
        columns=table,
        scaling=scale,
        tempering=tempering,
    )


def _constructed(
    built: Built,
    rules: Sequence[Rule],
    table: Columns,
    scale: Scaling,
    engine: Engine,
    *,
    observed: bool,
) -> Built:
    """The network with its numbers, once every rule that it obeys can be read, and holds together."""
    met = [rule for rule in rules if rule.label in built_in(built)]
    bound = bind_all(met, table, scale, LIMIT_POINTS, exact=built_in(built))
    if engine.name == Laplace.name and len(built.shaped) + len(built.free) > 1:
        raise KnowledgeError(
            f"inference={engine.name!r} speaks of one last layer, and by construction each output with "
            "a shape has its own; fit one output at a time, or use inference='bbb'"
        )
    built = with_numbers(built, met, table, scale)
    if observed:
        check_region(met, table.rows, table)
        check_limits(built, table.rows, scale)
    for group in bound.groups:
        points = np.asarray(group.points, np.float64) * scale.input_scale + scale.input_shift
        check_limits(built, points, scale)
    return built


def _points(rules: Sequence[Rule], points: int, table: Columns, engine: Engine) -> int:
    """Whether a whole function obeys cannot be told from a few points, less so over many inputs.

    Nor from points that stay the same from step to step, as a density needs them to.
    """
    kinds = {rule.strength.kind for rule in rules}
    if "probable functions" in kinds:
        return max(points, FUNCTION_POINTS)
    surface = len(table.inputs) > 1 and table.layout is None
    many = "share" in kinds and (surface or engine.full_batch)
    return max(points, SURFACE_POINTS) if many else points


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


def _check_strengths(engine: Engine, rules: Sequence[Rule]) -> None:
    for rule in rules:
        if rule.strength.kind not in engine.honours:
            raise KnowledgeError(
                f"rule {rule.label!r}: inference={engine.name!r} cannot keep a rule that is "
                f"{rule.strength}; {engine.instead}"
            )


@eqx.filter_jit
def _build(network: Network | Callable, key: Array, inputs: int, outputs: int) -> Any:
    return build(network, key, inputs, outputs)


def build_network(network: Network | Callable, seed: int, inputs: int, outputs: int) -> Any:
    """The network as a fit with this seed starts it."""
    return _build(network, jax.random.key(seeds(seed)[0]), inputs, outputs)


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


def number(value: float) -> Array:
    """A strongly typed scalar: a weak one would compile a second program."""
    return jnp.asarray(np.asarray(value, jnp.zeros(()).dtype))
