"""Simulated approaches flown by small steps of time, against gusts, to touchdown or a go-around."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prbnn_studies.landing.flight_plans import (
    BLOCK,
    GO_AROUND_SECONDS,
    KNOT,
    TAIL,
    FlightPlans,
    around,
)

# Wind by height, and gusts along, across and upwards: fractions of the wind and lengths over the speed,
# both after the low-altitude turbulence of MIL-F-8785C.
WIND_HEIGHT, WIND_EXPONENT = 33.0, 1 / 7  # reported at 10 m; power law of a neutral boundary layer
LEAST_WIND_HEIGHT = 10.0  # a wing stays this high on the runway
GUST_FRACTIONS = np.array([0.2, 0.2, 0.1])[:, None]
GUST_SECONDS = np.array([3.0, 3.0, 1.0])[:, None]
CALM_WIND_KT = 5.0  # warm air is as rough in a calm as in this wind
GROUND_HEIGHT = 60.0  # upward gusts fade below it: air cannot blow through the runway

# Where a flight starts, off its path.
START_HEIGHT_SPREAD, START_OFFSET_SPREAD = 30.0, 220.0
MARGIN_SECONDS = 18.0  # from the threshold beyond the record's length: go-arounds end early

# Control loops and the aircraft's answer to gusts.
HEAVE_SECONDS = 2.5  # in which lift carries an aircraft along with an upward gust
SIDE_SECONDS = 6.0  # the same across: a fuselage is a smaller wing
CRAB_SECONDS = 4.0  # to turn the nose into a cross wind that has changed
SLIP_FRACTION = 0.2  # of the cross wind that the lowered wing does not hold with a straight nose
SPEED_SECONDS = 7.0  # thrust needs seconds to bring an airspeed back
EXCESS_SPEED_KT = 4.0  # mean of what is still to be slowed down at the start
RESPONSE_SECONDS = 0.5  # from stick to vertical speed

# Go-arounds: the engines need seconds to spool up before the climb is full.
SPOOL_SECONDS = 8.0
GO_AROUND_EXTRA_KT = 20.0

STEPS_PER_SECOND = 4  # of the integration: fine beside the fastest loop


class FlightStates(NamedTuple):
    """Flights at one moment: x past the threshold, y north of the centreline, and their phases.

    `since` counts the seconds of a go-around; `sink_then` and `height_then` are the sink rate and the
    height at the moment when it or a flare began.
    """

    x: np.ndarray
    y: np.ndarray
    height: np.ndarray
    along: np.ndarray
    across: np.ndarray
    rise: np.ndarray
    crab: np.ndarray
    flaring: np.ndarray
    going: np.ndarray
    since: np.ndarray
    sink_then: np.ndarray
    height_then: np.ndarray


def flown(plan: FlightPlans, generator: np.random.Generator, steps: int) -> np.ndarray:
    """(flights, steps, 5): x, y, height, speeds along and across over the last seconds."""
    start = steps + MARGIN_SECONDS
    longest = STEPS_PER_SECOND * int(start + MARGIN_SECONDS + max(GO_AROUND_SECONDS))
    gusts = _gusts(plan, generator, longest)
    state = _start(plan, generator, start)
    past, end = np.empty((longest, 5, BLOCK)), np.zeros(BLOCK, int)
    for k in range(longest):
        past[k] = state[:5]
        over = (state.height <= 0) | (state.going & (state.since >= plan.go_around_seconds))
        end = np.where((end == 0) & over, k, end)
        if end.all():
            break
        state = _forward(_phase(state, plan), plan, gusts[k])
    seconds = STEPS_PER_SECOND * np.arange(1 - steps, 1)
    return past[end[:, None] + seconds, :, np.arange(BLOCK)[:, None]]


def _start(plan: FlightPlans, generator: np.random.Generator, seconds: float) -> FlightStates:
    """Near the glide path: with an offset, a deviation in height and some excess speed."""
    excess = generator.exponential(EXCESS_SPEED_KT, BLOCK) * KNOT
    wind = _wind_profile(plan.slope * plan.airspeed * seconds)
    settled = plan.airspeed - wind * plan.head_wind
    along = settled + np.minimum(excess, TAIL * EXCESS_SPEED_KT * KNOT)
    zero, no = np.zeros(BLOCK), np.zeros(BLOCK, bool)
    return FlightStates(
        x=-seconds * settled,
        y=around(generator, 0.0, START_OFFSET_SPREAD),
        height=around(
            generator, plan.crossing + plan.slope * seconds * settled, START_HEIGHT_SPREAD
        ),
        along=along,
        across=zero,
        rise=-plan.slope * along,
        crab=wind * plan.cross_wind,
        flaring=no,
        going=no,
        since=zero,
        sink_then=zero,
        height_then=zero + 1,
    )


def _phase(state: FlightStates, plan: FlightPlans) -> FlightStates:
    """Whether a flight goes around or flares from now on; it does so to the end."""
    approaching = ~(state.going | state.flaring)
    goes = approaching & (state.height < plan.decision_height)
    flares = approaching & ~goes & (state.height < -state.rise * plan.flare_seconds)
    return state._replace(
        going=state.going | goes,
        flaring=state.flaring | flares,
        sink_then=np.where(goes | flares, -state.rise, state.sink_then),
        height_then=np.where(goes | flares, state.height, state.height_then),
    )


def _forward(state: FlightStates, plan: FlightPlans, gusts: np.ndarray) -> FlightStates:
    """One step of time: speeds first, then places by the new speeds, which keeps loops stable."""
    dt = 1 / STEPS_PER_SECOND
    wind = _wind_profile(state.height)
    cross = wind * plan.cross_wind + gusts[1]
    along = state.along + dt * _push_along(state, plan, wind * plan.head_wind + gusts[0])
    across = state.across + dt * _push_across(state, plan, cross)
    rise = state.rise + dt * _push_up(state, plan, gusts[2])
    compensated = cross * (1 - SLIP_FRACTION * state.flaring)
    return state._replace(
        x=state.x + dt * along,
        y=state.y + dt * across,
        height=state.height + dt * rise,
        along=along,
        across=across,
        rise=rise,
        crab=state.crab + dt * (compensated - state.crab) / CRAB_SECONDS,
        since=state.since + dt * state.going,
    )


def _push_along(state: FlightStates, plan: FlightPlans, head: np.ndarray) -> np.ndarray:
    """Thrust returns the airspeed to its target, and is taken away as the flare goes on."""
    target = plan.airspeed + GO_AROUND_EXTRA_KT * KNOT * _spooled(state)
    held = (target - state.along - head) / SPEED_SECONDS
    closed = plan.deceleration * (1 - state.height / state.height_then)
    return np.where(state.flaring, -closed, held)


def _push_across(state: FlightStates, plan: FlightPlans, cross: np.ndarray) -> np.ndarray:
    """Banks return to the line; cross wind not yet met by the crab pushes away from it."""
    rate = plan.offset_rate
    back = -(rate**2) * (state.y - plan.line) - 2 * plan.damping * rate * state.across
    return back + (cross - state.crab) / SIDE_SECONDS


def _push_up(state: FlightStates, plan: FlightPlans, gust: np.ndarray) -> np.ndarray:
    """Vertical acceleration: by the loop on the glide path, the flare or the go-around, and the gust."""
    above = state.height - plan.crossing + plan.slope * state.x
    faster = state.rise + plan.slope * state.along
    on_path = -(plan.height_rate**2) * above - 2 * plan.damping * plan.height_rate * faster
    left = state.height / state.height_then
    flare = -plan.touch_sink - (state.sink_then - plan.touch_sink) * left
    climb = (plan.climb + state.sink_then) * _spooled(state) - state.sink_then
    flown = (np.where(state.going, climb, flare) - state.rise) / RESPONSE_SECONDS
    lift = gust * np.clip(state.height / GROUND_HEIGHT, 0, 1) / HEAVE_SECONDS
    return lift + np.where(state.going | state.flaring, flown, on_path)


def _spooled(state: FlightStates) -> np.ndarray:
    """The fraction of go-around thrust that the engines give by now; 0 before the decision."""
    return np.minimum(state.since / SPOOL_SECONDS, 1)


def _wind_profile(height: np.ndarray) -> np.ndarray:
    return (np.maximum(height, LEAST_WIND_HEIGHT) / WIND_HEIGHT) ** WIND_EXPONENT


def _gusts(plan: FlightPlans, generator: np.random.Generator, count: int) -> np.ndarray:
    """Ornstein-Uhlenbeck processes (time, axis, flight)."""
    calm = CALM_WIND_KT * KNOT
    sd = GUST_FRACTIONS * np.sqrt(plan.head_wind**2 + plan.cross_wind**2 + calm**2)
    memory = np.exp(-1 / (STEPS_PER_SECOND * GUST_SECONDS))
    return sd * autoregressive(generator.standard_normal((count, 3, BLOCK)), memory)


def autoregressive(noise: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """White noise made autoregressive along its first axis, with the same variance throughout."""
    noise[1:] *= np.sqrt(1 - memory**2)
    for k in range(1, len(noise)):
        noise[k] += memory * noise[k - 1]
    return noise
