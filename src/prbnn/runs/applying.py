"""A run applied to the rows of another file: predictions, bands, surprise and broken rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prbnn.assessment import anomalies as anomaly
from prbnn.assessment.censored_rows import most_obedient
from prbnn.data.censoring import Intervals
from prbnn.data.encoded_table import EncodedTable, encode
from prbnn.data.encoding import Missing
from prbnn.data.files import read_file, with_path
from prbnn.errors import DataError
from prbnn.rules.regions import in_region
from prbnn.rules.scoring.binding import scores_of_values
from prbnn.rules.scoring.obedience import ROW_TOLERANCE, breaks, lowest
from prbnn.runs.cut_targets import intervals_of
from prbnn.runs.preparing import read_target
from prbnn.runs.run import Run

if TYPE_CHECKING:
    import pandas as pd

# fraction of a column's range beyond its ends that is still not far
FAR = 0.1


def predictions(
    run: Run, data: Path, level: float = 0.9, missing: Missing | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Prediction, band and standard deviations of each row of the file ``data``, and notes on it.

    ``level`` is the probability of the band; ``missing`` is that of the fit if None.
    """
    frame, notes = read_file(data)
    numbers = encode(run.encoding, frame, str(data), missing)
    return _predicted(run, numbers, level), notes + numbers.notes + _outside(run, numbers)


def _outside(run: Run, numbers: EncodedTable) -> list[str]:
    """Notes on columns with values far outside those of training, where only rules say anything."""
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

    table, name = run.frame(numbers.values), run.plan.target
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
    """Rows with their predictions, the alarm that flagged them, and the rows that set its level."""

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
    """Predictions, surprise, flags and broken rules of the rows of ``data``, which have their target.

    ``false_alarms`` is the fraction of normal rows that may be flagged.
    """
    name = run.plan.target
    frame, notes = read_file(data)
    if name not in frame.columns:
        raise DataError(
            f"{data} has no column {name!r}, which is compared with its prediction. Without it, use "
            "prbnn predict",
            name,
        )
    with with_path(data):
        target, there = read_target(frame, name, run.plan.classes, "drop")
    if not there.all():
        notes.append(f"{int((~there).sum())} rows without {name!r} left out")
    if run.is_classes is (target.dtype.kind == "f"):
        raise DataError(
            f"{data}: {name!r} holds {'numbers' if run.is_classes else 'text'}, and the run was fitted "
            f"to {'classes' if run.is_classes else 'numbers'}",
            name,
        )
    if run.is_classes and not np.isin(target[there], run.model.classes_).any():
        known = ", ".join(map(repr, run.model.classes_.tolist()))
        raise DataError(
            f"{data}: no row of {name!r} has a class the fit knows; it knows {known}", name
        )
    numbers = encode(run.encoding, frame[there], str(data), missing)
    rows = np.flatnonzero(there)[numbers.rows]
    target = target[rows]
    with with_path(data):
        intervals = _intervals(run, frame, target, rows, notes)
    inputs, known, which = run.scored_rows()
    alarm = anomaly.calibrate_alarm(
        _surprise(run, inputs, known), _attainable(false_alarms, len(known), notes)
    )
    table = _predicted(run, numbers, level)
    table["row"] = rows + 1
    table.insert(1, "observed", target)
    exact = np.ones(len(rows), bool) if intervals is None else intervals.exact_rows
    table["surprise"], table["flagged"] = np.nan, False
    if exact.any():
        surprise = _surprise(run, numbers.values[exact], target[exact])
        table.loc[exact, "surprise"] = alarm.score(surprise)
        table.loc[exact, "flagged"] = alarm.warns(surprise)
    if not exact.all():
        notes.append(f"{int((~exact).sum())} censored rows have no surprise, and are not flagged")
    table["broken_rules"] = broken_rules(run, numbers.values, target, intervals)
    if which == "training":
        notes.append("no rows were held out: the level is set on training rows, and is too low")
    return Watched(table, alarm, which, notes + numbers.notes + _outside(run, numbers))


def _intervals(
    run: Run, frame: pd.DataFrame, target: np.ndarray, rows: np.ndarray, notes: list[str]
) -> Intervals | None:
    """The intervals of censored targets; a file without the fit's column of words has none."""
    if run.plan.censored is not None and run.plan.censored not in frame.columns:
        notes.append(f"no column {run.plan.censored!r}: every target is taken as exact")
        return None
    return intervals_of(run.plan, frame, target, rows)


def _attainable(false_alarms: float, rows: int, notes: list[str]) -> float:
    """The rate asked for, or 1 / (rows + 1), the lowest that ``rows`` rows can show; ``notes`` tell."""
    lowest = 1 / (rows + 1)
    if false_alarms >= lowest:
        return false_alarms
    notes.append(
        f"{rows} rows cannot show a rate of {false_alarms:.2%}; {lowest:.2%} is used instead"
    )
    return lowest * (1 + 1e-9)


def _surprise(run: Run, inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Negative log probability of each target, (rows, 1), in nats; infinite for an unknown class."""
    if not run.is_classes:
        return -run.model.posterior_.log_density(inputs, target)[:, None]
    known = np.isin(target, run.model.classes_)
    place = np.searchsorted(run.model.classes_, np.where(known, target, run.model.classes_[0]))
    probability = run.model.predict_proba(run.frame(inputs))[np.arange(len(target)), place]
    return np.where(known, -np.log(np.maximum(probability, 1e-300)), np.inf)[:, None]


def broken_rules(
    run: Run, inputs: np.ndarray, target: np.ndarray, intervals: Intervals | None = None
) -> list[str]:
    """Names of the rules that each observed row breaks, one text per row.

    A censored row breaks a rule if every value in its interval does. Rules on slopes are left out, since
    a single row has none.
    """
    rules = run.model.knowledge
    broken: list[list[str]] = [[] for _ in target]
    if run.is_classes or not rules:
        return ["" for _ in target]
    posterior = run.model.posterior_
    columns, scaling = posterior.columns, posterior.scaling
    for rule in rules:
        values = most_obedient(rule, columns, scaling, inputs, target[:, None], intervals)
        (score,) = scores_of_values([rule], columns, scaling, inputs, values)
        if score is None:
            continue
        rows = breaks(lowest(score, axis=1), ROW_TOLERANCE)
        if rule.region:
            rows &= in_region(rule.region, columns, inputs)
        for row in np.flatnonzero(rows):
            broken[row].append(rule.label)
    return ["; ".join(names) for names in broken]
