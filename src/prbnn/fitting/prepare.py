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

from prbnn.data.columns import Columns
from prbnn.data.frames import (
    categories_of,
    check_lengths,
    check_rows,
    read_inputs,
    read_targets,
    read_weights,
)
from prbnn.data.layout import Layout
from prbnn.data.scaling import Scaling, ScalingKind, scaling_of, sequence_scaling
from prbnn.enforcement.pressure import Enforcement, enforcement_of
from prbnn.errors import DataError, KnowledgeError, is_number, nearest
from prbnn.fitting.loop import Data, pad, worst_points
from prbnn.inference import ENGINES
from prbnn.inference.engine import Engine
from prbnn.inference.laplace import Laplace
from prbnn.inference.problem import Fresh, Problem
from prbnn.model.construction.builder import check_region, construction_of
from prbnn.model.construction.built import Built, built_in
from prbnn.model.construction.limits import check_limits, with_numbers
from prbnn.model.likelihoods import Likelihood, parameters_prior
from prbnn.model.networks import Network, build
from prbnn.model.priors import Prior
from prbnn.model.recurrent import over
from prbnn.rules.base import Rule, named
from prbnn.rules.scoring.binding import bind_all
from prbnn.rules.strengths import Kind
from prbnn.system.process import computing

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
    obeys by construction. `columns` and `weight` are in the user's order, `data` in its own (see
    `in_order`).
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
    enforce: Enforce = "training",
    categories: Sequence[str] = (),
) -> Task:
    """Read and check everything, and put it into arrays; no training yet.

    ``layout`` says how sequences lie in the rows of ``x`` and ``y``, where they are sequences.
    ``categories`` are inputs that take only their values, beside those that ``x`` says are categories.
    """
    computing()
    if not (is_number(tempering) and tempering > 0):
        raise ValueError(f"tempering must be above 0, got {tempering!r}")
    if rejection is not None and not (is_number(rejection) and 0 < rejection < 1):
        raise ValueError(f"rejection must be between 0 and 1, got {rejection!r}")
    if enforce not in get_args(Enforce):
        raise ValueError(f"enforce must be 'training' or 'construction', got {enforce!r}")
    table, weight = _table(x, y, columns, outputs, sample_weight)
    table = replace(table, categories=_categories(x, table.inputs, categories, layout))
    known = named(knowledge)
    engine = engine_of(inference)
    rows, targets, weights = in_order(table.rows, table.targets, weight, merge=layout is None)
    if layout is None:
        scale = scaling_of(rows, targets, scaling, weights)
        pool = POOL_POINTS if len(table.inputs) == 1 else SURFACE_POOL
    else:
        table, pool = replace(table, layout=layout), SEQUENCE_POOL
        scale = sequence_scaling(layout, rows, targets, scaling)
        network = over(network, layout)
    if not likelihood.scales_targets:
        scale = scale.for_inputs_alone()
    if enforce == "construction":
        network = construction_of(network, known, table, likelihood)
    counted = 0.0 if y is None else float(np.sum(weights))
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
    own_start = likelihood.start(scale.output_scale, targets, weights)
    target_sd = _target_sd(targets, weights) / scale.output_scale
    own_mean, own_sd = parameters_prior(likelihood, np.asarray(own_start, float), target_sd)
    problem = Problem(
        network=built,
        fresh=Fresh(network, *widths),
        likelihood=likelihood,
        knowledge=bound if rules else None,
        prior_mean=jnp.asarray(prior_mean, float),
        prior_sd=jnp.asarray(prior_sd, float),
        likelihood_start=jnp.asarray(own_start, float),
        own_prior_mean=jnp.asarray(own_mean, float),
        own_prior_sd=jnp.asarray(own_sd, float),
        tempering=number(tempering),
        points_width=min(_points(rules, points, table, engine), bound.pool if rules else pool),
    )
    return Task(
        engine=engine,
        problem=problem,
        enforcement=enforcement_of(
            rules,
            bound.units,
            counted,
            rejection or engine.rejection,
            tempering,
            engine.block,
            chains=getattr(engine, "chains", 0),
            gradual=layout is not None,
            searched=worst_points(engine, problem) > 0,
        ),
        data=pad(scale.inputs(rows), scale.outputs(targets), weights * (y is not None)),
        rules=rules,
        knowledge=known,
        units=f_units(rules, bound.units),
        columns=table,
        weight=weight,
        scaling=scale,
        tempering=tempering,
    )


