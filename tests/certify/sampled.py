"""Networks, boxes and points to try bounds with, and deployed numbers to hold against them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify import bounds as bounds_of
from prbnn.model.networks import Dense, Layers

ACTIVATIONS = ("relu", "tanh", "sigmoid", "softplus", "gelu", "rbf")
WIDTHS = (0.0, 1e-12, 1e-7, 1e-5, 1e-3, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Trial:
    """How weights and boxes are drawn; ``dead`` is the share of weights that are 0."""

    scale: float = 1.0
    bias: float = 1.0
    far: float = 0.0
    dead: float = 0.0
    cancelling: bool = False


TRIALS = (
    Trial(0.1),
    Trial(1.0, dead=0.3),
    Trial(3.0, cancelling=True),
    Trial(1.0, bias=100.0),
    Trial(2.0, far=1e3),
    Trial(10.0, far=1e3, cancelling=True),
    Trial(30.0),
    Trial(1e-19, bias=1e-39),
)


def network_of(
    generator: np.random.Generator, sizes: tuple[int, ...], activation: str, trial: Trial, kind: str
) -> Layers:
    """Weights with variance scale^2 / fan-in; cancelling ones come in pairs of opposite sign."""
    layers = []
    for deep, wide in pairwise(sizes):
        weight = generator.normal(size=(wide, deep)) * trial.scale / np.sqrt(deep)
        weight[generator.random(weight.shape) < trial.dead] = 0.0
        bias = generator.normal(size=wide) * trial.bias * min(1.0, trial.scale)
        if trial.cancelling and deep > 1:
            half = deep // 2
            weight[:, half : 2 * half] = -weight[:, :half] * (1 + 1e-6 * generator.normal())
        layers.append((weight, bias))
    with jax.enable_x64(kind == "float64"):
        dense = [Dense(jnp.asarray(w, kind), jnp.asarray(b, kind)) for w, b in layers]
    return Layers(tuple(dense), activation)


def boxes_of(
    generator: np.random.Generator, count: int, inputs: int, far: float
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of every width, points among them, some flat in some directions."""
    centre = generator.normal(size=(count, inputs)) + far * generator.choice([-1, 1], (count, 1))
    width = np.array(WIDTHS)[np.arange(count) % len(WIDTHS)][:, None] * np.ones((1, inputs))
    flat = (generator.random((count, inputs)) < 0.2) & (np.arange(count) % 3 == 0)[:, None]
    width = np.where(flat, 0.0, width)
    return centre - width / 2, centre + width / 2


def points_of(
    generator: np.random.Generator, low: np.ndarray, high: np.ndarray, count: int
) -> np.ndarray:
    """(boxes, count, inputs): middles, corners, sides and the inside of every box."""
    share = generator.random((len(low), count, low.shape[1]))
    sides = generator.random(share.shape) < 0.5
    kind = np.arange(count) % 4
    share = np.where((kind == 0)[:, None], np.round(share), share)
    share = np.where((kind == 1)[:, None] & sides, np.round(share), share)
    share[:, 0] = 0.5
    points = low[:, None] + (high - low)[:, None] * share
    return np.clip(points, low[:, None], high[:, None])


def _orders(network: Layers, x: Array, direction: Array) -> tuple[Array, Array, Array]:
    def slope(x: Array) -> tuple[Array, Array]:
        return jax.jvp(network, (x,), (direction,))

    (value, rate), (_, bend) = jax.jvp(slope, (x,), (direction,))
    return value, rate, bend


@eqx.filter_jit
def _deployed(network: Layers, x: Array, direction: Array) -> tuple[Array, Array, Array]:
    return jax.vmap(lambda x: _orders(network, x, direction))(x)


def deployed(network: Layers, points: np.ndarray, *, exact: bool = False) -> tuple:
    """Values, slopes along the first input and bends there, (boxes, points, outputs).

    In the network's own precision; ``exact`` in float64 whatever that is.
    """
    kind = "float64" if exact else network.layers[0].weight.dtype
    with jax.enable_x64(kind == "float64"):
        if exact:
            network = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), "float64"), network)
        flat = jnp.asarray(points.reshape(-1, points.shape[-1]), kind)
        found = _deployed(network, flat, jnp.zeros(points.shape[-1], kind).at[0].set(1))
        return tuple(np.asarray(f, np.float64).reshape(*points.shape[:2], -1) for f in found)


def enclosed(network: Layers, low: np.ndarray, high: np.ndarray, order: int, *, eager: bool):
    """Bounds; ``eager`` operation by operation, which needs no program of its own."""
    with jax.disable_jit() if eager else nullcontext():
        return bounds_of(network, low, high, along=0 if order else None, order=order)


def strays(bounds, values: np.ndarray) -> str:
    """What lies outside, in words; nothing where all is well. Bounds that are no numbers stray, too."""
    lower, upper = bounds.lower[..., None, :], bounds.upper[..., None, :]
    bad = ~((lower <= values) & (values <= upper))
    if not bad.any():
        return ""
    away = np.where(bad, np.maximum(lower - values, values - upper), -np.inf)
    place = np.unravel_index(np.argmax(np.where(np.isnan(away), np.inf, away)), away.shape)
    ends = np.broadcast_to(lower, bad.shape)[place], np.broadcast_to(upper, bad.shape)[place]
    return f"{bad.sum()} outside; box {place[-3]}: {values[place]!r} not in {ends!r}"


def tried(
    generator: np.random.Generator,
    sizes: tuple[int, ...],
    activation: str,
    trial: Trial,
    kind: str = "float32",
    *,
    boxes: int = 16,
    points: int = 64,
    orders: tuple[int, ...] = (0, 1, 2),
    eager: bool = True,
) -> list[str]:
    """What lies outside its bounds in one trial, as deployed and in float64."""
    network = network_of(generator, sizes, activation, trial, kind)
    low, high = boxes_of(generator, boxes, sizes[0], trial.far)
    at = points_of(generator, low, high, points)
    seen = {"deployed": deployed(network, at)}
    if kind == "float32":
        seen["exact"] = deployed(network, at, exact=True)
    found = []
    for order in orders:
        if activation == "relu" and order == 2:
            continue
        bounds = enclosed(network, low, high, order, eager=eager)
        for how, values in seen.items():
            said = strays(bounds, values[order])
            if said:
                found.append(f"{activation} {sizes} {trial} {kind} order {order} {how}: {said}")
    return found
