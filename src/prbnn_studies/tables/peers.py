"""The tables of the study of public tables beside peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from prbnn_studies.peers.methods import NOT_INSTALLED, RULES
from prbnn_studies.tables.grid import BOLD, Grid

LEGEND = (
    "CRPS on test rows in the target's units, mean over splits ± standard error; bold is the lowest of "
    "a row. With rules less the method's:\npaired by split, in % of the method's CRPS (below 0: with "
    "rules is better). Ratios to plain are geometric means over tables.\nFunctions breaking: fraction "
    "of functions (stored draws, members, a peer's one prediction) that break a rule at some fresh "
    "point;\npoints breaking: fraction of points where they do; worst: the largest violation on a "
    "table, in the rule's unit, mean over splits.\nPeers' predictions are clipped to the limits that "
    "rules state."
)
DIGITS = 3


def line(results: dict) -> str:
    """One table and size in a line, for progress: the CRPS of every method."""
    ((name, sizes),) = results["tables"].items()
    ((size, found),) = sizes.items()
    cells = ", ".join(f"{method} {_cell(row)}" for method, row in found["methods"].items())
    return f"{name}, {_words(size, found)}: CRPS {cells}"


def crps(results: dict) -> Grid:
    """CRPS: one row per table and size, one column per method."""
    methods = _methods(results)
    rows = []
    for name, size, found in _sizes(results):
        means = {m: row["crps"]["mean"] for m, row in found["methods"].items() if row["crps"]}
        lowest = min(means, key=lambda method: means[method]) if means else None
        cells = [_cell(found["methods"].get(method)) for method in methods]
        marked = [
            f"{BOLD}{cell}{BOLD}" if method == lowest else cell
            for method, cell in zip(methods, cells, strict=True)
        ]
        rows.append((name, _words(size, found), *marked))
    return Grid(("table", "rows", *methods), rows, f"CRPS, {results['splits']} split(s)", words=2)


def changes(results: dict) -> Grid:
    """CRPS with rules less that of every other method, in per cent of the method's."""
    methods = [method for method in _methods(results) if method != RULES]
    rows = []
    for name, size, found in _sizes(results):
        cells = []
        for method in methods:
            row = found["methods"].get(method)
            change = row and row["rules_less"]["crps"]
            cells.append(_per_cent(change) if change else "-")
        rows.append((name, _words(size, found), *cells))
    title = f"CRPS with rules less the method's, {results['splits']} split(s)"
    return Grid(("table", "rows", *methods), rows, title, words=2)


def overview(results: dict) -> Grid:
    """One row per size and method, over all tables."""
    rows = []
    for size in dict.fromkeys(size for _, size, _ in _sizes(results)):
        for method in _methods(results):
            found = [
                own["methods"][method]
                for _, asked, own in _sizes(results)
                if asked == size and (own["methods"].get(method) or {}).get("crps")
            ]
            rows.append((method, size, str(len(found)), *_averages(found)))
    headings = (
        "method",
        "rows",
        "tables",
        "CRPS / plain's",
        "RMSE / plain's",
        "NLL less plain's",
        "coverage of 90 %",
        "functions breaking",
        "points breaking",
        "worst",
        "seconds",
    )
    return Grid(headings, rows, f"Over all tables, {results['splits']} split(s)", words=2)


def _averages(rows: list[dict]) -> tuple[str, ...]:
    """Cells of one method and size over all tables; ``rows`` are its numbers, one per table."""
    if not rows:
        return (NOT_INSTALLED, *["-"] * 7)

    def changes(metric: str) -> list[dict]:
        return [row["less_plain"][metric] for row in rows if row["less_plain"][metric]]

    def ratio(metric: str) -> str:
        logs = [np.log1p(change["mean"] / change["of"]) for change in changes(metric)]
        return f"{np.exp(np.mean(logs)):.3f}" if logs else "-"

    def mean(metric: str, form: str) -> str:
        values = [row[metric]["mean"] for row in rows if row[metric]]
        return f"{np.mean(values):{form}}" if values else "-"

    nll = [change["mean"] for change in changes("nll")]
    worst = [row["worst"]["mean"] for row in rows if row["worst"]]
    return (
        ratio("crps"),
        ratio("rmse"),
        f"{np.mean(nll):+.2f}" if nll else "-",
        mean("coverage", ".1%"),
        mean("functions_breaking", ".1%"),
        mean("points_breaking", ".2%"),
        f"{max(worst):.2g}" if worst else "-",
        mean("seconds", ".1f"),
    )


def _sizes(results: dict) -> Iterator[tuple[str, str, dict]]:
    for name, sizes in results["tables"].items():
        for size, found in sizes.items():
            yield name, size, found


def _methods(results: dict) -> list[str]:
    return list(dict.fromkeys(m for _, _, found in _sizes(results) for m in found["methods"]))


def _words(size: str, found: dict) -> str:
    return size if size == str(found["rows"]) else f"{size} ({found['rows']:,})"


def _cell(row: dict[str, Any] | None) -> str:
    """A mean and its standard error to three digits of the mean, or why there is none."""
    if row is None:
        return "-"
    if row["crps"] is None:
        return next(iter(row["notes"]), "-")
    mean, error = row["crps"]["mean"], row["crps"]["error"]
    text = _short(mean)
    return text if error is None else f"{text} ± {_short(error, like=mean)}"


def _short(value: float, like: float | None = None) -> str:
    """Three digits of ``like``, which is the value itself unless another is given.

    >>> _short(3.0123), _short(0.04, like=3.0123), _short(0.00042)
    ('3.01', '0.04', '0.000420')
    """
    size = abs(value if like is None else like)
    after = DIGITS - 1 - int(np.floor(np.log10(size))) if size > 0 else DIGITS - 1
    return f"{value:.{max(0, after)}f}"


def _per_cent(change: dict) -> str:
    """A paired difference in per cent of the mean that it is a difference from."""
    mean, error = (
        value and 100 * value / change["of"] for value in (change["mean"], change["error"])
    )
    return f"{mean:+.1f} %" if error is None else f"{mean:+.1f} ± {error:.1f} %"
