"""Doubts about a fit that ended well: what was found, likely causes in order, and a remedy.

Every doubt is a text, "NAME: what was found. Likely causes, in order: ...; remedy", as `Result.warnings`
holds them; reports and commands show all of it.
"""

from __future__ import annotations

import numpy as np

from prbnn.certify.certificate import Certificate
from prbnn.model.likelihoods import Gaussian
from prbnn.posterior.draws import Posterior

COLLAPSED = "the posterior has collapsed onto its prior"
NOISE_AT_START = "the learned noise is still at its start"
UNDECIDED = "the certificate is undecided"

# training rows that are predicted to judge a posterior, at most, and its functions, where each is needed
JUDGED = 2048
FUNCTIONS = 64
# a posterior that explains a smaller fraction of an output's variance than this has collapsed
EXPLAINED = 0.05
# below this tempering the prior is not the cause
COLD = 0.05
# a noise that has moved by a smaller fraction than MOVED is at its start, and one that differs from the
# residuals by more than OFF does not belong there
MOVED = 0.05
OFF = 0.1


def collapse(posterior: Posterior, weight: np.ndarray, tempering: float) -> tuple[str, ...]:
    """A doubt where a posterior explains less than 5 % of the variance of an output, else none.

    ``weight`` has one entry per training row. Only a Gaussian is judged: a `StudentT` may leave outliers
    unexplained, and counts may be mostly chance. Below a tempering of 0.05 the prior is not the cause.
    Censored rows are left out, and recorded values of a truncated Gaussian are compared with their own
    mean. Of a large table, JUDGED rows spread over it are enough.
    """
    columns, exact = posterior.columns, _judged(posterior)
    if not isinstance(posterior.likelihood, Gaussian) or len(exact) < 2:
        return ()
    rows, targets, weight = columns.rows[exact], columns.targets[exact], weight[exact]
    if posterior.likelihood.truncated is None:
        mean = posterior.predict(rows).mean
    else:
        mean = posterior.samples(rows).mean(axis=0)
    centre = np.average(targets, axis=0, weights=weight)
    left = np.average((targets - mean) ** 2, axis=0, weights=weight)
    spread = np.average((targets - centre) ** 2, axis=0, weights=weight)
    explained = 1 - left / np.where(spread > 0, spread, np.inf)
    if not np.any(explained < EXPLAINED) or tempering <= COLD:
        return ()
    name = columns.outputs[int(np.argmin(explained))]
    return (
        f"{COLLAPSED}: it explains {max(0, explained.min()):.0%} of the variance of {name!r}. Likely "
        f"causes, in order: tempering {tempering:g} is too high for this network, the inputs say nothing "
        f"about it, the rules leave it no room; try {tempering / 10:g}",
    )


def noise_at_start(posterior: Posterior, weight: np.ndarray, start: np.ndarray) -> tuple[str, ...]:
    """A doubt where a learned noise has not moved and is not what the residuals say, else none.

    - ``weight``: one entry per training row
    - ``start``: the first logs of the noise, in network units, one entry per output

    The noise of a Gaussian that has converged is about the root mean square of the residuals of its drawn
    functions. Censored rows and truncated Gaussians are not judged.
    """
    likelihood, columns = posterior.likelihood, posterior.columns
    exact = _judged(posterior)
    if not (isinstance(likelihood, Gaussian) and likelihood.learns and len(exact) > 1):
        return ()
    if likelihood.truncated is not None or not np.all(columns.exact_rows):
        return ()
    moved = np.abs(posterior.likelihood_parameters - start).max(axis=0)
    few = posterior.take(np.arange(min(FUNCTIONS, len(posterior))))
    away = (few.functions(columns.rows[exact]) - columns.targets[exact]) ** 2
    residual = np.sqrt(np.average(away.mean(axis=0), axis=0, weights=weight[exact]))
    noise = np.broadcast_to(posterior.noise, residual.shape)
    tiny = np.finfo(float).tiny
    off = np.abs(np.log(np.maximum(noise, tiny) / np.maximum(residual, tiny)))
    return tuple(
        f"{NOISE_AT_START}: {noise[place]:.3g} for {columns.outputs[place]!r}, while residuals have a "
        f"root mean square of {residual[place]:.3g}. Likely causes, in order: a learning rate too low, "
        "too few steps; raise the learning rate, give more steps, or state noise="
        for place in np.flatnonzero((moved < MOVED) & (off > OFF))
    )


def undecided(certificate: Certificate) -> tuple[str, ...]:
    """A doubt for every rule of which a certificate neither proves nor refutes some draws.

    >>> from prbnn.certify import RuleCertificate
    >>> rule = RuleCertificate("high", "x in [0, 1]", "PPU", 0.02, (), 1e-4, "boxes", 9.0)
    >>> (doubt,) = undecided(Certificate((rule,), "", "", 9.0))
    >>> doubt.partition(". ")[0]
    "the certificate is undecided: 'high' is neither proved nor refuted for 1 of 3 draws"
    """
    usual = "too little time, a region too wide, a rule that functions nearly touch; give more seconds, "
    return tuple(
        f"{UNDECIDED}: {rule.rule!r} is neither proved nor refuted for {rule.undecided} of {rule.draws} "
        "draws. Likely causes, in order: "
        + (
            f"{usual}narrow the region, or fit with a margin"
            if rule.how == "boxes"
            else f"no proof is possible ({rule.how}); it is checked at points only"
        )
        for rule in certificate.rules
        if rule.undecided
    )


def _judged(posterior: Posterior) -> np.ndarray:
    """Positions of the exact rows, or of JUDGED of them."""
    exact = np.flatnonzero(posterior.columns.exact_rows)
    return exact[:: max(1, -(-len(exact) // JUDGED))]
