"""scikit-learn's conformance suite: every engine, numbers and classes, and no check expected to fail.

One engine is checked every time, in `test_regressor.py` and `test_classifier.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prbnn import (
    MLP,
    NUTS,
    SGHMC,
    SVGD,
    BayesByBackprop,
    Conjugate,
    Dropout,
    Ensemble,
    Laplace,
    PRBNNClassifier,
    PRBNNRegressor,
)
from prbnn.inference import ENGINES
from prbnn.inference.engine import Engine
from tests.estimators.problems import settings

# short fits say that their budget was spent or that they explain little, and are right
pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::prbnn.errors.CollapseWarning"),
]

# few steps of few members: the suite makes some 200 fits of an estimator
SMALL: dict[str, tuple[Engine, int]] = {
    "bbb": (BayesByBackprop(learning_rate=0.02), 200),
    "conjugate": (Conjugate(members=2, relevance=True), 200),
    "dropout": (Dropout(learning_rate=0.02), 200),
    "svgd": (SVGD(particles=10, learning_rate=0.05), 200),
    "ensemble": (Ensemble(members=5, learning_rate=0.02), 200),
    "laplace": (Laplace(learning_rate=0.02), 200),
    "sghmc": (SGHMC(chains=2, keep=25), 2000),
    "nuts": (NUTS(chains=2, keep=25, doublings=4), 100),
}


def estimators() -> list[Any]:
    """One regressor and one classifier per engine, which say so when they are printed."""
    return [
        kind(**settings(network=MLP(()), inference=engine, steps=steps))
        for engine, steps in SMALL.values()
        for kind in (PRBNNRegressor, PRBNNClassifier)
    ]


def test_every_engine_is_checked() -> None:
    assert set(SMALL) == set(ENGINES)


@pytest.mark.slow
@parametrize_with_checks(estimators())
def test_scikit_learn_accepts_every_engine(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [kind(**settings(network=MLP(()), steps=200)) for kind in (PRBNNRegressor, PRBNNClassifier)]
)
def test_scikit_learn_accepts_fits_in_double_precision(estimator: Any, check: Any) -> None:
    with jax.enable_x64(True):
        check(estimator)
