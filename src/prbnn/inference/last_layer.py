"""The last layer given all others: its evidence, and a draw from its exact posterior.

Given the hidden layers, a network with a linear last layer and normal noise is Bayesian linear
regression. With rows A = sqrt(weight) features / noise and r = sqrt(weight) targets / noise, and weights
in units of their prior's standard deviations,

    weights | r  ~  N(m, (I + A^T A)^-1),    m = (I + A^T A)^-1 A^T r,
    log evidence  =  1/2 r^T A m - 1/2 r^T r - 1/2 log |I + A^T A|  (less the constant of the noise).

Where the noise is small, I + A^T A has a condition number that float32 cannot hold, so it is computed in
float64, in float32 programs too. Gradients are in closed form, of products of matrices alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jaxtyping import Array, Float


class Conditional(NamedTuple):
    """The last layer given the others.

    - `evidence`: log evidence of the rows, less the constant of the noise
    - `weights`: mean of the posterior plus a factor of its covariance times the noise that was given
    """

    evidence: Float[Array, ""]
    weights: Float[Array, " weights"]


class _Solved(NamedTuple):
    """What the gradient needs: the arguments, the posterior's mean, and the inverse of the factor L of
    I + A^T A = L L^T."""

    rows: Float[Array, "rows weights"]
    targets: Float[Array, " rows"]
    noise: Float[Array, " weights"]
    mean: Float[Array, " weights"]
    inverse: Float[Array, "weights weights"]


@jax.custom_vjp
def conditional(
    rows: Float[Array, "rows weights"],
    targets: Float[Array, " rows"],
    noise: Float[Array, " weights"],
) -> Conditional:
    """The last layer given ``rows`` of features and ``targets``, both divided by the noise.

    ``noise`` is standard normal noise for a draw; 0 gives the mean.

    >>> import jax.numpy as jnp
    >>> found = conditional(jnp.ones((3, 1)), jnp.array([1.0, 2.0, 3.0]), jnp.zeros(1))
    >>> float(found.weights[0])
    1.5
    """
    return _forward(rows, targets, noise)[0]


def _forward(rows: Array, targets: Array, noise: Array) -> tuple[Conditional, _Solved]:
    with jax.enable_x64(True):
        a, r, z = map(_double, (rows, targets, noise))
        identity = np.eye(a.shape[1])
        precision = lax.add(_product(a, a, 0, 0), identity)
        factor = lax.linalg.cholesky(precision, symmetrize_input=False)
        inverse = lax.linalg.triangular_solve(
            factor, lax.broadcast(identity, ()), left_side=True, lower=True
        )
        whitened = _product(inverse, _product(a, r, 0, 0), 1, 0)
        mean = _product(inverse, whitened, 0, 0)
        fitted = lax.sub(_product(whitened, whitened, 0, 0), _product(r, r, 0, 0))
        # the diagonal of the factor's inverse is that of the factor, inverted
        logs = lax.log(_product(lax.mul(inverse, identity), np.ones(len(identity)), 1, 0))
        evidence = lax.add(lax.mul(fitted, np.float64(0.5)), _total(logs))
        found = Conditional(evidence, lax.add(mean, _product(inverse, z, 0, 0)))
        return (
            Conditional(*(lax.convert_element_type(part, rows.dtype) for part in found)),
            _Solved(rows, targets, noise, mean, inverse),
        )


def _backward(solved: _Solved, slope: Conditional) -> tuple[Array, Array, Array]:
    """Slopes by the three arguments, from those by the evidence and by the weights.

    With L L^T = I + A^T A, the factor changes by d(L^-T) = -L^-T lower(L^-1 d(L L^T) L^-T)^T, where
    ``lower`` keeps the lower triangle and half of the diagonal.
    """
    with jax.enable_x64(True):
        a, r, z, by_evidence, by_weights = map(_double, (*solved[:3], *slope))
        mean, inverse = solved.mean, solved.inverse
        size = mean.shape[0]
        by_noise = _product(inverse, by_weights, 1, 0)
        by_mean = _product(inverse, by_noise, 0, 0)
        left = lax.sub(r, _product(a, mean, 1, 0))
        along = _product(a, by_mean, 1, 0)
        # lower plus its transpose: half of the diagonal twice
        mixed = lax.mul(_outer(z, by_noise), np.tril(np.ones((size, size))))
        halved = lax.mul(mixed, 1 - 0.5 * np.eye(size))
        both = lax.neg(lax.add(halved, lax.transpose(halved, (1, 0))))
        scaled = lax.mul(lax.broadcast(by_evidence, (size, size)), np.eye(size))
        middle = _product(inverse, _product(lax.sub(both, scaled), inverse, 1, 0), 0, 0)
        weighed = lax.mul(lax.broadcast(by_evidence, (size,)), mean)
        by_rows = lax.add(
            lax.sub(_outer(left, lax.add(weighed, by_mean)), _outer(along, mean)),
            _product(a, middle, 1, 0),
        )
        by_targets = lax.sub(along, lax.mul(lax.broadcast(by_evidence, left.shape), left))
        dtype = solved.rows.dtype
        found = (by_rows, by_targets, by_noise)
        by_rows, by_targets, by_noise = (lax.convert_element_type(part, dtype) for part in found)
        return by_rows, by_targets, by_noise


# Operations of `jax.lax` alone are used in float64: functions of `jax.numpy` are compiled by themselves,
# and threads that trace at the same time with different precisions were seen to mix those up.


def _double(array: Array) -> Array:
    return lax.convert_element_type(array, np.float64)


def _product(left: Any, right: Any, along_left: int, along_right: int) -> Array:
    """The sum of products along one axis of each."""
    return lax.dot_general(left, right, (((along_left,), (along_right,)), ((), ())))


def _outer(left: Array, right: Array) -> Array:
    return _product(lax.expand_dims(left, (1,)), lax.expand_dims(right, (0,)), 1, 0)


def _total(vector: Array) -> Array:
    return _product(vector, np.ones(vector.shape[0]), 0, 0)


conditional.defvjp(_forward, _backward)
