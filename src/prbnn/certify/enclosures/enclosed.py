"""A drawn function over a box, as a traced program asks for it: values, slopes and differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from prbnn.certify.enclosures import forms, layered
from prbnn.certify.enclosures.chain import Chain
from prbnn.certify.enclosures.forms import Form
from prbnn.certify.enclosures.programs import enclose
from prbnn.certify.enclosures.rounding import UNIT
from prbnn.model.likelihoods import Likelihood


class Link(NamedTuple):
    """Traced programs from a network's outputs to the response that rules see.

    ``values`` maps outputs to the response; ``rates`` maps outputs and their slopes to the response's
    slopes.
    """

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
    """One draw, in user code a `prbnn.certify.enclosures.programs.Asked`.

    A point that is asked for twice is enclosed once.
    """

    def __init__(self, network: Chain, link: Link | None = None):
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

    def curvatures(self, x: Form, index: int, step: float) -> Form:
        """A mean of second derivatives between x - step and x + step, and what deployed values round."""
        reach = jnp.zeros(x.shape[0]).at[index].set(step)
        return self._mean(layered.curvatures, forms.widen(x, reach), index, 4 / step**2)

    def rises(self, x: Form, index: int, step: float) -> Form:
        """A mean of slopes between x and x + step, and what deployed values round."""
        half = jnp.zeros(x.shape[0]).at[index].set(0.5 * step)
        around = forms.widen(forms.shift(x, half), jnp.abs(half))
        return self._mean(layered.rates, around, index, 2 / abs(step))

    def _mean(self, derive: Callable, around: Form, index: int, gain: float) -> Form:
        """Any derivative ``derive`` along input ``index`` in the box ``around``, in exact arithmetic.

        A difference of deployed values is off by at most ``gain`` times the error of one value.
        """
        precision = self.network.precision
        entered = layered.entering(around, precision)
        layers = layered.hidden(self.network, entered)
        direction = jnp.zeros(around.shape[0]).at[index].set(1.0)
        exact = replace(self.network, precision="float64")
        found = derive(exact, entered, direction, layers)
        # deployed values round, and so does their difference
        size = layered.values(self.network, entered, layers).size
        off = layered.error(self.network, entered, layers) + 4 * UNIT[precision] * size
        # all inputs are rounded when they enter
        moved = UNIT[precision] * entered.size
        steep = sum(
            layered.rates(exact, entered, axis, layers).size * by
            for axis, by in zip(jnp.eye(around.shape[0]), moved, strict=True)
        )
        return forms.widen(found, gain * (off + steep))

    def _rounded(self, response: Form) -> Form:
        """A response as deployed: probabilities are a few operations away from outputs."""
        size = jnp.where(jnp.isfinite(response.size), response.size, 0.0)
        return forms.widen(response, 4 * self.network.rounding * (1 + size))

    def _at(self, x: Form) -> tuple[Form, list]:
        if id(x) not in self._known:
            entered = layered.entering(x, self.network.precision)
            self._known[id(x)] = (x, entered, layered.hidden(self.network, entered))
        return self._known[id(x)][1:]
