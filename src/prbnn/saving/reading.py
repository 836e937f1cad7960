"""From the content of a file to a `SavedModel`; it is checked first, and nothing in it is ever run."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prbnn.certify.certificate import Certificate
from prbnn.data.censoring import Intervals
from prbnn.data.columns import Columns
from prbnn.data.layout import Layout
from prbnn.data.scaling import Scaling
from prbnn.errors import CertificateWarning, ModelFileError
from prbnn.fitting.building import build_network
from prbnn.fitting.prepare import Settings
from prbnn.fitting.result import History, Solution
from prbnn.model.construction.builder import construction_of
from prbnn.model.recurrent import over
from prbnn.model.weights import from_leaves, with_buffers
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.saving.declarations import SUPPLIED, from_json, is_supplied
from prbnn.saving.labels import labels_from
from prbnn.saving.outline import Outline, check_summary
from prbnn.saving.saved_model import SavedModel
from prbnn.saving.saved_rules import rules_from_json
from prbnn.saving.shapes import check_declared, check_layout, template
from prbnn.saving.writing import probe
from prbnn.system.container import Record, Tensors

# bytes of raw draws that may repeat stored ones, however small the file is
MOST_REPEATED = 1 << 28
# errors that values of a wrong type or size raise where they are first used
BROKEN = (
    *(TypeError, ValueError, IndexError, AttributeError, AssertionError),
    *(ArithmeticError, RecursionError, MemoryError),
)


@contextmanager
def naming_file(path: str | os.PathLike) -> Generator[None]:
    """Errors inside become a ModelFileError whose message begins with ``path``."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except KeyError as error:
        raise ModelFileError(f"{path}: the file lacks {error}; save the model again") from error
    except BROKEN as error:
        raise ModelFileError(
            f"{path}: the file is inconsistent: {error}; save the model again"
        ) from error


def saved_model(
    record: Record, tensors: Tensors, given: Mapping[str, Any], knowledge: Mapping[str, Rule]
) -> SavedModel:
    """The saved state in a ``record`` and its ``tensors``.

    ``given`` has the parameters that had to be supplied again, ``knowledge`` the rules by their names.
    """
    supplied = _supplied(record["settings"], {**dict.fromkeys(SUPPLIED), **given})
    rules = rules_from_json(record["knowledge"]["rules"], knowledge)
    names = [entry["name"] for entry in record["knowledge"]["rules"]]
    holder = {"none": lambda _: None, "tuple": tuple, "list": list}[record["knowledge"]["holder"]]
    parameters: dict[str, Any] = {
        **{name: from_json(value, supplied) for name, value in record["parameters"].items()},
        "knowledge": holder(rules),
    }
    named = [replace(rule, name=name) for rule, name in zip(rules, names, strict=True)]
    settings = Settings(
        parameters,
        **{name: from_json(record["settings"][name], supplied) for name in SUPPLIED},
        seed=record["settings"]["seed"],
    )
    stored, raw = _posteriors(record, tensors, settings, named)
    if "probe" in tensors:
        _check_probe(tensors["probe"], stored)
    solution = _solution(record, tensors, raw, named)
    learned = ("result", "acceptance", "tempering", "tempering_choice", "knowledge_report")
    noise, classes = from_json(record.get("noise"), {}), record.get("classes")
    return SavedModel(
        estimator=record["estimator"],
        settings=settings,
        posterior=stored,
        raw_posterior=raw,
        solution=solution,
        **{name: from_json(record[name], {}) for name in learned},
        certificate=_certificate(record.get("certificate"), stored, named),
        # files of before audits have none; rows that were kept can be audited again
        audit=from_json(record["audit"], {}) if "audit" in record else None,
        from_frame=bool(record["columns"]["from_frame"]),
        environment=_texts(record.get("environment", record["written_by"])),
        noise=noise if noise is None or isinstance(noise, float) else np.array(noise),
        classes=None if classes is None else labels_from(classes, len(stored.columns.outputs)),
    )


def _texts(plain: Any) -> dict[str, str]:
    """``plain`` if it is texts by name; anything else raises TypeError."""
    if not isinstance(plain, dict) or not all(isinstance(text, str) for text in plain.values()):
        raise TypeError(f"versions and machine must be texts by name, got {plain!r:.80}")
    return plain


def _supplied(settings: Record, given: dict[str, Any]) -> dict[str, Any]:
    """``given``, once it is exactly what the file does not hold; too little or too much raises."""
    for name, value in given.items():
        wanted = is_supplied(settings[name])
        if wanted and value is None:
            raise ModelFileError(
                f"the file cannot hold the code of {name} {settings[name]['was']!r}; supply it again: "
                f"load(path, {name}=...)"
            )
        if value is not None and not wanted:
            raise ModelFileError(f"the file holds its {name}; leave {name}= out")
    return given


