"""Verdicts on linear properties of the outputs of any network over a box, trained here or elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.descent import descend
from prbnn.certify.enclosures import linear
from prbnn.certify.enclosures.activations import ENCLOSED
from prbnn.certify.enclosures.chain import Chain, chain_of
from prbnn.certify.enclosures.network_bounds import boxes_of
from prbnn.certify.search import search
from prbnn.errors import KnowledgeError
from prbnn.model.networks import Dense, Layers
from prbnn.system.process import side_by_side

# steps of the descent, and how much shorter each is than the one before
STEPS = 20
SHRINK = 0.75
# boxes that one core encloses per call: more would not fit its cache
BLOCK = 64
# blocks that are enclosed before the search goes on: a number that follows the cores would have another
# machine split other boxes, and find another counterexample
BLOCKS = 8


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of `verify`.

    - `status`: "proved", "refuted" or "undecided"
    - `counterexample`: a point that breaks the property, (inputs,); None unless refuted
    - `left`: the fraction of the box that is undecided
    - `boxes`: the number of boxes enclosed
    """

    status: Literal["proved", "refuted", "undecided"]
    counterexample: np.ndarray | None
    left: float
    boxes: int
    seconds: float


def verify(
    network: Any,
    lower: Any,
    upper: Any,
    coefficients: Any,
    offset: Any = 0.0,
    *,
    holds: Literal["all", "any"] = "all",
    activation: str = "relu",
    seconds: float = 60.0,
) -> Verdict:
    """Whether ``coefficients @ outputs + offset >= 0`` for every input in the box [lower, upper].

    - ``network``: a built `MLP`, or a list of (weight, bias) pairs with ``activation`` between them,
      weights as (outputs, inputs); it is taken as deployed in the precision of its weights
    - ``lower``, ``upper``: ends of the box, (inputs,)
    - ``coefficients``, ``offset``: (properties, outputs) and (properties,) or one number
    - ``holds``: whether ``"all"`` properties must hold at each input, or at least one (``"any"``): "the
      largest output is not the first" is any of y_k - y_0 >= 0
    - ``seconds``: time limit, which includes time to compile

    >>> layer = np.array([[1.0, -1.0]]), np.array([0.5])
    >>> verify([layer], [0, 0], [1, 1], [[1.0]], 0.6).status
    'proved'
    >>> verdict = verify([layer], [0, 0], [1, 1], [[1.0]], 0.4)
    >>> verdict.status, verdict.counterexample.tolist()
    ('refuted', [0.0, 1.0])
    """
    started = time.monotonic()
    if holds not in ("all", "any"):
        raise ValueError(f"holds must be 'all' or 'any', got {holds!r}")
    built = network if isinstance(network, Layers) else _layers(network, activation)
    chain, _ = chain_of(built)
    low, high = boxes_of(lower, upper, chain.inputs)
    if len(low) != 1:
        raise ValueError(f"verify takes one box at a time, got {len(low)}")
    rows = np.atleast_2d(np.asarray(coefficients, np.float64))
    outputs = chain.weights[-1].shape[1]
    if rows.shape[1] != outputs:
        raise ValueError(f"coefficients must be (properties, {outputs}), got {rows.shape}")
    added = np.broadcast_to(np.asarray(offset, np.float64), rows.shape[:1])
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(added))):
        raise ValueError("coefficients and offset must be finite")
    goal = LinearProperty(built, chain, rows, added, holds, high[0] - low[0])
    # a network that overflows stays undecided, without a warning from NumPy
    with np.errstate(over="ignore", invalid="ignore"):
        found = search(goal, 1, low, high, seconds, started=started)
    point = found.counterexamples.get(0)
    status = "refuted" if point is not None else "proved" if found.left[0] == 0 else "undecided"
    return Verdict(status, point, float(found.left[0]), found.boxes, found.seconds)


def _layers(pairs: Sequence, activation: str) -> Layers:
    if activation not in ENCLOSED:
        raise KnowledgeError(
            f"certify: activation {activation!r} is not one of {', '.join(ENCLOSED)}"
        )
    layers, deep = [], None
    for place, pair in enumerate(pairs):
        weight, bias = (np.asarray(part) for part in pair)
        if weight.dtype != np.float32:
            weight, bias = weight.astype(np.float64), bias.astype(np.float64)
        if (
            weight.ndim != 2
            or bias.shape != weight.shape[:1]
            or deep not in (None, weight.shape[1])
        ):
            raise ValueError(
                f"layer {place}: weight must be (outputs, inputs) and bias (outputs,), following the "
                f"layer before; got {weight.shape} and {bias.shape}"
            )
        if not (np.all(np.isfinite(weight)) and np.all(np.isfinite(bias))):
            raise ValueError(f"layer {place}: weights must be finite")
        deep = weight.shape[0]
        layers.append((weight, bias))
    if not layers:
        raise ValueError("a network needs at least one layer")
    wide = any(weight.dtype == np.float64 for weight, _ in layers)
    kind = np.float64 if wide else np.float32
    with jax.enable_x64(wide):
        return Layers(
            tuple(Dense(jnp.asarray(w, kind), jnp.asarray(b, kind)) for w, b in layers), activation
        )


