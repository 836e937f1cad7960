"""A simulated solar plant, seen through the records of one of its inverters.

Two summers of 15-minute records, made minute by minute. In the first summer and the start of the second
the filters of inverter A are clean: its power stage gets too warm on few late afternoons. A dust
storm in the first days of July 2020 blocks them, and from then on it derates around noon, too; a fan
that blows against dust stops now and then, and the stage is switched off. A model that trains on
the first part sees hardly any derating, and none of it in full sun.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prbnn_studies.solar import inverter, sky

COLUMNS = (
    "IGBT_derate",
    "IGBT_off",
    "curtail_utility",
    "curtail_on",
    "P_watts",
    "Feeder_B",
    "WS",
    "IPOA",
    "day_label",
    "time_label",
)
# on or off, and the utility's limit, which is one of ten
SWITCHES = ("IGBT_derate", "IGBT_off", "curtail_utility", "curtail_on", "Feeder_B")
TARGET = "Pac"
YEARS = (2019, 2020)
FIRST_DAY, DAYS = 121, 184  # 1 May to 31 October; 2020 has a day more before May
QUARTER = 15
PER_DAY = sky.MINUTES // QUARTER  # records

# How many of the 35,328 records are kept. The recorder is out for whole days; on one day in each part it
# starts late, which leaves the records that are no whole day (58 of 96, and 73).
TRAIN_ROWS, TEST_ROWS = 20_698, 6_505
TEST_STARTS, TEST_ENDS = (
    (2020, 183),
    (2020, 260),
)  # 1 July to 16 September; then the recorder is moved

INVERTERS, PATCHES = 20, 8
OWN_PATCH, MAST_PATCH = 0, 1  # of inverter A and of the weather mast
FULL = INVERTERS * inverter.RATING / 1e6  # MW

DUST_PER_DAY, RAIN_COVER = 0.0012, 0.7  # lost by modules per day until an overcast day
CLEAN_SPREAD = 0.04  # of the blocking of clean filters, from service to service
STORM_DAYS = (183, 188)  # days of 2020 in which the storm comes
BLOCKED_BY_STORM, BLOCKED_PER_DAY = 2.6, 0.006
FAN_STOPS, FAN_MINUTES, FAN_BLOCKS = 0.10, (40, 120), 4.0  # chance per day once blocked

CURTAILED_DAYS, CURTAILED_HOURS, SET_POINTS = 0.10, (1.0, 4.0), (6, 16)  # MW, whole ones
FEEDER_DAYS, FEEDER_HOURS = 0.025, (0.5, 3.0)
PROOF_EVERY, PROOF_MINUTE, PROOF_MINUTES = 30, 5 * 60 + 30, 45  # days; the trip is tested at dawn

# Instruments: relative errors, and what the recorder rounds to
POWER_ERROR, PLANT_ERROR, IRRADIANCE_ERROR, WIND_ERROR = 0.004, 0.004, 0.012, 0.05
POWER_ROUNDS, PLANT_ROUNDS, IRRADIANCE_ROUNDS, WIND_ROUNDS = 100.0, 0.01, 0.1, 0.1
ERRORS_END = 3.0  # standard deviations; instruments beyond are replaced


class Readings(NamedTuple):
    """Records of 15 minutes: inputs (rows, 10), metered power, and what only the simulation knows."""

    inputs: np.ndarray
    power: np.ndarray  # W
    year: np.ndarray
    day: np.ndarray
    quarter: np.ndarray
    stage: np.ndarray  # highest IGBT temperature
    limit: np.ndarray  # mean fraction of the rating that temperature allowed
    possible: np.ndarray  # W, without a temperature limit
    delivered: np.ndarray  # W, before the meter

    def take(self, rows: np.ndarray) -> Readings:
        """Some of the rows."""
        return Readings(*(values[rows] for values in self))


class Plant(NamedTuple):
    """All records kept, and which of them train and test."""

    records: Readings
    train: np.ndarray
    test: np.ndarray
    dropped_days: dict[str, int]


def simulate(seed: int = 0) -> Plant:
    """Both summers with the recorder's gaps; another seed, other weather and events.

    >>> plant = simulate()
    >>> len(plant.train), len(plant.test)
    (20698, 6505)
    """
    generator = np.random.default_rng([seed, 0])
    records = everything(generator)
    return _kept(records, np.random.default_rng([seed, 1]))


def everything(generator: np.random.Generator) -> Readings:
    """Every quarter of an hour of both summers, before the recorder's gaps."""
    parts = [_summer(year, generator) for year in YEARS]
    return Readings(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _summer(year: int, generator: np.random.Generator) -> Readings:
    day = FIRST_DAY + (year == 2020) + np.arange(DAYS)
    seen = sky.over(day, PATCHES, generator)
    clean = _cleanness(seen.cover)[:, None]
    module = [
        inverter.module_temperature(seen.array[..., k], seen.air, seen.wind) for k in range(PATCHES)
    ]
    array = [inverter.array_power(seen.array[..., k], module[k], clean) for k in range(PATCHES)]
    set_point, curtailed = _curtailment(generator)
    closed = ~_spans(generator, FEEDER_DAYS, FEEDER_HOURS)
    allowed = np.where(curtailed, set_point / FULL, 1.0)
    wall = seen.beam[..., OWN_PATCH] * np.maximum(-seen.sun.east, 0.0)
    inlet = seen.air + inverter.WALL_RISE * wall / 1000
    own = inverter.run(
        array[OWN_PATCH],
        inlet,
        allowed * closed,
        _blocking(year, day, generator),
        _proofs(year),
    )
    others = np.mean([np.minimum(inverter.output(power), allowed) for power in array], axis=0)
    fed = (INVERTERS / 2) * others * (1 + closed) - others * closed + own.power
    delivered = inverter.RATING * _quarters(own.power)
    flags = [
        _quarters(state.astype(float)) >= 0.5
        for state in (own.derating, own.off, curtailed, closed)
    ]
    inputs = [
        flags[0],
        flags[1],
        np.where(flags[2], np.repeat(set_point, PER_DAY), FULL),
        flags[2],
        _read(_quarters(fed) * inverter.RATING / 1e6, PLANT_ERROR, PLANT_ROUNDS, generator),
        flags[3],
        _read(_quarters(seen.wind), WIND_ERROR, WIND_ROUNDS, generator),
        _read(
            _quarters(seen.array[..., MAST_PATCH]), IRRADIANCE_ERROR, IRRADIANCE_ROUNDS, generator
        ),
        np.repeat(day, PER_DAY),
        np.tile(np.arange(PER_DAY), DAYS),
    ]
    return Readings(
        inputs=np.column_stack(inputs).astype(float),
        power=_read(delivered, POWER_ERROR, POWER_ROUNDS, generator),
        year=np.full(DAYS * PER_DAY, year),
        day=np.repeat(day, PER_DAY),
        quarter=np.tile(np.arange(PER_DAY), DAYS),
        stage=own.stage.reshape(-1, QUARTER).max(axis=1),
        limit=_quarters(own.limit),
        possible=inverter.RATING * _quarters(own.possible),
        delivered=delivered,
    )


def _quarters(minutes: np.ndarray) -> np.ndarray:
    """Means over 15 minutes, one per row."""
    return minutes.reshape(-1, QUARTER).mean(axis=1)


def _read(
    value: np.ndarray, error: float, step: float, generator: np.random.Generator
) -> np.ndarray:
    """The value with the instrument's relative error, rounded; 0 stays 0."""
    off = np.clip(generator.standard_normal(value.shape), -ERRORS_END, ERRORS_END)
    return np.round(value * (1 + error * off) / step) * step


def _cleanness(cover: np.ndarray) -> np.ndarray:
    """Fraction of the light that dust lets through, per day; overcast days bring rain."""
    dry, fraction = 0, np.empty(len(cover))
    for day, covered in enumerate(cover):
        dry = 0 if covered > RAIN_COVER else dry + 1
        fraction[day] = 1 - DUST_PER_DAY * min(dry, 60)
    return fraction


def _blocking(year: int, day: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """What multiplies the rise of the stage: clean filters, the storm, fans that stop."""
    service = generator.standard_normal(len(day) // 30 + 1)
    blocked = 1 + CLEAN_SPREAD * np.clip(service[(day - day[0]) // 30], -1.5, 1.5)
    storm = generator.integers(*STORM_DAYS)
    stopped = _spans(generator, FAN_STOPS, (FAN_MINUTES[0] / 60, FAN_MINUTES[1] / 60))
    stormy = (day >= storm) & (year == 2020)
    blocked = np.where(stormy, BLOCKED_BY_STORM + BLOCKED_PER_DAY * (day - storm), blocked)
    return blocked[:, None] * np.where(stopped & stormy[:, None], FAN_BLOCKS, 1.0)


def _curtailment(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    point = generator.integers(*SET_POINTS, DAYS)[:, None].astype(float)
    return point, _spans(generator, CURTAILED_DAYS, CURTAILED_HOURS)


def _spans(generator: np.random.Generator, chance: float, hours: tuple[float, float]) -> np.ndarray:
    """(days, minutes): with a ``chance`` per day, a span of hours that starts between 8 and 15 h."""
    happens = generator.random(DAYS) < chance
    start = generator.uniform(8 * 60, 15 * 60, DAYS)
    length = 60 * generator.uniform(*hours, DAYS)
    minute = np.arange(sky.MINUTES)
    inside = (minute >= start[:, None]) & (minute < (start + length)[:, None])
    return inside & happens[:, None]


def _proofs(year: int) -> np.ndarray:
    """When the over-temperature trip is tested by hand: at dawn, where it costs no energy."""
    minute = np.arange(sky.MINUTES)
    dawn = (minute >= PROOF_MINUTE) & (minute < PROOF_MINUTE + PROOF_MINUTES)
    day = np.arange(DAYS) % PROOF_EVERY == (10 if year == 2019 else 20)
    return dawn[None, :] & day[:, None]


def _kept(records: Readings, generator: np.random.Generator) -> Plant:
    """Drop whole days until the parts have their sizes, and the start of one day in each."""
    stamp = records.year * 1000 + records.day
    start, end = (year * 1000 + day for year, day in (TEST_STARTS, TEST_ENDS))
    parts = {"train": stamp < start, "test": (stamp >= start) & (stamp <= end)}
    keep, dropped = np.zeros(len(stamp), bool), {}
    for (name, inside), rows in zip(parts.items(), (TRAIN_ROWS, TEST_ROWS), strict=True):
        days = np.unique(stamp[inside])
        whole, left = divmod(rows, PER_DAY)
        chosen = generator.permutation(days)[: whole + 1]
        late = (stamp == chosen[0]) & (records.quarter < PER_DAY - left)
        keep |= np.isin(stamp, chosen) & ~late
        dropped[name] = len(days) - len(chosen)
    dropped["recorder moved"] = len(np.unique(stamp[stamp > end]))
    kept, stamp = records.take(keep), stamp[keep]
    return Plant(kept, np.flatnonzero(stamp < start), np.flatnonzero(stamp >= start), dropped)
