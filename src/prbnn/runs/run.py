"""A run: fitted from prepared data, saved in a folder, and opened from there again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError
from sklearn.exceptions import ConvergenceWarning

from prbnn.assessment import metrics
from prbnn.data.censoring import Intervals
from prbnn.data.encoding import Encoding
from prbnn.errors import CollapseWarning, DataError, ModelFileError
from prbnn.estimators.automatic import NETWORK
from prbnn.estimators.classifier import PRBNNClassifier
from prbnn.estimators.estimator import content_of
from prbnn.estimators.loading import restore
from prbnn.estimators.regressor import PRBNNRegressor
from prbnn.fitting.checkpoints import EVERY, Lasting
from prbnn.model.likelihoods import Gaussian
from prbnn.model.networks import MLP
from prbnn.rules.file.knowledge_file import write_knowledge
from prbnn.runs.belonging import (
    RUN,
    SCHEMA,
    certificate_bytes,
    changed_rules,
    hash_of,
    read_run,
    texts_of,
)
from prbnn.runs.folder import (
    CERTIFICATE,
    MODEL,
    PLAIN,
    RECORD,
    ROWS,
    RULES,
    recover,
    replace_run,
)
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import Prepared, RunTable
from prbnn.runs.records import record_bytes
from prbnn.system.container import parse_content
from prbnn.system.disk import locked, write_whole

BAND = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Run(RunTable):
    """Fitted models with their data, as a folder keeps them.

    - `model`, `plain`: the fitted estimators with and without knowledge; `plain` is None if not fitted
    - `folder`: where the run was opened, None for a new one
    - `identity`: hash of the model's file, by which other files of the run refer to it
    """

    model: Any
    plain: Any | None
    folder: Path | None = None
    identity: str | None = None

    def scored_rows(self) -> tuple[np.ndarray, np.ndarray, str]:
        """Inputs and targets of the rows that score the model, and which: "held-out" or "training".

        Censored rows have no error, and are left out.
        """
        held = self.held_out & self.exact
        if held.any():
            return self.inputs[held], self.targets[held], "held-out"
        return self.inputs[self.exact], self.targets[self.exact], "training"

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """Errors of the model and of the plain one on held-out rows (training rows if there are none)."""
        inputs, targets, _ = self.scored_rows()
        models = {"model": self.model} | ({} if self.plain is None else {"plain": self.plain})
        table = self.frame(inputs)
        return {name: _scores(model, table, targets) for name, model in models.items()}

    @property
    def is_unfinished(self) -> bool:
        """Whether the fit of a model was interrupted; such a plain network is left out."""
        lacks = self.plan.plain and bool(self.model.knowledge) and self.plain is None
        return lacks or self.model.result_.status == "interrupted"

    def save(self, folder: Path, held: bool = False) -> None:
        """Write models, rows, rules and the record to ``folder``, in place of an earlier run there.

        ``held`` says that the caller has locked the folder (`prbnn.system.disk.locked`) already.
        """
        contents = self._contents(folder)
        with nullcontext() if held else locked(folder):
            replace_run(folder, contents)

    def _contents(self, folder: Path) -> dict[str, bytes]:
        """The content of every file by name; the record has the hash of each, the others the model's."""
        models = {MODEL: self.model} | ({} if self.plain is None else {PLAIN: self.plain})
        contents = {name: content_of(model) for name, model in models.items()}
        identity = hash_of(contents[MODEL])
        targets = self.targets
        if self.is_classes:
            targets = np.searchsorted(self.model.classes_, targets).astype(np.int64)
        rows = {"inputs": self.inputs, "targets": targets, "held_out": self.held_out}
        if self.intervals is not None:
            rows |= {"low": self.intervals.low, "high": self.intervals.high}
        arrays = {name: np.ascontiguousarray(part) for name, part in rows.items()}
        contents[ROWS] = safetensors.numpy.save({**arrays, "rows": self.rows}, {RUN: identity})
        rules = write_knowledge(list(self.model.knowledge), dict(self.units))
        contents[RULES] = f"# of the run {identity}\n{rules}".encode()
        record = {
            "schema": SCHEMA,
            RUN: identity,
            "files": {name: hash_of(content) for name, content in contents.items()},
            "plan": self.plan.to_plain(),
            "command": self.plan.command(str(folder)),
            "encoding": self.encoding.to_plain(),
            "units": dict(self.units),
            "notes": list(self.notes),
            "data_sha256": self.fingerprint,
            "result": str(self.model.result_),
            "seed": self.model.settings_.seed,
            "environment": self.model.environment_,
            "scores": self.scores,
        }
        if self.model.certificate_ is not None:
            contents[CERTIFICATE] = certificate_bytes(self.model.certificate_, identity)
        return {**contents, RECORD: record_bytes(record)}


