"""Counting what XLA compiles."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Names of what XLA compiles meanwhile."""
    names: list[str] = []

    def listen(event: str, duration: float, **rest) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(str(rest.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
