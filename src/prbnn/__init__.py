"""Bayesian neural networks that obey what you know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prbnn.errors import (
    DataError,
    DivergedError,
    ForkedError,
    InfeasibleError,
    KnowledgeError,
    ModelFileError,
)
from prbnn.fitting.clash import smallest_conflict
from prbnn.fitting.fit import fit
from prbnn.inference import (
    NUTS,
    SGHMC,
    SVGD,
    BayesByBackprop,
    Dropout,
    Ensemble,
    Laplace,
)
from prbnn.model.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    NoisePrior,
    Poisson,
    StudentT,
)
from prbnn.model.networks import MLP, RBF
from prbnn.model.priors import LayerNormal, Normal
from prbnn.model.recurrent import GRU, LSTM
from prbnn.rules.along_time import Continues, Falls, RateBetween, Rises
from prbnn.rules.comparison import Compare
from prbnn.rules.own import Combined, Score
from prbnn.rules.regions import Box
from prbnn.rules.shape import (
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Increasing,
    SlopeBetween,
)
from prbnn.rules.values import AtLeast, AtMost, Between, Equals, OneOf, Outside

if TYPE_CHECKING:
    from prbnn.assessment.audit import audit
    from prbnn.estimators.classifier import PRBNNClassifier
    from prbnn.estimators.loading import load
    from prbnn.estimators.regressor import PRBNNRegressor
    from prbnn.estimators.sequence_regressor import PRBNNSequenceRegressor
    from prbnn.rules.file.knowledge_file import read_knowledge, write_knowledge

__all__ = [
    "GRU",
    "LSTM",
    "MLP",
    "NUTS",
    "RBF",
    "SGHMC",
    "SVGD",
    "AtLeast",
    "AtMost",
    "BayesByBackprop",
    "Bernoulli",
    "Between",
    "Box",
    "Categorical",
    "Combined",
    "Compare",
    "Concave",
    "Continues",
    "Convex",
    "CurvatureBetween",
    "DataError",
    "Decreasing",
    "DivergedError",
    "Dropout",
    "Ensemble",
    "Equals",
    "Falls",
    "ForkedError",
    "Gaussian",
    "Increasing",
    "InfeasibleError",
    "KnowledgeError",
    "Laplace",
    "LayerNormal",
    "ModelFileError",
    "NoisePrior",
    "Normal",
    "OneOf",
    "Outside",
    "PRBNNClassifier",
    "PRBNNRegressor",
    "PRBNNSequenceRegressor",
    "Poisson",
    "RateBetween",
    "Rises",
    "Score",
    "SlopeBetween",
    "StudentT",
    "audit",
    "fit",
    "load",
    "read_knowledge",
    "smallest_conflict",
    "write_knowledge",
]


# scikit-learn takes longer to import than everything else here; only its users should wait
_LAZY = {
    "PRBNNClassifier": "prbnn.estimators.classifier",
    "PRBNNRegressor": "prbnn.estimators.regressor",
    "PRBNNSequenceRegressor": "prbnn.estimators.sequence_regressor",
    "audit": "prbnn.assessment.audit",
    "load": "prbnn.estimators.loading",
    "read_knowledge": "prbnn.rules.file.knowledge_file",
    "write_knowledge": "prbnn.rules.file.knowledge_file",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'prbnn' has no attribute {name!r}")
