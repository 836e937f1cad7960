"""Work on several cores, with the bits of one; no computation in a process forked after JAX was used.

A fork copies memory but not threads. JAX's threads do not exist in the child, and the locks they held
stay locked there: the child's first computation would wait forever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from threadpoolctl import OpenBLASController, threadpool_limits

from prbnn.errors import ForkedError

Part = TypeVar("Part")
Found = TypeVar("Found")

_computes: int | None = None
_blas = Lock()
_users = 0
_limits: threadpool_limits | None = None


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


@contextmanager
def one_blas_thread() -> Generator[None]:
    """While this lasts, BLAS and LAPACK compute on one thread, whatever the number of cores.

    Their results differ in the last bits with the number of threads (eigenvalues of a matrix of 101
    rows do), and small matrices take longer on several threads, which wait for each other. The limit is
    one of the whole process: of fits that run at the same time, the last one to end lifts it.

    >>> with one_blas_thread():
    ...     values = side_by_side(abs, [-1, 2])
    """
    global _users, _limits
    # JAX calls SciPy's LAPACK, which must be loaded before it can be limited
    import scipy.linalg  # noqa: F401

    with _blas:
        if not _users:
            _let_any_thread_limit()
            _limits = threadpool_limits(1, "blas")
        _users += 1
    try:
        yield
    finally:
        with _blas:
            _users -= 1
            if not _users and _limits is not None:
                _let_any_thread_limit()
                _limits.restore_original_limits()
                _let_any_thread_limit()
                _limits = None


def _let_any_thread_limit() -> None:
    """Let the present thread set limits of OpenBLAS.

    From 3.8 on, threadpoolctl ignores all threads but the one that set the last limit; of fits in
    several threads, the one that ends last need not be the one that began first.
    """
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
