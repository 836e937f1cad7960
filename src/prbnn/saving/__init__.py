"""Model files: weights as safetensors, everything else as JSON, no code."""
