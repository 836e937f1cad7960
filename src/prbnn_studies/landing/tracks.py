"""Tracks of flights at equal steps of time, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

VARIABLES = ("latitude", "longitude", "altitude", "speed", "course")
UNITS = {"latitude": "deg", "longitude": "deg", "altitude": "ft", "speed": "kt", "course": "deg"}


class Tracks(NamedTuple):
    """Flights side by side: values (flights, steps, variables) in physical units.

    >>> names, kinds = np.array(["first", "second"]), np.array(["landing", "go-around"])
    >>> tracks = Tracks(names, np.zeros((2, 50, 5)), VARIABLES, 1.0, kinds, None, None, {})
    >>> tracks.take(kinds == "landing").values.shape
    (1, 50, 5)
    """

    names: np.ndarray  # (flights,) str
    values: np.ndarray  # (flights, steps, variables) float64, what a radar would report
    variables: tuple[str, ...]
    seconds: float  # between steps
    kinds: np.ndarray  # (flights,) str: "landing", "go-around", "outlier"; real data: "landing"
    truth: np.ndarray | None  # the same without radar noise and quantisation, where it is known
    days: np.ndarray | None  # (flights,) str, where known
    dropped: dict[str, list[str]]  # reason -> names of flights (or files' rows) left out
    notes: tuple[str, ...] = ()  # what a reader fixed or counted without leaving a flight out

    def take(self, rows: np.ndarray | slice) -> Tracks:
        """Some of the flights, by their indices, a mask or a slice."""
        return self._replace(
            names=self.names[rows],
            values=self.values[rows],
            kinds=self.kinds[rows],
            truth=None if self.truth is None else self.truth[rows],
            days=None if self.days is None else self.days[rows],
        )


def reasons(dropped: Mapping[str, Sequence[str]]) -> str:
    """How many flights were left out for which reason, the most frequent first, with some names.

    >>> reasons({"a gap": ["AFR1", "AFR2"]})
    'a gap: 2 (AFR1, AFR2)'
    """
    most = sorted(dropped.items(), key=lambda item: -len(item[1]))
    return "; ".join(
        f"{reason}: {len(names)} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for reason, names in most
    )


def miles_per_degree(latitude: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nautical miles in a degree of latitude and in one of longitude, on the WGS 84 ellipsoid.

    >>> [round(float(miles), 2) for miles in miles_per_degree(33.65)]
    [59.89, 50.09]
    """
    angle = np.radians(latitude)
    north = 111_132.954 - 559.822 * np.cos(2 * angle) + 1.175 * np.cos(4 * angle)
    east = 111_412.84 * np.cos(angle) - 93.5 * np.cos(3 * angle)
    return north / 1852, east / 1852
