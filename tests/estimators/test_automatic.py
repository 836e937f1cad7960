"""What "auto" stands for: which engine, and pressure where draws cannot be moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest

from prbnn import (
    MLP,
    RBF,
    AtLeast,
    AtMost,
    Decreasing,
    Gaussian,
    Increasing,
    PRBNNClassifier,
    PRBNNRegressor,
    StudentT,
)
from prbnn.estimators import automatic, estimator
from prbnn.estimators.storing import Stored, stored_draws
from prbnn.fitting.result import Result

pytestmark = pytest.mark.light

SMOOTH = MLP((3,), "gelu")
X = np.linspace(0, 1, 20)[:, None]
Y = X.ravel() ** 2


def engine(network: object = SMOOTH, rules: tuple = (), **options: object) -> str:
    options = {"likelihood": Gaussian(), "rows": 60, "exact": True, "enforce": "auto"} | options
    likelihood = options.pop("likelihood")
    return automatic.automatic(network, likelihood, rules, **options).name


def test_few_rows_with_normal_noise_have_their_last_layer_integrated_out() -> None:
    assert engine() == engine(rows=512) == "conjugate"
    assert engine(rules=(AtLeast(0), Increasing("x").soft(2), AtMost(3).in_prior(1))) == "conjugate"
    assert engine(rules=(AtLeast(0),), enforce="projection") == "conjugate"


@pytest.mark.parametrize(
    "case",
    [
        {"rows": 513},
        {"exact": False},
        {"likelihood": StudentT()},
        {"likelihood": Gaussian("by input")},
        {"likelihood": Gaussian(truncated=(0, None))},
        {"network": MLP((3,), "relu")},
        {"network": RBF(3)},
        {"enforce": "pressure"},
        {"enforce": "construction"},
        {"rules": (AtLeast(0).hard(0.1),)},
        {"rules": (AtLeast(0).probably(0.9),)},
        {"rules": (AtLeast(0).on_average(0),)},
    ],
    ids=str,
)
def test_all_else_is_fitted_by_bbb(case: dict) -> None:
    assert engine(**case) == "bbb"


def test_estimators_take_it_and_say_which_it_was() -> None:
    options = {"steps": 20, "draws": 5, "random_state": 0, "tempering": 1.0}
    with pytest.warns():
        regressor = PRBNNRegressor(SMOOTH, **options).fit(X, Y)
        classifier = PRBNNClassifier(SMOOTH, **options).fit(X, Y > 0.3)
    assert regressor.settings_.inference == automatic.EXACT
    assert classifier.settings_.inference == automatic.MIXED


@pytest.fixture(params=[1])
def immovable(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Stored]]:
    """The draws first to be stored, so often, are said to be too few; what became of all."""
    made: list[Stored] = []
    wanted: Callable = stored_draws

    def stored(*arguments: object) -> Stored:
        found = wanted(*arguments)
        if len(made) < request.param:
            found = found._replace(result=Result("acceptance too low", "none could be moved"))
        made.append(found)
        return found

    monkeypatch.setattr(estimator, "stored_draws", stored)
    yield made


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::prbnn.errors.CollapseWarning")
class TestWhereDrawsCannotBeMoved:
    def fitted(self, **options: object) -> PRBNNRegressor:
        options = {"steps": 20, "draws": 5, "random_state": 0, "tempering": 0.5} | options
        return PRBNNRegressor(SMOOTH, [Increasing("x")], **options).fit(X, Y)

    def test_auto_fits_again_by_bbb(self, immovable: list[Stored]) -> None:
        model = self.fitted()
        assert len(immovable) == 2
        assert model.settings_.inference == automatic.MIXED
        assert model.solution_.fitted.task.projects
        assert model.posterior_ is immovable[1].posterior

    @pytest.mark.slow
    @pytest.mark.parametrize("immovable", [2], indirect=True)
    def test_and_then_under_pressure(self, immovable: list[Stored]) -> None:
        model = self.fitted()
        assert len(immovable) == 3
        assert not model.solution_.fitted.task.projects
        # hard as it was stated, and not with the tolerance of rules that only lead
        assert not model.solution_.fitted.task.led.any()
        assert model.posterior_ is immovable[2].posterior

    def test_an_engine_that_was_named_stays(self, immovable: list[Stored]) -> None:
        model = self.fitted(inference="dropout")
        assert model.settings_.inference.name == "dropout"
        assert not model.solution_.fitted.task.projects
        assert len(immovable) == 2

    def test_projection_that_was_asked_for_is_not_replaced(self, immovable: list[Stored]) -> None:
        assert self.fitted(enforce="projection").result_.status == "acceptance too low"
        assert len(immovable) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rules_that_leave_little_room_far_from_the_data_are_kept() -> None:
    """Heat that houses need: measured in winter, known to end at 17 degrees."""
    generator = np.random.default_rng(0)
    outside, wind = generator.uniform(-10, 8, 120), generator.uniform(0, 12, 120)
    heat = 0.25 * (1 + 0.04 * wind) * (17 - outside) + generator.normal(0, 0.2, 120)
    rules = [
        Decreasing("outside", where={"outside": (-10, 30)}),
        AtLeast(0, where={"outside": (-10, 30)}),
        AtMost(0.3, where={"outside": (17, 30)}),
    ]
    winter = pd.DataFrame({"outside": outside, "wind": wind})
    model = PRBNNRegressor(knowledge=rules, random_state=0).fit(winter, heat)
    assert model.acceptance_ > 0.5
    spring = pd.DataFrame({"outside": np.linspace(17, 30, 50), "wind": 5.0})
    functions = model.sample_functions(spring)
    assert functions.min() > -0.05
    assert functions.max() < 0.35
