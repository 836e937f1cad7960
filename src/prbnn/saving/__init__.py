"""Fitted models on disk: weights as safetensors, everything else as JSON, and nothing that runs."""