def _scores(model: Any, table: Any, targets: np.ndarray) -> dict[str, float]:
    """Accuracy and log loss of a classifier; RMSE, CRPS and coverage of the 90 % band of a regressor."""
    if hasattr(model, "classes_"):
        probability = model.predict_proba(table)
        place = np.searchsorted(model.classes_, targets)
        of_truth = probability[np.arange(len(place)), place]
        return {
            "accuracy": float(np.mean(np.argmax(probability, axis=1) == place)),
            "log_loss": float(-np.mean(np.log(np.maximum(of_truth, 1e-300)))),
        }
    if not len(targets):
        return {}
    low, high = model.predict_quantiles(table, BAND)
    mean = model.predict(table)
    return {
        "rmse": metrics.rmse(targets, mean),
        "crps": metrics.crps(targets, model.sample(table)),
        "coverage90": metrics.coverage(targets, low, high),
    }


def fit_run(
    prepared: Prepared,
    say: Callable[[str], None],
    verbose: bool | None = None,
    kept: Path | None = None,
    every: float = EVERY,
) -> Run:
    """Fit the network with its rules, and the plain one without them.

    ``say`` is called with what begins; ``verbose`` is that of the estimators. ``kept`` is a folder in
    which checkpoints are kept ``every`` so many seconds, and from which the fit goes on. The results of
    the models say whether they converged, and what to beware of.
    """
    plan, train = prepared.plan, ~prepared.held_out
    table, targets = prepared.frame(prepared.inputs[train]), prepared.targets[train]
    if prepared.is_classes and len(np.unique(targets)) < 2:
        raise DataError(
            f"every row has the class {targets[0]!r} in {plan.target!r}; nothing to learn",
            plan.target,
        )

    cut: dict[str, Any] = {}
    if prepared.intervals is not None:
        cut = dict(zip(("censored", "upper"), prepared.intervals.take(train).words(), strict=True))

    def one(name: str, rules: tuple, beside: Any = None) -> Any:
        model = _estimator(prepared, rules, beside, verbose)
        options: dict[str, Any] = dict(cut)
        if kept is not None:
            options |= {"checkpoint": Lasting(kept / name), "checkpoint_every": every}
        with warnings.catch_warnings():
            # what these say is in the result, which commands and reports show
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", CollapseWarning)
            return model.fit(table, _target_column(targets, plan.target), **options)

    say("fitting with knowledge" if prepared.rules else "fitting")
    model = _once(MODEL, kept, lambda: one("model", prepared.rules))
    stopped = model.result_.status == "interrupted"
    plain, notes = None, prepared.notes
    if plan.plain and prepared.rules and not stopped:
        say("fitting the plain network without rules")
        plain = _once(PLAIN, kept, lambda: one("plain", (), model))
        if plain.result_.status == "interrupted":
            plain = None
            notes = (*notes, "the plain network was interrupted, and is left out")
    data: dict[str, Any] = {part.name: getattr(prepared, part.name) for part in fields(RunTable)}
    data["notes"] = notes
    return Run(**data, model=model, plain=plain)


def _once(name: str, kept: Path | None, fitted: Callable[[], Any]) -> Any:
    """A model ``fitted``, or read from the folder ``kept`` where it is done there."""
    if kept is None:
        return fitted()
    path = kept / name
    # the checkpoints are there, too, if this file is damaged
    with suppress(FileNotFoundError, ModelFileError):
        return restore(path, *parse_content(path, path.read_bytes()))
    model = fitted()
    if model.result_.status != "interrupted":
        # on a full disk the checkpoints must do
        with suppress(OSError):
            write_whole(path, content_of(model))
    return model


