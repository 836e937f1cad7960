"""The table of simulation 1."""

from __future__ import annotations

from prbnn_studies.simulation1 import PUBLISHED
from prbnn_studies.tables.grid import Grid

HEADINGS = (
    "engine",
    "knowledge",
    "points in band",
    "functions in band",
    "stored in band",
    "mean at 0 (sd)",
    "train RMSE",
    "stored / drawn",
    "seconds, compile + run",
    "OC-BNN authors: points / functions / mean (sd)",
)


def engines(results: dict) -> Grid:
    """One row per engine and strength, beside the OC-BNN authors' draws where they published any."""
    rows = []
    for engine, strengths in results.items():
        for strength, row in strengths.items():
            theirs = PUBLISHED.get((engine, strength))
            rows.append(
                (
                    engine,
                    strength,
                    f"{row['points_in_band']:.3f}",
                    f"{row['functions_in_band']:.3f}",
                    f"{row['stored_functions_in_band']:.3f}",
                    f"{row['mean_at_zero']:.3f} ({row['sd_at_zero']:.3f})",
                    f"{row['train_rmse']:.3f}",
                    f"{row['stored']} / {row['draws']}",
                    f"{row['seconds_compile']:.1f} + {row['seconds_run']:.1f}",
                    "" if theirs is None else str(theirs),
                )
            )
    return Grid(HEADINGS, rows, "Simulation 1", words=2)
