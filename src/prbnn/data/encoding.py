"""How each column of a file becomes numbers, decided once and the same for later files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from prbnn.data.dates import DATE_PARTS
from prbnn.errors import DataError, nearest

ColumnKind = Literal["number", "yes/no", "category", "date", "left out"]
Missing = Literal["error", "drop", "impute"]
T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """One column of the file and the input columns it becomes.

    - `values`: texts of a category; (no, yes) of a yes/no column; parts of a date that become inputs
    - `format`: how a date is written, the same in every file
    - `fill`: the value of a missing cell where missing cells are imputed
    - `because`: why a column is left out
    """

    name: str
    kind: ColumnKind
    values: tuple[str, ...] = ()
    format: str = ""
    fill: float | str | None = None
    because: str = ""

    def __post_init__(self) -> None:
        """Raise where the values do not fit the kind: a record on disk may hold anything."""
        right = {
            "yes/no": len(self.values) == 2,
            "category": len(self.values) > 1,
            "date": bool(self.values) and set(self.values) <= set(DATE_PARTS),
        }
        if not right.get(self.kind, True):
            raise ValueError(f"column {self.name!r}: {self.kind} does not go with {self.values!r}")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns it becomes."""
        match self.kind:
            case "category":
                return tuple(f"{self.name}={value}" for value in self.values)
            case "date":
                return tuple(f"{self.name}_{part}" for part in self.values)
            case "left out":
                return ()
        return (self.name,)

    def __str__(self) -> str:
        match self.kind:
            case "number":
                return f"{self.name}: numbers"
            case "yes/no":
                return f"{self.name}: {self.values[1]} is 1, {self.values[0]} is 0"
            case "category":
                return f"{self.name}: one 0/1 column each for {', '.join(self.values)}"
            case "date":
                return f"{self.name}: a date, as {' and '.join(self.inputs)}"
        return f"{self.name}: left out, {self.because}"


@dataclass(frozen=True)
class Encoding:
    """How the columns of a file become inputs, the same for every later file.

    - `columns`: one entry per column of the file
    - `missing`: what happens to missing cells: they raise, their rows are dropped, or they are imputed
    """

    columns: tuple[Column, ...]
    missing: Missing = "error"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input columns, in order."""
        return tuple(name for column in self.columns for name in column.inputs)

    def categories(self, stated: Sequence[str] = ()) -> tuple[str, ...]:
        """Names of the inputs that take only the values seen: those of text and yes/no columns, and more.

        ``stated`` names further columns of the file or inputs; numbers among them stay one input each.
        """
        found = {
            name
            for column in self.columns
            if column.kind in ("yes/no", "category")
            for name in column.inputs
        }
        of_file = {column.name: column for column in self.columns}
        for name in stated:
            column = of_file.get(name)
            if column is not None and column.kind in ("date", "left out"):
                raise DataError(f"{name!r} cannot be a category. In the file, {column}", name)
            if column is None and name not in self.inputs:
                known = (*of_file, *self.inputs)
                raise DataError(f"categories: no input column {name!r}{nearest(name, known)}", name)
            found.update((name,) if column is None else column.inputs)
        return tuple(name for name in self.inputs if name in found)

    @property
    def used(self) -> tuple[Column, ...]:
        """Columns of the file that become inputs."""
        return tuple(column for column in self.columns if column.kind != "left out")

    def notes(self) -> list[str]:
        """What was done to each column that is not plain numbers, one sentence each."""
        return [str(column) for column in self.columns if column.kind != "number"]

    def to_plain(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Encoding:
        """The encoding again from ``plain`` values; a wrong type raises TypeError or ValueError."""
        columns = tuple(checked(Column, column) for column in plain["columns"])
        return checked(Encoding, {**plain, "columns": columns})


def checked(kind: type[T], plain: Mapping[str, Any]) -> T:
    """An instance of the dataclass ``kind`` from ``plain`` values; each must have the declared type."""
    known = set(kind.__annotations__)
    if not isinstance(plain, Mapping) or not set(plain) <= known:
        raise TypeError(f"{kind.__name__} takes {', '.join(sorted(known))}, got {plain!r:.80}")
    return _reader(kind).validate_python(dict(plain))


@cache
def _reader(kind: type[T]) -> TypeAdapter[T]:
    """What reads ``kind``, made once: a record may have thousands of columns."""
    return TypeAdapter(kind)
