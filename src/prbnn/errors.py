"""The errors and warnings of prbnn; messages say what was received, what is needed, what to do."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Sequence


class DataError(ValueError):
    """The data cannot be used as they are: the message names the column and the remedy.

    `column` is the name of the column at fault, None where no single column is.
    """

    def __init__(self, message: str, column: str | None = None):
        super().__init__(message)
        self.column = column


class NotNumbersError(DataError, TypeError):
    """A cell holds an object that is neither a number nor text."""


class KnowledgeError(ValueError):
    """A rule cannot be used as it is stated: the message names the rule and the remedy.

    `rule` is the name of the rule and `column` the column at fault, each None where there is none.
    """

    def __init__(self, message: str, rule: str | None = None, column: str | None = None):
        super().__init__(message)
        self.rule = rule
        self.column = column

    def named(self, rule: str) -> KnowledgeError:
        """The same error with the name of the ``rule`` in front; unchanged where it has one already."""
        if self.rule is not None:
            return self
        return type(self)(f"rule {rule!r}: {self}", rule=rule, column=self.column)


class ModelFileError(ValueError):
    """A model file cannot be written or read: the message says what is wrong with it and the remedy."""


class NotKeptError(DataError, KnowledgeError):
    """Training rows are needed that were left out of a model file."""

    def __init__(self, message: str, rule: str | None = None, column: str | None = None):
        KnowledgeError.__init__(self, message, rule, column)


class InfeasibleError(RuntimeError):
    """No posterior of the family satisfies the rules.

    `rules` names those that stay broken; `solution` is the state in which the fit ended.
    """

    def __init__(self, message: str, rules: Sequence[str] = (), solution: object = None):
        super().__init__(message)
        self.rules = tuple(rules)
        self.solution = solution


class DivergedError(RuntimeError):
    """Training produced NaN or infinite numbers; `solution` holds the last finite state."""

    def __init__(self, message: str, solution: object = None):
        super().__init__(message)
        self.solution = solution


class ForkedError(RuntimeError):
    """The process was forked from one that had used JAX, whose threads are not copied: it would hang."""


class NotEnclosedError(KnowledgeError):
    """Nothing can be proved about a rule, a network or an operation, which the message names."""


class CertificateError(ValueError):
    """A certificate is damaged, newer than this library, or of another model."""


class CertificateWarning(UserWarning):
    """A certificate was left out, since it is not of the model it came with."""


class CheckpointError(ValueError):
    """Checkpoints are of another fit, damaged, or in a folder that cannot be written."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; the fit goes on without it."""


class CollapseWarning(UserWarning):
    """A fit converged onto its prior, and explains almost nothing of the data."""


def is_number(value: object) -> bool:
    """Whether ``value`` is a real number; text, booleans and None are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def shortened(value: object, most: int = 200) -> str:
    """The repr of ``value`` for a message, cut after ``most`` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint for a misspelt ``name``: the nearest of the ``known`` ones, or all of them.

    >>> nearest("irradiace", ["irradiance", "wind"])
    "; did you mean 'irradiance'?"
    """
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known names: {', '.join(map(repr, known))}" if known else ""
