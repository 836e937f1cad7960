"""Which rules cannot hold together, found before any training."""
