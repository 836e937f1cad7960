"""Rows that were cut, against quadrature: y ~ N(mu, 1), mu ~ N(0, 10^2), five values and two more rows.

Truncated: only values above 0 were recorded. Censored: of the two further rows only "below 0" is known.
"""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from prbnn import (
    NUTS,
    SGHMC,
    SVGD,
    BayesByBackprop,
    Dropout,
    Ensemble,
    Gaussian,
    Laplace,
    Normal,
    StudentT,
    fit,
)
from prbnn.fitting.result import Solution
from prbnn.inference.engine import Engine
from tests.marks import quick
from tests.truths.problems import MEAN, close, constant

VALUES = [0.2, 0.5, 0.7, 1.1, 1.5]
# mean and standard deviation of mu, as stated with the answers
ANSWERS = {
    "plain": (0.798403, 0.446767),
    "truncated": (-0.158635, 0.777540),
    "censored": (0.373709, 0.394906),
}
ERRORS = 2.33
MU = np.linspace(-9, 7, 64_001)


def log_posterior(case: str, mu: np.ndarray = MU) -> np.ndarray:
    found = norm.logpdf(mu, 0, 10) + sum(norm.logpdf(y, mu, 1) for y in VALUES)
    if case == "truncated":
        found -= len(VALUES) * norm.logcdf(mu)
    return found + 2 * norm.logcdf(-mu) if case == "censored" else found


def best_normal(case: str) -> np.ndarray:
    """Mean and standard deviation of the normal q with the largest ELBO."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)

    def loss(q: np.ndarray) -> float:
        mean, log_sd = q
        values = log_posterior(case, mean + np.exp(log_sd) * nodes)
        return float(-weights @ values / weights.sum() - log_sd)

    mean, log_sd = minimize(loss, np.array([0.5, -0.7]), method="Nelder-Mead", tol=1e-10).x
    return np.array([mean, np.exp(log_sd)])


@cache
def solved(case: str, engine: Engine, steps: int | None = None, batch: int | None = None):
    values, options = list(VALUES), {}
    if case == "censored":
        values += [0.0, 0.0]
        options = {"censored": ["exact"] * len(VALUES) + ["at most"] * 2}
    return fit(
        constant,
        np.zeros((len(values), 1)),
        values,
        inference=engine,
        likelihood=Gaussian(1.0, truncated=(0, None) if case == "truncated" else None),
        prior=Normal(0.0, 10.0),
        steps=steps,
        draws=4000,
        batch_size=batch,
        **options,
    )


def within_error(solution: Solution, answer: float) -> None:
    draws = solution.posterior.draws[:, 0]
    error = draws.std() / np.sqrt(solution.effective_draws(draws))
    assert error < 0.1 * draws.std()
    assert abs(draws.mean() - answer) < ERRORS * error, (draws.mean(), answer, error)


@pytest.mark.parametrize("case", ANSWERS)
def test_the_answers_are_those_of_quadrature(case: str) -> None:
    density = np.exp(log_posterior(case) - log_posterior(case).max())
    density /= density.sum()
    mean = density @ MU
    assert (mean, np.sqrt(density @ (MU - mean) ** 2)) == pytest.approx(ANSWERS[case], abs=1e-6)


@pytest.mark.parametrize("case", quick(ANSWERS, "truncated", "censored"))
def test_bayes_by_backprop(case: str) -> None:
    """Its mean is the posterior's here, and its standard deviation that of the best normal."""
    solution = solved(case, BayesByBackprop(draws=64), 3000)
    assert solution.result.status == "converged"
    close(solution.location, ANSWERS[case][0], MEAN)
    mean, sd = best_normal(case)
    close(solution.location, mean, MEAN)
    close(solution.scale, sd, MEAN)


@pytest.mark.slow
@pytest.mark.parametrize("case", ANSWERS)
def test_nuts(case: str) -> None:
    solution = solved(case, NUTS(chains=8, keep=500), 3000)
    within_error(solution, ANSWERS[case][0])
    close(solution.posterior.draws.std(), ANSWERS[case][1], 0.04)


@pytest.mark.slow
@pytest.mark.parametrize("case", ANSWERS)
def test_sghmc(case: str) -> None:
    solution = solved(case, SGHMC(chains=16, keep=250), 40_000)
    within_error(solution, ANSWERS[case][0])
    close(solution.posterior.draws.std(), ANSWERS[case][1], 0.04)


@pytest.mark.slow
@pytest.mark.parametrize("case", ANSWERS)
def test_particles(case: str) -> None:
    solution = solved(case, SVGD(particles=100))
    close(solution.posterior.draws.mean(), ANSWERS[case][0], 0.02)
    close(solution.posterior.draws.std(), ANSWERS[case][1], 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["truncated", "censored"])
def test_engines_of_one_point_find_the_mode(case: str) -> None:
    mode = MU[np.argmax(log_posterior(case))]
    precision = -np.gradient(np.gradient(log_posterior(case), MU), MU)[np.argmin(abs(MU - mode))]
    found = solved(case, Laplace(), 4000)
    close(found.posterior.draws.mean(), mode, 0.03)
    close(found.posterior.draws.std(), precision**-0.5, 0.02)
    members = solved(case, Ensemble(members=5, anchored=False), 4000)
    close(members.posterior.draws, mode, MEAN)


