"""`PRBNNClassifier`: a Bayesian neural network for classes, in scikit-learn's conventions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
from sklearn.base import ClassifierMixin

from prbnn.data.frames import read_weights, refuse_masked
from prbnn.errors import DataError, KnowledgeError, nearest
from prbnn.estimators.arguments import one_column
from prbnn.estimators.estimator import Estimator
from prbnn.estimators.parameters import documented
from prbnn.fitting.checkpoints import EVERY, checkpoints_in
from prbnn.model.counts_and_classes import Bernoulli, Categorical
from prbnn.posterior.prediction import Prediction
from prbnn.rules.base import Rule, named
from prbnn.saving.saved_model import SavedModel


@documented(
    parameters={
        "knowledge": "list of rules on probabilities, in the units and column names of the data",
        "scaling": 'of the inputs: "standard", "minmax" or "none"',
    },
    attributes={"classes_": "the labels, sorted; columns of probabilities are in this order"},
)
class PRBNNClassifier(ClassifierMixin, Estimator):
    """A Bayesian neural network for classes, whose probabilities obey the knowledge it is given.

    A rule is on the probability of a class, named by its label: ``AtMost(0.2, of="late")``. Two
    classes have one probability, that of ``classes_[1]``; a rule need not name it.

    {parameters and attributes}

    >>> import numpy as np
    >>> from prbnn import MLP, Increasing, PRBNNClassifier
    >>> dose = np.linspace(0, 1, 40)[:, None]
    >>> cured = np.where(dose.ravel() + 0.3 * np.sin(40 * dose.ravel()) > 0.5, "yes", "no")
    >>> model = PRBNNClassifier(
    ...     MLP((8,)), [Increasing("x")], tempering=0.2, draws=50, random_state=0
    ... ).fit(dose, cured)
    >>> model.predict([[0.1], [0.9]]).tolist()
    ['no', 'yes']
    >>> chance = model.sample_functions(dose)[:, :, 1]  # of "yes", for every stored draw
    >>> bool(np.all(np.diff(chance, axis=1) > -1e-4))
    True
    """

    classes_: np.ndarray

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        checkpoint_every: float = EVERY,
    ) -> Self:
        """Fit to rows of ``X`` and their labels ``y``; invalid input raises before training.

        Rows with ``sample_weight`` 0 are left out, and so are classes that have no other rows.
        ``checkpoint`` and ``checkpoint_every`` are those of `PRBNNRegressor.fit`.
        """
        labels = _labels(one_column(y))
        classes = _classes(labels, sample_weight)
        two = len(classes) == 2
        targets = (labels[:, None] == classes).astype(float)[:, two:]
        outputs = [str(label) for label in classes[two:]]
        _check_subjects(self.knowledge, classes, outputs)
        likelihood = Bernoulli() if two else Categorical()
        with checkpoints_in(checkpoint, checkpoint_every) as kept:
            self._learn(X, targets, sample_weight, likelihood, outputs, kept=kept)
        self.classes_ = classes
        self._warn()
        return self

    def _restore(self, saved: SavedModel) -> None:
        super()._restore(saved)
        assert saved.classes is not None, "labels of the classes are missing"
        self.classes_ = saved.classes

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probability = self.predict_proba(X)
        return self.classes_[np.argmax(probability, axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class (rows, classes), the mean over stored draws."""
        mean = self.predict_all(X).mean
        return mean / mean.sum(axis=1, keepdims=True)

    def predict_all(self, X: Any) -> Prediction:
        """Probabilities and their uncertainty, (rows, classes).

        `epistemic` is the standard deviation of a probability over stored draws, which more data
        would reduce. `aleatoric` is that of a class given its probability, sqrt(p (1 - p)).
        """
        rows = self._read(X)
        found = self.posterior_.predict(rows)
        if len(self.classes_) > 2:
            return found
        return Prediction(
            _with_first(found.mean),
            np.repeat(found.epistemic, 2, axis=1),
            np.repeat(found.aleatoric, 2, axis=1),
        )

    def sample_functions(self, X: Any) -> np.ndarray:
        """Probabilities of every stored draw at every row, (draws, rows, classes)."""
        rows = self._read(X)
        probability = self.posterior_.functions(rows)
        return probability if len(self.classes_) > 2 else _with_first(probability)

    def sample(self, X: Any, random_state: int = 0) -> np.ndarray:
        """New labels (draws, rows), drawn with the probabilities of each stored draw.

        ``random_state`` is the seed.
        """
        rows = self._read(X)
        chosen = self.posterior_.samples(rows, random_state)
        chosen = chosen if len(self.classes_) > 2 else _with_first(chosen)
        return self.classes_[np.argmax(chosen, axis=-1)]


