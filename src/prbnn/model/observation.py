"""The log density of what was observed of a row: a value or an interval, in a window or anywhere."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.data.censoring import Intervals, from_zero
from prbnn.data.scaling import Scaling
from prbnn.errors import DataError
from prbnn.model.likelihoods import Likelihood
from prbnn.model.truncation import window_of


def log_observation(
    likelihood: Likelihood,
    parameters: Array,
    values: Array,
    target: Float[Array, " outputs"],
    upper: Float[Array, " outputs"] | None = None,
    window: Float[Array, "2 outputs"] | None = None,
) -> Float[Array, ""]:
    """log p(target | values), or log P(target <= y <= upper | values), in network units, for one row.

    - ``upper``: upper ends of intervals, equal to ``target`` where that is exact; None: all are exact
    - ``window``: where observations are recorded; the density is then divided by P(y in window | values)
    """
    if window is not None and upper is not None:
        target, upper = (jnp.clip(end, window[0], window[1]) for end in (target, upper))
    if upper is None:
        found = likelihood.log_density(parameters, values, target)
    else:
        found = likelihood.log_interval(parameters, values, target, upper)  # ty: ignore
    if window is None:
        return found
    return found - likelihood.log_interval(parameters, values, window[0], window[1])  # ty: ignore


def network_window(likelihood: Likelihood, scaling: Scaling) -> Float[Array, "2 outputs"] | None:
    """The window of a truncated likelihood in network units; None where it is not truncated."""
    window = window_of(likelihood, len(scaling.output_scale))
    return None if window is None else jnp.asarray(scaling.outputs(window), float)


def check_observations(
    likelihood: Likelihood,
    outputs: tuple[str, ...],
    targets: np.ndarray,
    cut: Intervals | None,
    called: Callable[[int], str] = from_zero,
) -> None:
    """Raise where rows cannot have been observed under a likelihood, naming row, column and remedy.

    ``targets`` (rows, outputs) and ``cut``, the intervals of censored ones, are in the user's units;
    ``called`` says what errors call a row, by its position.
    """
    kind = type(likelihood).__name__
    window = window_of(likelihood, len(outputs))
    if (cut is not None or window is not None) and not hasattr(likelihood, "log_interval"):
        what = "censored=" if cut is not None else "truncated="
        raise ValueError(
            f"{what} needs a likelihood with a method log_interval, as Gaussian, StudentT and Poisson "
            f"have; {kind} has none"
        )
    low, high = (targets, targets) if cut is None else (cut.low, cut.high)
    broken = (low < high) & np.isfinite(high) & (high != np.round(high))
    if not likelihood.scales_targets and broken.any():
        row, place = np.argwhere(broken)[0]
        raise DataError(
            f"{kind}: {called(int(row))} of {outputs[place]!r} ends at {high[row, place]:g}; counts are "
            "whole numbers",
            outputs[place],
        )
    if window is None:
        return
    outside = (high < window[0]) | (low > window[1])
    if likelihood.scales_targets:
        # the end of the window alone has no probability
        outside |= (low < high) & ((high <= window[0]) | (low >= window[1]))
    if outside.any():
        row, place = np.argwhere(outside)[0]
        name, ends = outputs[place], tuple(map(float, window[:, place]))
        seen = (
            f"{low[row, place]:g}"
            if low[row, place] == high[row, place]
            else f"from {low[row, place]:g} to {high[row, place]:g}"
        )
        raise DataError(
            f"{called(int(row))} of {name!r} is {seen}, outside {ends}, where the likelihood says that "
            f"values were recorded (rows like this: {int(outside.sum())}). Widen truncated, or leave "
            "those rows out",
            name,
        )
