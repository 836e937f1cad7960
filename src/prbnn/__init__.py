"""Bayesian neural networks that obey what you know.

The names in `__all__` are public, and so are those of the module `prbnn.certify`; the reference in
docs/ has each of them. Other modules may change without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prbnn import certify
from prbnn.errors import (
    CertificateWarning,
    CheckpointError,
    CheckpointWarning,
    DataError,
    DivergedError,
    ForkedError,
    InfeasibleError,
    KnowledgeError,
    ModelFileError,
)
from prbnn.fitting.fit import fit
from prbnn.fitting.result import History, Price, Progress, Result, Solution
from prbnn.fitting.smallest_conflict import smallest_conflict
from prbnn.inference import (
    NUTS,
    SGHMC,
    SVGD,
    BayesByBackprop,
    Conjugate,
    Dropout,
    Ensemble,
    Laplace,
)
from prbnn.inference.engine import Draws, Engine, Info, Pace
from prbnn.inference.problem import Problem
from prbnn.model.construction.built import built_in
from prbnn.model.counts_and_classes import Bernoulli, Categorical, Poisson
from prbnn.model.likelihoods import Gaussian, Likelihood, NoisePrior, StudentT
from prbnn.model.networks import MLP, RBF, Network
from prbnn.model.priors import LayerNormal, Normal, Prior
from prbnn.model.recurrent import GRU, LSTM
from prbnn.posterior.diagnostics import Diagnostics
from prbnn.posterior.draws import Check, Posterior, Prediction
from prbnn.rules.along_time import Continues, Falls, RateBetween, Rises
from prbnn.rules.base import Rule
from prbnn.rules.comparison import Compare
from prbnn.rules.own import Combined, Score
from prbnn.rules.regions import Box
from prbnn.rules.scoring.drawn import Drawn, Point
from prbnn.rules.shape import (
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Increasing,
    Periodic,
    SlopeBetween,
    Unimodal,
)
from prbnn.rules.strengths import Hard, InPrior, OnAverage, Probable, Soft
from prbnn.rules.values import AtLeast, AtMost, Between, Equals, OneOf, Outside

if TYPE_CHECKING:
    from prbnn.assessment.anomalies import Alarm, area_under_roc, calibrate_alarm, surprise
    from prbnn.assessment.audit import Audit, Finding, audit
    from prbnn.assessment.knowledge_report import KnowledgeReport, RuleReport
    from prbnn.estimators.classifier import PRBNNClassifier
    from prbnn.estimators.loading import load
    from prbnn.estimators.regressor import PRBNNRegressor
    from prbnn.estimators.sequence_regressor import PRBNNSequenceRegressor
    from prbnn.report.page import Subject, write_report
    from prbnn.rules.file.knowledge_file import (
        KnowledgeFile,
        knowledge_schema,
        read_knowledge,
        write_knowledge,
    )
    from prbnn.rules.file.plain import from_plain, to_plain

__all__ = [
    "GRU",
    "LSTM",
    "MLP",
    "NUTS",
    "RBF",
    "SGHMC",
    "SVGD",
    "Alarm",
    "AtLeast",
    "AtMost",
    "Audit",
    "BayesByBackprop",
    "Bernoulli",
    "Between",
    "Box",
    "Categorical",
    "CertificateWarning",
    "Check",
    "CheckpointError",
    "CheckpointWarning",
    "Combined",
    "Compare",
    "Concave",
    "Conjugate",
    "Continues",
    "Convex",
    "CurvatureBetween",
    "DataError",
    "Decreasing",
    "Diagnostics",
    "DivergedError",
    "Drawn",
    "Draws",
    "Dropout",
    "Engine",
    "Ensemble",
    "Equals",
    "Falls",
    "Finding",
    "ForkedError",
    "Gaussian",
    "Hard",
    "History",
    "InPrior",
    "Increasing",
    "InfeasibleError",
    "Info",
    "KnowledgeError",
    "KnowledgeFile",
    "KnowledgeReport",
    "Laplace",
    "LayerNormal",
    "Likelihood",
    "ModelFileError",
    "Network",
    "NoisePrior",
    "Normal",
    "OnAverage",
    "OneOf",
    "Outside",
    "PRBNNClassifier",
    "PRBNNRegressor",
    "PRBNNSequenceRegressor",
    "Pace",
    "Periodic",
    "Point",
    "Poisson",
    "Posterior",
    "Prediction",
    "Price",
    "Prior",
    "Probable",
    "Problem",
    "Progress",
    "RateBetween",
    "Result",
    "Rises",
    "Rule",
    "RuleReport",
    "Score",
    "SlopeBetween",
    "Soft",
    "Solution",
    "StudentT",
    "Subject",
    "Unimodal",
    "area_under_roc",
    "audit",
    "built_in",
    "calibrate_alarm",
    "certify",
    "fit",
    "from_plain",
    "knowledge_schema",
    "load",
    "read_knowledge",
    "smallest_conflict",
    "surprise",
    "to_plain",
    "write_knowledge",
    "write_report",
]


# scikit-learn, pydantic and the report take longer to import than everything else here;
# only those who use them should wait
_LAZY = {
    "Alarm": "prbnn.assessment.anomalies",
    "Audit": "prbnn.assessment.audit",
    "Finding": "prbnn.assessment.audit",
    "KnowledgeFile": "prbnn.rules.file.knowledge_file",
    "KnowledgeReport": "prbnn.assessment.knowledge_report",
    "PRBNNClassifier": "prbnn.estimators.classifier",
    "PRBNNRegressor": "prbnn.estimators.regressor",
    "PRBNNSequenceRegressor": "prbnn.estimators.sequence_regressor",
    "RuleReport": "prbnn.assessment.knowledge_report",
    "Subject": "prbnn.report.page",
    "area_under_roc": "prbnn.assessment.anomalies",
    "audit": "prbnn.assessment.audit",
    "calibrate_alarm": "prbnn.assessment.anomalies",
    "from_plain": "prbnn.rules.file.plain",
    "knowledge_schema": "prbnn.rules.file.knowledge_file",
    "load": "prbnn.estimators.loading",
    "read_knowledge": "prbnn.rules.file.knowledge_file",
    "surprise": "prbnn.assessment.anomalies",
    "to_plain": "prbnn.rules.file.plain",
    "write_knowledge": "prbnn.rules.file.knowledge_file",
    "write_report": "prbnn.report.page",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'prbnn' has no attribute {name!r}")
