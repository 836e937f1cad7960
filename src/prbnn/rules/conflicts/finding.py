"""Which rules cannot hold together, found before training, reported as minimal conflicting sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from prbnn.data.columns import Columns
from prbnn.rules.base import Rule, named, naming
from prbnn.rules.conflicts.claims import (
    Claim,
    claims_of,
    gaps,
    have_common,
    quantity_text,
    subject_of,
)
from prbnn.rules.conflicts.webs import Program, web
from prbnn.rules.evaluation import at_points
from prbnn.rules.regions import ROUNDING, Sampling, Sweep, sample, swept
from prbnn.rules.statements import Quantity, Slope, Smooth, Value
from prbnn.rules.strengths import Hard, OnAverage, Probable

POINTS, ROWS_PER_REGION, MOST_REGIONS, MOST_WEBS, MOST_TRIES = 2048, 3, 120, 40, 16
REGIONS_PER_BOX = 4


@dataclass(frozen=True)
class Conflict:
    """A minimal set of rules that no function obeys together, and a place where they conflict.

    ``contradiction`` is False where a soft, average or tolerant strength lets training trade them off.
    """

    rules: tuple[str, ...]
    reason: str
    place: dict[str, float]
    contradiction: bool

    def __str__(self) -> str:
        names = [repr(rule) for rule in self.rules]
        listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        verb = "cannot hold together" if len(names) > 1 else "cannot hold"
        return f"{listed} {verb}: {self.reason}"


def conflicts(rules: Sequence[Rule], columns: Columns) -> list[Conflict]:
    """Every smallest set of rules found that no function can obey, contradictions first.

    Values, slopes and curvatures are compared at points of the regions; what bounds, slopes and
    comparisons force upon each other along a column is a linear program. Means (``on_average`` and
    tolerances) are compared by twos, over the same region. Only points are looked at, so a conflict
    in a small corner can be missed; scores of one's own are left out.

    >>> from prbnn import AtLeast, AtMost, Increasing
    >>> table = Columns(("x",), ("y",), np.linspace(0, 1, 9)[:, None], np.linspace(0, 9, 9)[:, None])
    >>> high, low = AtLeast(5, where={"x": (0, 0.2)}), AtMost(3, where={"x": (0.8, 1)})
    >>> conflicts([high, low], table)
    []
    >>> [len(found.rules) for found in conflicts([high, low, Increasing("x"), AtLeast(0)], table)]
    [3]
    """
    if not rules:
        return []
    listed = [rule for rule in named(rules) if not isinstance(rule.strength, OnAverage)]
    for rule in listed:
        with naming(rule):
            for box in rule.region:
                swept(box, Sampling(rule.region), columns)
            for column in _moved([rule], columns):
                columns.index(column)
    binding = [rule for rule in listed if _fraction(rule) is not None]
    found = _search(binding, columns)
    involved = {name for conflict in found for name in conflict.rules}
    rest = [rule for rule in listed if rule.label not in involved]
    if len(rest) > len([rule for rule in binding if rule.label not in involved]):
        found += _search(rest, columns)
    means = list(_of_means(named(rules), columns))
    known = [{*mean.rules} for mean in means]
    found = means + [conflict for conflict in found if {*conflict.rules} not in known]
    return sorted(found, key=lambda conflict: not conflict.contradiction)


def _fraction(rule: Rule) -> float | None:
    """The least fraction of functions that obeys, where the strength promises one above a half."""
    match rule.strength:
        case Hard(tolerance=tolerance) if not tolerance:
            return 1.0
        case Probable(p=p, of="functions") if p > 0.5:
            return p
    return None


def _contradict(rules: Sequence[Rule]) -> bool:
    """Whether some function would have to obey all: fractions above 1 - 1/n have one in common."""
    fractions = [_fraction(rule) for rule in rules]
    return sum(1 - fraction if fraction else 1.0 for fraction in fractions) < 1


def _search(rules: Sequence[Rule], columns: Columns) -> list[Conflict]:
    if not rules:
        return []
    found: dict[frozenset[int], Conflict] = {}
    for search in (_at_points(rules, columns), _along_lines(rules, columns, found)):
        for places, place, reason in search:
            key = frozenset(places)
            if any(known <= key for known in found):
                continue
            chosen = [rules[k] for k in sorted(key)]
            names = tuple(rule.label for rule in chosen)
            found[key] = Conflict(names, reason, place, _contradict(chosen))
    return list(found.values())


# --- at points -----------------------------------------------------------------------------


def _at_points(
    rules: Sequence[Rule], columns: Columns
) -> Iterator[tuple[tuple[int, ...], dict[str, float], str]]:
    """One, two or three rules that leave no value for a quantity at some point."""
    claims: dict[Quantity, dict[int, list[Claim]]] = {}
    for place, rule in enumerate(rules):
        for claim in claims_of(rule, columns):
            claims.setdefault(claim.quantity, {}).setdefault(place, []).append(claim)
    points = np.concatenate(list(_points(rules, columns, None, POINTS)))
    for quantity, by_rule in claims.items():
        allowed = {}
        for place, held in by_rule.items():
            with naming(rules[place]):
                allowed[place] = [claim.allowed(columns, points) for claim in held]
        for places in _apart(allowed):
            gap = gaps([union for place in places for union in allowed[place]])
            at = int(gap.argmax())
            place = dict(zip(columns.inputs, map(float, points[at]), strict=True))
            asked = [
                f"{rules[k].label!r} asks for {_interval(union[at])}"
                for k in places
                for union in allowed[k]
            ]
            yield places, place, f"at {_shown(place)} {quantity_text(quantity)}: {', '.join(asked)}"


def _apart(allowed: Mapping[int, list[np.ndarray]]) -> Iterator[tuple[int, ...]]:
    """One, two or three rules whose intervals have no value in common at some point.

    Where all rules have a value in common, so have any few of them: only the other points are
    examined, and only the rules with a limit there. Rules are mostly consistent, so hundreds take one
    pass instead of a comparison of every pair and triple.
    """
    everything = [union for held in allowed.values() for union in held]
    doubtful = np.flatnonzero(~have_common(everything))
    if not len(doubtful):
        return
    near = {place: [union[doubtful] for union in held] for place, held in allowed.items()}
    near = {place: held for place, held in near.items() if any(map(_has_limit, held))}
    found: set[tuple[int, ...]] = set()
    several = {place for place, held in near.items() if any(u.shape[1] > 1 for u in held)}
    for size in (1, 2, 3):
        for places in combinations(near, size):
            # intervals that intersect pairwise intersect jointly (Helly); only unions need triples
            if size == 3 and (
                several.isdisjoint(places)
                or any(few in found for n in (1, 2) for few in combinations(places, n))
            ):
                continue
            if gaps([union for place in places for union in near[place]]).max() > 0:
                found.add(places)
                yield places


def _has_limit(union: np.ndarray) -> bool:
    """Whether a union of intervals has a finite end at some point."""
    return bool(np.any(np.isfinite(union)))


def _interval(union: np.ndarray) -> str:
    def one(low: float, high: float) -> str:
        if not np.isfinite(low):
            return f"at most {high:g}"
        return f"at least {low:g}" if not np.isfinite(high) else f"{low:g} to {high:g}"

    return " or ".join(one(low, high) for low, high in union)


def _shown(place: dict[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in place.items())


# --- on average ------------------------------------------------------------------------------


def _of_means(rules: Sequence[Rule], columns: Columns) -> Iterator[Conflict]:
    """Two rules that keep the mean of a quantity over the same points above and below apart.

    mean(y - a) >= -give and mean(b - y) >= -give' add up to mean(a - b) <= give + give'. A tolerance
    is stricter than a bound on the mean, since min(0, y - a) <= y - a.
    """
    sides: dict[tuple[Quantity, Sampling], list[tuple[Rule, float, float]]] = {}
    for rule in rules:
        match rule.strength:
            case OnAverage(bound=least):
                give = -least
            case Hard(tolerance=tolerance) if tolerance:
                give = tolerance
            case _:
                continue
        with naming(rule):
            claims = claims_of(rule, columns)
            if len(claims) != 1 or not isinstance(claims[0].quantity, Value | Slope):
                continue
            (claim,) = claims
            ends = [end for end in claim.intervals[0] if end is not None]
            if claim.give != 0.0 or len(claim.intervals) > 1 or len(ends) != 1:
                continue
            sampling = rule.sampling(columns).shared(columns)
            limit = at_points(ends[0], columns, sample(sampling, columns, POINTS), "bound").mean()
        sign = 1.0 if claim.intervals[0][0] is not None else -1.0
        sides.setdefault((claim.quantity, sampling), []).append((rule, sign, limit - sign * give))
    for (quantity, _), bounded in sides.items():
        for first, second in combinations(bounded, 2):
            if first[1] * second[1] < 0:
                lower, upper = (first, second) if first[1] > 0 else (second, first)
                if lower[2] - upper[2] > ROUNDING * max(abs(lower[2]), abs(upper[2])):
                    asked = (
                        f"the mean of {quantity_text(quantity)}: {lower[0].label!r} asks for at "
                        f"least {lower[2]:g}, {upper[0].label!r} for at most {upper[2]:g}"
                    )
                    yield Conflict((first[0].label, second[0].label), asked, {}, True)


# --- along lines ---------------------------------------------------------------------------


def _along_lines(
    rules: Sequence[Rule], columns: Columns, found: Collection[frozenset[int]]
) -> Iterator[tuple[tuple[int, ...], dict[str, float], str]]:
    """Rules without a solution on a line along some column that a rule moves along.

    ``found`` is read as it grows: what is known to clash is not searched for again.
    """
    values = _on_values(rules, columns)
    for column in _moved(rules, columns):
        rows = np.concatenate(list(_points(rules, columns, column, ROWS_PER_REGION)))
        # along one input every row is the same line
        rows[:, columns.index(column)] = rows[0, columns.index(column)]
        rows = rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]
        for row in rows[:: max(1, len(rows) // MOST_WEBS)]:
            for places in _clashes(web(rules, columns, column, row), values, found):
                others = dict(zip(columns.inputs, map(float, row), strict=True))
                del others[column]
                there = f" at {_shown(others)}" if others else ""
                first = rules[places[0]].statements(columns)[0]
                subject = subject_of(first.quantity, columns)
                name = subject if isinstance(subject, str) else "the output"
                yield places, others, f"along {column}{there} no {name} meets them all"


def _clashes(
    program: Program, values: Collection[int], found: Collection[frozenset[int]]
) -> Iterator[tuple[int, ...]]:
    """Smallest sets without a solution: once one is found, without each of its rules in turn.

    ``values`` are the rules on values. They are left out last, so that two bounds that
    clash are named alone.
    """
    waiting = [frozenset(program.rules)]
    for number in range(MOST_TRIES):
        if number >= len(waiting):
            return
        held = sorted(waiting[number], key=lambda place: (place in values, place))
        if program.feasible(held):
            continue
        again = next((k for k in found if k <= {*held} and not program.feasible(k)), None)
        places = tuple(sorted(again)) if again else program.smallest(held)
        yield places
        fewer = [waiting[number] - {place} for place in places]
        waiting += [some for some in dict.fromkeys(fewer) if some not in waiting]


def _on_values(rules: Sequence[Rule], columns: Columns) -> set[int]:
    return {
        place
        for place, rule in enumerate(rules)
        if rule.parts == (rule,)
        and all(isinstance(s.quantity, Value | Smooth) for s in rule.statements(columns))
    }


def _moved(rules: Sequence[Rule], columns: Columns) -> list[str]:
    """Columns along which some rule compares the function with itself."""
    found = {
        column: None
        for rule in rules
        for statement in rule.statements(columns)
        for column in statement.quantity.columns
    }
    return list(found)


# --- where to look -------------------------------------------------------------------------


def _points(
    rules: Sequence[Rule], columns: Columns, free: str | None, count: int
) -> Iterator[np.ndarray]:
    """Points where one, two or three of the rules' regions overlap, whatever the column ``free`` is.

    Without a free column, ``count`` is shared among the overlaps; with one, each has as many.
    """
    boxes = {
        Sweep(tuple(r for r in box.ranges if r[0] != free), box.full)
        for rule in rules
        for box in (rule.region or (Sweep(),))
    }
    most = max(MOST_REGIONS, REGIONS_PER_BOX * len(boxes))
    regions: dict[Sweep, None] = {}
    for overlap in _overlaps(sorted(boxes, key=repr), columns):
        regions[overlap] = None
        if len(regions) == most:
            break
    chosen = list(regions)
    each = count if free is not None else max(16, count // len(chosen))
    for box in chosen:
        yield sample(Sampling((box,)), columns, each)


def _overlaps(boxes: Sequence[Sweep], columns: Columns) -> Iterator[Sweep]:
    """Intersections of one, two or three boxes; triples only of boxes that both overlap the first."""
    for box in boxes:
        found = _overlap([box], columns)
        if found is not None:
            yield found
    partners: dict[int, list[int]] = {}
    for first, second in combinations(range(len(boxes)), 2):
        found = _overlap([boxes[first], boxes[second]], columns)
        if found is not None:
            partners.setdefault(first, []).append(second)
            yield found
    for first, others in partners.items():
        for second, third in combinations(others, 2):
            found = _overlap([boxes[first], boxes[second], boxes[third]], columns)
            if found is not None:
                yield found


def _overlap(boxes: Sequence[Sweep], columns: Columns) -> Sweep | None:
    ranges: dict[str, tuple[float, float]] = {}
    for box in boxes:
        for column, low, high in box.ranges:
            before = ranges.get(column, (-np.inf, np.inf))
            ranges[column] = (max(before[0], low), min(before[1], high))
    if any(_is_empty(column, *ends, columns) for column, ends in ranges.items()):
        return None
    return Sweep(
        tuple((column, low, high) for column, (low, high) in sorted(ranges.items())),
        any(box.full for box in boxes),
    )


def _is_empty(column: str, low: float, high: float, columns: Columns) -> bool:
    """Whether a range holds no number, or none of the values of a category."""
    values = columns.values_in(column, low, high) if low < high else None
    return low > high or (values is not None and not len(values))
