"""Every method on every table, size and split; means over splits and paired differences."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from prbnn.errors import DataError, DivergedError, InfeasibleError, KnowledgeError
from prbnn.system.strict_json import parse_json
from prbnn_studies.peers.data import PublicTable, Rows, rows_of
from prbnn_studies.peers.methods import NOT_INSTALLED, PEERS, PLAIN, RULES, method_of
from prbnn_studies.peers.predictive import scores

ERRORS = ("crps", "nll", "rmse")
METRICS = (*ERRORS, "coverage", "functions_breaking", "points_breaking", "worst", "seconds")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What a measurement depends on beside table, size, split and method."""

    seed: int = 0
    points: int = 100_000
    most_rows: int = 2000
    steps: int | None = None


@dataclass(frozen=True)
class Entry:
    """One method on one split, in the target's units.

    ``seconds`` are those of fitting (cross-fitting and compiling included) and of predicting the test
    rows. Numbers are None where there was no fit; ``note`` says why.
    """

    table: str
    size: str
    split: int
    method: str
    rows: int
    test_rows: int
    crps: float | None = None
    nll: float | None = None
    rmse: float | None = None
    coverage: float | None = None
    functions_breaking: float | None = None
    points_breaking: float | None = None
    worst: float | None = None
    seconds: float | None = None
    note: str = ""


class Cache:
    """Measurements in a file of JSON lines, so that a stopped run goes on where it was.

    Lines of other settings or of other rules are kept and not used; a line that a kill cut short is
    measured again.
    """

    def __init__(self, path: Path | None, settings: Settings):
        self.path, self.settings = path, asdict(settings)
        self.known: dict[tuple[str, ...], Entry] = {}
        if path is None or not path.exists():
            return
        for line in path.read_text().splitlines():
            try:
                found = parse_json(line)
                entry, rules = Entry(**found["entry"]), found["rules"]
            except (ValueError, TypeError, KeyError):
                continue
            if found.get("settings") == self.settings:
                self.known[_key(rules, entry.table, entry.size, entry.split, entry.method)] = entry

    def find(self, table: PublicTable, size: str, split: int, method: str) -> Entry | None:
        """What is known, None where it must be measured."""
        return self.known.get(_key(_rules(table), table.name, size, split, method))

    def add(self, table: PublicTable, entry: Entry) -> None:
        """Append a measurement; a method that is not installed may be tomorrow, and is left out."""
        if self.path is None or entry.note == NOT_INSTALLED:
            return
        found = {"settings": self.settings, "rules": _rules(table), "entry": asdict(entry)}
        line = json.dumps(found, allow_nan=False)
        with self.path.open("a+") as file:
            # a line that was cut short has no end
            cut = file.tell() > 0 and not self.path.read_bytes().endswith(b"\n")
            file.write(("\n" if cut else "") + line + "\n")


def _rules(table: PublicTable) -> str:
    """What the rules say and where, in one text."""
    return "; ".join(f"{rule.label} {rule.where or ''}".strip() for rule in table.rules)


def _key(rules: str, table: str, size: str, split: int, method: str) -> tuple[str, ...]:
    return rules, table, size, str(split), method


def measured(
    tables: Sequence[PublicTable],
    sizes: Sequence[str],
    splits: int,
    methods: Sequence[str],
    settings: Settings,
    cache: Cache,
    say: Say,
) -> Iterator[list[Entry]]:
    """The entries of all splits and methods, one table and size at a time."""
    for table in tables:
        for size in sizes:
            entries = []
            for split in range(splits):
                rows = rows_of(table, size, split, settings.most_rows, settings.seed)
                for method in methods:
                    say(f"{table.name}, {size} rows, split {split + 1} of {splits}: {method}")
                    entry = cache.find(table, size, split, method)
                    if entry is None:
                        entry = measure(rows, size, split, method, settings)
                        cache.add(table, entry)
                    entries.append(entry)
            yield entries


def measure(rows: Rows, size: str, split: int, method: str, settings: Settings) -> Entry:
    """Fit one method to one split, and score it."""
    head = (rows.table.name, size, split, method, len(rows.y), len(rows.test_y))
    run = method_of(method, settings.steps)
    if run is None:
        return Entry(*head, note=NOT_INSTALLED)
    began = time.perf_counter()
    # threads of peers wait for each other more than they compute on tables this small
    with threadpool_limits(1 if method in PEERS else None):
        try:
            fitted = run(rows)
        except (InfeasibleError, DivergedError, DataError, KnowledgeError) as error:
            note = str(error).splitlines()[0]
            return Entry(*head, seconds=time.perf_counter() - began, note=note)
        seconds = time.perf_counter() - began
        breaking = fitted.breaking(settings.points)
    numbers = (*scores(fitted.predictive, rows.test_y), *breaking, seconds)
    finite = (float(number) if math.isfinite(number) else None for number in numbers)
    return Entry(*head, *finite, note=fitted.note)


def mean_and_error(values: Sequence[float]) -> dict[str, float | None]:
    """The mean of one number per split and its standard error (None for one split).

    >>> mean_and_error([1.0, 3.0])
    {'mean': 2.0, 'error': 1.0}
    """
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "error": error}


def summary(entries: Sequence[Entry]) -> dict[str, Any]:
    """Results of a record: by table and size, every method's means and paired differences.

    ``less_plain`` are a method's errors less those of the network without rules on the same splits;
    ``rules_less`` are those of the network with rules less the method's.
    """
    tables: dict[str, Any] = {}
    for table, size in dict.fromkeys((entry.table, entry.size) for entry in entries):
        group = [entry for entry in entries if (entry.table, entry.size) == (table, size)]
        by_method: dict[str, dict[int, Entry]] = {}
        for entry in group:
            by_method.setdefault(entry.method, {})[entry.split] = entry
        tables.setdefault(table, {})[size] = {
            "rows": group[0].rows,
            "methods": {name: _row(own, by_method) for name, own in by_method.items()},
        }
    return {
        "splits": len({entry.split for entry in entries}),
        "takes": {name: PEERS[name].takes for name in PEERS},
        "tables": tables,
    }


def _row(own: dict[int, Entry], by_method: dict[str, dict[int, Entry]]) -> dict:
    row: dict[str, Any] = {}
    for metric in METRICS:
        values = [value for entry in own.values() if (value := getattr(entry, metric)) is not None]
        row[metric] = mean_and_error(values) if values else None
    notes = [entry.note for entry in own.values() if entry.note]
    row["notes"] = {note: notes.count(note) for note in dict.fromkeys(notes)}
    row["less_plain"] = _differences(own, by_method.get(PLAIN, {}))
    row["rules_less"] = _differences(by_method.get(RULES, {}), own)
    return row


def _differences(first: dict[int, Entry], second: dict[int, Entry]) -> dict[str, Any]:
    """Paired differences first - second over the splits that both have; ``of`` is the second's mean."""
    found: dict[str, Any] = {}
    for metric in ERRORS:
        pairs = [
            (one, other)
            for split in first
            if split in second
            and (one := getattr(first[split], metric)) is not None
            and (other := getattr(second[split], metric)) is not None
        ]
        base = {"of": float(np.mean([other for _, other in pairs]))} if pairs else {}
        differences = [one - other for one, other in pairs]
        found[metric] = {**mean_and_error(differences), **base} if pairs else None
    return found
