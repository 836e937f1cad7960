"""Before JAX starts: tests compile many small programs that run briefly, so compile them lightly."""

import os

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")


@pytest.fixture(autouse=True, scope="module")
def let_go_of_programs():
    """Thousands of compiled programs in one process exhaust its memory maps, and XLA then crashes."""
    yield
    import jax

    jax.clear_caches()
