"""Small estimators that fit in 0.1 s once compiled, and the table that regressors fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import polars

from prbnn import MLP, AtLeast, AtMost, BayesByBackprop, Increasing, PRBNNRegressor

NAMES = ["dose", "wind speed"]
ROWS = 40


def settings(**options: Any) -> dict[str, Any]:
    """Of an estimator that learns fast, so that few steps are enough whatever the engine's default."""
    small = {
        "network": MLP((8,)),
        "inference": BayesByBackprop(learning_rate=0.02),
        "tempering": 0.2,
        "steps": 300,
        "draws": 50,
        "random_state": 0,
        "verbose": False,
    }
    return {**small, **options}


def small(knowledge=(), **options: Any) -> PRBNNRegressor:
    return PRBNNRegressor(knowledge=knowledge, **settings(**options))


@dataclass(frozen=True)
class Table:
    """power = dose + wind speed / 2 + noise of 0.05, over the unit square."""

    inputs: np.ndarray
    target: np.ndarray

    @property
    def pandas(self) -> tuple[pandas.DataFrame, pandas.Series]:
        return (
            pandas.DataFrame(self.inputs, columns=NAMES),
            pandas.Series(self.target, name="power"),
        )

    @property
    def polars(self) -> tuple[polars.DataFrame, polars.Series]:
        return polars.DataFrame(self.inputs, schema=NAMES), polars.Series("power", self.target)


def table_of(seed: int = 0, rows: int = ROWS) -> Table:
    generator = np.random.default_rng(seed)
    inputs = generator.uniform(size=(rows, 2))
    return Table(inputs, inputs @ [1.0, 0.5] + generator.normal(0, 0.05, rows))


RULES = [
    AtLeast(0.1, name="floor"),
    AtMost("`wind speed` + 2 * dose + 1", name="ceiling"),
    Increasing("dose", name="more dose more power"),
]