def _target_sd(targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Standard deviation of each target, whatever the scaling; 1 where it does not vary."""
    mean = np.average(targets, axis=0, weights=weight)
    sd = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weight))
    return np.where(np.ptp(targets, axis=0) > 0, sd, 1.0)


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
    for pool in bound.pools:
        points = np.asarray(pool, np.float64) * scale.input_scale + scale.input_shift
        check_limits(built, points, scale)
    return built


def _points(rules: Sequence[Rule], points: int, table: Columns, engine: Engine) -> int:
    """Whether a whole function obeys cannot be told from a few points, less so over many inputs.

    Nor from points that stay the same from step to step, as a density needs them to.
    """
    kinds = {rule.strength.kind for rule in rules}
    if Kind.FUNCTIONS in kinds:
        return max(points, FUNCTION_POINTS)
    surface = len(table.inputs) > 1 and table.layout is None
    many = Kind.HARD in kinds and (surface or engine.full_batch)
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
    weight = read_weights(sample_weight, len(values))
    keep = weight > 0
    values, wanted, weight = values[keep], wanted[keep], weight[keep]
    check_rows(values, wanted, targets)
    return Columns(names, targets, values, wanted), weight


def in_order(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, *, merge: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows in an order that depends on what they hold alone; ``merge`` makes equal ones one.

    Sums in float32 depend on their order, and thousands of steps make visible differences of that; so
    does a fold that a row falls into by its position. In one order, a table gives the same bits however
    it is sorted. Equal rows as one with the sum of their weights make a row of weight 2 and a row that
    comes twice the same problem.

    >>> in_order(np.array([[2.0], [1], [2]]), np.array([[5.0], [4], [5]]), np.ones(3), merge=True)[2]
    array([1., 2.])
    """
    # a negative zero is a zero
    x, y = x + 0.0, y + 0.0
    whole = np.column_stack([x, y])
    order = np.lexsort((weight, *whole.T[::-1]))
    x, y, weight, whole = x[order], y[order], weight[order], whole[order]
    if not merge:
        return x, y, weight
    first = np.flatnonzero(np.r_[True, np.any(whole[1:] != whole[:-1], axis=1)])
    return x[first], y[first], np.add.reduceat(weight, first)


def _categories(
    x: Any, inputs: tuple[str, ...], stated: Sequence[str], layout: Layout | None
) -> tuple[str, ...]:
    """Inputs that the user or the table says are categories; of a variable, all its steps."""
    if isinstance(stated, str):
        raise DataError(f"categories takes a list of columns, such as [{stated!r}], got {stated!r}")
    if x is None:
        if stated:
            raise DataError(
                "the values of categories come from the rows, and there are none without x; name the "
                "values in where instead, such as where=[{'flag': 0}, {'flag': 1}]"
            )
        return ()
    steps: dict[str, tuple[str, ...]] = {}
    if layout is not None:
        steps = {
            name: tuple(inputs[place] for place in layout.observed(name))
            for name in layout.variables
        }
    found = set() if layout is not None else set(categories_of(x, inputs))
    for name in stated:
        if name not in inputs and name not in steps:
            known = (*steps, *layout.static) if layout is not None else inputs
            raise DataError(f"categories: no column {name!r}{nearest(str(name), known)}")
        found.update(steps.get(name, (name,)))
    return tuple(name for name in inputs if name in found)


def number(value: float) -> Array:
    """A strongly typed scalar: a weak one would compile a second program."""
    return jnp.asarray(np.asarray(value, jnp.zeros(()).dtype))
