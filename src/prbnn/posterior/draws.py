"""A posterior is draws: predict with them, check them against rules, keep those that obey."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.errors import DataError
from prbnn.model.construction.built import built_in
from prbnn.model.construction.limits import held
from prbnn.model.likelihoods import Likelihood
from prbnn.model.observation import network_window
from prbnn.model.truncation import recorded, window_of
from prbnn.posterior import checks
from prbnn.posterior.checks import BUILT_POINTS, CHECK_SEQUENCES, Check
from prbnn.posterior.chunks import CHUNK_ROWS, DrawnModel
from prbnn.posterior.prediction import (
    Prediction,
    log_densities,
    network_inputs,
    overflow_error,
    values_of,
)
from prbnn.posterior.quantiles import mixture_quantiles
from prbnn.rules.base import Rule
from prbnn.rules.regions import Sampling, sample
from prbnn.rules.scoring.binding import BoundKnowledge, bind_all, bind_pools
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks
from prbnn.system.process import computing

# over several inputs no set of points is dense: draws that obey are checked at this many further sets
FURTHER_CHECKS = 2


@dataclass(frozen=True, eq=False)
class Posterior:
    """Weight vectors drawn from a posterior, with all that is needed to use them.

    `likelihood_parameters` has one row per draw; a single vector is used for all draws.
    """

    network: Any
    draws: np.ndarray
    likelihood: Likelihood
    likelihood_parameters: np.ndarray
    scaling: Scaling
    columns: Columns

    def __post_init__(self) -> None:
        own = np.asarray(self.likelihood_parameters)
        shape = (len(self.draws), own.shape[-1])
        object.__setattr__(self, "likelihood_parameters", np.broadcast_to(own, shape))

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def vectors(self) -> np.ndarray:
        """Weights followed by the likelihood's own parameters, one row per draw."""
        return np.concatenate([self.draws, self.likelihood_parameters], axis=1)

    @property
    def model(self) -> DrawnModel:
        """What compiled code needs beside the vectors."""
        window = network_window(self.likelihood, self.scaling)
        return DrawnModel(self.network, self.likelihood, self.draws.shape[1], window)

    @property
    def recorded(self) -> Any:
        """The distribution of what is recorded: the likelihood, inside its window if it has one."""
        window = window_of(self.likelihood, len(self.columns.outputs))
        return recorded(self.likelihood, None if window is None else self.scaling.outputs(window))

    def take(self, keep: np.ndarray) -> Posterior:
        """The posterior of the draws that ``keep`` chooses, by a mask or by positions."""
        keep = np.asarray(keep)
        return self._of(self.draws[keep], self.likelihood_parameters[keep])

    def joined(self, other: Posterior) -> Posterior:
        """The draws of both."""
        return self._of(
            np.concatenate([self.draws, other.draws]),
            np.concatenate([self.likelihood_parameters, other.likelihood_parameters]),
        )

    def with_draws(self, draws: np.ndarray) -> Posterior:
        """The same with other weights, as many draws as before."""
        return replace(self, draws=draws)

    def _of(self, draws: np.ndarray, own: np.ndarray) -> Posterior:
        return replace(self, draws=draws, likelihood_parameters=own)

    @property
    def noise(self) -> np.ndarray:
        """Learned or fixed noise of each output, in the user's units (NaN where it varies)."""
        if not self.likelihood.scales_targets or not self.likelihood_parameters.shape[1]:
            return np.full(len(self.columns.outputs), np.nan)
        scale = np.exp(np.asarray(self.likelihood_parameters, np.float64))
        return np.sqrt(np.mean(scale**2, axis=0)) * self.scaling.output_scale

    def predict(self, x: np.ndarray) -> Prediction:
        """Mean, epistemic and aleatoric standard deviation at each row of ``x``."""
        parts = []
        for mean, noise, keep in self.blocks(x):
            aleatoric = self.likelihood.deviation(mean, noise)
            moments = mean.mean(axis=0), mean.std(axis=0), np.sqrt(np.mean(aleatoric**2, axis=0))
            parts.append(np.stack(moments)[:, :keep])
        mean, epistemic, aleatoric = np.concatenate(parts, axis=1)
        scale = self.scaling.output_scale
        return Prediction(self.scaling.restore(mean), epistemic * scale, aleatoric * scale)

    def functions(self, x: np.ndarray) -> np.ndarray:
        """Every drawn function at every row of ``x``: (draws, rows, outputs), without noise."""
        parts = [mean[:, :keep] for mean, _, keep in self.blocks(x)]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def samples(self, x: np.ndarray, seed: int = 0) -> np.ndarray:
        """One new observation per draw and row: drawn functions with their noise added."""
        generator = np.random.default_rng(seed)
        parts = [
            self.recorded.sample(generator, mean, noise)[:, :keep]
            for mean, noise, keep in self.blocks(x)
        ]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def quantiles(
        self, x: np.ndarray, levels: Sequence[float], *, noise: bool = True
    ) -> np.ndarray:
        """Quantiles (levels, rows, outputs) of a new observation, or of the functions alone."""
        wanted = np.asarray(levels, float)
        if not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"quantile levels must be between 0 and 1, got {levels}")
        parts = [
            mixture_quantiles(self.recorded, mean[:, :keep], scale[:, :keep], wanted)
            if noise
            else np.quantile(mean, wanted, axis=0)[:, :keep]
            for mean, scale, keep in self.blocks(x)
        ]
        return self.scaling.restore(np.concatenate(parts, axis=1))

    def log_density(
        self, x: np.ndarray, y: np.ndarray, upper: np.ndarray | None = None
    ) -> np.ndarray:
        """log of the mean over draws of p(y | x, draw), one number per row, in the user's units.

        Of a truncated likelihood it is the density of a recorded value, and -inf outside the window.
        With ``upper``, targets that differ from it are known to lie from ``y`` to ``upper`` only (ends
        may be infinite), and have the log probability of that.
        """
        computing()
        wanted = np.asarray(y, float).reshape(len(x), -1)
        inputs = network_inputs(x, self.columns, self.scaling)
        ends = wanted if upper is None else np.asarray(upper, float).reshape(wanted.shape)
        targets = (
            self.scaling.outputs(wanted),
            None if upper is None else self.scaling.outputs(ends),
        )
        found = log_densities(self.model, self.vectors, inputs, *targets)
        unit = np.log(self.scaling.output_scale)
        # a probability has no unit
        found = found - (np.sum(unit) if upper is None else (wanted == ends) @ unit)
        window = window_of(self.likelihood, len(self.columns.outputs))
        if window is None:
            return found
        return np.where(np.any((ends < window[0]) | (wanted > window[1]), axis=1), -np.inf, found)

    def blocks(
        self, x: np.ndarray, *, finite: bool = True
    ) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Mean and noise of every draw (network units) on blocks of rows, and how many rows count.

        Blocks have one padded size: the same bits however the rows are split, and one program however
        many draws there are. Where values must be ``finite`` and are not, the error names the row and
        its column that is farthest out.
        """
        computing()
        inputs = network_inputs(x, self.columns, self.scaling)
        blocks = values_of(self.model, self.vectors, inputs)
        for number, (mean, noise, rows) in enumerate(blocks):
            first = number * CHUNK_ROWS
            if finite:
                self._refuse_overflow(x, first, mean[:, :rows], noise[:, :rows])
            mean = mean.astype(np.float64)
            given = np.asarray(x[first : first + rows], np.float64)
            mean[:, :rows] = held(self.network, mean[:, :rows], given, self.scaling)
            yield mean, noise.astype(np.float64), rows

    def _refuse_overflow(self, x: np.ndarray, first: int, *found: np.ndarray) -> None:
        """Raise where values ``found`` from row ``first`` on are not finite."""
        for values in found:
            rows = np.argwhere(~np.isfinite(values))
            if not len(rows):
                continue
            if not np.all(np.isfinite(self.vectors)):
                raise DataError("the posterior holds weights that are not finite; fit it again")
            row = first + int(rows[:, 1].min())
            raise overflow_error(np.asarray(x)[row], row, self.columns, self.scaling)

    def bind(
        self,
        rules: Sequence[Rule],
        points: int | None = None,
        seed: int = 1,
        *,
        edges: bool = False,
        further: Mapping[int, np.ndarray] | None = None,
    ) -> BoundKnowledge:
        """The rules on a dense set of points, without safety margins, for checking draws.

        With ``edges``, 1/4 of the points are at an end of the ranges that are swept. ``further`` points
        by position of a rule take the places of others, all of them if there are enough.
        """
        if points is None:
            points = checks.check_points(self.columns)
        exact = built_in(self.network)
        return bind_all(
            rules,
            self.columns,
            self.scaling,
            points,
            margins=False,
            seed=seed,
            exact=exact,
            edges=edges,
            further=further,
            most=1.0,
        )

    def bind_pools(
        self, rules: Sequence[Rule], pools: Mapping[Sampling, np.ndarray]
    ) -> BoundKnowledge:
        """The rules at given points of each region, without safety margins."""
        exact = built_in(self.network)
        return bind_pools(rules, self.columns, self.scaling, pools, margins=False, exact=exact)

    def check(self, rules: Sequence[Rule], knowledge: BoundKnowledge | None = None) -> Check:
        """Score every draw against every rule on a dense set of points, or on those of ``knowledge``.

        Rules that the network obeys by construction are evaluated at a few points only.
        """
        if not rules or not len(self):
            return Check(*np.zeros((4, len(self), len(rules))))
        limits, form, others = checks.split_by_form(rules, built_in(self.network), self.columns)
        if knowledge is None and not others.all():
            near, shaped, rest = (
                [rules[k] for k in np.flatnonzero(part)] for part in (limits, form, others)
            )
            found_by = [
                self._check_limits(near),
                self.check(shaped, self.bind(shaped, BUILT_POINTS) if shaped else None),
                self.check(rest),
            ]
            found = np.zeros((4, len(self), len(rules)))
            for part, check in zip((limits, form, others), found_by, strict=True):
                found[:, :, part] = (check.worst, check.f, check.score, check.points)
            return Check(*found)
        computing()
        return checks.check_draws(self.model, self.vectors, knowledge or self.bind(rules))

    def _check_limits(self, rules: Sequence[Rule]) -> Check:
        """Limits that are built, of the values that are predicted, in float64."""
        found = np.zeros((4, len(self), len(rules)))
        for place, rule in enumerate(rules):
            points = sample(rule.sampling(self.columns), self.columns, BUILT_POINTS, 1)
            parts = [mean[:, :keep] for mean, _, keep in self.blocks(points, finite=False)]
            values = self.scaling.restore(np.concatenate(parts, axis=1))
            score = checks.scores_of_limits(rule, points, values, self.columns, self.scaling)
            found[:, :, place] = (
                score.min(axis=1),
                np.minimum(score, 0).mean(axis=1),
                score.mean(axis=1),
                breaks(score, CHECK_TOLERANCE).mean(axis=1),
            )
        return Check(*found)

    def condition(
        self,
        rules: Sequence[Rule],
        tolerance: float = CHECK_TOLERANCE,
        checked: Check | None = None,
    ) -> tuple[Posterior, float]:
        """The draws that obey every rule everywhere it was checked, and their fraction of all draws.

        ``checked`` is what `check` found of these rules, where that is known.
        """
        kept = self.take((self.check(rules) if checked is None else checked).obeys(tolerance))
        surface = len(self.columns.inputs) > 1 and self.columns.layout is None
        further = FURTHER_CHECKS if surface and rules else 0
        for number in range(further):
            if len(kept):
                others = self.bind(rules, seed=2 + number)
                kept = kept.take(kept.check(rules, others).obeys(tolerance))
        return kept, len(kept) / len(self) if len(self) else 0.0

    def worst_points(self, rule: Rule, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Where each draw scores lowest, (draws, inputs) in the user's units, and the score there.

        Among the points that `bind` with this ``seed`` checks; the score is in the rule's unit.
        """
        knowledge = self.bind([rule], seed=seed)
        region = rule.sampling(self.columns).shared(self.columns)
        pool = sample(region, self.columns, checks.check_points(self.columns), seed)
        places, scores = checks.lowest_scores(self.model, self.vectors, knowledge)
        return pool[places], scores

    def violated(self, rules: Sequence[Rule], points: int = 1024) -> np.ndarray:
        """P(score < 0) of each rule: over draws, and over points where it is trained.

        The score is the one that is trained: less its margin, and of hard rules the distance inside their
        limit. The probability is what a mean violation changes by when a bound moves, since
        d E min(0, score + d) / dd = P(score < 0); of a combined rule it is the sum over its parts, by
        their weights.
        """
        if not rules or not len(self):
            return np.zeros(len(rules))
        points = self.points_for_mean(points)
        exact = built_in(self.network)
        knowledge = bind_all(rules, self.columns, self.scaling, points, exact=exact)
        return checks.chance_below(self.model, self.vectors, knowledge)

    def points_for_mean(self, points: int, *, built: bool = False) -> int:
        """At how many points the mean is checked, where ``points`` are requested.

        Every draw is evaluated at once, so sequences are fewer. A mean of functions that obey a limit or
        a shape obeys it: ``built`` rules need fewer still.
        """
        few = self.columns.layout is not None or built
        return min(points, CHECK_SEQUENCES // 4) if few else points

    def breaks_of_mean(self, rules: Sequence[Rule], points: int = 1024) -> np.ndarray:
        """At how many of the checked points the mean prediction breaks each rule."""
        if not rules:
            return np.zeros(0, int)
        found = np.zeros(len(rules), int)
        limits, form, others = checks.split_by_form(rules, built_in(self.network), self.columns)
        few, many = (self.points_for_mean(points, built=built) for built in (True, False))
        for place in np.flatnonzero(limits):
            rule = rules[place]
            at = sample(rule.sampling(self.columns), self.columns, few, 1)
            values = self.predict(at).mean
            score = checks.scores_of_limits(rule, at, values, self.columns, self.scaling)
            found[place] = int(np.sum(breaks(score, CHECK_TOLERANCE)))
        for part, count in ((form, few), (others, many)):
            chosen = [rules[place] for place in np.flatnonzero(part)]
            if chosen:
                knowledge = self.bind(chosen, count)
                found[part] = checks.breaks_of_mean(self.model, self.vectors, knowledge)
        return found
