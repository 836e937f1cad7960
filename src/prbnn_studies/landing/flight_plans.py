"""Plans of simulated approaches: aircraft, wind, glide path, flare, go-around, drawn at random.

Distances are in ft and speeds in ft/s unless a name says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

KNOT = 1.68781  # ft/s
BLOCK = 512  # flights drawn from one stream: a flight does not depend on how many are asked for


class Aircraft(NamedTuple):
    """A class of aircraft: heavier ones approach faster and start to flare earlier."""

    fraction: float
    approach_speed_kt: float
    flare_seconds: float  # to the ground at the present sink rate, when the flare starts


# Fractions are those of an airline's hub; speeds are usual ones at landing weight.
CLASSES = {
    "turboprop": Aircraft(0.03, 120, 2.1),
    "regional jet": Aircraft(0.22, 132, 2.3),
    "narrow-body": Aircraft(0.67, 138, 2.5),
    "wide-body": Aircraft(0.08, 146, 3.0),
}
SPEED_SPREAD_KT = 4.0  # landing weights differ within a class
TAIL = 2.5  # standard deviations at which plans are cut: an approach further off is not continued

# Wind. Traffic lands into the wind, so the head wind is rarely below 0.
HEAD_WIND_KT, HEAD_WIND_SPREAD_KT, CROSS_WIND_SPREAD_KT = 7.0, 4.0, 5.0

# Glide path: 3 degrees over the threshold at 50 ft, as well as an instrument or an eye holds it.
GLIDE_DEGREES, GLIDE_SPREAD_DEGREES = 3.0, 0.07
CROSSING_HEIGHT, CROSSING_SPREAD = 50.0, 8.0
LINE_SPREAD = 10.0  # of the line flown about the centreline: a receiver's error, a pilot's habit

# Control loops. Pilots and autopilots correct height faster than offset, both well damped.
HEIGHT_RATE, HEIGHT_RATE_SPREAD = 0.25, 0.03  # rad/s
OFFSET_RATE, OFFSET_RATE_SPREAD = 0.11, 0.015
DAMPING, DAMPING_SPREAD = 0.75, 0.08
WIND_ADDITIVE, MOST_ADDITIVE_KT = 0.5, 15.0  # half the head wind is added, as manuals ask

# Flare: the sink rate falls in proportion to height, to a touch that is firm but not hard.
FLARE_SPREAD = 0.12  # relative, of its height: pilots judge it by eye
TOUCH_SINK, TOUCH_SINK_SPREAD = 1.7, 0.4
IDLE_DECELERATION_KT, IDLE_SPREAD_KT = 1.8, 0.4  # per second, thrust levers closed

# Go-arounds are rare.
GO_AROUND_FRACTION = 0.01
DECISION_HEIGHTS = (80.0, 250.0)  # above any flare; low enough for a record to be full
GO_AROUND_SECONDS = (15.0, 25.0)  # from the decision to the end of the record
CLIMB, CLIMB_SPREAD = 2000 / 60, 3.0

# Outliers: a quarter each. The first two are the radar's, the others are flown so.
OUTLIER_FRACTION = 0.01
OUTLIERS = ("jump", "altimeter", "steep", "s-turns")
STEEP_DEGREES = (4.0, 5.2)


class FlightPlans(NamedTuple):
    """What is decided about flights before they are flown: one entry per flight."""

    aircraft: np.ndarray
    kind: np.ndarray
    outlier: np.ndarray
    airspeed: np.ndarray
    head_wind: np.ndarray
    cross_wind: np.ndarray
    slope: np.ndarray
    crossing: np.ndarray
    line: np.ndarray
    height_rate: np.ndarray
    offset_rate: np.ndarray
    damping: np.ndarray
    flare_seconds: np.ndarray
    touch_sink: np.ndarray
    deceleration: np.ndarray
    decision_height: np.ndarray
    go_around_seconds: np.ndarray
    climb: np.ndarray


def around(generator: np.random.Generator, centre: float | np.ndarray, spread: float) -> np.ndarray:
    """Normal numbers, one per flight of a block, clipped at ``TAIL`` standard deviations."""
    return centre + spread * np.clip(generator.standard_normal(BLOCK), -TAIL, TAIL)


def draw_plans(generator: np.random.Generator) -> FlightPlans:
    """Plans of a block of flights; those that land have a decision height of 0."""
    fractions = [aircraft.fraction for aircraft in CLASSES.values()]
    aircraft = generator.choice(list(CLASSES), BLOCK, p=fractions)
    fate = generator.random(BLOCK)
    kind = np.where(fate < GO_AROUND_FRACTION, "go-around", "landing")
    kind = np.where(fate > 1 - OUTLIER_FRACTION, "outlier", kind)
    outlier = np.where(kind == "outlier", generator.choice(OUTLIERS, BLOCK), "")
    speed_kt = np.array([CLASSES[name].approach_speed_kt for name in aircraft])
    flare_seconds = np.array([CLASSES[name].flare_seconds for name in aircraft])
    head_wind_kt = around(generator, HEAD_WIND_KT, HEAD_WIND_SPREAD_KT)
    additive_kt = np.clip(WIND_ADDITIVE * head_wind_kt, 0, MOST_ADDITIVE_KT)
    degrees = around(generator, GLIDE_DEGREES, GLIDE_SPREAD_DEGREES)
    steep = generator.uniform(*STEEP_DEGREES, BLOCK)
    return FlightPlans(
        aircraft=aircraft,
        kind=kind,
        outlier=outlier,
        airspeed=(around(generator, speed_kt, SPEED_SPREAD_KT) + additive_kt) * KNOT,
        head_wind=head_wind_kt * KNOT,
        cross_wind=around(generator, 0.0, CROSS_WIND_SPREAD_KT) * KNOT,
        slope=np.tan(np.radians(np.where(outlier == "steep", steep, degrees))),
        crossing=around(generator, CROSSING_HEIGHT, CROSSING_SPREAD),
        line=around(generator, 0.0, LINE_SPREAD),
        height_rate=around(generator, HEIGHT_RATE, HEIGHT_RATE_SPREAD),
        offset_rate=around(generator, OFFSET_RATE, OFFSET_RATE_SPREAD),
        damping=around(generator, DAMPING, DAMPING_SPREAD),
        flare_seconds=flare_seconds * around(generator, 1.0, FLARE_SPREAD),
        touch_sink=around(generator, TOUCH_SINK, TOUCH_SINK_SPREAD),
        deceleration=around(generator, IDLE_DECELERATION_KT, IDLE_SPREAD_KT) * KNOT,
        decision_height=generator.uniform(*DECISION_HEIGHTS, BLOCK) * (kind == "go-around"),
        go_around_seconds=generator.uniform(*GO_AROUND_SECONDS, BLOCK),
        climb=around(generator, CLIMB, CLIMB_SPREAD),
    )
