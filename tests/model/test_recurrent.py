"""Recurrent networks against plain loops, and what a step that was not observed may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import GRU, LSTM
from prbnn.data.layout import Layout
from prbnn.model.networks import Dense, Layers
from prbnn.model.recurrent import FORGET_BIAS, Cell, Recurrent, Unrolled

pytestmark = pytest.mark.light

KINDS = (LSTM, GRU)
HISTORY, OUTPUTS = 5, 3
LAYOUT = Layout(("a", "b"), HISTORY, ("s",), ("a",), OUTPUTS)


@cache
def started(declared: Any, seed: int = 0) -> Recurrent:
    return declared.over(LAYOUT).build(jax.random.key(seed), len(LAYOUT.inputs), OUTPUTS)


def outline(declared: Any, layout: Layout = LAYOUT) -> Recurrent:
    """Shapes instead of weights."""
    start = declared.over(layout).build
    widths = len(layout.inputs), len(layout.targets)
    return eqx.filter_eval_shape(start, jax.random.key(0), *widths)


def built(declared: Any, layout: Layout = LAYOUT) -> Recurrent:
    """A network whose biases are random, too, so that none can be left out unseen."""
    generator = np.random.default_rng(0)
    leaves, tree = jax.tree.flatten(outline(declared, layout))
    return jax.tree.unflatten(
        tree, [as_seen(generator.normal(0, 0.5, leaf.shape)) for leaf in leaves]
    )


def row(seed: int = 0, seen: int = HISTORY, layout: Layout = LAYOUT) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=len(layout.inputs))
    values[-1] = seen / layout.history
    return values


@eqx.filter_jit
def answers(network: Recurrent, table: Any) -> jax.Array:
    return jax.vmap(network)(table)


@eqx.filter_jit
def slopes(network: Recurrent, table: Any) -> jax.Array:
    """d outputs / d inputs (rows, outputs, inputs)."""
    return jax.vmap(jax.jacfwd(network))(table)


@eqx.filter_jit
def states(cell: Cell, steps: Any, present: Any) -> jax.Array:
    return cell.over(steps, present)


def as_seen(table: Any) -> jax.Array:
    return jnp.asarray(np.asarray(table), float)


def close(received: Any, expected: Any) -> None:
    """Equal up to float32 rounding."""
    np.testing.assert_allclose(np.asarray(received), expected, rtol=2e-5, atol=2e-5)


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


# --- plain loops, in float64 -------------------------------------------------------------------


def lstm(cell: Any, steps: np.ndarray) -> np.ndarray:
    """Every state of c = f c + i tanh(g), h = o tanh(c)."""
    reads, recurs, bias = (np.asarray(w, np.float64) for w in (cell.reads, cell.recurs, cell.bias))
    units = recurs.shape[1]
    h, c, states = np.zeros(units), np.zeros(units), []
    for x in steps:
        gates = []
        for gate in range(4):
            part = slice(gate * units, (gate + 1) * units)
            gates.append(reads[part] @ x + recurs[part] @ h + bias[part])
        i, f, o, g = gates
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def gru(cell: Any, steps: np.ndarray) -> np.ndarray:
    """Every state of h = z h + (1 - z) tanh(W x + b + r (U h))."""
    reads, recurs, bias = (np.asarray(w, np.float64) for w in (cell.reads, cell.recurs, cell.bias))
    units = recurs.shape[1]
    h, states = np.zeros(units), []
    for x in steps:
        z, r, n = (slice(k * units, (k + 1) * units) for k in range(3))
        keep = sigmoid(reads[z] @ x + recurs[z] @ h + bias[z])
        reset = sigmoid(reads[r] @ x + recurs[r] @ h + bias[r])
        value = np.tanh(reads[n] @ x + bias[n] + reset * (recurs[n] @ h))
        h = keep * h + (1 - keep) * value
        states.append(h)
    return np.array(states)


LOOPS = {LSTM: lstm, GRU: gru}


def by_hand(network: Recurrent, kind: type, values: np.ndarray, layout: Layout) -> np.ndarray:
    """The whole network in plain numpy: steps, cells one on another, dense layers."""
    width = len(layout.variables)
    steps = values[: layout.history * width].reshape(layout.history, width)
    seen = round(values[-1] * layout.history)
    steps = steps[layout.history - seen :]
    for cell in network.cells:
        steps = LOOPS[kind](cell, steps)
    found = np.concatenate([steps[-1], values[layout.history * width : -1]])
    for place, layer in enumerate(network.head.layers):
        found = np.asarray(layer.weight, np.float64) @ found + np.asarray(layer.bias, np.float64)
        if place < len(network.head.layers) - 1:
            found = np.tanh(found)
    return found


@pytest.mark.parametrize(("layers", "hidden"), [(1, ()), (2, (6,)), (3, (6,))])
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_is_the_plain_loop(kind: type, layers: int, hidden: tuple) -> None:
    network = built(kind(units=4, layers=layers, hidden=hidden))
    table = [row(seed, seen) for seed, seen in enumerate((HISTORY, HISTORY, 3, 1))]
    close(
        answers(network, as_seen(table)),
        [by_hand(network, kind, values, LAYOUT) for values in table],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_is_that_of_the_loop(kind: type) -> None:
    cell = built(kind(units=3)).cells[0]
    steps = np.random.default_rng(1).normal(size=(7, 2))
    close(states(cell, as_seen(steps), jnp.ones(7, bool)), LOOPS[kind](cell, steps))


# --- how it starts -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_gate_that_keeps_the_memory_starts_open_and_the_others_at_zero(kind: type) -> None:
    gates = np.asarray(started(kind(units=3)).cells[0].bias).reshape(-1, 3)
    keeps = 1 if kind is LSTM else 0
    assert np.all(gates[keeps] == FORGET_BIAS)
    assert FORGET_BIAS >= 1
    assert np.all(np.delete(gates, keeps, axis=0) == 0)


def without_weights(cell: Any) -> Any:
    return eqx.tree_at(lambda c: (c.reads, c.recurs), cell, (0 * cell.reads, 0 * cell.recurs))


def test_the_biased_gate_is_the_one_that_keeps_the_memory() -> None:
    """What is in memory fades by sigmoid(bias) a step where nothing else comes in."""
    keep = float(sigmoid(np.array(FORGET_BIAS)))
    start = jnp.array([0.5, -1.0, 0.1])
    long = without_weights(started(LSTM(units=3)).cells[0])
    _, memory = long.mover()((jnp.zeros(3), start), jnp.zeros(long.reads.shape[1]))
    close(memory, keep * np.asarray(start))
    gated = without_weights(started(GRU(units=3)).cells[0])
    (state,) = gated.mover()((start,), jnp.zeros(gated.reads.shape[1]))
    close(state, keep * np.asarray(start))


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_sizes(kind: type) -> None:
    gates = 4 if kind is LSTM else 3
    network = outline(kind(units=4, layers=2, hidden=(6,)))
    assert [cell.reads.shape for cell in network.cells] == [(gates * 4, 2), (gates * 4, 4)]
    assert [cell.recurs.shape for cell in network.cells] == [(gates * 4, 4)] * 2
    # the head reads the state and what does not change, not the share of observed steps
    assert [layer.weight.shape for layer in network.head.layers] == [(6, 5), (OUTPUTS, 6)]


@pytest.mark.parametrize("kind", KINDS)
def test_another_key_starts_elsewhere_and_the_same_key_at_the_same_place(kind: type) -> None:
    first = jax.tree.leaves(started(kind(units=3)))
    again = jax.tree.leaves(started.__wrapped__(kind(units=3)))
    other = jax.tree.leaves(started(kind(units=3), 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_no_two_cells_start_alike() -> None:
    one, two, three = started(GRU(units=3, layers=3)).cells
    assert not np.array_equal(two.reads, three.reads)
    assert not np.array_equal(two.recurs, two.reads)
    assert not np.array_equal(one.recurs, two.recurs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_of_any_length_has_one_draw_of_the_weights(kind: type) -> None:
    """By construction: longer sequences have no more weights, so no step can have its own."""
    short, long = (replace(LAYOUT, history=history) for history in (1, 200))
    assert kind(units=4).over(long) == Unrolled(kind(units=4), 200, 2)
    first, second = (
        [leaf.shape for leaf in jax.tree.leaves(outline(kind(units=4), layout))]
        for layout in (short, long)
    )
    assert first == second


# --- what is read, and what is not -------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_observed_step_and_every_static_input_counts(kind: type) -> None:
    network = built(kind(units=4))
    found = np.asarray(slopes(network, as_seen([row()])))
    assert np.all(np.any(found[..., :-1] != 0, axis=(0, 1)))


def test_static_inputs_reach_the_head_alone() -> None:
    network = built(GRU(units=4, hidden=()))
    first, second = row(), row()
    second[-2] += 2
    before, after = answers(network, as_seen([first, second]))
    close(after - before, 2 * np.asarray(network.head.layers[0].weight)[:, -1])


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_were_not_observed_change_nothing(kind: type, layers: int) -> None:
    network = built(kind(units=4, layers=layers))
    absent = [(HISTORY - seen) * 2 for seen in range(1, HISTORY + 1)]
    clean = np.stack([row(seen, seen) for seen in range(1, HISTORY + 1)])
    dirty = clean.copy()
    for place, wide in enumerate(absent):
        dirty[place, :wide] = np.random.default_rng(9).normal(0, 1e4, wide)
    assert not np.array_equal(clean, dirty)
    assert np.array_equal(*(answers(network, as_seen(table)) for table in (clean, dirty)))
    found = np.asarray(slopes(network, as_seen(dirty)))
    assert np.all(np.isfinite(found))
    for slope, wide in zip(found, absent, strict=True):
        assert np.all(slope[:, :wide] == 0)
        assert np.all(np.any(slope[:, wide:-1] != 0, axis=0))


class Counts(Cell):
    """A state that counts the steps it has been through."""

    @property
    def memories(self) -> int:
        return 1

    def mover(self) -> Callable:
        return lambda state, read: (state[0] + 1,)


@pytest.mark.parametrize("history", [1, 3, 7, 35, 49, 300])
def test_the_share_says_exactly_how_many_steps_were_observed(history: int) -> None:
    """Shares such as 1/49 are not exact in float32; none may lose or gain a step."""
    layout = Layout(("a",), history, (), ("a",), 1)
    counting = Counts(jnp.zeros((1, 1)), jnp.zeros((1, 1)), jnp.zeros(1))
    head = Layers((Dense(jnp.ones((1, 1)), jnp.zeros(1)),), "tanh")
    table = [row(seen, seen, layout) for seen in range(1, history + 1)]
    found = answers(Recurrent((counting,), head, history), as_seen(table))
    assert found[:, 0].tolist() == list(range(1, history + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_sequence_is_what_it_is_alone(kind: type) -> None:
    network = built(kind(units=4, layers=2))
    for seen in (1, 3):
        whole = row(seen=seen)
        alone = np.concatenate([whole[(HISTORY - seen) * 2 : -1], [1.0]])
        small = Recurrent(network.cells, network.head, seen)
        close(answers(network, as_seen([whole])), answers(small, as_seen([alone])))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_kept_where_a_step_is_absent(kind: type) -> None:
    cell = built(kind(units=3)).cells[0]
    steps = np.random.default_rng(0).normal(size=(7, 2))
    present = [False, True, False, False, True, True, False]
    found = np.asarray(states(cell, as_seen(steps), jnp.array(present)))
    assert np.all(found[0] == 0)
    assert np.array_equal(found[1], found[2])
    assert np.array_equal(found[2], found[3])
    assert np.array_equal(found[5], found[6])
    close(found[5], LOOPS[kind](cell, steps[present])[-1])


# --- under transformations ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_in_plain_python_is_answered_as_in_a_compiled_table(kind: type) -> None:
    network = built(kind(units=4))
    table = as_seen([row(seed, 1 + seed % HISTORY) for seed in range(4)])
    close(network(table[1]), answers(network, table)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_stay_finite_over_three_hundred_steps(kind: type) -> None:
    layout = Layout(("a",), 300, (), ("a",), 2)
    network = built(kind(units=4), layout)

    @eqx.filter_jit
    @eqx.filter_grad
    def slope(network: Recurrent, x: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(network)(x) ** 2)

    table = as_seen([row(seed, seen, layout) for seed, seen in enumerate((300, 1, 40))])
    for size in (1.0, 100.0):
        sizes = jnp.ones(table.shape[1]).at[:-1].set(size)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(slope(network, table * sizes))]
        assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
        assert all(np.any(leaf != 0) for leaf in leaves)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_plain_loop(kind: type) -> None:
    """By central differences of the loop in float64, along every weight at once."""
    network = built(kind(units=3))
    values = row(4, 4)
    leaves, tree = jax.tree.flatten(network)
    generator = np.random.default_rng(0)
    directions = [generator.normal(size=leaf.shape) for leaf in leaves]

    def loop(step: float) -> float:
        pairs = zip(leaves, directions, strict=True)
        moved = [np.asarray(weight, np.float64) + step * way for weight, way in pairs]
        return float(by_hand(jax.tree.unflatten(tree, moved), kind, values, LAYOUT).sum())

    gradient = eqx.filter_jit(jax.grad(lambda n: jnp.sum(n(as_seen(values)))))(network)
    along = sum(
        np.sum(np.asarray(g, np.float64) * d)
        for g, d in zip(jax.tree.leaves(gradient), directions, strict=True)
    )
    assert along == pytest.approx((loop(1e-5) - loop(-1e-5)) / 2e-5, rel=1e-3)


# --- declarations ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"units": 0}, "units must be a whole number above 0, got 0"),
        ({"units": 2.5}, "units must be a whole number above 0, got 2.5"),
        ({"units": "8"}, "units must be a whole number above 0, got '8'"),
        ({"layers": 0}, "layers must be a whole number above 0, got 0"),
        ({"layers": None}, "layers must be a whole number above 0, got None"),
        ({"hidden": (4, 0)}, "hidden holds whole numbers above 0, got (4, 0)"),
        ({"hidden": (2.5,)}, "hidden holds whole numbers above 0, got (2.5,)"),
        ({"activation": "tahn"}, "activation must be one of relu, tanh"),
    ],
)
def test_wrong_options_are_refused(kind: type, options: dict, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind(**options)
    assert told in str(caught.value)
    if set(options) & {"units", "layers"}:
        assert str(caught.value).startswith(f"{kind.__name__}: ")


@pytest.mark.parametrize("kind", KINDS)
def test_declarations_are_plain_values(kind: type) -> None:
    assert kind(units=3) == kind(units=3) != kind(units=4)
    assert hash(kind(units=3)) == hash(kind(units=3))
    assert kind(hidden=[8, 4]).hidden == (8, 4)
    assert repr(kind(units=3, hidden=())) == (
        f"{kind.__name__}(units=3, layers=1, hidden=(), activation='tanh')"
    )
    assert LSTM(units=3) != GRU(units=3)


def test_the_activation_is_that_of_the_dense_layers() -> None:
    assert outline(GRU(units=4, activation="relu")).head.activation == "relu"
