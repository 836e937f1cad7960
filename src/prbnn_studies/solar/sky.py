"""Sun, clouds and weather over a plant in the Sonoran desert, minute by minute.

Arrays are (days, minutes), with a last axis for patches of the plant where clouds differ. Angles are in
radians, irradiance in W/m2, temperature in Celsius, wind in m/s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LATITUDE, LONGITUDE = np.radians(32.6), -111.3  # near Red Rock, Arizona
CLOCK_MERIDIAN = -105.0  # Mountain Standard Time, all summer long
MINUTES = 1440

# Beam through clear air after Meinel: S 0.7^(airmass^0.678), and 1/10 of it from the whole sky.
SOLAR_CONSTANT, CLEAR_AIR, AIRMASS_POWER, SKY_FRACTION = 1361.0, 0.7, 0.678, 0.1
ALBEDO = 0.25  # of pale desert ground

TILT = np.radians(20)  # of the modules, which face south

# Days are clear, broken or overcast; the monsoon of July to mid-September has more of the last two.
KINDS, KIND_FRACTIONS, MONSOON_FRACTIONS = (
    ("clear", "broken", "overcast"),
    (0.74, 0.20, 0.06),
    (0.5, 0.4, 0.1),
)
MONSOON = (182, 258)  # days of the year
COVERS = {"clear": (0.0, 0.04), "broken": (0.15, 0.6), "overcast": (0.7, 0.95)}
PATCH_MINUTES = 9.0  # for which clouds stay over a patch
PATCH_SHARED = 0.75  # correlation of the clouds of two patches
EDGE = 0.35  # softness of a cloud's edge, in standard deviations
BEAM_THROUGH, SKY_GAIN = 0.2, 1.2  # a cloud's beam, and what it adds to the light of the sky
EDGE_GAIN = 0.06  # of the beam, reflected from the bright edge of a cloud beside the sun

# Air: means and swings of the site; it is hottest late in the afternoon.
MEAN_YEAR, SWING_YEAR, HOTTEST_DAY = 21.0, 12.5, 202
SWING_DAY, HOTTEST_HOUR = 7.5, 16.5
SPELL, SPELL_MEMORY = 2.4, 0.75  # of warm and cool spells, and their correlation from day to day
CLOUD_COOLS = 3.0
WIND_MEAN, WIND_AFTERNOON, WIND_SPREAD, WIND_MINUTES = 2.6, 1.4, 0.45, 40.0


class Sun(NamedTuple):
    """Unit vector to the sun: east, north, up."""

    east: np.ndarray
    north: np.ndarray
    up: np.ndarray


class Sky(NamedTuple):
    """What falls on the plant: beam and plane-of-array irradiance by patch, air, wind, cloud cover."""

    sun: Sun
    beam: np.ndarray
    array: np.ndarray
    air: np.ndarray
    wind: np.ndarray
    cover: np.ndarray


def sun_at(day: np.ndarray, minute: np.ndarray) -> Sun:
    """Where the sun is on days of the year at minutes of the clock.

    >>> noon = sun_at(np.array([172]), np.array([12 * 60 + 27]))
    >>> round(float(np.degrees(np.arcsin(noon.up[0]))))  # 90 - 32.6 + 23.4
    81
    """
    turn = 2 * np.pi * (day - 81) / 364
    late = 9.87 * np.sin(2 * turn) - 7.53 * np.cos(turn) - 1.5 * np.sin(turn)
    solar = minute + 4 * (LONGITUDE - CLOCK_MERIDIAN) + late
    hour = 2 * np.pi * (solar - MINUTES / 2) / MINUTES
    tilt = np.radians(23.45) * np.sin(2 * np.pi * (284 + day) / 365)
    return Sun(
        -np.cos(tilt) * np.sin(hour),
        np.cos(LATITUDE) * np.sin(tilt) - np.sin(LATITUDE) * np.cos(tilt) * np.cos(hour),
        np.sin(LATITUDE) * np.sin(tilt) + np.cos(LATITUDE) * np.cos(tilt) * np.cos(hour),
    )


def clear_beam(up: np.ndarray) -> np.ndarray:
    """Direct irradiance on a surface that faces the sun through clear air; 0 below the horizon."""
    height = np.degrees(np.arcsin(np.clip(up, 0.0, 1.0)))
    airmass = 1 / (np.clip(up, 0.0, 1.0) + 0.50572 * (height + 6.07995) ** -1.6364)
    return np.where(up > 0, SOLAR_CONSTANT * CLEAR_AIR ** (airmass**AIRMASS_POWER), 0.0)


def on_modules(sun: Sun, beam: np.ndarray, sky: np.ndarray) -> np.ndarray:
    """Beam, light of the sky and of the ground on the plane of the array, by patch."""
    facing = np.maximum(sun.up * np.cos(TILT) - sun.north * np.sin(TILT), 0.0)[..., None]
    height = np.maximum(sun.up, 0.0)[..., None]
    seen = (1 + np.cos(TILT)) / 2
    return beam * facing + sky * seen + ALBEDO * (beam * height + sky) * (1 - seen)


def over(day: np.ndarray, patches: int, generator: np.random.Generator) -> Sky:
    """Sky and weather of days, given by their numbers in the year."""
    minute = np.arange(MINUTES)
    sun = sun_at(day[:, None], minute[None, :])
    cover = _cover(day, generator)
    shade = _shade(cover, patches, generator)
    clear = clear_beam(sun.up)[..., None]
    beam = clear * (1 - (1 - BEAM_THROUGH) * shade)
    sky = SKY_FRACTION * clear * (1 + SKY_GAIN * shade) + EDGE_GAIN * clear * 4 * shade * (
        1 - shade
    )
    air = _air(day, cover, generator)
    return Sky(sun, beam, on_modules(sun, beam, sky), air, _wind(len(day), generator), cover)


def wandering(
    generator: np.random.Generator, shape: tuple[int, ...], steps: int, memory: float
) -> np.ndarray:
    """Standard normal series (shape, steps) with a correlation of exp(-1 / memory) per step."""
    keep = np.exp(-1 / memory)
    noise = generator.standard_normal((steps, *shape))
    series = np.empty_like(noise)
    series[0] = noise[0]
    for step in range(1, steps):
        series[step] = keep * series[step - 1] + np.sqrt(1 - keep**2) * noise[step]
    return np.moveaxis(series, 0, -1)


def _cover(day: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Fraction of the sky that clouds cover, one number per day."""
    rainy = (day >= MONSOON[0]) & (day <= MONSOON[1])
    fractions = np.where(rainy[:, None], MONSOON_FRACTIONS, KIND_FRACTIONS)
    kind = np.sum(generator.random((len(day), 1)) > np.cumsum(fractions, axis=1)[:, :-1], axis=1)
    low, high = np.array([COVERS[name] for name in KINDS]).T
    return low[kind] + (high - low)[kind] * generator.random(len(day))


