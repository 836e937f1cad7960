"""NaN is broken: for draws, means, rows of data, proofs and alarms, and training survives it."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.lines import lines

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    Between,
    Combined,
    Increasing,
    OneOf,
    Outside,
    Score,
    SlopeBetween,
    audit,
    fit,
)
from prbnn.assessment import anomalies as anomaly
from prbnn.assessment.data_agreement import agreements
from prbnn.assessment.knowledge_report import meets
from prbnn.certify import Certificate, certify
from prbnn.enforcement.measure import measure
from prbnn.model.response import response
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import shielded

pytestmark = pytest.mark.light

# (slope, intercept): above 0 on [0, 1], below 0 on a part of it, below 0 on all of it
DRAWS = ((1.0, 1.0), (2.0, -0.5), (1.0, -3.0))
OF_DRAWS = [False, True, True]
FLOOR = AtLeast(-2, of="log(y)", name="floor")


def score_of_log(function, x):
    """A user's score that is NaN where the output is negative."""
    return jnp.sqrt(function(x)) + 3.0


UNDEFINED = [
    FLOOR,
    AtMost(5, of="log(y)"),
    Between(-20, 20, of="log(y)"),
    AtLeast(-2, of="sqrt(y)"),
    AtLeast(-2, of=lambda x, y: jnp.log(y)),
    OneOf([(-20, 0.5), (0.5, 20)], of="log(y)"),
    Outside([(30, 40)], of="log(y)"),
    SlopeBetween("x", -1e6, 1e6, of="y ** 0.5"),
    Increasing("x", over=0.01, of="log(y)"),
    Score(score_of_log),
    Combined([AtLeast(-2, of="log(y)"), AtMost(100.0)]),
]


@pytest.fixture(scope="module")
def posterior():
    return lines(DRAWS)


@pytest.mark.parametrize("rule", UNDEFINED, ids=lambda rule: rule.describe()[:40])
def test_a_draw_whose_score_is_nan_somewhere_breaks_the_rule(posterior, rule):
    found = posterior.check([rule], posterior.bind([rule], 256))
    assert found.broken()[:, 0].tolist() == OF_DRAWS
    assert found.obeys().tolist() == [not broken for broken in OF_DRAWS]
    assert np.all(found.worst[1:] == -np.inf) and np.isfinite(found.worst[0, 0])
    assert np.all(found.f[1:] == -np.inf) and found.points[0, 0] == 0
    # the last draw is negative everywhere, the second on a quarter of the region
    assert found.points[2, 0] == 1 and 0.2 < found.points[1, 0] < 0.35


def test_a_draw_that_is_undefined_is_not_kept_and_counts_as_violated(posterior):
    kept, share = posterior.condition([FLOOR])
    assert len(kept) == 1 and share == pytest.approx(1 / 3)
    violated = posterior.violated([FLOOR], 256)
    assert violated[0] == pytest.approx(0.318 / 3 + 1 / 3, abs=0.01)
    # mean 4/3 x - 5/6 is below 0 up to 5/8, and below exp(-2) up to .7265
    assert posterior.breaks_of_mean([FLOOR], 1000)[0] == pytest.approx(726, abs=5)


@pytest.mark.parametrize(
    "rule", [FLOOR.hard(0.5), FLOOR.probably(0.9), FLOOR.on_average(-2.0)], ids=str
)
def test_no_strength_is_met_by_draws_that_are_undefined(rule):
    posterior = lines(DRAWS * 20)
    found = posterior.check([rule], posterior.bind([rule], 256))
    assert not meets(rule, 1.0, found, 0)


@pytest.mark.parametrize("of", ["log(y)", "sqrt(y)", "y ** 0.5", "-1 / maximum(y, 0)"])
@pytest.mark.parametrize("kind", ["hard", "average", "probable", "slope"])
def test_training_has_finite_numbers_and_slopes_where_a_score_is_undefined(posterior, of, kind):
    plain = AtLeast(-20, of=of)
    rule = {
        "hard": plain,
        "average": plain.on_average(0.0),
        "probable": plain.probably(0.9),
        "slope": SlopeBetween("x", -1.0, 1.0, of=of),
    }[kind]
    knowledge = posterior.bind([rule], 32)

    def gain(vector):
        function = response(posterior.network, posterior.likelihood, vector, jnp.zeros(1))
        measured = measure(knowledge, function)
        return jnp.sum(measured.f), measured

    for draw, broken in zip(posterior.draws, OF_DRAWS, strict=True):
        slope, measured = jax.grad(gain, has_aux=True)(jnp.asarray(draw))
        assert np.all(np.isfinite(slope))
        assert np.isfinite(measured.f[0]) and np.isfinite(measured.depth[0])
        if broken and kind != "slope":
            assert measured.broken[0] > 0 and measured.depth[0] > 0


