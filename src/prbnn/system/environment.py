"""What computes: the versions and the machine on which the last bits of a fit depend."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

# libraries that compute a part of a fit
LIBRARIES = (
    "prbnn",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "equinox",
    "optax",
    "blackjax",
    "scikit-learn",
)


def environment() -> dict[str, str]:
    """Versions of Python and the libraries, and the machine, as a fit finds them.

    "device" is what JAX computes on, "precision" that of new arrays, and "xla_flags" are compiler flags
    from outside, where there are any.

    >>> environment()["precision"]
    'float32'
    """
    import jax
    import jax.numpy as jnp

    flags = os.environ.get("XLA_FLAGS", "").strip()
    return {
        **{library: version_of(library) for library in LIBRARIES},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "device": jax.devices()[0].device_kind,
        "precision": str(jnp.result_type(float)),
        **({"xla_flags": flags} if flags else {}),
    }


def version_of(library: str) -> str:
    """The version that is installed; "unknown" where none is."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "unknown"


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "an unnamed processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
