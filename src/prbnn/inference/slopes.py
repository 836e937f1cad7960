"""What engines of drawn functions follow: the slope of each function's log likelihood and pressure."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from prbnn.enforcement.measure import Measured
from prbnn.inference.mapping import over_functions
from prbnn.inference.problem import Batch, Problem


class Slopes(NamedTuple):
    """Of each function: the slope of log likelihood + sum of pressure * f, and what these are.

    - `slope`: by every entry of the function's vector
    - `fit`: its log likelihood
    - `measured`: what it does to each rule
    """

    slope: Float[Array, "functions vector"]
    fit: Float[Array, " functions"]
    measured: Measured


def slopes_of(
    problem: Problem,
    vectors: Float[Array, "functions vector"],
    batch: Batch,
    pressure: Float[Array, " rules"],
) -> Slopes:
    """Slopes at ``vectors``, each the weights and the likelihood's own parameters of one function."""

    def fitted(vector: Array) -> Array:
        return problem.log_likelihood(vector, batch)

    fit, slope = over_functions(jax.value_and_grad(fitted), (vectors,), problem.effort(batch)[0])
    pull, measured = pull_of(problem, vectors, batch, pressure)
    return Slopes(slope + pull, fit, measured)


def pull_of(
    problem: Problem,
    vectors: Float[Array, "functions vector"],
    batch: Batch,
    pressure: Float[Array, " rules"],
) -> tuple[Float[Array, "functions vector"], Measured]:
    """The slope of sum of pressure * f alone, and what each function does to each rule."""

    def pressed(vector: Array) -> tuple[Array, Measured]:
        measured = problem.measure(vector, batch)
        return jnp.sum(problem.every * pressure * measured.f), measured

    if problem.knowledge is None:
        measured = jax.vmap(lambda vector: problem.measure(vector, batch))(vectors)
        return jnp.zeros_like(vectors), measured

    def by_rules() -> tuple[Array, Measured]:
        # rules have points of their own, often far fewer than there are rows
        points = problem.effort(batch)[1]
        return over_functions(jax.grad(pressed, has_aux=True), (vectors,), points)

    if problem.every == 1:
        return by_rules()
    none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(by_rules))
    return jax.lax.cond(batch.due, by_rules, lambda: none)
