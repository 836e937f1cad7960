"""The tables of the solar study."""

from __future__ import annotations

from prbnn_studies.tables.grid import Grid

# what the paper prints for its own plant, without and with knowledge, in min-max units
PAPER = {
    ("mse", "all"): (0.0018, 0.0011),
    ("mse", "daytime"): (0.0045, 0.0026),
    ("mse", "peak"): (0.0037, 0.0017),
    ("rmse", "all"): (0.0419, 0.0327),
    ("rmse", "daytime"): (0.0672, 0.0505),
    ("rmse", "peak"): (0.0611, 0.0415),
    ("crps", "all"): (0.0186, 0.0114),
    ("crps", "daytime"): (0.0448, 0.0233),
    ("crps", "peak"): (0.0450, 0.0212),
}
PERIODS = {"all": "all hours", "daytime": "daytime", "peak": "peak"}
PLANT = "plant"


def errors_by_seed(*runs: dict) -> Grid:
    """Errors on the simulated plant, BNN -> PR-BNN: one column per run."""
    plants = [run["plants"][PLANT] for run in runs]
    rows: list[tuple[str, ...]] = []
    for measure in ("mse", "crps"):
        for period in PERIODS:
            without, known = PAPER[measure, period]
            rows.append(
                (
                    f"{measure.upper()}, {PERIODS[period]}",
                    *(_arrow(plant, period, measure) for plant in plants),
                    f"{without:.4f} -> {known:.4f}",
                )
            )
    for measure in ("mse", "crps"):
        changes = (f"{plant['change']['normal'][measure]:+.1%}" for plant in plants)
        rows.append((f"{measure.upper()}, hours without derating", *changes, ""))
    for heading, key in (
        ("stored draws that break a rule", "stored_draws_violating"),
        ("raw draws that obey every rule", "acceptance"),
    ):
        rows.append((heading, *(f"{plant[key]:.0%}" for plant in plants), ""))
    return Grid(("", *(f"seed {run['seed']}" for run in runs), "paper, its own plant"), rows)


def changes(results: dict) -> Grid:
    """By how many per cent knowledge changes MSE / CRPS: one row per recorded plant."""
    rows = [
        (
            name,
            *(_percents(plant["change"][period]) for period in PERIODS),
            f"{plant['acceptance']:.0%}",
        )
        for name, plant in results["plants"].items()
    ]
    return Grid(("plant", *PERIODS.values(), "raw draws that obey"), rows)


def _arrow(plant: dict, period: str, measure: str) -> str:
    before, after = (plant[model][period][measure] for model in ("BNN", "PR-BNN"))
    return f"{before:.4f} -> {after:.4f} ({plant['change'][period][measure]:+.0%})"


def _percents(change: dict) -> str:
    return " / ".join(f"{100 * change[measure]:+.1f}" for measure in ("mse", "crps"))
