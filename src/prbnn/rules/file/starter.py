"""A first knowledge file from a table: what was seen, and rules to choose from, all commented out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prbnn.data.association import association
from prbnn.data.columns import Columns
from prbnn.data.looks import few_values
from prbnn.rules.base import Rule
from prbnn.rules.comparison import Compare
from prbnn.rules.file.knowledge_file import write_knowledge
from prbnn.rules.file.located import one_line
from prbnn.rules.shape import Decreasing, Increasing
from prbnn.rules.values import AtLeast, Between

MOST_COLUMNS = 12


def starter(columns: Columns, source: str, file: str) -> str:
    """The text of a knowledge file about the first output, which reads as a file without rules.

    ``source`` and ``file`` are what the data and the knowledge file are called in its first lines.
    """
    target = columns.outputs[0]
    head = [
        f"# What is known about {target} in {source} ({len(columns.rows)} rows).",
        "# Nothing holds yet: take the # away from what you know to be so, set the numbers, then",
        f"#   prbnn knowledge check {file} {source}",
        "# A rule is hard unless it says otherwise: strength: {soft: 10}, or {probably: 0.95}, ...",
        "#",
        *(f"#   {line}" for line in _table(columns)),
        "",
        f"# units: {one_line({name: 'unit' for name in (*columns.inputs[:3], target)})}",
        "knowledge:",
    ]
    return "\n".join([*head, *_candidates(columns)]) + "\n"


def _table(columns: Columns) -> Iterator[str]:
    names = [*columns.inputs, *columns.outputs]
    width = max(len(name) for name in names)
    for name, values in zip(names, np.column_stack([columns.rows, columns.targets]).T, strict=True):
        few = None if name in columns.outputs else few_values(columns, columns.index(name))
        seen = (
            f"{values.min():g} to {values.max():g}"
            if few is None
            else "is " + ", ".join(f"{value:g}" for value in few)
        )
        what = "  (the target)" if name in columns.outputs else ""
        yield f"{name.ljust(width)}  {seen}{what}"


def _candidates(columns: Columns) -> Iterator[str]:
    target = columns.outputs[0]
    values = columns.targets[:, 0]
    low, high = wide(values.min(), values.max())
    yield f"  # {target} itself"
    if low >= 0:
        yield from _commented(AtLeast(0, name="never negative"))
    yield from _commented(Between(low, high, name="within reach"))
    categories = _categories(columns)
    seen = [
        (name, found)
        for name in columns.inputs
        if not any(name in names for names in categories.values())
        and (found := association(columns, name)) is not None
    ]
    seen.sort(key=lambda pair: -abs(pair[1].slope) / (pair[1].error or 1e-300))
    for name, found in seen[:MOST_COLUMNS]:
        yield ""
        yield f"  # {target} and {name}: {found}{'' if found.clear else ', too little to tell'}"
        start, end = wide(*columns.span(name))
        few = few_values(columns, columns.index(name))
        if few is not None and len(few) == 2:
            low, high = ({name: _tidy(value)} for value in few)
            if found.slope > 0:
                yield from _commented(Compare(high, above=low, name=f"{name} raises {target}"))
            else:
                yield from _commented(Compare(high, below=low, name=f"{name} lowers {target}"))
        elif found.slope > 0:
            rule = f"more {name} more {target}"
            yield from _commented(Increasing(name, where={name: (start, end)}, name=rule))
        else:
            rule = f"more {name} less {target}"
            yield from _commented(Decreasing(name, where={name: (start, end)}, name=rule))
    for what, names in categories.items():
        yield from _exchange(columns, what, names)


def _categories(columns: Columns) -> dict[str, list[str]]:
    """Columns that a column of categories became, by its name: in each row one of them is 1."""
    found: dict[str, list[str]] = {}
    for name in columns.inputs:
        if "=" in name:
            found.setdefault(name.split("=")[0], []).append(name)
    places = {what: [columns.index(name) for name in names] for what, names in found.items()}
    return {
        what: found[what]
        for what, where in places.items()
        if len(where) > 1
        and np.isin(columns.rows[:, where], (0, 1)).all()
        and np.all(columns.rows[:, where].sum(axis=1) == 1)
    }


def _exchange(columns: Columns, what: str, names: list[str]) -> Iterator[str]:
    """One category in the place of another: none can be switched on alone."""
    target = columns.outputs[0]
    means = {
        name: columns.targets[columns.rows[:, columns.index(name)] == 1, 0].mean() for name in names
    }
    low, high = (end(means, key=lambda name: means[name]) for end in (min, max))
    yield ""
    seen = f"{means[low]:.3g} on average where {low}, {means[high]:.3g} where {high}"
    yield f"  # {target} and {what}: {seen}"
    yield from _commented(
        Compare(
            {high: 1, low: 0},
            above={high: 0, low: 1},
            where={name: 0 for name in names if name not in (low, high)},
            name=f"{high} above {low}",
        )
    )


def _commented(rule: Rule) -> list[str]:
    return [f"  # {line[2:]}" for line in write_knowledge([rule]).splitlines()[1:]]


def wide(low: float, high: float) -> tuple[float, float]:
    """A range a little wider than seen, in round numbers.

    >>> wide(0.0, 1187.3), wide(-0.21, 0.98)
    ((0, 1200), (-0.3, 1))
    """
    step = 10.0 ** np.floor(np.log10(max(high - low, 1e-12)))
    step = step / 10 if (high - low) / step < 5 else step
    ends = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
    digits = max(0, int(1 - np.log10(step)))
    return _tidy(round(ends[0], digits)), _tidy(round(ends[1], digits))


def _tidy(value: float) -> float:
    """A whole number without its point."""
    return int(value) if value == int(value) else float(value)
