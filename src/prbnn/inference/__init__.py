"""Engines: each finds a posterior of log density + sum of pressure * f, one file per engine."""

from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.conjugate import Conjugate
from prbnn.inference.dropout import Dropout
from prbnn.inference.engine import Engine
from prbnn.inference.ensemble import Ensemble
from prbnn.inference.laplace import Laplace
from prbnn.inference.nuts import NUTS
from prbnn.inference.sghmc import SGHMC
from prbnn.inference.svgd import SVGD

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (BayesByBackprop, Conjugate, Dropout, SVGD, Ensemble, Laplace, SGHMC, NUTS)
}
