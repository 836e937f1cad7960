"""Made-up landing approaches to one runway, where no radar tracks are at hand or truth is needed.

Every flight is a plan (an aircraft, its wind, its glide path, when and how its pilot flares) flown
by small steps of time: loops hold the glide path, the centreline and the airspeed against gusts,
until the wheels touch or the pilot goes around. A radar then reports the flight with its own
noise, smoothing and rounding. Distances are in ft and speeds in ft/s unless a name says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prbnn_studies.landing.tracks import VARIABLES, Tracks

# Runway 26R of Atlanta: its landing threshold; it is flown towards due west.
THRESHOLD_LATITUDE, THRESHOLD_LONGITUDE = 33.6495, -84.4080
FIELD_ELEVATION = 1000.0
RUNWAY_COURSE = 270.0
FEET_PER_METRE = 1 / 0.3048
LATITUDE_DEGREE = 110_922 * FEET_PER_METRE  # of the WGS 84 ellipsoid at 33.63 N
LONGITUDE_DEGREE = 92_790 * FEET_PER_METRE
KNOT = 1.68781  # ft/s


class Aircraft(NamedTuple):
    """A class of aircraft: heavier ones approach faster and start to flare earlier."""

    share: float
    approach_speed_kt: float
    flare_seconds: float  # to the ground at the present sink rate, when the flare starts


# Shares are those of an airline's hub; speeds are usual ones at landing weight.
CLASSES = {
    "turboprop": Aircraft(0.03, 120, 2.1),
    "regional jet": Aircraft(0.22, 132, 2.3),
    "narrow-body": Aircraft(0.67, 138, 2.5),
    "wide-body": Aircraft(0.08, 146, 3.0),
}
SPEED_SPREAD_KT = 4.0  # landing weights differ within a class
TAIL = 2.5  # spreads at which plans are cut: an approach further off is not continued

# Wind. Traffic lands into the wind, so the head wind is rarely below 0.
HEAD_WIND_KT, HEAD_WIND_SPREAD_KT, CROSS_WIND_SPREAD_KT = 7.0, 4.0, 5.0
WIND_HEIGHT, WIND_EXPONENT = 33.0, 1 / 7  # reported at 10 m; power law of a neutral boundary layer
LEAST_WIND_HEIGHT = 10.0  # a wing stays this high on the runway
# Gusts along, across and upwards: shares of the wind and lengths over the speed, both after the
# low-altitude turbulence of MIL-F-8785C.
GUST_SHARES = np.array([0.2, 0.2, 0.1])[:, None]
GUST_SECONDS = np.array([3.0, 3.0, 1.0])[:, None]
CALM_WIND_KT = 5.0  # warm air is as rough in a calm as in this wind
GROUND_HEIGHT = 60.0  # upward gusts fade below it: air cannot blow through the runway

# Glide path: 3 degrees over the threshold at 50 ft, as well as an instrument or an eye holds it.
GLIDE_DEGREES, GLIDE_SPREAD_DEGREES = 3.0, 0.07
CROSSING_HEIGHT, CROSSING_SPREAD = 50.0, 8.0
LINE_SPREAD = 10.0  # of the line flown about the centreline: a receiver's error, a pilot's habit
START_HEIGHT_SPREAD, START_OFFSET_SPREAD = 30.0, 220.0  # off the path, where the flight starts
MARGIN_SECONDS = 18.0  # from the threshold beyond the record's length: go-arounds end early

# Loops. Pilots and autopilots correct height faster than offset, both well damped.
HEIGHT_RATE, HEIGHT_RATE_SPREAD = 0.25, 0.03  # rad/s
OFFSET_RATE, OFFSET_RATE_SPREAD = 0.11, 0.015
DAMPING, DAMPING_SPREAD = 0.75, 0.08
HEAVE_SECONDS = 2.5  # in which lift carries an aircraft along with an upward gust
SIDE_SECONDS = 6.0  # the same across: a fuselage is a smaller wing
CRAB_SECONDS = 4.0  # to turn the nose into a cross wind that has changed
SLIP_SHARE = 0.2  # of the cross wind that the lowered wing does not hold when the nose is straight
SPEED_SECONDS = 7.0  # thrust needs seconds to bring an airspeed back
WIND_ADDITIVE, MOST_ADDITIVE_KT = 0.5, 15.0  # half the head wind is added, as manuals ask
EXCESS_SPEED_KT = 4.0  # mean of what is still to be slowed down at the start

# Flare: the sink rate falls in proportion to height, to a touch that is firm but not hard.
FLARE_SPREAD = 0.12  # of its height, as a share: pilots judge it by eye
TOUCH_SINK, TOUCH_SINK_SPREAD = 1.7, 0.4
RESPONSE_SECONDS = 0.5  # from stick to vertical speed
IDLE_DECELERATION_KT, IDLE_SPREAD_KT = 1.8, 0.4  # per second, thrust levers closed

# Go-arounds: rare; the engines need seconds to spool up before the climb is full.
GO_AROUND_SHARE = 0.01
DECISION_HEIGHTS = (80.0, 250.0)  # above any flare; low enough for a record to be full
GO_AROUND_SECONDS = (15.0, 25.0)  # from the decision to the end of the record
SPOOL_SECONDS = 8.0
CLIMB, CLIMB_SPREAD = 2000 / 60, 3.0
GO_AROUND_EXTRA_KT = 20.0

# Outliers: a quarter each. The first two are the radar's, the others are flown so.
OUTLIER_SHARE = 0.01
OUTLIERS = ("jump", "altimeter", "steep", "s-turns")
JUMPS = (600.0, 2500.0)  # to a neighbouring target or a reflection
ALTIMETER_ERRORS = (150.0, 400.0)  # 0.15 to 0.4 inches of mercury
STEEP_DEGREES = (4.0, 5.2)
TURN_AMPLITUDES, TURN_PERIODS = (100.0, 250.0), (25.0, 35.0)  # banks stay below 30 degrees

# Radar, in the order of VARIABLES: multilateration to some metres, transponder altitudes by 25 ft,
# speed and course from a tracker. Memory is the correlation of errors a second apart.
POSITION_NOISE = 5 * FEET_PER_METRE
NOISE = np.array([POSITION_NOISE / LATITUDE_DEGREE, POSITION_NOISE / LONGITUDE_DEGREE, 5, 1, 0.5])
NOISE_MEMORY = np.array([0.5, 0.5, 0.0, 0.5, 0.5])
TRACKER_MEMORY = np.array([0.0, 0.0, 0.0, 0.5, 0.5])  # smoothing lags behind by a second
RESOLUTION = np.array([1e-5, 1e-5, 25.0, 1.0, 1.0])
ALTIMETER_SPREAD = 10.0  # static pressure is measured with an error that stays all flight long

STEPS_PER_SECOND = 4  # of the integration: fine beside the fastest loop
BLOCK = 512  # flights drawn from one stream: a flight does not depend on how many are asked for


class Plan(NamedTuple):
    """What is decided about flights before they are flown: one entry a flight."""

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


def approaches(flights: int = 7542, seed: int = 0, steps: int = 50) -> Tracks:
    """Flights by seconds that end at touchdown, or some seconds into a go-around.

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
    plan = _plan(generator)
    truth = _truth(_turned(_flown(plan, generator, steps), plan, generator))
    return plan.aircraft, plan.kind, truth, _reported(truth, plan, generator)


