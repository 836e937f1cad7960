"""A rule on the draws of a posterior as a `prbnn.certify.search.Property`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from prbnn.certify.descent import descend
from prbnn.certify.enclosures import forms, layered
from prbnn.certify.enclosures.chain import Chain, chain_of, deployed
from prbnn.certify.enclosures.enclosed import Enclosed, Link
from prbnn.certify.enclosures.forms import Form
from prbnn.certify.enclosures.programs import Traced, enclose
from prbnn.certify.questions import Question, question
from prbnn.model.response import response
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.scoring.binding import bind_at
from prbnn.rules.scoring.drawn import Drawn, Frame, frame_of
from prbnn.rules.scoring.obedience import lowest

# steps of the descent, and how much shorter each is than the one before
STEPS = 12
SHRINK = 0.7
# networks per call, at most
SLOTS = 64


class RuleProperty:
    """One rule on every draw of a posterior.

    ``rows`` and ``tolerance`` are those of `prbnn.certify.certify`. Programs are compiled once; `load`
    replaces the draws by those of another posterior with the same network and scaling, however many.
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
            # as deployed: what a rule knows is computed in float64, its score in the network's precision
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
            differentiable = self.chain.activation != "relu" or not exact.second
            if self.link is not None or not differentiable:
                ways = ways[:1]
            # the same score, written in several ways; the tightest bounds of all are taken
            self.programs = [jax.make_jaxpr(way)(*asked) for way in ways]
        self._run = eqx.filter_jit(self._enclose_all)
        self._descended = eqx.filter_jit(self._descend_all)

    def load(self, posterior: Posterior) -> None:
        """Take the draws of a posterior; they stay on the host, from where each call takes some."""
        self.vectors = deployed(posterior.vectors)
        self.chain = chain_of(posterior)[0].doubled()

    def enclose(self, networks: np.ndarray, low: np.ndarray, high: np.ndarray):
        with jax.enable_x64(True):
            found = self._run(self.chain.take(networks), jnp.asarray(low), jnp.asarray(high))
            return tuple(np.asarray(part) for part in found)

    def _enclose_all(self, chain: Chain, low: Array, high: Array):
        def slot(network: Chain, low: Array, high: Array):
            return jax.vmap(lambda a, b: self._enclose(network, a, b))(low, high)

        return jax.vmap(slot)(chain, low, high)

    def _enclose(self, network: Chain, low: Array, high: Array):
        swept = np.array(self.question.swept, int)
        centre, radius = 0.5 * (low + high), 0.5 * (high - low)
        user = forms.box(low, high, swept)
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

    def find_counterexamples(
        self, networks: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        scale, shift = self.scaling.input_scale, self.scaling.input_shift
        ends = [jnp.asarray((end - shift) / scale, float) for end in (low, high)]
        starts = np.random.default_rng(0).random(low.shape[1:])
        # the first start is the middle of its box
        starts[0] = 0.5
        begin = ends[0] + (ends[1] - ends[0]) * jnp.asarray(starts, float)
        found = self._descended(self.vectors[networks], *ends, begin)
        # rounding must not move a point out of its box in the user's units
        return np.clip(np.asarray(found, np.float64) * scale + shift, low, high)

    def _descend_all(self, vectors: Array, low: Array, high: Array, begin: Array) -> Array:
        def slot(vector: Array, low: Array, high: Array, begin: Array) -> Array:
            weights, own = vector[: self.size], vector[self.size :]
            drawn = response(self.network, self.likelihood, weights, own)

            def score(x: Array) -> Array:
                return lowest(self.question.score(Drawn(drawn, self.frame), x))

            def lane(low: Array, high: Array, begin: Array) -> Array:
                return descend(score, low, high, begin, steps=STEPS, shrink=SHRINK)

            return jax.vmap(lane)(low, high, begin)

        return jax.vmap(slot)(vectors, low, high, begin)


def _ways(asked: Question, frame: Frame) -> list[Callable[[Array, Any], Array]]:
    """Functions of (x, known): the rule's score as written, and by derivatives where it has that."""

    def score(x: Array, known: Any) -> Array:
        return jnp.ravel(asked.bound.score(Traced(frame), x, known))

    derived = asked.by_derivatives
    if derived is None:
        return [score]
    return [score, lambda x, known: jnp.ravel(derived(Traced(frame), x, known))]


@eqx.filter_jit
def _deployed(model: tuple, bound: Any, frame: Any, vectors: Array, x: Array, known: Any) -> Array:
    """(slots, lanes): the least component of a rule's score, as a check of draws computes it.

    ``model`` is (network, likelihood, number of weights); slot k holds the network of ``vectors[k]``.
    """
    network, likelihood, size = model

    def slot(vector: Array, x: Array, known: Any) -> Array:
        drawn = response(network, likelihood, vector[:size], vector[size:])
        return jax.vmap(lambda a, k: lowest(bound.score(Drawn(drawn, frame), a, k)))(x, known)

    return jax.vmap(slot)(vectors, x, known)
