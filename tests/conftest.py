"""Before JAX starts: quick tests fit small models, so compile lightly and check draws at fewer points.

`make test-slow` sets XLA_FLAGS to nothing: slow tests run what users run.
"""

import gc
import os
from importlib.metadata import version
from pathlib import Path

import pytest

FLAGS = "--xla_backend_optimization_level=1 --xla_cpu_parallel_codegen_split_count=1"
# XLA ends the process at a flag that it does not know, and pytest keeps what it says of that
if version("jaxlib") < "0.11":
    FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", FLAGS)
QUICK = os.environ["XLA_FLAGS"] == FLAGS
if QUICK:
    # one thread for XLA: programs are small, and each core has a worker of its own
    os.environ.setdefault("NPROC", "1")
    from prbnn.posterior import checks

    # a fit of 0.1 s would be followed by 2 s of checks
    checks.CHECK_POINTS //= 4
    from prbnn.fitting import tempering

    # and follow on a race of 3 s
    tempering.LONGER = ()
# tracing makes many short-lived objects: collecting them more rarely saves 1/15 of a run
gc.set_threshold(20_000, 10, 5)
# of the 65,530 that Linux gives a process; one file of tests makes 20,000 at most
MOST_MAPS = 25_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Programs of tests marked `light` are compiled without optimisation, and those of their fixtures."""
    import jax

    light = QUICK and item.get_closest_marker("light") is not None
    jax.config.update("jax_disable_most_optimizations", light)
    return (yield)


@pytest.fixture(scope="module")
def short_race():
    """Fits that choose their own tempering, where it does not matter which one they choose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prbnn.fitting.tempering.STEPS", 150)
        yield


@pytest.fixture(autouse=True, scope="module")
def let_go_of_programs():
    """Thousands of compiled programs in one process exhaust its memory maps, and XLA then crashes."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST_MAPS:
        import jax

        jax.clear_caches()
        gc.collect()
