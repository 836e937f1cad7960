"""Conjugate: the last layer against linear regression's closed form, and what the engine refuses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.truths.problems import LINE_LOG_EVIDENCE, LINE_NOISE, LINE_X, LINE_Y, close, close_dual

from prbnn import (
    MLP,
    AtLeast,
    Conjugate,
    Gaussian,
    Increasing,
    Normal,
    PRBNNRegressor,
    StudentT,
    fit,
)
from prbnn.inference.last_layer import conditional

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RISING = Increasing("x", name="rising")


def line(knowledge: list | None = None, **options):
    defaults = {
        "inference": Conjugate(draws=64),
        "likelihood": Gaussian(LINE_NOISE),
        "prior": Normal(),
        "draws": 4000,
    }
    return fit(MLP(hidden=()), LINE_X, LINE_Y, knowledge or [], **(defaults | options))


class TestConditional:
    def test_evidence_and_weights_are_those_of_linear_regression(self) -> None:
        generator = np.random.default_rng(0)
        rows, targets = generator.normal(size=(7, 3)), generator.normal(size=7)
        noise = generator.normal(size=3)
        found = conditional(*(jnp.asarray(part, jnp.float32) for part in (rows, targets, noise)))
        covariance = np.eye(7) + rows @ rows.T
        evidence = -0.5 * (
            targets @ np.linalg.solve(covariance, targets) + np.linalg.slogdet(covariance)[1]
        )
        precision = np.eye(3) + rows.T @ rows
        weights = np.linalg.solve(precision, rows.T @ targets)
        weights += np.linalg.solve(np.linalg.cholesky(precision).T, noise)
        assert float(found.evidence) == pytest.approx(evidence, rel=1e-5)
        np.testing.assert_allclose(found.weights, weights, rtol=1e-5)

    def test_it_is_exact_in_float32_where_the_noise_is_small(self) -> None:
        """I + A^T A has a condition number of 1e10 here, which float32 alone cannot factor."""
        x = np.linspace(0, 1, 40)
        rows = np.stack([np.ones(40), x, x**2], axis=1) / 1e-4
        found = conditional(
            jnp.asarray(rows, jnp.float32),
            jnp.asarray(rows @ [1.0, -2.0, 0.5], jnp.float32),
            jnp.zeros(3, jnp.float32),
        )
        np.testing.assert_allclose(found.weights, [1.0, -2.0, 0.5], atol=2e-5)

    def test_slopes_agree_with_differences(self) -> None:
        generator = np.random.default_rng(1)
        with jax.enable_x64(True):
            start = [jnp.asarray(generator.normal(size=shape)) for shape in ((6, 3), (6,), (3,))]
            ahead = [jnp.asarray(generator.normal(size=part.shape)) for part in start]
            by_weights = jnp.asarray(generator.normal(size=3))

            def value(step: float) -> jax.Array:
                found = conditional(*(s + step * a for s, a in zip(start, ahead, strict=True)))
                return 0.7 * found.evidence + by_weights @ found.weights

            slope = jax.grad(value)(0.0)
            difference = (value(1e-6) - value(-1e-6)) / 2e-6
        assert float(slope) == pytest.approx(float(difference), rel=1e-6)


class TestLine:
    """Bayesian linear regression, where the whole network is a last layer."""

    def test_the_posterior_and_its_evidence_are_exact(self) -> None:
        solution = line()
        draws = solution.posterior.draws
        close(draws.mean(axis=0), [-0.453560, 0.902019], 2e-2)
        close(np.cov(draws.T), [[0.022317, -0.042508], [-0.042508, 0.128587]], 1e-2)
        close(solution.history.elbo[-1], LINE_LOG_EVIDENCE, 1e-3)
        close(solution.elbo, LINE_LOG_EVIDENCE, 1e-3)
        assert solution.result.status == "converged"

    def test_tempering_is_of_hidden_layers_alone(self) -> None:
        np.testing.assert_array_equal(line(tempering=0.1).posterior.draws, line().posterior.draws)

    def test_a_row_of_weight_two_counts_as_two_rows(self) -> None:
        twice = fit(
            MLP(()),
            np.concatenate([LINE_X, LINE_X[:1]]),
            np.append(LINE_Y, LINE_Y[0]),
            inference="conjugate",
            likelihood=Gaussian(LINE_NOISE),
        )
        weighted = line(sample_weight=[2, 1, 1, 1, 1], inference="conjugate", draws=None)
        np.testing.assert_allclose(
            weighted.posterior.draws, twice.posterior.draws, rtol=1e-4, atol=1e-5
        )

    def test_an_average_is_held_with_its_dual(self) -> None:
        solution = line([RISING.on_average(0)])
        close(solution.posterior.draws.mean(axis=0), [0.0, 0.038095], 2e-2)
        close(solution.posterior.draws.std(axis=0), [0.149389, 0.358590], 2e-2)
        close_dual(solution.duals["rising"], 20.323810)

    def test_two_active_averages_share_the_work(self) -> None:
        intercept = AtLeast(0.5, where={"x": 0}, name="intercept")
        duals = line([RISING.on_average(0), intercept.on_average(0)], steps=6000).duals
        close_dual(duals["rising"], 38.8)
        close_dual(duals["intercept"], 9.7)

    def test_several_outputs_are_fitted_apart(self) -> None:
        both = fit(
            MLP(()),
            LINE_X,
            np.stack([LINE_Y, 2 * LINE_Y], axis=1),
            inference=Conjugate(),
            likelihood=Gaussian(LINE_NOISE),
            draws=4000,
        )
        mean = both.posterior.functions(LINE_X).mean(axis=0)
        one = line().posterior.functions(LINE_X).mean(axis=0)
        close(mean[:, 0], one[:, 0], 3e-2)
        assert np.all(np.abs(mean[:, 1]) >= np.abs(mean[:, 0]) - 3e-2)


def test_members_start_anew_and_their_draws_take_turns() -> None:
    x = np.linspace(-1, 1, 12)[:, None]
    options = {"likelihood": Gaussian(0.1), "steps": 50, "draws": 6}
    found = fit(MLP((5,), "tanh"), x, x.ravel(), inference=Conjugate(members=3), **options)
    hidden = found.posterior.draws[:, :10]
    own = np.linalg.norm(hidden[:3] - hidden[3:], axis=1)
    other = np.linalg.norm(hidden[:3] - np.roll(hidden[3:], 1, axis=0), axis=1)
    assert np.all(own < other)


def test_an_input_that_says_nothing_is_scaled_down() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 4))
    y = np.sin(2 * x[:, 1]) + 0.1 * generator.normal(size=60)
    fresh = generator.normal(size=(500, 4))
    network = MLP((30,), "gelu")

    def mse(relevance: bool) -> tuple[float, PRBNNRegressor]:
        engine = Conjugate(relevance=relevance)
        model = PRBNNRegressor(network, inference=engine, random_state=0).fit(x, y)
        return float(np.mean((model.predict(fresh) - np.sin(2 * fresh[:, 1])) ** 2)), model

    plain, _ = mse(False)
    learned, model = mse(True)
    assert learned < 0.5 * plain
    assert model.noise_ == pytest.approx(0.1, abs=0.04)
    fitted = model.solution_.fitted
    engine, problem = fitted.task.engine, fitted.task.problem
    precision = engine.prior_precision(problem, fitted.carry.engine)
    scale = np.asarray(1 / np.sqrt(precision) / problem.prior_sd)
    first = scale[: 30 * 4].reshape(30, 4)
    assert np.all(first == first[0])
    assert np.all(first[0, [0, 2, 3]] < 0.5 * first[0, 1])
    assert scale[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"likelihood": StudentT()}, "normal noise"),
        ({"noise": "by input"}, "normal noise"),
        ({"likelihood": Gaussian(truncated=(0, None))}, "truncated"),
        ({"network": lambda key, inputs, outputs: MLP((3,)).build(key, inputs, outputs)}, "linear"),
    ],
)
def test_it_refuses_what_has_no_closed_form(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PRBNNRegressor(inference="conjugate", **options).fit(LINE_X, LINE_Y + 2)


def test_it_refuses_censored_rows() -> None:
    with pytest.raises(ValueError, match="censored"):
        PRBNNRegressor(inference="conjugate").fit(LINE_X, LINE_Y, censored=["at least"] * 5)


def test_it_refuses_limits_that_are_built_in() -> None:
    with pytest.raises(ValueError, match="built"):
        PRBNNRegressor(knowledge=[AtLeast(-5)], inference="conjugate", enforce="construction").fit(
            LINE_X, LINE_Y
        )
