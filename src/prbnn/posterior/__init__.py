"""Draws of whole functions: prediction, checking and conditioning."""
