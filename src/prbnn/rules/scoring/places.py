"""Points at which statements are read: many on the host in float64, or one that is traced.

Both answer the same questions, so that what a statement knows at a point is written once
(`prbnn.rules.scoring.quantities`), for training, for checks and for proofs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.data.columns import Columns
from prbnn.errors import KnowledgeError, NotEnclosedError
from prbnn.rules.evaluation import at_points, changed
from prbnn.rules.expressions import parse
from prbnn.rules.statements import Changes, End, Negated

if TYPE_CHECKING:
    from prbnn.data.scaling import Scaling


class Places:
    """Points in the user's units, and what bounds and columns are there."""

    def __init__(self, columns: Columns, scaling: Scaling):
        self.columns, self.scaling = columns, scaling

    @abstractmethod
    def value(self, bound: End, what: str) -> Any:
        """A bound at the points; ``what`` it is called in errors."""

    @abstractmethod
    def moved(self, column: str, step: float) -> Any:
        """The points ``step`` further along a column, as the network sees them."""

    @abstractmethod
    def changed(self, changes: Changes) -> Any:
        """The points with some columns set to other values, as the network sees them."""

    @abstractmethod
    def beyond(self, column: str, value: float) -> Any:
        """1 where a column is above a value, else 0."""

    @abstractmethod
    def stacked(self, parts: Sequence[Any]) -> Any:
        """Numbers side by side, in a last axis of their own."""

    def check_order(self, lower: Any, upper: Any) -> None:
        """Refuse a lower limit above its upper one, where points have numbers."""

    def check_nonnegative(self, bound: End, what: str) -> None:
        """Refuse a bound below 0, where points have numbers."""


class HostPlaces(Places):
    """Points (points, inputs) as NumPy's arrays in float64."""

    def __init__(self, columns: Columns, scaling: Scaling, points: np.ndarray):
        super().__init__(columns, scaling)
        self.points = points

    def value(self, bound: End, what: str) -> np.ndarray:
        return at_points(bound, self.columns, self.points, what)

    def moved(self, column: str, step: float) -> np.ndarray:
        moved = self.points.copy()
        moved[:, self.columns.index(column)] += step
        return self.scaling.inputs(moved)

    def changed(self, changes: Changes) -> np.ndarray:
        return self.scaling.inputs(changed(changes, self.columns, self.points))

    def beyond(self, column: str, value: float) -> np.ndarray:
        return (self.points[:, self.columns.index(column)] > value).astype(np.float64)

    def stacked(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([np.broadcast_to(part, (len(self.points),)) for part in parts], axis=-1)

    def check_order(self, lower: np.ndarray, upper: np.ndarray) -> None:
        wrong = np.flatnonzero(lower > upper)
        if len(wrong):
            at = wrong[0]
            raise KnowledgeError(
                f"lower is above upper at {len(wrong)} of {len(self.points)} sampled points, first at "
                f"{self._shown(at)}: {lower[at]:g} > {upper[at]:g}; swap or loosen the bounds"
            )

    def check_nonnegative(self, bound: End, what: str) -> None:
        values = self.value(bound, what)
        wrong = np.flatnonzero(values < 0)
        if len(wrong):
            raise KnowledgeError(
                f"{what} is below 0 at {len(wrong)} of {len(self.points)} points of the region, first at "
                f"{self._shown(wrong[0])}: {values[wrong[0]]:g}; narrow `where`, or write maximum(0, ...)"
            )

    def _shown(self, place: int) -> str:
        pairs = zip(self.columns.inputs, self.points[place], strict=True)
        return ", ".join(f"{name}={value:g}" for name, value in pairs)


class TracedPlace(Places):
    """One point whose numbers are traced by JAX, so that it may stand for a whole box."""

    def __init__(self, columns: Columns, scaling: Scaling, x: Array):
        super().__init__(columns, scaling)
        self.x = x

    def value(self, bound: End, what: str) -> Array:
        if isinstance(bound, Negated):
            return -self.value(bound.bound, what)
        if isinstance(bound, str):
            expression = parse(bound, self.columns.inputs)
            named = {name: self.x[self.columns.index(name)] for name in expression.names}
            return jnp.asarray(expression.evaluate(named, jnp), float).reshape(())
        if callable(bound):
            try:
                found = bound(TracedRows(self.x[None], self.columns.inputs))
                return jnp.asarray(_plain(found), float).reshape(())
            except Exception as error:
                name = getattr(bound, "__name__", "a callable")
                raise NotEnclosedError(
                    f"{name} could not be traced ({type(error).__name__}: {error}); write it with "
                    "jax.numpy, or as text"
                ) from None
        return jnp.asarray(bound, float)

    def moved(self, column: str, step: float) -> Array:
        index = self.columns.index(column)
        return self._network(self.x.at[index].set(self.x[index] + step))

    def changed(self, changes: Changes) -> Array:
        moved = self.x
        for column, value in changes:
            moved = moved.at[self.columns.index(column)].set(self.value(value, column))
        return self._network(moved)

    def beyond(self, column: str, value: float) -> Array:
        return jnp.where(self.x[self.columns.index(column)] > value, 1.0, 0.0)

    def stacked(self, parts: Sequence[Array]) -> Array:
        return jnp.stack(parts)

    def _network(self, x: Array) -> Array:
        shift = jnp.asarray(self.scaling.input_shift, float)
        return (x - shift) / jnp.asarray(self.scaling.input_scale, float)


class TracedRows(np.lib.mixins.NDArrayOperatorsMixin):
    """Traced rows for a user's callable: columns by name, NumPy's functions traced."""

    def __init__(self, array: Array, names: tuple[str, ...] = ()):
        self.array, self.names = array, names

    def __jax_array__(self) -> Array:
        return self.array

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the numbers."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """How many axes they have."""
        return self.array.ndim

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[TracedRows]:
        return (self[place] for place in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Refused: NumPy would otherwise index its way to an end that traced rows do not have."""
        raise TypeError("rows that are traced have no numbers")

    def __getitem__(self, key: Any) -> TracedRows:
        if isinstance(key, str):
            if key not in self.names:
                raise KnowledgeError(f"no column {key!r}; known names: {', '.join(self.names)}")
            return TracedRows(self.array[:, self.names.index(key)])
        return TracedRows(self.array[key])

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options or not hasattr(jnp, function.__name__):
            return NotImplemented
        return TracedRows(getattr(jnp, function.__name__)(*(_plain(each) for each in inputs)))

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        if not hasattr(jnp, function.__name__):
            return NotImplemented
        plain = jax.tree.map(
            _plain, list(inputs), is_leaf=lambda each: isinstance(each, TracedRows)
        )
        return TracedRows(getattr(jnp, function.__name__)(*plain, **options))


def _plain(value: Any) -> Any:
    return value.array if isinstance(value, TracedRows) else value
