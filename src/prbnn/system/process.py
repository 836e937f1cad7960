"""Work on several cores, and no computation in a process that was forked after JAX was used.

A fork copies memory but not threads. JAX's threads do not exist in the child, and the locks they held
stay locked there: the child's first computation would wait forever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from prbnn.errors import ForkedError

Part = TypeVar("Part")
Found = TypeVar("Found")

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


def side_by_side(one: Callable[[Part], Found], parts: Sequence[Part]) -> list[Found]:
    """``one`` of each part, in order, on as many threads as there are cores.

    A compiled program of a small network runs on one core, and Python's lock is free while it does.
    A thread does not inherit ``jax.enable_x64``, so each computes with the precision of the caller.

    >>> side_by_side(abs, [-1, 2])
    [1, 2]
    """
    if len(parts) < 2:
        return [one(part) for part in parts]
    import jax
    import jax.numpy as jnp

    double = jnp.result_type(float) == jnp.float64

    def with_precision(part: Part) -> Found:
        with jax.enable_x64(double):
            return one(part)

    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        return list(pool.map(with_precision, parts))
