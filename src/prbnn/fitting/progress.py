"""A progress bar with live loss and violation; silent where standard error is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from prbnn.fitting.result import Progress
from prbnn.system.printing import printable


class Reporter(Protocol):
    """Is called while a fit runs."""

    def stage(self, name: str) -> None:
        """A new stage begins."""
        ...

    def update(self, progress: Progress) -> None:
        """Training has moved on."""
        ...


class Silent:
    """Shows nothing."""

    def stage(self, name: str) -> None:
        pass

    def update(self, progress: Progress) -> None:
        pass


def _detail(progress: Progress) -> str:
    return (
        f"loss {-progress.elbo:.1f}  violation {progress.violation:.1e}  "
        f"draws broken {progress.share_broken:.0%}"
    )


def _of_rule(violation: float, broken: float) -> str:
    return f"violation {violation:.1e}  {broken:.0%} of draws"


class LogLines:
    """Plain lines for a log file, one per tenth of the steps."""

    def __init__(self) -> None:
        self.tenth = -1

    def stage(self, name: str) -> None:
        print(name, file=sys.stderr, flush=True)

    def update(self, progress: Progress) -> None:
        tenth = 10 * progress.step // progress.steps
        if tenth != self.tenth:
            self.tenth = tenth
            place = f"training {progress.step}/{progress.steps}"
            print(f"{place}  {_detail(progress)}", file=sys.stderr, flush=True)
            for name, violation, broken in progress.rules:
                print(
                    f"  {printable(name)}: {_of_rule(violation, broken)}",
                    file=sys.stderr,
                    flush=True,
                )


@contextmanager
def progress_bar(verbose: bool | None) -> Generator[Reporter]:
    """A live bar on standard error where ``verbose``; by default where that is a terminal."""
    watched = sys.stderr.isatty()
    if verbose is False or (verbose is None and not watched):
        yield Silent()
        return
    if not watched:
        yield LogLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None, detail="")
        obeyed: dict[str, TaskID] = {}

        class Live:
            def stage(self, name: str) -> None:
                bar.update(task, description=name, detail="")

            def update(self, progress: Progress) -> None:
                bar.update(
                    task,
                    description="training",
                    total=progress.steps,
                    completed=progress.step,
                    detail=_detail(progress),
                )
                for name, violation, broken in progress.rules:
                    if name not in obeyed:
                        obeyed[name] = bar.add_task(
                            f"  {printable(name)[:30]}", total=1.0, detail=""
                        )
                    detail = _of_rule(violation, broken)
                    bar.update(obeyed[name], completed=1 - broken, detail=detail)

        yield Live()
