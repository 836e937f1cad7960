"""The file and the rules of a plan, read and checked before anything is fitted."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prbnn.data.censoring import Intervals
from prbnn.data.column_kinds import MOSTLY
from prbnn.data.columns import Columns
from prbnn.data.encoded_table import check_size, encode, input_columns, learn_encoding
from prbnn.data.encoding import Encoding, Missing
from prbnn.data.files import read_file, with_path
from prbnn.data.leaks import leaks
from prbnn.errors import DataError, InfeasibleError, KnowledgeError, nearest, shortened
from prbnn.rules.base import Rule, named
from prbnn.rules.conflicts.finding import conflicts
from prbnn.rules.file.knowledge_file import read_knowledge
from prbnn.runs.cut_targets import censored_note, check_recorded, intervals_of
from prbnn.runs.plan import RunPlan

if TYPE_CHECKING:
    import pandas as pd

# with fewer rows than this, none are held out
FEW_ROWS = 50
MOST_CLASSES = 20
# columns that predictions and watched rows have beside the target's own
WRITTEN = ("row", "observed", "surprise", "flagged", "broken_rules")


@dataclass(frozen=True, eq=False)
class RunTable:
    """The data of a run.

    - `inputs`, `targets`: the rows as numbers, (rows, inputs), and their targets, (rows,)
    - `held_out`: which rows are held out of training to score the model
    - `rows`: number of each row in the file, counted from 1
    - `units`: unit of each column that the knowledge file names one for
    - `notes`: what a user should know about how the file was read
    - `fingerprint`: hash of the file
    - `intervals`: where some targets are censored, the interval that each lies in, (rows, 1)
    """

    plan: RunPlan
    encoding: Encoding
    inputs: np.ndarray
    targets: np.ndarray
    held_out: np.ndarray
    rows: np.ndarray
    units: Mapping[str, str]
    notes: tuple[str, ...]
    fingerprint: str
    intervals: Intervals | None = field(default=None, kw_only=True)

    @property
    def exact(self) -> np.ndarray:
        """(rows,): whether the target of a row is known, and not only an interval."""
        if self.intervals is None:
            return np.ones(len(self.targets), bool)
        return self.intervals.exact_rows

    @property
    def is_classes(self) -> bool:
        """Whether the target is a class."""
        return self.targets.dtype.kind != "f"

    def frame(self, values: np.ndarray) -> pd.DataFrame:
        """``values`` (rows, inputs) as a data frame with the names of the inputs."""
        import pandas as pd

        return pd.DataFrame(values, columns=list(self.encoding.inputs))


@dataclass(frozen=True, eq=False)
class Prepared(RunTable):
    """The data of a run, and the rules that were checked against them."""

    rules: tuple[Rule, ...]

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the inputs that take only the values seen."""
        return self.encoding.categories(self.plan.categories)


def prepare_run(plan: RunPlan) -> Prepared:
    """Read the file and the rules of ``plan``; mistakes in either raise here, before training."""
    path = Path(plan.data)
    frame, notes = read_file(path)
    table = input_columns(frame, plan.target, plan.inputs, (*plan.drop, *_about_target(plan)))
    if plan.target in WRITTEN:
        raise DataError(
            f"prbnn predict and watch write a column {plan.target!r} of their own; rename the target",
            plan.target,
        )
    with with_path(path):
        target, there = read_target(frame, plan.target, plan.classes, plan.missing)
        held_out, split_notes = _held_out(frame[[*table.columns, plan.target]], target, there, plan)
        encoding = learn_encoding(table, plan.missing, there & ~held_out)
    numbers = encode(encoding, table[there], str(path))
    rows = np.flatnonzero(there)[numbers.rows]
    target, held_out = target[rows], held_out[rows]
    with with_path(path):
        intervals = intervals_of(plan, frame, target, rows)
        check_recorded(plan, target, intervals, rows)
    if intervals is not None:
        notes.append(censored_note(intervals, plan.target))
    if not there.all():
        notes.append(f"{int((~there).sum())} rows without {plan.target!r} dropped")
    notes += [*encoding.notes(), *numbers.notes, *split_notes]
    if target.dtype.kind == "f":
        if not plan.inputs:
            notes += _refuse_leaks(numbers.values, numbers.names, target, plan.target)
        if len(np.unique(target)) == 2:
            notes.append(f"{plan.target!r} has two values and is fitted as a number; see --classes")
    outputs, values = outputs_of(plan.target, target)
    categories = encoding.categories(plan.categories)
    columns = Columns(
        numbers.names,
        outputs,
        numbers.values,
        values,
        categories=categories,
        intervals=intervals,
    )
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
        units,
        tuple(notes),
        hashlib.sha256(path.read_bytes()).hexdigest(),
        rules,
        intervals=intervals,
    )


def _about_target(plan: RunPlan) -> tuple[str, ...]:
    """Columns that say something about the target, and are no inputs."""
    found = tuple(name for name in (plan.censored, plan.upper) if name is not None)
    for name in found:
        if name in plan.inputs:
            raise DataError(
                f"{name!r} says what is known of the target, so it cannot be an input; leave it out of "
                "--inputs",
                name,
            )
    return found


