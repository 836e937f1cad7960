"""From a `SavedModel` to the content of a file: tensors by name, and one record for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from prbnn.fitting.result import Solution
from prbnn.model.construction.built import Built
from prbnn.model.weights import buffers, by_leaf
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.saving.declarations import SUPPLIED, is_supplied, to_json
from prbnn.saving.labels import labels_to
from prbnn.saving.outline import Outline, summary_of
from prbnn.saving.saved_model import SavedModel
from prbnn.saving.saved_rules import rules_to_json
from prbnn.system.container import Record, sealed
from prbnn.system.environment import LIBRARIES, version_of

# inputs at which a network that must be supplied again is evaluated, in its own units
PROBES = np.linspace(-1.0, 2.0, 7)


def bytes_of(saved: SavedModel, *, data: bool = True) -> bytes:
    """The bytes of a model file; ``data=False`` leaves the training rows out."""
    tensors = {
        **_draws(saved.posterior, saved.raw_posterior),
        **_moments(saved.solution),
        **{f"history/{name}": part for name, part in asdict(saved.solution.history).items()},
    }
    columns = saved.posterior.columns
    kept = data and not isinstance(columns, Outline)
    if kept:
        tensors |= {"data/rows": columns.rows, "data/targets": columns.targets}
        if columns.intervals is not None:
            tensors |= {"data/low": columns.intervals.low, "data/high": columns.intervals.high}
    record = _record(saved, kept)
    if any(is_supplied(record["settings"][name]) for name in ("network", "likelihood")):
        tensors["probe"] = probe(saved.posterior)
    return sealed(record, tensors)


def probe(posterior: Posterior) -> np.ndarray:
    """The mean prediction at a few inputs, which differs between networks with the same weights."""
    shift, scale = posterior.scaling.input_shift, posterior.scaling.input_scale
    return posterior.predict(shift + PROBES[:, None] * scale).mean


def _draws(stored: Posterior, raw: Posterior) -> dict[str, np.ndarray]:
    """Tensors of the stored draws and of the raw draws that are not among them.

    ``raw/places`` is the position of each raw draw in the two together.
    """
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


def _moments(solution: Solution) -> dict[str, np.ndarray]:
    """Mean and standard deviation of every weight under the raw posterior."""
    both = np.stack([solution.location, solution.scale])
    named = by_leaf(solution.posterior.network, both)
    return {
        f"{what}/network/{name}": leaf[place]
        for place, what in enumerate(("mean", "sd"))
        for name, leaf in named.items()
    }


def _record(saved: SavedModel, kept: bool) -> Record:
    """All but the tensors, as JSON; ``kept`` says whether the training rows are among those."""
    posterior, solution, settings = saved.posterior, saved.solution, saved.settings
    given = dict(settings.parameters)
    knowledge = given.pop("knowledge")
    if isinstance(given["random_state"], np.random.RandomState):
        given["random_state"] = settings.seed
    columns = posterior.columns
    return {
        "written_by": {library: version_of(library) for library in LIBRARIES},
        "environment": saved.environment,
        "estimator": saved.estimator,
        "built": isinstance(posterior.network, Built),
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
            "from_frame": saved.from_frame,
        },
        "data": {"kept": kept, **summary_of(columns)},
        "scaling": {name: to_json(part, name) for name, part in vars(posterior.scaling).items()},
        "classes": labels_to(saved.classes),
        "result": to_json(saved.result, "result"),
        "acceptance": saved.acceptance,
        "certificate": None if saved.certificate is None else saved.certificate.to_plain(),
        "tempering": to_json(saved.tempering, "tempering"),
        "tempering_choice": to_json(saved.tempering_choice, "tempering_choice"),
        "noise": to_json(saved.noise, "noise"),
        "knowledge_report": to_json(saved.knowledge_report, "knowledge_report"),
        "audit": to_json(saved.audit, "audit"),
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
    """The rules, their names in reports, and the type of their container."""
    holder = {type(None): "none", tuple: "tuple"}.get(type(given), "list")
    names = [rule.label for rule in fitted]
    return {"holder": holder, "rules": rules_to_json(given or (), names)}
