"""A pytest plugin for coverage: which test ran each line, and how long each test took.

``PYTHONPATH=.ci coverage run -m pytest -p which_tests`` gives every line the names of its tests as
contexts, and adds a line of JSON per test to the file that ``TEST_TIMES`` names, if there is one.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import coverage
import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Everything that runs for a test, with its fixtures, in a context of the test's name."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(item.nodeid)
    began = time.process_time()
    outcome = yield
    if "TEST_TIMES" in os.environ:
        took = {"test": item.nodeid, "seconds": round(time.process_time() - began, 4)}
        with Path(os.environ["TEST_TIMES"]).open("a") as file:
            file.write(json.dumps(took) + "\n")
    if measuring is not None:
        measuring.switch_context("")
    return outcome
