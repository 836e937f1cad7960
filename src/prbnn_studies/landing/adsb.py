"""Real landings out of a table of aircraft broadcasts, such as those of the OpenSky Network.

A landing is the last seconds of a track that comes down to where tracks near that place end.
Altitude is pressure altitude: the ground is neither at 0 in it nor at its elevation. Receivers lose
aircraft near the ground and tables then repeat the last message: what repeats is no observation,
so a track ends at its last new position, which may be up to 300 ft above the runway.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prbnn import DataError
from prbnn_studies.landing import broadcasts
from prbnn_studies.landing.tracks import UNITS, VARIABLES, Tracks, miles_per_degree, reasons

ALIGNED_UNITS = {**UNITS, "along": "NM", "across": "NM"}

APART_SECONDS = 60.0  # unseen for longer: another track
LEVEL = 25.0  # ft, the step of altitudes: a runway looks level
NEAR_GROUND, NEAR_MILES = 300.0, 3.0  # ft above the lowest ends of tracks within this many NM
SINK = 4.0  # ft/s at least on average: 200 ft in 50 s
SPEEDS = (80.0, 200.0)  # kt; slower is no airliner, and then what ground it nears is unsure
LONGEST_GAP = 5.0  # s; a straight line over it is off by less than a step of altitudes
FASTEST_CHANGE = 100.0  # ft/s of altitude; beyond is a wrong message
AGREE = (0.8, 1.25)  # reported speed over the speed of the positions; wrong units: 0.51 or 1.94
SLOPES = (
    150.0,
    750.0,
)  # ft per NM, 1.4 to 7 degrees; wrong units: 1/3 of 3 degrees or 3 times as much

STAYS_UP = "does not come down to the ground"
SHORT = "seen too shortly"
GAP = f"a gap of more than {LONGEST_GAP:g} s"
SPEED = f"speed outside {SPEEDS[0]:g}-{SPEEDS[1]:g} kt"
JUMPS = f"altitude changes by more than {FASTEST_CHANGE:g} ft/s"
SPEED_UNIT = "speed disagrees with positions: m/s for kt, or kt for m/s?"
SLOPE_UNIT = "glides at less than 1.4 or more than 7 degrees: metres for feet, or feet for metres?"
GROUNDED = "never in the air, or not with all variables"
# the nearest to a landing first: of a flight's tracks, that one's reason is recorded
ORDER = (SPEED, SPEED_UNIT, SLOPE_UNIT, JUMPS, GAP, SHORT, STAYS_UP, GROUNDED)


def read(path: Path, steps: int = 50) -> Tracks:
    """The last `steps` seconds of every landing in a file, or in the one such file of a folder.

    Columns and their units are those of `broadcasts.read`; flights whose glide or positions belie
    the units are left out and named.

    >>> read(Path("nowhere.csv"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    prbnn.errors.DataError: no file nowhere.csv; needed: a table of broadcasts...
    """
    table = broadcasts.read(path)
    flights, notes = _flights(table)
    ends = np.array([track[-1] for tracks in flights.values() for track in tracks])
    kept, dropped = {}, {reason: [] for reason in ORDER}
    for name, tracks in flights.items():
        outcomes = [_outcome(track, ends, steps) for track in tracks]
        landings = [outcome for outcome in outcomes if not isinstance(outcome, str)]
        if landings:
            kept[name] = landings[-1]
        else:
            dropped[min(map(str, outcomes), key=ORDER.index, default=GROUNDED)].append(name)
    dropped = {reason: names for reason, names in dropped.items() if names}
    if not kept:
        raise DataError(
            f"{table.file}: no landing with {steps} s among {len(flights)} flights: {reasons(dropped)}"
        )
    values = np.stack(list(kept.values()))
    return Tracks(
        names=np.array(list(kept)),
        values=values[..., 1:],
        variables=VARIABLES,
        seconds=1.0,
        kinds=np.full(len(kept), "landing"),
        truth=None,
        days=values[:, -1, 0].astype("datetime64[s]").astype("datetime64[D]").astype(str),
        dropped=dropped,
        notes=table.notes + notes,
    )


def aligned(tracks: Tracks, observed: int) -> Tracks:
    """Positions along and across each flight's own course, in NM from where it is last observed.

    Origin and axis are the position and the course at the last of `observed` steps, so that flights
    to different runways compare and no later step is used. Course becomes the turn since then.

    >>> north = np.array([[[48.0, 2.0, 300.0, 140.0, 0.0], [48.01, 2.0, 290.0, 140.0, 5.0]]])
    >>> one = Tracks(np.array(["a"]), north, VARIABLES, 1.0, np.array(["landing"]), None, None, {})
    >>> aligned(one, 1).values[0, 1].round(3).tolist()
    [0.6, 0.0, 290.0, 140.0, 5.0]
    """
    steps = tracks.values.shape[1]
    if not 1 <= observed <= steps:
        raise DataError(f"observed is {observed}; needed: a number of steps from 1 to {steps}")
    where = [tracks.variables.index(name) for name in ("latitude", "longitude", "course")]
    origin = tracks.values[:, observed - 1][:, None, where]
    per_latitude, per_longitude = miles_per_degree(origin[..., 0])
    cosine, sine = np.cos(np.radians(origin[..., 2])), np.sin(np.radians(origin[..., 2]))

    def turned(values: np.ndarray) -> np.ndarray:
        north, east, turn = np.moveaxis(values[..., where] - origin, -1, 0)
        north, east = north * per_latitude, east * per_longitude
        result = values.copy()
        result[..., where[0]] = north * cosine + east * sine
        result[..., where[1]] = east * cosine - north * sine  # to the right is positive
        result[..., where[2]] = (turn + 180) % 360 - 180
        return result

    renamed = {"latitude": "along", "longitude": "across"}
    return tracks._replace(
        values=turned(tracks.values),
        truth=None if tracks.truth is None else turned(tracks.truth),
        variables=tuple(renamed.get(name, name) for name in tracks.variables),
    )


def _flights(table: broadcasts.Broadcasts) -> tuple[dict[str, list[np.ndarray]], tuple[str, ...]]:
    """The tracks of every flight in the air, and what was fixed on the way."""
    order = np.argsort(table.flights, kind="stable")
    starts = np.flatnonzero(table.flights[order][1:] != table.flights[order][:-1]) + 1
    flights: dict[str, list[np.ndarray]] = {}
    unsorted = repeated = stale = 0
    for part in np.split(order, starts):
        rows = table.rows[part]
        unsorted += int((np.diff(rows[:, 0]) < 0).any())
        first = np.unique(rows[:, 0], return_index=True)[1]
        repeated += len(rows) - len(first)
        rows = rows[first][table.airborne[part][first] & np.isfinite(rows[first]).all(axis=1)]
        same = (np.diff(rows[:, 1:3], axis=0) == 0).all(axis=1)
        stale += int(same.sum())
        rows = np.delete(rows, np.flatnonzero(same) + 1, axis=0)
        tracks = np.split(rows, np.flatnonzero(np.diff(rows[:, 0]) > APART_SECONDS) + 1)
        flights[str(table.flights[part[0]])] = [
            _to_touchdown(track) for track in tracks if len(track)
        ]
    counts = {
        "times out of order, sorted: {} flights": unsorted,
        "repeated times, the first kept: {} rows left out": repeated,
        "repeated positions in the air, the first kept: {} rows left out": stale,
    }
    return flights, tuple(text.format(count) for text, count in counts.items() if count)


def _to_touchdown(track: np.ndarray) -> np.ndarray:
    """Without the roll: up to where altitude gets level with the track's end."""
    above = np.flatnonzero(track[:, 3] > track[-1, 3] + LEVEL)
    return track[: above[-1] + 2] if len(above) else track


def _outcome(track: np.ndarray, ends: np.ndarray, steps: int) -> np.ndarray | str:
    """Time and variables over the last steps of a landing, or why the track is none."""
    if track[-1, 3] > _ground(track[-1], ends) + NEAR_GROUND:
        return STAYS_UP
    grid = track[-1, 0] - np.arange(steps)[::-1]
    rows = track[max(np.searchsorted(track[:, 0], grid[0], side="right") - 1, 0) :]
    seconds, _, _, climb = np.diff(rows[:, :4], axis=0).T
    if len(rows) < 2 or -climb.sum() < SINK / broadcasts.FEET * seconds.sum():  # might be in metres
        return STAYS_UP
    if rows[0, 0] > grid[0]:
        return SHORT
    if seconds.max() > LONGEST_GAP:
        return GAP
    if (abs(climb) > FASTEST_CHANGE * seconds).any():
        return JUMPS
    miles = _miles(rows[1:], rows[:-1]).sum()
    reported = rows[:, 4].mean() * seconds.sum() / 3600
    if not AGREE[0] * miles <= reported <= AGREE[1] * miles:
        return SPEED_UNIT
    if not SLOPES[0] * miles <= -climb.sum() <= SLOPES[1] * miles:
        return SLOPE_UNIT
    if -climb.sum() < SINK * seconds.sum():
        return STAYS_UP
    if rows[:, 4].min() < SPEEDS[0] or rows[:, 4].max() > SPEEDS[1]:
        return SPEED
    columns = [*rows[:, :5].T, np.degrees(np.unwrap(np.radians(rows[:, 5])))]
    values = np.column_stack([np.interp(grid, rows[:, 0], column) for column in columns])
    values[:, 5] %= 360
    return values


def _ground(end: np.ndarray, ends: np.ndarray) -> float:
    """The altitude at which tracks nearby end: the 5 % quantile, since some of them may be wrong."""
    nearby = ends[_miles(ends, end) < NEAR_MILES, 3]
    return float(np.quantile(nearby, 0.05, method="lower"))


def _miles(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    off = (here - there)[..., 1:3]
    per_latitude, per_longitude = miles_per_degree(there[..., 1])
    return np.hypot(off[..., 0] * per_latitude, off[..., 1] * per_longitude)