def _around(
    generator: np.random.Generator, centre: float | np.ndarray, spread: float
) -> np.ndarray:
    """Normal, its tails cut."""
    return centre + spread * np.clip(generator.standard_normal(BLOCK), -TAIL, TAIL)


def _plan(generator: np.random.Generator) -> Plan:
    """A block of flights; only those that go around have a height to decide at."""
    shares = [aircraft.share for aircraft in CLASSES.values()]
    aircraft = generator.choice(list(CLASSES), BLOCK, p=shares)
    fate = generator.random(BLOCK)
    kind = np.where(fate < GO_AROUND_SHARE, "go-around", "landing")
    kind = np.where(fate > 1 - OUTLIER_SHARE, "outlier", kind)
    outlier = np.where(kind == "outlier", generator.choice(OUTLIERS, BLOCK), "")
    speed_kt = np.array([CLASSES[name].approach_speed_kt for name in aircraft])
    flare_seconds = np.array([CLASSES[name].flare_seconds for name in aircraft])
    head_wind_kt = _around(generator, HEAD_WIND_KT, HEAD_WIND_SPREAD_KT)
    additive_kt = np.clip(WIND_ADDITIVE * head_wind_kt, 0, MOST_ADDITIVE_KT)
    degrees = _around(generator, GLIDE_DEGREES, GLIDE_SPREAD_DEGREES)
    steep = generator.uniform(*STEEP_DEGREES, BLOCK)
    return Plan(
        aircraft=aircraft,
        kind=kind,
        outlier=outlier,
        airspeed=(_around(generator, speed_kt, SPEED_SPREAD_KT) + additive_kt) * KNOT,
        head_wind=head_wind_kt * KNOT,
        cross_wind=_around(generator, 0.0, CROSS_WIND_SPREAD_KT) * KNOT,
        slope=np.tan(np.radians(np.where(outlier == "steep", steep, degrees))),
        crossing=_around(generator, CROSSING_HEIGHT, CROSSING_SPREAD),
        line=_around(generator, 0.0, LINE_SPREAD),
        height_rate=_around(generator, HEIGHT_RATE, HEIGHT_RATE_SPREAD),
        offset_rate=_around(generator, OFFSET_RATE, OFFSET_RATE_SPREAD),
        damping=_around(generator, DAMPING, DAMPING_SPREAD),
        flare_seconds=flare_seconds * _around(generator, 1.0, FLARE_SPREAD),
        touch_sink=_around(generator, TOUCH_SINK, TOUCH_SINK_SPREAD),
        deceleration=_around(generator, IDLE_DECELERATION_KT, IDLE_SPREAD_KT) * KNOT,
        decision_height=generator.uniform(*DECISION_HEIGHTS, BLOCK) * (kind == "go-around"),
        go_around_seconds=generator.uniform(*GO_AROUND_SECONDS, BLOCK),
        climb=_around(generator, CLIMB, CLIMB_SPREAD),
    )


