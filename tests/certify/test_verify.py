"""Verdicts on networks whose least value is known exactly."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import MLP
from prbnn.certify import search, verify, verifying
from prbnn.certify.enclosures import linear
from prbnn.certify.enclosures.chain import chain_of
from prbnn.errors import KnowledgeError

pytestmark = pytest.mark.light

# what can be neither proved nor refuted takes all the seconds that are given
SHORT = 0.3

# one shape for all, so that programs are compiled once: 2 inputs, 4 and 4 units, 2 outputs
SIZES = (2, 4, 4, 2)
BOX = [-1.0, -1.0], [1.0, 1.0]
FIRST, SECOND = [[1.0, 0.0]], [[0.0, 1.0]]


def layers(*parts: tuple, kind: type = np.float64) -> list[tuple[np.ndarray, np.ndarray]]:
    """(weight, bias) pairs, filled up with zeros."""
    found = []
    for (weight, bias), (deep, wide) in zip(parts, itertools.pairwise(SIZES), strict=True):
        filled, added = np.zeros((wide, deep), kind), np.zeros(wide, kind)
        weight = np.asarray(weight)
        filled[: weight.shape[0], : weight.shape[1]] = weight
        added[: len(bias)] = bias
        found.append((filled, added))
    return found


SPLIT = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
SAME = np.eye(4), np.zeros(4)
# outputs: |x| + |y|, |x| - |y|
SIZE = layers((SPLIT, np.zeros(4)), SAME, ([[1, 1, 1, 1], [1, 1, -1, -1]], [0, 0]))
# outputs: x + 2 y, x - y, by units that are always on
LINEAR = layers(
    ([[1, 0], [0, 1]], [4, 4]), (np.eye(2), [0, 0]), ([[1, 2], [1, -1]], [-12, 0]), kind=np.float64
)
# outputs: max(x, y), min(x, y) + 1/2, through relu(x - y) + y
LARGER = layers(
    ([[1, -1], [0, 1], [0, -1], [1, 0]], [0, 0, 0, 4]),
    SAME,
    ([[1, 1, -1, 0], [-1, 0, 0, 1]], [0, -3.5]),
)


@pytest.mark.parametrize(
    ("network", "row", "least"),
    [
        (LINEAR, FIRST, -3.0),
        (LINEAR, SECOND, -2.0),
        (LINEAR, [[1.0, -1.0]], -3.0),
        (SIZE, FIRST, 0.0),
        (SIZE, SECOND, -1.0),
        (LARGER, FIRST, -1.0),
        (LARGER, SECOND, -0.5),
        (LARGER, [[1.0, -1.0]], -0.5),
    ],
)
def test_a_known_least_value_parts_true_from_false(network: list, row: list, least: float) -> None:
    assert verify(network, *BOX, row, 0.01 - least).status == "proved"
    # every number here is exact: what only touches is true
    assert verify(network, *BOX, row, -least, seconds=SHORT).status != "refuted"
    found = verify(network, *BOX, row, -0.01 - least)
    assert found.status == "refuted"
    point = found.counterexample
    assert point is not None and np.all(np.abs(point) <= 1)
    assert (outputs(network, point) @ row[0]) - 0.01 - least < 0


def test_all_rows_or_any_of_them() -> None:
    rows = [[1.0, 0.0], [-1.0, 0.0]]
    assert verify(LINEAR, *BOX, rows, 0.1, holds="any").status == "proved"
    assert verify(LINEAR, *BOX, rows, [0.1, 0.1], holds="any").status == "proved"
    assert verify(LINEAR, *BOX, rows, 3.1).status == "proved"
    refuted = verify(LINEAR, *BOX, rows, 0.1)
    assert refuted.status == "refuted"
    narrow = verify(LINEAR, *BOX, rows, -0.1, holds="any")
    assert narrow.status == "refuted" and narrow.counterexample is not None
    assert abs(outputs(LINEAR, narrow.counterexample)[0]) < 0.1
    assert verify(LINEAR, *BOX, rows, 0.0, holds="any", seconds=SHORT).status != "refuted"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_random_networks_along_a_segment(seed: int, kind: type) -> None:
    generator = np.random.default_rng(seed)
    network = layers(
        *[
            (generator.normal(size=(wide, deep)), generator.normal(size=wide))
            for deep, wide in itertools.pairwise(SIZES)
        ],
        kind=kind,
    )
    low, high = np.array([-1.0, 0.25]), np.array([2.0, 0.25])
    least = least_along(network, low, high)
    # float32 rounds some millionths
    margin = 1e-4 if kind is np.float32 else 1e-7
    assert verify(network, low, high, FIRST, margin - least).status == "proved"
    assert verify(network, low, high, FIRST, -margin - least).status == "refuted"


def test_float32_claims_less_than_float64() -> None:
    third = layers(([[1 / 3, 0], [0, 1]], [0, 0]), (np.eye(2), [0, 0]), ([[3, 0]], [0]))
    single = [(weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in third]
    ends = [0.0, 0.0], [1.0, 1.0]
    # -y + 1 + 1e-9 >= 0, where y is at most 1 but for what rounding adds
    assert verify(third, *ends, [[-1.0, 0.0]], 1 + 1e-9).status == "proved"
    assert verify(single, *ends, [[-1.0, 0.0]], 1 + 1e-9, seconds=SHORT).status != "proved"
    assert verify(single, *ends, [[-1.0, 0.0]], 1 + 1e-4).status == "proved"


def test_points_and_flat_boxes() -> None:
    corner = [0.5, -0.5]
    assert verify(SIZE, corner, corner, FIRST, -0.99).status == "proved"
    assert verify(SIZE, corner, corner, FIRST, -1.01).status == "refuted"
    assert verify(SIZE, corner, corner, FIRST, -1.0, seconds=SHORT).status != "refuted"
    flat = [0.5, -1.0], [0.5, 1.0]
    assert verify(SIZE, *flat, FIRST, -0.49).status == "proved"
    found = verify(SIZE, *flat, FIRST, -0.51)
    assert found.status == "refuted" and found.counterexample is not None
    assert found.counterexample[0] == 0.5


def test_a_box_between_neighbouring_numbers_ends() -> None:
    low = np.array([0.5, 1e6])
    high = np.array([0.5, np.nextafter(1e6, np.inf)])
    found = verify(SIZE, low, high, SECOND, 1e6 - 0.5)
    assert found.status != "refuted" or outputs(SIZE, found.counterexample)[1] < 0.5 - 1e6


def test_numbers_that_overflow_prove_nothing() -> None:
    for scale, status in ((1e12, "proved"), (1e13, "undecided")):
        large = [(weight * np.float32(scale), bias) for weight, bias in layers_in(SIZE, np.float32)]
        found = verify(large, [0.5, 0.5], [1.0, 1.0], FIRST, seconds=60 if scale < 1e13 else SHORT)
        assert found.status == status
    # an input that float32 cannot hold makes no number even where its weight is 0
    ends = np.array([0.5, 1e39]), np.array([1.0, 1e39])
    assert (
        verify(layers_in(LINEAR, np.float32), *ends, FIRST, 1e50, seconds=SHORT).status
        == "undecided"
    )


def test_a_network_built_here() -> None:
    network = MLP((6, 3), activation="tanh").build(jax.random.key(0), 2, 1)
    grid = jnp.stack(jnp.meshgrid(*[jnp.linspace(-1, 1, 101)] * 2), -1).reshape(-1, 2)
    least = float(jnp.min(jax.vmap(network)(grid)))
    assert verify(network, *BOX, [[1.0]], 0.1 - least).status == "proved"
    assert verify(network, *BOX, [[1.0]], -0.001 - least).status == "refuted"


@pytest.mark.parametrize("activation", ["relu", "softplus"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_least_values_are_below_what_is_deployed(activation: str, kind: type) -> None:
    generator = np.random.default_rng(1)
    sizes = (3, 7, 5, 6, 2)
    pairs = [
        (generator.normal(size=(wide, deep)).astype(kind), generator.normal(size=wide).astype(kind))
        for deep, wide in itertools.pairwise(sizes)
    ]
    rows, added = generator.normal(size=(3, 2)), generator.normal(size=3)
    network = verifying._layers(pairs, activation)
    with jax.enable_x64(True):
        stacked = linear.stacked(chain_of(network)[0].doubled().take(0))
        bound = jax.jit(lambda low, high: linear.lowest(stacked, low, high, rows, added).least)
    for width in (2.0, 0.1, 1e-6, 0.0):
        middle = generator.normal(size=3)
        low, high = middle - width / 2, middle + width / 2
        corners = list(itertools.product(*zip(low, high, strict=True)))
        points = np.concatenate([generator.uniform(low, high, size=(2000, 3)), corners])
        with jax.enable_x64(True):
            least = np.asarray(bound(low, high))
        with jax.enable_x64(kind is np.float64):
            deployed = np.asarray(jax.vmap(network)(jnp.asarray(points, kind)), float)
        scores = deployed @ rows.T + added
        assert np.all(least <= scores.min(0))
        if width <= 1e-6:
            # and not far below
            assert np.all(least >= scores.min(0) - 1e-3)


class Clock:
    """Every look at it is a second later."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


