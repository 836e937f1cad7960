"""A copy of the target among the inputs is found in any unit; honest inputs are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from prbnn.data.leaks import leaks

GENERATOR = np.random.default_rng(0)
POWER = GENERATOR.gamma(2, 5, 300)


@pytest.mark.parametrize("copy", [POWER, 1000 * POWER, 3 - 0.001 * POWER, np.round(POWER, 3)])
def test_copies_are_found(copy: np.ndarray) -> None:
    assert leaks(copy[:, None], ["watts"], POWER)[0] == ["watts"]


def test_what_is_nearly_a_copy_is_only_mentioned() -> None:
    near = POWER + GENERATOR.normal(0, 0.01 * POWER.std(), 300)
    assert leaks(near[:, None], ["meter"], POWER) == ([], ["meter"], [])


def test_good_inputs_flags_and_few_rows_are_no_leaks() -> None:
    good = POWER + GENERATOR.normal(0, 0.3 * POWER.std(), 300)
    flag = (POWER > 10).astype(float)
    assert leaks(np.column_stack([good, flag]), ["sun", "flag"], POWER) == ([], [], [])
    assert leaks(POWER[:5, None], ["watts"], POWER[:5]) == ([], [], [])
    assert leaks(np.ones((300, 1)), ["constant"], POWER) == ([], [], [])


def test_copies_in_disguise_are_mentioned() -> None:
    assert leaks(np.exp(POWER / 5)[:, None], ["curved"], POWER) == ([], ["curved"], [])
    tare = GENERATOR.uniform(0, 20, 300)
    columns = np.column_stack([POWER + tare, tare, GENERATOR.normal(size=300)])
    assert leaks(columns, ["gross", "tare", "wind"], POWER) == ([], [], ["gross", "tare"])
