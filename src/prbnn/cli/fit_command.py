"""`prbnn fit`: from a file and rules to a folder with fitted models."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import typer
from rich.table import Table

from prbnn.errors import (
    CheckpointWarning,
    DataError,
    DivergedError,
    InfeasibleError,
    KnowledgeError,
    nearest,
)
from prbnn.estimators.automatic import AUTO
from prbnn.fitting.checkpoints import EVERY
from prbnn.fitting.interruption import graceful
from prbnn.inference import ENGINES
from prbnn.model.truncation import checked_window
from prbnn.runs.names import parse_names
from prbnn.runs.plan import RunPlan
from prbnn.runs.preparing import Prepared, prepare_run
from prbnn.runs.records import write_record
from prbnn.runs.resuming import begin, drop, go_on, is_unfinished
from prbnn.runs.run import Run, fit_run
from prbnn.system.disk import locked
from prbnn.system.exits import exiting_on_errors
from prbnn.system.terminal import Screen, echo

NAMES = {
    "rmse": "root mean squared error",
    "crps": "CRPS (lower is better)",
    "coverage90": "fraction in the 90 % band",
    "accuracy": "accuracy",
    "log_loss": "log loss (lower is better)",
}


def plan_of(
    *, inputs: str, drop: str, hidden: str, noise: str, categories: str = "", **options: Any
) -> RunPlan:
    """A plan from the texts of the command line; text that cannot be read raises BadParameter.

    - ``inputs``, ``drop``, ``categories``: names of columns, separated by commas
    - ``hidden``: widths of the hidden layers, separated by commas; empty for the default
    - ``noise``: "learned", "by input" or a number above 0
    - ``options``: the other fields of the plan
    """
    try:
        layers = tuple(int(size) for size in hidden.split(",") if size.strip()) or None
    except ValueError:
        layers = (0,)
    if layers is not None and min(layers) < 1:
        raise typer.BadParameter(f"--hidden takes whole numbers such as 64,32; got {hidden!r}")
    if noise not in ("learned", "by input") and not _above_zero(noise):
        raise typer.BadParameter(
            f"--noise is learned, 'by input' or a number above 0; got {noise!r}"
        )
    if options["engine"] not in (AUTO, *ENGINES):
        raise typer.BadParameter(
            f"no engine {options['engine']!r}{nearest(options['engine'], (AUTO, *ENGINES))}"
        )
    truncated = options.get("truncated")
    if truncated is not None and not _is_window(truncated):
        raise typer.BadParameter(
            "--truncated is low:high with one of them left out if it is open, such as 0: or 0:100; "
            f"got {truncated!r}"
        )
    knowledge = options.pop("knowledge")
    return RunPlan(
        data=str(options.pop("data")),
        knowledge=None if knowledge is None else str(knowledge),
        inputs=parse_names(inputs),
        drop=parse_names(drop),
        categories=parse_names(categories),
        hidden=layers,
        noise=noise,
        **options,
    )


def _is_window(text: str) -> bool:
    try:
        window = RunPlan("", "", truncated=text).window
        return checked_window("--truncated", window) is not None
    except ValueError:
        return False


def _above_zero(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def run(
    plan: RunPlan,
    out: Path,
    records: Path | None,
    quiet: bool,
    *,
    resume: bool = False,
    every: float = EVERY,
) -> None:
    """Read the file, fit, save the run in ``out`` and print what came of it.

    ``records`` is a file for the outcome as JSON; ``quiet`` prints errors only. ``resume`` goes on with
    the unfinished fit in ``out``, whose checkpoints are written ``every`` so many seconds.
    """
    console = Screen(quiet=quiet, soft_wrap=True)
    began = time.perf_counter()
    command = f"{plan.command(str(out))} --resume"
    with exiting_on_errors(), locked(out):
        _check_place(records)
        prepared = prepare_run(plan)
        rows, width = prepared.inputs.shape
        console.print(f"{rows} rows, {width} input columns, target {plan.target!r}")
        for note in prepared.notes:
            console.print(f"- {note}")

        def say(what: str) -> None:
            console.print(f"{what} ...")

        kept = _checkpoints(out, prepared, resume, say)
        if kept is None:
            console.print(f"The run in {out} is finished; to fit it anew, leave out --resume")
            return
        said = "stopping soon, and keeping what was learned; Ctrl-C again stops at once"
        with graceful(said, f"stopped; to go on from the last checkpoint: {command}"), _told():
            try:
                done = fit_run(prepared, say, False if quiet else None, kept, every)
            except (DivergedError, InfeasibleError):
                drop(out)
                raise
            except (DataError, KnowledgeError):
                # refused before it began: there is nothing to go on with
                if not resume:
                    drop(out)
                raise
        done.save(out, held=True)
        if not done.is_unfinished:
            drop(out)
        if records is not None:
            write_record(records, _record(done, time.perf_counter() - began))
    for note in done.notes[len(prepared.notes) :]:
        console.print(f"- {note}")
    if prepared.rules:
        console.print(str(done.model.knowledge_report_))
    elif done.model.result_.status != "converged":
        console.print(str(done.model.result_))
    for which, message in warnings_of(done):
        console.print(f"Warning, {which}: {message}")
    console.print(score_table(done))
    folder = shlex.quote(str(out))
    console.print(f"Saved in {out}. Next:")
    console.print(f"  prbnn report {folder}")
    console.print(f"  prbnn predict {folder} new.csv --out predictions.csv")
    if done.is_unfinished:
        console.print(f"To go on to the end: {command}")


def _checkpoints(
    out: Path, prepared: Prepared, resume: bool, say: Callable[[str], None]
) -> Path | None:
    """Where the checkpoints of a fit are kept; None where it is to be resumed and is finished."""
    unfinished = is_unfinished(out)
    if not resume:
        if unfinished:
            say(f"beginning anew; --resume would go on with the unfinished fit in {out}")
        return begin(out, prepared)
    kept = go_on(out, prepared)
    if kept is not None:
        say("going on from the last checkpoint" if unfinished else "nothing to resume: beginning")
    return kept


@contextmanager
def _told() -> Generator[None]:
    """Checkpoints that could not be written or read are told at once, as a line."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, CheckpointWarning):
            echo(f"Warning: {message}", err=True)
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.showwarning = show  # ty: ignore[invalid-assignment]
        yield