class LinearProperty:
    """rows @ outputs + added >= 0 of one network, in all rows or in any of them."""

    slots = 1
    tolerance = 0.0
    work = BLOCK * BLOCKS

    def __init__(self, built, chain: Chain, rows, added, holds: str, widths: np.ndarray):
        self.built, self.rows, self.added, self.holds = built, rows, added, holds
        self.wide = chain.precision == "float64"
        self.generator = np.random.default_rng(0)
        with jax.enable_x64(True):
            self.network = linear.stacked(chain.doubled().take(0))
            self.claim = (
                jnp.asarray(rows),
                jnp.asarray(added),
                jnp.asarray(np.maximum(widths, 1e-300)),
            )

    def enclose(self, networks: np.ndarray, low: np.ndarray, high: np.ndarray):
        low, high = low[0], high[0]
        # lanes at the end that only repeat the last box are left out
        other = np.flatnonzero(np.any((low != low[-1]) | (high != high[-1]), axis=1))
        used = other[-1] + 2 if len(other) else 1
        index = np.minimum(np.arange(-(-used // BLOCK) * BLOCK), used - 1).reshape(-1, BLOCK)
        # products this small run on one core each
        found = side_by_side(lambda part: self._block(low[part], high[part]), list(index))
        back = np.minimum(np.arange(len(low)), used - 1)
        return tuple(np.concatenate(parts)[back][None] for parts in zip(*found, strict=True))

    def _block(self, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
        with jax.enable_x64(True):
            ends = jnp.asarray(low), jnp.asarray(high)
            found = _enclose(self.network, self.holds, self.claim, *ends)
            return [np.asarray(part) for part in found]

    def deployed(self, networks: np.ndarray, points: np.ndarray) -> np.ndarray:
        with jax.enable_x64(self.wide):
            outputs = np.asarray(_outputs(self.built, jnp.asarray(points[0], float)), np.float64)
        # the property is computed in float64: a violation within its rounding is not a counterexample
        scores = outputs @ self.rows.T + self.added
        size = np.abs(outputs) @ np.abs(self.rows.T) + np.abs(self.added)
        scores = scores + 8 * (self.rows.shape[1] + 2) * 2.0**-53 * size
        return (scores.min(1) if self.holds == "all" else scores.max(1))[None]

    def find_counterexamples(
        self, networks: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        starts = self.generator.random(low.shape[1:])
        with jax.enable_x64(self.wide):
            rows, added = jnp.asarray(self.rows, float), jnp.asarray(self.added, float)
            ends = [jnp.asarray(end[0], float) for end in (low, high)]
            begin = ends[0] + (ends[1] - ends[0]) * jnp.asarray(starts, float)
            found = np.asarray(_descend(self.built, rows, added, self.holds, *ends, begin))
        return np.clip(found.astype(np.float64), low[0], high[0])[None]


@eqx.filter_jit
def _enclose(network: linear.Stacked, holds: str, claim: tuple, low: Array, high: Array):
    rows, added, widths = claim

    def box(low: Array, high: Array):
        score = linear.lowest(network, low, high, rows, added)
        pick = jnp.argmin(score.least) if holds == "all" else jnp.argmax(score.least)
        worst = jnp.where(score.slope[pick] > 0, low, high)
        # where no input has any blame, the longest side is split
        blame = jnp.nan_to_num(score.blame[pick])
        longest = 1e-9 * (jnp.sum(blame) + 1e-9) * (high - low) / widths
        return score.least[pick], worst, blame + longest

    return jax.vmap(box)(low, high)


@eqx.filter_jit
def _outputs(built: Layers, x: Array) -> Array:
    return jax.vmap(built)(x)


@eqx.filter_jit
def _descend(built: Layers, rows: Array, added: Array, holds: str, low, high, begin) -> Array:
    def score(x: Array) -> Array:
        scores = rows @ built(x) + added
        return jnp.min(scores) if holds == "all" else jnp.max(scores)

    def lane(low: Array, high: Array, begin: Array) -> Array:
        return descend(score, low, high, begin, steps=STEPS, shrink=SHRINK)

    return jax.vmap(lane)(low, high, begin)
