"""Real landings on runway 26R of Atlanta: surface-radar tracks of seven days in August 2019.

The files hold airborne positions only, every 5 s within 0.1 degrees of the airport, and no heights:
a track ends where the aircraft comes down through the height at which its source stops, which is
about over the threshold. Speed and course are those from the position before, so that no step
uses a later one. An agent is an aircraft of one day; it may pass, land and depart again.
"""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prbnn import DataError
from prbnn_studies.landing.tracks import Tracks, miles_per_degree, reasons

VARIABLES = ("latitude", "longitude", "speed", "course")
FOLDER, PATTERN = "katl_asdex_sherlock", "true_pos_*.csv*"
ROWS = ("time", "agent", "latitude", "longitude")
SECONDS = 5.0

# Threshold of 26R. Its parallel, 26L, lies 0.0027 degrees south: half of that separates them.
THRESHOLD_LATITUDE, THRESHOLD_LONGITUDE = 33.6495, -84.4095
HALF_WAY_TO_NEXT_RUNWAY = 0.0013
NEAR_MILES = 1.0  # from the last position to the threshold
AIRFIELD = ((33.617, 33.653), (-84.46, -84.389))  # all five runways, and the ends of approaches
APART_SECONDS = 60.0  # unseen for longer: another visit
SPEEDS = (90.0, 200.0)  # kt; jumps of the radar's track lie outside, airliners on final inside
JUMP = 20.0  # kt in one step: 0.2 g, more than an approach asks for; counted, not left out

# What keeps an agent out, the nearest to a landing first: that is the reason recorded.
IMPLAUSIBLE = f"speed outside {SPEEDS[0]:g}-{SPEEDS[1]:g} kt"
GAP = "a gap in the last steps"
SHORT = "lands on 26R, seen too shortly"
OTHER = "lands on another runway or eastbound"
DEPARTS = "departs"
PASSES = "passes, or its track ends before a runway"
ORDER = (IMPLAUSIBLE, GAP, SHORT, OTHER, DEPARTS, PASSES)


class Sheet(NamedTuple):
    """The positions of one file by agent, (samples, time-latitude-longitude) in order of time."""

    day: str
    agents: dict[str, np.ndarray]
    unsorted: int  # agents
    repeated: int  # rows


def read(folder: Path, steps: int = 10) -> Tracks:
    """The last `steps` positions of every landing on 26R; days as written, "2019-08-01".

    >>> read(Path("nowhere"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    prbnn.errors.DataError: no true_pos_*.csv* in nowhere or in its folder katl_asdex_sherlock...
    """
    values, names, days, dropped = [], [], [], {reason: [] for reason in ORDER}
    sheets = [_sheet(path) for path in _files(Path(folder))]
    for sheet in sheets:
        for agent, samples in sheet.agents.items():
            outcomes = [_outcome(visit, steps) for visit in _visits(samples)]
            landings = [outcome for outcome in outcomes if not isinstance(outcome, str)]
            if landings:
                values.append(landings[-1])
                names.append(agent)
                days.append(sheet.day)
            else:
                dropped[min(map(str, outcomes), key=ORDER.index)].append(agent)
    dropped = {reason: agents for reason, agents in dropped.items() if agents}
    if not values:
        raise DataError(
            f"no landing on 26R with {steps} steps in {folder}. Of "
            f"{sum(len(sheet.agents) for sheet in sheets)} agents: {reasons(dropped)}"
        )
    stacked = np.stack(values)
    kinds = np.full(len(names), "landing")
    notes = _notes(sheets, stacked[..., VARIABLES.index("speed")])
    return Tracks(
        np.array(names), stacked, VARIABLES, SECONDS, kinds, None, np.array(days), dropped, notes
    )


def _files(folder: Path) -> list[Path]:
    for place in (folder / FOLDER, folder):
        if found := sorted(place.glob(PATTERN)):
            return found
    raise DataError(
        f"no {PATTERN} in {folder} or in its folder {FOLDER}. The files, one for each day, are in "
        "air-traffic-prediction/MultiAircraftTP of the GitHub repository ymlasu/para-atm-collection"
    )


