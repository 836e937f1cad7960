"""The scikit-learn layer: `PRBNNRegressor` reads tables, fits, conditions and reports."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.validation import check_is_fitted

from prbnn.enforcement.pressure import REJECTION
from prbnn.errors import DataError, DivergedError, InfeasibleError
from prbnn.fit import train
from prbnn.inference.engine import Engine
from prbnn.knowledge.rules import Rule
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import MLP, Network
from prbnn.model.priors import Normal, Prior
from prbnn.model.scaling import Kind
from prbnn.posterior.draws import Check, Posterior, Prediction
from prbnn.progress import progress_bar
from prbnn.report.knowledge import knowledge_report, meets
from prbnn.solution import Result, Solution
from prbnn.table import read_inputs
from prbnn.task import Task, check_count, prepare
from prbnn.tempering import choose_tempering

LEAST_ACCEPTANCE = 0.02


class PRBNNRegressor(RegressorMixin, BaseEstimator):
    """A Bayesian neural network for regression that obeys the knowledge it is given.

    Parameters
    ----------
    network : declaration such as `MLP`, or a factory (key, inputs, outputs); MLP() if None
    knowledge : list of rules, in the units and column names of the data
    inference : "bbb", "dropout", "svgd", "ensemble", "laplace", "sghmc", "nuts", or an engine with
        its options
    noise : "learned", "by input", or a standard deviation in the target's units
    prior : prior over weights; Normal(0, 1) if None
    tempering : weight of the KL term; "auto" chooses it by held-out score
    scaling : "minmax", "standard" or "none"
    steps : training budget; the engine's own if None
    batch_size : rows a step; None uses all rows, or 1,024 where there are more than 4,096
    points : at how many points of its region a rule is tried a step
    rejection : share of drawn functions that may break a hard rule and be rejected; less of it
        means more pressure and narrower bands
    draws : how many functions are stored
    output_names : names of the outputs, for `of=`; taken from the data where it has them
    random_state : seed
    verbose : True shows progress; None shows it in a terminal

    Attributes
    ----------
    posterior_ : stored draws; every one obeys the rules that are hard without a tolerance, at all
        points checked, unless result_ says that acceptance is too low
    raw_posterior_ : draws before any was rejected
    acceptance_ : share of raw draws that obey every hard rule
    knowledge_report_ : table of the rules
    result_ : how the fit ended
    solution_, tempering_, noise_, n_features_in_, feature_names_in_ : the rest of the record

    >>> import numpy as np
    >>> from prbnn import AtLeast, MLP, PRBNNRegressor
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> model = PRBNNRegressor(MLP((8,)), [AtLeast(0)], tempering=0.2, draws=50, random_state=0)
    >>> model.fit(x, x.ravel()).predict(x).shape
    (20,)
    """

    def __init__(
        self,
        network: Network | Callable | None = None,
        knowledge: Sequence[Rule] = (),
        *,
        inference: str | Engine = "bbb",
        noise: float | Literal["learned", "by input"] = "learned",
        prior: Prior | None = None,
        tempering: float | Literal["auto"] = "auto",
        scaling: Kind = "minmax",
        steps: int | None = None,
        batch_size: int | None = None,
        points: int = 64,
        rejection: float = REJECTION,
        draws: int = 1000,
        output_names: Sequence[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | None = None,
    ):
        self.network = network
        self.knowledge = knowledge
        self.inference = inference
        self.noise = noise
        self.prior = prior
        self.tempering = tempering
        self.scaling = scaling
        self.steps = steps
        self.batch_size = batch_size
        self.points = points
        self.rejection = rejection
        self.draws = draws
        self.output_names = output_names
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of ``X`` and ``y``; every mistake in data or rules is told before training."""
        seed = _seed(self.random_state)
        automatic = isinstance(self.tempering, str)
        if automatic and self.tempering != "auto":
            raise ValueError(f"tempering is 'auto' or a number above 0, got {self.tempering!r}")
        check_count(
            steps=self.steps, draws=self.draws, points=self.points, batch_size=self.batch_size
        )
        y = _one_column(y)
        task = prepare(
            MLP() if self.network is None else self.network,
            X,
            y,
            () if self.knowledge is None else self.knowledge,
            inference=self.inference,
            likelihood=Gaussian(self.noise),
            prior=Normal() if self.prior is None else self.prior,
            tempering=1.0 if automatic else self.tempering,
            scaling=self.scaling,
            points=self.points,
            rejection=self.rejection,
            sample_weight=sample_weight,
            columns=None,
            outputs=self.output_names,
            seed=seed,
        )
        with progress_bar(self.verbose) as report:
            self.tempering_choice_ = None
            if automatic and task.engine.races:
                report.stage("choosing the tempering")
                self.tempering_choice_ = choose_tempering(
                    task.engine, task.problem, task.data, seed
                )
                task = task.tempered(self.tempering_choice_.value)
            report.stage("compiling")
            solution = train(
                task, self.steps, batch_size=self.batch_size, progress=report.update, seed=seed
            )
            report.stage("checking draws")
            self._keep(solution)
            self._columns(X, task)
        self._warn(np.asarray(task.data.weight))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _keep(self, solution: Solution) -> None:
        """Condition the draws, write the report, and raise or warn where the fit failed."""
        if solution.result.status == "diverged":
            raise DivergedError(str(solution.result), solution)
        if solution.result.status == "infeasible":
            raise InfeasibleError(str(solution.result), solution.result.rules, solution)
        # a stated tolerance speaks of the mean violation; without one, a rule is for every draw
        hard = [k for k, rule in enumerate(solution.rules) if rule.strength.kind == "share"]
        raw = solution.posterior
        check = raw.check(solution.rules)
        obeys = np.all(~check.broken()[:, hard], axis=1)
        self.acceptance_ = float(np.mean(obeys))
        stored, result = self._stored(solution, raw.take(obeys), hard)
        result = result or _missed_when_checked(solution, check)
        self.solution_, self.result_ = solution, result or solution.result
        self.raw_posterior_, self.posterior_ = raw, stored
        self.tempering_ = solution.tempering
        self.noise_ = float(raw.noise[0]) if len(raw.noise) == 1 else raw.noise
        self.knowledge_report_ = knowledge_report(
            solution.rules,
            solution,
            check,
            stored,
            stored.check(solution.rules),
            self.acceptance_,
            self.result_,
        )

    def _stored(
        self, solution: Solution, kept: Posterior, hard: list[int]
    ) -> tuple[Posterior, Result | None]:
        """Draw and reject until enough draws are stored; too low an acceptance is said, not hidden."""
        rules = [solution.rules[k] for k in hard]
        if self.acceptance_ < LEAST_ACCEPTANCE:
            message = (
                f"only {self.acceptance_:.1%} of drawn functions obey every hard rule; give more "
                "steps, or loosen the rules that the report shows broken most"
            )
            often = np.mean(solution.posterior.check(rules).broken(), axis=0) > 0.5
            names = tuple(rule.label for rule, bad in zip(rules, often, strict=True) if bad)
            names = tuple(dict.fromkeys((*solution.result.rules, *names)))
            return (kept if len(kept) else solution.posterior), Result(
                "acceptance too low", message, names
            )
        if not solution.fitted.endless:
            return kept, None
        batch = len(solution.posterior)
        # twice what the acceptance suggests is more than luck can use up
        rounds = 2 + int(2 * self.draws / (batch * self.acceptance_))
        for number in range(1, rounds):
            if len(kept) >= self.draws:
                break
            kept = kept.joined(solution.more(batch, number).condition(rules)[0])
        return kept.take(np.arange(min(self.draws, len(kept)))), None

    def _warn(self, weight: np.ndarray) -> None:
        """Say what a user should know before trusting the model."""
        if self.result_.status != "converged":
            warnings.warn(str(self.result_), ConvergenceWarning, stacklevel=3)
            return
        columns = self.posterior_.columns
        mean = self.posterior_.predict(columns.rows).mean
        weight = weight[: len(mean)]
        centre = np.average(columns.targets, axis=0, weights=weight)
        left = np.average((columns.targets - mean) ** 2, axis=0, weights=weight)
        explained = 1 - left / np.average((columns.targets - centre) ** 2, axis=0, weights=weight)
        if np.any(explained < 0.05) and self.tempering_ > 0.05:
            name = columns.outputs[int(np.argmin(explained))]
            warnings.warn(
                "the posterior has collapsed onto its prior: it explains "
                f"{max(0, explained.min()):.0%} of the variance of {name!r}. Either the inputs say "
                "nothing about it, or the rules leave it no room, or tempering "
                f"{self.tempering_:g} is too high for this network; try a tenth of it",
                UserWarning,
                stacklevel=3,
            )

    def _columns(self, X: Any, task: Task) -> None:
        self.n_features_in_ = len(task.columns.inputs)
        self.output_names_ = task.columns.outputs
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(task.columns.inputs, dtype=object)

    def _read(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "posterior_")
        values, names = read_inputs(X)
        expected = self.posterior_.columns.inputs
        if hasattr(X, "columns") and hasattr(self, "feature_names_in_"):
            missing = [name for name in expected if name not in names]
            extra = [name for name in names if name not in expected]
            if missing or extra:
                raise DataError(
                    "The feature names should match those that were passed during fit.\n"
                    + (f"Feature names unseen at fit time: {extra}\n" if extra else "")
                    + (
                        f"Feature names seen at fit time, yet now missing: {missing}\n"
                        if missing
                        else ""
                    )
                )
            if names != expected:
                raise DataError(
                    "The feature names should match those that were passed during fit.\n"
                    f"Feature names must be in the same order as they were in fit: {expected}\n"
                )
        if values.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {values.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return values

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if values.shape[-1] == 1 else values

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean prediction; with ``return_std`` also the standard deviation of a new observation."""
        prediction = self.predict_all(X)
        mean = self._shaped(prediction.mean)
        return (mean, self._shaped(prediction.total)) if return_std else mean

    def predict_all(self, X: Any) -> Prediction:
        """Mean, epistemic and aleatoric standard deviations, (rows, outputs)."""
        rows = self._read(X)
        return self.posterior_.predict(rows)

    def predict_quantiles(
        self,
        X: Any,
        levels: Sequence[float] = (0.05, 0.5, 0.95),
        noise: bool = True,
    ) -> np.ndarray:
        """Quantiles (levels, rows) of a new observation, or of the functions with ``noise=False``."""
        rows = self._read(X)
        return self._shaped(self.posterior_.quantiles(rows, levels, noise=noise))

    def sample_functions(self, X: Any) -> np.ndarray:
        """Every stored function at every row (draws, rows), without noise."""
        rows = self._read(X)
        return self._shaped(self.posterior_.functions(rows))

    def sample(self, X: Any, random_state: int = 0) -> np.ndarray:
        """New observations (draws, rows): functions with noise."""
        rows = self._read(X)
        return self._shaped(self.posterior_.samples(rows, random_state))


def _missed_when_checked(solution: Solution, check: Check) -> Result | None:
    """Rules are trained on a block of points at a time; the dense check has the last word."""
    units = solution.posterior.bind(solution.rules, 8).units
    missed = tuple(
        rule.label
        for place, rule in enumerate(solution.rules)
        if not meets(rule, units[place], check, place)
    )
    if not missed:
        named = [rule for rule in solution.rules if rule.label in solution.result.rules]
        averages = named and all(rule.strength.kind != "share" for rule in named)
        return Result("converged") if averages else None
    names = " and ".join(map(repr, missed))
    message = f"{names} not met when checked densely; give more steps or points"
    return Result("budget spent", message, missed)


def _one_column(y: Any) -> Any:
    """A column vector where a vector was expected is read as one, with scikit-learn's warning."""
    if y is None:
        raise DataError("this estimator requires y to be passed, but the target y is None")
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; use y.ravel()",
            DataConversionWarning,
            stacklevel=3,
        )
        return y.ravel()
    return y


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not (whole and 0 <= random_state < 2**32):
        raise ValueError(
            "random_state must be None, a RandomState or a whole number from 0 to 4294967295, "
            f"got {random_state!r}"
        )
    return int(random_state)
