"""Rules on the same points share the network's passes: ten cost about as much as one.

Operations are counted in the compiled program, so that the count is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import MLP, AtLeast, AtMost, Between, Increasing, Score, SlopeBetween
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_all
from prbnn.rules.scoring.drawn import Drawn

WHERE = {"x": (0.1, 0.9)}
POINTS = 64
MOST = 1.2


def operations(rules: Sequence[Rule], gradient: bool) -> float:
    """Floating-point operations of scoring one network of a hundred hidden units."""
    inputs, outputs = np.linspace(0, 1, 30)[:, None], np.linspace(2, 5, 30)[:, None] ** 2
    columns = Columns(("x",), ("y",), inputs, outputs)
    knowledge = bind_all(rules, columns, scaling_of(inputs, outputs), POINTS)
    network = MLP((100,)).build(jax.random.key(0), 1, 1)

    def violation(network, knowledge):
        return sum(jnp.mean(jnp.minimum(score, 0)) for score in knowledge.scores(network))

    arrays, rest = eqx.partition((network, knowledge), eqx.is_array)
    counted = eqx.filter_grad(violation) if gradient else violation
    program = jax.jit(lambda arrays: counted(*eqx.combine(arrays, rest)))
    return program.lower(arrays).compile().cost_analysis()["flops"]


def ten_over_one(make: Callable[[float], Rule], gradient: bool) -> float:
    ten = [make(number / 10) for number in range(10)]
    return operations(ten, gradient) / operations(ten[:1], gradient)


def value_rule(number: float) -> Rule:
    return AtLeast(number, where=WHERE)


def slope_rule(number: float) -> Rule:
    return SlopeBetween("x", lower=number, where=WHERE)


def slope_of_text_rule(number: float) -> Rule:
    return SlopeBetween("x", lower=number, of="2*y", where=WHERE)


def own_score_rule(number: float) -> Rule:
    return Score(lambda function, x: function(x) + function.slope(x, "x") - number, where=WHERE)


passes = pytest.mark.parametrize("gradient", [False, True], ids=["scores", "gradient"])


@passes
@pytest.mark.parametrize("make", [value_rule, slope_rule, own_score_rule])
def test_ten_rules_on_the_same_points_cost_about_one(make, gradient: bool) -> None:
    assert ten_over_one(make, gradient) < MOST


def test_rules_of_different_classes_share_their_passes() -> None:
    values = [AtLeast(0, where=WHERE), AtMost("x + 9", where=WHERE), Between(0, 1, where=WHERE)]
    slopes = [Increasing("x", where=WHERE), SlopeBetween("x", 0, "2 + x", where=WHERE)]
    for rules in (values, slopes):
        assert operations(rules, gradient=True) < MOST * operations(rules[:1], gradient=True)


@pytest.mark.parametrize("make", [value_rule, slope_rule])
def test_without_memory_ten_rules_cost_several_times_one(make, monkeypatch) -> None:
    """The compiler merges equal forward passes by itself, but not the backward ones."""
    monkeypatch.setattr(Drawn, "_remember", lambda self, key, x, compute: compute())
    assert ten_over_one(make, gradient=True) > 4


def test_ten_slopes_of_a_text_cost_about_one() -> None:
    assert ten_over_one(slope_of_text_rule, gradient=True) < MOST
