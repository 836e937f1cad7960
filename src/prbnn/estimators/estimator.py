"""The base class of the estimators: parameters, one way to fit, stored draws, files."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from prbnn.assessment.audit import Audit, audit_of, audit_of_labels
from prbnn.certify.certificate import Certificate
from prbnn.certify.certifying import ROWS, certify
from prbnn.data.columns import Columns
from prbnn.data.frames import is_named, read_inputs, read_weights
from prbnn.data.layout import Layout
from prbnn.data.scaling import ScalingKind
from prbnn.errors import CollapseWarning, DataError, DivergedError, InfeasibleError, ModelFileError
from prbnn.estimators.arguments import check_feature_names, seed_of
from prbnn.estimators.automatic import AUTO, MIXED, NETWORK, automatic
from prbnn.estimators.nested import NestedParameters
from prbnn.estimators.storing import LEAST_ACCEPTANCE, LEAST_MOVED, Stored, stored_draws
from prbnn.fitting.checkpoints import Checkpoints
from prbnn.fitting.identity import identity_of
from prbnn.fitting.prepare import Enforce, Settings, check_count, prepare
from prbnn.fitting.progress import progress_bar
from prbnn.fitting.prove import SECONDS, prove
from prbnn.fitting.result import Solution
from prbnn.fitting.task import Task
from prbnn.fitting.tempering import tempering_chosen
from prbnn.fitting.train import train
from prbnn.inference.engine import Engine
from prbnn.model.counts_and_classes import Bernoulli, Categorical
from prbnn.model.likelihoods import Gaussian, Likelihood
from prbnn.model.networks import Network
from prbnn.model.priors import LayerNormal, Prior
from prbnn.rules.base import Rule
from prbnn.saving.saved_model import SavedModel
from prbnn.saving.writing import bytes_of
from prbnn.system.disk import write_whole
from prbnn.system.environment import environment

# a prior under which outputs keep their scale at any width
PRIOR = LayerNormal()

# raw draws, by which rules are judged, where each of them costs much and fewer are stored
FEW_DRAWS = 200


class Estimator(NestedParameters):
    """The part of an estimator that is the same for numbers, classes and sequences.

    A subclass turns targets into numbers and chooses a likelihood; `_learn` does the rest.
    """

    def __init__(
        self,
        network: Network | Callable | None = None,
        knowledge: Sequence[Rule] = (),
        *,
        inference: str | Engine | None = "auto",
        prior: Prior | None = None,
        tempering: float | Literal["auto"] = "auto",
        scaling: ScalingKind = "standard",
        steps: int | None = None,
        batch_size: int | None = None,
        points: int = 64,
        rejection: float | None = None,
        draws: int = 500,
        prove: bool | float = False,
        enforce: Enforce = "auto",
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
    # numbers of the rows with a weight above 0, where some have weight 0
    _counted: np.ndarray | None = None

    def _defaults(self) -> dict[str, Any]:
        """What is used for parameters that are None."""
        return {"network": NETWORK, "inference": MIXED, "prior": PRIOR}

    def _budget(self, rows: int) -> int | None:
        """Number of training steps for ``rows`` rows; None is the default of the engine."""
        return self.steps

    def _raw_draws(self, task: Task) -> int | None:
        """How many raw draws are judged; None is the default. Moving a draw costs most.

        Sequences cost more to check than rows, and their networks more memory.
        """
        dear = task.projects or task.columns.layout is not None
        return max(FEW_DRAWS, self.draws) if dear and task.engine.endless else None

    def _learn(
        self,
        X: Any,
        targets: Any,
        sample_weight: Any,
        likelihood: Likelihood,
        outputs: Sequence[str] | None,
        layout: Layout | None = None,
        censored: Any = None,
        upper: Any = None,
        *,
        kept: Checkpoints,
    ) -> Task:
        """Fit, and set the attributes that all estimators share; returns the task that was trained.

        Invalid data, rules or parameters raise before training. ``targets`` are numbers, ``outputs`` the
        names of their columns; ``layout`` describes the rows of ``X`` where they are sequences;
        ``censored`` and ``upper`` are those of `PRBNNRegressor.fit`; ``kept`` are the checkpoints.
        """
        seed = seed_of(self.random_state)
        if self.random_state is None:
            seed = kept.seed(seed)
        tempering = 1.0 if self.tempering == AUTO else self.tempering
        if isinstance(tempering, str):
            raise ValueError(f"tempering is 'auto' or a number above 0, got {self.tempering!r}")
        check_count(
            steps=self.steps, draws=self.draws, points=self.points, batch_size=self.batch_size
        )
        settings = self._settings(
            likelihood,
            seed,
            rows=np.asarray(targets).shape[0],
            exact=censored is None and layout is None,
        )

        def prepared(engine: Engine, enforce: Enforce) -> Task:
            return prepare(
                settings.network,
                X,
                targets,
                () if self.knowledge is None else self.knowledge,
                inference=engine,
                likelihood=likelihood,
                prior=settings.prior,
                tempering=tempering,
                scaling=self.scaling,
                points=self.points,
                rejection=self.rejection,
                sample_weight=sample_weight,
                columns=None if layout is None else layout.inputs,
                outputs=outputs,
                seed=seed,
                layout=layout,
                enforce=enforce,
                categories=() if self.categories is None else self.categories,
                censored=censored,
                upper=upper,
            )

        task = prepared(settings.inference, self.enforce)
        budget, raw_draws = self._budget(len(task.columns.rows)), self._raw_draws(task)
        settings_kept = ("scaling", "steps", "batch_size", "points", "rejection", "draws", "prove")
        stated = {name: getattr(self, name) for name in (*settings_kept, "enforce", "tempering")}
        kept.claim(identity_of(task, seed, stated | {"budget": budget, "raw draws": raw_draws}))
        with progress_bar(self.verbose) as report:
            if kept.stage:
                report.stage(f"going on from a checkpoint ({kept.stage})")
            places, others = kept, self._other_ways(settings.inference)
            while True:
                solution = self._trained(task, seed, report, places)
                report.stage("checking draws")
                final = not (others and task.projects)
                least = LEAST_ACCEPTANCE if final else LEAST_MOVED
                stored = self._stored(solution, places, least)
                if final or stored.result.status != "acceptance too low":
                    break
                engine, enforce = others.pop(0)
                report.stage(f"few draws could be moved: fitting again by {engine.name}")
                settings = replace(settings, inference=engine)
                task, places, kept.closed = prepared(engine, enforce), Checkpoints(), True
            self._store(solution, stored)
            self._store_columns(task.columns, from_frame=is_named(X))
        self.settings_, self.environment_ = settings, environment()
        self._audit, self._counted = None, None
        if sample_weight is not None:
            rows = np.size(np.asarray(sample_weight))
            self._counted = np.flatnonzero(read_weights(sample_weight, rows) > 0)
        kept.ended = solution.result.status != "interrupted"
        return task

    def _other_ways(self, engine: Engine) -> list[tuple[Engine, Enforce]]:
        """Engines, and ways to keep hard rules, where "auto" moves draws of ``engine`` and few can be.

        Rules may leave little room far beyond the data: then limits must be built in, or training must
        lead the posterior there.
        """
        if self.enforce != AUTO or self.prove:
            return []
        usual: Engine = self._used("inference") if self.inference == AUTO else engine
        again: list[tuple[Engine, Enforce]] = [(usual, AUTO)] if usual != engine else []
        return [*again, (usual, "pressure")]

    def _trained(self, task: Task, seed: int, report: Any, kept: Checkpoints) -> Solution:
        """Choose the tempering, if that is left to the data, train, and prove, if that is asked for."""
        budget = self._budget(len(task.columns.rows))
        self.tempering_choice_ = None
        if isinstance(self.tempering, str) and task.engine.races:
            report.stage("choosing the tempering")
            self.tempering_choice_ = tempering_chosen(
                task.engine, task.problem, task.data, seed, budget, kept
            )
            task = task.tempered(self.tempering_choice_.value)
        report.stage("compiling")
        solution = train(
            task,
            budget,
            batch_size=self.batch_size,
            draws=self._raw_draws(task),
            progress=report.update,
            seed=seed,
            kept=kept,
        )
        if not self.prove or solution.result.status in ("diverged", "infeasible", "interrupted"):
            return solution
        return prove(
            solution,
            self.draws,
            SECONDS if self.prove is True else float(self.prove),
            batch_size=self.batch_size,
            progress=report.update,
            stage=report.stage,
        )

    def _stored(self, solution: Solution, kept: Checkpoints, least: float) -> Stored:
        """The draws that obey, at ``least`` that fraction of them; raises where the fit failed."""
        if solution.result.status == "diverged":
            raise DivergedError(str(solution.result), solution)
        if solution.result.status == "infeasible":
            raise InfeasibleError(str(solution.result), solution.result.rules, solution)
        stored = stored_draws(solution, self.draws, kept, least)
        if stored.result.status == "infeasible":
            raise InfeasibleError(str(stored.result), stored.result.rules, solution)
        return stored

    @property
    def audit_(self) -> Audit:
        """Training rows that break a rule by more than noise explains (computed on first access).

        The noise is the one that was stated, or else estimated from the rows; rows count from 0.
        """
        if not hasattr(self, "solution_"):
            raise AttributeError("audit_ is available after fit")
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

    def _settings(self, likelihood: Likelihood, seed: int, *, rows: int, exact: bool) -> Settings:
        """A copy of the parameters, since a user may set others after the fit, and what they stand for.

        ``rows`` and ``exact`` are those of `automatic`.
        """
        given = self.get_params(deep=False)
        if isinstance(self.knowledge, list):
            given["knowledge"] = list(self.knowledge)
        network, inference, prior = map(self._used, ("network", "inference", "prior"))
        if isinstance(self.inference, str) and self.inference == AUTO:
            rules = () if self.knowledge is None else self.knowledge
            inference = automatic(
                network,
                likelihood,
                rules,
                rows=rows,
                exact=exact,
                enforce=self.enforce,
                otherwise=inference,
            )
        return Settings(given, network, inference, likelihood, prior, seed)

    def _store(self, solution: Solution, stored: Stored) -> None:
        """Set what was learned."""
        self.solution_, self.result_ = solution, stored.result
        self.raw_posterior_, self.posterior_ = solution.posterior, stored.posterior
        self.acceptance_, self.knowledge_report_ = stored.acceptance, stored.report
        self.certificate_ = None if solution.proof is None else solution.proof.certificate
        self.tempering_, self.history_ = solution.tempering, solution.history

    def _store_columns(self, columns: Columns, *, from_frame: bool) -> None:
        """Set scikit-learn's attributes; ``from_frame`` says whether the inputs had names."""
        self.n_features_in_ = len(columns.inputs)
        self.output_names_ = columns.outputs
        if from_frame:
            self.feature_names_in_ = np.array(columns.inputs, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def certify(
        self, seconds: float = 60.0, *, rows: int | None = ROWS, raw: bool = False
    ) -> Certificate:
        """Decide for each rule and stored draw whether the rule holds on the set that `region` names.

        Each is proved, refuted with a counterexample, or undecided after ``seconds``; ``rows`` is the
        number of training rows at which columns that a rule does not name are held (None is all of
        them), see `prbnn.certify.certify`. With ``raw=True`` the draws are raw: none moved or rejected,
        and `RuleCertificate.chance_of_breaking` then bounds the probability that a drawn function breaks
        a rule.
        """
        check_is_fitted(self, "posterior_")
        draws = self.raw_posterior_ if raw else self.posterior_
        return certify(draws, list(self.solution_.rules), seconds, rows=rows)

    def save(self, path: str | os.PathLike, *, data: bool = True) -> None:
        """Write the fitted model to the file ``path``, for `prbnn.load`.

        The file holds the training rows, since rules are checked between them; ``data=False`` leaves
        them out.
        """
        check_is_fitted(self, "settings_")
        write_whole(path, content_of(self, data=data))

    def _saved(self) -> SavedModel:
        """What a file keeps of the fitted estimator."""
        return SavedModel(
            estimator=type(self).__name__,
            settings=self.settings_,
            posterior=self.posterior_,
            raw_posterior=self.raw_posterior_,
            solution=self.solution_,
            result=self.result_,
            acceptance=self.acceptance_,
            tempering=self.tempering_,
            tempering_choice=self.tempering_choice_,
            knowledge_report=self.knowledge_report_,
            certificate=self.certificate_,
            audit=self.audit_,
            from_frame=hasattr(self, "feature_names_in_"),
            environment=self.environment_,
            noise=getattr(self, "noise_", None),
            classes=getattr(self, "classes_", None),
        )

    def _restore(self, saved: SavedModel) -> None:
        """Set what was learned as it was when the model was saved."""
        self.settings_, self.environment_ = saved.settings, saved.environment
        self.posterior_, self.raw_posterior_ = saved.posterior, saved.raw_posterior
        self.solution_, self.history_ = saved.solution, saved.solution.history
        self.result_, self.acceptance_ = saved.result, saved.acceptance
        self.tempering_, self.tempering_choice_ = saved.tempering, saved.tempering_choice
        self.knowledge_report_, self.certificate_ = saved.knowledge_report, saved.certificate
        self._audit, self._counted = saved.audit, None
        self._store_columns(saved.posterior.columns, from_frame=saved.from_frame)

    def _warn(self) -> None:
        """Warn, at the line that called ``fit``, of what the result says against the fit."""
        if self.result_.status != "converged":
            warnings.warn(str(self.result_), ConvergenceWarning, stacklevel=3)
            return
        for message in self.result_.warnings:
            warnings.warn(message, CollapseWarning, stacklevel=3)

    def _read(self, X: Any) -> np.ndarray:
        """The rows of ``X`` as an array; columns other than those of the fit raise."""
        check_is_fitted(self, "posterior_")
        values, names = read_inputs(X)
        if is_named(X) and hasattr(self, "feature_names_in_"):
            check_feature_names(names, self.posterior_.columns.inputs)
        if values.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {values.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return values


SHARED = tuple(inspect.signature(Estimator).parameters)


def shared(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a constructor's ``arguments`` that the base class takes."""
    return {name: arguments[name] for name in SHARED if name in arguments}


def content_of(model: Estimator, *, data: bool = True) -> bytes:
    """The content of the file that ``model.save(path, data=data)`` writes."""
    kind = type(model)
    if kind.__module__.partition(".")[0] != "prbnn":
        raise ModelFileError(
            f"{kind.__name__} is a class of your own, which load could not find again; fit "
            f"{kind.__bases__[0].__name__} itself to save it"
        )
    return bytes_of(model._saved(), data=data)