def _posteriors(
    record: Record, tensors: Tensors, settings: Settings, rules: list[Rule]
) -> tuple[Posterior, Posterior]:
    """Stored and raw draws; a supplied network is built with the seed of the fit."""
    columns = _columns(record, tensors)
    scaling = _scaling(record["scaling"], len(columns.inputs), len(columns.outputs))
    _check_numbers(tensors, scaling)
    widths = len(columns.inputs), settings.likelihood.network_outputs(len(columns.outputs))
    declared = settings.network
    if columns.layout is not None:
        declared = over(declared, columns.layout)
    # in files of before, only what was asked for was built
    asked = settings.parameters.get("enforce") == "construction"
    if record.get("built", asked) is True:
        declared = construction_of(declared, rules, columns, settings.likelihood)
    found = {name: part.shape[1:] for name, part in _under("draws/network/", tensors).items()}
    fixed = _under("buffers/", tensors)
    if is_supplied(record["settings"]["network"]):
        network = build_network(declared, settings.seed, *widths)
    else:
        check_declared(declared, found, *widths)
        most = sum(map(math.prod, found.values())) + sum(part.size for part in fixed.values())
        network = template(declared, settings.seed, *widths, most)
    network = with_buffers(network, fixed)

    def posterior(prefix: str) -> Posterior:
        draws = from_leaves(network, _under(f"{prefix}/network/", tensors))
        own = tensors[f"{prefix}/likelihood"]
        if own.ndim != 2 or len(own) != len(draws) or own.dtype.kind != "f":
            raise ModelFileError(
                f"tensor '{prefix}/likelihood' has shape {own.shape} and type {own.dtype}"
            )
        return Posterior(network, draws, settings.likelihood, own, scaling, columns)

    stored = posterior("draws")
    if not len(stored):
        raise ModelFileError("the file contains no draws; fit and save again")
    both, places = stored.joined(posterior("raw")), tensors["raw/places"]
    _check_places(places, both.draws)
    return stored, both.take(places)


def _check_places(places: np.ndarray, draws: np.ndarray) -> None:
    """Raise where ``places`` are not positions in ``draws``, or repeat them too often for memory."""
    if places.ndim != 1 or places.dtype.kind != "i":
        raise ModelFileError(f"tensor 'raw/places' is {places.dtype} of shape {places.shape}")
    if np.any((places < 0) | (places >= len(draws))):
        raise ModelFileError(f"tensor 'raw/places' is out of bounds: there are {len(draws)} draws")
    needed = len(places) * draws.itemsize * draws.shape[1]
    if needed > max(MOST_REPEATED, 100 * draws.nbytes):
        raise ModelFileError(
            f"tensor 'raw/places' has {len(places):,} raw draws of {len(draws):,} that are stored, "
            f"which take {needed:,} bytes"
        )


def _scaling(plain: Record, inputs: int, outputs: int) -> Scaling:
    """The scaling in ``plain``, which must have one number per column."""
    numbers: dict[str, Any] = dict(plain)
    kind = numbers.pop("kind")
    parts = {name: np.array(from_json(part, {}), float) for name, part in numbers.items()}
    for name, part in parts.items():
        wide = inputs if name.startswith("input") else outputs
        if part.shape != (wide,):
            raise ModelFileError(f"scaling has {name} of shape {part.shape} for {wide} column(s)")
    return Scaling(**parts, kind=kind)


def _columns(record: Record, tensors: Tensors) -> Columns:
    """The training table, or its outline where the rows were left out."""
    names, data = record["columns"], dict(record["data"])
    inputs, outputs = tuple(names["inputs"]), tuple(names["outputs"])
    layout = from_json(names["layout"], {})
    if not all(isinstance(name, str) for name in (*inputs, *outputs)) or not outputs:
        raise ModelFileError(
            "the file is damaged: column names must be strings and at least one output is needed; save "
            "the model again"
        )
    if layout is not None:
        check_layout(layout, inputs, outputs)
    categories = tuple(_categories(names, data, layout))
    if not data.pop("kept"):
        check_summary(data, len(inputs))
        return Outline(inputs, outputs, layout, categories, data)
    rows, targets = tensors["data/rows"], tensors["data/targets"]
    count = data["count"]
    if rows.shape != (count, len(inputs)) or targets.shape != (count, len(outputs)):
        raise ModelFileError(
            f"{count} rows of {len(inputs)} inputs and {len(outputs)} outputs were kept, but "
            f"'data/rows' has shape {rows.shape} and 'data/targets' {targets.shape}"
        )
    return Columns(inputs, outputs, rows, targets, layout, categories, _intervals(tensors, targets))


