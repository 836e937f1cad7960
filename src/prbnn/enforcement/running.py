"""Running means of what steps measure of each rule: what every law of pressure reads."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.measure import Measured
from prbnn.enforcement.strength_table import PROBABILITY, StrengthTable

# how many steps a mean covers: MEMORY for f and depth, LONG_MEMORY for variances and fractions broken
MEMORY = 50
LONG_MEMORY = 200
# how many blocks of steps every mean covers for samplers, which draw few functions per step
BLOCKS_REMEMBERED = 4


class Running(NamedTuple):
    """Means over the last steps, one entry per rule.

    - `step`: how many steps were taken in
    - `f`: mean of f
    - `variance`: variance of f over functions (of the strict verdict where a probability is bounded)
    - `broken`: the fraction of functions that break the rule (of points, for ``of="points"``)
    - `depth`: how far outside the rule functions are; of a mixture, those of its member furthest outside
    """

    step: Float[Array, ""]
    f: Float[Array, " rules"]
    variance: Float[Array, " rules"]
    broken: Float[Array, " rules"]
    depth: Float[Array, " rules"]


def no_steps(rules: int) -> Running:
    """Before the first step."""
    zeros = jnp.zeros(rules)
    return Running(jnp.zeros(()), zeros, zeros, zeros, zeros)


def memory_of(block: int) -> tuple[int, int]:
    """How many steps the quick and the slow means remember, where pressure is held for ``block``."""
    if block == 1:
        return MEMORY, LONG_MEMORY
    return BLOCKS_REMEMBERED * block, BLOCKS_REMEMBERED * block


def follow(
    table: StrengthTable, running: Running, measured: Measured, block: int, members: int = 1
) -> Running:
    """Take in what a step measured of its functions (leading axis of ``measured``).

    They are those of one of ``members`` after the other.
    """
    step = running.step + 1
    memory, long_memory = memory_of(block)
    quick, slow = jnp.maximum(1 / step, 1 / memory), jnp.maximum(1 / step, 1 / long_memory)
    variance = _variance(table, running, measured, block)
    by_member = measured.depth.reshape(members, len(measured.depth) // members, -1)
    depth = jnp.max(jnp.mean(by_member, axis=1), axis=0)
    return Running(
        step=step,
        f=running.f + quick * (jnp.mean(measured.f, axis=0) - running.f),
        variance=running.variance + slow * (variance - running.variance),
        broken=running.broken + slow * (jnp.mean(measured.broken, axis=0) - running.broken),
        depth=running.depth + quick * (depth - running.depth),
    )


def _variance(
    table: StrengthTable, running: Running, measured: Measured, block: int
) -> Float[Array, " rules"]:
    """The variance over functions of f, or of the strict verdict where a probability is bounded."""
    strict = table.of_kind(*PROBABILITY)
    found = jnp.where(strict, measured.broken, measured.f)
    if block == 1:
        return jnp.var(found, axis=0)
    # few chains, many steps: spread around the running mean
    return jnp.mean((found - jnp.where(strict, running.broken, running.f)) ** 2, axis=0)


def gap(table: StrengthTable, running: Running) -> Float[Array, " rules"]:
    """How far the bounded mean is above its bound; of a probable rule, the strict frequency's."""
    strict = table.of_kind(*PROBABILITY)
    return jnp.where(strict, -running.broken, running.f) - table.bound
