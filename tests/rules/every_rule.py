"""Rules of every kind that a file can hold, for hypothesis and as plain examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from prbnn import (
    AtLeast,
    AtMost,
    Between,
    Box,
    Combined,
    Compare,
    Concave,
    Continues,
    Convex,
    CurvatureBetween,
    Decreasing,
    Equals,
    Falls,
    Increasing,
    OneOf,
    Outside,
    Periodic,
    RateBetween,
    Rises,
    SlopeBetween,
    Unimodal,
)
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Hard, InPrior, OnAverage, Probable, Soft

numbers = st.one_of(
    st.integers(-(10**6), 10**6),
    st.floats(-1e12, 1e12),
    st.sampled_from([1e4, 1e-7, 1e20, -3e-300, 0.1, -0.0]),
)
above_zero = st.one_of(st.integers(1, 10**6), st.floats(1e-9, 1e9))
texts = st.sampled_from(["2*x", "log(25*x + 1)/3", "`wind speed` - 3", "1e4", "0", "e", "-x"])
bounds = st.one_of(numbers, texts)
# names that YAML readers like to take for something else
columns = st.sampled_from(
    ["x", "wind speed", "on", "NO", "2020", "1e4", "null", "box", "é", "a: b"]
)
words = st.one_of(
    st.sampled_from(
        ["never negative", "yes", "3", "1e4", "~", "- a", "a: b", "'", "#1", " x ", "=", "<<"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12),
)
pairs = st.tuples(bounds, bounds)
ends = st.one_of(
    numbers,
    st.tuples(numbers, numbers).map(sorted),
    st.tuples(numbers, numbers).map(lambda pair: tuple(sorted(pair))),
)
ranges = st.dictionaries(columns, ends, max_size=3)
boxes = st.one_of(ranges, ranges.map(Box))
places = st.one_of(
    st.none(), boxes, st.lists(boxes, min_size=1, max_size=3), st.just([[{"x": (0, 1)}], Box()])
)
strengths = st.one_of(
    st.just(Hard()),
    st.builds(Hard, st.one_of(st.just(0), above_zero)),
    st.builds(Soft, above_zero, st.one_of(st.just(1), st.floats(1, 4))),
    st.builds(Probable, st.floats(0.001, 0.999), st.sampled_from(["functions", "points"])),
    st.builds(OnAverage, numbers),
    st.builds(InPrior, above_zero),
)  # fmt: skip
common: dict[str, Any] = {
    "name": st.one_of(st.none(), words),
    "where": places,
    "margin": st.one_of(st.just(0.0), above_zero),
    "strength": strengths,
    "because": st.one_of(st.none(), words),
}
about: dict[str, Any] = {
    **common,
    "of": st.one_of(st.none(), words),
    "at": st.one_of(
        st.none(),
        st.sampled_from(["first", "last"]),
        st.integers(1, 9),
        st.lists(st.integers(1, 9), min_size=1, max_size=3),
    ),
}
changes = st.dictionaries(columns, bounds, max_size=2)
steps = st.one_of(st.none(), above_zero)
limits = pairs.map(list) | st.sampled_from([(None, 2), ("x", None), (0, "1 + x")])
lags: dict[str, Any] = {"lag": st.integers(1, 9), "observed": st.booleans()}
rates = st.one_of(
    st.tuples(numbers, numbers).map(sorted), st.just((None, 3.5)), st.just((-2, None))
)


def _compare(set: dict, relation: str, against: dict, by: float, **rest: Any) -> Rule:
    sides: dict[str, Any] = {relation: against}
    return Compare(set, by=by, **sides, **rest)


simple: dict[type[Rule], st.SearchStrategy[Rule]] = {
    AtLeast: st.builds(AtLeast, bounds, **about),
    AtMost: st.builds(AtMost, bounds, **about),
    Between: st.builds(Between, bounds, bounds, **about),
    Equals: st.builds(Equals, bounds, steps, **about),
    OneOf: st.builds(OneOf, st.lists(pairs, min_size=1, max_size=3), **about),
    Outside: st.builds(
        Outside,
        st.lists(pairs, min_size=1, max_size=3),
        st.one_of(st.none(), st.just((15, 2)), st.just([1.5, 2])),
        **about,
    ),
    Increasing: st.builds(Increasing, columns, steps, **about),
    Decreasing: st.builds(Decreasing, columns, steps, **about),
    SlopeBetween: st.builds(
        lambda c, ends, **rest: SlopeBetween(c, *ends, **rest), columns, limits, **about
    ),
    Convex: st.builds(Convex, columns, steps, **about),
    Concave: st.builds(Concave, columns, steps, **about),
    CurvatureBetween: st.builds(
        lambda c, ends, step, **rest: CurvatureBetween(c, *ends, step, **rest),
        columns,
        limits,
        steps,
        **about,
    ),
    Periodic: st.builds(Periodic, columns, above_zero, steps, **about),
    Unimodal: st.builds(
        Unimodal,
        columns,
        numbers | st.tuples(numbers, numbers).map(sorted),
        steps,
        **about,
    ),
    Compare: st.builds(
        _compare,
        changes,
        st.sampled_from(["below", "above", "within"]),
        changes,
        above_zero,
        **about,
    )
    | st.builds(
        _compare, changes, st.sampled_from(["below", "above"]), changes, st.just(0), **about
    ),
    Falls: st.builds(Falls, columns, **lags, **common),
    Rises: st.builds(Rises, columns, **lags, **common),
    RateBetween: st.builds(
        lambda c, ends, **rest: RateBetween(c, *ends, **rest), columns, rates, **lags, **common
    ),
    Continues: st.builds(Continues, columns, above_zero, **common),
}


@st.composite
def _combined(draw: Any) -> Rule:
    parts = [draw(st.one_of(*simple.values())) for _ in range(draw(st.integers(1, 3)))]
    place = draw(places)
    parts = [replace(part, where=None) for part in parts]
    weights = draw(st.none() | st.lists(above_zero, min_size=len(parts), max_size=len(parts)))
    rest = {key: draw(strategy) for key, strategy in common.items() if key != "where"}
    return Combined(parts, weights, where=place, **rest)


by_kind: dict[type[Rule], st.SearchStrategy[Rule]] = {**simple, Combined: _combined()}
any_rule = st.one_of(*by_kind.values())
