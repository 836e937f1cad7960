"""Which of many alike cases run every time."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """All cases as parameters; those that are not named run among the slow tests."""
    cases = list(cases)
    assert all(case in cases for case in kept), kept
    return [case if case in kept else pytest.param(case, marks=pytest.mark.slow) for case in cases]