def _target_column(targets: np.ndarray, name: str) -> Any:
    import pandas as pd

    return targets if targets.dtype.kind != "f" else pd.DataFrame({name: targets})


def _estimator(prepared: Prepared, rules: tuple, beside: Any, verbose: bool | None) -> Any:
    """The estimator of a plan, or one that differs from the fitted model ``beside`` it in rules only.

    That has the same engine and tempering, which was chosen without rules.
    """
    plan = prepared.plan
    network = None if plan.hidden is None else MLP(plan.hidden, NETWORK.activation)
    options: dict[str, Any] = {
        "inference": plan.engine if beside is None else beside.settings_.inference,
        "tempering": "auto" if beside is None else beside.tempering_,
        "steps": plan.steps,
        "draws": plan.draws,
        "prove": plan.prove and bool(rules),
        "categories": prepared.categories,
        "random_state": plan.seed,
        "verbose": verbose,
    }
    if prepared.is_classes:
        return PRBNNClassifier(network, list(rules), **options)
    noise: Any = plan.noise if plan.noise in ("learned", "by input") else float(plan.noise)
    if plan.window is None:
        return PRBNNRegressor(network, list(rules), noise=noise, **options)
    likelihood = Gaussian(noise, truncated=plan.window)
    return PRBNNRegressor(network, list(rules), likelihood=likelihood, **options)


def open_run(folder: Path) -> Run:
    """The run that was saved in ``folder``; damaged files, or files of different runs, raise."""
    folder = Path(folder)
    recover(folder)
    record, contents = read_run(folder)
    models = {
        name: restore(folder / name, *parse_content(folder / name, contents[name]))
        for name in (MODEL, PLAIN)
        if name in contents
    }
    model = models[MODEL]
    try:
        plan, encoding = RunPlan.from_plain(record["plan"]), Encoding.from_plain(record["encoding"])
        rows = _rows(safetensors.numpy.load(contents[ROWS]), encoding, model)
        return Run(
            plan,
            encoding,
            **rows,
            model=model,
            plain=models.get(PLAIN),
            units=texts_of(record["units"], dict),
            notes=(*texts_of(record["notes"], list), *changed_rules(record, contents)),
            fingerprint=str(record["data_sha256"]),
            folder=folder,
            identity=hash_of(contents[MODEL]),
        )
    except (SafetensorError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataError(f"the run in {folder} is damaged ({error}); fit again") from None


def _rows(found: dict[str, np.ndarray], encoding: Encoding, model: Any) -> dict[str, Any]:
    """The arrays of a run, checked against the inputs of its ``encoding`` and its ``model``."""
    known = model.posterior_.columns.inputs
    if encoding.inputs != known:
        raise ValueError(f"{RECORD} has the inputs {encoding.inputs}, {MODEL} has {known}")
    parts: dict[str, Any] = {
        name: found[name] for name in ("inputs", "targets", "held_out", "rows")
    }
    count = len(parts["rows"])
    wanted = {"inputs": ((count, len(known)), "f"), "targets": ((count,), "fi")}
    wanted |= {"held_out": ((count,), "b"), "rows": ((count,), "i")}
    if "low" in found:
        parts |= {name: found[name] for name in ("low", "high")}
        wanted |= {name: ((count, 1), "f") for name in ("low", "high")}
    for name, (shape, kinds) in wanted.items():
        if parts[name].shape != shape or parts[name].dtype.kind not in kinds:
            held = f"{parts[name].dtype} of shape {parts[name].shape}"
            raise ValueError(f"{ROWS}: {name!r} needs the shape {shape}, and is {held}")
    if hasattr(model, "classes_"):
        parts["targets"] = model.classes_[parts["targets"]]
    if "low" in parts:
        parts["intervals"] = Intervals(parts.pop("low"), parts.pop("high"))
    return parts
