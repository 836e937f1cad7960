"""Doubts about a fit: each has a name, likely causes and a remedy, and is raised where it is due."""

from __future__ import annotations

import numpy as np
import pytest

from prbnn import MLP, BayesByBackprop, PRBNNRegressor
from prbnn.assessment.doubts import NOISE_AT_START, UNDECIDED, noise_at_start, undecided
from prbnn.certify import RuleCertificate
from prbnn.certify.certificate import Certificate

pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
ROWS = 30
START = np.log([0.3])


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (ROWS, 1))
    return x, 50 * (x[:, 0] + generator.normal(size=ROWS))


@pytest.fixture(scope="module")
def unmoved(rows: tuple[np.ndarray, np.ndarray]) -> PRBNNRegressor:
    slow = BayesByBackprop(draws=2, learning_rate=1e-6)
    return PRBNNRegressor(
        MLP((4,)), inference=slow, tempering=0.2, steps=300, draws=50, random_state=0
    ).fit(*rows)


def test_a_learned_noise_at_its_start_is_a_named_warning(unmoved: PRBNNRegressor) -> None:
    assert unmoved.result_.status == "budget spent"
    (doubt,) = unmoved.result_.warnings
    name, _, rest = doubt.partition(": ")
    assert name == NOISE_AT_START
    assert f"{unmoved.noise_:.3g} for 'y'" in rest
    assert "Likely causes, in order: a learning rate too low, too few steps; raise" in rest


def test_a_noise_that_moved_or_belongs_where_it_is_is_no_doubt(unmoved: PRBNNRegressor) -> None:
    posterior, weight = unmoved.raw_posterior_, np.ones(ROWS)
    assert noise_at_start(posterior, weight, START)
    assert not noise_at_start(posterior, weight, START - 0.2)
    columns = posterior.columns
    away = posterior.functions(columns.rows)[:64] - columns.targets
    residual = np.sqrt(np.mean(away**2))
    right = np.full_like(
        posterior.likelihood_parameters, np.log(residual / posterior.scaling.output_scale[0])
    )
    settled = posterior._of(posterior.draws, right)
    assert not noise_at_start(settled, weight, right[0])
    off = posterior._of(posterior.draws, right + 0.2)
    assert noise_at_start(off, weight, right[0] + 0.2)


def test_a_noise_that_is_stated_is_not_judged(rows: tuple[np.ndarray, np.ndarray]) -> None:
    slow = BayesByBackprop(draws=2, learning_rate=1e-6)
    model = PRBNNRegressor(
        MLP((4,)), inference=slow, noise=50.0, tempering=0.2, steps=300, draws=50, random_state=0
    ).fit(*rows)
    assert model.result_.warnings == ()


@pytest.mark.parametrize(
    ("how", "remedy"), [("boxes", "give more seconds"), ("no slopes are enclosed", "no slopes")]
)
def test_a_certificate_that_decides_nothing_is_named_with_its_rule(how: str, remedy: str) -> None:
    def rule(name: str, verdicts: str) -> RuleCertificate:
        return RuleCertificate(name, "x in [0, 1]", verdicts, 0.5, (), 1e-4, how, 1.0)

    found = Certificate((rule("low", "PPR"), rule("high", "PUU")), "", "", 2.0)
    (doubt,) = undecided(found)
    assert doubt.startswith(f"{UNDECIDED}: 'high' is neither proved nor refuted for 2 of 3 draws. ")
    assert "Likely causes, in order: " in doubt
    assert remedy in doubt