class State(NamedTuple):
    """Flights at one moment: x past the threshold, y north of the centreline, and their phases.

    `since` counts the seconds of a go-around; the last two are of the moment when it or a flare began.
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


def _flown(plan: Plan, generator: np.random.Generator, steps: int) -> np.ndarray:
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


def _start(plan: Plan, generator: np.random.Generator, seconds: float) -> State:
    """On the glide path but for an offset, a deviation in height and some speed to lose."""
    excess = generator.exponential(EXCESS_SPEED_KT, BLOCK) * KNOT
    wind = _wind_profile(plan.slope * plan.airspeed * seconds)
    settled = plan.airspeed - wind * plan.head_wind
    along = settled + np.minimum(excess, TAIL * EXCESS_SPEED_KT * KNOT)
    nothing, no = np.zeros(BLOCK), np.zeros(BLOCK, bool)
    return State(
        x=-seconds * settled,
        y=_around(generator, 0.0, START_OFFSET_SPREAD),
        height=_around(
            generator, plan.crossing + plan.slope * seconds * settled, START_HEIGHT_SPREAD
        ),
        along=along,
        across=nothing,
        rise=-plan.slope * along,
        crab=wind * plan.cross_wind,
        flaring=no,
        going=no,
        since=nothing,
        sink_then=nothing,
        height_then=nothing + 1,
    )


def _phase(state: State, plan: Plan) -> State:
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


def _forward(state: State, plan: Plan, gusts: np.ndarray) -> State:
    """One step of time: speeds first, then places by the new speeds, which keeps loops stable."""
    dt = 1 / STEPS_PER_SECOND
    wind = _wind_profile(state.height)
    cross = wind * plan.cross_wind + gusts[1]
    along = state.along + dt * _push_along(state, plan, wind * plan.head_wind + gusts[0])
    across = state.across + dt * _push_across(state, plan, cross)
    rise = state.rise + dt * _push_up(state, plan, gusts[2])
    compensated = cross * (1 - SLIP_SHARE * state.flaring)
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


def _push_along(state: State, plan: Plan, head: np.ndarray) -> np.ndarray:
    """Thrust returns the airspeed to its target, and is taken away as the flare goes on."""
    target = plan.airspeed + GO_AROUND_EXTRA_KT * KNOT * _spooled(state)
    held = (target - state.along - head) / SPEED_SECONDS
    closed = plan.deceleration * (1 - state.height / state.height_then)
    return np.where(state.flaring, -closed, held)


def _push_across(state: State, plan: Plan, cross: np.ndarray) -> np.ndarray:
    """Banks return to the line; cross wind not yet met by the crab pushes away from it."""
    rate = plan.offset_rate
    back = -(rate**2) * (state.y - plan.line) - 2 * plan.damping * rate * state.across
    return back + (cross - state.crab) / SIDE_SECONDS


def _push_up(state: State, plan: Plan, gust: np.ndarray) -> np.ndarray:
    """Of the glide path's loop, of the flare or of the go-around, and of the gust."""
    above = state.height - plan.crossing + plan.slope * state.x
    faster = state.rise + plan.slope * state.along
    on_path = -(plan.height_rate**2) * above - 2 * plan.damping * plan.height_rate * faster
    share = state.height / state.height_then
    flare = -plan.touch_sink - (state.sink_then - plan.touch_sink) * share
    climb = (plan.climb + state.sink_then) * _spooled(state) - state.sink_then
    flown = (np.where(state.going, climb, flare) - state.rise) / RESPONSE_SECONDS
    lift = gust * np.clip(state.height / GROUND_HEIGHT, 0, 1) / HEAVE_SECONDS
    return lift + np.where(state.going | state.flaring, flown, on_path)