def _check_place(records: Path | None) -> None:
    """Raise before the fit where ``records`` cannot be written (the folder can be: it is locked)."""
    if records is None:
        return
    there = records.exists()
    records.open("a").close()
    if not there:
        records.unlink()


def warnings_of(done: Run) -> list[tuple[str, str]]:
    """The name of the model and the text of every warning in the results of a run."""
    models = {"the model": done.model, "the plain network": done.plain}
    return [
        (name, message)
        for name, model in models.items()
        if model is not None
        for message in model.result_.warnings
    ]


def score_table(done: Run) -> Table:
    """Errors on the held-out rows, with and without knowledge."""
    _, targets, which = done.scored_rows()
    table = Table(
        title=f"On {len(targets)} {which} rows", header_style="bold", title_justify="left"
    )
    table.add_column("")
    headings = {"model": "with knowledge" if done.plain is not None else "model", "plain": "plain"}
    for name in done.scores:
        table.add_column(headings[name], justify="right")
    for measure in done.scores["model"]:
        found = (f"{scores[measure]:.4g}" for scores in done.scores.values())
        table.add_row(NAMES[measure], *found)
    return table


def _record(done: Run, seconds: float) -> dict[str, Any]:
    report = done.model.knowledge_report_
    return {
        "status": done.model.result_.status,
        "message": done.model.result_.message,
        "warnings": list(done.model.result_.warnings),
        "rows": len(done.targets),
        "held_out": int(done.held_out.sum()),
        "inputs": list(done.encoding.inputs),
        "scores": done.scores,
        "acceptance": done.model.acceptance_,
        "tempering": done.model.tempering_,
        "rules": [
            {
                "rule": rule.name,
                "strength": rule.strength,
                "violation": rule.violation,
                "share_of_draws_violating": rule.stored_share,
                "raw_share": rule.raw_share,
                "dual": rule.dual,
                "verdict": rule.verdict,
                "because": rule.because,
            }
            for rule in report
        ],
        "seconds": seconds,
    }
