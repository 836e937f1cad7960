"""What a checkpoint belongs to: a fit's data, rules, network, engine, settings, seed and versions.

Each is a short text, or a hash where it is long, so that a difference can be named.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import jax.numpy as jnp

from prbnn.certify.fingerprints import described
from prbnn.fitting.task import Task
from prbnn.rules.base import Rule

HASH = "sha256:"
SEED = "seed"
# texts that are longer are hashed
LONGEST = 160


def identity_of(task: Task, seed: int, settings: Mapping[str, Any]) -> dict[str, str]:
    """What the checkpoints of a fit belong to; ``task`` is as it was prepared.

    ``settings`` are those that the task does not hold.
    """
    columns, problem = task.columns, task.problem
    table = (columns.rows, columns.targets, task.weight, tuple(task.data))
    names = (columns.inputs, columns.outputs, columns.layout, columns.categories)
    network = (problem.network, problem.start, problem.prior_mean, problem.prior_sd)
    points = (problem.points_width, problem.searched, problem.every)
    held = (task.projects, points, [rule.label for rule in task.rules])
    return {
        "data": _hash(table, names),
        **{f"rule {rule.label!r}": _hash(rule, _captured(rule)) for rule in task.knowledge},
        "network": _hash(network),
        "likelihood": _text(problem.likelihood),
        "scaling": _hash(vars(task.scaling)),
        "tempering": _text(task.tempering),
        "engine": _text(task.engine),
        "how rules are kept": _hash(held, task.enforcement),
        SEED: _text(seed),
        **{name: _text(value) for name, value in settings.items()},
        "precision": jnp.zeros(()).dtype.name,
        **{name: version(name) for name in ("prbnn", "jax", "jaxlib", "numpy")},
    }


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """What differs between a fit and the one that its checkpoints belong to, in words."""
    found = []
    for name in dict.fromkeys((*here, *there)):
        now, before = here.get(name), there.get(name)
        if now == before:
            continue
        if now is None or before is None:
            found.append(f"{name} is {'not stated here' if now is None else 'new'}")
        elif now.startswith(HASH) or before.startswith(HASH):
            found.append(f"{name} differs")
        else:
            found.append(f"{name} is {now} here and {before} there")
    return found


def _text(value: Any) -> str:
    """A value that is short in words, or its hash."""
    plain = value is None or isinstance(value, bool | int | float | str)
    if plain or dataclasses.is_dataclass(value):
        text = repr(value)
        # the default form of an object has its address
        if len(text) <= LONGEST and " at 0x" not in text:
            return text
    return _hash(value)


def _hash(*values: Any) -> str:
    return HASH + hashlib.sha256(described(values).encode()).hexdigest()


def _captured(rule: Rule) -> list[Any]:
    """What functions in a rule hold beside their code: variables around them, and defaults."""
    found: list[Any] = []
    for field in dataclasses.fields(rule):
        function = getattr(rule, field.name)
        found.append(getattr(function, "__defaults__", None))
        cells = getattr(function, "__closure__", None) or ()
        found.append([cell.cell_contents for cell in cells])
    return found
