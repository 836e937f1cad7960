"""Certificates: one verdict per rule and draw, small enough to save with a model."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from prbnn.certify.fingerprints import of_draws, of_rule, of_weights_alone
from prbnn.errors import CertificateError
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule, named
from prbnn.system.disk import read_limited, write_whole
from prbnn.system.strict_json import parse_json

# 2: fingerprints of all that a verdict depends on; 1 had one of the weights alone
SCHEMA = 2
# largest number of verdicts that is read: 10,000 draws and 1,000 rules
MOST_VERDICTS = 10_000_000
LARGEST_FILE = 100_000_000
PROVED, REFUTED, UNDECIDED = "P", "R", "U"


class NewerCertificateError(CertificateError):
    """A certificate that a later version of this library wrote."""


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
    """One rule, on the set that `region` names.

    - `region`: the set in words, exactly: intervals, values of categories, and training rows
    - `verdicts`: one letter per draw: P proved, R refuted, U undecided
    - `left`: the undecided fraction of the region, for the draw where it is largest
    - `how`: "boxes", "by construction", or why nothing could be proved
    - `tolerance`: how far below 0 a score may be, in the user's units
    - `rows`: at how many training rows the columns are held that the rule does not name; nothing is
      proved between them. None where every column is swept
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
    rows: int | None = None
    claim: str = ""

    @property
    def draws(self) -> int:
        """The number of draws."""
        return len(self.verdicts)

    @property
    def proved(self) -> int:
        """The number of draws that obey everywhere in the set that `region` names."""
        return self.verdicts.count(PROVED)

    @property
    def refuted(self) -> int:
        """The number of draws with a counterexample."""
        return self.verdicts.count(REFUTED)

    @property
    def undecided(self) -> int:
        """The number of draws that are neither proved nor refuted."""
        return self.verdicts.count(UNDECIDED)

    def mask(self, verdict: str) -> np.ndarray:
        """(draws,): whether a draw has this verdict, one of P, R and U."""
        return np.array(list(self.verdicts)) == verdict

    def chance_of_breaking(self, confidence: float = 0.95) -> float:
        """An upper bound on the probability that a drawn function breaks the rule in `region`.

        It is the Clopper-Pearson bound at this confidence, for independent draws that were not selected
        by this rule; undecided draws count as broken.

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
    """Verdicts on every rule, for the draws of one posterior.

    `weights` is a fingerprint of all that the draws' functions depend on: weights, network, likelihood,
    scaling, columns and training table; every rule has one of its own (`RuleCertificate.claim`).
    """

    rules: tuple[RuleCertificate, ...]
    weights: str
    version: str
    seconds: float
    schema: int = SCHEMA

    @property
    def holds(self) -> bool:
        """Whether every draw is proved to obey every rule, on the set that the rule's `region` names."""
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
        """Whether it is of exactly these draws; schema 1 compares the weights alone."""
        found = of_weights_alone(posterior) if self.schema == 1 else of_draws(posterior)
        return self.weights == found

    def mismatch(self, posterior: Posterior, rules: Sequence[Rule]) -> str:
        """Why it may not be trusted for these draws and rules; empty where it may."""
        if not self.is_of(posterior):
            return "it was made for other weights, another network, likelihood, scaling or table"
        if self.schema == 1:
            return "it was written by an earlier version that did not record its rules"
        known = {rule.label: rule for rule in named(rules)}
        for found in self.rules:
            if found.rule not in known:
                return f"it was made for a rule {found.rule!r} that the model does not have"
            if found.claim != of_rule(known[found.rule], found.region, found.tolerance):
                return f"it was made for another rule {found.rule!r}, strength, region or tolerance"
            if found.draws != len(posterior):
                return f"it has {found.draws} verdicts on {found.rule!r} for {len(posterior)} draws"
        return ""

    def records(self) -> list[dict[str, Any]]:
        """One record per rule, for machines."""
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
        """The certificate that `to_plain` wrote; a damaged or newer one raises `CertificateError`."""
        try:
            schema = int(plain["schema"])
            if schema > SCHEMA:
                raise NewerCertificateError(
                    "the certificate was written by a newer prbnn; upgrade with pip install -U prbnn"
                )
            _check_counts([each["verdicts"] for each in plain["rules"]])
            rules = tuple(_rule_of(each) for each in plain["rules"])
            return Certificate(
                rules, str(plain["weights"]), str(plain["version"]), float(plain["seconds"]), schema
            )
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            if isinstance(error, CertificateError):
                raise
            raise CertificateError(
                f"the certificate is damaged ({error!r}); certify again"
            ) from None

    def save(self, path: str | os.PathLike) -> None:
        """Write it as JSON."""
        text = json.dumps(self.to_plain(), indent=1, allow_nan=False)
        write_whole(path, f"{text}\n".encode())

    @staticmethod
    def load(
        path: str | os.PathLike,
        posterior: Posterior | None = None,
        rules: Sequence[Rule] | None = None,
    ) -> Certificate:
        """Read a certificate; with a ``posterior`` and its ``rules``, one that is of others raises."""
        try:
            found = Certificate.from_plain(read_plain(path))
        except CertificateError as error:
            message = str(error)
            named = message if str(path) in message else f"{path}: {message}"
            raise type(error)(named) from None
        why = "" if posterior is None else found.mismatch(posterior, rules or ())
        if why:
            raise CertificateError(f"{path}: {why}; certify again")
        return found


