"""Plain values and declarations as JSON and back: types are found by name in one list, never imported.

What JSON cannot hold (a user's factory, a score) is marked as to be supplied again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from prbnn.assessment.audit import Audit, Finding
from prbnn.assessment.knowledge_report import KnowledgeReport, RuleReport
from prbnn.data.layout import Layout
from prbnn.errors import ModelFileError, nearest
from prbnn.fitting.result import Moves, Result
from prbnn.fitting.tempering import Chosen
from prbnn.inference import ENGINES
from prbnn.model.counts_and_classes import Bernoulli, Categorical, Poisson
from prbnn.model.likelihoods import Gaussian, NoisePrior, StudentT
from prbnn.model.networks import MLP, RBF
from prbnn.model.priors import LayerNormal, Normal
from prbnn.model.recurrent import GRU, LSTM
from prbnn.posterior.diagnostics import Diagnostics

# declarations are hashable, so every sequence in one is a tuple
DECLARATIONS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(MLP, RBF, LSTM, GRU),
        *(Normal, LayerNormal),
        *(Gaussian, StudentT, NoisePrior, Poisson, Bernoulli, Categorical),
        *ENGINES.values(),
        *(Layout, Result, Moves, RuleReport, KnowledgeReport, Audit, Finding, Diagnostics, Chosen),
    )
}
NUMBERS = {np.dtype(kind).name: np.dtype(kind) for kind in "?bhilqBHILQefd"}
SUPPLIED = ("network", "inference", "likelihood", "prior")


def to_json(value: Any, name: str) -> Any:
    """``value`` as JSON; ``name`` is the parameter that has it.

    >>> to_json(MLP(hidden=(8,)), "network")
    {'type': 'MLP', 'hidden': [8], 'activation': 'relu'}
    >>> to_json((1, float("nan")), "levels")
    {'tuple': [1, {'number': 'nan'}]}
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, np.bool_ | np.number) and value.dtype.name in NUMBERS:
        return {"numpy": value.dtype.name, "value": to_json(value.item(), name)}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return [to_json(item, name) for item in value]
    if type(value) is tuple:
        return {"tuple": [to_json(item, name) for item in value]}
    if isinstance(value, dict):
        return {"pairs": [[to_json(k, name), to_json(v, name)] for k, v in value.items()]}
    if DECLARATIONS.get(type(value).__name__) is type(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **{k: _field(v, name) for k, v in fields.items()}}
    if hasattr(value, "tolist"):
        return to_json(value.tolist(), name)
    if name in SUPPLIED:
        return {"supply": name, "was": code_name(value)}
    raise ModelFileError(
        f"parameter {name!r} is of type {type(value).__name__}, which a model file cannot hold; use "
        "plain numbers, text or lists"
    )


def _field(value: Any, name: str) -> Any:
    return [_field(v, name) for v in value] if isinstance(value, tuple) else to_json(value, name)


def code_name(value: Any) -> str:
    """The name of a function, or of an object's class, to recognise it by."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def from_json(plain: Any, supplied: Mapping[str, Any]) -> Any:
    """The value that `to_json` turned into ``plain``; what had to be supplied is in ``supplied``.

    >>> from_json({"type": "RBF", "bumps": 5}, {})
    RBF(bumps=5)
    """
    if isinstance(plain, list):
        return [from_json(item, supplied) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if "type" in plain:
        fields = {k: _hashable(from_json(v, supplied)) for k, v in plain.items() if k != "type"}
        return declared(plain["type"])(**fields)
    if "tuple" in plain:
        return tuple(from_json(plain["tuple"], supplied))
    if "number" in plain:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[plain["number"]]
    if "numpy" in plain:
        return NUMBERS[plain["numpy"]].type(from_json(plain["value"], supplied))
    if "pairs" in plain:
        return dict(from_json(plain["pairs"], supplied))
    return supplied[plain["supply"]]


def is_supplied(plain: Any) -> bool:
    """Whether the value of ``plain`` is not in the file and has to be supplied again."""
    return isinstance(plain, dict) and "supply" in plain


def declared(name: str) -> type:
    """The type of that ``name`` in `DECLARATIONS`; other names raise."""
    if name not in DECLARATIONS:
        raise ModelFileError(
            f"the file asks for a type {name!r} that this version does not know"
            f"{nearest(str(name), tuple(DECLARATIONS))}"
        )
    return DECLARATIONS[name]


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
