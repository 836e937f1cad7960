"""Recurrent networks: reach for these when an input is a sequence.

One draw of the weights serves a whole sequence, at every step. Steps that were not observed leave
the state as it was, so that sequences of different lengths share one program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float

from prbnn.data.layout import Layout
from prbnn.model.networks import MLP, Layers, weight_reach, whole_above_zero

# a forget gate that starts open lets gradients through time (Jozefowicz et al., 2015)
FORGET_BIAS = 1.0
# a name for what a step stores for the gradient
GATES = "gates"


def stored(gates: Array) -> Array:
    """The same numbers, written down for the gradient."""
    return checkpoint_name(gates, GATES)


class Cell(eqx.Module):
    """Weights of all gates, one under another: what reads the input, what reads the state."""

    reads: Float[Array, "gates inputs"]
    recurs: Float[Array, "gates units"]
    bias: Float[Array, " gates"]

    @property
    def units(self) -> int:
        """How wide the state is."""
        return self.recurs.shape[1]

    def over(
        self, sequence: Float[Array, "steps inputs"], present: Bool[Array, " steps"]
    ) -> Float[Array, "steps units"]:
        """The state after every step."""
        return self._run(sequence, present)[1]

    def after(
        self, sequence: Float[Array, "steps inputs"], present: Bool[Array, " steps"]
    ) -> Float[Array, " units"]:
        """The state after the last step: those before it are not written down."""
        return self._run(sequence, present)[0][0]

    def _run(self, sequence: Array, present: Array) -> tuple[tuple, Array]:
        move = self.mover()

        def step(state: tuple, now: tuple) -> tuple:
            read, present = now
            moved = move(state, read)
            kept = jax.tree.map(lambda new, old: jnp.where(present, new, old), moved, state)
            return kept, kept[0]

        # to write down a dozen intermediates takes longer than to compute them again from the gates
        policy = jax.checkpoint_policies.save_only_these_names(GATES)
        frugal = jax.checkpoint(step, policy=policy, prevent_cse=False)
        start = (jnp.zeros(self.units),) * self.memories
        return jax.lax.scan(frugal, start, (sequence, present))

    @property
    def memories(self) -> int:
        """How many vectors are carried from step to step; the first one is the output."""
        raise NotImplementedError

    def mover(self) -> Callable[[tuple, Array], tuple]:
        """From a state and what is read to the next state; weights are turned here, once."""
        raise NotImplementedError


class LongShortTermCell(Cell):
    """Hochreiter and Schmidhuber, 1997, with a forget gate."""

    @property
    def memories(self) -> int:
        return 2

    def mover(self) -> Callable[[tuple, Array], tuple]:
        weights = jnp.concatenate([self.reads, self.recurs], axis=1).T

        def move(state: tuple, read: Float[Array, " inputs"]) -> tuple:
            hidden, memory = state
            gates = stored(jnp.concatenate([read, hidden]) @ weights + self.bias)
            enter, forget, leave, value = jnp.split(gates, 4)
            memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(enter) * jnp.tanh(value)
            return jax.nn.sigmoid(leave) * jnp.tanh(memory), memory

        return move


class GatedCell(Cell):
    """Cho et al., 2014, with the reset gate after the product, which makes it one."""

    @property
    def memories(self) -> int:
        return 1

    def mover(self) -> Callable[[tuple, Array], tuple]:
        reads, recurs = self.reads.T, self.recurs.T

        def move(state: tuple, read: Float[Array, " inputs"]) -> tuple:
            (hidden,) = state
            keep, reset, value = jnp.split(read @ reads + self.bias, 3)
            keep_on, reset_on, value_on = jnp.split(hidden @ recurs, 3)
            keep, reset = stored(keep + keep_on), stored(reset + reset_on)
            value = jnp.tanh(stored(value) + jax.nn.sigmoid(reset) * stored(value_on))
            keep = jax.nn.sigmoid(keep)
            return (keep * hidden + (1 - keep) * value,)

        return move


class Recurrent(eqx.Module):
    """Cells over the observed steps; dense layers on their last state and what does not change."""

    cells: tuple[Cell, ...]
    head: Layers
    history: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        variables = self.cells[0].reads.shape[1]
        observed = self.history * variables
        sequence, rest = x[:observed].reshape(self.history, variables), x[observed:]
        present = jnp.arange(self.history) + 0.5 > self.history * (1 - rest[-1])
        for cell in self.cells[:-1]:
            sequence = cell.over(sequence, present)
        last = self.cells[-1].after(sequence, present)
        return self.head(jnp.concatenate([last, rest[:-1]]))


@dataclass(frozen=True)
class _Declared:
    """Options that recurrent networks share."""

    units: int = 64
    layers: int = 1
    hidden: tuple[int, ...] = (64,)
    activation: str = "tanh"

    cell: ClassVar[type[Cell]]
    gates: ClassVar[int]

    def __post_init__(self) -> None:
        for name in ("units", "layers"):
            value = whole_above_zero(type(self).__name__, name, getattr(self, name))
            object.__setattr__(self, name, value)
        try:
            dense = MLP(self.hidden, self.activation)
        except ValueError as error:
            raise ValueError(str(error).replace("MLP", type(self).__name__)) from None
        object.__setattr__(self, "hidden", dense.hidden)

    def over(self, layout: Layout) -> Unrolled:
        """The network for sequences that lie in a row as ``layout`` says."""
        return Unrolled(self, layout.history, len(layout.variables))

    def build(self, key: Array, inputs: int, outputs: int) -> Recurrent:
        """Refused: nothing says how sequences lie in a row."""
        raise ValueError(
            f"{type(self).__name__} reads sequences, and these rows are none; use "
            "PRBNNSequenceRegressor, or MLP for rows"
        )

    def start(self, key: Array, inputs: int) -> Cell:
        """Uniform weights of variance 1 / fan-in, a third of it for those of the state, which are
        used at every step; nothing is forgotten at first."""
        wide, reads, recurs = self.gates * self.units, *jax.random.split(key)

        def uniform(key: Array, deep: int) -> Array:
            reach = weight_reach(deep)
            return jax.random.uniform(key, (wide, deep), minval=-reach, maxval=reach)

        return self.cell(
            uniform(reads, inputs), uniform(recurs, self.units) / math.sqrt(3), self.first_bias()
        )

    def first_bias(self) -> Float[Array, " gates"]:
        """Biases at the start."""
        raise NotImplementedError


@dataclass(frozen=True)
class LSTM(_Declared):
    """A long short-term memory network, followed by dense layers.

    >>> LSTM(units=32, hidden=(64, 32))
    LSTM(units=32, layers=1, hidden=(64, 32), activation='tanh')
    """

    cell: ClassVar[type[Cell]] = LongShortTermCell
    gates: ClassVar[int] = 4

    def first_bias(self) -> Float[Array, " gates"]:
        return jnp.zeros(4 * self.units).at[self.units : 2 * self.units].set(FORGET_BIAS)


@dataclass(frozen=True)
class GRU(_Declared):
    """A gated recurrent network, followed by dense layers: three quarters of an LSTM's weights.

    >>> GRU(units=32).layers
    1
    """

    cell: ClassVar[type[Cell]] = GatedCell
    gates: ClassVar[int] = 3

    def first_bias(self) -> Float[Array, " gates"]:
        return jnp.zeros(3 * self.units).at[: self.units].set(FORGET_BIAS)


@dataclass(frozen=True)
class Unrolled:
    """A recurrent network that knows how many steps and variables a row holds."""

    network: _Declared
    history: int
    variables: int

    def shapes(self, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the weights that `build` makes, by arithmetic alone."""
        declared, found = self.network, {}
        gates, units = declared.gates * declared.units, declared.units
        for layer, reads in enumerate(self._widths()):
            shapes = {"reads": (gates, reads), "recurs": (gates, units), "bias": (gates,)}
            found |= {f"cells.{layer}.{name}": shape for name, shape in shapes.items()}
        head = self._head().shapes(self._head_inputs(inputs), outputs)
        return found | {f"head.{name}": shape for name, shape in head.items()}

    def build(self, key: Array, inputs: int, outputs: int) -> Recurrent:
        """Stacked cells, and the dense layers that read the last state of the last cell."""
        declared = self.network
        *cell_keys, head_key = jax.random.split(key, declared.layers + 1)
        cells = tuple(declared.start(k, w) for k, w in zip(cell_keys, self._widths(), strict=True))
        head = self._head().build(head_key, self._head_inputs(inputs), outputs)
        return Recurrent(cells, head, self.history)

    def _widths(self) -> tuple[int, ...]:
        """The number of inputs of each cell, per step."""
        return (self.variables, *(self.network.units,) * (self.network.layers - 1))

    def _head(self) -> MLP:
        return MLP(self.network.hidden, self.network.activation)

    def _head_inputs(self, inputs: int) -> int:
        """The last state and the static inputs; the row's last entry, its length, is not among them."""
        return self.network.units + inputs - self.history * self.variables - 1


def over(network: Any, layout: Layout) -> Any:
    """A recurrent network told how its sequences lie in a row; any other reads the row as it is."""
    return network.over(layout) if isinstance(network, _Declared) else network
