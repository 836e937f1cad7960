"""Truncated observations: rows that were recorded only where the target lies in a window.

A likelihood describes the distribution before anything was left out, and states the window in the user's
units; here are the window in network units and the distribution of what is recorded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from prbnn.errors import is_number

Window = tuple[float | None, float | None]
Truncated = Window | tuple[Window | None, ...] | None

# rounds of drawing again what falls outside a window, before the rest is found by bisection
REDRAWN = 8
BISECTIONS = 60
DOUBLINGS = 200


def checked_window(kind: str, truncated: Any) -> Truncated:
    """``truncated`` as tuples; anything but a window, or one window per output, raises.

    >>> checked_window("Gaussian", [0, None])
    (0.0, None)
    """
    if truncated is None:
        return None
    if not isinstance(truncated, tuple | list):
        raise _not_a_window(kind, truncated)
    if not any(isinstance(part, tuple | list) for part in truncated):
        return _pair(kind, truncated)
    return tuple(None if part is None else _pair(kind, part) for part in truncated)


def _pair(kind: str, window: Any) -> Window:
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise _not_a_window(kind, window)
    if not all(end is None or (is_number(end) and not math.isnan(end)) for end in window):
        raise _not_a_window(kind, window)
    low, high = (None if end is None or math.isinf(end) else float(end) for end in window)
    if low is None and high is None:
        raise ValueError(f"{kind}: truncated={window!r} leaves nothing out; leave it away")
    if low is not None and high is not None and not low < high:
        raise ValueError(
            f"{kind}: the lower end of truncated must be below the upper, got {window!r}"
        )
    if kind == "Poisson":
        whole = [None if end is None else int(end) for end in (low, high)]
        if any(end is not None and end != now for end, now in zip((low, high), whole, strict=True)):
            raise ValueError(
                f"Poisson: truncated takes whole numbers, both included, got {window!r}"
            )
        return whole[0], whole[1]
    return low, high


def _not_a_window(kind: str, got: Any) -> ValueError:
    return ValueError(
        f"{kind}: truncated is (low, high) with None for an open end, such as (0, None), or a list of "
        f"one such window per output; got {got!r}"
    )


def window_of(likelihood: Any, outputs: int) -> np.ndarray | None:
    """The window of each output, (2, outputs), in the user's units; None where nothing is truncated."""
    stated = getattr(likelihood, "truncated", None)
    if stated is None:
        return None
    several = any(isinstance(part, tuple) for part in stated)
    windows: Any = stated if several else (stated,) * outputs
    if len(windows) != outputs:
        raise ValueError(
            f"truncated has {len(windows)} windows and there are {outputs} outputs; give one window per "
            "output, or one for all"
        )
    ends = [(None, None) if window is None else window for window in windows]
    return np.array(
        [
            [-np.inf if low is None else low for low, _ in ends],
            [np.inf if high is None else high for _, high in ends],
        ]
    )


def recorded(likelihood: Any, window: np.ndarray | None) -> Any:
    """What is recorded of a ``likelihood``: itself, or the part of it inside a ``window``.

    The window is in network units, (2, outputs).
    """
    return likelihood if window is None else Recorded(likelihood, window)


