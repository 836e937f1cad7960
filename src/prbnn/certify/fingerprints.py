"""Hashes that change when anything changes that a proof depends on: draws, network, rules, table.

They are of a description that is the same on every machine and after saving and loading. Functions are
described by their name and bytecode, which may differ between versions of Python; a certificate of such
a rule must then be made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from prbnn.model.weights import by_leaf
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule


def of_draws(posterior: Posterior) -> str:
    """A hash of everything that the draws' functions, units and regions depend on.

    Weights by leaf, the network's structure and fixed arrays, the likelihood and its parameters, the
    scaling, the columns and the training table.
    """
    digest = hashlib.sha256()
    columns = posterior.columns
    parts = [
        posterior.network,
        posterior.likelihood,
        (columns.inputs, columns.outputs, columns.layout, columns.categories),
        vars(posterior.scaling),
    ]
    digest.update("\n".join(map(described, parts)).encode())
    for name, leaf in by_leaf(posterior.network, posterior.draws).items():
        digest.update(f"{name} {described(leaf)}".encode())
    digest.update(described(np.asarray(posterior.likelihood_parameters)).encode())
    digest.update(_of_columns(columns).encode())
    return digest.hexdigest()


def of_rule(rule: Rule, region: str, tolerance: float) -> str:
    """A hash of a rule with its strength, and of a verdict's region (in words) and tolerance."""
    fields = {f.name: getattr(rule, f.name) for f in dataclasses.fields(rule)}
    # `because` does not change what the rule says; a rule is found by its label
    fields.pop("because", None)
    fields["name"] = rule.label
    said = (type(rule).__qualname__, fields, region, float(tolerance))
    return hashlib.sha256(described(said).encode()).hexdigest()


def of_tables(tables: Sequence[np.ndarray]) -> str:
    """A checksum of the tables' numbers and shapes, the same on every machine."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update(str(table.shape).encode())
        digest.update(np.ascontiguousarray(table, "<f8").tobytes())
    return digest.hexdigest()


def of_weights_alone(posterior: Posterior) -> str:
    """The hash that certificates of schema 1 hold: weights, names and units, and no rules."""
    digest = hashlib.sha256()
    digest.update(repr(type(posterior.network).__name__).encode())
    digest.update(str(getattr(posterior.network, "activation", "")).encode())
    digest.update(repr((posterior.columns.inputs, posterior.columns.outputs)).encode())
    scaling = posterior.scaling
    for part in (
        np.ascontiguousarray(posterior.draws),
        scaling.input_shift,
        scaling.input_scale,
        scaling.output_shift,
        scaling.output_scale,
    ):
        array = np.ascontiguousarray(part)
        digest.update(str((array.dtype.str, array.shape)).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _of_columns(columns: Any) -> str:
    # a saved table without its rows keeps its checksum
    summary = getattr(columns, "summary", None)
    return summary["sha256"] if summary else of_tables((columns.rows, columns.targets))


def described(value: Any) -> str:
    """A value as text, the same for equal values whatever their type of number or sequence."""
    if value is None or isinstance(value, bool | str | bytes):
        return repr(value)
    if isinstance(value, int | float | np.number):
        return repr(float(value))
    if isinstance(value, jax.Array | np.ndarray):
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        pairs = sorted((described(key), described(item)) for key, item in value.items())
        return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(described, value))}]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
        weights = isinstance(value, eqx.Module)
        said = {name: _shape(part) if weights else part for name, part in fields.items()}
        return f"{type(value).__qualname__}({described(said)})"
    return _code(value)


def _shape(part: Any) -> Any:
    """The shape and dtype of a network's weights: their values are those of the draws."""
    return str((part.shape, str(part.dtype))) if eqx.is_inexact_array(part) else part


def _array(array: np.ndarray) -> str:
    kind = array.dtype.newbyteorder("<")
    content = np.ascontiguousarray(array, kind).tobytes()
    return str((kind.str, array.shape, hashlib.sha256(content).hexdigest()))


def _code(value: Any) -> str:
    """A function by its name and bytecode; anything else by its type."""
    name = getattr(value, "__qualname__", type(value).__qualname__)
    code = getattr(value, "__code__", None)
    return f"{name} {_instructions(code)}" if code is not None else str(name)


def _instructions(code: Any) -> str:
    inner = [_instructions(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return hashlib.sha256(f"{code.co_code!r} {code.co_names} {inner}".encode()).hexdigest()
