"""Building: the network with its first weights, its prior, and the rules that its form obeys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.errors import KnowledgeError
from prbnn.fitting.task import seeds
from prbnn.fitting.training_table import TrainingTable
from prbnn.inference.engine import Engine
from prbnn.inference.laplace import Laplace
from prbnn.model.construction.builder import check_region, construction_of
from prbnn.model.construction.built import Built, built_in
from prbnn.model.construction.limits import check_limits, with_numbers
from prbnn.model.likelihoods import Likelihood, parameters_prior
from prbnn.model.networks import Network, build
from prbnn.model.priors import Prior
from prbnn.model.recurrent import over
from prbnn.model.response import FreshWeights
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_all

# at how many points of each region limits that are built are compared with each other
LIMIT_POINTS = 512


class BuiltModel(NamedTuple):
    """A network with its first weights and its prior.

    - `fresh`: draws other first weights from a key
    - `prior_mean`, `prior_sd`: mean and standard deviation of each weight's prior
    - `own_start`, `own_mean`, `own_sd`: the likelihood's own parameters at the start, and their prior
    """

    network: Any
    fresh: FreshWeights
    prior_mean: np.ndarray
    prior_sd: np.ndarray
    own_start: np.ndarray
    own_mean: np.ndarray
    own_sd: np.ndarray


def build_model(
    network: Network | Callable,
    rules: Sequence[Rule],
    table: TrainingTable,
    scaling: Scaling,
    *,
    engine: Engine,
    likelihood: Likelihood,
    prior: Prior,
    construction: bool,
    seed: int,
) -> BuiltModel:
    """The network as a fit with this ``seed`` starts it; ``construction`` builds the hard rules in."""
    columns = table.columns
    if columns.layout is not None:
        network = over(network, columns.layout)
    if construction:
        network = construction_of(network, rules, columns, likelihood)
    widths = (len(columns.inputs), likelihood.network_outputs(len(columns.outputs)))
    built = build_network(network, seed, *widths)
    if construction:
        built = _constructed(built, rules, columns, scaling, engine, observed=table.observed)
    _check_network(built, *widths)
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be Normal(...), LayerNormal(...) or alike, got {prior!r}")
    own_start = likelihood.start(scaling.output_scale, table.y, table.row_weight)
    target_sd = table.target_sd / scaling.output_scale
    return BuiltModel(
        built,
        FreshWeights(network, *widths),
        *prior.moments(built),
        own_start,
        *parameters_prior(likelihood, np.asarray(own_start, float), target_sd),
    )


def build_network(network: Network | Callable, seed: int, inputs: int, outputs: int) -> Any:
    """The network as a fit with this ``seed`` starts it."""
    return _build(network, jax.random.key(seeds(seed)[0]), inputs, outputs)


@eqx.filter_jit
def _build(network: Network | Callable, key: Array, inputs: int, outputs: int) -> Any:
    return build(network, key, inputs, outputs)


def _constructed(
    built: Built,
    rules: Sequence[Rule],
    columns: Columns,
    scaling: Scaling,
    engine: Engine,
    *,
    observed: bool,
) -> Built:
    """The network with its limits filled in, once the rules that it obeys agree with each other."""
    met = [rule for rule in rules if rule.label in built_in(built)]
    bound = bind_all(met, columns, scaling, LIMIT_POINTS, exact=built_in(built))
    if engine.name == Laplace.name and len(built.shaped) + len(built.free) > 1:
        raise KnowledgeError(
            f"inference={engine.name!r} needs one shared last layer, but outputs with a built-in shape "
            "have separate networks; fit one output at a time, or use inference='bbb'"
        )
    built = with_numbers(built, met, columns, scaling)
    if observed:
        check_region(met, columns.rows, columns)
        check_limits(built, columns.rows, scaling)
    for pool in bound.pools:
        points = np.asarray(pool, np.float64) * scaling.input_scale + scaling.input_shift
        check_limits(built, points, scaling)
    return built


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
