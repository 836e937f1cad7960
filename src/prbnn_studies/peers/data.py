"""The tables: those that scikit-learn ships, and those of the UCI study's folder; their splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from prbnn import DataError
from prbnn.data.columns import Columns
from prbnn.rules.base import Rule
from prbnn_studies.peers.knowledge import RULES
from prbnn_studies.uci import data as uci_data

SHIPPED = ("diabetes", "iris", "nuclei")
FROM_FILES = tuple(name for name in RULES if name not in SHIPPED)
TABLES = (*SHIPPED, *FROM_FILES)
# columns that take only the values seen
CATEGORIES = {
    "diabetes": ("sex",),
    "auto-mpg": ("cylinders", "origin"),
    "boston": ("river",),
    "energy": ("orientation", "glazing_distribution"),
}
# derived from the residents' race: no reason to predict prices from it
LEFT_OUT = {"boston": ("black",)}
# fraction of a table's rows that are tested on, and how many at most
TEST_FRACTION = 0.2
MOST_TEST_ROWS = 1000


@dataclass(frozen=True, eq=False)
class PublicTable:
    """Inputs, target and rules of one table; columns with a single value are left out."""

    name: str
    columns: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray
    rules: tuple[Rule, ...]

    @property
    def categories(self) -> tuple[str, ...]:
        """Inputs that are categories."""
        return tuple(name for name in CATEGORIES.get(self.name, ()) if name in self.columns)


class Rows(NamedTuple):
    """Training and test rows of one split, and the seed of whatever is random in a fit."""

    table: PublicTable
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    seed: int

    @property
    def training(self) -> Columns:
        """The training rows as rules read them."""
        table = self.table
        return Columns(table.columns, ("y0",), self.x, self.y[:, None], categories=table.categories)

    @property
    def frame(self) -> pd.DataFrame:
        """The training inputs with their names."""
        return pd.DataFrame(self.x, columns=list(self.table.columns))


def read(name: str, folder: Path | None = None) -> PublicTable:
    """One table; those that scikit-learn does not ship are read from ``folder``."""
    if name in SHIPPED:
        columns, x, y = _shipped(name)
    elif folder is None:
        raise DataError(f"{name} is not shipped with scikit-learn: name a folder with --data")
    else:
        uci_data.check(folder, [name])
        found = uci_data.read(folder, name)
        columns, x, y = found.columns, found.x, found.y
    kept = [
        place
        for place, column in enumerate(columns)
        if column not in LEFT_OUT.get(name, ()) and np.ptp(x[:, place]) > 0
    ]
    return PublicTable(
        name, tuple(columns[place] for place in kept), x[:, kept], y, tuple(RULES[name])
    )


def missing(names: Sequence[str], folder: Path | None) -> dict[str, str]:
    """Tables that cannot be read, and why."""
    found = {}
    for name in names:
        if name in SHIPPED:
            continue
        if folder is None:
            found[name] = "its files are not part of prbnn; name their folder with --data"
            continue
        try:
            uci_data.check(folder, [name])
        except DataError:
            found[name] = f"no files of it in {folder}; the page of this study says which"
    return found


def rows_of(table: PublicTable, size: str, split: int, most: int, seed: int = 0) -> Rows:
    """The rows of one split; ``size`` is a number of training rows, a percentage, or "all".

    20 % of a seeded permutation, and no more than 1,000 rows, are tested on. At most ``most`` of the
    others are training rows; smaller sizes are the first of them.
    """
    order = np.random.RandomState(1000 * seed + split).permutation(len(table.y))
    tested = min(round(TEST_FRACTION * len(order)), MOST_TEST_ROWS)
    train = order[tested:][:most]
    train, test = train[: count_of(size, len(train))], order[:tested]
    return Rows(
        table, table.x[train], table.y[train], table.x[test], table.y[test], 1000 * seed + split
    )


def count_of(size: str, available: int) -> int:
    """How many of the ``available`` rows a size asks for; text that is no size raises.

    >>> count_of("60", 400), count_of("30%", 400), count_of("all", 400), count_of("60", 50)
    (60, 120, 400, 50)
    """
    text = size.strip()
    try:
        if text == "all":
            return available
        if text.endswith("%"):
            fraction = float(text[:-1]) / 100
            if 0 < fraction <= 1:
                return max(1, round(fraction * available))
        elif int(text) >= FEWEST_ROWS:
            return min(int(text), available)
    except ValueError:
        pass
    raise ValueError(
        f"a size is a number of rows from {FEWEST_ROWS} on, a percentage or 'all', got {size!r}"
    )


# five folds of fewer rows would leave peers nothing to fit
FEWEST_ROWS = 20


def _shipped(name: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    from sklearn import datasets

    if name == "diabetes":
        bunch: Any = datasets.load_diabetes(scaled=False)
        return tuple(bunch.feature_names), bunch.data, bunch.target
    if name == "iris":
        values = datasets.load_iris().data
        return ("sepal_length", "sepal_width", "petal_length"), values[:, :3], values[:, 3]
    # the first ten columns are means over the nuclei of an image; perimeter is left out, since area
    # follows from it and the radius without a model
    values = datasets.load_breast_cancer().data[:, :10]
    names = "radius texture smoothness compactness concavity concave_points symmetry fractal"
    return tuple(names.split()), values[:, [0, 1, 4, 5, 6, 7, 8, 9]], values[:, 3]
