"""Proved, refuted or undecided: every rule on its whole region, for every draw of a posterior."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata

import numpy as np

from prbnn.certify.certificate import (
    PROVED,
    REFUTED,
    UNDECIDED,
    Certificate,
    Counterexample,
    RuleCertificate,
)
from prbnn.certify.fingerprints import of_draws, of_rule
from prbnn.certify.rule_property import RuleProperty
from prbnn.certify.search import Found, search
from prbnn.errors import NotEnclosedError, is_number
from prbnn.model.construction.built import built_in
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule, named
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE
from prbnn.system.process import computing

# training rows at which columns are held that a rule does not sweep
ROWS = 500
# counterexamples per rule that a certificate keeps
KEPT = 100


def certify(
    posterior: Posterior,
    rules: Sequence[Rule],
    seconds: float = 60.0,
    *,
    rows: int | None = ROWS,
    tolerance: float = CHECK_TOLERANCE,
    progress: Callable[[str, float], None] | None = None,
) -> Certificate:
    """Decide for each rule and draw whether the rule holds on the set that `region` names.

    - ``seconds``: time limit for all rules together; what one rule does not need goes to those after it
    - ``rows``: columns that a rule does not name are held at this many training rows, spread over the
      table (None: every one). Nothing is proved between rows, and the certificate says so; with
      ``where=Box(...)`` every column is swept
    - ``tolerance``: how far below 0 a score may be, in the rule's unit
    - ``progress``: called with the rule's label and the fraction of its draws that is decided

    A proof holds for the network as deployed, rounding included. A refuted draw comes with a point at
    which the deployed score is below -tolerance. Rules that cannot be enclosed are undecided, and
    `RuleCertificate.how` says why.
    """
    computing()
    return Certifier(posterior, rules, rows=rows, tolerance=tolerance).certify(
        posterior, seconds, progress=progress
    )


class Certifier:
    """Rules ready to be decided for any draws of one network: programs are compiled once.

    Arguments are those of `certify`; of ``posterior``, the network, scaling and table are used.
    """

    def __init__(
        self,
        posterior: Posterior,
        rules: Sequence[Rule],
        *,
        rows: int | None = ROWS,
        tolerance: float = CHECK_TOLERANCE,
    ):
        self.rules, self.rows, self.tolerance = named(rules), rows, tolerance
        self._template = posterior
        self._properties: dict[int, RuleProperty] = {}

    def certify(
        self,
        posterior: Posterior,
        seconds: float = 60.0,
        *,
        progress: Callable[[str, float], None] | None = None,
    ) -> Certificate:
        """Verdicts on the draws of ``posterior``; ``seconds`` do not include time to compile."""
        if not (is_number(seconds) and seconds > 0):
            raise ValueError(f"seconds must be above 0, got {seconds!r}")
        began, left, found = time.monotonic(), float(seconds), []
        for place, rule in enumerate(self.rules):
            tell = None if progress is None else partial(progress, rule.label)
            limit = left / (len(self.rules) - place)
            one, spent = self._decide(place, posterior, limit, tell)
            one = replace(one, claim=of_rule(rule, one.region, one.tolerance))
            left = max(left - spent, 0.0)
            found.append(one)
        spent = time.monotonic() - began
        return Certificate(tuple(found), of_draws(posterior), _version(), spent)

    def joined(self, parts: Sequence[Certificate], proved: Posterior) -> Certificate:
        """One certificate of the draws ``proved``, which several calls of `certify` have proved."""
        rules = tuple(
            replace(
                rule,
                verdicts=PROVED * len(proved),
                left=0.0,
                counterexamples=(),
                seconds=sum(part.rules[place].seconds for part in parts),
            )
            for place, rule in enumerate(parts[0].rules if parts else ())
        )
        spent = sum(part.seconds for part in parts)
        return Certificate(rules, of_draws(proved), _version(), spent)

    def _decide(
        self,
        place: int,
        posterior: Posterior,
        seconds: float,
        progress: Callable[[float], None] | None,
    ) -> tuple[RuleCertificate, float]:
        """The rule at position ``place`` on all draws, and the seconds that the search took."""
        began, rule, count = time.monotonic(), self.rules[place], len(posterior)
        if rule.label in built_in(posterior.network):
            spent = time.monotonic() - began
            return replace(_by_construction(rule, posterior), seconds=spent), 0.0
        try:
            if place not in self._properties:
                self._properties[place] = RuleProperty(
                    self._template, rule, self.rows, self.tolerance
                )
        except NotEnclosedError as error:
            why = f"cannot be proved: {error}"
            spent = time.monotonic() - began
            nothing = UNDECIDED * count
            return RuleCertificate(rule.label, "", nothing, 1.0, (), 0.0, why, spent), 0.0
        goal = self._properties[place]
        if count:
            goal.load(posterior)
        question = goal.question
        found = search(goal, count, question.lower, question.upper, seconds, progress)
        return RuleCertificate(
            rule=rule.label,
            region=question.region,
            verdicts=_verdicts(found),
            left=float(found.left.max(initial=0.0)),
            counterexamples=_counterexamples(goal, found),
            tolerance=self.tolerance * question.unit,
            how="boxes",
            seconds=time.monotonic() - began,
            rows=question.rows,
        ), found.seconds


def _by_construction(rule: Rule, posterior: Posterior) -> RuleCertificate:
    """Construction holds for all weights; draws that overflow or are NaN stay undecided."""
    check = posterior.check([rule])
    sure = np.all(np.isfinite(posterior.vectors), axis=1) & check.obeys()
    verdicts = "".join(PROVED if each else UNDECIDED for each in sure)
    left = 0.0 if sure.all() else 1.0
    return RuleCertificate(
        rule.label, "everywhere", verdicts, left, (), 0.0, "by construction", 0.0
    )


def _version() -> str:
    try:
        return metadata.version("prbnn")
    except metadata.PackageNotFoundError:
        return "not installed"


def _verdicts(found: Found) -> str:
    proved, refuted = found.proved, found.refuted
    return "".join(
        PROVED if sure else REFUTED if broken else UNDECIDED
        for sure, broken in zip(proved, refuted, strict=True)
    )


def _counterexamples(goal: RuleProperty, found: Found) -> tuple[Counterexample, ...]:
    names = goal.columns.inputs
    kept = sorted(found.counterexamples)[:KEPT]
    return tuple(
        Counterexample(
            draw,
            {n: float(v) for n, v in zip(names, found.counterexamples[draw], strict=True)},
            float(found.scores[draw]) * goal.question.unit,
        )
        for draw in kept
    )
