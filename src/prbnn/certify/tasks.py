"""A rule of a posterior as a task of the search: enclosures, deployed scores, and following slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.enclosures import forms, layered
from prbnn.certify.enclosures.forms import DOUBLE, Form
from prbnn.certify.enclosures.layers import Chain, chain_of, deployed
from prbnn.certify.enclosures.programs import Traced, enclose
from prbnn.certify.questions import Question, question
from prbnn.model.likelihoods import Likelihood
from prbnn.model.response import response
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_at
from prbnn.rules.scoring.bound import _inside
from prbnn.rules.scoring.drawn import Drawn, Frame, frame_of
from prbnn.rules.scoring.obedience import lowest

# steps of the gradient search, each shorter than the one before
STEPS = 12
# networks in one call, at most
SLOTS = 64


class Link(NamedTuple):
    """From a network's outputs to the response that rules see, and the same of slopes; traced."""

    values: Any
    rates: Any

    @staticmethod
    def of(likelihood: Likelihood, outputs: int) -> Link | None:
        """None where the outputs are the response."""
        if likelihood.scales_targets:
            return None

        def respond(values: Array) -> Array:
            return likelihood.split(jnp.zeros(0), values)[0]

        some = jax.ShapeDtypeStruct((outputs,), jnp.float64)
        return Link(
            jax.make_jaxpr(respond)(some),
            jax.make_jaxpr(lambda v, r: jax.jvp(respond, (v,), (r,))[1])(some, some),
        )


class Enclosed:
    """One draw, asked by a traced program; a point asked twice is enclosed once."""

    def __init__(self, network: layered.Network, link: Link | None = None):
        self.network, self.link = network, link
        self._known: dict[int, tuple[Form, Form, list]] = {}

    def values(self, x: Form) -> Form:
        found = layered.values(self.network, *self._at(x))
        if self.link is None:
            return found
        return self._rounded(enclose(self.link.values, [found], self)[0])

    def rates(self, x: Form, index: int) -> Form:
        direction = jnp.zeros(x.shape[0]).at[index].set(1.0)
        entered, layers = self._at(x)
        found = layered.rates(self.network, entered, direction, layers)
        if self.link is None:
            return found
        values = layered.values(self.network, entered, layers)
        return self._rounded(enclose(self.link.rates, [values, found], self)[0])

    def _rounded(self, response: Form) -> Form:
        """As deployed: probabilities are a few operations away from outputs."""
        size = jnp.where(jnp.isfinite(response.size), response.size, 0.0)
        return forms.widen(response, 4 * self.network.rounding * (1 + size))

    def bends(self, x: Form, index: int, step: float) -> Form:
        """A mean of second derivatives between x - step and x + step, and what values round."""
        reach = jnp.zeros(x.shape[0]).at[index].set(step)
        return self._mean(layered.bends, forms.widen(x, reach), index, 4 / step**2)

    def rises(self, x: Form, index: int, step: float) -> Form:
        """A mean of slopes between x and x + step, and what values round."""
        half = jnp.zeros(x.shape[0]).at[index].set(0.5 * step)
        around = forms.widen(forms.shift(x, half), jnp.abs(half))
        return self._mean(layered.rates, around, index, 2 / abs(step))

    def _mean(self, derive: Callable, around: Form, index: int, often: float) -> Form:
        """Derivatives in exact arithmetic; deployed values, ``often`` of them, are off by a little."""
        entered = layered.entering(around, self.network.precision)
        layers = layered.hidden(self.network, entered)
        direction = jnp.zeros(around.shape[0]).at[index].set(1.0)
        exact = self.network._replace(precision="float64")
        found = derive(exact, entered, direction, layers)
        # deployed values, and the difference of them, round
        size = layered.values(self.network, entered, layers).size
        off = (
            layered.error(self.network, entered, layers)
            + 4 * layered.UNIT[self.network.precision] * size
        )
        # inputs are rounded on their way in, all of them
        moved = layered.UNIT[self.network.precision] * entered.size
        steep = sum(
            layered.rates(exact, entered, axis, layers).size * by
            for axis, by in zip(jnp.eye(around.shape[0]), moved, strict=True)
        )
        return forms.widen(found, often * (off + steep))

    def _at(self, x: Form) -> tuple[Form, list]:
        if id(x) not in self._known:
            entered = layered.entering(x, self.network.precision)
            self._known[id(x)] = (x, entered, layered.hidden(self.network, entered))
        return self._known[id(x)][1:]


