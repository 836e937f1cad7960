"""A run on the rows of another file: predictions, bands, surprise and broken rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prbnn.assessment import anomalies as anomaly
from prbnn.data.encoded_table import EncodedTable, encode
from prbnn.data.encoding import Missing
from prbnn.data.files import read_file, with_path
from prbnn.errors import DataError
from prbnn.rules.conflicts.claims import inside
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import breaks, lowest
from prbnn.runs.preparing import read_target
from prbnn.runs.run import Run

if TYPE_CHECKING:
    import pandas as pd

# a row breaks a rule where its score is further below 0 than this, in the rule's unit
BROKEN = 1e-6
# of a column's range, beyond its ends
FAR = 0.1


def predictions(
    run: Run, data: Path, level: float = 0.9, missing: Missing | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """A table with one line a row of the file: prediction, band and spread."""
    frame, notes = read_file(data)
    numbers = encode(run.encoding, frame, str(data), missing)
    return _predicted(run, numbers, level), notes + numbers.notes + _outside(run, numbers)


def _outside(run: Run, numbers: EncodedTable) -> list[str]:
    """Columns whose new values lie outside those of training, where nothing but rules holds."""
    known = run.inputs[~run.held_out]
    low, high = known.min(axis=0), known.max(axis=0)
    give = FAR * (high - low)
    far = (numbers.values < low - give) | (numbers.values > high + give)
    return [
        f"{int(rows)} row(s) lie outside what the fit has seen of {name!r} ({least:g} to {most:g})"
        for name, rows, least, most in zip(numbers.names, far.sum(axis=0), low, high, strict=True)
        if rows
    ]


def _predicted(run: Run, numbers: EncodedTable, level: float) -> pd.DataFrame:
    import pandas as pd

    table, name = run.numbers(numbers.values), run.plan.target
    columns: dict[str, Any] = {"row": numbers.rows + 1}
    if run.is_classes:
        probability = run.model.predict_proba(table)
        columns[name] = run.model.classes_[np.argmax(probability, axis=1)]
        for place, label in enumerate(run.model.classes_):
            columns[f"{name}={label}"] = probability[:, place]
        return pd.DataFrame(columns)
    found = run.model.predict_all(table)
    ends = (1 - level) / 2, (1 + level) / 2
    low, high = run.model.predict_quantiles(table, ends)
    columns[name] = found.mean[:, 0]
    columns |= {f"{name}_low": low, f"{name}_high": high}
    columns |= {f"{name}_std": found.total[:, 0], f"{name}_epistemic": found.epistemic[:, 0]}
    return pd.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class Watched:
    """Rows beside what was expected of them, and the alarm that judged them."""

    table: pd.DataFrame
    alarm: anomaly.Alarm
    calibrated_on: str
    notes: list[str]


def watched(
    run: Run,
    data: Path,
    level: float = 0.9,
    false_alarms: float = 0.01,
    missing: Missing | None = None,
) -> Watched:
    """Predictions, surprise, flags at a stated rate of false alarms, and the rules a row breaks."""
    name = run.plan.target
    frame, notes = read_file(data)
    if name not in frame.columns:
        raise DataError(
            f"{data} has no column {name!r}; to watch is to compare what came with what was expected. "
            "Without it, use prbnn predict"
        )
    with with_path(data):
        target, there = read_target(frame, name, run.plan.classes, "drop")
    if not there.all():
        notes.append(f"{int((~there).sum())} rows without {name!r} left out")
    if run.is_classes is (target.dtype.kind == "f"):
        raise DataError(f"{data}: {name!r} holds other kinds of values than the run was fitted to")
    if run.is_classes and not np.isin(target[there], run.model.classes_).any():
        known = ", ".join(map(repr, run.model.classes_.tolist()))
        raise DataError(f"{data}: no row of {name!r} has a class the fit knows; it knows {known}")
    numbers = encode(run.encoding, frame[there], str(data), missing)
    target = target[there][numbers.rows]
    inputs, known, which = run.judged()
    alarm = anomaly.calibrate(
        _surprise(run, inputs, known), _attainable(false_alarms, len(known), notes)
    )
    surprise = _surprise(run, numbers.values, target)
    table = _predicted(run, numbers, level)
    table["row"] = np.flatnonzero(there)[numbers.rows] + 1
    table.insert(1, "observed", target)
    table["surprise"] = alarm.score(surprise)
    table["flagged"] = alarm.warns(surprise)
    table["broken_rules"] = broken_rules(run, numbers.values, target)
    if which == "training":
        notes.append("no rows were held out: the level is set on training rows, and is too low")
    return Watched(table, alarm, which, notes + numbers.notes + _outside(run, numbers))


def _attainable(false_alarms: float, rows: int, notes: list[str]) -> float:
    """The rate asked for, or the lowest that so many rows can show."""
    lowest = 1 / (rows + 1)
    if false_alarms >= lowest:
        return false_alarms
    notes.append(
        f"{rows} rows cannot show a rate of {false_alarms:.2%}; {lowest:.2%} is used instead"
    )
    return lowest * (1 + 1e-9)


def _surprise(run: Run, inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(rows, 1), in nats."""
    if not run.is_classes:
        return -run.model.posterior_.log_density(inputs, target)[:, None]
    known = np.isin(target, run.model.classes_)
    place = np.searchsorted(run.model.classes_, np.where(known, target, run.model.classes_[0]))
    probability = run.model.predict_proba(run.numbers(inputs))[np.arange(len(target)), place]
    return np.where(known, -np.log(np.maximum(probability, 1e-300)), np.inf)[:, None]


def broken_rules(run: Run, inputs: np.ndarray, target: np.ndarray) -> list[str]:
    """The rules each observed row itself breaks, by name; rules on slopes speak of no single row."""
    rules = run.model.knowledge
    broken: list[list[str]] = [[] for _ in target]
    if run.is_classes or not rules:
        return ["" for _ in target]
    posterior = run.model.posterior_
    scores = scores_of_values(rules, posterior.columns, posterior.scaling, inputs, target[:, None])
    for rule, score in zip(rules, scores, strict=True):
        if score is None:
            continue
        rows = breaks(lowest(score, axis=1), BROKEN)
        if rule.region:
            rows &= inside(rule.region, posterior.columns, inputs).any(axis=1)
        for row in np.flatnonzero(rows):
            broken[row].append(rule.label)
    return ["; ".join(names) for names in broken]
