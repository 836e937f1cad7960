"""Random and hunted points never leave the bounds of values, slopes and bends, as deployed."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from prbnn.certify import bounds
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import Dense, Layers
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior
from tests.certify.sampled import (
    ACTIVATIONS,
    TRIALS,
    Trial,
    boxes_of,
    deployed,
    enclosed,
    network_of,
    points_of,
    strays,
    tried,
)
from tests.marks import quick

pytestmark = pytest.mark.light

# one size for all quick tests: operations that were compiled for one serve the others
QUICK = (2, 16, 16, 2)


@pytest.mark.parametrize("activation", quick(ACTIVATIONS, "relu", "gelu"))
def test_random_points_stay_inside(activation: str) -> None:
    generator = np.random.default_rng(1)
    for trial in (Trial(1.0, dead=0.3), Trial(30.0, far=1e3)):
        assert not tried(generator, QUICK, activation, trial, boxes=16, points=256)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_random_points_stay_inside_in_float64(activation: str) -> None:
    generator = np.random.default_rng(2)
    trial = Trial(3.0, far=1e3, cancelling=True)
    assert not tried(generator, QUICK, activation, trial, "float64", points=256)


def test_random_points_stay_inside_as_compiled() -> None:
    """The same, by the program that users run: relu's rounding is all that its bounds allow."""
    generator = np.random.default_rng(3)
    for trial in TRIALS:
        options = {"boxes": 64, "points": 256, "eager": False}
        assert not tried(generator, (3, 64, 64, 2), "relu", trial, orders=(0,), **options)


def test_numbers_too_small_for_float32_are_allowed_for() -> None:
    """Products below 2^-126 are flushed to nothing, one by one."""
    generator = np.random.default_rng(4)
    network = network_of(generator, (64, 16, 2), "relu", Trial(1.0, bias=0.0), "float32")
    first = network.layers[0]
    small = Dense(jnp.abs(first.weight) * jnp.float32(3e-19), first.bias)
    network = Layers((small, *network.layers[1:]), "relu")
    low = np.full((16, 64), 1e-19) * np.linspace(0.5, 3, 16)[:, None]
    limits = enclosed(network, low, low, 0, eager=True)
    for exact in (False, True):
        assert not strays(limits, deployed(network, low[:, None], exact=exact)[0])


CASES = [
    pytest.param(
        activation, (inputs, *[width] * depth, 2), id=f"{activation}-{inputs}-{depth}x{width}"
    )
    for activation in ACTIVATIONS
    for inputs, depth, width in ((1, 1, 64), (2, 2, 32), (4, 3, 64), (6, 4, 16))
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(("activation", "sizes"), CASES)
def test_a_million_random_points_stay_inside(activation: str, sizes: tuple, kind: str) -> None:
    """10^6 points a case, over every scale of weights and every width of boxes."""
    generator = np.random.default_rng(5)
    each = 1_000_000 // (64 * len(TRIALS)) + 1
    for trial in TRIALS:
        found = tried(generator, sizes, activation, trial, kind, boxes=64, points=each, eager=False)
        assert not found


# --- hunting -------------------------------------------------------------------------------


@eqx.filter_jit
def _climbed(network: Layers, low: Array, high: Array, begin: Array) -> Array:
    """Where each output, or its slope along the first input, is driven up and down from a start."""
    direction = jnp.zeros(low.shape[-1]).at[0].set(1.0)

    def heights(x: Array) -> Array:
        value, slope = jax.jvp(network, (x,), (direction,))
        return jnp.concatenate([value, slope, -value, -slope])

    def climb(low: Array, high: Array, x: Array, goal: Array) -> Array:
        def step(carry: tuple, k: Array) -> tuple:
            x, best, highest = carry
            height, rise = jax.value_and_grad(lambda x: heights(x) @ goal)(x)
            better = height > highest
            best, highest = jnp.where(better, x, best), jnp.maximum(height, highest)
            reach = 0.5 * (high - low) * 0.8**k
            return (jnp.clip(x + reach * jnp.sign(rise), low, high), best, highest), None

        first = x, x, jnp.asarray(-jnp.inf)
        return jax.lax.scan(step, first, jnp.arange(24))[0][1]

    goals = jnp.eye(heights(low[0]).size)
    each = jax.vmap(climb, (None, None, None, 0))
    found = jax.vmap(jax.vmap(each, (None, None, 0, None)), (0, 0, 0, None))(
        low, high, begin, goals
    )
    return found.reshape(len(low), -1, low.shape[-1])


def hunted(
    generator: np.random.Generator, sizes: tuple, activation: str, trial: Trial, eager: bool = True
) -> list[str]:
    """What projected gradient ascent finds outside the bounds of values and slopes."""
    network = network_of(generator, sizes, activation, trial, "float32")
    low, high = boxes_of(generator, 16, sizes[0], trial.far)
    begin = points_of(generator, low, high, 16)
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), "float64"), network)
        ends = [jnp.asarray(part) for part in (low, high, begin)]
        at = np.asarray(_climbed(doubled, *ends))
    at = np.clip(at, low[:, None], high[:, None])
    found = []
    for order in (0, 1):
        limits = enclosed(network, low, high, order, eager=eager)
        for exact in (False, True):
            said = strays(limits, deployed(network, at, exact=exact)[order])
            found += [f"{activation} {trial} order {order}: {said}"] if said else []
    return found


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_nothing_is_found_outside_by_climbing(activation: str) -> None:
    generator = np.random.default_rng(6)
    for trial in (Trial(1.0), Trial(5.0)):
        assert not hunted(generator, QUICK, activation, trial)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "sizes"), CASES)
