"""Keeping work in progress, so that a killed process can be followed by one that goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

Arrays = Mapping[str, np.ndarray]


class Keeping(Protocol):
    """Where some work is kept while it goes on."""

    def found(self) -> Arrays | None:
        """What an earlier process kept of this work; None where it begins."""
        ...

    def keep(self, arrays: Callable[[], Arrays], *, now: bool = False) -> None:
        """Keep these ``arrays``, if it is time to or must be ``now``; they are written at once."""
        ...


class Unkept:
    """Keeps nothing."""

    def found(self) -> None:
        return None

    def keep(self, arrays: Callable[[], Arrays], *, now: bool = False) -> None:
        pass