def _sheet(path: Path) -> Sheet:
    """A file is four long lines: times, agents, latitudes and longitudes."""
    table = _table(path)
    date = path.name.removeprefix("true_pos_").split(".")[0]
    day = f"{date[:4]}-{date[4:6]}-{date[6:]}"
    as_written = np.argsort(table[:, 1], kind="stable")
    agents: dict[str, np.ndarray] = {}
    unsorted = 0
    for rows in np.split(as_written, np.flatnonzero(np.diff(table[as_written, 1])) + 1):
        name = f"{day}/{table[rows[0], 1]:g}"
        samples = table[rows][:, [0, 2, 3]]
        unsorted += int((np.diff(samples[:, 0]) < 0).any())
        agents[name] = samples[np.unique(samples[:, 0], return_index=True)[1]]
    repeated = len(table) - sum(map(len, agents.values()))
    return Sheet(day, agents, unsorted, repeated)


def _table(path: Path) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, of a file without numbers: raised below
            table = np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not table.size:
        raise DataError(f"{path} is empty; needed: four lines of numbers, {', '.join(ROWS)}")
    if len(table) != len(ROWS):
        raise DataError(
            f"{path} has {len(table)} lines; needed: four lines of numbers, {', '.join(ROWS)}"
        )
    if not np.isfinite(table).all():
        line = ROWS[int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])]
        raise DataError(f"{path}: the line of {line} has entries that are not finite numbers")
    return table.T


def _visits(samples: np.ndarray) -> list[np.ndarray]:
    return np.split(samples, np.flatnonzero(np.diff(samples[:, 0]) > APART_SECONDS) + 1)


def _outcome(visit: np.ndarray, steps: int) -> np.ndarray | str:
    """The last steps of a landing on 26R, or why the visit is none."""
    if not _ends_on_runway(visit):
        if _on_airfield(visit[-1]) and len(visit) > 1 and not _on_airfield(visit[0]):
            return OTHER
        return DEPARTS if _on_airfield(visit[0]) else PASSES
    if len(visit) < steps + 1:  # the first step's speed needs the position before it
        return SHORT
    if (np.diff(visit[-steps - 1 :, 0]) != SECONDS).any():
        return GAP
    values = _moving(visit[-steps - 1 :, 1:])
    speed = values[:, VARIABLES.index("speed")]
    return values if ((speed >= SPEEDS[0]) & (speed <= SPEEDS[1])).all() else IMPLAUSIBLE


def _ends_on_runway(visit: np.ndarray) -> bool:
    if len(visit) < 2 or visit[-1, 2] >= visit[-2, 2]:  # eastbound, or seen once
        return False
    _, latitude, longitude = visit[-1]
    miles = abs(longitude - THRESHOLD_LONGITUDE) * miles_per_degree(THRESHOLD_LATITUDE)[1]
    return bool(abs(latitude - THRESHOLD_LATITUDE) < HALF_WAY_TO_NEXT_RUNWAY and miles < NEAR_MILES)


def _on_airfield(sample: np.ndarray) -> bool:
    (south, north), (west, east) = AIRFIELD
    return south < sample[1] < north and west < sample[2] < east


def _moving(positions: np.ndarray) -> np.ndarray:
    """Positions from the second on, with speed (kt) and course (degrees) from the one before."""
    per_degree = np.stack(miles_per_degree(THRESHOLD_LATITUDE))
    north, east = (np.diff(positions, axis=0) * per_degree).T
    speed = np.hypot(north, east) / SECONDS * 3600
    course = np.degrees(np.arctan2(east, north)) % 360
    return np.column_stack([positions[1:], speed, course])


def _notes(sheets: list[Sheet], speed: np.ndarray) -> tuple[str, ...]:
    jumping = (abs(np.diff(speed, axis=1)) > JUMP).any(axis=1)
    counts = {
        "times out of order, sorted: {} agents": sum(sheet.unsorted for sheet in sheets),
        "repeated times, the first kept: {} rows left out": sum(sheet.repeated for sheet in sheets),
        f"speed changes by more than {JUMP:g} kt in {SECONDS:g} s: {{}} flights": jumping.sum(),
    }
    return tuple(text.format(count) for text, count in counts.items() if count)
