"""Options of declarations as parameters of an estimator: ``inference__draws``, ``network__hidden``.

A declaration is a frozen dataclass, so setting one of its options puts a changed copy in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from sklearn.base import BaseEstimator

from prbnn.fitting.prepare import engine_of


class NestedParameters(BaseEstimator):
    """An estimator whose declarations have options that are set as its own parameters are.

    A subclass says in `_defaults` what is used for parameters that are None.
    """

    def _defaults(self) -> dict[str, Any]:
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with ``deep`` also the options of those that are declarations.

        Those are named ``inference__draws``, as scikit-learn names nested parameters.
        """
        found = super().get_params(deep=False)
        return with_nested(found) if deep else found

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters, or options of declarations: ``inference__draws=3``, ``network__hidden=(8,)``.

        Options of a parameter that is None, or an engine by its name, are set in a copy of what is used
        for it.
        """
        whole, nested = split(parameters)
        known = super().get_params(deep=False)
        # unknown names raise in scikit-learn's words
        super().set_params(
            **whole, **{name: known.get(name) for name in nested if name not in whole}
        )
        for name, options in nested.items():
            setattr(self, name, changed(name, self._used(name), options))
        return self

    def _used(self, name: str) -> Any:
        """What is used for the parameter ``name``: a default for None, an engine for its name."""
        given, usual = getattr(self, name), self._defaults()
        found: Any = usual.get(name) if given is None else given
        if name != "inference":
            return found
        # by its name, the usual engine has the options that are usual here; "auto" may be this one
        by_name = isinstance(found, str) and found in ("auto", usual[name].name)
        return engine_of(usual[name] if by_name else found)


def options_of(value: Any) -> dict[str, Any]:
    """The options of a declaration by name; of anything else, none.

    >>> from prbnn import MLP
    >>> options_of(MLP((3,)))
    {'hidden': (3,), 'activation': 'relu'}
    >>> options_of("bbb")
    {}
    """
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}


def with_nested(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """``parameters``, and the options of each that is a declaration, as ``parameter__option``."""
    found = {
        f"{name}__{option}": value
        for name, declared in parameters.items()
        for option, value in options_of(declared).items()
    }
    return {**parameters, **found}


def split(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """``parameters`` by name, and options by the name of the parameter they belong to.

    >>> split({"steps": 3, "inference__draws": 2})
    ({'steps': 3}, {'inference': {'draws': 2}})
    """
    whole: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, value in parameters.items():
        name, mark, option = key.partition("__")
        if mark:
            nested.setdefault(name, {})[option] = value
        else:
            whole[name] = value
    return whole, nested


def changed(name: str, declared: Any, options: Mapping[str, Any]) -> Any:
    """A copy of ``declared``, the parameter ``name``, with other ``options``; unknown ones raise."""
    known = options_of(declared)
    if not known:
        raise ValueError(
            f"{name}={declared!r} has no options to set; give a declaration first, as in "
            f"set_params({name}=...), and then {', '.join(f'{name}__{each}' for each in options)}"
        )
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ValueError(
            f"Invalid parameter {unknown[0]!r} for {name}={declared!r}. Valid parameters are: "
            f"{', '.join(f'{name}__{option}' for option in known)}"
        )
    return replace(declared, **options)