def test_a_shield_changes_neither_values_nor_slopes_that_are_numbers():
    def through(y):
        return jnp.sum(jnp.sin(shielded(y)) * y)

    def plain(y):
        return jnp.sum(jnp.sin(y) * y)

    y = jnp.array([0.3, -2.0])
    assert np.array_equal(through(y), plain(y))
    for derive in (jax.grad, jax.jacfwd, jax.hessian, lambda f: jax.jit(jax.grad(f))):
        assert np.allclose(derive(through)(y), derive(plain)(y))


def test_training_goes_on_though_the_data_lie_outside_a_formula_s_domain():
    x = np.linspace(-1, 1, 30)[:, None]
    # the rule's own region reaches where the line through the data is negative
    rule = AtLeast(-3, of="log(y)", where={"x": (-1, 1)}, name="log")
    solution = fit(MLP(hidden=()), x, x[:, 0] + 0.7, [rule], steps=200, draws=100)
    assert solution.result.status != "diverged"
    assert np.all(np.isfinite(solution.history.violation))
    functions = solution.posterior.functions(np.array([[-1.0], [1.0]])).min(axis=(1, 2))
    broken = solution.posterior.check([rule]).broken()[:, 0]
    assert np.all(broken[functions <= 0])


def test_rows_whose_score_is_undefined_are_told():
    x = np.linspace(0, 1, 12)[:, None]
    y = np.where(np.arange(12) == 5, -1.0, 2.0)
    columns = lines(DRAWS, x, y[:, None]).columns
    scaling = lines(DRAWS, x, y[:, None]).scaling
    (score,) = scores_of_values([FLOOR], columns, scaling, x, y[:, None])
    assert np.isnan(score[5, 0])
    (found,), problems = agreements([FLOOR], columns)
    assert not problems and found.broken == 1 and found.worst == 6 and found.worst_by == np.inf
    assert "no value" in found.words and "y = -1" in found.words
    # noise of .01 does not explain it, noise of 1 does
    assert audit(x, y, [FLOOR], noise=0.01).rows == (5,)
    assert "no value" in str(audit(x, y, [FLOOR], noise=0.01))
    assert audit(x, y, [FLOOR], noise=1.0).rows == ()


def test_a_row_beside_the_edge_of_a_formula_s_domain_is_measured_by_the_side_that_has_values():
    x = np.linspace(0, 1, 12)[:, None]
    # log(.004) is -5.5; .006 less is no number, .006 more is log(.01) = -4.6
    y = np.where(np.arange(12) == 5, 0.004, 2.0)
    found = audit(x, y, [AtLeast(-2, of="log(y)")], noise=0.006)
    assert found.rows == (5,) and found.findings[0].deviations[0] == pytest.approx(3.84, abs=0.05)


def test_a_proof_refutes_where_a_score_is_undefined(posterior):
    certificate = certify(posterior, [FLOOR], seconds=5.0)
    found = certificate["floor"]
    assert found.verdicts == "PRR"
    assert found.counterexamples[0].score == -np.inf
    # and as JSON, which knows no infinity
    text = json.dumps(certificate.to_plain(), allow_nan=False)
    assert Certificate.from_plain(json.loads(text)) == certificate


def test_a_surprise_of_nan_warns():
    held = np.random.default_rng(0).normal(size=(200, 2))
    alarm = anomaly.calibrate_alarm(held, 0.05)
    assert alarm.warns(np.array([[0.0, np.nan], [0.0, 0.0]])).tolist() == [True, False]
    held[3, 1] = np.nan
    with pytest.raises(ValueError, match="1 of 200 held-out observations is NaN"):
        anomaly.calibrate_alarm(held, 0.05)
