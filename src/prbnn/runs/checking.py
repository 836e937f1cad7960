"""Checks the stored draws of a run against its rules: by proofs, and at fresh points of the regions.

A rule's region is the columns that it names over their ranges, and the others at training rows and
between any two of them. Fresh points are drawn from all of it. A proof covers what
`RuleCertificate.region` names: all of it where every column is swept, the slices at training rows where
some are not. A draw that breaks a rule at a fresh point is refuted, whatever was proved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prbnn.certify import Certificate, RuleCertificate, certify
from prbnn.certify.certificate import (
    PROVED,
    REFUTED,
    UNDECIDED,
    Counterexample,
    NewerCertificateError,
    read_plain,
)
from prbnn.certify.certifying import KEPT, ROWS
from prbnn.errors import CertificateError, DataError
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.rules.strengths import Hard, Kind, Probable
from prbnn.runs.belonging import RUN, certificate_bytes, read_record
from prbnn.runs.folder import CERTIFICATE
from prbnn.runs.run import Run
from prbnn.system.disk import no_link, write_inside

# differs from the seeds of training and of the checks that decide which draws are stored
FRESH_SEED = 1009
CONFIDENCE = 0.95


class Checked(NamedTuple):
    """What was found about one rule, in the user's units.

    - `proved`, `refuted`, `undecided`: numbers of stored draws
    - `region`: the set that proofs cover, at `rows` training rows where the rule does not name every
      column (None where it does, or sweeps them)
    - `broken`: number of draws that break the rule at one of `points` fresh points, by at most `worst`;
      they are among the refuted
    - `chance`: upper bound, at 95 % confidence, of the probability that a drawn function breaks the rule;
      None unless the rule is for most functions
    - `for_every_draw`: whether the rule is hard without a tolerance
    """

    rule: str
    draws: int
    proved: int
    refuted: int
    undecided: int
    seconds: float
    region: str
    rows: int | None
    how: str
    counterexample: Mapping[str, float] | None
    broken: int
    worst: float
    points: int
    chance: float | None
    verdict: str
    for_every_draw: bool

    @property
    def fails(self) -> bool:
        """Whether a draw breaks a rule that every draw must obey."""
        return self.for_every_draw and bool(self.refuted)

    @property
    def examined(self) -> str:
        """What proofs cover, in a few words; rows are training rows."""
        if self.how == "by construction":
            return "every input"
        if self.how != "boxes":
            return "points alone"
        return "whole region" if self.rows is None else f"{self.rows} rows"


def check_run(
    run: Run,
    seconds: float = 60.0,
    rows: int | None = ROWS,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[list[Checked], Certificate | None]:
    """Check every stored draw of ``run`` against every rule; returns findings and a certificate.

    ``seconds`` is the time limit of the proofs, ``rows`` the number of training rows at which columns
    that a rule does not name are held (None is all); ``progress`` is called with a rule and the fraction
    of draws decided. A certificate of another model in the folder raises.
    """
    model = run.model
    posterior, rules = model.posterior_, list(model.solution_.rules)
    earlier_certificate(run)
    if not rules:
        return [], None
    certificate, fresh = _decide(posterior, rules, seconds, rows, progress)
    chances = _chances(model, rules, seconds, rows)
    checked = [
        Checked(
            rule=rule.label,
            draws=len(posterior),
            proved=proof.proved,
            refuted=proof.refuted,
            undecided=proof.undecided,
            seconds=round(proof.seconds, 3),
            region=proof.region,
            rows=proof.rows,
            how=proof.how,
            counterexample=dict(proof.counterexamples[0].point) if proof.counterexamples else None,
            broken=int(fresh.broken[place]),
            worst=float(fresh.worst[place]),
            points=fresh.points,
            chance=chances.get(rule.label),
            verdict=verdict_of(rule.strength, proof, fresh, place, chances.get(rule.label)),
            for_every_draw=rule.strength == Hard(),
        )
        for place, (rule, proof) in enumerate(zip(rules, certificate.rules, strict=True))
    ]
    return checked, certificate


class FreshPoints(NamedTuple):
    """What fresh points show, one entry per rule.

    - `broken`: number of draws that break it
    - `away`: number of those that are proved at the rows of the proof
    - `worst`: the largest violation
    - `points`: number of points
    """

    broken: np.ndarray
    away: np.ndarray
    worst: np.ndarray
    points: int


def _decide(
    posterior: Posterior,
    rules: Sequence[Rule],
    seconds: float,
    rows: int | None,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[Certificate, FreshPoints]:
    """A certificate in which draws that break a rule at fresh points are refuted, and what these show."""
    bound = posterior.bind(rules, seed=FRESH_SEED)
    found = posterior.check(rules, bound)
    broken = found.broken(CHECK_TOLERANCE)
    depth = np.maximum(0.0, -found.worst.min(axis=0)) * bound.units
    certificate = certify(posterior, rules, seconds, rows=rows, progress=progress)
    proved = np.stack([proof.mask(PROVED) for proof in certificate.rules], axis=1)
    away = (proved & broken).sum(axis=0)
    fresh = FreshPoints(broken.sum(axis=0), away, depth, bound.pool)
    with_fresh = tuple(
        _refuted(proof, broken[:, place], posterior, rules[place], bound.units[place])
        for place, proof in enumerate(certificate.rules)
    )
    return replace(certificate, rules=with_fresh), fresh


def _refuted(
    proof: RuleCertificate, broken: np.ndarray, posterior: Posterior, rule: Rule, unit: float
) -> RuleCertificate:
    """``proof`` with the ``broken`` draws refuted, and counterexamples for the first of them."""
    new = np.flatnonzero(broken & ~proof.mask(REFUTED))
    if not len(new):
        return proof
    verdicts = "".join(
        REFUTED if bad else letter for letter, bad in zip(proof.verdicts, broken, strict=True)
    )
    shown = new[: max(0, KEPT - len(proof.counterexamples))]
    further = []
    if len(shown):
        points, scores = posterior.take(shown).worst_points(rule, seed=FRESH_SEED)
        names = posterior.columns.inputs
        further = [
            Counterexample(
                int(draw), dict(zip(names, map(float, point), strict=True)), float(score)
            )
            for draw, point, score in zip(shown, points, scores * unit, strict=True)
            if np.isfinite(score)
        ]
    examples = sorted((*proof.counterexamples, *further), key=lambda each: each.draw)
    left = proof.left if UNDECIDED in verdicts else 0.0
    return replace(proof, verdicts=verdicts, counterexamples=tuple(examples), left=left)


def earlier_certificate(run: Run) -> str | None:
    """Raise where the folder has a certificate of another model; a message where it is damaged.

    Nothing is read from an earlier certificate, so a damaged one may be replaced.
    """
    if run.folder is None or not (run.folder / CERTIFICATE).exists():
        return None
    path = no_link(run.folder / CERTIFICATE)
    try:
        plain = read_plain(path)
        certificate = Certificate.from_plain(plain)
    except NewerCertificateError:
        raise
    except CertificateError as error:
        return f"{path} cannot be read and is replaced: {error}"
    of = plain.get(RUN)
    if not certificate.is_of(run.model.posterior_) or of not in (None, run.identity):
        raise CertificateError(
            f"{path} was made for other weights than those of the model beside it; if the model is "
            "the right one, delete the certificate and check again"
        )
    return None


def kept_certificate(run: Run) -> Certificate | None:
    """The certificate in the folder of ``run``; None where there is none, or none of this model."""
    if run.folder is None or not (run.folder / CERTIFICATE).exists():
        return None
    try:
        if earlier_certificate(run) is not None:
            return None
        return Certificate.from_plain(read_plain(no_link(run.folder / CERTIFICATE)))
    except CertificateError:
        return None


def keep(certificate: Certificate, folder: Path, identity: str | None = None) -> None:
    """Write a certificate into ``folder``, where the run of that ``identity`` must still be."""
    if identity is not None and read_record(folder).get(RUN, identity) != identity:
        raise DataError(
            f"another fit has replaced the run in {folder} meanwhile; check it again, the certificate "
            "would be of the earlier one"
        )
    write_inside(folder, CERTIFICATE, certificate_bytes(certificate, identity))


def _chances(model: Any, rules: list, seconds: float, rows: int | None) -> dict[str, float]:
    """Bounds by name of rules that most functions must obey, from raw draws, since none is rejected."""
    most = [rule for rule in rules if rule.strength.kind == Kind.FUNCTIONS]
    if not most:
        return {}
    found, _ = _decide(model.raw_posterior_, most, seconds, rows)
    return {rule.rule: rule.chance_of_breaking(CONFIDENCE) for rule in found.rules}


def verdict_of(
    strength: Any, proof: RuleCertificate, fresh: FreshPoints, place: int, chance: float | None
) -> str:
    """The verdict on one rule in words, by the worse of proofs and fresh points.

    ``place`` is the position of the rule in ``fresh``; ``chance`` the bound for a rule on most functions.
    """
    if chance is not None and isinstance(strength, Probable):
        met = "as asked" if chance <= 1 - strength.p else f"asked: {1 - strength.p:.2%}"
        there = f" at {proof.rows} training rows and fresh points" if proof.rows else ""
        return f"broken with a chance of at most {chance:.2%}{there} ({CONFIDENCE:.0%} sure; {met})"
    if proof.refuted:
        broken = f"{proof.refuted / proof.draws:.1%} of draws break it"
        if proof.rows is not None and fresh.away[place]:
            broken += f" ({fresh.away[place]} only away from these rows)"
        return f"{broken}, though it is for every draw" if strength == Hard() else broken
    if proof.proved == proof.draws:
        if proof.how == "by construction":
            return "proved by construction"
        if proof.rows is None:
            return "proved for every draw"
        return f"proved at {proof.rows} rows, obeyed at fresh points"
    if proof.how not in ("boxes", "by construction"):
        return f"no draw breaks it at fresh points; {proof.how}"
    return f"no draw breaks it at fresh points; {proof.undecided} draws not decided in time"