def _intervals(tensors: Tensors, targets: np.ndarray) -> Intervals | None:
    """The intervals of censored targets, where the file has any."""
    if "data/low" not in tensors:
        return None
    low, high = tensors["data/low"], tensors["data/high"]
    ordered = low.shape == high.shape == targets.shape and np.all(low <= high)
    if not ordered or not np.all(np.isfinite(low) | np.isfinite(high)):
        raise ModelFileError(
            "'data/low' and 'data/high' must have the shape of 'data/targets', be in order, and be open "
            "at one end at most; save the model again"
        )
    return Intervals(low, high)


def _categories(names: Record, data: Record, layout: Layout | None) -> list[str]:
    """Names of the inputs that take only the values seen.

    Earlier files do not name them: there a column with few values was trained and proved at these values
    only, and the record lists them, so such a column is a category.
    """
    if "categories" in names:
        return list(names["categories"])
    steps = 0 if layout is None else layout.history * len(layout.variables)
    return [
        name
        for place, (name, few) in enumerate(zip(names["inputs"], data["values"], strict=True))
        if few is not None and place >= steps
    ]


def _solution(record: Record, tensors: Tensors, raw: Posterior, rules: list[Rule]) -> Solution:
    training = {name: from_json(part, {}) for name, part in record["training"].items()}
    location, scale = (
        from_leaves(
            raw.network, {k: v[None] for k, v in _under(f"{what}/network/", tensors).items()}
        )[0]
        for what in ("mean", "sd")
    )
    fitted = Archived(training.pop("endless"), training.pop("elbo"))
    return Solution(
        posterior=raw,
        history=History(**_under("history/", tensors)),
        rules=rules,
        tempering=from_json(record["tempering"], {}),
        location=location,
        scale=scale,
        fitted=fitted,
        **training,
    )


def _certificate(
    plain: Record | None, posterior: Posterior, rules: list[Rule]
) -> Certificate | None:
    """The certificate of the stored draws; a warning and None where it is of other draws or rules.

    Files written before there were certificates have none.
    """
    if plain is None:
        return None
    found = Certificate.from_plain(plain)
    why = found.mismatch(posterior, rules)
    if not why:
        return found
    warnings.warn(
        f"the model's certificate is left out, and certificate_ is None: {why}; model.certify() makes "
        "another",
        CertificateWarning,
        stacklevel=5,
    )
    return None


def _check_numbers(tensors: Tensors, scaling: Scaling) -> None:
    """Raise on weights or scalings that are NaN or infinite, naming the tensor."""
    for name, part in tensors.items():
        if name.startswith("buffers/") and name.endswith(".bits"):
            # limits built into a network are saved as bits, and may be infinite
            bad = np.isnan(part.view(f"f{part.dtype.itemsize}"))
        elif name.startswith(("draws/", "raw/")) and part.dtype.kind == "f":
            bad = ~np.isfinite(part)
        else:
            continue
        if bad.any():
            raise ModelFileError(
                f"tensor {name!r} holds {int(bad.sum())} of {bad.size} numbers that are NaN or "
                "infinite, so that the model cannot predict; fit it again"
            )
    for name, part in vars(scaling).items():
        if name == "kind":
            continue
        least = 0.0 if name.endswith("scale") else -np.inf
        if not np.all(np.isfinite(part) & (part > least)):
            raise ModelFileError(
                f"scaling {name!r} must be finite, and above 0 if it is a scale, got {part.tolist()}"
            )


def _check_probe(saved: np.ndarray, posterior: Posterior) -> None:
    """Raise where a supplied network has the same weights as the saved one, but other predictions."""
    scale = posterior.scaling.output_scale
    found = probe(posterior)
    if not np.allclose(found / scale, saved / scale, rtol=1e-3, atol=1e-3):
        raise ModelFileError(
            "the network or likelihood supplied has the weights of the one that was saved, but gives "
            "other predictions; supply the same one"
        )


def _under(prefix: str, tensors: Tensors) -> dict[str, np.ndarray]:
    """The tensors whose names begin with ``prefix``, without it."""
    start = len(prefix)
    return {name[start:]: part for name, part in tensors.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Archived:
    """Takes the place of the engine's state, which a file does not hold: it cannot draw more.

    `known_elbo` is the ELBO if it was computed before saving.
    """

    endless: bool
    known_elbo: float | None

    def draw(self, count: int, number: int) -> Posterior:
        """Raises: the state that draws are made from was not saved."""
        raise ModelFileError(
            "a loaded model has the draws that were saved and no others; fit it again, or save it "
            "with more of them (draws=)"
        )

    def elbo(self, posterior: Posterior) -> float:
        """The ELBO that was computed before the model was saved; raises if it was not."""
        if self.known_elbo is None:
            raise ModelFileError(
                "a loaded model knows its ELBO only if solution_.elbo was asked for before saving"
            )
        return self.known_elbo