def _spooled(state: State) -> np.ndarray:
    """The share of go-around thrust that the engines give by now; 0 before the decision."""
    return np.minimum(state.since / SPOOL_SECONDS, 1)


def _wind_profile(height: np.ndarray) -> np.ndarray:
    return (np.maximum(height, LEAST_WIND_HEIGHT) / WIND_HEIGHT) ** WIND_EXPONENT


def _gusts(plan: Plan, generator: np.random.Generator, count: int) -> np.ndarray:
    """Ornstein-Uhlenbeck processes (time, axis, flight)."""
    calm = CALM_WIND_KT * KNOT
    sd = GUST_SHARES * np.sqrt(plan.head_wind**2 + plan.cross_wind**2 + calm**2)
    memory = np.exp(-1 / (STEPS_PER_SECOND * GUST_SECONDS))
    return sd * _remembering(generator.standard_normal((count, 3, BLOCK)), memory)


def _remembering(noise: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """White noise made autoregressive along its first axis, with the same variance throughout."""
    noise[1:] *= np.sqrt(1 - memory**2)
    for k in range(1, len(noise)):
        noise[k] += memory * noise[k - 1]
    return noise


def _turned(states: np.ndarray, plan: Plan, generator: np.random.Generator) -> np.ndarray:
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
    """In the units of VARIABLES."""
    x, y, height, along, across = np.moveaxis(states, -1, 0)
    parts = (
        THRESHOLD_LATITUDE + y / LATITUDE_DEGREE,
        THRESHOLD_LONGITUDE - x / LONGITUDE_DEGREE,
        FIELD_ELEVATION + height,
        np.hypot(along, across) / KNOT,
        RUNWAY_COURSE + np.degrees(np.arctan2(across, along)),
    )
    return np.stack(parts, axis=-1)


def _reported(truth: np.ndarray, plan: Plan, generator: np.random.Generator) -> np.ndarray:
    """What the radar makes of the truth: lagging, noisy and rounded."""
    values = truth.swapaxes(0, 1).copy()
    for k in range(1, len(values)):
        values[k] += TRACKER_MEMORY * (values[k - 1] - values[k])
    values += NOISE * _remembering(generator.standard_normal(values.shape), NOISE_MEMORY)
    values[..., 2] += _around(generator, 0.0, ALTIMETER_SPREAD)
    values = values.swapaxes(0, 1) + _faults(plan, generator, len(values))
    return np.round(values / RESOLUTION) * RESOLUTION


def _faults(plan: Plan, generator: np.random.Generator, steps: int) -> np.ndarray:
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