def read_plain(path: str | os.PathLike) -> dict[str, Any]:
    """The content of a certificate's file, before it is validated."""
    try:
        plain = parse_json(read_limited(path, LARGEST_FILE))
    except ValueError as error:
        raise CertificateError(f"{path} is not a certificate ({error}); certify again") from None
    if not isinstance(plain, dict):
        raise CertificateError(f"{path} is not a certificate; certify again")
    return plain


def _rule_of(plain: Mapping[str, Any]) -> RuleCertificate:
    verdicts = _letters(plain["verdicts"])
    numbers = {name: float(plain[name]) for name in ("left", "tolerance", "seconds")}
    if not all(math.isfinite(value) for value in numbers.values()):
        raise ValueError("numbers must be finite")
    how, region = str(plain["how"]), str(plain["region"])
    if "rows" in plain:
        rows = None if plain["rows"] is None else int(plain["rows"])
    else:
        rows, region = _earlier(region, how)
    return RuleCertificate(
        rule=str(plain["rule"]),
        region=region,
        verdicts=verdicts,
        counterexamples=tuple(
            Counterexample(
                int(each["draw"]),
                {str(name): float(value) for name, value in each["point"].items()},
                float(each["score"]),
            )
            for each in plain["counterexamples"]
        ),
        how=how,
        rows=rows,
        claim=str(plain.get("claim", "")),
        **numbers,
    )


def _earlier(region: str, how: str) -> tuple[int | None, str]:
    """(rows, region) of a certificate from before these were separate fields.

    >>> _earlier("x in [0, 30]; the others at 7 of 9 training rows", "boxes")[0]
    7
    """
    held = re.search(r"the others at (\d+)", region)
    if how == "boxes":
        region += (
            " (written by an earlier version: columns with few distinct values were proved only at those "
            "values; certify again for exact sets)"
        )
    return (int(held.group(1)) if held else None), region


def _runs(verdicts: str) -> str:
    """Verdict letters as runs, run-length encoded.

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
    """The verdict letters that `_runs` encoded.

    >>> _letters("P3 R1 U1")
    'PPPRU'
    """
    return "".join(letter * count for letter, count in _counted(runs))


def _counted(runs: str) -> list[tuple[str, int]]:
    counted = [(run[0], int(run[1:])) for run in runs.split()]
    for letter, count in counted:
        if letter not in (PROVED, REFUTED, UNDECIDED) or count < 1:
            raise ValueError(f"no verdict {letter}{count}")
    return counted


def _check_counts(verdicts: list[str]) -> None:
    """Raise if runs stand for too many verdicts, before any is written out and fills memory."""
    total = sum(count for runs in verdicts for _, count in _counted(runs))
    if total > MOST_VERDICTS:
        raise ValueError(f"{total} verdicts; at most {MOST_VERDICTS} are read")
