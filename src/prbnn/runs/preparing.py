"""A plan's file and rules, read and checked, before anything is fitted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prbnn.errors import DataError, InfeasibleError
from prbnn.knowledge.conflicts import conflicts
from prbnn.knowledge.file import read_knowledge
from prbnn.knowledge.regions import Columns
from prbnn.knowledge.rules import Rule, named
from prbnn.runs.plan import Plan
from prbnn.tables.encoding import Encoding, Missing, apply, chosen, learn
from prbnn.tables.files import read_file
from prbnn.tables.leaks import leaks

if TYPE_CHECKING:
    import pandas as pd

# with fewer rows than this none are held out
FEW_ROWS = 50
MOST_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Prepared:
    """Numbers, targets and rules of a run; `held_out` says which rows judge."""

    plan: Plan
    encoding: Encoding
    inputs: np.ndarray
    targets: np.ndarray
    held_out: np.ndarray
    rules: tuple[Rule, ...]
    units: Mapping[str, str]
    notes: tuple[str, ...]
    fingerprint: str

    @property
    def is_classes(self) -> bool:
        """Whether the target is a class."""
        return self.targets.dtype.kind not in "f"

    def frame(self, rows: np.ndarray) -> pd.DataFrame:
        """Some rows of the inputs, with their names."""
        import pandas as pd

        return pd.DataFrame(self.inputs[rows], columns=list(self.encoding.inputs))


def prepare(plan: Plan) -> Prepared:
    """Read the file and the rules; every mistake in either is told here."""
    path = Path(plan.data)
    frame, notes = read_file(path)
    table = chosen(frame, plan.target, plan.inputs, plan.drop)
    encoding = learn(table, plan.missing)
    target, there = read_target(frame, plan.target, plan.classes, plan.missing)
    numbers = apply(encoding, table[there], str(path))
    target = target[there][numbers.rows]
    if not there.all():
        notes.append(f"{int((~there).sum())} rows without {plan.target!r} dropped")
    notes += [*encoding.notes(), *numbers.notes]
    if target.dtype.kind == "f" and not plan.inputs:
        notes += _refuse_leaks(numbers.values, numbers.names, target, plan.target)
    read = None if plan.knowledge is None else read_knowledge(plan.knowledge)
    rules = () if read is None else tuple(named(read.rules))
    outputs = (plan.target,) if target.dtype.kind == "f" else ()
    if rules and outputs:
        refuse_conflicts(rules, Columns(numbers.names, outputs, numbers.values, target[:, None]))
    held_out, said = _held_out(len(target), plan)
    return Prepared(
        plan,
        encoding,
        numbers.values,
        target,
        held_out,
        rules,
        {} if read is None else dict(read.units),
        (*notes, *said),
        hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def read_target(
    frame: pd.DataFrame, name: str, classes: bool, missing: Missing
) -> tuple[np.ndarray, np.ndarray]:
    """The target, numbers or labels, and which rows have one."""
    import pandas as pd

    column = frame[name]
    there = column.notna().to_numpy()
    absent = int((~there).sum())
    if absent and missing == "error":
        raise DataError(
            f"the target {name!r} is missing in {absent} of {len(column)} rows; say --missing drop to "
            "leave those rows out"
        )
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if numeric and not classes:
        values = column.to_numpy(float, na_value=np.nan)
        if np.isinf(values).any():
            raise DataError(f"the target {name!r} has {np.isinf(values).sum()} infinite value(s)")
        return values, there
    if not numeric:
        _check_labels(column, name)
    # labels as text: they are compared and shown, never counted with
    return column.astype(str).str.strip().to_numpy(str), there


def _check_labels(column: pd.Series, name: str) -> None:
    import pandas as pd

    texts = column.dropna().astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce").notna()
    if 0.5 <= numbers.mean() < 1:
        wrong = texts[~numbers]
        place, text = next(iter(wrong.items()))
        raise DataError(
            f"the target {name!r} holds numbers, and text in {len(wrong)} row(s), such as {text!r} in "
            f"row {int(str(place)) + 1}; mend those cells"
        )
    if texts.nunique() > MOST_CLASSES:
        raise DataError(
            f"the target {name!r} holds {texts.nunique()} different texts, such as {texts.iloc[0]!r}; a "
            "target is a number, or one of a few classes. Is it the right column?"
        )


def _refuse_leaks(
    inputs: np.ndarray, names: tuple[str, ...], target: np.ndarray, name: str
) -> list[str]:
    copies, near = leaks(inputs, names, target)
    if copies:
        them = ", ".join(copies)
        raise DataError(
            f"{them}: a straight line turns this into the target {name!r}, so it gives the answer away. "
            f"Leave it out with --drop {them.replace(', ', ',')}; or, if it truly is known before "
            f"{name!r} is, name your inputs with --inputs"
        )
    return [
        f"{column} all but equals the target up to a factor; is it known beforehand?"
        for column in near
    ]


def refuse_conflicts(rules: tuple[Rule, ...], columns: Columns) -> None:
    """Rules that cannot hold together are told before hours are spent on them."""
    found = [clash for clash in conflicts(rules, columns) if clash.contradiction]
    if found:
        told = "; ".join(str(clash) for clash in found)
        names = dict.fromkeys(name for clash in found for name in clash.rules)
        raise InfeasibleError(f"the rules contradict each other: {told}", tuple(names))


def _held_out(rows: int, plan: Plan) -> tuple[np.ndarray, list[str]]:
    mask = np.zeros(rows, bool)
    if plan.held_out <= 0:
        return mask, []
    if rows < FEW_ROWS:
        return mask, [f"{rows} rows are few: none is held out, and nothing judges the model"]
    count = max(1, round(plan.held_out * rows))
    mask[np.random.default_rng(plan.seed).permutation(rows)[:count]] = True
    return mask, [f"{count} of {rows} rows, drawn at random, are held out to judge the model"]
