"""The numbers of a built network: units of the table, and limits rounded to hold in the user's units.

Inside the compiled network a formula is evaluated at an input that was scaled and rounded to float32,
where it may be on the other side of a jump, or far off if it is steep. Predictions are therefore
clipped to the limits at the inputs as they were given, in float64 on the host (`held`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.errors import KnowledgeError
from prbnn.model.construction.builder import INSTEAD, ends_of, output_of, read_end
from prbnn.model.construction.built import Built, Numbers, fixed
from prbnn.rules.base import Rule
from prbnn.rules.evaluation import called
from prbnn.rules.expressions import Expression
from prbnn.rules.regions import Sweep

# width of the smooth corner at a limit, in standard deviations of the target
SOFTNESS = 0.05


def with_numbers(
    network: Built, rules: Sequence[Rule], columns: Columns, scaling: Scaling
) -> Built:
    """The network with the units of a table and the rules' numbers in place."""
    plan = network.plan
    count = len(plan.outputs)
    lower, upper = np.full(count, -np.inf), np.full(count, np.inf)
    reach: dict[str, np.ndarray] = {}
    for rule in rules:
        if rule.label not in plan.met:
            continue
        for end, above in ends_of(rule, columns):
            place = output_of(rule, columns)
            number = read_end(rule, end, columns)
            if isinstance(number, Expression) or callable(number):
                reach[rule.label] = _reach(rule.region, columns)
            elif above:
                upper[place] = min(upper[place], number)
            else:
                lower[place] = max(lower[place], number)
    numbers = Numbers(
        *(fixed(part) for part in (scaling.input_shift, scaling.input_scale)),
        *(fixed(part) for part in (scaling.output_shift, scaling.output_scale)),
        lower=fixed(_inside(lower, scaling, _deployed(), up=True)),
        upper=fixed(_inside(upper, scaling, _deployed(), up=False)),
        softness=fixed(SOFTNESS * scaling.output_sd / scaling.output_scale),
        reach=tuple(fixed(reach[limit.rule]) for limit in plan.limits),
    )
    return eqx.tree_at(lambda built: built.numbers, network, numbers)


def _deployed() -> Any:
    return np.dtype(jnp.asarray(0.0).dtype).type


def held(network: Any, values: np.ndarray, rows: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Drawn values clipped to the limits at the inputs as given.

    - ``values``: (draws, rows, outputs), in network units
    - ``rows``: (rows, inputs), in the user's units

    Converted to the user's units by `Scaling.restore`, the result is within the formulas exactly, as
    float64 computes them at these rows. Values of a network without formulas are returned unchanged.
    """
    if not (isinstance(network, Built) and network.plan.limits):
        return values
    plan, count = network.plan, len(network.plan.outputs)
    lower, upper = np.full((len(rows), count), -np.inf), np.full((len(rows), count), np.inf)
    for limit, reach in zip(plan.limits, network.numbers.reach, strict=True):
        ends = np.asarray(reach.value, np.float64)
        found = _read(limit.formula, np.clip(rows, *ends), plan.inputs)
        if limit.upper:
            upper[:, limit.output] = np.minimum(upper[:, limit.output], found)
        else:
            lower[:, limit.output] = np.maximum(lower[:, limit.output], found)
    least = _inside(lower, scaling, np.float64, up=True)
    # where limits cross, the lower one holds, as in the network
    most = np.maximum(least, _inside(upper, scaling, np.float64, up=False))
    return np.concatenate([np.clip(values[..., :count], least, most), values[..., count:]], axis=-1)


def _read(formula: Any, rows: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    if isinstance(formula, Expression):
        found = formula.evaluate({name: rows[:, names.index(name)] for name in formula.names})
    else:
        found = called(formula, rows, names)
    return np.broadcast_to(np.asarray(found, np.float64).reshape(-1), (len(rows),))


def _inside(limit: np.ndarray, scaling: Scaling, kind: Any, *, up: bool) -> np.ndarray:
    """The limit in network units, as dtype ``kind``, rounded so that it holds after `Scaling.restore`.

    ``up`` rounds upwards (for lower limits), else downwards.
    """
    found = scaling.outputs(limit).astype(kind)
    ahead = kind(np.inf if up else -np.inf)
    # where the shift is large, one step of the restored value is the spacing of the limit itself
    digit = np.nan_to_num(np.spacing(np.abs(limit))) / scaling.output_scale * (1 if up else -1)
    for _ in range(8):
        back = scaling.restore(found)
        wrong = (back < limit) if up else (back > limit)
        found = np.where(wrong, np.nextafter((found + digit).astype(kind), ahead), found)
    return found


def _reach(region: tuple[Sweep, ...], columns: Columns) -> np.ndarray:
    """The hull of the region's boxes, (2, inputs): a formula is evaluated inside it."""
    reach = np.stack([np.full(len(columns.inputs), end) for end in (-np.inf, np.inf)])
    for index, column in enumerate(columns.inputs):
        found = [
            next(((low, high) for name, low, high in box.ranges if name == column), None)
            for box in region
        ]
        ranges = [each for each in found if each is not None]
        if ranges and len(ranges) == len(found):
            reach[:, index] = min(low for low, _ in ranges), max(high for _, high in ranges)
    # rounded outwards, so that no input of the region is clipped
    kind = _deployed()
    near = reach.astype(kind)
    low = np.where(near[0] > reach[0], np.nextafter(near[0], kind(-np.inf)), near[0])
    high = np.where(near[1] < reach[1], np.nextafter(near[1], kind(np.inf)), near[1])
    return np.stack([low, high])


def check_limits(network: Built, rows: np.ndarray, scaling: Scaling) -> None:
    """Raise unless limits at ``rows`` (rows, inputs), in the user's units, have lower <= upper."""
    try:
        ends = jax.vmap(network.limits)(jnp.asarray(scaling.inputs(rows), float))
    except jax.errors.JAXTypeError as error:
        names = sorted({limit.rule for limit in network.plan.limits if callable(limit.formula)})
        raise KnowledgeError(
            f"rule {' or '.join(map(repr, names))}: cannot be met by construction: its callable is "
            "not written with jax.numpy and arithmetic alone; write it so, or as text"
        ) from error
    lower, upper = (np.asarray(end, np.float64) for end in ends)
    wrong = ~(lower <= upper)
    if not wrong.any():
        return
    place, output = np.argwhere(wrong)[0]
    at = ", ".join(
        f"{name}={value:g}" for name, value in zip(network.plan.inputs, rows[place], strict=True)
    )
    name = network.plan.outputs[output]
    low, high = (scaling.restore(end)[place, output] for end in (lower, upper))
    raise KnowledgeError(
        f"limits of {name!r} cannot be met by construction: they would hold everywhere, and at "
        f"{at} the lower one is {low:g} and the upper one {high:g}; loosen one, or {INSTEAD}"
    )