def _shade(cover: np.ndarray, patches: int, generator: np.random.Generator) -> np.ndarray:
    """Fraction of the sun that a cloud covers, 0 to 1, (days, minutes, patches)."""
    days = len(cover)
    common = wandering(generator, (days, 1), MINUTES, 2 * PATCH_MINUTES)
    own = wandering(generator, (days, patches), MINUTES, PATCH_MINUTES)
    field = np.sqrt(PATCH_SHARED) * common + np.sqrt(1 - PATCH_SHARED) * own
    level = _quantile(cover)[:, None, None]
    return np.moveaxis(1 / (1 + np.exp(-(level - field) / EDGE)), 1, 2)


def _quantile(fraction: np.ndarray) -> np.ndarray:
    """Of the standard normal distribution, by its logistic approximation."""
    fraction = np.clip(fraction, 1e-4, 1 - 1e-4)
    return np.log(fraction / (1 - fraction)) / 1.702


def _air(day: np.ndarray, cover: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    spell = SPELL * wandering(generator, (), len(day), -1 / np.log(SPELL_MEMORY))
    mean = MEAN_YEAR + SWING_YEAR * np.cos(2 * np.pi * (day - HOTTEST_DAY) / 365)
    hour = np.arange(MINUTES) / 60
    swing = SWING_DAY * np.cos(2 * np.pi * (hour - HOTTEST_HOUR) / 24)
    return (mean + spell - CLOUD_COOLS * cover)[:, None] + swing


def _wind(days: int, generator: np.random.Generator) -> np.ndarray:
    hour = np.arange(MINUTES) / 60
    usual = WIND_MEAN + WIND_AFTERNOON * np.cos(2 * np.pi * (hour - HOTTEST_HOUR) / 24)
    gusts = wandering(generator, (days,), MINUTES, WIND_MINUTES)
    return usual * np.exp(WIND_SPREAD * gusts - WIND_SPREAD**2 / 2)
