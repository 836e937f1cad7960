"""The engine of a fit for which the user names none, by what the table is like."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prbnn.fitting.prepare import Enforce
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.conjugate import Conjugate
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Likelihood
from prbnn.model.networks import MLP, Network
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Kind

AUTO = "auto"
# What fits tables of many kinds best, measured on public ones. Networks are smooth, since slopes of a
# relu network jump and no set of points is dense for them
NETWORK = MLP((100,), "gelu")
# Posteriors from several starts are mixed. With normal noise and up to MOST_ROWS rows, the last layer is
# integrated out and the scales of inputs are learned. That takes no race of temperings, and with few rows
# it is far more accurate; with many a tempered posterior is as accurate, and a step that multiplies
# matrices of the rows times the square of the width takes longer
EXACT = Conjugate(draws=1, members=4, relevance=True)
MOST_ROWS = 512
MIXED = BayesByBackprop(draws=2, members=4)


def automatic(
    network: Network | Callable,
    likelihood: Likelihood,
    rules: Sequence[Rule],
    *,
    rows: int,
    exact: bool,
    enforce: Enforce,
    otherwise: Engine = MIXED,
) -> Engine:
    """The engine of a fit of which the user names none.

    - ``rows``: number of training rows
    - ``exact``: whether every target is known exactly
    - ``enforce``: how hard rules are kept. `Conjugate` is for networks whose draws can be moved, with
      hard rules or without. Strengths that bound an average over draws need more steps than it takes,
      for their duals to be exact
    - ``otherwise``: the engine for all else

    >>> from prbnn import Gaussian, Poisson
    >>> automatic(NETWORK, Gaussian(), [], rows=60, exact=True, enforce="auto").name
    'conjugate'
    >>> automatic(NETWORK, Poisson(), [], rows=60, exact=True, enforce="auto").name
    'bbb'
    """
    smooth = isinstance(network, MLP) and network.activation != "relu"
    moves = smooth and enforce in (AUTO, "projection")
    suits = moves and {rule.strength.kind for rule in rules} <= {Kind.HARD, Kind.SOFT, Kind.PRIOR}
    if rows <= MOST_ROWS and suits and not EXACT.objection(network, likelihood, exact=exact):
        return EXACT
    return otherwise
