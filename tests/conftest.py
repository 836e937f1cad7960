"""Before JAX starts: tests compile many small programs that run briefly, so compile them lightly."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
