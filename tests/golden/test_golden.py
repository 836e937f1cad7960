"""Small fits of simulation 2 give the numbers of the file, within what another processor changes."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import jax
import pytest

from tests.golden.measure import EXACT, FILE, TOLERANCES, differences, measure
from tests.golden.update import changes

RECORD = json.loads(FILE.read_text())
FITS: dict[str, Any] = RECORD["fits"]
# times what is tolerated between processors
GPU_FACTOR = 5.0


@pytest.mark.slow
def test_simulation_2_gives_the_numbers_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    # as many points as users have: quick tests have fewer
    monkeypatch.setattr("prbnn.posterior.checks.CHECK_POINTS", RECORD["check_points"])
    assert differences(FITS, measure()) == [], "on purpose? then run `make golden`"


@pytest.mark.parametrize("name", [*TOLERANCES, *EXACT])
def test_another_number_is_noticed(name: str) -> None:
    fit, changed = "tolerances", deepcopy(FITS)
    entry = changed[fit][name]
    if name in EXACT:
        changed[fit][name] = "other"
    elif isinstance(entry, list):
        entry[7] += 2 * TOLERANCES[name]
    elif isinstance(entry, dict):
        worst = max(entry, key=entry.get)
        entry[worst] *= 1 + 2 * TOLERANCES[name]
    else:
        changed[fit][name] = entry + 2 * TOLERANCES[name]
    assert [line.split(":")[0] for line in differences(FITS, changed)] == [f"{fit}, {name}"]


@pytest.mark.slow
@pytest.mark.skipif(jax.default_backend() == "cpu", reason="JAX finds no GPU here")
def test_a_gpu_gives_the_numbers_of_the_processor() -> None:
    """Within 0.01 in means and standard deviations, 1/10 of the noise: docs/reproducibility.md."""
    with jax.default_matmul_precision("highest"):
        on_gpu = measure()
        with jax.default_device(jax.devices("cpu")[0]):
            on_cpu = measure()
    assert differences(on_cpu, on_gpu, GPU_FACTOR) == []


def test_what_is_not_a_number_is_noticed() -> None:
    changed = deepcopy(FITS)
    changed["projection"]["mean"][3] = float("nan")
    assert len(differences(FITS, changed)) == 1


def test_an_update_says_what_changed() -> None:
    changed = deepcopy(FITS)
    changed["projection"] |= {"bits": "other", "acceptance": FITS["projection"]["acceptance"] - 0.1}
    said = "\n".join(changes(FITS, changed))
    assert "projection, acceptance: apart by 0.1" in said
    assert "pressure, tempering chosen: the same bits" in said
