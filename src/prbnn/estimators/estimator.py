"""What estimators share: parameters, one way to fit, draws kept by the rules, tables read again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.validation import check_is_fitted

from prbnn.assessment.audit import Audit, audit_of, audit_of_labels
from prbnn.assessment.knowledge_report import knowledge_report, meets
from prbnn.certify.certificate import Certificate
from prbnn.certify.certifying import ROWS, certify
from prbnn.data.frames import is_named, read_inputs, read_weights
from prbnn.data.layout import Layout
from prbnn.data.scaling import ScalingKind
from prbnn.errors import DataError, DivergedError, InfeasibleError
from prbnn.fitting.prepare import Enforce, Settings, check_count, engine_of, prepare
from prbnn.fitting.progress import progress_bar
from prbnn.fitting.prove import SECONDS, prove
from prbnn.fitting.result import Proof, Result, Solution
from prbnn.fitting.task import Task
from prbnn.fitting.tempering import choose_tempering
from prbnn.fitting.train import train
from prbnn.inference.engine import Engine
from prbnn.model.construction.built import built_in
from prbnn.model.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Noise
from prbnn.model.networks import MLP, Network
from prbnn.model.priors import Normal, Prior
from prbnn.posterior.checking import Check
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Kind
from prbnn.saving.writing import content_of
from prbnn.system.disk import write_whole

LEAST_ACCEPTANCE = 0.02
# how many more draws are tried than the acceptance says are needed
SPARE = 1.2


class Estimator(BaseEstimator):
    """The part of an estimator that does not ask what its targets are.

    An estimator turns targets into numbers and names a likelihood; `_learn` does the rest.
    """

    def __init__(
        self,
        network: Network | Callable | None = None,
        knowledge: Sequence[Rule] = (),
        *,
        inference: str | Engine | None = "bbb",
        prior: Prior | None = None,
        tempering: float | Literal["auto"] = "auto",
        scaling: ScalingKind = "minmax",
        steps: int | None = None,
        batch_size: int | None = None,
        points: int = 64,
        rejection: float | None = None,
        draws: int = 1000,
        prove: bool | float = False,
        enforce: Enforce = "training",
        categories: Sequence[str] = (),
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | None = None,
    ):
        self.network = network
        self.knowledge = knowledge
        self.inference = inference
        self.prior = prior
        self.tempering = tempering
        self.scaling = scaling
        self.steps = steps
        self.batch_size = batch_size
        self.points = points
        self.rejection = rejection
        self.draws = draws
        self.prove = prove
        self.enforce = enforce
        self.categories = categories
        self.random_state = random_state
        self.verbose = verbose

    _audit: Audit | None = None
    # numbers of the rows that count, where some have no weight
    _counted: np.ndarray | None = None

    def _defaults(self) -> dict[str, Any]:
        """What stands for parameters that are None."""
        return {"network": MLP(), "inference": "bbb", "prior": Normal()}

    def _budget(self, rows: int) -> int | None:
        """How many steps to train for; None is the engine's own."""
        return self.steps

    def _learn(
        self,
        X: Any,
        targets: Any,
        sample_weight: Any,
        likelihood: Likelihood,
        outputs: Sequence[str] | None,
        layout: Layout | None = None,
    ) -> Task:
        """Fit and keep the record; every mistake in data or rules is told before training."""
        seed = _seed(self.random_state)
        automatic = isinstance(self.tempering, str)
        if automatic and self.tempering != "auto":
            raise ValueError(f"tempering is 'auto' or a number above 0, got {self.tempering!r}")
        check_count(
            steps=self.steps, draws=self.draws, points=self.points, batch_size=self.batch_size
        )
        settings = self._settings(likelihood, seed)
        task = prepare(
            settings.network,
            X,
            targets,
            () if self.knowledge is None else self.knowledge,
            inference=settings.inference,
            likelihood=likelihood,
            prior=settings.prior,
            tempering=1.0 if automatic else self.tempering,
            scaling=self.scaling,
            points=self.points,
            rejection=self.rejection,
            sample_weight=sample_weight,
            columns=None if layout is None else layout.inputs,
            outputs=outputs,
            seed=seed,
            layout=layout,
            enforce=self.enforce,
            categories=() if self.categories is None else self.categories,
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
                task,
                self._budget(len(task.columns.rows)),
                batch_size=self.batch_size,
                # sequences cost more to check, and their networks more to keep
                draws=None if layout is None or not task.engine.endless else max(200, self.draws),
                progress=report.update,
                seed=seed,
            )
            if self.prove and solution.result.status not in (
                "diverged",
                "infeasible",
                "interrupted",
            ):
                solution = prove(
                    solution,
                    self.draws,
                    SECONDS if self.prove is True else float(self.prove),
                    batch_size=self.batch_size,
                    progress=report.update,
                    stage=report.stage,
                )
            report.stage("checking draws")
            self._keep(solution)
            self._columns(X, task)
        self.settings_ = settings
        self._audit, self._counted = None, None
        if sample_weight is not None:
            rows = np.size(np.asarray(sample_weight))
            self._counted = np.flatnonzero(read_weights(sample_weight, rows) > 0)
        return task

    @property
    def audit_(self) -> Audit:
        """Training rows that break a rule by more than noise explains (computed when asked for).

        By the noise that was stated, or one estimated before training; rows count from 0.
        """
        if not hasattr(self, "solution_"):
            raise AttributeError("audit_ is there after fit")
        if self._audit is None:
            rules, likelihood = self.solution_.rules, self.posterior_.likelihood
            if isinstance(likelihood, Bernoulli | Categorical):
                self._audit = audit_of_labels(rules)
            else:
                stated = likelihood.noise if isinstance(likelihood, Gaussian) else None
                self._audit = audit_of(
                    rules,
                    self.posterior_.columns,
                    noise=None if isinstance(stated, str) else stated,
                    numbers=self._counted,
                    scaling=self.posterior_.scaling,
                )
        return self._audit

    def _settings(self, likelihood: Likelihood, seed: int) -> Settings:
        """Parameters as they are now: a user may set others after the fit."""
        given, usual = self.get_params(deep=False), self._defaults()
        if isinstance(self.knowledge, list):
            given["knowledge"] = list(self.knowledge)
        network, inference, prior = (
            usual[name] if given[name] is None else given[name]
            for name in ("network", "inference", "prior")
        )
        return Settings(given, network, engine_of(inference), likelihood, prior, seed)

    def _keep(self, solution: Solution) -> None:
        """Condition the draws, write the report, and raise or warn where the fit failed."""
        if solution.result.status == "diverged":
            raise DivergedError(str(solution.result), solution)
        if solution.result.status == "infeasible":
            raise InfeasibleError(str(solution.result), solution.result.rules, solution)
        # a stated tolerance speaks of the mean violation; without one, a rule is for every draw
        raw = solution.posterior
        met = built_in(raw.network)
        places = [
            place
            for place, rule in enumerate(solution.rules)
            if rule.strength.kind == Kind.HARD and rule.label not in met
        ]
        hard = [solution.rules[place] for place in places]
        check = raw.check(solution.rules)
        proof = solution.proof
        if proof is None:
            kept, self.acceptance_ = raw.condition(hard, checked=check.of(places))
            stored, result = self._stored(solution, kept, hard)
        else:
            self.acceptance_ = proof.acceptance
            stored, result = _proved(solution, proof, self.draws)
        self.certificate_ = None if proof is None else proof.certificate
        result = result or _missed_when_checked(solution, check)
        if solution.result.status == "interrupted" and result is not None:
            # that it was cut short explains the rest
            message = f"{solution.result.message}; {result.message}"
            result = replace(solution.result, message=message, rules=result.rules)
        self.solution_, self.result_ = solution, result or solution.result
        self.raw_posterior_, self.posterior_ = raw, stored
        self.tempering_, self.history_ = solution.tempering, solution.history
        self.knowledge_report_ = knowledge_report(
            solution.rules,
            solution,
            check,
            stored,
            check if len(stored) == len(raw) and not hard else stored.check(solution.rules),
            self.acceptance_,
            self.result_,
        )

    def _stored(
        self, solution: Solution, kept: Posterior, rules: list[Rule]
    ) -> tuple[Posterior, Result | None]:
        """Draw and reject until enough draws are stored; too low an acceptance is said, not hidden."""
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
            few = min(self.draws, len(kept))
            return kept.take(np.arange(few) * len(kept) // few), None
        batch = len(solution.posterior)
        # twice what the acceptance suggests is more than luck can use up
        rounds = 2 + int(2 * self.draws / (batch * self.acceptance_))
        for number in range(1, rounds):
            if len(kept) >= self.draws:
                break
            fresh = solution.more(batch, number)
            start = 0
            while start < batch and len(kept) < self.draws:
                # trying a draw takes longer than drawing it: no more than are likely to be needed
                end = start + int(SPARE * (self.draws - len(kept)) / self.acceptance_) + 1
                kept = kept.joined(
                    fresh.take(np.arange(start, min(end, batch))).condition(rules)[0]
                )
                start = end
        return kept.take(np.arange(min(self.draws, len(kept)))), None

    def certify(
        self, seconds: float = 60.0, *, rows: int | None = ROWS, raw: bool = False
    ) -> Certificate:
        """Decide for each rule and stored draw whether the rule holds on the set that `region` names.

        Proved, refuted with a counterexample, or undecided; see `prbnn.certify.certify`. With
        ``raw=True`` the draws are those of the posterior before any was rejected, and
        `RuleCertificate.chance_of_breaking` then bounds the chance that a drawn function breaks a rule.
        """
        check_is_fitted(self, "posterior_")
        draws = self.raw_posterior_ if raw else self.posterior_
        return certify(draws, list(self.solution_.rules), seconds, rows=rows)

    def save(self, path: str | os.PathLike, *, data: bool = True) -> None:
        """Write the fitted model to one file, for `prbnn.load`.

        Training rows are in it, since rules are checked between them; ``data=False`` leaves them out.
        """
        check_is_fitted(self, "settings_")
        write_whole(path, content_of(self, data=data))

    def _warn_unless_converged(self) -> None:
        """Say where the fit was called that it did not end as it should."""
        if self.result_.status != "converged":
            warnings.warn(str(self.result_), ConvergenceWarning, stacklevel=3)

    def _columns(self, X: Any, task: Task) -> None:
        self.n_features_in_ = len(task.columns.inputs)
        self.output_names_ = task.columns.outputs
        if is_named(X):
            self.feature_names_in_ = np.array(task.columns.inputs, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _read(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "posterior_")
        values, names = read_inputs(X)
        expected = self.posterior_.columns.inputs
        if is_named(X) and hasattr(self, "feature_names_in_"):
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


def _proved(solution: Solution, proof: Proof, wanted: int) -> tuple[Posterior, Result | None]:
    """The proved draws; where there are none, the raw ones, and that is said."""
    if proof.complete:
        return proof.posterior, None
    names = tuple(rule.label for rule in solution.rules if rule.strength.kind == Kind.HARD)
    message = (
        f"{len(proof.posterior)} of {wanted} draws proved to obey {' and '.join(map(repr, names))} "
        "before the time for proofs ended; give more (prove=600), more steps, or a margin"
    )
    stored = proof.posterior if len(proof.posterior) else solution.posterior
    return stored, Result("budget spent", message, names)


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
        averages = named and all(rule.strength.kind != Kind.HARD for rule in named)
        return Result("converged") if averages else None
    names = " and ".join(map(repr, missed))
    message = f"{names} not met when checked densely; give more steps or points"
    return Result("budget spent", message, missed)


def likelihood_of(noise: Noise, likelihood: Likelihood | None) -> Likelihood:
    """What `noise` and `likelihood` together ask for; a Gaussian unless one is given."""
    if likelihood is None:
        return Gaussian(noise)
    if isinstance(likelihood, type) or not isinstance(likelihood, Likelihood):
        raise ValueError(
            f"likelihood must be a likelihood such as StudentT() or Poisson(), got {likelihood!r}"
        )
    if noise != "learned":
        raise ValueError(
            f"noise={noise!r} goes with likelihood=None only; say it in the likelihood, as in "
            f"StudentT(noise=0.1), and leave noise out (got likelihood={likelihood!r})"
        )
    return likelihood


def one_column(y: Any) -> Any:
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
