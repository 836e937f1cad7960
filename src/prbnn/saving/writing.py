"""From a fitted estimator to the content of a file: tensors by name, and one record for the rest."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from prbnn.errors import ModelFileError
from prbnn.model.weights import buffers, by_leaf
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.saving.container import Record, sealed
from prbnn.saving.declarations import SUPPLIED, is_supplied, to_json
from prbnn.saving.knowledge import rules_to_json
from prbnn.saving.labels import labels_to
from prbnn.saving.outline import Outline, summary_of

if TYPE_CHECKING:
    from prbnn.estimators.estimator import Estimator

LIBRARIES = ("prbnn", "jax", "equinox", "numpy")
# where a network to be supplied again is tried, in its own units
PROBES = np.linspace(-1.0, 2.0, 7)


def content_of(model: Estimator, *, data: bool = True) -> bytes:
    """All that `prbnn.load` needs to have the model again."""
    kind = type(model)
    if kind.__module__.partition(".")[0] != "prbnn":
        raise ModelFileError(
            f"{kind.__name__} is a class of your own, which load could not find again; fit "
            f"{kind.__bases__[0].__name__} itself to save it"
        )
    tensors = {
        **_draws(model.posterior_, model.raw_posterior_),
        **_moments(model),
        **{f"history/{name}": part for name, part in asdict(model.history_).items()},
    }
    columns = model.posterior_.columns
    kept = data and not isinstance(columns, Outline)
    if kept:
        tensors |= {"data/rows": columns.rows, "data/targets": columns.targets}
    record = _record(model, kept)
    if any(is_supplied(record["settings"][name]) for name in ("network", "likelihood")):
        tensors["probe"] = probe(model.posterior_)
    return sealed(record, tensors)


def probe(posterior: Posterior) -> np.ndarray:
    """The mean prediction at a few inputs: tells a network from another with the same weights."""
    shift, scale = posterior.scaling.input_shift, posterior.scaling.input_scale
    return posterior.predict(shift + PROBES[:, None] * scale).mean


def _draws(stored: Posterior, raw: Posterior) -> dict[str, np.ndarray]:
    """Stored draws; of raw ones only those that are not among them, and where each is to be found."""
    places = {row.tobytes(): place for place, row in reversed([*enumerate(stored.vectors)])}
    found = np.array([places.get(row.tobytes(), -1) for row in raw.vectors], np.int64)
    other = found < 0
    found[other] = len(stored) + np.arange(other.sum())
    return {
        **_leaves("draws", stored),
        **_leaves("raw", raw.take(other)),
        "raw/places": found,
        **{f"buffers/{name}": np.asarray(part) for name, part in buffers(stored.network).items()},
    }


def _leaves(prefix: str, posterior: Posterior) -> dict[str, np.ndarray]:
    named = by_leaf(posterior.network, posterior.draws)
    return {
        **{f"{prefix}/network/{name}": leaf for name, leaf in named.items()},
        f"{prefix}/likelihood": posterior.likelihood_parameters,
    }


def _moments(model: Estimator) -> dict[str, np.ndarray]:
    """Mean and standard deviation of every weight under the raw posterior."""
    solution = model.solution_
    both = np.stack([solution.location, solution.scale])
    named = by_leaf(solution.posterior.network, both)
    return {
        f"{what}/network/{name}": leaf[place]
        for place, what in enumerate(("mean", "sd"))
        for name, leaf in named.items()
    }


def _record(model: Estimator, kept: bool) -> Record:
    posterior, solution, settings = model.posterior_, model.solution_, model.settings_
    given = dict(settings.parameters)
    knowledge = given.pop("knowledge")
    if isinstance(given["random_state"], np.random.RandomState):
        given["random_state"] = settings.seed
    columns = posterior.columns
    return {
        "written_by": _versions(),
        "estimator": type(model).__name__,
        "parameters": {name: to_json(value, name) for name, value in given.items()},
        "knowledge": _knowledge(knowledge, solution.rules),
        "settings": {
            **{name: to_json(getattr(settings, name), name) for name in SUPPLIED},
            "seed": settings.seed,
        },
        "columns": {
            "inputs": list(columns.inputs),
            "outputs": list(columns.outputs),
            "categories": list(columns.categories),
            "layout": to_json(columns.layout, "layout"),
            "from_frame": hasattr(model, "feature_names_in_"),
        },
        "data": {"kept": kept, **summary_of(columns)},
        "scaling": {name: to_json(part, name) for name, part in vars(posterior.scaling).items()},
        "classes": labels_to(getattr(model, "classes_", None)),
        "result": to_json(model.result_, "result"),
        "acceptance": model.acceptance_,
        "certificate": None if model.certificate_ is None else model.certificate_.to_plain(),
        "tempering": to_json(model.tempering_, "tempering"),
        "tempering_choice": to_json(model.tempering_choice_, "tempering_choice"),
        "noise": to_json(getattr(model, "noise_", None), "noise"),
        "knowledge_report": to_json(model.knowledge_report_, "knowledge_report"),
        "audit": to_json(model.audit_, "audit"),
        "training": {
            "result": to_json(solution.result, "result"),
            "duals": to_json(solution.duals, "duals"),
            "elbo": to_json(solution.__dict__.get("elbo"), "elbo"),
            "diagnostics": to_json(solution.diagnostics, "diagnostics"),
            "steps": solution.steps,
            "seconds_compile": solution.seconds_compile,
            "seconds_run": solution.seconds_run,
            "endless": solution.fitted.endless,
        },
    }


def _knowledge(given: Sequence[Rule] | None, fitted: Sequence[Rule]) -> dict[str, Any]:
    """The rules, the names they have in reports, and what held them."""
    holder = {type(None): "none", tuple: "tuple"}.get(type(given), "list")
    names = [rule.label for rule in fitted]
    return {"holder": holder, "rules": rules_to_json(given or (), names)}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = "unknown"
    return found
