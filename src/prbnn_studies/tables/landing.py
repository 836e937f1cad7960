"""The tables of the landing study."""

from __future__ import annotations

from collections.abc import Collection

from prbnn_studies.tables.grid import Grid

MEASURES = ("mse", "std", "crps")
SCOPES = {"sequence": "sequence", "last": "last point"}
# overall numbers that the paper prints, without and with knowledge, in min-max units of its own data
PAPER = {
    ("mse", "sequence"): (3.03e-4, 2.85e-4),
    ("mse", "last"): (3.17e-4, 2.49e-4),
    ("std", "sequence"): (4.99e-3, 3.61e-3),
    ("std", "last"): (6.20e-3, 3.18e-3),
    ("crps", "sequence"): (1.80e-2, 1.07e-2),
    ("crps", "last"): (1.55e-2, 1.00e-2),
}


def by_flights(results: dict) -> Grid:
    """Overall errors without -> with knowledge: one column per number of training flights."""
    sizes = results["by_flights"]
    headings = ("min-max units", *(f"{int(n):,} flights" for n in sizes), "paper, its own data")
    rows = [
        (
            f"{measure.upper()}, {SCOPES[scope]}",
            *(_change(size, scope, measure) for size in sizes.values()),
            _arrow(*PAPER[measure, scope]),
        )
        for measure in MEASURES
        for scope in SCOPES
    ]
    return Grid(headings, [*rows, *([*row, ""] for row in _counts(sizes.values()))])


def without_and_with(results: dict) -> Grid:
    """The same with all training flights, without the paper's numbers."""
    flights, size = max(results["by_flights"].items(), key=lambda pair: int(pair[0]))
    rows = [
        (f"{measure.upper()}, {SCOPES[scope]}", _change(size, scope, measure))
        for measure in MEASURES
        for scope in SCOPES
    ]
    return Grid(
        (f"{int(flights):,} training flights", "without -> with"), [*rows, *_counts([size])]
    )


def _counts(sizes: Collection[dict]) -> list[list[str]]:
    held = [_percent(size["with"]["last"]["coverage90"]) for size in sizes]
    return [
        ["rules with knowledge", *(size["strengths"] for size in sizes)],
        ["steps at which the mean breaks a rule", *map(_broken, sizes)],
        ["last points in the 90 % band, with knowledge", *held],
    ]


def _broken(size: dict) -> str:
    return " -> ".join(f"{size[part]['violations_of_mean']}" for part in ("without", "with"))


def _change(size: dict, scope: str, measure: str) -> str:
    return _arrow(*(size[part][scope][measure] for part in ("without", "with")))


def _arrow(without: float | None, known: float | None) -> str:
    """Both numbers; nothing where a record does not hold them."""
    return "" if without is None or known is None else f"{without:.2e} -> {known:.2e}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