def test_nothing_is_found_outside_by_climbing_anywhere(activation: str, sizes: tuple) -> None:
    generator = np.random.default_rng(7)
    for trial in TRIALS[:-1]:
        for _ in range(3):
            assert not hunted(generator, sizes, activation, trial, eager=False)


# --- posteriors: the user's units -----------------------------------------------------------


def posterior(kind: str, offset: float, draws: np.ndarray | None = None) -> Posterior:
    generator = np.random.default_rng(8)
    rows = generator.uniform(-1, 1, (40, 2)) + offset
    targets = generator.normal(size=(40, 1)) * 3 + 10 * offset
    network = network_of(generator, (2, 16, 1), "tanh", Trial(2.0), "float32")
    size = flatten(network).size
    if draws is None:
        draws = (generator.normal(size=(3, size)) * 0.7).astype(np.float32)
    return Posterior(
        network,
        draws,
        Gaussian(),
        np.zeros((len(draws), 1), np.float32),
        scaling_of(rows, targets, kind),
        Columns(("a", "b"), ("y",), rows, targets),
    )


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("kind", ["standard", "minmax", "none"])
def test_functions_of_a_posterior_stay_inside_in_the_users_units(kind: str, offset: float) -> None:
    found = posterior(kind, offset)
    generator = np.random.default_rng(9)
    centre = generator.uniform(-1, 1, (8, 2)) + offset
    width = np.array([0, 1e-9, 1e-6, 1e-3, 0.01, 0.1, 0.5, 1.0])[:, None]
    low, high = centre - width, centre + width
    points = points_of(generator, low, high, 100)
    values = found.functions(points.reshape(-1, 2)).reshape(3, 8, 100, 1)
    with jax.disable_jit():
        limits = bounds(found, low, high)
    assert not strays(limits, values)


def test_draws_kept_in_float64_are_deployed_in_float32_and_bounded_so() -> None:
    """A posterior computes in float32 whatever numbers its draws are kept as."""
    plain = posterior("standard", 0.0)
    wide = posterior("standard", 0.0, np.asarray(plain.draws, np.float64) * (1 + 1e-9))
    points = np.random.default_rng(10).uniform(-1, 1, (8, 2))
    with jax.disable_jit():
        limits = bounds(wide, points, points)
    assert not strays(limits, wide.functions(points)[:, :, None])
