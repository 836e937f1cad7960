"""Where the records of the solar study come from, how they are split, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prbnn import AtLeast, AtMost, Compare, DataError, Decreasing, Increasing
from prbnn.rules.base import Rule
from prbnn_studies.solar import inverter, plant, plants

# What the plate of the simulated inverter says, beside what its neighbours deliver (W; P_watts is what
# 20 of them feed in, in MW). Derated it gives 80 % of its rating at most; 5 points are left for a field
# that lies a little under other clouds. Off it gives 0, and not off at least half its rating or 4/5 of
# what its neighbours give; if the feeder is down, being off makes no difference.
DERATE_COSTS = "1e6 * maximum(0, P_watts / 20 - 0.85)"
OFF_COSTS = "1e6 * Feeder_B * minimum(0.5, 0.8 * P_watts / 20)"
# of the rating, at most, from the grid when off: without this floor the cost could push power below 0
OFF_TAKES = 0.1
# kW: what the recorded plants can feed in (two sites; the mean of 22 inverters), and the fraction
# of it that still comes in an hour whose sun has set
RATINGS = {"pvops R10": 20_300, "pvops R15": 20_000, "india 1": 1_420, "india 2": 1_420}
DUSK = 0.05
# fraction of it that a plant at rest may take from the grid. The truth is 0 all night, so functions that
# must stay above 0 would lie above the truth in half of all hours
STANDBY = 0.01
# Fraction of drawn functions that may break a rule and be rejected: the first with which enough obey.
# Pressure to obey costs fit and widens the noise, rejection costs draws alone. Chosen on splits of the
# training days; None is the engine's default
RECORDED_REJECTIONS, SIMULATED_REJECTIONS = (0.8, 0.5, 0.3), (None,)
# steps of training, with knowledge or without, where this many rows are on record: a plant that changes
# over months needs twice the engine's default; with few rows a plain network would only overfit them
MANY_ROWS, MANY_STEPS = 1000, 12_000
# W/m2 from which hotter modules are seen to give less; below, module temperature lags the sun by an hour
HEAT_TELLS = (600.0, 1150.0)
TEST_FRACTION = 0.25
MINUTES_PER_QUARTER = 15


@dataclass(frozen=True, eq=False)
class Source:
    """Rows of one inverter or plant with what is known about it.

    `derated` says in which rows heat limited the power; None where that is not recorded.
    """

    name: str
    columns: tuple[str, ...]
    inputs: np.ndarray
    power: np.ndarray
    unit: str
    day: np.ndarray
    minute: np.ndarray
    train: np.ndarray
    test: np.ndarray
    derated: np.ndarray | None
    rules: tuple[Rule, ...]
    notes: tuple[str, ...]
    simulation: plant.Plant | None = None
    rejections: tuple[float | None, ...] = RECORDED_REJECTIONS
    steps: int | None = None

    def table(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Inputs of some rows, by name."""
        return dict(zip(self.columns, self.inputs[rows].T, strict=True))

    def column(self, name: str) -> np.ndarray:
        """One input of every row."""
        return self.inputs[:, self.columns.index(name)]

    @property
    def categories(self) -> tuple[str, ...]:
        """Inputs that are switches."""
        return tuple(name for name in plant.SWITCHES if name in self.columns)

    @property
    def irradiance(self) -> np.ndarray:
        """Plane-of-array irradiance in W/m2."""
        return self.column("IPOA" if "IPOA" in self.columns else "irradiance")


def comparisons(by_plate: bool = True) -> tuple[Rule, ...]:
    """Derated below not derated, off below not off, other things equal.

    By at least what the plate says, with a floor for off; without ``by_plate`` these are the
    paper's rules, which say no more than the sign.
    """
    derate, off = (DERATE_COSTS, OFF_COSTS) if by_plate else (0.0, 0.0)
    compared = (
        Compare(
            {"IGBT_derate": 1}, below={"IGBT_derate": 0}, by=derate, name="derating lowers power"
        ),
        Compare({"IGBT_off": 1}, below={"IGBT_off": 0}, by=off, name="off lowers power"),
    )
    floor = AtLeast(-OFF_TAKES * inverter.RATING, where={"IGBT_off": 1}, name="off takes no power")
    return (*compared, floor) if by_plate else compared


def simulated(seed: int) -> Source:
    """The plant of `plant.py`; trains until June 2020, tests on the months after."""
    made = plant.simulate(seed)
    records = made.records
    held = np.any(records.inputs[:, :2] > 0, axis=1)
    fractions = [held[rows].mean() for rows in (made.train, made.test)]
    dropped = made.dropped_days
    notes = (
        f"{len(made.train):,} records train, {len(made.test):,} test; derated or off are "
        f"{fractions[0]:.1%} and {fractions[1]:.1%} of them",
        f"days the recorder missed: {dropped['train']} of training, {dropped['test']} of the test, and "
        f"the last {dropped['recorder moved']}; it starts late on one day of each part",
    )
    return Source(
        "plant",
        plant.COLUMNS,
        records.inputs,
        records.power,
        "W",
        records.year * 1000 + records.day,
        records.quarter * MINUTES_PER_QUARTER,
        made.train,
        made.test,
        held,
        comparisons(),
        notes,
        made,
        SIMULATED_REJECTIONS,
    )


def recorded(folder: Path | None, share: float, seed: int) -> list[Source]:
    """Every plant of a folder; 1/4 of the days tests, and a fraction ``share`` of the others trains."""
    if folder is None:
        raise DataError("--source csv needs --data DIR, the folder that holds the recorded plants")
    return [_recorded(site, share, seed) for site in plants.read(folder)]


def _recorded(site: plants.Site, share: float, seed: int) -> Source:
    order = np.random.default_rng(seed).permutation(np.unique(site.day))
    tested = order[: max(1, round(TEST_FRACTION * len(order)))]
    learned = order[len(tested) :]
    learned = learned[: max(1, round(share * len(learned)))]
    train, test = (np.flatnonzero(np.isin(site.day, days)) for days in (learned, tested))
    rating = RATINGS[site.name]
    left_out = "; ".join(f"{reason}: {count}" for reason, count in site.dropped.items())
    notes = (
        f"{site.name}: {len(train):,} records of {len(learned)} days train, {len(test):,} of "
        f"{len(tested)} test" + (f"; left out: {left_out}" if left_out else ""),
    )
    return Source(
        site.name,
        tuple(site.inputs),
        np.column_stack(list(site.inputs.values())),
        site.power,
        "kW",
        site.day,
        site.minute,
        train,
        test,
        None,
        known_of(rating),
        notes,
        steps=MANY_STEPS if len(train) >= MANY_ROWS else None,
    )


def known_of(rating: float) -> tuple[Rule, ...]:
    """What holds for any plant: bounds, darkness, sun and heat."""
    return (
        AtLeast(-STANDBY * rating, name="never negative but for standby"),
        AtMost(DUSK * rating, where={"irradiance": 0}, name="nothing in the dark"),
        AtMost(rating, name="never above the rating"),
        Increasing("irradiance", name="more sun, more power"),
        Decreasing("module", where={"irradiance": HEAT_TELLS}, name="hotter modules, less power"),
    )
