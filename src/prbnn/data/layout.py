"""How a row holds a sequence, so that rules, engines and draws need not know of time.

A row holds the observed steps one after another, then the static columns, then the fraction of steps
that were observed. Step 0 is the last observed step, step 1 the first one ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from prbnn.errors import KnowledgeError, nearest

OBSERVED = "share of steps observed"

# the steps ahead that a rule is about: None is all of them
At = int | str | Sequence[int] | None


def listed(at: Any) -> tuple:
    """One or several steps as a tuple.

    >>> listed(3), listed([1, 2])
    ((3,), (1, 2))
    """
    return tuple(at) if hasattr(at, "__iter__") else (at,)


def _is_step(step: object) -> bool:
    return isinstance(step, Integral) and not isinstance(step, bool)


@dataclass(frozen=True)
class Layout:
    """``variables`` observed for ``history`` steps, and ``outputs`` to predict for ``ahead`` steps.

    `static` are the columns that do not change along a sequence. ``ahead=0`` is one output vector per
    sequence.

    >>> flight = Layout(("altitude", "speed"), 2, ("weight",), ("altitude",), 3)
    >>> flight.inputs
    ('altitude[-1]', 'speed[-1]', 'altitude[0]', 'speed[0]', 'weight', 'share of steps observed')
    >>> flight.targets
    ('altitude[1]', 'altitude[2]', 'altitude[3]')
    """

    variables: tuple[str, ...]
    history: int
    static: tuple[str, ...]
    outputs: tuple[str, ...]
    ahead: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of a row's columns."""
        steps = range(1 - self.history, 1)
        named = (f"{variable}[{step}]" for step in steps for variable in self.variables)
        return (*named, *self.static, OBSERVED)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the outputs at each step, step by step."""
        steps = range(1, self.ahead + 1)
        named = tuple(f"{output}[{step}]" for step in steps for output in self.outputs)
        return named or self.outputs

    def steps(self, at: At) -> tuple[int, ...]:
        """The steps ahead that ``at`` names.

        >>> Layout(("a",), 2, (), ("a",), 3).steps("last")
        (3,)
        """
        last = max(self.ahead, 1)
        if at is None:
            return tuple(range(1, last + 1))
        found = {"first": (1,), "last": (last,)}.get(at, ()) if isinstance(at, str) else listed(at)
        if not found or not all(_is_step(step) and 1 <= step <= last for step in found):
            raise KnowledgeError(
                f"at={at!r} must be 'first', 'last', or one or several steps from 1 to {last}"
            )
        return tuple(int(step) for step in found)

    def positions(self, output: str | None, at: At = None) -> tuple[int, ...]:
        """Positions among the targets of the steps ``at`` of an output (the only one if None)."""
        if output is None:
            if len(self.outputs) > 1:
                raise KnowledgeError(
                    f"there are several outputs ({', '.join(self.outputs)}); say which one with of="
                )
            output = self.outputs[0]
        if output not in self.outputs:
            raise KnowledgeError(
                f"no output {output!r}{nearest(output, self.outputs)}", column=output
            )
        place = self.outputs.index(output)
        return tuple((step - 1) * len(self.outputs) + place for step in self.steps(at))

    def observed(self, variable: str) -> tuple[int, ...]:
        """Positions in a row of the observed steps of a variable, the oldest first."""
        if variable not in self.variables:
            raise KnowledgeError(
                f"{variable!r} was not observed before; observed: {', '.join(self.variables)}",
                column=variable,
            )
        place = self.variables.index(variable)
        return tuple(step * len(self.variables) + place for step in range(self.history))