def test_the_budget_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(search, "time", clock)
    monkeypatch.setattr(verifying, "time", clock)
    asked: list[int] = []
    enclose = verifying.LinearProperty.enclose
    monkeypatch.setattr(
        verifying.LinearProperty,
        "enclose",
        lambda self, *args: asked.append(1) or enclose(self, *args),
    )
    # touching from below at a corner: never proved, never refuted
    found = verify(SIZE, *BOX, FIRST, 0.0, seconds=10)
    assert found.status == "undecided" and 0 < found.left <= 1
    assert 1 <= len(asked) <= 10
    asked.clear()
    assert verify(SIZE, *BOX, FIRST, 0.0, seconds=0).status == "undecided"
    assert not asked


def test_nan_counts_as_unproved() -> None:
    task: Any = SimpleNamespace(
        slots=1,
        tolerance=0.0,
        work=4,
        enclose=lambda ids, low, high: (np.full(low.shape[:2], np.nan), low, high - low),
        deployed=lambda ids, points: np.full(points.shape[:2], np.nan),
        find_counterexamples=lambda ids, low, high: low,
    )
    found = search.search(task, 1, np.zeros((1, 2)), np.ones((1, 2)), 0.2)
    assert not found.proved[0] and not found.refuted[0] and found.left[0] > 0


