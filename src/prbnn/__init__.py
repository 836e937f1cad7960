"""Bayesian neural networks that obey what you know."""

from typing import TYPE_CHECKING, Any

from prbnn.clash import smallest_conflict
from prbnn.errors import (
    DataError,
    DivergedError,
    ForkedError,
    InfeasibleError,
    KnowledgeError,
    ModelFileError,
)
from prbnn.fit import fit
from prbnn.inference import (
    NUTS,
    SGHMC,
    SVGD,
    BayesByBackprop,
    Dropout,
    Ensemble,
    Laplace,
)
from prbnn.knowledge.bounds import AtLeast, AtMost, Between, Equals, OneOf, Outside
from prbnn.knowledge.comparison import Compare
from prbnn.knowledge.own import Combined, Score
from prbnn.knowledge.regions import Box
from prbnn.knowledge.sequence import Continues, Falls, RateBetween, Rises
from prbnn.knowledge.shape import (
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Increasing,
    SlopeBetween,
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

if TYPE_CHECKING:
    from prbnn.estimators import PRBNNClassifier, PRBNNRegressor
    from prbnn.knowledge.file import read_knowledge, write_knowledge
    from prbnn.report.audit import audit
    from prbnn.saving.reading import load
    from prbnn.sequence_regressor import PRBNNSequenceRegressor

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


def __getattr__(name: str) -> Any:
    # scikit-learn takes longer to import than everything else here; only its users should wait
    if name in ("PRBNNClassifier", "PRBNNRegressor"):
        from prbnn import estimators

        return getattr(estimators, name)
    if name == "PRBNNSequenceRegressor":
        from prbnn.sequence_regressor import PRBNNSequenceRegressor

        return PRBNNSequenceRegressor
    if name == "audit":
        from prbnn.report.audit import audit

        return audit
    if name == "load":
        from prbnn.saving.reading import load

        return load
    if name in ("read_knowledge", "write_knowledge"):
        from prbnn.knowledge import file

        return getattr(file, name)
    raise AttributeError(f"module 'prbnn' has no attribute {name!r}")