def _with_first(second: np.ndarray) -> np.ndarray:
    """Probabilities of both classes, from that of the ``second``."""
    return np.concatenate([1 - second, second], axis=-1)


def _labels(y: Any) -> np.ndarray:
    """The labels ``y`` as an array with one per row; missing, mixed or continuous values raise."""
    refuse_masked(y, "y")
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        _refuse_absent(series.null_count())
        y = series.to_numpy()
    # as objects: numpy would turn a list of numbers and text into text
    labels = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if labels.ndim != 1:
        raise DataError(
            f"y must hold one label per row, got shape {labels.shape}; fit one classifier per target, or "
            "wrap this one in sklearn.multioutput.MultiOutputClassifier"
        )
    values = labels.tolist()
    _refuse_absent(sum(value is None or value != value for value in values))
    kinds = sorted({type(value).__name__ for value in values})
    if "str" in kinds:
        if len(kinds) > 1:
            raise DataError(f"y mixes {' and '.join(kinds)} labels; turn all of them into text")
        return labels
    if labels.dtype.kind == "O":
        labels = np.array(values)
    if labels.dtype.kind == "f":
        _refuse_continuous(labels)
    return labels


def _refuse_absent(count: int) -> None:
    if count:
        raise DataError(f"y has {count} missing label(s) (NaN or None); drop those rows first")


def _refuse_continuous(labels: np.ndarray) -> None:
    broken = labels[(labels != np.round(labels)) | ~np.isfinite(labels)]
    if len(broken):
        raise DataError(
            f"Unknown label type: continuous. y holds numbers such as {broken[0]:g}, not classes; use "
            "PRBNNRegressor, or cut y into classes first, for instance with numpy.digitize"
        )


def _classes(labels: np.ndarray, sample_weight: Any) -> np.ndarray:
    """The sorted labels of the rows with a weight above 0; fewer than two raise."""
    weight = read_weights(sample_weight, len(labels)) if len(labels) else np.ones(0)
    classes = np.unique(labels[weight > 0])
    if len(classes) < 2:
        only = (
            f"every row with a weight is {str(classes[0])!r}"
            if len(classes)
            else "there are no rows"
        )
        raise DataError(
            f"a classifier needs at least two classes in y, got {len(classes)} class: {only}; check "
            "that the right column was chosen and that no filter has removed the others"
        )
    return classes


def _check_subjects(
    knowledge: Sequence[Rule] | None, classes: np.ndarray, outputs: list[str]
) -> None:
    """Raise where the subject of a rule is a label that is not an output.

    It would otherwise be read as a formula, and ``"0"`` as a number.
    """
    for rule in named(() if knowledge is None else knowledge):
        subject = rule.of
        if not isinstance(subject, str) or subject in outputs:
            continue
        if len(classes) == 2 and subject == str(classes[0]):
            raise KnowledgeError(
                f"rule {rule.label!r}: of two classes, the probability of {outputs[0]!r} is the one "
                f"output; state the rule for it, or write of='1 - `{outputs[0]}`'",
                rule.label,
            )
        if subject.strip().replace(".", "", 1).lstrip("-").isdigit():
            raise KnowledgeError(
                f"rule {rule.label!r}: no class {subject!r}{nearest(subject, outputs)}", rule.label
            )
