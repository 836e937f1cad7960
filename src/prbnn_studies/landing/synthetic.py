"""Simulated landing approaches to one runway, where no radar tracks are at hand or truth is needed.

Every flight is a plan (an aircraft, its wind, its glide path, when and how its pilot flares) flown
by small steps of time: control loops hold the glide path, the centreline and the airspeed against
gusts, until the wheels touch or the pilot goes around. A radar then reports the flight with its own
noise, smoothing and rounding. Distances are in ft and speeds in ft/s unless a name says otherwise.
"""

from __future__ import annotations

import numpy as np

from prbnn_studies.landing.flight_plans import BLOCK, KNOT, FlightPlans, around, draw_plans
from prbnn_studies.landing.flying import autoregressive, flown
from prbnn_studies.landing.tracks import VARIABLES, Tracks

# Runway 26R of Atlanta: its landing threshold; it is flown towards due west.
THRESHOLD_LATITUDE, THRESHOLD_LONGITUDE = 33.6495, -84.4080
FIELD_ELEVATION = 1000.0
RUNWAY_COURSE = 270.0
FEET_PER_METRE = 1 / 0.3048
LATITUDE_DEGREE = 110_922 * FEET_PER_METRE  # of the WGS 84 ellipsoid at 33.63 N
LONGITUDE_DEGREE = 92_790 * FEET_PER_METRE

# Outliers of the radar (a jump, an altimeter) and of the flight (s-turns).
JUMPS = (600.0, 2500.0)  # to a neighbouring target or a reflection
ALTIMETER_ERRORS = (150.0, 400.0)  # 0.15 to 0.4 inches of mercury
TURN_AMPLITUDES, TURN_PERIODS = (100.0, 250.0), (25.0, 35.0)  # banks stay below 30 degrees

# Radar, in the order of VARIABLES: multilateration to some metres, transponder altitudes by 25 ft,
# speed and course from a tracker. Memory is the correlation of errors one second apart.
POSITION_NOISE = 5 * FEET_PER_METRE
NOISE = np.array([POSITION_NOISE / LATITUDE_DEGREE, POSITION_NOISE / LONGITUDE_DEGREE, 5, 1, 0.5])
NOISE_MEMORY = np.array([0.5, 0.5, 0.0, 0.5, 0.5])
TRACKER_MEMORY = np.array([0.0, 0.0, 0.0, 0.5, 0.5])  # smoothing lags behind by a second
RESOLUTION = np.array([1e-5, 1e-5, 25.0, 1.0, 1.0])
ALTIMETER_SPREAD = 10.0  # static pressure is measured with an error that stays all flight long


def approaches(flights: int = 7542, seed: int = 0, steps: int = 50) -> Tracks:
    """Flights with one step per second that end at touchdown, or some seconds into a go-around.

    A name is the flight's number and its class of aircraft.

    >>> tracks = approaches(3)
    >>> tracks.values.shape, tracks.variables[2]
    ((3, 50, 5), 'altitude')
    >>> tracks.names[0], round(float(tracks.truth[0, -1, 2]))
    (np.str_('00000 narrow-body'), 1000)
    """
    if flights < 1 or steps < 2:
        raise ValueError(f"flights must be >= 1 and steps >= 2, received {flights} and {steps}")
    blocks = [_block(seed, number, steps) for number in range(-(-flights // BLOCK))]
    aircraft, kinds, truth, values = (
        np.concatenate(part)[:flights] for part in zip(*blocks, strict=True)
    )
    names = np.array([f"{k:05d} {name}" for k, name in enumerate(aircraft)])
    return Tracks(names, values, VARIABLES, 1.0, kinds, truth, None, {})


def _block(seed: int, number: int, steps: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng([seed, number])
    plan = draw_plans(generator)
    truth = _truth(_turned(flown(plan, generator, steps), plan, generator))
    return plan.aircraft, plan.kind, truth, _reported(truth, plan, generator)


def _turned(states: np.ndarray, plan: FlightPlans, generator: np.random.Generator) -> np.ndarray:
    """S-turns added to the flown path, amplitude * sin(rate * left) * left / steps."""
    amplitude = generator.uniform(*TURN_AMPLITUDES, (BLOCK, 1))
    rate = 2 * np.pi / generator.uniform(*TURN_PERIODS, (BLOCK, 1))
    steps = states.shape[1]
    left = np.arange(steps - 1, -1, -1.0)
    size = amplitude / steps * (plan.outlier == "s-turns")[:, None]
    states[..., 1] += size * left * np.sin(rate * left)
    states[..., 4] -= size * (np.sin(rate * left) + rate * left * np.cos(rate * left))
    return states


def _truth(states: np.ndarray) -> np.ndarray:
    """States in the units of VARIABLES."""
    x, y, height, along, across = np.moveaxis(states, -1, 0)
    parts = (
        THRESHOLD_LATITUDE + y / LATITUDE_DEGREE,
        THRESHOLD_LONGITUDE - x / LONGITUDE_DEGREE,
        FIELD_ELEVATION + height,
        np.hypot(along, across) / KNOT,
        RUNWAY_COURSE + np.degrees(np.arctan2(across, along)),
    )
    return np.stack(parts, axis=-1)


def _reported(truth: np.ndarray, plan: FlightPlans, generator: np.random.Generator) -> np.ndarray:
    """What the radar reports of the truth: lagging, noisy and rounded."""
    values = truth.swapaxes(0, 1).copy()
    for k in range(1, len(values)):
        values[k] += TRACKER_MEMORY * (values[k - 1] - values[k])
    values += NOISE * autoregressive(generator.standard_normal(values.shape), NOISE_MEMORY)
    values[..., 2] += around(generator, 0.0, ALTIMETER_SPREAD)
    values = values.swapaxes(0, 1) + _faults(plan, generator, len(values))
    return np.round(values / RESOLUTION) * RESOLUTION


def _faults(plan: FlightPlans, generator: np.random.Generator, steps: int) -> np.ndarray:
    """Of outliers: positions that jump at some step and stay away; a wrong altimeter setting."""
    direction = generator.uniform(0, 2 * np.pi, BLOCK)
    distance = generator.uniform(*JUMPS, BLOCK) * (plan.outlier == "jump")
    jumped = np.arange(steps) >= generator.integers(steps // 4, steps - steps // 8, (BLOCK, 1))
    setting = generator.uniform(*ALTIMETER_ERRORS, BLOCK) * generator.choice([-1, 1], BLOCK)
    faults = np.zeros((BLOCK, steps, len(VARIABLES)))
    faults[..., 0] = jumped * (distance * np.sin(direction) / LATITUDE_DEGREE)[:, None]
    faults[..., 1] = jumped * (distance * np.cos(direction) / LONGITUDE_DEGREE)[:, None]
    faults[..., 2] = (setting * (plan.outlier == "altimeter"))[:, None]
    return faults
