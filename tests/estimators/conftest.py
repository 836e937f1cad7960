"""What the tests of estimators share: a table, a model of it, and a guard against training."""

from __future__ import annotations

import pytest

from prbnn import PRBNNRegressor
from tests.estimators.problems import Table, small, table_of


@pytest.fixture(scope="module")
def table() -> Table:
    return table_of()


@pytest.fixture(scope="module")
def plain(table: Table) -> PRBNNRegressor:
    return small().fit(table.inputs, table.target)


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step of training fails the test."""

    def train(*_, **__):
        pytest.fail("training began before the mistake was told")

    for name in ("train.advance", "tempering.race_between"):
        monkeypatch.setattr(f"prbnn.fitting.{name}", train)
