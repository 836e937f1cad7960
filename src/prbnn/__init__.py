"""Bayesian neural networks that obey what you know."""

from prbnn.errors import DataError, DivergedError, InfeasibleError, KnowledgeError
from prbnn.estimators import PRBNNRegressor
from prbnn.fit import fit
from prbnn.inference.bbb import BayesByBackprop
from prbnn.knowledge.bounds import AtLeast, AtMost, Between, Equals, OneOf, Outside
from prbnn.knowledge.comparison import Compare
from prbnn.knowledge.own import Combined, Score
from prbnn.knowledge.regions import Box
from prbnn.knowledge.shape import (
    Concave,
    Convex,
    CurvatureBetween,
    Decreasing,
    Increasing,
    SlopeBetween,
)
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import MLP, RBF
from prbnn.model.priors import LayerNormal, Normal

__all__ = [
    "MLP",
    "RBF",
    "AtLeast",
    "AtMost",
    "BayesByBackprop",
    "Between",
    "Box",
    "Combined",
    "Compare",
    "Concave",
    "Convex",
    "CurvatureBetween",
    "DataError",
    "Decreasing",
    "DivergedError",
    "Equals",
    "Gaussian",
    "Increasing",
    "InfeasibleError",
    "KnowledgeError",
    "LayerNormal",
    "Normal",
    "OneOf",
    "Outside",
    "PRBNNRegressor",
    "Score",
    "SlopeBetween",
    "fit",
]
