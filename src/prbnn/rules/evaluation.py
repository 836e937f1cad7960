"""A bound's value at many points: number, text or callable, in float64 on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError
from prbnn.rules.expressions import ExpressionError, parse
from prbnn.rules.statements import Changes, Negated


class NamedRows(np.ndarray):
    """Rows of inputs whose columns can be read by name: ``x["age"]``."""

    names: tuple[str, ...]

    def __new__(cls, values: np.ndarray, names: tuple[str, ...]) -> NamedRows:
        rows = np.asarray(values, np.float64).view(cls)
        rows.names = names
        return rows

    def __array_finalize__(self, source: Any) -> None:
        self.names = getattr(source, "names", ())

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KnowledgeError(f"no column {key!r}; known names: {', '.join(self.names)}")
            return np.asarray(self)[:, self.names.index(key)]
        return np.asarray(self)[key]


def called(bound: Any, points: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """A user's callable at rows, in float64 even where it computes with jax.numpy."""
    # stating a rule must not wait for a compiler to be imported
    import jax

    with jax.enable_x64(True):
        return np.asarray(bound(NamedRows(points, names)))


def at_points(bound: Any, columns: Columns, points: np.ndarray, what: str) -> np.ndarray:
    """One finite float64 value per point, or an error that says which bound and where."""
    if isinstance(bound, Negated):
        return -at_points(bound.bound, columns, points, what)
    if isinstance(bound, str):
        try:
            expression = parse(bound, columns.inputs)
        except ExpressionError as error:
            raise KnowledgeError(f"{what} {bound!r}: {error}") from None
        values = expression.evaluate(
            {name: points[:, columns.index(name)] for name in expression.names}
        )
    elif callable(bound):
        try:
            values = called(bound, points, columns.inputs)
        except KnowledgeError:
            raise
        except Exception as error:
            raise KnowledgeError(
                f"{what}: the callable failed on rows of {', '.join(columns.inputs)} "
                f"({type(error).__name__}: {error}); it gets an array with one row per point, whose "
                "columns can be read as x['name']"
            ) from error
    else:
        values = bound
    try:
        values = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise KnowledgeError(f"{what}: expected numbers, got {values!r}") from None
    if values.size not in (1, len(points)):
        raise KnowledgeError(
            f"{what}: expected one value per point ({len(points)}), got shape {values.shape}"
        )
    values = np.broadcast_to(values.reshape(-1), (len(points),)).copy()
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        place = ", ".join(
            f"{name}={value:g}"
            for name, value in zip(columns.inputs, points[wrong[0]], strict=True)
        )
        raise KnowledgeError(
            f"{what} is not finite at {len(wrong)} of {len(points)} points of the region, first at "
            f"{place}; narrow `where` or fix the formula"
        )
    return values


def changed(changes: Changes, columns: Columns, points: np.ndarray) -> np.ndarray:
    """Points (user's units) with some columns set to other values, read at the points as they are."""
    found = points.copy()
    for column, value in changes:
        found[:, columns.index(column)] = at_points(value, columns, points, f"value of {column}")
    return found
