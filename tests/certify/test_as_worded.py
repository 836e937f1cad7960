"""No draw called proved breaks its rule anywhere in the region as the certificate words it.

The words are read here by themselves: intervals, values of categories, training rows. Columns have few
values, as those have that look like categories; some are said to be, most are not.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from prbnn import MLP, AtMost, Box, Increasing, PRBNNRegressor, SlopeBetween
from prbnn.certify import Certificate, RuleCertificate, certify
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.model.likelihoods import Gaussian
from prbnn.model.weights import flatten
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_at
from tests.certify.made import network
from tests.certify.made import posterior as made

pytestmark = pytest.mark.light

VALUES = (2, 5, 12, 13)
TOLERANCE = 1e-4
DRAWS, UNITS = 24, 6
BLOCK = 10_000
CLAUSE = re.compile(r"(?P<name>\w+) (?:in \[(?P<ends>[^]]+)\]|in \{(?P<set>[^}]+)\}|= (?P<at>\S+))")


def points_as_worded(region: str, columns: Columns, count: int, seed: int) -> np.ndarray:
    """Points of the set that a region's words name, and of nothing else."""
    generator = np.random.default_rng(seed)
    words, _, rows = region.partition("at ") if region.startswith("at ") else region.partition("; ")
    points = np.full((count, len(columns.inputs)), np.nan)
    if rows:
        assert re.fullmatch(rf"(the others at )?{len(columns.rows)} training rows", rows), region
        points = columns.rows[generator.integers(len(columns.rows), size=count)]
    for found in CLAUSE.finditer(words):
        index = columns.index(found["name"])
        if found["ends"]:
            low, high = map(float, found["ends"].split(","))
            points[:, index] = generator.uniform(low, high, count)
            points[:: count // 8, index] = generator.choice([low, high], len(points[:: count // 8]))
        elif found["set"]:
            points[:, index] = generator.choice([float(v) for v in found["set"].split(",")], count)
        else:
            points[:, index] = float(found["at"])
    assert np.isfinite(points).all(), region
    return points


def broken_as_worded(
    posterior: Posterior, rule: Rule, proof: RuleCertificate, count: int, seed: int = 0
) -> np.ndarray:
    """Which draws break the rule at some of ``count`` points of its worded region."""
    broken = np.zeros(len(posterior), bool)
    for block in range(0, count, BLOCK):
        size = min(BLOCK, count - block)
        points = points_as_worded(proof.region, posterior.columns, size, seed + block)
        knowledge = bind_at([rule], posterior.columns, posterior.scaling, points)
        broken |= ~(posterior.check([rule], knowledge).worst[:, 0] >= -TOLERANCE)
    return broken


def of_rows(rows: np.ndarray, categories: tuple[str, ...], seed: int) -> Posterior:
    """Draws that are wavy between the rows: ridges anywhere in the unit cube that they are scaled to."""
    generator, inputs = np.random.default_rng(seed), rows.shape[1]
    draws = []
    for _ in range(DRAWS):
        slopes = generator.choice([-1, 1], (UNITS, inputs)) * generator.uniform(
            2, 8, (UNITS, inputs)
        )
        ridges = -np.sum(slopes * generator.random((UNITS, inputs)), axis=1)
        heights = generator.normal(size=(1, UNITS))
        draws.append(network([(slopes, ridges), (heights, [0.0])], "rbf"))
    columns = Columns(tuple("abcd"[:inputs]), ("y",), rows, rows[:, :1], categories=categories)
    scaling = scaling_of(rows, rows[:, :1], "minmax")
    vectors = np.stack([np.asarray(flatten(each)) for each in draws])
    return Posterior(draws[0], vectors, Gaussian(), np.zeros((1, 1)), scaling, columns)


def small_model(seed: int) -> tuple[Posterior, Rule]:
    """Columns of 2, 5, 12 and 13 values, and a rule that about half of the draws obey."""
    generator = np.random.default_rng(seed)
    kind = seed % 5
    counts = generator.permutation(VALUES)[: 1 if kind == 0 else 2]
    counts = [VALUES[seed % 4], *counts[1:]]
    steps = generator.choice([1.0, 10.0, 0.1], len(counts))
    shifts = generator.choice([0.0, -3.0, 0.7], len(counts))
    rows = np.column_stack(
        [generator.permutation(np.arange(60) % count) for count in counts]
    ).astype(float)
    rows = rows * steps + shifts
    said = tuple(name for name in "ab"[: len(counts)] if generator.random() < 0.3)
    found = of_rows(rows, said, seed)
    low, high = found.columns.span("a")
    middle = low + 0.6 * (high - low)
    if kind == 4:
        step = np.eye(rows.shape[1])[0] * 1e-3 * (high - low)
        slopes = (found.functions(rows + step) - found.functions(rows - step)) / (2 * step[0])
        steepest = float(np.quantile(slopes.max(axis=(1, 2)), 0.7))
        return found, SlopeBetween("a", upper=steepest, where={"a": (low, middle)})
    where: Any = [None, Box(), {"a": (low, middle)}, None][kind]
    highest = found.functions(rows).max(axis=(1, 2))
    return found, AtMost(float(np.quantile(highest, 0.7)), where=where)


def as_worded(seed: int, points: int) -> tuple[int, int]:
    """How many draws are proved, and how many of those break their rule."""
    posterior, rule = small_model(seed)
    (proof,) = certify(posterior, [rule], 20, rows=None).rules
    proved = np.array(list(proof.verdicts)) == "P"
    broken = broken_as_worded(posterior, rule, proof, points, seed)
    return int(proved.sum()), int((proved & broken).sum())


def test_no_proved_draw_breaks_its_rule_as_worded() -> None:
    """A box of two columns with few values each."""
    proved, broken = as_worded(16, 4000)
    assert proved > 0
    assert broken == 0


@pytest.mark.slow
def test_no_proved_draw_of_twenty_models_breaks_its_rule_as_worded() -> None:
    found = [as_worded(seed, 100_000) for seed in range(20)]
    assert [broken for _, broken in found] == [0] * 20
    # what is never proved is never wrong
    assert sum(proved > 0 for proved, _ in found) >= 15


def test_four_values_are_an_interval_to_a_proof() -> None:
    """y = 15 - |a - 15| is at most 10 at 0, 10, 20 and 30; the other draw is 0 everywhere."""
    rows = np.repeat([0.0, 10.0, 20.0, 30.0], 10)[:, None]
    hat = network([([[1.0], [1.0]], [0.0, -15.0]), ([[1.0, -2.0]], [0.0])])
    flat = network([([[0.0], [0.0]], [0.0, 0.0]), ([[0.0, 0.0]], [0.0])])
    (proof,) = certify(made([hat, flat], rows), [AtMost(10.2)], 20).rules
    assert proof.verdicts == "RP"
    assert proof.region == "a in [0, 30]"
    assert proof.rows is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_stored_draws_of_four_values_obey_between_them() -> None:
    x = np.repeat([0.0, 10.0, 20.0, 30.0], 10)[:, None]
    y = np.array([9.0, 10.0, 10.0, 9.0])[(x.ravel() / 10).astype(int)]
    rule = AtMost(10.2)
    model = PRBNNRegressor(
        MLP((20,)), [rule], tempering=0.2, draws=100, prove=True, random_state=0
    ).fit(x, y)
    assert model.certificate_.rules[0].region == "x in [0, 30]"
    grid = np.linspace(0, 30, 10_001)[:, None]
    proved = model.certificate_.proved
    assert np.all(model.sample_functions(grid)[proved].max(axis=1) <= 10.2 + 1e-2)


# --- words ---------------------------------------------------------------------------------


def words(rule: Rule, categories: tuple[str, ...], rows: int | None = None) -> str:
    from prbnn.certify.questions import boxes

    table = np.column_stack([np.arange(40) % 2, np.arange(40) % 3, np.linspace(0.1, 1 / 3, 40)])
    columns = Columns(("a", "b", "c"), ("y",), table, table[:, :1], categories=categories)
    return boxes(rule.sampling(columns), columns, rows)[2]


@pytest.mark.parametrize(
    ("where", "categories", "expected"),
    [
        (None, (), "at 40 training rows"),
        ({"a": (0, 1)}, (), "a in [0, 1]; the others at 40 training rows"),
        ({"a": (0, 1)}, ("a",), "a in {0, 1}; the others at 40 training rows"),
        ({"b": (0.5, 7), "a": 1}, ("b",), "b in {1, 2}, a = 1; the others at 40 training rows"),
        (Box(a=(0, 1)), (), "a in [0, 1], b in [0, 2], c in [0.1, 0.3333333333333333]"),
        (
            Box(c=(0, 1)),
            ("a", "b"),
            "c in [0, 1], a in {0, 1}, b in {0, 1, 2} (categories in every combination)",
        ),
        ([{"a": 0}, {"a": 1}], (), " training rows; or a = 1; "),
    ],
)
def test_a_region_names_its_set_exactly(where: Any, categories: tuple, expected: str) -> None:
    found = words(AtMost(1, where=where), categories)
    assert expected in found if isinstance(where, list) else found == expected


def test_rows_that_were_not_looked_at_are_said() -> None:
    assert words(AtMost(1), (), 7) == "at 7 of 40 training rows"


def test_a_slope_along_a_category_is_proved_between_its_values() -> None:
    assert words(Increasing("a"), ("a",)) == "a in [0, 1]; the others at 40 training rows"


def test_a_certificate_of_an_earlier_version_claims_no_more_than_it_examined() -> None:
    rule = RuleCertificate("r", "x in [0, 30]", "P", 0.0, (), 1e-4, "boxes", 0.0)
    plain = Certificate((rule,), "0" * 64, "0.1", 0.0).to_plain()
    assert Certificate.from_plain(plain).rules == (rule,)
    del plain["rules"][0]["rows"]
    (read,) = Certificate.from_plain(plain).rules
    assert read.region.startswith(
        "x in [0, 30] (written by an earlier version: columns with few distinct values"
    )
