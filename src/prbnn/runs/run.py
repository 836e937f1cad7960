"""Fitting what was prepared, keeping it in a folder, and opening that folder again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from prbnn.errors import DataError
from prbnn.knowledge.file import write_knowledge
from prbnn.report import metrics
from prbnn.runs.plan import Plan
from prbnn.runs.preparing import Prepared
from prbnn.runs.records import write_record
from prbnn.tables.encoding import Encoding

SCHEMA = 1
MODEL, PLAIN, RECORD, ROWS, RULES, PAGE = (
    "model.prbnn",
    "plain.prbnn",
    "run.json",
    "rows.safetensors",
    "knowledge.yaml",
    "report.html",
)
CERTIFICATE = "certificate.json"
BAND = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Run:
    """Fitted models with the table they were made from; `plain` has no knowledge, and `rows` are the
    numbers of the table's rows in its file."""

    plan: Plan
    encoding: Encoding
    model: Any
    plain: Any | None
    inputs: np.ndarray
    targets: np.ndarray
    held_out: np.ndarray
    rows: np.ndarray
    units: Mapping[str, str]
    notes: tuple[str, ...]
    fingerprint: str
    folder: Path | None = None

    @property
    def is_classes(self) -> bool:
        """Whether the target is a class."""
        return hasattr(self.model, "classes_")

    def judged(self) -> tuple[np.ndarray, np.ndarray, str]:
        """Inputs and targets that judge the model, and which they are."""
        if self.held_out.any():
            return self.inputs[self.held_out], self.targets[self.held_out], "held-out"
        return self.inputs, self.targets, "training"

    def numbers(self, values: np.ndarray) -> Any:
        """Inputs as the model was fitted with: a table with names."""
        import pandas as pd

        return pd.DataFrame(values, columns=list(self.encoding.inputs))

    def scores(self) -> dict[str, dict[str, float]]:
        """Errors of the model and of the plain one, on the rows that judge."""
        inputs, targets, _ = self.judged()
        models = {"model": self.model} | ({} if self.plain is None else {"plain": self.plain})
        table = self.numbers(inputs)
        return {name: _scores(model, table, targets) for name, model in models.items()}

    def save(self, folder: Path) -> None:
        """Write models, rows, rules and the record; an earlier run in the folder is replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        # the record comes last and goes first: a folder with one is whole
        for old in (RECORD, PAGE, CERTIFICATE):
            (folder / old).unlink(missing_ok=True)
        self.model.save(folder / MODEL)
        if self.model.certificate_ is not None:
            self.model.certificate_.save(folder / CERTIFICATE)
        if self.plain is None:
            (folder / PLAIN).unlink(missing_ok=True)
        else:
            self.plain.save(folder / PLAIN)
        targets = self.targets
        if self.is_classes:
            targets = np.searchsorted(self.model.classes_, targets).astype(np.int64)
        rows = {"inputs": self.inputs, "targets": targets, "held_out": self.held_out}
        save_file({**rows, "rows": self.rows}, folder / ROWS)
        rules = [rule for rule in self.model.knowledge]
        (folder / RULES).write_text(write_knowledge(rules, dict(self.units)), encoding="utf-8")
        record = {
            "schema": SCHEMA,
            "plan": self.plan.to_plain(),
            "command": self.plan.command(str(folder)),
            "encoding": self.encoding.to_plain(),
            "units": dict(self.units),
            "notes": list(self.notes),
            "data_sha256": self.fingerprint,
            "result": str(self.model.result_),
            "scores": self.scores(),
        }
        write_record(folder / RECORD, record)


def _scores(model: Any, table: Any, targets: np.ndarray) -> dict[str, float]:
    if hasattr(model, "classes_"):
        probability = model.predict_proba(table)
        place = np.searchsorted(model.classes_, targets)
        of_truth = probability[np.arange(len(place)), place]
        return {
            "accuracy": float(np.mean(np.argmax(probability, axis=1) == place)),
            "log_loss": float(-np.mean(np.log(np.maximum(of_truth, 1e-300)))),
        }
    low, high = model.predict_quantiles(table, BAND)
    mean = model.predict(table)
    return {
        "rmse": metrics.rmse(targets, mean),
        "crps": metrics.crps(targets, model.sample(table)),
        "coverage90": metrics.coverage(targets, low, high),
    }


def fit(prepared: Prepared, say: Callable[[str], None], verbose: bool | None = None) -> Run:
    """Fit the network with its rules, and the plain one; fits that did not converge say so later."""
    plan, train = prepared.plan, ~prepared.held_out
    table, targets = prepared.frame(train), prepared.targets[train]
    if prepared.is_classes and len(np.unique(targets)) < 2:
        raise DataError(
            f"every row has the class {targets[0]!r} in {plan.target!r}; nothing to learn"
        )

    def one(rules: tuple, tempering: float | Literal["auto"] = "auto") -> Any:
        model = _estimator(prepared, rules, tempering, verbose)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(table, _target_column(targets, plan.target))

    say("fitting with knowledge" if prepared.rules else "fitting")
    model = one(prepared.rules)
    stopped = model.result_.status == "interrupted"
    plain, notes = None, prepared.notes
    if plan.plain and prepared.rules and not stopped:
        say("fitting the plain network beside it")
        # chosen without rules, so the first choice is the second; and two networks differ in rules alone
        plain = one((), model.tempering_)
        if plain.result_.status == "interrupted":
            plain = None
            notes = (*notes, "the plain network was interrupted, and is left out")
    return Run(
        plan,
        prepared.encoding,
        model,
        plain,
        prepared.inputs,
        prepared.targets,
        prepared.held_out,
        prepared.rows,
        prepared.units,
        notes,
        prepared.fingerprint,
    )


def _target_column(targets: np.ndarray, name: str) -> Any:
    import pandas as pd

    return targets if targets.dtype.kind != "f" else pd.DataFrame({name: targets})


def _estimator(
    prepared: Prepared, rules: tuple, tempering: float | Literal["auto"], verbose: bool | None
) -> Any:
    from prbnn.estimators import PRBNNClassifier, PRBNNRegressor
    from prbnn.model.networks import MLP

    plan = prepared.plan
    network = None if plan.hidden is None else MLP(plan.hidden)
    options: dict[str, Any] = {
        "inference": plan.engine,
        "tempering": tempering,
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
    return PRBNNRegressor(network, list(rules), noise=noise, **options)


def open_run(folder: Path) -> Run:
    """A run as it was saved; a folder that holds none is told."""
    from prbnn.saving.reading import load

    record = read_record(folder)
    model = load(folder / MODEL)
    plain = load(folder / PLAIN) if (folder / PLAIN).exists() else None
    try:
        rows = load_file(folder / ROWS)
        targets = rows["targets"]
        if hasattr(model, "classes_"):
            targets = model.classes_[targets]
        return Run(
            Plan.from_plain(record["plan"]),
            Encoding.from_plain(record["encoding"]),
            model,
            plain,
            rows["inputs"],
            targets,
            rows["held_out"],
            rows["rows"],
            record["units"],
            tuple(record["notes"]),
            record["data_sha256"],
            folder,
        )
    except (SafetensorError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"the run in {folder} is damaged ({error}); fit again") from None


def read_record(folder: Path) -> dict[str, Any]:
    """What `run.json` says."""
    path = folder / RECORD
    lacking = [name for name in (RECORD, MODEL, ROWS) if not (folder / name).exists()]
    if lacking:
        what = "there is no folder" if not folder.is_dir() else f"no {', '.join(lacking)} in"
        raise DataError(
            f"{what} {folder}; a run is made by prbnn fit data.csv --target COLUMN --out {folder}"
        )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        schema = int(record["schema"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is damaged; fit again") from None
    if schema > SCHEMA:
        raise DataError(f"{path} was written by a newer prbnn; upgrade with pip install -U prbnn")
    return record
