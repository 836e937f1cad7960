"""How much what a rule is about varies in the training data: the unit of its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.errors import DataError, KnowledgeError, nearest
from prbnn.rules.evaluation import NamedRows
from prbnn.rules.expressions import Expression, ExpressionError, parse
from prbnn.rules.statements import Subject


def only_output(names: tuple[str, ...]) -> str:
    """The one output there is; of several, a rule has to say which."""
    if len(names) > 1:
        raise KnowledgeError(
            f"there are several outputs ({', '.join(names)}); say which one with of="
        )
    return names[0]


def formula_of(of: Subject, columns: Columns) -> Expression | Any:
    """The value of ``of=``: text as an expression in outputs and columns, a callable as it is."""
    if not isinstance(of, str):
        if not callable(of):
            raise KnowledgeError(
                f"of= is an output's name, text or a callable of (x, y), got {of!r}"
            )
        return of
    try:
        formula = parse(of, (*columns.subjects, *columns.inputs))
    except ExpressionError as error:
        hint = nearest(of, columns.subjects) if of.isidentifier() else ""
        if columns.layout is not None:
            # a list of every observed step would bury the message
            raise KnowledgeError(
                f"of={of!r} must be text in {', '.join((*columns.subjects, *columns.layout.static))}"
                f" or observed steps such as `{columns.inputs[0]}`{hint}"
            ) from None
        raise KnowledgeError(f"of={of!r}: {error}{hint}") from None
    if not set(formula.names) & set(columns.subjects):
        raise KnowledgeError(
            f"of={of!r} names no output, so no network could change it; outputs: "
            f"{', '.join(columns.subjects)}"
        )
    return formula


def spread_of(of: Subject, columns: Columns) -> float:
    """Standard deviation over the training rows of the value of ``of=``; 1 where it is constant.

    Rows where it has no finite value are left out; 1 where no row has one. It raises where it cannot be
    evaluated.
    """
    layout = columns.layout
    outputs = {
        name: columns.targets[:, k if layout is None else np.array(layout.positions(name))]
        for k, name in enumerate(columns.subjects)
    }
    if of is None:
        of = only_output(columns.subjects)
    if isinstance(of, str) and of in outputs:
        return _deviation(outputs[of], of)
    formula = formula_of(of, columns)
    if isinstance(formula, Expression):
        wide = slice(None) if layout is None else np.newaxis
        inputs = {name: columns.rows[:, k][..., wide] for k, name in enumerate(columns.inputs)}
        return _deviation(formula.evaluate({**inputs, **outputs}), of)
    only = next(iter(outputs.values())) if len(outputs) == 1 else outputs
    try:
        return _deviation(formula(NamedRows(columns.rows, columns.inputs), only), of)
    except DataError:
        raise
    except Exception as error:
        raise KnowledgeError(
            f"of= is a callable that failed on the training rows ({type(error).__name__}: {error}); "
            "it gets rows and outputs as arrays, whose columns can be read by name"
        ) from error


def _deviation(values: Any, of: Subject) -> float:
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        # such as log-odds of labels 0 and 1, which only a network's probabilities have
        return 1.0
    # sorted: the rounding of a sum must not depend on the order of the rows
    return float(np.std(np.sort(numbers, axis=None))) or 1.0
