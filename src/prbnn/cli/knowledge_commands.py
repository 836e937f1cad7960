"""`prbnn knowledge check`, `new` and `schema`: what these commands do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import typer

from prbnn.assessment.audit import Audit, Finding, audit_of
from prbnn.assessment.data_agreement import Agreement, agreements
from prbnn.data.columns import Columns
from prbnn.data.encoded_table import encode, learn_encoding
from prbnn.data.files import read_file
from prbnn.errors import DataError, nearest
from prbnn.rules.base import Rule, named
from prbnn.rules.conflicts.finding import Conflict, conflicts
from prbnn.rules.file.knowledge_file import knowledge_schema, read_knowledge
from prbnn.rules.file.starter import starter
from prbnn.rules.regions import Sweep
from prbnn.runs.cut_targets import intervals_of
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import outputs_of, read_target
from prbnn.runs.records import write_record
from prbnn.system.disk import write_whole
from prbnn.system.exits import BAD_INPUT, INFEASIBLE, exiting_on_errors
from prbnn.system.terminal import echo


def check(
    knowledge: Path,
    data: Path,
    targets: Sequence[str],
    drop: Sequence[str],
    records: Path | None,
    noise: float | None = None,
    *,
    classes: bool = False,
    categories: Sequence[str] = (),
    censored: str | None = None,
    upper: str | None = None,
) -> None:
    """Print every rule in words and whether the data agree with it; then mistakes and contradictions.

    ``targets``, ``drop`` and ``categories`` name columns of ``data``; ``classes`` says that the target's
    numbers are classes, ``noise`` is its standard deviation (estimated if None), ``records`` a file for
    the findings as JSON. The exit code is 2 for mistakes, 3 for contradictions.
    """
    with exiting_on_errors():
        read = read_knowledge(knowledge)
        columns, numbers, classes = _columns(
            data, targets, drop, categories, classes=classes, censored=censored, upper=upper
        )
        rules = named(read.rules)
        found, problems = agreements(rules, columns, numbers, read.units)
        audited = None
        if rules and not problems and not classes:
            audited = audit_of(rules, columns, noise=noise, numbers=numbers)
    found_conflicts = [] if problems else conflicts(rules, columns)
    if not rules:
        echo(f"{knowledge} holds no rules yet.")
    findings = [None] * len(rules) if audited is None else audited.findings
    for number, (rule, seen, against) in enumerate(zip(rules, found, findings, strict=True), 1):
        echo("\n".join(_rule_lines(number, rule, seen, against, columns)))
    if audited is not None:
        echo(f"Audit: {_audited(audited)} ({audited.noise_text}).")
    for name in read.units:
        if name not in (known := (*columns.inputs, *columns.outputs)):
            echo(f"Note: units name no column {name!r}{nearest(name, known)}")
    _print_problems(problems, found_conflicts)
    if records is not None:
        write_record(records, _record(rules, found, columns, problems, found_conflicts, audited))
    if problems:
        raise typer.Exit(BAD_INPUT)
    if any(conflict.contradiction for conflict in found_conflicts):
        raise typer.Exit(INFEASIBLE)


def new(
    data: Path,
    targets: Sequence[str],
    drop: Sequence[str],
    out: Path,
    *,
    classes: bool = False,
) -> None:
    """Write a commented knowledge file for the columns of ``data`` to ``out``, which must be new."""
    with exiting_on_errors():
        if out.exists():
            raise DataError(
                f"{out} is there already; choose another name with --out, or move it away"
            )
        columns, _, _ = _columns(data, targets, drop, (), classes=classes)
    write_whole(out, starter(columns, str(data), str(out)).encode())
    echo(f"Written: {out}")


def schema(out: Path | None) -> None:
    """Write the JSON schema to the file ``out``, or print it."""
    text = json.dumps(knowledge_schema(), indent=1)
    if out is None:
        echo(text)
    else:
        write_whole(out, f"{text}\n".encode())


# --- data ----------------------------------------------------------------------------------


def _columns(
    path: Path,
    targets: Sequence[str],
    drop: Sequence[str],
    categories: Sequence[str],
    *,
    classes: bool,
    censored: str | None = None,
    upper: str | None = None,
) -> tuple[Columns, list[int], bool]:
    """The table as a fit would read it, the numbers of its rows, and whether its target is a class.

    Notes on what is left out are printed.
    """
    frame, notes = read_file(path)
    known = [str(name) for name in frame.columns]
    for name in (*targets, *drop):
        if name not in known:
            raise DataError(f"{path}: no column {name!r}{nearest(name, known)}", name)
    if not targets:
        targets = known[-1:]
        echo(f"Target: {targets[0]} (the last column; choose another with --target)")
    about = [name for name in (censored, upper) if name in known]
    encoding = learn_encoding(frame.drop(columns=[*targets, *drop, *about]), "drop")
    outputs, values, there, classes = _targets(frame, targets, classes=classes)
    numbers = encode(encoding, frame[there], str(path))
    for note in (*notes, *encoding.notes(), *numbers.notes):
        echo(f"Note: {note}")
    if not there.all():
        echo(f"Note: {(~there).sum()} rows without a target left out")
    if len(numbers.rows) < 2:
        raise DataError(f"{path}: at least 2 complete rows are needed, found {len(numbers.rows)}")
    places = np.flatnonzero(there)[numbers.rows]
    if censored is not None and (classes or len(outputs) > 1):
        raise DataError(f"--censored goes with one target of numbers; got {', '.join(targets)}")
    plan = RunPlan(str(path), targets[0], censored=censored, upper=upper)
    columns = Columns(
        numbers.names,
        outputs,
        numbers.values,
        values[places],
        categories=encoding.categories(categories),
        intervals=intervals_of(plan, frame, values[places, 0], places),
    )
    return columns, [int(place) + 1 for place in places], classes


def _targets(
    frame: Any, names: Sequence[str], *, classes: bool
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, bool]:
    """Names and values of the outputs, which rows have all of them, and whether they are classes.

    The outputs of a class are the probabilities of its labels.
    """
    read = [read_target(frame, name, classes=classes, missing="drop") for name in names]
    there = np.all([found for _, found in read], axis=0)
    if len(read) == 1 and read[0][0].dtype.kind != "f":
        outputs, values = outputs_of(names[0], read[0][0])
        return outputs, values, there, True
    for name, (values, _) in zip(names, read, strict=True):
        if values.dtype.kind != "f":
            raise DataError(
                f"the target {name!r} holds classes; check one such target at a time", name
            )
    return tuple(names), np.column_stack([values for values, _ in read]), there, False


# --- words ---------------------------------------------------------------------------------


def _rule_lines(
    number: int, rule: Rule, seen: Agreement | None, against: Finding | None, columns: Columns
) -> list[str]:
    """The lines printed of one rule: ``seen`` is its agreement with the data, ``against`` its audit."""
    lines = {
        "says": _says(rule, columns),
        "where": _region(rule.region, columns),
        "strength": str(rule.strength),
        "data": "does not fit, see below" if seen is None else seen.words,
        "audit": None if against is None else against.words,
        "because": rule.because,
    }
    body = [f"   {word:<9} {text}" for word, text in lines.items() if text]
    return [f"{number}. {rule.label}", *body, ""]


def _audited(found: Audit) -> str:
    if not found.rows:
        return "no row breaks a rule by more than noise explains"
    what = "row breaks" if len(found.rows) == 1 else "rows break"
    return f"{len(found.rows)} {what} a rule by more than noise explains; look at them before a fit"


def _says(rule: Rule, columns: Columns) -> str:
    """The rule in words, with the target's name where that is the only output."""
    only = rule.of is None and len(columns.outputs) == 1
    return rule.in_words(columns.outputs[0] if only else None)


