"""The knowledge report: for every rule how far and how often it is broken, its prices, and a verdict."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prbnn.errors import nearest
from prbnn.fitting.result import Moves, Result, Solution
from prbnn.model.construction.built import built_in
from prbnn.posterior.checks import Check
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.scoring.obedience import known
from prbnn.rules.strengths import Hard, InPrior, Kind, OnAverage, Probable, Soft
from prbnn.system.printing import printable

BY_CONSTRUCTION = "met by construction"
OBEYED = "obeyed by every stored draw"
HEADINGS = (
    "rule",
    "strength",
    "violation",
    "mean breaks",
    "raw draws",
    "stored",
    "price",
    "bound price",
    "verdict",
)
# one line under the table, in its own words
PRICES = (
    "Price: nats gained per unit of mean violation tolerated; bound price: nats gained per unit the "
    "bound is loosened."
)
NO_PRICE = " A hard rule without a tolerance has no price."


@dataclass(frozen=True)
class RuleReport:
    """One rule against a fitted posterior, in the user's units.

    - `violation`: -E f, the mean violation over raw draws and points; for `.on_average`, by how much the
      mean score falls short of its bound; infinite where a score is NaN, which counts as broken
    - `points_broken_by_mean`, `points`: at how many points the mean prediction breaks it, of how many
    - `raw_share`, `stored_share`: fraction of raw and of stored draws that break it anywhere
    - `dual`: the rule's multiplier at the end of training, in nats per unit of mean violation
    - `violated`: probability over raw draws and points that the score is below 0
    - `price`: nats that tolerating one more unit of mean violation would buy: the dual, or None where
      that is no price (`prbnn.fitting.result.has_price`)
    - `moves`: how many raw draws were moved to obey it, and how far; None where draws are not moved
    - `bound_price`: nats that moving the bound outwards by one unit would buy: dual * violated for soft
      rules and for hard rules with a tolerance (see `prbnn.fitting.result.Price`); None if unknown
    """

    name: str
    strength: str
    violation: float
    points_broken_by_mean: int
    points: int
    raw_share: float
    stored_share: float
    dual: float
    verdict: str
    because: str | None = None
    violated: float = math.nan
    bound_price: float | None = None
    price: float | None = None
    moves: Moves | None = None


@dataclass(frozen=True)
class KnowledgeReport:
    """All rules; prints as a table in a terminal and in a notebook.

    - `acceptance`: fraction of raw draws that obey every hard rule, after projection where it is used
    - `tempering`: weight of the KL term, which sets the scale of duals and prices
    - `result`: how the fit ended
    - `fixed`: (stored, drawn) for engines that have a fixed number of draws and cannot replace those
      that were rejected; None for the others
    """

    rules: tuple[RuleReport, ...]
    acceptance: float
    tempering: float
    result: str
    fixed: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[RuleReport]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, key: int | str) -> RuleReport:
        if isinstance(key, str):
            names = [rule.name for rule in self.rules]
            if key not in names:
                raise KeyError(f"no rule {key!r}{nearest(key, names)}")
            return self.rules[names.index(key)]
        return self.rules[key]

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                printable(rule.name),
                rule.strength,
                f"{rule.violation:.2g}",
                f"{rule.points_broken_by_mean} of {rule.points}",
                f"{rule.raw_share:.1%}",
                f"{rule.stored_share:.1%}",
                _number(rule.price),
                _number(rule.bound_price),
                rule.verdict,
            )
            for rule in self.rules
        ]

    @property
    def _notes(self) -> str:
        scale = (
            ""
            if self.tempering == 1
            else f" Prices are on the scale of tempering {self.tempering:g}."
        )
        hard = any(rule.strength == str(Hard()) for rule in self.rules)
        after = " after projection" if self._moved else ""
        accepted = f"; {self.acceptance:.1%} of draws obey every hard rule{after}" if hard else ""
        left = ""
        if self.fixed is not None and self.fixed[0] < self.fixed[1]:
            left = (
                f" This engine has {self.fixed[1]} draws and no more; {self.fixed[0]} are stored."
            )
        return (
            f"{self.result}{accepted}.{left}{self._moved} {PRICES}{NO_PRICE if hard else ''}{scale}"
        )

    @property
    def _moved(self) -> str:
        found = [rule.moves for rule in self.rules if rule.moves is not None]
        if not found:
            return ""
        most = max(found, key=lambda moves: moves.fraction)
        if most.fraction == 0:
            return " No draw had to be moved."
        return (
            f" Draws that broke a rule were moved to the nearest function that obeys: "
            f"{most.fraction:.1%} for {printable(most.rule)!r}, by {most.distance:.2g} standard "
            "deviations of the noise (median)."
        )

    def __str__(self) -> str:
        if not self.rules:
            return "No knowledge was given."
        rows = [HEADINGS, *self._rows()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(HEADINGS))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*lines, self._notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='text-align:left'>{heading}</th>" for heading in HEADINGS)
        body = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row in self._rows()
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{html.escape(self._notes)}</p>"
        )


def _number(price: float | None) -> str:
    return "-" if price is None or not math.isfinite(price) else f"{price:.3g}"


def knowledge_report(
    rules: Sequence[Rule],
    solution: Solution,
    raw: Check,
    stored: Posterior,
    stored_check: Check,
    acceptance: float,
    result: Result | None = None,
    points: int = 1024,
    *,
    moves: Sequence[Moves] = (),
) -> KnowledgeReport:
    """Compare every rule with the draws of a fit.

    - ``raw``, ``stored_check``: dense checks of the rules on the solution's draws and on the stored ones
    - ``stored``: the draws that are kept for prediction
    - ``acceptance``: fraction of raw draws that obey every hard rule
    - ``result``: how the fit ended; the solution's unless given
    - ``points``: how many points the mean prediction is checked at
    - ``moves``: what projection did, of the rules for which draws were moved
    """
    result = result or solution.result
    if not rules:
        return KnowledgeReport((), acceptance, solution.tempering, str(result))
    units = stored.bind(rules, 8).units
    built = built_in(stored.network)
    checked = [stored.points_for_mean(points, built=rule.label in built) for rule in rules]
    breaks = stored.breaks_of_mean(rules, points) if len(stored) else np.array(checked)
    averaged = np.array([rule.strength.kind == Kind.AVERAGE for rule in rules])
    least = np.array([getattr(rule.strength, "bound", 0.0) for rule in rules])
    with np.errstate(invalid="ignore"):
        score = known(np.mean(raw.score, axis=0))
    short = np.maximum(0.0, least - score * units)
    violations = np.where(averaged, short, -np.mean(raw.f, axis=0) * units)
    by_rule = {each.rule: each for each in moves}
    lines = []
    for place, rule in enumerate(rules):
        raw_share = float(np.mean(raw.broken()[:, place]))
        stored_share = float(np.mean(stored_check.broken()[:, place])) if len(stored) else 1.0
        price = solution.prices[rule.label]
        lines.append(
            RuleReport(
                name=rule.label,
                strength=str(rule.strength),
                violation=float(violations[place]) + 0.0,
                points_broken_by_mean=int(breaks[place]),
                points=checked[place],
                raw_share=raw_share,
                stored_share=stored_share,
                dual=solution.duals[rule.label],
                verdict=BY_CONSTRUCTION
                if rule.label in built and raw_share == stored_share == 0
                else _verdict(rule, units[place], raw, place, stored_share, result),
                because=rule.because,
                violated=price.violated,
                bound_price=price.bound,
                price=price.tolerance,
                moves=by_rule.get(rule.label),
            )
        )
    fixed = None if solution.fitted.endless else (len(stored), len(solution.posterior))
    return KnowledgeReport(tuple(lines), acceptance, solution.tempering, str(result), fixed)


def _verdict(
    rule: Rule, unit: float, raw: Check, place: int, stored_share: float, result: Result
) -> str:
    unfinished = rule.label in result.rules
    match rule.strength:
        case Hard(tolerance=None):
            if stored_share == 0:
                return f"{OBEYED}; pressure still rising" if unfinished else OBEYED
            return "not met" if unfinished else "broken"
        case Hard():
            return "within tolerance" if meets(rule, unit, raw, place) else "broken"
        case Probable() | OnAverage():
            return "met" if meets(rule, unit, raw, place) else "not met"
        case Soft() | InPrior():
            broken = np.mean(raw.broken()[:, place])
            return "obeyed by all draws" if broken == 0 else f"broken by {broken:.0%} of draws"


class Gap(NamedTuple):
    """By how much the average over draws misses what a strength asks of it, in the user's unit.

    - `value`: above 0 where it is not met
    - `error`: its standard error
    - `slack`: how large a gap may be
    - `spread`: the standard deviation over draws
    """

    value: float
    error: float
    slack: float
    spread: float = 0.0

    @property
    def met(self) -> bool:
        """Whether the target is met, within three standard errors."""
        return self.value <= self.slack + 3 * self.error

    @property
    def just(self) -> bool:
        """Whether it is, and not by more than is asked for: as at the dual that belongs to it."""
        return abs(self.value) <= self.slack + 2 * self.error


def gap(rule: Rule, unit: float, raw: Check, place: int) -> Gap:
    """What raw draws, checked densely, show of what the rule's strength asks of their average.

    ``unit`` is the rule's unit, ``place`` its column in ``raw``. The slack is 1/10 of the tolerance or of
    the probability allowed, or 1/100 of a unit for `.on_average`. Strengths that ask nothing of an
    average are met.
    """
    match rule.strength:
        case Hard(tolerance=tolerance) if tolerance is not None:
            found, allowed, slack = -raw.f[:, place] * unit, tolerance, 0.1 * tolerance
        case OnAverage(bound=least):
            found, allowed, slack = -raw.score[:, place] * unit, -least, 0.01 * unit
        case Probable(p=p, of=of):
            found = raw.broken()[:, place] if of == "functions" else raw.points[:, place]
            allowed, slack = 1 - p, 0.1 * (1 - p)
        case _:
            return Gap(0.0, 0.0, 0.0)
    if not np.all(np.isfinite(found)):
        # one draw with a score of NaN leaves the mean unknown, which counts as not met
        return Gap(np.inf, 0.0, slack)
    spread = float(np.std(found))
    return Gap(float(np.mean(found)) - allowed, spread / max(1, len(found)) ** 0.5, slack, spread)


def meets(rule: Rule, unit: float, raw: Check, place: int) -> bool:
    """Whether raw draws, checked densely, meet what the rule's strength asks of their average.

    The arguments are those of `gap`.
    """
    return gap(rule, unit, raw, place).met
