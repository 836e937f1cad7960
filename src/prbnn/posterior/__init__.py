"""Draws of whole functions: prediction, checking, conditioning and diagnostics."""