def outputs_of(name: str, target: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and values of the outputs of a fit to ``target``; those of a class are probabilities.

    There is one output per label, or one in all for two labels.
    """
    if target.dtype.kind == "f":
        return (name,), target[:, None]
    labels = np.unique(target)
    # of two classes, the second one
    labels = labels[len(labels) == 2 :]
    return tuple(map(str, labels)), (target[:, None] == labels).astype(float)


def _knowledge(
    plan: RunPlan, encoding: Encoding, columns: Columns, known: Sequence[str]
) -> tuple[tuple[Rule, ...], dict[str, str]]:
    """The rules and units of the plan's knowledge file; rules that contradict each other raise.

    ``known`` are the names of the columns in the file of data.
    """
    if plan.knowledge is None:
        return (), {}
    read = read_knowledge(plan.knowledge)
    rules = tuple(named(read.rules))
    try:
        found = [conflict for conflict in conflicts(rules, columns) if conflict.contradiction]
    except KnowledgeError as error:
        more = _whereabouts(error.column, encoding, known)
        raise KnowledgeError(f"{error}{more}", error.rule, error.column) from None
    if found:
        listed = "; ".join(str(conflict) for conflict in found)
        names = dict.fromkeys(name for conflict in found for name in conflict.rules)
        raise InfeasibleError(f"the rules contradict each other: {listed}", tuple(names))
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
    """The target ``name``, as numbers or as labels (text), and a mask of the rows that have one.

    ``classes`` makes numbers labels; ``missing`` says whether rows without a target raise.
    """
    import pandas as pd

    column = frame[name]
    there = column.notna().to_numpy()
    absent = int((~there).sum())
    if not there.any():
        raise DataError(f"the target {name!r} is empty in every row", name)
    if absent and missing == "error":
        raise DataError(
            f"the target {name!r} is missing in {absent} of {len(column)} rows; say --missing drop to "
            "leave those rows out",
            name,
        )
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if numeric and not classes:
        values = column.to_numpy(float, na_value=np.nan)
        check_size(values, f"the target {name!r}", name)
        return values, there
    if numeric:
        # "1" and not "1.0", also where missing rows have made whole numbers floats
        return np.array([f"{value:g}" for value in column.to_numpy(float, na_value=np.nan)]), there
    _check_labels(column, name)
    # labels are text: they are compared and shown, never computed with
    return column.astype(str).str.strip().to_numpy(str), there


def _check_labels(column: pd.Series, name: str) -> None:
    """Raise where a target of text is one of numbers with mistakes, or has too many classes."""
    import pandas as pd

    written = column.dropna().astype(str)
    # as it is written: a number behind a control character has made the column one of text
    numbers, texts = pd.to_numeric(written, errors="coerce").notna(), written.str.strip()
    if MOSTLY <= numbers.mean() < 1:
        wrong = written[~numbers]
        place, text = next(iter(wrong.items()))
        raise DataError(
            f"the target {name!r} holds numbers, and text in {len(wrong)} row(s), such as "
            f"{shortened(text, 60)} in row {int(str(place)) + 1}; fix those cells",
            name,
        )
    if texts.nunique() > MOST_CLASSES:
        raise DataError(
            f"the target {name!r} holds {texts.nunique()} different texts, such as "
            f"{shortened(texts.iloc[0], 60)}; a target is a number, or one of up to {MOST_CLASSES} "
            "classes. Is it the right column?",
            name,
        )


def _refuse_leaks(
    inputs: np.ndarray, names: tuple[str, ...], target: np.ndarray, name: str
) -> list[str]:
    """Raise where an input is a copy of the target ``name``; notes on inputs that nearly are."""
    copies, near, together = leaks(inputs, names, target)
    if copies:
        raise DataError(
            f"{', '.join(copies)}: a linear function of this is the target {name!r}, so it gives the "
            f"answer away. Leave it out with --drop {shlex.quote(','.join(copies))}; or, if it truly is "
            f"known before {name!r} is, name your inputs with --inputs",
            copies[0],
        )
    notes = [f"{column} almost determines {name!r}; is it known beforehand?" for column in near]
    if together:
        notes.append(
            f"{' and '.join(together)} add up to {name!r} exactly; are they known beforehand?"
        )
    return notes


def _held_out(
    frame: pd.DataFrame, target: np.ndarray, there: np.ndarray, plan: RunPlan
) -> tuple[np.ndarray, list[str]]:
    """A mask of the rows to hold out, drawn at random from the rows ``there``, and notes on it.

    Equal rows are on one side of the split, and no class is held out entirely.
    """
    rows = int(there.sum())
    mask = np.zeros(len(frame), bool)
    if plan.held_out <= 0:
        return mask, []
    if rows < FEW_ROWS:
        return mask, [f"fewer than {FEW_ROWS} rows ({rows}): none are held out to score the model"]
    group = frame.groupby(list(frame.columns), dropna=False, sort=False).ngroup().to_numpy()
    order = np.random.default_rng(plan.seed).permutation(np.unique(group[there]))
    sizes = np.bincount(group[there], minlength=group.max() + 1)[order]
    wanted = max(1, round(plan.held_out * rows))
    mask = np.isin(group, order[: np.searchsorted(np.cumsum(sizes), wanted) + 1]) & there
    if target.dtype.kind != "f":
        mask &= np.isin(target, target[there & ~mask])
    notes = [f"{int(mask.sum())} of {rows} rows, drawn at random, are held out to score the model"]
    repeated = rows - len(order)
    if repeated:
        notes.append(f"{repeated} rows repeat another one; equal rows are on one side of the split")
    return mask, notes