def test_a_fraction_never_vanishes() -> None:
    stuck, (_, _, fraction) = search._split(
        np.zeros((1, 1)), np.ones((1, 1)), np.full(1, 5e-324), np.ones((1, 1)), np.ones(1), 2.0
    )
    assert stuck == 0 and np.all(fraction > 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"holds": "some"}, "'all' or 'any'"),
        ({"lower": [0.0]}, "lower and upper"),
        ({"lower": [2.0, 2.0]}, "lower <= upper"),
        ({"lower": [-1.0, np.nan]}, "finite"),
        ({"lower": [[-1.0, -1.0]] * 2, "upper": [[1.0, 1.0]] * 2}, "one box"),
        ({"coefficients": [[1.0]]}, "coefficients must be"),
        ({"coefficients": [[1.0, np.inf]]}, "finite"),
        ({"offset": np.nan}, "finite"),
        ({"network": []}, "at least one layer"),
        ({"network": [(np.eye(2), np.zeros(3))]}, "layer 0"),
        ({"network": [(np.eye(2), np.zeros(2)), (np.eye(3), np.zeros(3))]}, "layer 1"),
        ({"network": [(np.full((2, 2), np.nan), np.zeros(2))]}, "finite"),
    ],
)
def test_errors_say_what_is_wrong(change: dict, words: str) -> None:
    good = {"network": SIZE, "lower": BOX[0], "upper": BOX[1], "coefficients": FIRST}
    with pytest.raises(ValueError, match=words):
        verify(**(good | change))


def test_an_unknown_activation_is_told() -> None:
    with pytest.raises(KnowledgeError, match="activation 'step'"):
        verify(SIZE, *BOX, FIRST, activation="step")


def layers_in(network: list, kind: type) -> list:
    return [(weight.astype(kind), bias.astype(kind)) for weight, bias in network]


def outputs(network: list, x: Any) -> np.ndarray:
    for place, (weight, bias) in enumerate(network):
        x = weight @ x + bias
        x = np.maximum(x, 0) if place < len(network) - 1 else x
    return x


def least_along(network: list, low: np.ndarray, high: np.ndarray) -> float:
    """Exact but for rounding: between kinks the first output is straight, and so are all units."""
    network = layers_in(network, np.float64)
    kinks = np.array([0.0, 1.0])
    for depth in range(1, len(network)):
        found = list(kinks)
        for start, end in itertools.pairwise(kinks):
            a, b = (outputs(network[:depth], low + t * (high - low)) for t in (start, end))
            # the units of this layer, before their activation, cross 0 at most once in between
            across = a * b < 0
            found.extend(start + (end - start) * a[across] / (a - b)[across])
        kinks = np.unique(found)
    return min(float(outputs(network, low + t * (high - low))[0]) for t in kinks)
