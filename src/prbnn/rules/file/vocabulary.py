"""The words of the knowledge file: numbers, formulas, names, steps and regions, each checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, PlainValidator, with_config
from typing_extensions import TypeAliasType, TypedDict

from prbnn.errors import is_number, shortened
from prbnn.rules.expressions import ExpressionError, parse
from prbnn.rules.regions import Box, Where, region


def _got(value: object) -> str:
    return "nothing" if value is None else shortened(value)


def _finite(value: Any) -> bool:
    try:
        return is_number(value) and math.isfinite(float(value))
    except OverflowError:
        return False


def _number(value: Any) -> float:
    if isinstance(value, str):
        # many YAML readers leave 1e4 as text
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"needs a number, got the text {shortened(value)}") from None
    if not _finite(value):
        raise ValueError(f"needs a finite number, got {_got(value)}")
    return value


def _number_or_pair(value: Any) -> float | tuple[float, float]:
    if not isinstance(value, list | tuple):
        return _number(value)
    if len(value) != 2:
        raise ValueError(f"needs a number or a pair [low, high], got {_got(value)}")
    return _number(value[0]), _number(value[1])


def _formula(value: Any) -> float | str:
    if not isinstance(value, str):
        if not _finite(value):
            raise ValueError(f"needs a number or text in the column names, got {_got(value)}")
        return value
    try:
        parse(value)
    except ExpressionError as error:
        raise ValueError(str(error)) from None
    return value


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    quotes = "; write it in quotes" if is_number(value) or isinstance(value, bool) else ""
    raise ValueError(f"needs text, got {_got(value)}{quotes}")


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"needs a whole number, got {_got(value)}")


def _steps(value: Any) -> int | str | list[int]:
    several = isinstance(value, list | tuple) and value
    try:
        if isinstance(value, str) and value in ("first", "last"):
            return value
        return [_whole(step) for step in value] if several else _whole(value)
    except ValueError:
        raise ValueError(
            f"is first, last, a step or a list of steps such as [1, 2], got {_got(value)}"
        ) from None


def _place(value: Any) -> Where:
    if isinstance(value, list | tuple) and value:
        return [_place(part) for part in value]
    if not isinstance(value, Mapping):
        raise ValueError(
            "names columns and their ranges, such as {x: [0, 1], flag: 1}, or is a list of such; "
            f"got {_got(value)}"
        )
    # a column may be called box, too, but a range is never a mapping
    if set(value) == {"box"} and isinstance(value["box"], Mapping):
        return Box(_ranges(value["box"]))
    ranges = _ranges(value)
    region(ranges)
    return ranges


def _ranges(value: Mapping[Any, Any]) -> dict[str, Any]:
    ranges = {}
    for column, ends in value.items():
        pair = isinstance(ends, list | tuple)
        try:
            ranges[_text(column)] = [_number(end) for end in ends] if pair else _number(ends)
        except ValueError:
            raise ValueError(
                f"the range of {column!r} is a number or [low, high], got {_got(ends)}"
            ) from None
    return ranges


# named, so that the schema says them once
Ranges = TypeAliasType("Ranges", dict[str, float | tuple[float, float]])


@with_config(ConfigDict(extra="forbid"))
class FullBox(TypedDict):
    """The full product of all columns' ranges: the named ones as given, the others as seen."""

    box: Ranges


Region = TypeAliasType("Region", Ranges | FullBox | list[Ranges | FullBox])

Number = Annotated[float, PlainValidator(_number, json_schema_input_type=float)]
NumberOrPair = Annotated[
    Any, PlainValidator(_number_or_pair, json_schema_input_type=float | tuple[float, float])
]
Formula = Annotated[Any, PlainValidator(_formula, json_schema_input_type=float | str)]
Text = Annotated[str, PlainValidator(_text, json_schema_input_type=str)]
Whole = Annotated[int, PlainValidator(_whole, json_schema_input_type=int)]
Steps = Annotated[
    Any, PlainValidator(_steps, json_schema_input_type=Literal["first", "last"] | int | list[int])
]
Place = Annotated[Any, PlainValidator(_place, json_schema_input_type=Region)]
