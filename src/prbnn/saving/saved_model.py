"""What a model file keeps of a fitted estimator: estimators make one of these to save, and read one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prbnn.assessment.audit import Audit
from prbnn.assessment.knowledge_report import KnowledgeReport
from prbnn.certify.certificate import Certificate
from prbnn.fitting.prepare import Settings
from prbnn.fitting.result import Result, Solution
from prbnn.fitting.tempering import Chosen
from prbnn.posterior.draws import Posterior


@dataclass(frozen=True, eq=False)
class SavedModel:
    """The learned state of an estimator; each field is the attribute of the same name with a ``_``.

    - `estimator`: name of the estimator's class
    - `audit`: None in files written before there were audits
    - `from_frame`: whether the inputs had names of their own
    - `environment`: versions and machine of the fit; in earlier files the versions that wrote them
    - `noise`: of a `PRBNNRegressor` only
    - `classes`: labels, of a `PRBNNClassifier` only
    """

    estimator: str
    settings: Settings
    posterior: Posterior
    raw_posterior: Posterior
    solution: Solution
    result: Result
    acceptance: float
    tempering: float
    tempering_choice: Chosen | None
    knowledge_report: KnowledgeReport
    certificate: Certificate | None
    audit: Audit | None
    from_frame: bool
    environment: dict[str, str]
    noise: float | np.ndarray | None = None
    classes: np.ndarray | None = None