@pytest.mark.parametrize("case", quick(ANSWERS, "truncated"))
def test_dropout_has_the_mode_and_no_spread(case: str) -> None:
    """It switches hidden units off, and a constant has none: its draws are one function.

    That is the mode under the prior to the power of 1 - rate, which is how dropout counts weight decay.
    So its standard deviation is 0 instead of .447, .778 and .395, and where the rows are cut, its mean
    is the mode's: of the truncated rows .16 too high, a fifth of the posterior's standard deviation.
    """
    engine = Dropout()
    mode = MU[np.argmax(log_posterior(case) - engine.rate * norm.logpdf(MU, 0, 10))]
    draws = solved(case, engine, 3000).posterior.draws
    close(draws, mode, MEAN)
    assert draws.std() < 1e-6
    mean, sd = ANSWERS[case]
    assert abs(mode - mean) < 0.25 * sd


@pytest.mark.slow
@pytest.mark.parametrize("case", ANSWERS)
def test_members_with_anchors_are_spread_by_the_prior_alone(case: str) -> None:
    """Each is the mode under a prior around a draw of the prior: data are not drawn anew for it.

    Where the data have precision A, modes move by .01 / (A + .01) of their anchors, whose standard
    deviation is 10. That leaves a standard deviation of .016 to .055 instead of .39 to .78.
    """
    slope = np.gradient(log_posterior(case) - norm.logpdf(MU, 0, 10), MU)
    anchors = 10 * norm.ppf((np.arange(999) + 0.5) / 999)
    # the mode for each anchor: where slope(mu) = (mu - anchor) / 100
    modes = np.interp(anchors, MU - 100 * slope, MU)
    draws = solved(case, Ensemble(members=400, anchored=True), 4000).posterior.draws
    close(draws.mean(), modes.mean(), 4 * modes.std() / 400**0.5 + 2e-3)
    assert draws.std() == pytest.approx(modes.std(), rel=0.15)
    assert draws.std() < 0.2 * ANSWERS[case][1]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["truncated", "censored"])
def test_batches_of_rows_have_the_same_answer(case: str) -> None:
    solution = solved(case, BayesByBackprop(draws=64), 12_000, 4)
    close(solution.location, ANSWERS[case][0], 0.05)


def test_scaled_targets_have_the_window_of_the_user() -> None:
    """The same rows in other units, and scaled by the fit: the same posterior in those units."""
    unit, shift = 50.0, 1000.0
    options = {"steps": 3000, "inference": BayesByBackprop(draws=64)}
    values = shift + unit * np.array(VALUES)
    window = Gaussian(unit, truncated=(shift, None))
    solution = fit(
        constant,
        np.zeros((5, 1)),
        values,
        likelihood=window,
        scaling="standard",
        # N(0, 10^2) in the network's own units
        prior=Normal(-np.mean(VALUES) / np.std(VALUES), 10.0 / np.std(VALUES)),
        **options,
    )
    mean = solution.posterior.scaling.restore(solution.location[None])[0, 0]
    assert mean == pytest.approx(shift + unit * ANSWERS["truncated"][0], abs=unit * 0.02)


@pytest.mark.slow
def test_heavy_tails_are_cut_alike() -> None:
    """A truncated Student-t, against quadrature."""
    from scipy.stats import t

    # a long tail to the left
    mu = np.linspace(-80, 20, 200_001)
    log_density = norm.logpdf(mu, 0, 10) + sum(t.logpdf(y, 5, mu, 1) for y in VALUES)
    log_density -= len(VALUES) * t.logcdf(mu, 5)
    density = np.exp(log_density - log_density.max())
    mean = density @ mu / density.sum()
    solution = fit(
        constant,
        np.zeros((5, 1)),
        VALUES,
        likelihood=StudentT(1.0, 5, truncated=(0, None)),
        prior=Normal(0.0, 10.0),
        inference=NUTS(chains=8, keep=500),
        steps=3000,
    )
    within_error(solution, mean)


@pytest.mark.parametrize("likelihood", [Gaussian(1.0), StudentT(1.0)], ids=["normal", "t"])
def test_gradients_are_finite_thirty_deviations_away(likelihood) -> None:
    ends = np.array([(-np.inf, 0.0), (0.0, np.inf), (0.0, 0.5), (-3.0, 2.0)])

    @jax.jit
    @jax.vmap
    def slopes(ends: jax.Array, mu: jax.Array):
        def mass(vector: jax.Array) -> jax.Array:
            return likelihood.log_interval(vector[:1], vector[1:] + mu, ends[:1], ends[1:])

        return jax.value_and_grad(mass)(np.zeros(2, np.float32))

    for mu in (-30.0, 30.0):
        value, slope = slopes(ends, np.full(4, mu))
        assert np.all(np.isfinite(value))
        assert np.all(np.isfinite(slope))
