"""Duals of samplers, on draws that are made without a sampler: f from a tilted density, exactly."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from prbnn.enforcement.blocks import Block, Kinds, newton, no_block

STEPS, CHAINS = 20, 4
AVERAGE, VIOLATION, PROBABILITY = np.eye(3, dtype=bool)


def kinds_of(*kinds: np.ndarray) -> Kinds:
    return Kinds(*np.stack(kinds, axis=1))


def search(
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    bound: list[float],
    kinds: Kinds,
    tempering: float = 1.0,
    blocks: int = 18,
    seed: int = 0,
) -> np.ndarray:
    """The dual after some blocks of independent draws; ``draw(dual)`` gives f of a whole block."""
    generator = np.random.default_rng(seed)
    rules = len(bound)
    dual, block = jnp.zeros(rules), no_block(STEPS, CHAINS, rules)
    for _ in range(blocks):
        f = draw(np.asarray(dual), generator).reshape(STEPS, CHAINS, rules)
        block = Block(jnp.asarray(f, jnp.float32), *block[1:])
        change, block = newton(
            block,
            dual,
            jnp.asarray(bound),
            jnp.asarray(tempering),
            kinds,
            jnp.ones(rules),
            jnp.ones(rules, bool),
        )
        dual = jnp.maximum(dual + change, 0.0)
    return np.asarray(dual)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tempering", [1.0, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("far", [0.5, 3.0])
def test_a_mean_is_met_at_every_tempering(far: float, tempering: float, seed: int) -> None:
    """f ~ N(dual * variance / tempering, variance), and E f >= far."""
    variance = 0.02 * tempering

    def draw(dual: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        shift = dual * variance / tempering
        return shift + np.sqrt(variance) * generator.normal(size=(STEPS * CHAINS, 1))

    found = search(draw, [far], kinds_of(AVERAGE), tempering, seed=seed)
    # 15 blocks of 60 draws
    error = np.sqrt(variance / 900) / (variance / tempering)
    assert abs(found[0] - far * tempering / variance) < 5 * error


@pytest.mark.parametrize("seed", range(3))
def test_two_means_that_lean_on_each_other(seed: int) -> None:
    """The line's slope and intercept: two duals that one rule at a time would chase."""
    covariance = np.array([[0.022317, -0.042508], [-0.042508, 0.128587]])
    root = np.linalg.cholesky(covariance)
    mean = np.array([-0.453560, 0.902019])

    def draw(dual: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return mean + covariance @ dual + generator.normal(size=(STEPS * CHAINS, 2)) @ root.T

    found = search(draw, [0.0, 0.5], kinds_of(AVERAGE, AVERAGE), seed=seed)
    assert np.all(np.abs(found - [38.8, 9.7]) < [4.0, 1.5]), found


def test_a_rule_that_holds_by_itself_has_no_dual() -> None:
    def draw(dual: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return 1.0 + dual + generator.normal(size=(STEPS * CHAINS, 1))

    assert search(draw, [0.0], kinds_of(AVERAGE))[0] < 0.05


GRID = np.linspace(-8, 6, 200_001)


def tilted(dual: float, mean: float = -0.5) -> np.ndarray:
    log = -0.5 * (GRID - mean) ** 2 + dual * np.minimum(GRID, 0)
    density = np.exp(log - log.max())
    return density / density.sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("tolerance", "answer"), [(0.01, 10.4778), (0.001, 33.6688)])
def test_a_mean_violation_is_met(tolerance: float, answer: float, seed: int) -> None:
    def draw(dual: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        w = generator.choice(GRID, size=(STEPS * CHAINS, 1), p=tilted(float(dual[0])))
        return np.minimum(w, 0)

    found = search(draw, [-tolerance], kinds_of(VIOLATION), seed=seed)
    assert answer / 1.4 < found[0] < answer * 1.4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mean", [-0.5, -2.5, 0.5])
@pytest.mark.parametrize("allowed", [0.05, 0.3])
def test_a_probability_is_met(mean: float, allowed: float, seed: int) -> None:
    obeys = norm.cdf(mean)

    def draw(dual: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        odds = (1 - obeys) / obeys * np.exp(-dual[0])
        return -(generator.random((STEPS * CHAINS, 1)) < odds / (1 + odds)).astype(float)

    answer = np.log(1 / allowed - 1) - np.log(obeys / (1 - obeys))
    found = search(draw, [-allowed], kinds_of(PROBABILITY), seed=seed)
    error = 1 / np.sqrt(900 * allowed * (1 - allowed))
    assert abs(found[0] - answer) < 5 * error
