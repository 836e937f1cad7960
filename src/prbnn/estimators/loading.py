"""From a model file to a fitted estimator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from prbnn.errors import ModelFileError
from prbnn.estimators.classifier import PRBNNClassifier
from prbnn.estimators.estimator import Estimator
from prbnn.estimators.regressor import PRBNNRegressor
from prbnn.estimators.sequence_regressor import PRBNNSequenceRegressor
from prbnn.rules.base import Rule
from prbnn.saving.reading import naming_file, saved_model
from prbnn.system.container import Record, Tensors, read
from prbnn.system.process import computing

ESTIMATORS: dict[str, type[Estimator]] = {
    kind.__name__: kind for kind in (PRBNNRegressor, PRBNNClassifier, PRBNNSequenceRegressor)
}


def load(
    path: str | os.PathLike,
    *,
    knowledge: Mapping[str, Rule] | None = None,
    network: Any = None,
    inference: Any = None,
    likelihood: Any = None,
    prior: Any = None,
) -> Any:
    """The fitted estimator that ``model.save(path)`` wrote: its predictions, report and history.

    A file holds no code. Code of your own (a network's factory, a `Score`, an engine) is supplied
    again: ``knowledge`` maps names to rules, the others are as they were given to the estimator.

    >>> import tempfile, numpy as np, prbnn
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> options = dict(noise=0.1, tempering=0.2, draws=50, random_state=0)
    >>> model = prbnn.PRBNNRegressor(prbnn.MLP((8,)), [prbnn.AtLeast(0)], **options)
    >>> model = model.fit(x, x.ravel())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.prbnn")
    ...     again = prbnn.load(f"{folder}/model.prbnn")
    >>> bool(np.all(again.predict(x) == model.predict(x)))
    True
    """
    computing()
    given = {"network": network, "inference": inference, "likelihood": likelihood, "prior": prior}
    return restore(path, *read(path), given, knowledge)


def restore(
    path: str | os.PathLike,
    record: Record,
    tensors: Tensors,
    given: Mapping[str, Any] | None = None,
    knowledge: Mapping[str, Rule] | None = None,
) -> Any:
    """The fitted estimator of a ``record`` and its ``tensors``; errors name the file ``path``.

    ``given`` and ``knowledge`` are what had to be supplied again, by parameter and by rule.
    """
    with naming_file(path):
        kind = record["estimator"]
        if kind not in ESTIMATORS:
            raise ModelFileError(f"no estimator {kind!r}; known: {', '.join(ESTIMATORS)}")
        saved = saved_model(record, tensors, given or {}, knowledge or {})
        model = ESTIMATORS[kind](**saved.settings.parameters)
        model._restore(saved)
        return model