@dataclass(frozen=True, eq=False)
class Recorded:
    """The distribution of the observations of a likelihood that lie in a window.

    ``response`` and ``scale`` are those of the likelihood, (..., outputs), in network units.
    """

    likelihood: Any
    window: np.ndarray

    @property
    def scales_targets(self) -> bool:
        return self.likelihood.scales_targets

    @property
    def edges(self) -> np.ndarray:
        """The window as (low, high] of the distribution function: counts include their lower end."""
        return self.window - np.array([[0.0 if self.scales_targets else 1.0], [0.0]])

    def distribution(self, value: Any, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """P(observation <= value), given that it was recorded.

        It is a ratio of differences of distribution functions, taken on the side of the response where
        these are small.
        """
        low, high = self.edges
        at = np.clip(value, low, high)
        left, right = self.likelihood.distribution, self.likelihood.survival
        ends = [left(end, response, scale) for end in (low, at, high)]
        far = [right(end, response, scale) for end in (low, at, high)]
        above = ends[0] > 0.5
        inside = np.where(above, far[0] - far[1], ends[1] - ends[0])
        whole = np.where(above, far[0] - far[2], ends[2] - ends[0])
        # so far away that both are 0: all of it lies at the end nearest to the response
        gone = np.where(above, at > low, at >= high).astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(whole > 0, inside / whole, gone)

    def probability(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """P(an observation is recorded)."""
        low, high = self.edges
        left, right = self.likelihood.distribution, self.likelihood.survival
        return np.where(
            left(low, response, scale) > 0.5,
            right(low, response, scale) - right(high, response, scale),
            left(high, response, scale) - left(low, response, scale),
        )

    def deviation(self, response: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Standard deviation of observations around the response, before any was left out."""
        return self.likelihood.deviation(response, scale)

    def sample(
        self, generator: np.random.Generator, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """One random recorded observation per response."""
        low, high = self.window
        drawn = self.likelihood.sample(generator, response, scale)
        scale = np.broadcast_to(scale, response.shape)
        for _ in range(REDRAWN):
            outside = (drawn < low) | (drawn > high)
            if not outside.any():
                return drawn
            again = self.likelihood.sample(generator, response, scale)
            drawn = np.where(outside, again, drawn)
        outside = (drawn < low) | (drawn > high)
        wanted = generator.random(response.shape)
        places = np.nonzero(outside)
        ends = np.broadcast_to(self.window[:, places[-1]], (2, len(places[-1])))
        rest = Recorded(self.likelihood, ends)
        drawn[places] = rest.quantile(wanted[places], response[places], scale[places])
        return drawn

    def quantile(
        self, probability: np.ndarray, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """The value below which a recorded observation lies with each ``probability``.

        It is found by bisection, unless the likelihood has a ``symmetric_quantile``.
        """
        if hasattr(self.likelihood, "symmetric_quantile"):
            return self._inverse(probability, response, scale)
        low, high = self.bracket(probability, probability, response[None], scale[None])
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            below = self.distribution(middle, response, scale) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2 if self.scales_targets else np.round((low + high) / 2) + 0.0

    def _inverse(
        self, probability: np.ndarray, response: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """The same of a likelihood that is symmetric around its response, in its smaller tail."""
        low, high = self.window
        below = low < response
        # mirrored, where the window lies above the response
        first = np.where(below, low, 2 * response - high)
        last = np.where(below, high, 2 * response - low)
        start, end = (self.likelihood.distribution(x, response, scale) for x in (first, last))
        wanted = np.where(below, probability, 1 - probability)
        found = self.likelihood.symmetric_quantile(start + wanted * (end - start), response, scale)
        # so far away that both are 0: all of it lies at the end nearest to the response
        found = np.where(end > start, found, last)
        return np.clip(np.where(below, found, 2 * response - found), low, high)

    def bracket(
        self, lowest: Any, highest: Any, response: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends (rows, outputs) that enclose the quantiles from ``lowest`` to ``highest`` of the mixture.

        The mixture is over draws, the first axis of ``response`` and ``scale``.
        """
        first, last = self.edges
        spread = self.deviation(response, scale)
        low = np.clip(np.min(response - spread, axis=0), first, last)
        high = np.clip(np.max(response + spread, axis=0), first, last)
        step = np.max(spread, axis=0)
        for _ in range(DOUBLINGS):
            early = np.mean(self.distribution(low, response, scale), axis=0) > lowest
            late = np.mean(self.distribution(high, response, scale), axis=0) < highest
            early, late = early & (low > first), late & (high < last)
            if not early.any() and not late.any():
                break
            low = np.where(early, np.maximum(low - step, first), low)
            high = np.where(late, np.minimum(high + step, last), high)
            step = 2 * step
        return low, high
