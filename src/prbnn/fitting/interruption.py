"""Ctrl-C that keeps what was learned: the first one ends training after the present chunk of steps."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

# the exit status of a program that Ctrl-C has ended
DROPPED = 130
_asked = False


@contextmanager
def graceful(said: str, left: str) -> Generator[None]:
    """While this lasts, one Ctrl-C requests an early end and prints ``said``.

    A second one prints ``left`` and exits.
    """
    global _asked
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: Any) -> None:
        global _asked
        if _asked:
            # not an exception: it would unwind through compiled code that is still running
            print(f"\n{left}", file=sys.stderr, flush=True)
            os._exit(DROPPED)
        _asked = True
        print(f"\n{said}", file=sys.stderr, flush=True)

    _asked = False
    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        _asked = False
        signal.signal(signal.SIGINT, usual)


def asked() -> bool:
    """Whether an early end was requested."""
    return _asked
