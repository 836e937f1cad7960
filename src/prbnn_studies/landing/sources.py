"""Where flights come from, how they are split, and what is known about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from prbnn import Between, DataError, Falls, Rises
from prbnn.rules.base import Rule
from prbnn_studies.landing import adsb, katl, synthetic
from prbnn_studies.landing.tracks import UNITS, Tracks, reasons

# a soft rule's price in nats per flight and standard deviation of its variable
PRICE = 200.0
# how far inside its limit a certain rule trains, since test flights differ from those it trains on
FEET_INSIDE, FALL_INSIDE = 5.0, 1.0
# of a random split; the remaining flights train
TEST_FRACTION = CALIBRATION_FRACTION = 0.15
LAST_TRAINING_DAY = "2019-08-06"
# a record that ends further than this from the touchdown zone is no landing on this runway
LANDED_WITHIN_FEET, LANDED_WITHIN_DEGREES = 75.0, (0.001, 0.009)


@dataclass(frozen=True, eq=False)
class Source:
    """Flights with what is known about them; `strange` are go-arounds.

    Rules named in `certain` are physics, and hard; the others are habits, and soft.
    """

    name: str
    tracks: Tracks
    strange: Tracks | None
    history: int
    train: np.ndarray
    calibration: np.ndarray
    test: np.ndarray
    rules: tuple[Rule, ...]
    units: dict[str, str]
    notes: tuple[str, ...]
    certain: tuple[str, ...] = ()

    @property
    def observed(self) -> np.ndarray:
        """(flights, steps, variables) before."""
        return self.tracks.values[:, : self.history]

    @property
    def ahead(self) -> np.ndarray:
        """(flights, steps, variables) after."""
        return self.tracks.values[:, self.history :]

    def priced(self, flights: int, *, hard: bool = True) -> list[Rule]:
        """Physical rules (`certain`) stay hard if ``hard``; all others are soft, with weight
        proportional to ``flights``."""
        spread = dict(zip(self.tracks.variables, self._spread, strict=True))

        def price(rule: Rule) -> float:
            return PRICE * flights / float(spread[str(getattr(rule, "variable", rule.of))])

        return [
            rule if hard and rule.name in self.certain else rule.soft(price(rule))
            for rule in self.rules
        ]

    @property
    def _spread(self) -> np.ndarray:
        return self.tracks.values[self.train].std(axis=(0, 1))


def simulated(flights: int, seed: int) -> Source:
    """Simulated approaches; those that do not end on the runway are set apart, as a reader would."""
    tracks = synthetic.approaches(flights, seed)
    latitude, longitude = synthetic.THRESHOLD_LATITUDE, synthetic.THRESHOLD_LONGITUDE
    field = synthetic.FIELD_ELEVATION
    across, along = LANDED_WITHIN_DEGREES
    end = dict(zip(tracks.variables, tracks.values[:, -1].T, strict=True))
    high = np.abs(end["altitude"] - field) > LANDED_WITHIN_FEET
    away = (np.abs(end["latitude"] - latitude) > across) | (
        np.abs(end["longitude"] - longitude) > along
    )
    kept = tracks.take(~(high | away))._replace(
        dropped={
            "does not end at the field's height": list(tracks.names[high]),
            "does not end on the runway": list(tracks.names[away & ~high]),
        }
    )
    rules = (
        Falls("altitude", lag=3, margin=FALL_INSIDE, name="altitude falls"),
        Falls("longitude", name="flies west"),
        Between(latitude - 0.002, latitude + 0.002, of="latitude", name="latitude range"),
        Between(longitude - 0.01, longitude + 0.015, of="longitude", name="longitude range"),
        Between(field - 15, field + 500, of="altitude", margin=FEET_INSIDE, name="altitude range"),
        Between(90, 175, of="speed", name="speed range"),
        Between(262, 278, of="course", name="course range"),
        Between(
            field - 15,
            field + 15,
            of="altitude",
            at="last",
            margin=FEET_INSIDE,
            name="touchdown altitude",
        ),
        Between(100, 150, of="speed", at="last", name="touchdown speed"),
    )
    found = _split("synthetic", kept, tracks.take(tracks.kinds == "go-around"), 35, rules, seed)
    return replace(found, certain=("altitude falls", "altitude range", "touchdown altitude"))


def radar(folder: Path) -> Source:
    """Surface-radar tracks at Atlanta: 1 to 6 August train, 7 August tests."""
    tracks = katl.read(folder)
    assert tracks.days is not None
    early = np.flatnonzero(tracks.days <= LAST_TRAINING_DAY)
    late = np.flatnonzero(tracks.days > LAST_TRAINING_DAY)
    early = np.random.default_rng(0).permutation(early)
    held = round(CALIBRATION_FRACTION * len(early))
    latitude, longitude = katl.THRESHOLD_LATITUDE, katl.THRESHOLD_LONGITUDE
    rules = (
        Falls("longitude", name="flies west"),
        Between(latitude - 0.001, latitude + 0.001, of="latitude", name="on the centreline"),
        Between(longitude - 0.01, longitude + 0.06, of="longitude", name="longitude range"),
        Between(100, 190, of="speed", name="speed range"),
        Between(264, 276, of="course", name="course range"),
        Between(
            latitude - 0.0005, latitude + 0.0005, of="latitude", at="last", name="end point, across"
        ),
        Between(
            longitude - 0.008, longitude + 0.012, of="longitude", at="last", name="end point, along"
        ),
    )
    return Source(
        "katl", tracks, None, 7, early[held:], early[:held], late, rules, UNITS, _notes(tracks)
    )


def broadcast(folder: Path) -> Source:
    """ADS-B tracks with altitude, each turned to its own course when the prediction starts."""
    history = 35
    tracks = adsb.aligned(adsb.read(folder), history)
    rules = (
        Falls("altitude", lag=3, name="altitude falls"),
        Rises("along", name="flies on"),
        Between(-0.1, 0.1, of="across", name="stays on its line"),
        Between(90, 180, of="speed", name="speed range"),
        Between(-6, 6, of="course", name="turns little"),
    )
    return _split("adsb", tracks, None, history, rules, 0, units=adsb.ALIGNED_UNITS)


def _split(
    name: str,
    tracks: Tracks,
    strange: Tracks | None,
    history: int,
    rules: tuple[Rule, ...],
    seed: int,
    units: dict[str, str] | None = None,
) -> Source:
    order = np.random.default_rng(seed).permutation(len(tracks.values))
    test, held = (round(part * len(order)) for part in (TEST_FRACTION, CALIBRATION_FRACTION))
    if min(test, held) < 1 or len(order) - test - held < 10:
        raise DataError(f"{len(order)} flights are too few to train, calibrate and test on")
    return Source(
        name,
        tracks,
        strange,
        history,
        order[test + held :],
        order[test : test + held],
        order[:test],
        rules,
        units or UNITS,
        _notes(tracks),
    )


def _notes(tracks: Tracks) -> tuple[str, ...]:
    left_out = sum(map(len, tracks.dropped.values()))
    dropped = (f"{left_out} left out: {reasons(tracks.dropped)}",) if left_out else ()
    return (f"{len(tracks.values)} flights", *dropped, *tracks.notes)


SOURCES: dict[str, Callable[[Path | None, int, int], Source]] = {
    "synthetic": lambda _, flights, seed: simulated(flights, seed),
    "katl": lambda folder, *_: radar(_given(folder)),
    "adsb": lambda folder, *_: broadcast(_given(folder)),
}


def _given(folder: Path | None) -> Path:
    if folder is None:
        raise DataError("this source needs --data DIR, the folder that holds its tracks")
    return folder
