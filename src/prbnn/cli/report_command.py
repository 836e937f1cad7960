"""`prbnn report`: one HTML page about a run."""

from __future__ import annotations

from pathlib import Path

from prbnn.report.page import write_report
from prbnn.runs.reporting import report_subject
from prbnn.runs.run import open_run
from prbnn.system.exits import exiting_on_errors
from prbnn.system.terminal import Screen


def run(folder: Path, out: Path | None, pictures: bool) -> None:
    """Write the page to ``out``, or into the run's folder, and print where it is.

    ``pictures`` says whether every plot is also written as a PNG file.
    """
    console = Screen()
    with exiting_on_errors():
        opened = open_run(folder)
        with console.status("drawing"):
            page = write_report(report_subject(opened), out or folder, pictures)
    console.print(f"Report: {page.resolve()}", soft_wrap=True)
