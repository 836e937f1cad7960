"""The numbers of a built network: units of the table, and limits rounded to hold in the user's units."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from prbnn.errors import KnowledgeError
from prbnn.knowledge.expressions import Expression
from prbnn.knowledge.regions import Columns, Sweep
from prbnn.knowledge.rules import Rule
from prbnn.model.built import Built, Numbers, fixed
from prbnn.model.construction import INSTEAD, ends_of, output_of, read_end
from prbnn.model.scaling import Scaling

# width of the smooth corner at a limit, in standard deviations of the target
SOFTNESS = 0.25


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
        for end, above in ends_of(rule):
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
        lower=fixed(_inside(lower, scaling, up=True)),
        upper=fixed(_inside(upper, scaling, up=False)),
        softness=fixed(SOFTNESS * scaling.output_sd / scaling.output_scale),
        reach=tuple(fixed(reach[limit.rule]) for limit in plan.limits),
    )
    return eqx.tree_at(lambda built: built.numbers, network, numbers)


def _inside(limit: np.ndarray, scaling: Scaling, *, up: bool) -> np.ndarray:
    """The limit in network units, rounded so that it holds in the user's units after rounding back."""
    kind = np.dtype(jnp.asarray(0.0).dtype).type
    found = scaling.outputs(limit).astype(kind)
    ahead = kind(np.inf if up else -np.inf)
    for _ in range(8):
        back = scaling.restore(found)
        wrong = (back < limit) if up else (back > limit)
        found = np.where(wrong, np.nextafter(found, ahead), found)
    return found


def _reach(region: tuple[Sweep, ...], columns: Columns) -> np.ndarray:
    """Where a formula is read, (2, inputs): the hull of the region's boxes."""
    reach = np.stack([np.full(len(columns.inputs), end) for end in (-np.inf, np.inf)])
    for index, column in enumerate(columns.inputs):
        found = [
            next(((low, high) for name, low, high in box.ranges if name == column), None)
            for box in region
        ]
        ranges = [each for each in found if each is not None]
        if ranges and len(ranges) == len(found):
            reach[:, index] = min(low for low, _ in ranges), max(high for _, high in ranges)
    return reach


def check_limits(network: Built, rows: np.ndarray, scaling: Scaling) -> None:
    """Limits at some rows (user's units): finite, and the lower one below the upper one."""
    try:
        ends = jax.vmap(network.limits)(jnp.asarray(scaling.inputs(rows), float))
    except jax.errors.JAXTypeError as error:
        names = sorted({limit.rule for limit in network.plan.limits if callable(limit.formula)})
        raise KnowledgeError(
            f"rule {' or '.join(map(repr, names))}: cannot be met by construction: its callable is "
            "not made of jax.numpy and arithmetic alone; write it so, or as text"
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