class RuleTask:
    """One rule on every draw of a posterior.

    `load` takes the draws of another posterior with the same network and scaling, however many;
    programs are compiled once.
    """

    work = 2048

    def __init__(self, posterior: Posterior, rule: Rule, rows: int | None, tolerance: float):
        self.rule, self.tolerance = rule, tolerance
        self.slots = min(SLOTS, 1 << max(0, len(posterior) - 1).bit_length())
        self.network, self.likelihood = posterior.network, posterior.likelihood
        self.size = posterior.draws.shape[1]
        columns, scaling = posterior.columns, posterior.scaling
        self.columns, self.scaling = columns, scaling
        self.frame = frame_of(columns, scaling)
        self.question: Question = question(rule, columns, scaling, rows)
        self.load(posterior)
        with jax.enable_x64(True):
            exact = question(rule, columns, scaling, rows)
            start = jax.ShapeDtypeStruct((len(columns.inputs),), jnp.float64)
            # as deployed: what a rule knows in float64, and its score in the network's precision
            self.known, shapes = jax.make_jaxpr(exact.known, return_shape=True)(start)
            self.link = Link.of(posterior.likelihood, self.chain.weights[-1].shape[1])
            self._shift = jnp.asarray(scaling.input_shift, float)
            self._scale = jnp.asarray(scaling.input_scale, float)
        precision = self.chain.precision
        with jax.enable_x64(precision == "float64"):
            kind = jnp.dtype(precision)
            asked = jax.tree.map(
                lambda part: jax.ShapeDtypeStruct(part.shape, kind), (start, shapes)
            )
            ways = _ways(question(rule, columns, scaling, rows), frame_of(columns, scaling))
            differentiable = self.chain.activation != "relu" or not exact.bends
            if self.link is not None or not differentiable:
                ways = ways[:1]
            # the same score in other words; whichever is enclosed more tightly counts
            self.programs = [jax.make_jaxpr(way)(*asked) for way in ways]
        self._run = eqx.filter_jit(self._enclose_all)
        self._hunted = eqx.filter_jit(self._hunt_all)

    def load(self, posterior: Posterior) -> None:
        """Take the draws of a posterior; they stay on the host, where any number may be picked from."""
        self.vectors = deployed(posterior.vectors)
        self.chain = chain_of(posterior)[0].doubled()

    def enclose(self, networks: np.ndarray, low: np.ndarray, high: np.ndarray):
        with jax.enable_x64(True):
            found = self._run(self.chain.take(networks), jnp.asarray(low), jnp.asarray(high))
            return tuple(np.asarray(part) for part in found)

    def _enclose_all(self, chain: Chain, low: Array, high: Array):
        def slot(weights: tuple, biases: tuple, low: Array, high: Array):
            network = layered.Network(weights, biases, chain.activation, chain.precision)
            return jax.vmap(lambda a, b: self._enclose(network, a, b))(low, high)

        return jax.vmap(slot)(chain.weights, chain.biases, low, high)

    def _enclose(self, network: layered.Network, low: Array, high: Array):
        swept = np.array(self.question.swept, int)
        centre, radius = 0.5 * (low + high), 0.5 * (high - low)
        give = 4 * DOUBLE * (jnp.abs(low) + jnp.abs(high))
        slope = jnp.zeros((low.size, max(1, swept.size)))
        if swept.size:
            slope = slope.at[swept, np.arange(swept.size)].set(radius[swept])
        user = forms.form(slope, centre - give, centre + give, low, high)
        x = forms.scale(forms.shift(user, -self._shift), 1 / self._scale)
        drawn, precision = Enclosed(network, self.link), network.precision
        known = [
            layered.entering(part, precision)
            if isinstance(part, Form)
            else jnp.asarray(part, precision)
            for part in enclose(self.known, [user], drawn)
        ]
        arguments = [layered.entering(x, precision), *known]
        score, *others = (enclose(program, arguments, drawn)[0] for program in self.programs)
        for other in others:
            score = Form(
                score.slope,
                score.low,
                score.high,
                jnp.maximum(score.least, other.least),
                jnp.minimum(score.most, other.most),
            )
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
        model = self.network, self.likelihood, self.size
        vectors = self.vectors[networks]
        return np.asarray(_deployed(model, bare, self.frame, vectors, x, known))

    def hunt(self, networks: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        scale, shift = self.scaling.input_scale, self.scaling.input_shift
        ends = [jnp.asarray((end - shift) / scale, float) for end in (low, high)]
        starts = np.random.default_rng(0).random(low.shape[1:])
        # the middle of a box is the first of its starts
        starts[0] = 0.5
        begin = ends[0] + (ends[1] - ends[0]) * jnp.asarray(starts, float)
        found = self._hunted(self.vectors[networks], *ends, begin)
        # back in the user's units the box has the last word
        return np.clip(np.asarray(found, np.float64) * scale + shift, low, high)

    def _hunt_all(self, vectors: Array, low: Array, high: Array, begin: Array) -> Array:
        def slot(vector: Array, low: Array, high: Array, begin: Array) -> Array:
            weights, own = vector[: self.size], vector[self.size :]
            drawn = response(self.network, self.likelihood, weights, own)

            def score(x: Array) -> Array:
                return lowest(self.question.score(Drawn(drawn, self.frame), x))

            def lane(low: Array, high: Array, begin: Array) -> Array:
                def step(carry: tuple, k: Array) -> tuple:
                    x, best, best_score = carry
                    value, slope = jax.value_and_grad(score)(x)
                    better = value < best_score
                    best = jnp.where(better, x, best)
                    best_score = jnp.where(better, value, best_score)
                    reach = 0.5 * (high - low) * 0.7**k
                    return (
                        jnp.clip(x - reach * jnp.nan_to_num(jnp.sign(slope)), low, high),
                        best,
                        best_score,
                    ), None

                first = begin, begin, jnp.asarray(jnp.inf)
                (_, best, _), _ = jax.lax.scan(step, first, jnp.arange(STEPS))
                return best

            return jax.vmap(lane)(low, high, begin)

        return jax.vmap(slot)(vectors, low, high, begin)


def _ways(asked: Question, frame: Frame) -> list[Callable[[Array, Any], Array]]:
    """The score of a rule as it is written, and by derivatives where it limits differences."""

    def score(x: Array, known: Any) -> Array:
        return jnp.ravel(asked.bound.score(Traced(frame), x, known))

    level = asked.level
    if level is None:
        return [score]
    return [score, lambda x, known: jnp.ravel(_inside(level(Traced(frame), x), known))]


@eqx.filter_jit
def _deployed(model: tuple, bound: Any, frame: Any, vectors: Array, x: Array, known: Any) -> Array:
    """The least component of a rule's score, one network a slot, as a check of draws computes it."""
    network, likelihood, size = model

    def slot(vector: Array, x: Array, known: Any) -> Array:
        drawn = response(network, likelihood, vector[:size], vector[size:])
        return jax.vmap(lambda a, k: lowest(bound.score(Drawn(drawn, frame), a, k)))(x, known)

    return jax.vmap(slot)(vectors, x, known)
