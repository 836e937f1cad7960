"""What was proved of whom: one verdict a rule and draw, small enough to keep beside a model."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from prbnn.certify.fingerprints import of_draws, of_rule, of_weights_alone
from prbnn.errors import CertificateError
from prbnn.knowledge.rules import Rule, named
from prbnn.posterior.draws import Posterior

# 2: a fingerprint of all that a claim depends on; 1 had one of the weights alone
SCHEMA = 2
PROVED, REFUTED, UNDECIDED = "P", "R", "U"


@dataclass(frozen=True)
class Counterexample:
    """A point at which a draw breaks a rule, and its score there, in the rule's own unit.

    The score is computed in the precision and by the program that users run; -inf where it is NaN.
    """

    draw: int
    point: Mapping[str, float]
    score: float


@dataclass(frozen=True)
class RuleCertificate:
    """One rule on its whole region.

    - `verdicts`: one letter a draw, P proved, R refuted, U undecided
    - `left`: the share of the region that is not decided, of the worst undecided draw
    - `how`: "boxes", "by construction", or why nothing could be proved
    - `tolerance`: how far below 0 a score may be, in the user's units
    - `claim`: a fingerprint of the rule, its strength, region and tolerance
    """

    rule: str
    region: str
    verdicts: str
    left: float
    counterexamples: tuple[Counterexample, ...]
    tolerance: float
    how: str
    seconds: float
    claim: str = ""

    @property
    def draws(self) -> int:
        """How many draws were looked at."""
        return len(self.verdicts)

    @property
    def proved(self) -> int:
        """Draws that obey everywhere in the region."""
        return self.verdicts.count(PROVED)

    @property
    def refuted(self) -> int:
        """Draws with a point at which they do not."""
        return self.verdicts.count(REFUTED)

    @property
    def undecided(self) -> int:
        """The rest."""
        return self.verdicts.count(UNDECIDED)

    def mask(self, verdict: str) -> np.ndarray:
        """Which draws have a verdict."""
        return np.array(list(self.verdicts)) == verdict

    def chance_of_breaking(self, confidence: float = 0.95) -> float:
        """An upper bound on the probability that a drawn function breaks the rule somewhere.

        Clopper and Pearson's, at the stated confidence, for independent draws that were not chosen by
        this rule; undecided ones count as broken.

        >>> found = RuleCertificate("r", "", "P" * 1000, 0.0, (), 1e-4, "boxes", 0.0)
        >>> round(found.chance_of_breaking(0.95), 5)
        0.00299
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
        bad = self.draws - self.proved
        if bad == self.draws:
            return 1.0
        return float(beta.ppf(confidence, bad + 1, self.draws - bad))


