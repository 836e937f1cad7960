"""A progress bar with live loss and violation; quiet where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from prbnn.solution import Progress


class Reporter(Protocol):
    """Told what a fit is doing."""

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


@contextmanager
def progress_bar(verbose: bool | None) -> Generator[Reporter]:
    """A live bar on standard error if asked for, or if it is a terminal and nothing was said."""
    show = sys.stderr.isatty() if verbose is None else verbose
    if not show:
        yield Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None, detail="")

        class Live:
            def stage(self, name: str) -> None:
                bar.update(task, description=name, detail="")

            def update(self, progress: Progress) -> None:
                bar.update(
                    task,
                    description="training",
                    total=progress.steps,
                    completed=progress.step,
                    detail=(
                        f"loss {-progress.elbo:.1f}  violation {progress.violation:.1e}  "
                        f"draws broken {progress.share_broken:.0%}"
                    ),
                )

        yield Live()