def _region(region: Sequence[Sweep], columns: Columns) -> str:
    if not region:
        return "wherever the data are"
    return ", or ".join(_box(box, columns) for box in region)


def _box(box: Sweep, columns: Columns) -> str:
    ranges = [_range(column, low, high, columns) for column, low, high in box.ranges]
    listed = " and ".join(ranges) or "wherever the data are"
    return f"{listed}, the full box of all columns" if box.full else listed


def _range(column: str, low: float, high: float, columns: Columns) -> str:
    if low == high:
        return f"{column} = {low:g}"
    # a rule on an unknown column is among the problems printed below
    values = columns.values_in(column, low, high) if column in columns.inputs else None
    if values is None:
        return f"{low:g} <= {column} <= {high:g}"
    return f"{column} in {{{', '.join(f'{value:g}' for value in values)}}}"


def _print_problems(problems: Sequence[str], found_conflicts: Sequence[Conflict]) -> None:
    for problem in problems:
        echo(f"Error: {problem}")
    for conflict in found_conflicts:
        if conflict.contradiction:
            echo(f"Contradiction: {conflict}")
        else:
            echo(
                f"Note: {conflict}; training will trade these rules off, since at least one is soft, on "
                "average or has a tolerance"
            )
    if problems:
        echo("Contradictions were not checked; fix the errors above first.")
    elif not found_conflicts:
        echo("No contradictions found.")


def _record(
    rules: Sequence[Rule],
    found: Sequence[Agreement | None],
    columns: Columns,
    problems: Sequence[str],
    found_conflicts: Sequence[Conflict],
    audited: Audit | None,
) -> dict[str, Any]:
    return {
        "targets": list(columns.outputs),
        "rows": len(columns.rows),
        "rules": [
            {
                "name": rule.label,
                "says": _says(rule, columns),
                "where": _region(rule.region, columns),
                "strength": str(rule.strength),
                "because": rule.because,
                "data": None if seen is None else asdict(seen),
            }
            for rule, seen in zip(rules, found, strict=True)
        ],
        "problems": list(problems),
        "conflicts": [asdict(conflict) for conflict in found_conflicts],
        "audit": None if audited is None else asdict(audited),
    }
