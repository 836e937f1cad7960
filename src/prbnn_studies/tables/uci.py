"""The tables of the UCI study."""

from __future__ import annotations

import math
from collections.abc import Mapping

from prbnn_studies.tables.grid import BOLD, Grid
from prbnn_studies.uci import published

# a mean over splits and its standard error, None where there is none
Mean = tuple[float, float | None]


def rmse(results: dict) -> Grid:
    """Test RMSE: one row per set, our engines and then the published columns."""
    return _errors(results, "rmse", published.RMSE)


def nll(results: dict) -> Grid:
    """Test NLL: one row per set, our engines and then the published columns."""
    return _errors(results, "nll", published.NLL)


def _errors(results: dict, metric: str, others: Mapping[str, Mapping[str, Mean]]) -> Grid:
    """The lowest mean of each row is bold."""
    sets = results["errors"]
    engines = list(dict.fromkeys(engine for found in sets.values() for engine in found))
    rows = []
    for name, found in sets.items():
        own = [pair(found[e][metric]) if e in found else None for e in engines]
        theirs = [column.get(name) for column in others.values()]
        # two digits are what the published numbers have, so a tie in them is a tie
        lowest = min(round(cell[0], 2) for cell in (*own, *theirs) if cell is not None)
        rows.append(
            (
                name,
                *(_shown(cell, lowest, digits(cell)) for cell in own),
                *(_shown(cell, lowest, 2) for cell in theirs),
            )
        )
    title = f"Test {metric.upper()}, {results['splits']} split(s)"
    return Grid(("set", *engines, *others), rows, title)


def pair(found: dict) -> Mean:
    """Mean and standard error as a record holds them."""
    return found["mean"], found["error"]


def _shown(cell: Mean | None, lowest: float, digits: int) -> str:
    if cell is None:
        return "-"
    text = with_error(cell, digits)
    return f"{BOLD}{text}{BOLD}" if round(cell[0], 2) == lowest else text


def digits(cell: Mean | None) -> int:
    """Two after the point, more for small numbers that would vanish.

    >>> digits((3.012, None)), digits((0.00042, None))
    (2, 5)
    """
    if cell is None or cell[0] == 0 or abs(cell[0]) >= 0.1:
        return 2
    return min(5, 1 - math.floor(math.log10(abs(cell[0]))))


def with_error(cell: Mean, digits: int, sign: str = "") -> str:
    """A mean and its standard error, where there is one.

    >>> with_error((3.012, 0.18), 2), with_error((0.07, None), 2), with_error((0.5, 0.1), 1, "+")
    ('3.01 ± 0.18', '0.07', '+0.5 ± 0.1')
    """
    value, error = cell
    text = f"{value:{sign}.{digits}f}"
    return text if error is None else f"{text} ± {error:.{digits}f}"


def knowledge(results: dict) -> Grid:
    """Without and with knowledge: one row per set, engine and fraction of its rows."""
    headings = (
        "set",
        "engine",
        "rows",
        "RMSE without -> with",
        "change",
        "NLL without -> with",
        "change",
        "breaking without",
        "breaking stored",
        "acceptance",
    )
    rows = [
        (
            name,
            engine,
            fraction,
            f"{row['rmse_off']:.3f} -> {row['rmse_on']:.3f}",
            with_error(pair(row["rmse_change"]), 3, "+"),
            f"{row['nll_off']:.3f} -> {row['nll_on']:.3f}",
            with_error(pair(row["nll_change"]), 3, "+"),
            f"{row['violating_off']:.0%}",
            f"{row['stored_draws_violating']:.1%}",
            f"{row['acceptance']:.2f}",
        )
        for name, engines in results["knowledge"].items()
        for engine, fractions in engines.items()
        for fraction, row in fractions.items()
    ]
    return Grid(headings, rows, f"Knowledge off and on, {results['splits']} split(s)", words=3)
