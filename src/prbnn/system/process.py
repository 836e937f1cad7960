"""Refuses computation in a process that was forked after JAX was used.

A fork copies memory but not threads. JAX's threads do not exist in the child, and the locks they held
stay locked there: the child's first computation would wait forever.
"""

from __future__ import annotations

import os

from prbnn.errors import ForkedError

_computes: int | None = None


def computing() -> None:
    """Note that this process computes; raise in a child that was forked after its parent did."""
    global _computes
    if _computes is None:
        _computes = os.getpid()
    elif _computes != os.getpid():
        raise ForkedError(
            f"this process (pid {os.getpid()}) was forked from one (pid {_computes}) that had used "
            "prbnn, and would wait forever: JAX's threads are not copied by a fork. Start processes "
            "with multiprocessing.get_context('spawn'), use joblib's default backend 'loky' instead "
            "of 'multiprocessing', or fork before the first fit, prediction or load"
        )
