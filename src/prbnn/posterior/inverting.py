"""Values at which the distribution function of a mixture has given levels.

The search is in normal scores, the inverse normal of probabilities: quantiles of one Gaussian are a
straight line in them, and tails are as easy as the middle. Each level starts between two nodes, by the
cubic through their values and slopes, and takes Newton steps that cannot leave its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from prbnn.posterior.mixtures import AnyMixture, SymmetricMixture

# how exact a quantile is, in standard deviations of the mixture
PRECISION = 1e-6
LARGEST_SCORE = 40.0
# Newton steps before every second step halves the interval; and where a search ends, whatever it found
FREE_STEPS, MOST_STEPS = 4, 300
TINY = 1e-300

Table = np.ndarray


def continuous_values(
    mixture: AnyMixture | SymmetricMixture, levels: Table, nodes: Table, unit: Table
) -> Table:
    """Quantiles (levels, rows, ...) between the first and the last of ``nodes`` (nodes, rows, ...).

    ``nodes`` rise along their first axis. ``unit`` is the mixture's standard deviation, (rows, ...).
    """
    wanted = _for_each(ndtri(levels), nodes)
    low, high, at_low, at_high, value = _starts(mixture, wanted, nodes)
    state = low, high, at_low, at_high, value, np.zeros(wanted.shape, bool)
    narrowest = np.maximum(mixture.narrowest, TINY)
    for step in range(MOST_STEPS):
        rows, order = _open_levels(state[-1])
        if not len(rows):
            break
        goal = _read(wanted, rows, order)
        a, b, at_a, at_b, x, done = (_read(part, rows, order) for part in state)
        upper = goal > 0
        tail, density = mixture.tails(x, upper, rows)
        score = _scores(tail, upper)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if density is None:
                slope, change = _slope_through(a, at_a, x, score, b, at_b)
                # the error of a parabola's slope, relative to the slope
                crude = change**2 + ((b - a) / narrowest[rows]) ** 2
            else:
                slope, crude = _density(score) / density, 0.0
            move = (goal - score) * slope
            error = np.abs(move) * np.maximum(np.abs(move) / narrowest[rows], crude)
        short = score < goal
        a, at_a = np.where(short, x, a), np.where(short, score, at_a)
        b, at_b = np.where(short, b, x), np.where(short, at_b, score)
        sensible = np.isfinite(move) & (slope > 0)
        moved = np.where(sensible, x + move, x)
        within = sensible & (moved >= a) & (moved <= b)
        # where the density is high, to a fraction of the local width
        enough = PRECISION * np.where(sensible, np.minimum(unit[rows], slope), unit[rows])
        enough = enough + mixture.value_error * np.abs(x)
        near = within & (np.minimum(np.abs(move), error) <= enough)
        probability = ndtr(np.where(upper, -goal, goal))
        exact = np.abs(tail - probability) <= mixture.probability_error * probability
        halve = ~within | (step >= FREE_STEPS and step % 2 == 0)
        following = np.where(halve & ~near, (a + b) / 2, moved)
        # a step along a flat part may leave it
        following = np.where(exact & ~near, x, following)
        new = a, b, at_a, at_b, following, done | exact | near | (b - a <= enough)
        _write(state, new, rows, order, done)
    return state[4]


def whole_values(mixture: AnyMixture, levels: Table, nodes: Table) -> Table:
    """The smallest whole numbers (levels, rows, outputs) whose distribution function reaches the level.

    ``nodes`` (nodes, rows, outputs) are whole numbers that rise along their first axis; the last is the
    answer where none reaches it.
    """
    wanted = _for_each(levels, nodes)
    probability = mixture.below(nodes, np.arange(nodes.shape[1]))
    place = _places(wanted, probability)
    low, high, at_low, at_high = (
        np.take_along_axis(part, index, axis=0)
        for part in (nodes, probability)
        for index in (np.maximum(place - 1, 0), place)
    )
    state = low, high, at_low, at_high, np.zeros(wanted.shape, bool)
    for step in range(MOST_STEPS):
        rows, order = _open_levels(high - low <= 1)
        if not len(rows):
            break
        goal = _read(wanted, rows, order)
        a, b, at_a, at_b, rose = (_read(part, rows, order) for part in state)
        done = b - a <= 1
        # where the scores say, then beside what was found there, then halfway
        value = (a + b) / 2
        if step % 3 == 0:
            score, left, right = (_scores(part, False) for part in (goal, at_a, at_b))
            value = a + (b - a) * (score - left) / np.maximum(right - left, TINY)
        elif step % 3 == 1:
            value = np.where(rose, a + 1, b - 1)
        value = np.clip(np.round(value), a + 1, np.maximum(b - 1, a + 1))
        found = mixture.below(value, rows)
        short = found < goal
        new = (
            np.where(short, value, a),
            np.where(short, b, value),
            np.where(short, found, at_a),
            np.where(short, at_b, found),
            short,
        )
        _write(state, new, rows, order, done)
    return high + 0.0


def _for_each(levels: Table, nodes: Table) -> Table:
    """The levels as a table (levels, rows, ...)."""
    tall = levels.reshape(-1, *(1,) * (nodes.ndim - 1))
    return np.broadcast_to(tall, (len(levels), *nodes.shape[1:]))


def _scores(probability: Table, upper: Table | bool) -> Table:
    """Normal scores of lower tails, or of upper ones."""
    score = np.clip(ndtri(probability), -LARGEST_SCORE, LARGEST_SCORE)
    return np.where(upper, -score, score)


def _density(score: Table) -> Table:
    return np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi)


def _places(wanted: Table, found: Table) -> Table:
    """How many of ``found``, the last left out, are below each of ``wanted``."""
    place = np.zeros(wanted.shape, int)
    for node in found[:-1]:
        place += node < wanted
    return place


def _starts(
    mixture: AnyMixture | SymmetricMixture, wanted: Table, nodes: Table
) -> tuple[Table, Table, Table, Table, Table]:
    """Of each level the two nodes around it, their scores, and a first value between them."""
    upper = (np.arange(len(nodes)) >= len(nodes) // 2).reshape(-1, *(1,) * (nodes.ndim - 1))
    tail, density = mixture.tails(nodes, upper, np.arange(nodes.shape[1]))
    score = np.maximum.accumulate(_scores(tail, upper), axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if density is None:
            slope = np.full_like(nodes, np.nan)
            slope[1:-1], _ = _slope_through(
                nodes[:-2], score[:-2], nodes[1:-1], score[1:-1], nodes[2:], score[2:]
            )
        else:
            slope = _density(score) / density
        place = np.maximum(_places(wanted, score), 1)
        low, high, at_low, at_high, slope_low, slope_high = (
            np.take_along_axis(part, index, axis=0)
            for part in (nodes, score, slope)
            for index in (place - 1, place)
        )
        rise, width = high - low, at_high - at_low
        part = np.clip((wanted - at_low) / width, 0, 1)
        line = low + part * rise
        bend = (slope_low * width - rise) * (1 - part) - (slope_high * width - rise) * part
        cubic = line + part * (1 - part) * bend
    inside = (cubic > low) & (cubic < high)
    value = np.where(inside, cubic, np.where(np.isfinite(line), line, (low + high) / 2))
    return low, high, at_low, at_high, value


def _slope_through(
    a: Table, at_a: Table, x: Table, at_x: Table, b: Table, at_b: Table
) -> tuple[Table, Table]:
    """d value / d score at ``x``, of the parabola through three values; and how much it varies."""
    left, right = (x - a) / (at_x - at_a), (b - x) / (at_b - at_x)
    part = (at_x - at_a) / (at_b - at_a)
    slope = (1 - part) * left + part * right
    return slope, np.abs(right - left) / slope


def _open_levels(done: Table) -> tuple[Table, Table]:
    """Rows with open levels; and levels of theirs, as many as the row with most: open ones first."""
    rows = np.flatnonzero(~done.all(axis=(0, *range(2, done.ndim))))
    closed = done[:, rows]
    count = np.max(np.sum(~closed, axis=0), initial=0)
    return rows, np.argsort(closed, axis=0, kind="stable")[:count]


def _read(table: Table, rows: Table, order: Table) -> Table:
    return np.take_along_axis(table[:, rows], order, axis=0)


def _write(
    state: Sequence[Table], new: Sequence[Table], rows: Table, order: Table, done: Table
) -> None:
    """Put ``new`` into the tables of ``state``, but for levels that were ``done``."""
    for table, part in zip(state, new, strict=True):
        chosen = table[:, rows]
        old = np.take_along_axis(chosen, order, axis=0)
        np.put_along_axis(chosen, order, np.where(done, old, part), axis=0)
        table[:, rows] = chosen
