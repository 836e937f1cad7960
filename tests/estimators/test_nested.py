"""Options of declared engines, networks and likelihoods as parameters, as a grid search sets them."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from prbnn import (
    MLP,
    NUTS,
    BayesByBackprop,
    Ensemble,
    Gaussian,
    NoisePrior,
    PRBNNClassifier,
    PRBNNRegressor,
    PRBNNSequenceRegressor,
)

MIXED = BayesByBackprop(draws=2, members=4)


def test_options_of_declarations_are_parameters() -> None:
    model = PRBNNRegressor(MLP((8,)), inference=Ensemble(members=3), likelihood=Gaussian(0.1))
    deep, shallow = model.get_params(), model.get_params(deep=False)
    assert {name: deep[name] for name in shallow} == shallow
    assert {name: value for name, value in deep.items() if name not in shallow} == {
        "network__hidden": (8,),
        "network__activation": "relu",
        "inference__members": 3,
        "inference__anchored": False,
        "inference__learning_rate": 0.005,
        "likelihood__noise": 0.1,
        "likelihood__noise_prior": NoisePrior(),
        "likelihood__truncated": None,
    }
    assert model.set_params(**deep).get_params() == deep


@pytest.mark.parametrize(
    ("given", "asked", "name", "found"),
    [
        ({"inference": NUTS()}, {"inference__chains": 2}, "inference", NUTS(chains=2)),
        ({"inference": "nuts"}, {"inference__chains": 2}, "inference", NUTS(chains=2)),
        ({}, {"inference__draws": 7}, "inference", BayesByBackprop(draws=7, members=4)),
        ({}, {"network__hidden": (3,)}, "network", MLP((3,), "gelu")),
        ({}, {"network": MLP((5,)), "network__activation": "tanh"}, "network", MLP((5,), "tanh")),
    ],
    ids=["a declaration", "an engine's name", "the default engine", "no network", "both at once"],
)
def test_an_option_is_set_in_a_copy(given: dict, asked: dict, name: str, found: Any) -> None:
    for kind in (PRBNNRegressor, PRBNNClassifier):
        before = kind(**given)
        model = clone(before).set_params(**asked)
        assert getattr(model, name) == found
        assert before.get_params(deep=False) == kind(**given).get_params(deep=False)


def test_sequences_have_defaults_of_their_own() -> None:
    model = PRBNNSequenceRegressor().set_params(inference__draws=9, network__units=4)
    assert (model.inference.draws, model.inference.clip) == (9, 2.0)
    assert model.network.units == 4


def test_a_pipeline_passes_options_on() -> None:
    pipeline = make_pipeline(PRBNNRegressor())
    pipeline.set_params(prbnnregressor__inference__members=1)
    assert pipeline[-1].inference == BayesByBackprop(draws=2)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"inference__drows": 3}, "'drows' for inference=.*inference__draws"),
        ({"inferense__draws": 3}, "'inferense' for estimator PRBNNRegressor"),
        ({"likelihood__noise": 3.0}, r"likelihood=None has no options.*set_params\(likelihood="),
        ({"noise__sd": 3.0}, "noise='learned' has no options"),
        ({"inference__members": 0}, "members"),
    ],
)
def test_unknown_options_raise(asked: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PRBNNRegressor().set_params(**asked)
