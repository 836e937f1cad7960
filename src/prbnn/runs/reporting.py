"""A run as the subject of a report."""

from __future__ import annotations

from pathlib import Path

from prbnn.report.subject import Subject
from prbnn.runs.checking import kept_certificate
from prbnn.runs.run import Run


def report_subject(run: Run) -> Subject:
    """The subject that `prbnn.report.page` makes a page of."""
    folder = "run" if run.folder is None else str(run.folder)
    of = () if run.identity is None else (f"of the run whose model has the sha256 {run.identity}",)
    return Subject(
        run.model,
        run.plain,
        run.inputs,
        run.targets,
        run.held_out,
        f"{run.plan.target}, from {Path(run.plan.data).name}",
        run.units,
        run.plan.command(folder),
        (*run.notes, *of),
        run.rows,
        run.exact,
        kept_certificate(run),
    )
