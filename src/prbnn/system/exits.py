"""Exit codes of the commands, and errors as a message instead of a traceback."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from prbnn.errors import (
    CertificateError,
    CheckpointError,
    DataError,
    DivergedError,
    InfeasibleError,
    KnowledgeError,
    ModelFileError,
)
from prbnn.system.terminal import echo

BAD_INPUT, INFEASIBLE, DIVERGED = 2, 3, 4


@contextmanager
def exiting_on_errors() -> Generator[None]:
    """Print an error raised inside to standard error and exit: 2 bad input, 3 infeasible, 4 diverged."""
    try:
        yield
    except InfeasibleError as error:
        _leave(str(error), INFEASIBLE)
    except DivergedError as error:
        _leave(str(error), DIVERGED)
    except (
        DataError,
        KnowledgeError,
        ModelFileError,
        CertificateError,
        CheckpointError,
    ) as error:
        _leave(str(error), BAD_INPUT)
    except OSError as error:
        message = str(error) if error.filename is None else f"{error.filename}: {error.strerror}"
        _leave(message, BAD_INPUT)


def _leave(message: str, code: int) -> None:
    echo(f"Error: {message}", err=True)
    raise typer.Exit(code)
