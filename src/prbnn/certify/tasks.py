"""A rule of a posterior as a task of the search: enclosures, deployed scores, and following slopes."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify import forms, layered
from prbnn.certify.chains import Chain, chain_of
from prbnn.certify.forms import DOUBLE, Form
from prbnn.certify.programs import Traced, enclose
from prbnn.certify.questions import Question, question
from prbnn.inference.problem import response
from prbnn.knowledge.binding import bind_at
from prbnn.knowledge.drawn import Drawn, frame_of
from prbnn.knowledge.rules import Rule
from prbnn.posterior.draws import Posterior

# steps of the gradient search, each shorter than the one before
STEPS = 12


class Enclosed:
    """One draw, asked by a traced program; a point asked twice is enclosed once."""

    def __init__(self, network: layered.Network):
        self.network = network
        self._known: dict[int, tuple[Form, Form, list]] = {}

    def values(self, x: Form) -> Form:
        return layered.values(self.network, *self._at(x))

    def rates(self, x: Form, index: int) -> Form:
        direction = jnp.zeros(x.shape[0]).at[index].set(1.0)
        entered, layers = self._at(x)
        return layered.rates(self.network, entered, direction, layers)

    def bends(self, x: Form, index: int, step: Array) -> Form:
        """The second difference over a step along an input, per step squared.

        It is a mean of second derivatives between x - step and x + step; deployed values are off by
        what they round.
        """
        around = forms.widen(x, jnp.zeros(x.shape[0]).at[index].set(step))
        entered = layered.entering(around, self.network.precision)
        layers = layered.hidden(self.network, entered)
        direction = jnp.zeros(x.shape[0]).at[index].set(1.0)
        exact = self.network._replace(precision="float64")
        found = layered.bends(exact, entered, direction, layered.hidden(exact, entered))
        off = layered.error(self.network, entered, layers)
        moved = layered.UNIT[self.network.precision] * entered.size[index]
        steep = layered.rates(self.network, entered, direction, layers).size
        return forms.widen(found, 4 * (off + steep * moved) / step**2)

    def _at(self, x: Form) -> tuple[Form, list]:
        if id(x) not in self._known:
            entered = layered.entering(x, self.network.precision)
            self._known[id(x)] = (x, entered, layered.hidden(self.network, entered))
        return self._known[id(x)][1:]


class RuleTask:
    """One rule on every draw of a posterior."""

    def __init__(self, posterior: Posterior, rule: Rule, rows: int | None, tolerance: float):
        self.posterior, self.rule, self.tolerance = posterior, rule, tolerance
        chain, _ = chain_of(posterior)
        columns, scaling = posterior.columns, posterior.scaling
        self.columns, self.scaling = columns, scaling
        self.frame = frame_of(columns, scaling)
        self.question: Question = question(rule, columns, scaling, rows)
        self.vectors = jnp.asarray(posterior.vectors, float)
        with jax.enable_x64(True):
            self.chain = chain.doubled()
            exact = question(rule, columns, scaling, rows)
            start = jax.ShapeDtypeStruct((len(columns.inputs),), jnp.float64)
            # as deployed: what a rule knows in float64, and its score in the network's precision
            self.known, shapes = jax.make_jaxpr(exact.known, return_shape=True)(start)
            self._shift = jnp.asarray(scaling.input_shift, float)
            self._scale = jnp.asarray(scaling.input_scale, float)
            self._run = eqx.filter_jit(self._enclose_all)
        with jax.enable_x64(chain.precision == "float64"):
            bound, frame = question(rule, columns, scaling, rows).bound, frame_of(columns, scaling)

            def scored(x: Array, known: Any) -> Array:
                drawn = Traced(None, frame)  # ty: ignore[invalid-argument-type]
                return jnp.ravel(bound.score(drawn, x, known))

            kind = jnp.dtype(chain.precision)
            asked = jax.tree.map(
                lambda part: jax.ShapeDtypeStruct(part.shape, kind), (start, shapes)
            )
            self.program = jax.make_jaxpr(scored)(*asked)
        self._deployed = eqx.filter_jit(_deployed)
        self._hunted = eqx.filter_jit(self._hunt_all)

    def enclose(self, networks: np.ndarray, low: np.ndarray, high: np.ndarray):
        with jax.enable_x64(True):
            found = self._run(
                self.chain, jnp.asarray(networks), jnp.asarray(low), jnp.asarray(high)
            )
            return tuple(np.asarray(part) for part in found)

    def _enclose_all(self, chain: Chain, networks: Array, low: Array, high: Array):
        weights = tuple(part[networks] for part in chain.weights)
        biases = tuple(part[networks] for part in chain.biases)

        def slot(weights: tuple, biases: tuple, low: Array, high: Array):
            network = layered.Network(weights, biases, chain.activation, chain.precision)
            return jax.vmap(lambda a, b: self._enclose(network, a, b))(low, high)

        return jax.vmap(slot)(weights, biases, low, high)

    def _enclose(self, network: layered.Network, low: Array, high: Array):
        swept = np.array(self.question.swept, int)
        centre, radius = 0.5 * (low + high), 0.5 * (high - low)
        give = 4 * DOUBLE * (jnp.abs(low) + jnp.abs(high))
        slope = jnp.zeros((low.size, max(1, swept.size)))
        if swept.size:
            slope = slope.at[swept, np.arange(swept.size)].set(radius[swept])
        user = forms.form(slope, centre - give, centre + give, low, high)
        x = forms.scale(forms.shift(user, -self._shift), 1 / self._scale)
        enclosed, precision = Enclosed(network), network.precision
        known = [
            layered.entering(part, precision)
            if isinstance(part, Form)
            else jnp.asarray(part, precision)
            for part in enclose(self.known, [user], enclosed)
        ]
        score = enclose(self.program, [layered.entering(x, precision), *known], enclosed)[0]
        lowest = jnp.argmin(score.least)
        steep = score.slope[lowest]
        direction, smear = jnp.zeros_like(low), jnp.zeros_like(low)
        if swept.size:
            direction = direction.at[swept].set(jnp.sign(steep))
            room = jnp.maximum(score.high[lowest] - score.low[lowest], 1e-12)
            wide = jnp.asarray(np.max(self.question.upper - self.question.lower, axis=0))[swept]
            smear = smear.at[swept].set(
                jnp.abs(steep) + jnp.minimum(room, 1e6) * 2 * radius[swept] / wide
            )
        worst = jnp.clip(centre - radius * direction, low, high)
        return score.least[lowest], worst, smear

    def deployed(self, networks: np.ndarray, points: np.ndarray) -> np.ndarray:
        slots, lanes, inputs = points.shape
        flat = points.reshape(-1, inputs)
        group = bind_at([self.rule], self.columns, self.scaling, flat).groups[0]
        bound = group.rules[0]
        known = jax.tree.map(lambda a: a.reshape(slots, lanes, *a.shape[1:]), bound.known)
        x = group.points.reshape(slots, lanes, inputs)
        bare = eqx.tree_at(lambda rule: rule.known, bound, {})
        model = self.posterior.network, self.posterior.likelihood, self.posterior.draws.shape[1]
        vectors = self.vectors[np.asarray(networks)]
        return np.asarray(self._deployed(model, bare, self.frame, vectors, x, known))

    def hunt(self, networks: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        scale, shift = self.scaling.input_scale, self.scaling.input_shift
        ends = [jnp.asarray((end - shift) / scale, float) for end in (low, high)]
        starts = np.random.default_rng(0).random(low.shape[1:])
        # the middle of a box is the first of its starts
        starts[0] = 0.5
        begin = ends[0] + (ends[1] - ends[0]) * jnp.asarray(starts, float)
        found = self._hunted(self.vectors[np.asarray(networks)], *ends, begin)
        # back in the user's units the box has the last word
        return np.clip(np.asarray(found, np.float64) * scale + shift, low, high)

    def _hunt_all(self, vectors: Array, low: Array, high: Array, begin: Array) -> Array:
        network, likelihood = self.posterior.network, self.posterior.likelihood
        size = self.posterior.draws.shape[1]

        def slot(vector: Array, low: Array, high: Array, begin: Array) -> Array:
            drawn = response(network, likelihood, vector[:size], vector[size:])

            def score(x: Array) -> Array:
                return jnp.min(self.question.score(Drawn(drawn, self.frame), x))

            def lane(low: Array, high: Array, begin: Array) -> Array:
                def step(carry: tuple, k: Array) -> tuple:
                    x, best, best_score = carry
                    value, slope = jax.value_and_grad(score)(x)
                    better = value < best_score
                    best = jnp.where(better, x, best)
                    best_score = jnp.where(better, value, best_score)
                    reach = 0.5 * (high - low) * 0.7**k
                    return (
                        jnp.clip(x - reach * jnp.sign(slope), low, high),
                        best,
                        best_score,
                    ), None

                first = begin, begin, jnp.asarray(jnp.inf)
                (_, best, _), _ = jax.lax.scan(step, first, jnp.arange(STEPS))
                return best

            return jax.vmap(lane)(low, high, begin)

        return jax.vmap(slot)(vectors, low, high, begin)


def _deployed(model: tuple, bound: Any, frame: Any, vectors: Array, x: Array, known: Any) -> Array:
    """The least component of a rule's score, one network a slot, as a check of draws computes it."""
    network, likelihood, size = model

    def slot(vector: Array, x: Array, known: Any) -> Array:
        drawn = response(network, likelihood, vector[:size], vector[size:])
        return jax.vmap(lambda a, k: jnp.min(bound.score(Drawn(drawn, frame), a, k)))(x, known)

    return jax.vmap(slot)(vectors, x, known)
