"""A plan's file and rules, read and checked, before anything is fitted."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.encoded_table import check_size, encode, input_columns, learn_encoding
from prbnn.data.encoding import Encoding, Missing
from prbnn.data.files import read_file, with_path
from prbnn.data.leaks import leaks
from prbnn.errors import DataError, InfeasibleError, KnowledgeError, nearest, shortened
from prbnn.rules.base import Rule, named
from prbnn.rules.conflicts.finding import conflicts
from prbnn.rules.file.knowledge_file import read_knowledge
from prbnn.runs.plan import RunPlan

if TYPE_CHECKING:
    import pandas as pd

# with fewer rows than this none are held out
FEW_ROWS = 50
MOST_CLASSES = 20
# columns of the tables that predicting and watching write
TAKEN = ("row", "observed", "surprise", "flagged", "broken_rules")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Numbers, targets and rules of a run; `held_out` says which rows judge, `rows` their numbers in
    the file."""

    plan: RunPlan
    encoding: Encoding
    inputs: np.ndarray
    targets: np.ndarray
    held_out: np.ndarray
    rows: np.ndarray
    rules: tuple[Rule, ...]
    units: Mapping[str, str]
    notes: tuple[str, ...]
    fingerprint: str

    @property
    def categories(self) -> tuple[str, ...]:
        """Inputs that take only their values."""
        return self.encoding.categories(self.plan.categories)

    @property
    def is_classes(self) -> bool:
        """Whether the target is a class."""
        return self.targets.dtype.kind not in "f"

    def frame(self, rows: np.ndarray) -> pd.DataFrame:
        """Some rows of the inputs, with their names."""
        import pandas as pd

        return pd.DataFrame(self.inputs[rows], columns=list(self.encoding.inputs))