@dataclass(frozen=True)
class Certificate:
    """Verdicts on every rule, of the draws that have this fingerprint.

    `weights` is a fingerprint of all that the draws' functions depend on: weights, network, likelihood,
    scaling, columns and training table; every rule has one of its own.
    """

    rules: tuple[RuleCertificate, ...]
    weights: str
    version: str
    seconds: float
    schema: int = SCHEMA

    @property
    def holds(self) -> bool:
        """Whether every draw is proved to obey every rule."""
        return all(rule.proved == rule.draws for rule in self.rules)

    @property
    def proved(self) -> np.ndarray:
        """(draws,): whether a draw is proved to obey every rule."""
        masks = [rule.mask(PROVED) for rule in self.rules]
        return np.all(masks, axis=0) if masks else np.zeros(0, bool)

    def __getitem__(self, rule: str) -> RuleCertificate:
        for found in self.rules:
            if found.rule == rule:
                return found
        raise KeyError(f"no rule {rule!r}; rules: {', '.join(r.rule for r in self.rules)}")

    def __str__(self) -> str:
        return "\n".join(
            f"{rule.rule}: {rule.proved} of {rule.draws} draws proved, {rule.refuted} refuted, "
            f"{rule.undecided} undecided ({rule.region})"
            for rule in self.rules
        )

    def is_of(self, posterior: Posterior) -> bool:
        """Whether it speaks of exactly these draws; of schema 1, the weights are all it can tell."""
        found = of_weights_alone(posterior) if self.schema == 1 else of_draws(posterior)
        return self.weights == found

    def mismatch(self, posterior: Posterior, rules: Sequence[Rule]) -> str:
        """Why it may not be trusted for these draws and rules; empty where it may."""
        if not self.is_of(posterior):
            return "it speaks of other weights, another network, likelihood, scaling or table"
        if self.schema == 1:
            return "it is of an earlier version, which did not say which rules it speaks of"
        known = {rule.label: rule for rule in named(rules)}
        for found in self.rules:
            if found.rule not in known:
                return f"it speaks of a rule {found.rule!r} that is not among these"
            if found.claim != of_rule(known[found.rule], found.region, found.tolerance):
                return f"it speaks of another rule {found.rule!r}, strength, region or tolerance"
            if found.draws != len(posterior):
                return f"it has {found.draws} verdicts on {found.rule!r} for {len(posterior)} draws"
        return ""

    def records(self) -> list[dict[str, Any]]:
        """One record a rule, for machines."""
        return [
            {
                "rule": rule.rule,
                "draws": rule.draws,
                "proved": rule.proved,
                "refuted": rule.refuted,
                "undecided": rule.undecided,
                "seconds": round(rule.seconds, 3),
            }
            for rule in self.rules
        ]

    def to_plain(self) -> dict[str, Any]:
        """Numbers, text, lists and mappings only; verdicts as runs, such as ``"P998 R2"``."""
        rules = []
        for rule in self.rules:
            plain = asdict(rule)
            plain["verdicts"] = _runs(rule.verdicts)
            for each in plain["counterexamples"]:
                # JSON has no infinity, which float() reads from text
                each["score"] = (
                    each["score"] if math.isfinite(each["score"]) else str(each["score"])
                )
            rules.append(plain)
        return {
            "schema": self.schema,
            "weights": self.weights,
            "version": self.version,
            "seconds": self.seconds,
            "rules": rules,
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Certificate:
        """Read again what `to_plain` wrote; what is damaged or newer is refused."""
        try:
            schema = int(plain["schema"])
            if schema > SCHEMA:
                raise CertificateError(
                    "the certificate was written by a newer prbnn; upgrade with pip install -U prbnn"
                )
            rules = tuple(_rule_of(each) for each in plain["rules"])
            return Certificate(
                rules, str(plain["weights"]), str(plain["version"]), float(plain["seconds"]), schema
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, CertificateError):
                raise
            raise CertificateError(
                f"the certificate is damaged ({error!r}); certify again"
            ) from None

    def save(self, path: str | os.PathLike) -> None:
        """Write it as JSON."""
        text = json.dumps(self.to_plain(), indent=1, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(
        path: str | os.PathLike,
        posterior: Posterior | None = None,
        rules: Sequence[Rule] | None = None,
    ) -> Certificate:
        """Read it again; with a ``posterior`` and its ``rules``, one that is of others is refused."""
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise CertificateError(f"{path} is not a certificate ({error})") from None
        if not isinstance(plain, dict):
            raise CertificateError(f"{path} is not a certificate; certify again")
        found = Certificate.from_plain(plain)
        why = "" if posterior is None else found.mismatch(posterior, rules or ())
        if why:
            raise CertificateError(f"{path}: {why}; certify again")
        return found


def _rule_of(plain: Mapping[str, Any]) -> RuleCertificate:
    verdicts = _letters(plain["verdicts"])
    numbers = {name: float(plain[name]) for name in ("left", "tolerance", "seconds")}
    if not all(math.isfinite(value) for value in numbers.values()):
        raise ValueError("numbers must be finite")
    return RuleCertificate(
        rule=str(plain["rule"]),
        region=str(plain["region"]),
        verdicts=verdicts,
        counterexamples=tuple(
            Counterexample(
                int(each["draw"]),
                {str(name): float(value) for name, value in each["point"].items()},
                float(each["score"]),
            )
            for each in plain["counterexamples"]
        ),
        how=str(plain["how"]),
        claim=str(plain.get("claim", "")),
        **numbers,
    )


def _runs(verdicts: str) -> str:
    """Letters as runs.

    >>> _runs("PPPRU")
    'P3 R1 U1'
    """
    runs: list[list] = []
    for letter in verdicts:
        if runs and runs[-1][0] == letter:
            runs[-1][1] += 1
        else:
            runs.append([letter, 1])
    return " ".join(f"{letter}{count}" for letter, count in runs)


def _letters(runs: str) -> str:
    """The letters again.

    >>> _letters("P3 R1 U1")
    'PPPRU'
    """
    parts = []
    for run in runs.split():
        letter, count = run[0], int(run[1:])
        if letter not in (PROVED, REFUTED, UNDECIDED) or not 0 < count < 10**9:
            raise ValueError(f"no verdict {run!r}")
        parts.append(letter * count)
    return "".join(parts)
