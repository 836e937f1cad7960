"""A pytest plugin for coverage: which tests ran each line, and how long each test took.

``make coverage`` runs it. Every line has the names of its tests as contexts, and the file that
``TEST_TIMES`` names gets a line of JSON per test: its name, processor time and whether it passed.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import coverage
import pytest

FAILED: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember tests that failed, or that a fixture of theirs did."""
    if not report.passed:
        FAILED.add(report.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Everything that runs for a test, with its fixtures, in a context of the test's name."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(item.nodeid)
    began = time.process_time()
    outcome = yield
    seconds = round(time.process_time() - began, 4)
    if measuring is not None:
        measuring.switch_context("")
    if "TEST_TIMES" in os.environ:
        told = {"test": item.nodeid, "seconds": seconds, "passed": item.nodeid not in FAILED}
        with Path(os.environ["TEST_TIMES"]).open("a") as file:
            file.write(json.dumps(told) + "\n")
    return outcome
