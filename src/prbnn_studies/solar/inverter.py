"""An array and its inverter: module temperature, losses, heat in the power stage, derating.

Powers are fractions of the inverter's rating unless a name says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RATING = 1.0e6  # W
ARRAY = 1.28  # DC power at 1000 W/m2 and 25 C
TEMPERATURE_COEFFICIENT = -0.0038  # of the modules' power, per kelvin
# Faiman's coefficients of module temperature, and the minutes modules need to follow
STILL_AIR, PER_WIND, MODULE_MINUTES = 25.0, 6.84, 6.0
# losses at output p: standing + linear p + ohmic p^2; efficiency 98 % at the rating
STANDING, LINEAR, OHMIC = 0.003, 0.005, 0.012

# The power stage (IGBT): its heat sink is blown with air that the west wall of the cabinet has warmed.
HEAT_RISE = 22.0  # K above the inlet air at the rating, with clean filters
STAGE_MINUTES = 20.0
# sun on the wall at 1000 W/m2 warms the inlet as sol-air does: absorptance 0.7, 20 W/m2 K
WALL_RISE = 0.7 * 1000 / 20
# The plate: above DERATE the output is limited to a fraction of the rating that falls from the first
# number to the second at OFF; above OFF the stage is switched off. Each ends below its reset temperature.
DERATE, OFF, DERATE_RESET, OFF_RESET = 78.0, 98.0, 73.0, 60.0
LIMIT_AT_DERATE, LIMIT_AT_OFF = 0.80, 0.50


class InverterRun(NamedTuple):
    """An inverter minute by minute, (days, minutes)."""

    power: np.ndarray
    possible: np.ndarray  # what would have been delivered without a temperature limit
    array: np.ndarray  # DC power taken from the modules
    stage: np.ndarray  # IGBT temperature
    limit: np.ndarray  # what temperature allows: 1, the plate's fraction, or 0
    derating: np.ndarray
    off: np.ndarray


def losses(power: np.ndarray) -> np.ndarray:
    """Power that the inverter turns into heat at an output; 0 at rest."""
    return np.where(power > 0, STANDING + LINEAR * power + OHMIC * power**2, 0.0)


def output(array: np.ndarray) -> np.ndarray:
    """AC power for a DC power: the root of array = power + losses(power), 0 where too little."""
    spare = np.maximum(array - STANDING, 0.0)
    slope = 1 + LINEAR
    return (np.sqrt(slope**2 + 4 * OHMIC * spare) - slope) / (2 * OHMIC)


def plate_limit(temperature: np.ndarray) -> np.ndarray:
    """What a derating stage may deliver, as its plate says.

    >>> plate_limit(np.array([78.0, 88.0, 100.0])).tolist()
    [0.8, 0.65, 0.5]
    """
    part = np.clip((temperature - DERATE) / (OFF - DERATE), 0.0, 1.0)
    return LIMIT_AT_DERATE + (LIMIT_AT_OFF - LIMIT_AT_DERATE) * part


def array_power(irradiance: np.ndarray, module: np.ndarray, clean: np.ndarray) -> np.ndarray:
    """DC power that modules could give; hotter and dustier ones give less."""
    warm = 1 + TEMPERATURE_COEFFICIENT * (module - 25)
    return ARRAY * irradiance / 1000 * warm * clean


def module_temperature(irradiance: np.ndarray, air: np.ndarray, wind: np.ndarray) -> np.ndarray:
    """Faiman's temperature of modules, followed with a lag."""
    target = air + irradiance / (STILL_AIR + PER_WIND * wind)
    followed = np.empty_like(target)
    followed[:, 0] = target[:, 0]
    for minute in range(1, target.shape[1]):
        before = followed[:, minute - 1]
        followed[:, minute] = before + (target[:, minute] - before) / MODULE_MINUTES
    return followed


def run(
    array: np.ndarray,
    inlet: np.ndarray,
    allowed: np.ndarray,
    blocked: np.ndarray,
    tripped: np.ndarray,
) -> InverterRun:
    """Drive the inverter through days that start at rest, cool and dark.

    ``allowed`` is what grid and operator let it deliver, ``blocked`` multiplies the rise of its stage
    (dusty filters, a fan at rest), ``tripped`` says when its protection is tested by hand.
    """
    days, minutes = array.shape
    stage, derating, off = inlet[:, 0].copy(), np.zeros(days, bool), np.zeros(days, bool)
    record = [np.empty((days, minutes)) for _ in range(4)]
    states = [np.empty((days, minutes), bool) for _ in range(2)]
    full_heat = float(losses(np.array(1.0)))
    possible = np.minimum(np.minimum(output(array), 1.0), allowed)
    for minute in range(minutes):
        derating = (stage >= DERATE) | (derating & (stage > DERATE_RESET))
        off = (stage >= OFF) | (off & (stage > OFF_RESET))
        limit = np.where(derating, plate_limit(stage), 1.0)
        limit = np.where(off | tripped[:, minute], 0.0, limit)
        power = np.minimum(possible[:, minute], limit)
        heat = losses(power)
        for series, now in zip(record, (power, power + heat, stage, limit), strict=True):
            series[:, minute] = now
        states[0][:, minute], states[1][:, minute] = derating, off | tripped[:, minute]
        settled = inlet[:, minute] + HEAT_RISE * blocked[:, minute] * heat / full_heat
        stage = stage + (settled - stage) / STAGE_MINUTES
    power, taken, stages, limits = record
    return InverterRun(power, possible, taken, stages, limits, *states)
