"""Boosted trees with monotone columns; bands from cross-fitted residuals. NGBoost, which has its own.

Every booster takes the number of rounds that is best for held-out rows of five folds, and is then fitted
to all training rows. Leaves may be small where rows are few; other options are the libraries' defaults
with a learning rate of 0.1. Predictions are clipped to the limits that rules put on the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from prbnn_studies.peers import knowledge
from prbnn_studies.peers.breaking import of_functions
from prbnn_studies.peers.data import Rows
from prbnn_studies.peers.fitted import Fitted
from prbnn_studies.peers.predictive import Predictive, around

FOLDS = 5
ROUNDS = (10, 20, 40, 80, 160, 320)
# with a learning rate of 0.04; NGBoost's default is 500 rounds of 0.01
NGBOOST_ROUNDS = (20, 40, 80, 120, 200)


def folds(rows: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and held-out places of five folds."""
    return KFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros((rows, 1)))


def smallest_leaf(rows: int) -> int:
    """20 rows, the default of the libraries, or 1/20 of the training rows where these are few."""
    return int(np.clip(rows // 20, 2, 20))


class Booster(NamedTuple):
    """How a library is fitted for a number of rounds, and how it predicts after fewer of them."""

    fit: Callable[[np.ndarray, np.ndarray, int, list[int]], Any]
    after: Callable[[Any, np.ndarray, tuple[int, ...]], list[np.ndarray]]


def boosted(rows: Rows, booster: Booster) -> Fitted:
    """Cross-fit, choose the rounds with the least squared error, and fit all rows."""
    columns, rules = rows.training, rows.table.rules
    signs, (low, high) = knowledge.signs(rules, columns), knowledge.limits(rules, columns)
    held_out = np.zeros((len(ROUNDS), len(rows.y)))
    for train, held in folds(len(rows.y), rows.seed):
        model = booster.fit(rows.x[train], rows.y[train], ROUNDS[-1], signs)
        held_out[:, held] = np.clip(booster.after(model, rows.x[held], ROUNDS), low, high)
    best = int(np.argmin(np.mean((held_out - rows.y) ** 2, axis=1)))
    model = booster.fit(rows.x, rows.y, ROUNDS[best], signs)

    def predict(x: np.ndarray) -> np.ndarray:
        return np.clip(booster.after(model, x, ROUNDS[best : best + 1])[0], low, high)

    return Fitted(
        around(predict(rows.test_x), rows.y - held_out[best]),
        partial(of_functions, [predict], rules, columns),
    )


def hist(rows: Rows) -> Fitted:
    """scikit-learn's HistGradientBoostingRegressor with ``monotonic_cst``."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    def fit(x: np.ndarray, y: np.ndarray, rounds: int, signs: list[int]) -> Any:
        return HistGradientBoostingRegressor(
            max_iter=rounds,
            min_samples_leaf=smallest_leaf(len(y)),
            monotonic_cst=signs,
            early_stopping=False,
        ).fit(x, y)

    def after(model: Any, x: np.ndarray, rounds: tuple[int, ...]) -> list[np.ndarray]:
        if len(rounds) == 1:
            return [model.predict(x)]
        return [y for k, y in enumerate(model.staged_predict(x), start=1) if k in rounds]

    return boosted(rows, Booster(fit, after))


def xgboost(rows: Rows) -> Fitted:
    """XGBoost with ``monotone_constraints``; trees of depth 4 below 200 rows, 6 from there on."""
    from xgboost import XGBRegressor  # ty: ignore[import-not-found]

    def fit(x: np.ndarray, y: np.ndarray, rounds: int, signs: list[int]) -> Any:
        return XGBRegressor(
            n_estimators=rounds,
            learning_rate=0.1,
            max_depth=4 if len(y) < 200 else 6,
            min_child_weight=smallest_leaf(len(y)),
            monotone_constraints=tuple(signs),
            n_jobs=1,
        ).fit(x, y)

    def after(model: Any, x: np.ndarray, rounds: tuple[int, ...]) -> list[np.ndarray]:
        found = [model.predict(x, iteration_range=(0, k)) for k in rounds]
        return [values.astype(np.float64) for values in found]

    return boosted(rows, Booster(fit, after))


def lightgbm(rows: Rows) -> Fitted:
    """LightGBM with ``monotone_constraints`` (method "advanced")."""
    from lightgbm import LGBMRegressor  # ty: ignore[import-not-found]

    def fit(x: np.ndarray, y: np.ndarray, rounds: int, signs: list[int]) -> Any:
        options = {"monotone_constraints": signs, "monotone_constraints_method": "advanced"}
        return LGBMRegressor(
            n_estimators=rounds,
            learning_rate=0.1,
            min_child_samples=smallest_leaf(len(y)),
            n_jobs=1,
            verbose=-1,
            **(options if any(signs) else {}),
        ).fit(x, y)

    def after(model: Any, x: np.ndarray, rounds: tuple[int, ...]) -> list[np.ndarray]:
        return [model.booster_.predict(x, num_iteration=k) for k in rounds]

    return boosted(rows, Booster(fit, after))


def ngboost(rows: Rows) -> Fitted:
    """NGBoost's normal distribution; it takes no monotone columns, its mean is clipped to limits."""
    from ngboost import NGBRegressor  # ty: ignore[import-not-found]

    columns, rules = rows.training, rows.table.rules
    low, high = knowledge.limits(rules, columns)

    def fit(x: np.ndarray, y: np.ndarray, rounds: int) -> Any:
        return NGBRegressor(
            n_estimators=rounds, learning_rate=0.04, verbose=False, random_state=rows.seed
        ).fit(x, y)

    densities = np.zeros(len(NGBOOST_ROUNDS))
    for train, held in folds(len(rows.y), rows.seed):
        model = fit(rows.x[train], rows.y[train], NGBOOST_ROUNDS[-1])
        densities += [
            np.sum(model.pred_dist(rows.x[held], max_iter=k).logpdf(rows.y[held]))
            for k in NGBOOST_ROUNDS
        ]
    model = fit(rows.x, rows.y, NGBOOST_ROUNDS[int(np.argmax(densities))])
    found = model.pred_dist(rows.test_x)
    means = np.clip(found.loc, low, high)
    return Fitted(
        Predictive(means[None], found.scale[None]),
        partial(of_functions, [lambda x: np.clip(model.predict(x), low, high)], rules, columns),
    )