def prepare_run(plan: RunPlan) -> Prepared:
    """Read the file and the rules; every mistake in either is told here."""
    path = Path(plan.data)
    frame, notes = read_file(path)
    table = input_columns(frame, plan.target, plan.inputs, plan.drop)
    if plan.target in TAKEN:
        raise DataError(
            f"a target called {plan.target!r} would be lost among the results; rename it"
        )
    with with_path(path):
        target, there = read_target(frame, plan.target, plan.classes, plan.missing)
        held_out, said = _held_out(frame[[*table.columns, plan.target]], target, there, plan)
        encoding = learn_encoding(table, plan.missing, there & ~held_out)
    numbers = encode(encoding, table[there], str(path))
    rows = np.flatnonzero(there)[numbers.rows]
    target, held_out = target[rows], held_out[rows]
    if not there.all():
        notes.append(f"{int((~there).sum())} rows without {plan.target!r} dropped")
    notes += [*encoding.notes(), *numbers.notes, *said]
    if target.dtype.kind == "f":
        if not plan.inputs:
            notes += _refuse_leaks(numbers.values, numbers.names, target, plan.target)
        if len(np.unique(target)) == 2:
            notes.append(f"{plan.target!r} has two values and is fitted as a number; see --classes")
    outputs, values = outputs_of(plan.target, target)
    categories = encoding.categories(plan.categories)
    columns = Columns(numbers.names, outputs, numbers.values, values, categories=categories)
    rules, units = _knowledge(plan, encoding, columns, [str(name) for name in frame.columns])
    known = (*numbers.names, *outputs, plan.target)
    strange = [name for name in units if name not in known]
    notes += [f"units name no column {name!r}{nearest(name, known)}" for name in strange]
    return Prepared(
        plan,
        encoding,
        numbers.values,
        target,
        held_out,
        rows + 1,
        rules,
        units,
        tuple(notes),
        hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def outputs_of(name: str, target: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Outputs and their values as a fit has them: of classes, probabilities of labels."""
    if target.dtype.kind == "f":
        return (name,), target[:, None]
    labels = np.unique(target)
    # two classes share one probability
    labels = labels[len(labels) == 2 :]
    return tuple(map(str, labels)), (target[:, None] == labels).astype(float)


def _knowledge(
    plan: RunPlan, encoding: Encoding, columns: Columns, known: Sequence[str]
) -> tuple[tuple[Rule, ...], dict[str, str]]:
    """The rules of a plan, which must fit the columns and each other."""
    if plan.knowledge is None:
        return (), {}
    read = read_knowledge(plan.knowledge)
    rules = tuple(named(read.rules))
    try:
        found = [clash for clash in conflicts(rules, columns) if clash.contradiction]
    except KnowledgeError as error:
        more = _whereabouts(error.column, encoding, known)
        raise KnowledgeError(f"{error}{more}", error.rule, error.column) from None
    if found:
        told = "; ".join(str(clash) for clash in found)
        names = dict.fromkeys(name for clash in found for name in clash.rules)
        raise InfeasibleError(f"the rules contradict each other: {told}", tuple(names))
    return rules, dict(read.units)


def _whereabouts(name: str | None, encoding: Encoding, known: Sequence[str]) -> str:
    """What became of the column ``name`` of the file, which a rule names and which is no input.

    It is empty where ``name`` is not among the ``known`` columns of the file.
    """
    if name is None or name not in known:
        return ""
    column = next((column for column in encoding.columns if column.name == name), None)
    return f" (in the file, {column})" if column else f" ({name!r} was left out of the inputs)"


def read_target(
    frame: pd.DataFrame, name: str, classes: bool, missing: Missing
) -> tuple[np.ndarray, np.ndarray]:
    """The target, numbers or labels, and which rows have one."""
    import pandas as pd

    column = frame[name]
    there = column.notna().to_numpy()
    absent = int((~there).sum())
    if not there.any():
        raise DataError(f"the target {name!r} is empty in every row")
    if absent and missing == "error":
        raise DataError(
            f"the target {name!r} is missing in {absent} of {len(column)} rows; say --missing drop to "
            "leave those rows out"
        )
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if numeric and not classes:
        values = column.to_numpy(float, na_value=np.nan)
        check_size(values, f"the target {name!r}", name)
        return values, there
    if numeric:
        # the same label whether or not other rows are missing, which makes whole numbers floats
        return np.array([f"{value:g}" for value in column.to_numpy(float, na_value=np.nan)]), there
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
            f"the target {name!r} holds numbers, and text in {len(wrong)} row(s), such as "
            f"{shortened(text, 60)} in row {int(str(place)) + 1}; mend those cells"
        )
    if texts.nunique() > MOST_CLASSES:
        raise DataError(
            f"the target {name!r} holds {texts.nunique()} different texts, such as "
            f"{shortened(texts.iloc[0], 60)}; a "
            "target is a number, or one of a few classes. Is it the right column?"
        )


def _refuse_leaks(
    inputs: np.ndarray, names: tuple[str, ...], target: np.ndarray, name: str
) -> list[str]:
    copies, near, together = leaks(inputs, names, target)
    if copies:
        raise DataError(
            f"{', '.join(copies)}: a straight line turns this into the target {name!r}, so it gives the "
            f"answer away. Leave it out with --drop {shlex.quote(','.join(copies))}; or, if it truly is "
            f"known before {name!r} is, name your inputs with --inputs"
        )
    notes = [f"{column} all but gives {name!r} away; is it known beforehand?" for column in near]
    if together:
        notes.append(
            f"{' and '.join(together)} add up to {name!r} exactly; are they known beforehand?"
        )
    return notes


def _held_out(
    frame: pd.DataFrame, target: np.ndarray, there: np.ndarray, plan: RunPlan
) -> tuple[np.ndarray, list[str]]:
    """Rows that judge: drawn at random, equal ones together, and no class whole."""
    rows = int(there.sum())
    mask = np.zeros(len(frame), bool)
    if plan.held_out <= 0:
        return mask, []
    if rows < FEW_ROWS:
        return mask, [f"{rows} rows are few: none is held out, and nothing judges the model"]
    group = frame.groupby(list(frame.columns), dropna=False, sort=False).ngroup().to_numpy()
    order = np.random.default_rng(plan.seed).permutation(np.unique(group[there]))
    sizes = np.bincount(group[there], minlength=group.max() + 1)[order]
    wanted = max(1, round(plan.held_out * rows))
    mask = np.isin(group, order[: np.searchsorted(np.cumsum(sizes), wanted) + 1]) & there
    if target.dtype.kind != "f":
        mask &= np.isin(target, target[there & ~mask])
    said = [f"{int(mask.sum())} of {rows} rows, drawn at random, are held out to judge the model"]
    repeated = rows - len(order)
    if repeated:
        said.append(f"{repeated} rows repeat another one; equal rows are on one side of the split")
    return mask, said
