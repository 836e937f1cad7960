"""Tables of the studies and benchmarks, made from the results of their records.

A study's commands print the same tables that the pages show. Each function takes the results of one
record (or several, side by side) and returns a `Grid`.
"""

from __future__ import annotations

from collections.abc import Callable

from prbnn_studies.tables import benchmarks, landing, peers, simulation1, simulation2, solar, uci
from prbnn_studies.tables.grid import Grid

# study: what its records can be shown as
BLOCKS: dict[str, dict[str, Callable[..., Grid]]] = {
    "simulation1": {"table": simulation1.engines},
    "simulation2": {"table": simulation2.methods, "summary": simulation2.summary},
    "landing": {"table": landing.by_flights, "radar": landing.without_and_with},
    "solar": {"table": solar.errors_by_seed, "changes": solar.changes},
    "tables": {"crps": peers.crps, "changes": peers.changes, "overview": peers.overview},
    "uci": {"rmse": uci.rmse, "nll": uci.nll, "knowledge": uci.knowledge},
    "engines": {problem: benchmarks.engines(problem) for problem in benchmarks.PROBLEMS},
    "construction": {
        "simulation2": benchmarks.construction("simulation 2"),
        "surface": benchmarks.construction("four inputs"),
    },
    "fits": {"costs": benchmarks.costs, "large": benchmarks.large, "seeds": benchmarks.seeds},
    "calibration": {
        "line": benchmarks.calibration("line"),
        "network": benchmarks.calibration("network"),
    },
    "tightness": {"table": benchmarks.tightness},
    "speed": {"table": benchmarks.speed},
    "sequences": {"table": benchmarks.sequences},
}
