"""A small solar plant, simulated: what an engineer would bring to a report, with units and rules."""

from __future__ import annotations

import numpy as np

from prbnn import AtLeast, AtMost, Compare, Decreasing, Increasing
from prbnn.rules.base import Rule

COLUMNS = ("irradiance", "temperature", "derate", "wind")
UNITS = {"irradiance": "W/m²", "temperature": "°C", "wind": "m/s", "power": "kW"}
NAMEPLATE = 100.0
NOISE = 2.5
# the fraction of rows for training; the others are held out
TRAINING_FRACTION = 0.5


def power(rows: np.ndarray) -> np.ndarray:
    """Cells lose 0.4 % per degree above 25 °C, wind cools them, the inverter clips at its rating."""
    irradiance, temperature, derate, wind = rows.T
    cell = temperature + irradiance / (25 + 6.8 * wind)
    free = 0.118 * irradiance * (1 - 0.004 * (cell - 25))
    return np.minimum(free, NAMEPLATE) * np.where(derate == 1, 0.7, 1.0)


def plant(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, power in kW, and which rows are held out."""
    generator = np.random.default_rng(seed)
    irradiance = generator.uniform(0, 1100, rows)
    temperature = generator.normal(8 + irradiance / 55, 5.0)
    derate = (generator.random(rows) < 0.15).astype(float)
    wind = generator.gamma(3.0, 1.2, rows)
    inputs = np.column_stack([irradiance, temperature, derate, wind])
    measured = power(inputs) + generator.normal(0, NOISE, rows)
    held_out = generator.random(rows) > TRAINING_FRACTION
    return inputs, measured, held_out


def knowledge() -> list[Rule]:
    """What is known of any such plant, before a single row is read."""
    day = {"irradiance": (60, 1200)}
    return [
        AtLeast(-2, name="no more than standby", where=day, because="standby draws 2 kW at most"),
        AtMost(
            1.04 * NAMEPLATE,
            name="below nameplate",
            where=day,
            because="the inverter clips at 100 kW; its meter reads up to 4 % high",
        ),
        Increasing("irradiance", name="more sun, more power", where=day),
        Compare(
            {"derate": 1},
            below={"derate": 0},
            name="derating lowers power",
            where=day,
            because="that is what the command is for",
        ),
        Decreasing("temperature", over=10.0, name="heat costs power", where=day).on_average(),
    ]
