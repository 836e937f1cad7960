"""A forked child refuses to compute, with the remedy, where it would hang; other children compute."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from prbnn import MLP, ForkedError, fit
from prbnn.system.process import computing, one_blas_thread, side_by_side

PARENT = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import prbnn
from prbnn import AtLeast, MLP, PRBNNRegressor

x = np.linspace(0, 1, 12)[:, None]
model = PRBNNRegressor(
    MLP((2,)), [AtLeast(0).soft(1.0)], tempering=0.2, steps=5, draws=5, random_state=0
)
{before}
child = os.fork()
if child == 0:
    # ends a child that hangs, whatever it waits for
    signal.alarm(60)
    calls = {{
        "predict": lambda: model.predict(x),
        "fit": lambda: model.fit(x, x.ravel()),
        "certify": lambda: model.certify(1.0),
        "load": lambda: prbnn.load("nowhere.prbnn"),
    }}
    for name in {asked}:
        try:
            calls[name]()
            print(name, "computed", flush=True)
        except RuntimeError as error:
            print(name, "refused", "spawn" in str(error) and "loky" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
if {before!r}:
    print("parent", model.predict(x).shape, flush=True)
"""


def forked(before: str, asked: list[str]) -> list[str]:
    """What a forked child says; a child that hangs is ended, and fails the test."""
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", PARENT.format(before=before, asked=asked)],
        env={**os.environ, "PYTHONPATH": source, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_after_a_fit_refuses_to_compute() -> None:
    found = forked("model.fit(x, x.ravel())", ["predict", "fit", "certify", "load"])
    refused = [f"{name} refused True" for name in ("predict", "fit", "certify", "load")]
    assert found == [*refused, "parent (12,)"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_before_any_computation_computes() -> None:
    assert forked("", ["fit", "predict"]) == ["fit computed", "predict computed"]


def test_the_process_that_computed_first_goes_on(monkeypatch) -> None:
    computing()
    computing()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ForkedError, match=r"get_context\('spawn'\)"):
        computing()


@pytest.mark.parametrize("double", [True, False])
def test_threads_compute_with_the_precision_of_their_caller(double):
    with jax.enable_x64(double):
        kinds = side_by_side(lambda value: jnp.asarray(value).dtype, [0.1, 0.2, 0.3])
    assert kinds == [jnp.float64 if double else jnp.float32] * 3


def blas_threads() -> set[int]:
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def test_fits_that_overlap_lift_the_limit_once_the_last_one_ends() -> None:
    """A limit of each fit by itself would be lifted by the first to end, or never."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_blas_thread():
            inside.set()
            leave.wait(20)

    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS has one thread here")
        thread = threading.Thread(target=other)
        with one_blas_thread():
            thread.start()
            assert inside.wait(20)
        assert blas_threads() == {1}
        leave.set()
        thread.join()
        assert blas_threads() == {2}
        limited = []
        thread = threading.Thread(target=one_blas_thread()(lambda: limited.append(blas_threads())))
        thread.start()
        thread.join()
        assert (limited, blas_threads()) == ([{1}], {2})


def test_the_limit_is_lifted_after_an_error() -> None:
    before = blas_threads()
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert blas_threads() == before


@pytest.mark.light
def test_laplace_has_the_same_bits_on_any_number_of_blas_threads() -> None:
    """Eigenvectors of its 101 rows differ between one thread of LAPACK and two."""
    x = np.random.default_rng(0).uniform(size=(40, 2))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            solution = fit(MLP((100,)), x, x @ [1, 0.5], inference="laplace", steps=2, draws=4)
        found.append(solution.posterior.draws)
    assert np.array_equal(*found)


def test_one_module_alone_counts_cores() -> None:
    """Work that is split by the number of cores has other bits on another machine."""
    source = Path(__file__).parents[2] / "src" / "prbnn"
    counting = re.compile(r"cpu_count|sched_getaffinity|device_count")
    found = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if counting.search(path.read_text())
    ]
    assert found == ["system/process.py"]
