"""Hundreds of rules: what is compiled and compared grows slowly with their number, and means the same."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    Between,
    Combined,
    Compare,
    Convex,
    Increasing,
    OneOf,
    SlopeBetween,
)
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.enforcement.measure import Measured, measure
from prbnn.enforcement.worst import first_worst, kept_worst
from prbnn.rules.base import Rule
from prbnn.rules.conflicts import claims, webs
from prbnn.rules.conflicts import finding as conflicts
from prbnn.rules.scoring import families
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all
from prbnn.rules.scoring.families import points_each

pytestmark = pytest.mark.light

POINTS = 64
X = np.random.default_rng(0).uniform(size=(40, 3))
COLUMNS = Columns(("a", "b", "c"), ("y", "z"), X, np.stack([X.sum(axis=1), X[:, 0] ** 2], axis=1))
SCALING = scaling_of(COLUMNS.rows, COLUMNS.targets)
NETWORK = MLP((4,)).build(jax.random.key(0), 3, 2)


def in_turn(number: int, count: int) -> Rule:
    """Rules of several forms, each about a region of its own."""
    where = {"a": (number / count, (number + 1) / count)}
    return (
        AtLeast(-number, of="y", where=where),
        AtMost(9 + number, of="yz"[number % 2], where=where),
        Increasing("abc"[number % 3], of="y", where=where),
        Between(-2, 6, of="y", where=where).soft(1.0),
    )[number % 4]


def shared(number: int, count: int) -> Rule:
    """Rules of one form about the whole table."""
    return AtLeast(-number, of="y")


def bound(rules: list[Rule], points: int = POINTS) -> BoundKnowledge:
    return bind_all(rules, COLUMNS, SCALING, points)


def operations(make: Callable[[int, int], Rule], count: int) -> int:
    """Operations in the traced gradient of what a step measures."""
    knowledge = bound([make(number, count) for number in range(count)])

    def gain(weight: jax.Array, knowledge: BoundKnowledge) -> jax.Array:
        return measure(knowledge, lambda x: weight * NETWORK(x), 0, 16).f.sum()

    arrays, rest = eqx.partition(knowledge, eqx.is_array)
    program = jax.make_jaxpr(
        lambda weight, arrays: jax.grad(gain)(weight, eqx.combine(arrays, rest))
    )(1.0, arrays)
    return sum(1 for _ in _equations(program.jaxpr))


def _equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from _equations(inner)


@pytest.mark.parametrize("make", [in_turn, shared])
def test_the_program_hardly_grows_with_the_number_of_rules(make) -> None:
    few, many = operations(make, 32), operations(make, 256)
    assert many < 1.5 * few


def every_form() -> list[Rule]:
    """Forms that stack and forms that do not, in an order that mixes them."""
    found: list[Rule] = []
    for k in range(3):
        where = {"a": (k / 3, k / 3 + 0.1)}
        found += [
            AtLeast(0.1 * k, of="y", where=where, margin=0.01 * k),
            AtMost(0.3 * k, of="yz"[k % 2]).soft(1.0),
            Increasing("abc"[k % 3], of="yz"[k % 2]),
            Convex("a", of="y", where={"a": (0, 1)}, step=0.1 + 0.02 * k),
            Compare({"b": 0.1}, below={"b": 0.5}, by=0.1 * k, of="y"),
            OneOf([(0, 0.1 * k), (1, 2)], of="y").probably(0.9),
            Combined([AtLeast(0, of="y"), Increasing("a", of="y")], weights=[1, k + 1]),
            AtLeast(0.1 * k, of="y*z"),
            SlopeBetween("b", 0, 1, of="y + z", where=where).on_average(0.1),
        ]
    return found


def test_rules_side_by_side_are_measured_as_one_by_one(monkeypatch) -> None:
    rules = every_form()

    @eqx.filter_jit
    def found(knowledge: BoundKnowledge) -> tuple[list, Measured, Measured]:
        worst = jnp.broadcast_to(7 * jnp.arange(4), (knowledge.regions, 4))
        block = measure(knowledge, NETWORK, 16, 24, 0.1, 0.02, worst)
        return knowledge.scores(NETWORK), measure(knowledge, NETWORK), block

    together = bound(rules)
    monkeypatch.setattr(families, "FEW_RULES", len(rules))
    apart = bound(rules)
    assert len(together.groups) + len(together.families) < len(apart.groups)
    assert not apart.families
    np.testing.assert_allclose(together.units, apart.units, rtol=1e-6)
    for one, other in zip(
        jax.tree.leaves(found(together)), jax.tree.leaves(found(apart)), strict=True
    ):
        assert one.shape == other.shape
        # second differences of float32 values carry their rounding
        np.testing.assert_allclose(one, other, atol=2e-3)
    for place in range(len(rules)):
        assert together.rule(place).unit == apart.rule(place).unit


def test_few_rules_are_scored_one_by_one() -> None:
    assert not bound(every_form()[:12]).families


def test_families_keep_the_worst_points_of_their_own_rules() -> None:
    knowledge = bound([AtLeast(k, of="y", where={"a": (k / 20, k / 20 + 0.1)}) for k in range(20)])
    (family,) = knowledge.families
    assert family.points.shape[0] == knowledge.regions == 20
    heat = np.zeros((20, POINTS + 2))
    for k in range(20):
        heat[k, [k + 20, k + 29]] = 1.0, 2.0
    found = kept_worst(knowledge, first_worst(knowledge, 2), jnp.asarray(0), jnp.asarray(heat))
    assert found.tolist() == [[k + 29, k + 20] for k in range(20)]


@pytest.mark.parametrize(("rules", "width"), [(20, 48), (20, 8)])
def test_rules_that_share_a_pool_share_its_worst_points(rules: int, width: int) -> None:
    """Two points each, and where points are fewer than rules one for every few rules."""
    knowledge = bound([AtLeast(k, of="y") for k in range(rules)])
    heat = np.zeros((rules, POINTS + width))
    heat[np.arange(rules), 40 + np.arange(rules)] = 1.0 + np.arange(rules)
    (found,) = kept_worst(
        knowledge, first_worst(knowledge, width), jnp.asarray(0), jnp.asarray(heat)
    )
    hottest = set(range(40, 60)) if width > rules else set(range(52, 60))
    assert hottest <= set(found.tolist())


def test_points_of_all_regions_together_are_bounded() -> None:
    for count in (8192, 16_384, 131_072):
        assert points_each(count, 16, 64) == count
        for regions in (17, 100, 300):
            each = points_each(count, regions)
            assert max(1024, count // 16) <= each < count
            assert regions * each <= max(16 * count, regions * max(1024, count // 16))
    assert points_each(1024, 300, 300) == 1024
    assert bound([in_turn(k, 40) for k in range(40)], 2048).pool == 1024


def counted(monkeypatch, module, name: str) -> list[int]:
    """How often a function of a module is called from now on."""
    calls, real = [0], getattr(module, name)

    def count(*arguments, **named):
        calls[0] += 1
        return real(*arguments, **named)

    monkeypatch.setattr(module, name, count)
    return calls


def test_rules_that_agree_are_not_compared_two_by_two(monkeypatch) -> None:
    compared, overlaps = (counted(monkeypatch, conflicts, name) for name in ("gaps", "_overlap"))
    count = 48
    assert conflicts.conflicts([in_turn(k, count) for k in range(count)], COLUMNS) == []
    assert compared[0] == 0
    # singles, and twos for values and for each column that a rule moves along; no threes
    assert overlaps[0] < 6 * count**2


def test_the_rules_that_clash_are_found_among_hundreds(monkeypatch) -> None:
    solved = counted(monkeypatch, webs.Program, "feasible")
    count = 48
    rules = [in_turn(k, count) for k in range(count)]
    rules += [AtLeast(5, of="y", where={"a": 0.1}, name="high")]
    rules += [AtMost(3, of="y", where={"a": 0.9}, name="low"), Increasing("a", of="y", name="up")]
    (found,) = conflicts.conflicts(rules, COLUMNS)
    assert set(found.rules) == {"high", "low", "up"}
    assert solved[0] < 400


def test_a_clash_in_the_last_of_many_regions_is_found() -> None:
    count = 130
    rules = [in_turn(k, count) for k in range(count)]
    rules.append(AtMost(-999, of="y", where={"a": (128.2 / count, 128.8 / count)}, name="low"))
    (found,) = conflicts.conflicts(rules, COLUMNS)
    assert "low" in found.rules


def test_a_value_in_common_is_found_among_unions() -> None:
    thirds = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    unions = [np.stack([thirds, thirds + 0.1 * k]) for k in range(8)]
    assert claims.have_common(unions).tolist() == [True, True]
    unions.append(np.stack([[[1.2, 1.9]], [[1.2, 1.9]]]))
    assert claims.have_common(unions).tolist() == [False, False]
