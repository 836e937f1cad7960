"""Stored draws against the rules of a run: proofs over whole regions, and fresh points beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prbnn.certify import Certificate, RuleCertificate, certify
from prbnn.certify.certificate import NewerCertificateError, read_plain
from prbnn.certify.certifying import ROWS
from prbnn.disk import write_whole
from prbnn.enforcement.measure import CHECK_TOLERANCE
from prbnn.errors import CertificateError, DataError
from prbnn.knowledge.strengths import Hard, Probable
from prbnn.runs.belonging import RUN, certificate_bytes, read_record
from prbnn.runs.folder import CERTIFICATE
from prbnn.runs.run import Run

# apart from the seeds of training and of the checks that decide which draws are stored
FRESH_SEED = 1009
CONFIDENCE = 0.95


class Checked(NamedTuple):
    """One rule, in the user's units.

    `proved`, `refuted` and `undecided` count stored draws over the whole `region`; `broken` those that
    break it at one of `points` fresh points, by no more than `worst`. `chance` bounds, at 95 %
    confidence, the probability that a drawn function breaks the rule (None unless it is for most).
    """

    rule: str
    draws: int
    proved: int
    refuted: int
    undecided: int
    seconds: float
    region: str
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
        """Whether a draw breaks a rule that is for every draw."""
        return self.for_every_draw and bool(self.refuted or self.broken)


def check(
    run: Run,
    seconds: float = 60.0,
    rows: int | None = ROWS,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[list[Checked], Certificate | None]:
    """Every stored draw against every rule; a certificate of another model in the folder is told."""
    model = run.model
    posterior, rules = model.posterior_, list(model.solution_.rules)
    earlier_certificate(run)
    if not rules:
        return [], None
    bound = posterior.bind(rules, seed=FRESH_SEED)
    found = posterior.check(rules, bound)
    broken = found.broken(CHECK_TOLERANCE).sum(axis=0)
    worst = np.maximum(0.0, -found.worst.min(axis=0)) * bound.units
    points = bound.pool
    certificate = certify(posterior, rules, seconds, rows=rows, progress=progress)
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
            how=proof.how,
            counterexample=dict(proof.counterexamples[0].point) if proof.counterexamples else None,
            broken=int(count),
            worst=float(depth),
            points=points,
            chance=chances.get(rule.label),
            verdict=_verdict(rule.strength, proof, int(count), chances.get(rule.label)),
            for_every_draw=rule.strength == Hard(),
        )
        for rule, proof, count, depth in zip(rules, certificate.rules, broken, worst, strict=True)
    ]
    return checked, certificate


def earlier_certificate(run: Run) -> str | None:
    """Refuse a certificate in the folder that is of another model; what else is wrong with it is said.

    Nothing is taken from an earlier certificate, so a damaged one may be replaced.
    """
    if run.folder is None or not (run.folder / CERTIFICATE).exists():
        return None
    path = run.folder / CERTIFICATE
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
            f"{path} is of other weights than the model beside it; if the model is the right one, "
            "delete the certificate and check again"
        )
    return None


def keep(certificate: Certificate, folder: Path, identity: str | None = None) -> None:
    """Write a certificate beside the model it speaks of, which must still be there."""
    if identity is not None and read_record(folder).get(RUN, identity) != identity:
        raise DataError(
            f"another fit has replaced the run in {folder} meanwhile; check it again, the certificate "
            "would be of the earlier one"
        )
    write_whole(folder / CERTIFICATE, certificate_bytes(certificate, identity))


def _chances(model: Any, rules: list, seconds: float, rows: int | None) -> dict[str, float]:
    """For rules that most functions must obey, from raw draws: none of those was chosen."""
    most = [rule for rule in rules if rule.strength.kind == "probable functions"]
    if not most:
        return {}
    found = certify(model.raw_posterior_, most, seconds, rows=rows)
    return {rule.rule: rule.chance_of_breaking(CONFIDENCE) for rule in found.rules}


def _verdict(strength: Any, proof: RuleCertificate, broken: int, chance: float | None) -> str:
    if chance is not None and isinstance(strength, Probable):
        met = "as asked" if chance <= 1 - strength.p else f"asked: {1 - strength.p:.2%}"
        return f"broken with a chance of at most {chance:.2%} ({CONFIDENCE:.0%} sure; {met})"
    if proof.proved == proof.draws:
        return (
            "proved by construction" if proof.how == "by construction" else "proved for every draw"
        )
    bad = max(proof.refuted, broken)
    if bad:
        share = f"{bad / proof.draws:.1%} of draws break it"
        return f"{share}, though it is for every draw" if strength == Hard() else share
    if proof.how not in ("boxes", "by construction"):
        return f"no draw breaks it at fresh points; {proof.how}"
    return f"no draw breaks it at fresh points; {proof.undecided} draws not decided in time"
