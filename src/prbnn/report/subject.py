"""What a report is about: a fitted model, the plain network beside it, and the rows that score both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from prbnn.certify.certificate import Certificate
from prbnn.errors import DataError, nearest
from prbnn.fitting.result import History
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule, named
from prbnn.rules.statements import Curvature, Slope

# more rows than this say nothing new about a model, and take long to score
MOST_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to report on, and the table it was made from, in the user's units.

    - `model`: fitted regressor or classifier; `plain`: the same without knowledge, or None
    - `held_out`: one truth value per row: whether it was held out of training
    - `units`: of inputs and outputs by name; `command`: what makes this report again
    - `notes`: how the table was read, which rows were dropped; `rows`: their numbers in the file,
      from 1 on and one by one if None
    - `exact`: one truth value per row: whether its target is known, and not only an interval (None: all);
      models are scored on exact rows, and only these are drawn and looked through for surprises
    - `certificate`: proofs of the rules for the stored draws; those of the fit if None

    >>> import numpy as np
    >>> from prbnn import MLP, PRBNNRegressor
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> y = x.ravel() + 0.1 * np.sin(40 * x.ravel())
    >>> model = PRBNNRegressor(MLP((4,)), noise=0.1, tempering=0.2, draws=20, random_state=0)
    >>> subject = Subject(model.fit(x, y), None, x, y, np.zeros(40, bool), "A line")
    >>> subject.column_names, subject.scored_on
    (('x',), 'training')
    """

    model: Any
    plain: Any | None
    inputs: np.ndarray
    targets: np.ndarray
    held_out: np.ndarray
    title: str
    units: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    notes: Sequence[str] = ()
    rows: np.ndarray | None = None
    exact: np.ndarray | None = None
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.model, "posterior_"):
            raise DataError(f"a report needs a fitted model; call fit on {self.model!r} first")
        rows, width = len(self.inputs), len(self.column_names)
        if np.ndim(self.inputs) != 2 or np.shape(self.inputs)[1] != width:
            raise DataError(
                f"inputs have shape {np.shape(self.inputs)}; the model needs (rows, {width})"
            )
        if len(self.targets) != rows or np.shape(self.held_out) != (rows,):
            raise DataError(
                f"{rows} rows of inputs, {len(self.targets)} targets and held_out of shape "
                f"{np.shape(self.held_out)}; pass one target and one held_out value per row"
            )
        if self.posterior.columns.layout is not None:
            raise DataError("a report is about a table; a model of sequences has none to show yet")
        if not self.known.any():
            raise DataError(
                "every target is censored, so that nothing can be compared with a prediction"
            )
        self._check_values()
        known = (*self.column_names, *self.output_names)
        for name in self.units:
            if name not in known:
                raise DataError(f"units: no column or output {name!r}{nearest(name, known)}")

    def _check_values(self) -> None:
        wrong = np.flatnonzero(~np.all(np.isfinite(self.inputs), axis=0))
        if len(wrong):
            raise DataError(
                f"column {self.column_names[wrong[0]]!r} holds a number that is missing or not "
                "finite; drop or fill those rows first"
            )
        if self.classes is None:
            if not np.all(np.isfinite(self.numbers)):
                raise DataError(
                    "targets hold a number that is missing or not finite; drop those rows"
                )
            return
        strange = set(np.unique(self.targets).tolist()) - set(self.model.classes_.tolist())
        if strange:
            raise DataError(
                f"targets hold {min(map(str, strange))!r}, a class that the model never saw; known "
                f"are {', '.join(self.classes)}"
            )

    @property
    def posterior(self) -> Posterior:
        """The stored draws."""
        return self.model.posterior_

    @property
    def proofs(self) -> Certificate | None:
        """What was proved of the stored draws, where something was."""
        return self.certificate or getattr(self.model, "certificate_", None)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return self.posterior.columns.inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of what is predicted; of a classifier, the classes whose probability is."""
        return self.posterior.columns.outputs

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Labels of a classifier; None for numbers."""
        labels = getattr(self.model, "classes_", None)
        return None if labels is None else tuple(str(label) for label in labels)

    @cached_property
    def rules(self) -> list[Rule]:
        """The knowledge, every rule with a name."""
        return named(self.model.knowledge or ())

    @cached_property
    def numbers(self) -> np.ndarray:
        """Targets (rows, outputs) as the posterior predicts them: numbers, or 0 and 1 by class."""
        if self.classes is None:
            return np.asarray(self.targets, float).reshape(len(self.inputs), -1)
        labels = self.model.classes_[len(self.model.classes_) == 2 :]
        return (np.asarray(self.targets)[:, None] == labels).astype(float)

    @cached_property
    def scored_rows(self) -> np.ndarray:
        """Positions of the rows that models are scored on: held-out rows, or all where none are."""
        places = np.flatnonzero(self.held_out & self.known)
        return _at_most(places if len(places) else np.flatnonzero(self.known))

    @cached_property
    def looked_at(self) -> np.ndarray:
        """Positions of the rows that are looked through for surprises."""
        return _at_most(np.flatnonzero(self.known))

    @property
    def known(self) -> np.ndarray:
        """(rows,): whether the target of a row is known, and not only an interval."""
        return np.ones(len(self.inputs), bool) if self.exact is None else self.exact

    @property
    def scored_on(self) -> str:
        """Which rows the models are scored on, in words."""
        return "held-out" if np.any(self.held_out & self.known) else "training"

    @property
    def history(self) -> History | None:
        """How duals and violations moved, where the model remembers."""
        found = getattr(self.model, "history_", None)
        return found or getattr(getattr(self.model, "solution_", None), "history", None)

    def unit(self, name: str) -> str:
        """The unit of a column or output; empty where none was given."""
        return self.units.get(name, "")

    def rule_unit(self, rule: Rule) -> str:
        """The unit that a rule's violation is counted in; empty where it has none."""
        if rule.strength.kind.startswith("probable"):
            return ""
        output = self.output_names[0] if rule.of is None else rule.of
        if not isinstance(output, str) or output not in self.output_names:
            return ""
        own = self.unit(output)
        if rule.parts != (rule,):
            return own
        quantity = rule.statements(self.posterior.columns)[0].quantity
        along = self.unit(str(quantity.column))
        match quantity:
            case Slope():
                return _per(own, along)
            case Curvature():
                return _per(own, f"({along})²" if along else "")
        return own

    def number_of(self, place: int) -> int:
        """A row's number in the file."""
        return place + 1 if self.rows is None else int(self.rows[place])

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 characters of the SHA-256 of names and numbers: the same table, the same text."""
        digest = hashlib.sha256("\0".join((*self.column_names, *self.output_names)).encode())
        digest.update(np.ascontiguousarray(self.inputs, np.float64).tobytes())
        digest.update(np.ascontiguousarray(self.numbers, np.float64).tobytes())
        return digest.hexdigest()[:16]


def _per(above: str, below: str) -> str:
    """A unit over another; empty unless both are known.

    >>> _per("kW", "W/m²"), _per("kW", "°C"), _per("", "s")
    ('kW per W/m²', 'kW/°C', '')
    """
    if not (above and below):
        return ""
    return f"{above} per {below}" if "/" in below else f"{above}/{below}"


def _at_most(places: np.ndarray) -> np.ndarray:
    if len(places) <= MOST_ROWS:
        return places
    chosen = np.random.default_rng(0).permutation(len(places))[:MOST_ROWS]
    return places[np.sort(chosen)]
